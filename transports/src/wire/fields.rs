//! The fields of a request, taken one by one, each error naming its field.

use std::fmt;

use fmail_api::{AgentName, Error, ErrorKind, MessageId, Priority, Result, Since, Target, Timestamp};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::decode::decode;

/// What a text in a field may be.
struct TextRule {
    /// The most bytes.
    max: usize,
    /// The control characters that it may have.
    controls: &'static [char],
}

/// A text that is kept beside a message, such as the host's name.
const SHORT: TextRule = TextRule { max: 255, controls: &[] };
/// A text that people write, or that names a path.
const LONG: TextRule = TextRule { max: 4096, controls: &['\n', '\t'] };
/// How many characters of an error that repeats what it found are passed on: a wrong value may be as long as a line.
const MAX_ERROR: usize = 300;

impl TextRule {
    fn check(&self, name: &str, text: &str) -> Result<()> {
        if text.len() <= self.max && !text.chars().any(|c| c.is_control() && !self.controls.contains(&c)) {
            return Ok(());
        }
        let beside = if self.controls.is_empty() { "" } else { " other than line breaks and tabs" };
        let found =
            format!("it has {} bytes, at most {} without control characters{beside} are allowed", text.len(), self.max);
        Err(unusable(name, &found))
    }
}

/// What is left of a request's object: a list. A request has a few fields, and to hash their names would cost more than to
/// look through them.
pub struct Fields(Vec<(String, Value)>);

/// From so many fields on, finding out which are there twice is left to a map.
const MANY: usize = 32;

impl Fields {
    /// The fields of this line; nothing when it is not a JSON object.
    pub fn of(text: &str) -> Option<Fields> {
        serde_json::from_str(text).ok()
    }

    /// A field as it stands; `null` counts.
    pub fn raw(&mut self, name: &str) -> Option<Value> {
        let place = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// A field of this type; `null` counts as absent.
    pub fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        match self.raw(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|error| unusable(name, &error)),
        }
    }

    /// A field that has to be there.
    pub fn required<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        self.optional(name)?.ok_or_else(|| missing(name))
    }

    /// A field, or its default.
    pub fn or_default<T: DeserializeOwned + Default>(&mut self, name: &str) -> Result<T> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// A short text without control characters.
    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        let Some(text) = self.optional::<String>(name)? else { return Ok(None) };
        SHORT.check(name, &text)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// A text of several lines perhaps, such as a question or a reason.
    pub fn long_text(&mut self, name: &str) -> Result<Option<String>> {
        let text = self.optional::<String>(name)?;
        text.iter().try_for_each(|text| LONG.check(name, text))?;
        Ok(text)
    }

    /// A list of patterns of paths.
    pub fn paths(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let paths = self.optional::<Vec<String>>(name)?;
        paths.iter().flatten().try_for_each(|path| LONG.check(name, path))?;
        Ok(paths)
    }

    /// Messages by their ids or the ends of them: one in `id`, or several in `ids`.
    pub fn ids(&mut self) -> Result<Option<Vec<String>>> {
        let ids = self.optional::<Vec<String>>("ids")?;
        ids.iter().flatten().try_for_each(|id| SHORT.check("ids", id))?;
        match (self.has("id"), ids) {
            (true, Some(_)) => Err(Error::invalid("`id` and `ids` exclude each other")),
            (true, None) => self.text("id")?.map(|id| Some(vec![id])).ok_or_else(|| missing("id")),
            (false, ids) => Ok(ids),
        }
    }

    /// The name of an agent, with or without its `@`.
    pub fn agent(&mut self, name: &str) -> Result<Option<AgentName>> {
        let Some(text) = self.optional::<String>(name)? else { return Ok(None) };
        let bare = text.trim();
        bare.strip_prefix('@').unwrap_or(bare).parse().map(Some)
    }

    /// Names of agents, each with or without its `@`.
    pub fn agents(&mut self, name: &str) -> Result<Vec<AgentName>> {
        let texts = self.or_default::<Vec<String>>(name)?;
        texts.iter().map(|text| text.trim()).map(|text| text.strip_prefix('@').unwrap_or(text).parse()).collect()
    }

    /// How urgent it is.
    pub fn priority(&mut self, name: &str) -> Result<Option<Priority>> {
        self.optional::<String>(name)?.map(|text| text.parse()).transpose()
    }

    /// A topic or `@agent` that has to be there.
    pub fn target(&mut self, name: &str) -> Result<Target> {
        self.required::<String>(name).and_then(|text| parse_target(&text))
    }

    /// A list of topics and agents.
    pub fn targets(&mut self, name: &str) -> Result<Vec<Target>> {
        self.or_default::<Vec<String>>(name)?.iter().map(|text| parse_target(text)).collect()
    }

    /// What to watch: nothing, an empty text and `*` all mean everything that the agent may see.
    pub fn topic(&mut self) -> Result<Option<Target>> {
        match self.optional::<String>("topic")?.as_deref().map(str::trim) {
            None | Some("" | "*") => Ok(None),
            Some(text) => parse_target(text).map(Some),
        }
    }

    /// A message id, a time, or a cursor of the store.
    pub fn since(&mut self) -> Result<Option<Since>> {
        let Some(text) = self.text("since")? else { return Ok(None) };
        if let Ok(id) = text.parse::<MessageId>() {
            return Ok(Some(Since::Id(id)));
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Some(Since::Time(time)));
        }
        // Only the store knows its cursors, and says `invalid_request` to what is none.
        Ok(Some(Since::Cursor(fmail_api::Cursor::new(text))))
    }

    /// Whether the field is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(found, value)| found == name && !value.is_null())
    }

    /// The same fields, this one of them replaced.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.raw(name);
        self.0.push((name.into(), json!(value)));
        self
    }

    /// The same fields, this one of them brought into the form in which the request has it.
    pub fn checked<T: Serialize>(
        mut self,
        name: &str,
        check: impl FnOnce(&mut Fields, &str) -> Result<Option<T>>,
    ) -> Result<Self> {
        Ok(match check(&mut self, name)? {
            Some(value) => self.with(name, value),
            None => self,
        })
    }

    /// The same fields, this one of them there.
    pub fn needing(self, name: &str) -> Result<Self> {
        if self.has(name) { Ok(self) } else { Err(missing(name)) }
    }

    /// What is left, read as one type.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T> {
        decode(self.0)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EachField)
    }
}

/// Takes the fields as they come. Of a name that comes twice the later field counts, as in any object.
struct EachField;

impl<'de> Visitor<'de> for EachField {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields: Vec<(String, Value)> = Vec::with_capacity(8);
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value()?;
            match fields.iter_mut().find(|(found, _)| *found == name) {
                Some((_, earlier)) => *earlier = value,
                None => fields.push((name, value)),
            }
            if fields.len() == MANY {
                let mut all: Map<String, Value> = fields.into_iter().collect();
                while let Some((name, value)) = map.next_entry()? {
                    all.insert(name, value);
                }
                return Ok(Fields(all.into_iter().collect()));
            }
        }
        Ok(Fields(fields))
    }
}

/// Whatever is wrong with a target, the answer is `invalid_topic`: the caller chose it, it is not who the caller is.
fn parse_target(text: &str) -> Result<Target> {
    text.parse().map_err(|error: Error| {
        let wrong = Error::new(ErrorKind::InvalidTopic, error.message());
        match error.help_text() {
            Some(help) => wrong.help(help),
            None => wrong,
        }
    })
}

/// The error for a field that is not there.
pub fn missing(name: &str) -> Error {
    Error::invalid(format!("missing {name}"))
}

/// The error for a field that says something else than it may.
pub fn unusable(name: &str, error: &impl fmt::Display) -> Error {
    let error = error.to_string();
    let mut told: String = error.chars().take(MAX_ERROR).collect();
    if told.len() < error.len() {
        told.push('…');
    }
    Error::invalid(format!("the field `{name}` cannot be used: {told}"))
}
