//! The arguments of a call, read by what the tool takes.
//!
//! Both vocabularies are understood, the contract's and upstream's: a parameter may have several names. An explicit `null`
//! counts as absent. A number may be written as a text. Whatever else is not as it should be is an error that says what
//! was found, and an argument that no tool of this name knows is never passed over in silence: it would be a typing error
//! with the effect of its absence.

use fmail_api::{MessageId, Timestamp};
use serde_json::{Map, Value};

use crate::errors::{Failure, Result, shown};
use crate::ids;
use crate::near::near;
use crate::tool::{Parameter, Takes, Tool};

/// Said by clients of later versions of upstream to every tool, and without a meaning here: there are no tokens and there
/// is one format.
const IGNORED_EVERYWHERE: &[&str] = &["format", "registration_token", "sender_token", "agent_token", "session_token"];

/// The arguments of a call.
#[derive(Debug)]
pub(crate) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Reads the arguments of a call of this tool.
    pub(crate) fn read(tool: &Tool, given: Map<String, Value>) -> Result<Arguments> {
        let mut known = Map::new();
        for (name, value) in given {
            if value.is_null() || tool.ignored.contains(&name.as_str()) || IGNORED_EVERYWHERE.contains(&&*name) {
                continue;
            }
            if let Some((_, why)) = tool.refused.iter().find(|(refused, _)| *refused == name) {
                if says_nothing(&value) {
                    continue;
                }
                let sentence = format!("`{name}` cannot be honoured, so nothing was done. {why}");
                return Err(Failure::argument(sentence).with("argument", name));
            }
            let parameter = parameter(tool, &name).ok_or_else(|| unknown(tool, &name))?;
            let value = checked(parameter.takes, &name, value)?;
            if let Some(before) = known.get(parameter.name)
                && *before != value
            {
                return Err(Failure::argument(format!(
                    "`{}` is given twice, under two of its names, and not alike. Give it once.",
                    parameter.name
                )));
            }
            known.insert(parameter.name.into(), value);
        }
        match tool.parameters.iter().find(|parameter| parameter.required && !known.contains_key(parameter.name)) {
            Some(parameter) => Err(missing(tool, parameter)),
            None => Ok(Arguments(known)),
        }
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A text that has to be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str> {
        self.text(name).ok_or_else(|| Failure::argument(format!("`{name}` is missing.")))
    }

    /// A text that says something: only blanks are as good as nothing.
    pub(crate) fn words(&self, name: &str) -> Option<&str> {
        self.text(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// Yes or no.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    /// A list of texts.
    pub(crate) fn texts(&self, name: &str) -> Option<Vec<&str>> {
        self.0.get(name)?.as_array().map(|items| items.iter().filter_map(Value::as_str).collect())
    }

    /// A list of numbers.
    pub(crate) fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        self.0.get(name)?.as_array().map(|items| items.iter().filter_map(Value::as_u64).collect())
    }

    /// A message that has to be named.
    pub(crate) fn message(&self, name: &str) -> Result<MessageId> {
        let text = self.required(name)?;
        ids::message(text).ok_or_else(|| not_a_message(name, text))
    }

    /// A time.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>> {
        self.words(name).map(|text| time(name, text)).transpose()
    }
}

/// Reads a time. A `+` that became a blank on the way, as it does in addresses, is put back.
pub(crate) fn time(name: &str, text: &str) -> Result<Timestamp> {
    text.parse().or_else(|_| text.trim().replace(' ', "+").parse()).map_err(|_| {
        Failure::argument(format!(
            "Invalid {name} format: '{}'. Expected ISO-8601, like '2026-01-10T15:30:00+00:00' or '2026-01-10T15:30:00Z'.",
            shown(text)
        ))
    })
}

/// Whether leaving an argument out would mean the same.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn parameter<'a>(tool: &'a Tool, name: &str) -> Option<&'a Parameter> {
    let exact = tool.parameters.iter().find(|parameter| parameter.name == name);
    exact.or_else(|| tool.parameters.iter().find(|parameter| parameter.aliases.contains(&name)))
}

fn unknown(tool: &Tool, name: &str) -> Failure {
    let names = || tool.parameters.iter().map(|parameter| parameter.name);
    let advice = match near(name, names()).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None if tool.parameters.is_empty() => format!("{} takes none.", tool.name),
        None => format!("{} takes {}.", tool.name, names().collect::<Vec<_>>().join(", ")),
    };
    Failure::argument(format!("unknown argument `{}`; {advice}", shown(name))).with("argument", shown(name))
}

fn missing(tool: &Tool, parameter: &Parameter) -> Failure {
    let also = match parameter.aliases {
        [] => String::new(),
        aliases => format!(" (or {})", aliases.join(", ")),
    };
    let about = if parameter.about.is_empty() { String::new() } else { format!(" {}", parameter.about) };
    Failure::argument(format!("{} needs `{}`{also}, and it is missing.{about}", tool.name, parameter.name))
        .with("argument", parameter.name)
}

/// The argument in the one form that the tools read, or what is wrong with it.
fn checked(takes: Takes, name: &str, value: Value) -> Result<Value> {
    match takes {
        Takes::Text => match value {
            Value::String(_) => Ok(value),
            other => Err(wrong(name, "a text", &other)),
        },
        Takes::Word(words) => match &value {
            Value::String(text) => match words.iter().find(|word| word.eq_ignore_ascii_case(text.trim())) {
                Some(word) => Ok((*word).into()),
                None => Err(wrong(name, &format!("one of {}", words.join(", ")), &value)),
            },
            other => Err(wrong(name, &format!("one of {}", words.join(", ")), other)),
        },
        Takes::Number(least, most) => number(name, least, most, &value).map(Value::from),
        Takes::Flag => match &value {
            Value::Bool(_) => Ok(value),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true.into()),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false.into()),
            other => Err(wrong(name, "true or false", other)),
        },
        Takes::Texts => match value {
            // One name is a list of one.
            Value::String(_) => Ok(Value::Array(vec![value])),
            Value::Array(items) => match items.iter().find(|item| !item.is_string()) {
                Some(item) => Err(wrong(name, "a list of texts", item)),
                None => Ok(Value::Array(items)),
            },
            other => Err(wrong(name, "a list of texts", &other)),
        },
        Takes::Numbers => match value {
            Value::Array(items) => {
                let numbers: Result<Vec<u64>> = items.iter().map(|item| number(name, 0, u64::MAX, item)).collect();
                Ok(numbers?.into())
            }
            one @ (Value::Number(_) | Value::String(_)) => Ok(Value::from(vec![number(name, 0, u64::MAX, &one)?])),
            other => Err(wrong(name, "a list of numbers", &other)),
        },
        Takes::Message => match &value {
            Value::String(_) => Ok(value),
            Value::Number(number) => Ok(whole(number).map_or(number.to_string(), |number| number.to_string()).into()),
            other => Err(wrong(name, "the id of a message", other)),
        },
    }
}

fn number(name: &str, least: u64, most: u64, value: &Value) -> Result<u64> {
    let found = match value {
        Value::Number(number) => whole(number),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let Some(found) = found else { return Err(wrong(name, "a whole number", value)) };
    match u64::try_from(found) {
        Ok(found) if (least..=most).contains(&found) => Ok(found),
        Ok(found) if found > most => {
            Err(Failure::argument(format!("{name} must be at most {most}, got {found}.")).with("argument", name))
        }
        _ => Err(Failure::argument(format!("{name} must be at least {least}, got {found}. Use a positive integer."))
            .with("argument", name)),
    }
}

/// The whole number that a JSON number is; `5.0` is one.
fn whole(number: &serde_json::Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i128)
    })
}

fn wrong(name: &str, expected: &str, found: &Value) -> Failure {
    let found = match found {
        Value::String(text) => format!("'{}'", shown(text)),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        other => shown(&other.to_string()),
    };
    Failure::argument(format!("{name} must be {expected}, got {found}.")).with("argument", name)
}

fn not_a_message(name: &str, text: &str) -> Failure {
    Failure::argument(format!(
        "{name} '{}' is not the id of a message. Use the number in the field `id` of a message.",
        shown(text)
    ))
    .with("argument", name)
}
