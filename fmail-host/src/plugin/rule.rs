//! The subset of JSON Schema in which a plugin says what its section may hold. A keyword outside of it is refused and not
//! ignored: the plugin's author relied on it.

use serde_json::{Map, Number, Value, json};

use super::json::{shown, word_for};
use crate::near::suggestion;

/// What one value may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub kind: Kind,
    pub description: Option<String>,
    pub default: Option<Value>,
    pub format: Option<ValueFormat>,
    /// The only values that are allowed; empty means all.
    pub choices: Vec<Value>,
}

/// The type of a value, with its bounds.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Text { min: Option<u64>, max: Option<u64> },
    Integer { min: Option<Number>, max: Option<Number> },
    Number { min: Option<Number>, max: Option<Number> },
    Switch,
    List(Box<Rule>),
    Section { properties: Vec<(String, Rule)>, required: Vec<String> },
}

/// What a text makes the plugin do, for which a project's own file has to be trusted: a secret too, since one that a clone
/// brings along would replace the user's and let in who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFormat {
    /// A file or a directory.
    Path,
    /// Something to run.
    Command,
    /// Something to connect to or to listen on.
    Address,
    /// A text that is never shown.
    Secret,
}

impl ValueFormat {
    const ALL: [ValueFormat; 4] = [ValueFormat::Path, ValueFormat::Command, ValueFormat::Address, ValueFormat::Secret];

    pub const fn word(self) -> &'static str {
        match self {
            ValueFormat::Path => "path",
            ValueFormat::Command => "command",
            ValueFormat::Address => "address",
            ValueFormat::Secret => "secret",
        }
    }
}

const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// The keywords that every type has.
const COMMON: [&str; 4] = ["type", "description", "default", "enum"];

/// The keywords of a type beside [`COMMON`].
fn keywords(kind: &str) -> &'static [&'static str] {
    match kind {
        "string" => &["minLength", "maxLength", "format"],
        "integer" | "number" => &["minimum", "maximum"],
        "array" => &["items", "format"],
        "object" => &["properties", "required", "additionalProperties"],
        _ => &[],
    }
}

impl Rule {
    /// Reads a rule; `at` is its place in the manifest, such as `config_schema.properties.path`.
    pub fn parse(value: &Value, at: &str) -> Result<Rule, String> {
        let Value::Object(map) = value else {
            return Err(format!("`{at}` is {}; expected an object", word_for(value)));
        };
        let kind = type_of(map, at)?;
        let allowed = || COMMON.iter().chain(keywords(kind)).copied();
        if let Some(unknown) = map.keys().find(|key| !allowed().any(|known| known == *key)) {
            return Err(format!(
                "`{at}` has the keyword `{}`, which a schema of type {kind} cannot have here; {}",
                unknown.escape_debug(),
                suggestion(unknown, allowed().collect::<Vec<_>>())
            ));
        }
        let read = Reading { map, at };
        Ok(Rule {
            kind: read.kind(kind)?,
            description: read.text("description")?,
            default: map.get("default").cloned(),
            format: read.format()?,
            choices: read.choices()?,
        })
    }

    /// The rule as JSON Schema, with what is implied.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("type".into(), self.type_name().into());
        let mut add = |key: &str, value: Option<Value>| value.map(|value| map.insert(key.into(), value));
        add("description", self.description.clone().map(Value::from));
        match &self.kind {
            Kind::Text { min, max } => {
                add("minLength", min.map(Value::from));
                add("maxLength", max.map(Value::from));
            }
            Kind::Integer { min, max } | Kind::Number { min, max } => {
                add("minimum", min.clone().map(Value::from));
                add("maximum", max.clone().map(Value::from));
            }
            Kind::Switch => {}
            Kind::List(items) => drop(add("items", Some(items.to_json()))),
            Kind::Section { properties, required } => {
                let named = properties.iter().map(|(name, rule)| (name.clone(), rule.to_json()));
                add("properties", Some(Value::Object(named.collect())));
                add("required", (!required.is_empty()).then(|| json!(required)));
                add("additionalProperties", Some(false.into()));
            }
        }
        add("format", self.format.map(|format| format.word().into()));
        add("enum", (!self.choices.is_empty()).then(|| Value::from(self.choices.clone())));
        add("default", self.default.clone());
        Value::Object(map)
    }

    fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Text { .. } => "string",
            Kind::Integer { .. } => "integer",
            Kind::Number { .. } => "number",
            Kind::Switch => "boolean",
            Kind::List(_) => "array",
            Kind::Section { .. } => "object",
        }
    }

    /// What is allowed, as an error says it.
    pub fn allowed(&self) -> String {
        if !self.choices.is_empty() {
            return self.choices.iter().map(shown).collect::<Vec<_>>().join(" or ");
        }
        match &self.kind {
            Kind::Text { min, max } => match (min, max) {
                (None, None) => "a text".into(),
                (min, max) => format!("a text{} characters", between(min.as_ref(), max.as_ref(), "of")),
            },
            Kind::Integer { min, max } => format!("a whole number{}", between(min.as_ref(), max.as_ref(), "from")),
            Kind::Number { min, max } => format!("a number{}", between(min.as_ref(), max.as_ref(), "from")),
            Kind::Switch => "true or false".into(),
            Kind::List(items) => format!("a list, each of it {}", items.allowed()),
            Kind::Section { .. } => "a section with keys of its own".into(),
        }
    }
}

/// The bounds, as an error says them.
fn between(min: Option<&impl ToString>, max: Option<&impl ToString>, word: &str) -> String {
    match (min, max) {
        (None, None) => String::new(),
        (Some(min), None) => format!(" {word} {} or more", min.to_string()),
        (None, Some(max)) => format!(" {word} at most {}", max.to_string()),
        (Some(min), Some(max)) => format!(" {word} {} to {}", min.to_string(), max.to_string()),
    }
}

fn type_of<'m>(map: &'m Map<String, Value>, at: &str) -> Result<&'m str, String> {
    match map.get("type") {
        Some(Value::String(word)) if TYPES.contains(&word.as_str()) => Ok(word),
        Some(Value::String(word)) => {
            Err(format!("`{at}.type` is \"{}\"; {}", word.escape_debug(), suggestion(word, TYPES)))
        }
        Some(other) => Err(format!("`{at}.type` is {}; expected one of {}", shown(other), TYPES.join(", "))),
        None => Err(format!("`{at}` has no `type`; expected one of {}", TYPES.join(", "))),
    }
}

/// Reads the keywords of one rule.
struct Reading<'a> {
    map: &'a Map<String, Value>,
    at: &'a str,
}

impl Reading<'_> {
    fn expected<T>(&self, key: &str, expected: &str) -> Result<T, String> {
        let got = self.map.get(key).map_or("nothing".into(), shown);
        Err(format!("`{}.{key}` is wrong: expected {expected}, got {got}", self.at))
    }

    fn kind(&self, kind: &str) -> Result<Kind, String> {
        Ok(match kind {
            "string" => Kind::Text { min: self.length("minLength")?, max: self.length("maxLength")? },
            "integer" => Kind::Integer { min: self.whole("minimum")?, max: self.whole("maximum")? },
            "number" => Kind::Number { min: self.number("minimum")?, max: self.number("maximum")? },
            "boolean" => Kind::Switch,
            "array" => match self.map.get("items") {
                Some(items) => Kind::List(Box::new(Rule::parse(items, &format!("{}.items", self.at))?)),
                None => return self.expected("items", "a schema for what is in the list"),
            },
            _ => self.section()?,
        })
    }

    fn section(&self) -> Result<Kind, String> {
        if !matches!(self.map.get("additionalProperties"), None | Some(Value::Bool(false))) {
            return self.expected("additionalProperties", "false, which is implied");
        }
        let properties = match self.map.get("properties") {
            None => Vec::new(),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(name, value)| match name.is_empty() || name.contains(|c: char| c == '.' || c.is_control()) {
                    true => self.expected("properties", "names that are not empty and have no dot"),
                    false => Ok((name.clone(), Rule::parse(value, &format!("{}.properties.{name}", self.at))?)),
                })
                .collect::<Result<_, String>>()?,
            Some(_) => return self.expected("properties", "an object"),
        };
        let required = match self.map.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) => names
                .iter()
                .map(|name| match name.as_str() {
                    Some(name) if properties.iter().any(|(known, _)| known == name) => Ok(name.to_string()),
                    _ => self.expected("required", "a list of names that stand in `properties`"),
                })
                .collect::<Result<_, String>>()?,
            Some(_) => return self.expected("required", "a list of names"),
        };
        Ok(Kind::Section { properties, required })
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.map.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => self.expected(key, "a text"),
        }
    }

    fn length(&self, key: &str) -> Result<Option<u64>, String> {
        match self.map.get(key).map(Value::as_u64) {
            None => Ok(None),
            Some(Some(number)) => Ok(Some(number)),
            Some(None) => self.expected(key, "a whole number from 0"),
        }
    }

    fn whole(&self, key: &str) -> Result<Option<Number>, String> {
        match self.map.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(Some(number.clone())),
            Some(_) => self.expected(key, "a whole number of 64 bits"),
        }
    }

    fn number(&self, key: &str) -> Result<Option<Number>, String> {
        match self.map.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) if number.as_f64().is_some_and(f64::is_finite) => Ok(Some(number.clone())),
            Some(_) => self.expected(key, "a number"),
        }
    }

    fn format(&self) -> Result<Option<ValueFormat>, String> {
        let Some(word) = self.text("format")? else { return Ok(None) };
        let known = ValueFormat::ALL.into_iter().find(|format| format.word() == word);
        let words = ValueFormat::ALL.map(ValueFormat::word);
        known.map(Some).ok_or_else(|| format!("`{}.format` is {word:?}; {}", self.at, suggestion(&word, words)))
    }

    fn choices(&self) -> Result<Vec<Value>, String> {
        match self.map.get("enum") {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) if !values.is_empty() => Ok(values.clone()),
            Some(_) => self.expected("enum", "a list of values"),
        }
    }
}
