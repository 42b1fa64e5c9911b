//! The fields of a request, taken one by one, each error naming its field.

use fmail_api::{Error, ErrorKind, MessageId, Result, Since, Target, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The longest text of a field that is kept beside a message, such as the host's name.
const MAX_TEXT: usize = 255;

/// What is left of a request's object.
pub struct Fields(pub Map<String, Value>);

impl Fields {
    /// A field as it stands; `null` counts.
    pub fn raw(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// A field of this type; `null` counts as absent.
    pub fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| Error::invalid(format!("the field `{name}` cannot be used: {error}"))),
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
        if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the field `{name}` cannot be used: it has {} bytes, at most {MAX_TEXT} without control characters are \
                 allowed",
                text.len()
            )));
        }
        Ok(Some(text).filter(|text| !text.is_empty()))
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
