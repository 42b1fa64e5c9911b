//! Checking a plugin's section against its manifest, before the plugin is created: the operator reads the mistakes, with
//! file and line, and not the plugin's author.

use fmail_api::{Error, ErrorKind};
use serde_json::{Map, Value};

use super::json::shown;
use super::rule::{Kind, Rule, ValueFormat};
use crate::config::{Located, TRUST, Written, one_error, under_home};
use crate::near::suggestion;
use crate::{Origin, PluginSettings};

/// What a plugin's section may hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    root: Rule,
}

/// Something wrong with a plugin's section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The whole key.
    pub key: String,
    /// Where it stands; the default when it stands nowhere.
    pub origin: Origin,
    /// What was found and what is allowed: the end of the sentence that begins with the key.
    pub what: String,
    /// What to do.
    pub help: Option<String>,
}

impl From<Mistake> for Error {
    fn from(mistake: Mistake) -> Error {
        let error = Error::new(ErrorKind::InvalidConfig, format!("`{}` {}", mistake.key, mistake.what));
        let error = match mistake.origin {
            Origin::Default => error,
            origin => error.context("origin", origin),
        };
        match mistake.help {
            Some(help) => error.help(help),
            None => error,
        }
    }
}

impl Schema {
    /// Reads the `config_schema` of a manifest. Without one, the section has no keys.
    pub fn parse(value: Option<&Value>) -> Result<Schema, String> {
        let wrong = |what: String| format!("the manifest's `config_schema` is wrong: {what}");
        let root = match value {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(value) => value.clone(),
        };
        let root = match root {
            Value::Object(mut map) => {
                map.entry("type").or_insert_with(|| "object".into());
                Value::Object(map)
            }
            other => other,
        };
        let root = Rule::parse(&root, "config_schema").map_err(wrong)?;
        if !matches!(root.kind, Kind::Section { .. }) {
            return Err(wrong("`config_schema.type` is not \"object\", and a section is one".into()));
        }
        check_defaults(&root, "config_schema").map_err(wrong)?;
        Ok(Schema { root })
    }

    /// The schema as JSON Schema, with what is implied.
    pub fn to_json(&self) -> Value {
        self.root.to_json()
    }

    /// The section to pass to the plugin, with its defaults filled in; or every mistake in it.
    pub fn check(&self, settings: &PluginSettings) -> Result<Value, Vec<Mistake>> {
        let nothing = Located { value: Written::Map(Vec::new()), origin: Origin::Default };
        let mut checking = Checking { settings: Some(settings), mistakes: Vec::new() };
        let value = checking.value(&self.root, settings.tree.as_ref().unwrap_or(&nothing), &settings.key("config"));
        if checking.mistakes.is_empty() { Ok(value) } else { Err(checking.mistakes) }
    }

    /// As [`Schema::check`], with all mistakes in one error.
    pub fn configured(&self, settings: &PluginSettings) -> Result<Value, Error> {
        self.check(settings).map_err(|mistakes| one_error(mistakes.into_iter().map(Error::from).collect()))
    }

    /// Whether the value of this dotted key is never shown.
    pub fn is_secret(&self, key: &str) -> bool {
        let mut rule = &self.root;
        for part in key.split('.') {
            let Kind::Section { properties, .. } = &rule.kind else { break };
            match properties.iter().find(|(name, _)| name == part) {
                Some((_, inner)) => rule = inner,
                // What the schema does not know may be anything.
                None => return true,
            }
        }
        has_secret(rule)
    }
}

fn has_secret(rule: &Rule) -> bool {
    rule.format == Some(ValueFormat::Secret)
        || match &rule.kind {
            Kind::List(items) => has_secret(items),
            Kind::Section { properties, .. } => properties.iter().any(|(_, rule)| has_secret(rule)),
            _ => false,
        }
}

/// A default that the schema itself would refuse is the author's mistake, and found before anybody relies on it.
fn check_defaults(rule: &Rule, at: &str) -> Result<(), String> {
    if let Some(default) = &rule.default {
        let mut checking = Checking { settings: None, mistakes: Vec::new() };
        checking.value(rule, &located(default, &Origin::Default), at);
        if let Some(mistake) = checking.mistakes.first() {
            return Err(format!("the default of `{at}` does not fit: it {}", mistake.what));
        }
    }
    match &rule.kind {
        Kind::List(items) => check_defaults(items, &format!("{at}.items")),
        Kind::Section { properties, .. } => {
            properties.iter().try_for_each(|(name, rule)| check_defaults(rule, &format!("{at}.properties.{name}")))
        }
        _ => Ok(()),
    }
}

/// A JSON value, all of it from one place.
fn located(value: &Value, origin: &Origin) -> Located {
    let inner = |value: &Value| located(value, origin);
    let value = match value {
        Value::Array(items) => Written::List(items.iter().map(inner).collect()),
        Value::Object(map) => Written::Map(map.iter().map(|(name, value)| (name.clone(), inner(value))).collect()),
        scalar => Written::Scalar(scalar.clone()),
    };
    Located { value, origin: origin.clone() }
}

struct Checking<'a> {
    /// None while a schema checks its own defaults.
    settings: Option<&'a PluginSettings>,
    mistakes: Vec<Mistake>,
}

impl Checking<'_> {
    fn mistake(&mut self, key: &str, origin: &Origin, what: String, help: Option<String>) -> Value {
        self.mistakes.push(Mistake { key: key.to_string(), origin: origin.clone(), what, help });
        Value::Null
    }

    /// The value that a rule makes of what was written; null after a mistake.
    fn value(&mut self, rule: &Rule, found: &Located, key: &str) -> Value {
        if let Some(refusal) = self.not_here(rule, found) {
            return self.mistake(key, &found.origin, refusal.0, Some(refusal.1));
        }
        let read;
        let found = match &found.value {
            Written::Text(text) => {
                read = Located { value: from_text(rule, text, &found.origin), origin: found.origin.clone() };
                &read
            }
            _ => found,
        };
        let value = match (&rule.kind, &found.value) {
            (Kind::Section { properties, required }, Written::Map(entries)) => {
                self.section(properties, required, entries, found, key)
            }
            (Kind::List(items), Written::List(list)) => {
                list.iter().enumerate().map(|(at, item)| self.value(items, item, &format!("{key}[{at}]"))).collect()
            }
            (kind, Written::Scalar(value)) if fits(kind, value) => self.expanded(rule, value),
            _ => return self.refused(rule, found, key),
        };
        if !rule.choices.is_empty() && !rule.choices.contains(&value) {
            return self.refused(rule, found, key);
        }
        value
    }

    /// Why this may not stand where it stands, and what to do.
    fn not_here(&self, rule: &Rule, found: &Located) -> Option<(String, String)> {
        let (settings, format) = (self.settings?, rule.format?);
        if settings.is_strange(&found.origin) {
            let what = match format {
                ValueFormat::Address => "an address",
                ValueFormat::Command => "a command",
                ValueFormat::Path => "a path",
                ValueFormat::Secret => "a secret",
            };
            return Some((
                format!("names {what} in a project's file, which may have come with a clone and may not"),
                TRUST.into(),
            ));
        }
        if format == ValueFormat::Secret && found.origin == Origin::Flag {
            return Some((
                "stands on the command line, where every user of this machine can read it".into(),
                "set it in your own file, or in its variable".into(),
            ));
        }
        None
    }

    fn refused(&mut self, rule: &Rule, found: &Located, key: &str) -> Value {
        let what = match &found.value {
            _ if rule.format == Some(ValueFormat::Secret) => "a value that is not shown".to_string(),
            Written::Scalar(Value::Null) => "empty".into(),
            Written::Scalar(Value::String(text)) => format!("the text {}", crate::config::shown_text(text)),
            Written::Scalar(number @ Value::Number(_)) => format!("the number {}", shown(number)),
            Written::Scalar(value) => shown(value),
            Written::Text(text) => format!("the text {}", crate::config::shown_text(text)),
            Written::Unusable(what) => what.clone(),
            Written::List(_) => "a list".into(),
            Written::Map(_) => "a section".into(),
        };
        let help = match &found.value {
            Written::Scalar(Value::String(text)) if !rule.choices.is_empty() => {
                let choices: Vec<&str> = rule.choices.iter().filter_map(Value::as_str).collect();
                (!choices.is_empty()).then(|| suggestion(text, choices))
            }
            _ => rule.description.clone(),
        };
        self.mistake(key, &found.origin, format!("is {what}; allowed is {}", rule.allowed()), help)
    }

    fn section(
        &mut self,
        properties: &[(String, Rule)],
        required: &[String],
        entries: &[(String, Located)],
        found: &Located,
        key: &str,
    ) -> Value {
        let plugin = self.settings.map(|settings| format!(" of the plugin `{}`", settings.plugin)).unwrap_or_default();
        for (name, located) in entries {
            if !properties.iter().any(|(known, _)| known == name) {
                let help = match properties {
                    [] => "there are no keys here; remove it".to_string(),
                    _ => suggestion(name, properties.iter().map(|(name, _)| name.as_str())),
                };
                let path = format!("{key}.{}", name.escape_debug());
                self.mistake(&path, &located.origin, format!("is not a key{plugin}"), Some(help));
            }
        }
        let mut map = Map::new();
        for (name, rule) in properties {
            let path = format!("{key}.{name}");
            let written = entries.iter().find(|(known, _)| known == name).map(|(_, located)| located);
            match written {
                Some(located) => drop(map.insert(name.clone(), self.value(rule, located, &path))),
                None => match defaulted(rule) {
                    Some(default) => drop(map.insert(name.clone(), default)),
                    None if required.contains(name) => {
                        let what = format!("is missing; allowed is {}", rule.allowed());
                        self.mistake(&path, &found.origin, what, rule.description.clone());
                    }
                    None => {}
                },
            }
        }
        Value::Object(map)
    }

    /// A path that begins with `~/` is below the user's home: no plugin should have to know that.
    fn expanded(&self, rule: &Rule, value: &Value) -> Value {
        let home = self.settings.and_then(|settings| settings.home.as_ref());
        match (rule.format, value) {
            (Some(ValueFormat::Path), Value::String(path)) => {
                Value::String(under_home(path, home).to_string_lossy().into_owned())
            }
            _ => value.clone(),
        }
    }
}

/// The value of a key that was not written; a section has one when all its keys do, or need none.
fn defaulted(rule: &Rule) -> Option<Value> {
    if rule.default.is_some() {
        return rule.default.clone();
    }
    let Kind::Section { properties, required } = &rule.kind else { return None };
    let map: Map<String, Value> =
        properties.iter().filter_map(|(name, rule)| Some((name.clone(), defaulted(rule)?))).collect();
    (!map.is_empty() && required.iter().all(|name| map.contains_key(name))).then_some(Value::Object(map))
}

/// Whether a scalar is of this type and within its bounds.
fn fits(kind: &Kind, value: &Value) -> bool {
    match (kind, value) {
        (Kind::Switch, Value::Bool(_)) => true,
        (Kind::Text { min, max }, Value::String(text)) => {
            let length = text.chars().count() as u64;
            min.is_none_or(|min| length >= min) && max.is_none_or(|max| length <= max)
        }
        (Kind::Integer { min, max }, Value::Number(number)) => {
            let whole = |number: &serde_json::Number| {
                number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
            };
            whole(number).is_some_and(|found| {
                min.as_ref().and_then(whole).is_none_or(|min| found >= min)
                    && max.as_ref().and_then(whole).is_none_or(|max| found <= max)
            })
        }
        (Kind::Number { min, max }, Value::Number(number)) => number.as_f64().is_some_and(|found| {
            found.is_finite()
                && min.as_ref().and_then(serde_json::Number::as_f64).is_none_or(|min| found >= min)
                && max.as_ref().and_then(serde_json::Number::as_f64).is_none_or(|max| found <= max)
        }),
        _ => false,
    }
}

/// What the text of a variable or a flag is to be: as the type wants it. What does not fit stays text, and is refused as
/// such.
fn from_text(rule: &Rule, text: &str, origin: &Origin) -> Written {
    let as_text = || Written::Scalar(Value::String(text.to_string()));
    let parsed = |wanted: fn(&Value) -> bool| match serde_json::from_str::<Value>(text.trim()) {
        Ok(value) if wanted(&value) => located(&value, origin).value,
        _ => as_text(),
    };
    match &rule.kind {
        Kind::Text { .. } => as_text(),
        Kind::Switch => parsed(Value::is_boolean),
        Kind::Integer { .. } | Kind::Number { .. } => parsed(Value::is_number),
        Kind::Section { .. } => parsed(Value::is_object),
        Kind::List(_) if text.trim_start().starts_with('[') => parsed(Value::is_array),
        Kind::List(_) => {
            let item = |text: &str| Located { value: Written::Text(text.to_string()), origin: origin.clone() };
            Written::List(text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(item).collect())
        }
    }
}
