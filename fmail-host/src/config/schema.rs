//! `fmail config schema`: the whole configuration as JSON Schema, for editors and for programs that write it.

use fmail_api::{Error, Result};
use serde_json::{Map, Value, json};

use super::check::{manifest, plugins};
use super::keys::{Form, KEYS, Key};
use super::plugin::SECTION_KEYS;
use super::{PluginSettings, Settings};
use crate::plugin::{PluginName, PluginSearch, Schema};
use crate::{Environment, Project};

/// The pattern of a plugin's name.
const NAME: &str = "^[a-z][a-z0-9-]{0,31}$";

/// The schema, and what stood in the way of knowing more. Plugins that are found have the schema of their own section in it, as
/// far as that can be read without running them.
pub fn whole(
    environment: &Environment,
    project: Option<&Project>,
    overrides: &[(String, String)],
) -> Result<(Value, Vec<Error>)> {
    let (settings, _) = Settings::gather(environment, project, overrides)?;
    let defaults = Settings::default().entries();
    let mut mail = json!({"type": "object", "additionalProperties": false, "properties": {}});
    for (key, entry) in KEYS.iter().zip(defaults) {
        insert(&mut mail, key.name.trim_start_matches("mail."), described(key, &entry.value));
        if let Some(alias) = key.alias {
            insert(&mut mail, alias.trim_start_matches("mail."), form(&key.form));
        }
    }
    let (sections, errors) = sections(environment, &settings)?;
    mail["properties"]["plugin"] = sections;
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fmail's configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": {"mail": mail},
    });
    Ok((root, errors))
}

/// Puts a schema into the section that a dotted name says.
fn insert(section: &mut Value, name: &str, schema: Value) {
    match name.split_once('.') {
        None => section["properties"][name] = schema,
        Some((first, rest)) => {
            let inner = &mut section["properties"][first];
            if inner.is_null() {
                *inner = json!({"type": "object", "additionalProperties": false, "properties": {}});
            }
            insert(inner, rest, schema);
        }
    }
}

/// The schema of a key, with its default.
fn described(key: &Key, default: &str) -> Value {
    let mut schema = form(&key.form);
    schema["default"] = match &key.form {
        Form::Switch => json!(default == "true"),
        Form::Number(..) => default.parse::<u64>().map(Value::from).unwrap_or_default(),
        Form::Addresses | Form::Names(_) | Form::Directories | Form::Roots => {
            default.split(',').filter(|item| !item.is_empty()).collect()
        }
        Form::Commands => json!({}),
        _ => json!(default),
    };
    schema
}

fn form(form: &Form) -> Value {
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    match form {
        Form::Store | Form::Name => json!({"type": "string", "pattern": NAME}),
        Form::Word(words) => json!({"type": "string", "enum": words}),
        Form::Isolation => json!({"type": "string", "enum": ["none", "process"]}),
        Form::Switch => json!({"type": "boolean"}),
        Form::Number(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Form::Time(..) => json!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w))+$"}),
        Form::Address | Form::Secret(_) | Form::File | Form::Credential => json!({"type": "string"}),
        Form::Addresses | Form::Directories | Form::Roots | Form::Command => texts(),
        Form::Names(_) => json!({"type": "array", "items": {"type": "string", "pattern": NAME}}),
        Form::Commands => json!({"type": "object", "additionalProperties": texts()}),
        Form::Digest => json!({"type": "string", "pattern": "^([0-9a-fA-F]{64})?$"}),
    }
}

/// The sections of plugins: those that are known, and what any other one looks like.
fn sections(environment: &Environment, settings: &Settings) -> Result<(Value, Vec<Error>)> {
    let search = PluginSearch::new(environment, settings)?;
    let mut known: Vec<PluginSettings> = plugins(settings);
    for name in search.names() {
        let name: PluginName = name.parse()?;
        if !known.iter().any(|plugin| plugin.name == name) {
            known.push(settings.plugin(&name));
        }
    }
    let (mut named, mut errors) = (Map::new(), Vec::new());
    for mut plugin in known {
        if plugin.file.is_none() && plugin.command.is_none() && plugin.found.is_none() {
            plugin.found = search.find(&plugin.plugin)?;
        }
        match manifest(&plugin) {
            Ok((_, Ok(manifest))) => {
                named.insert(plugin.name.to_string(), section(Some(&manifest.config_schema)));
            }
            Ok((_, Err(_))) => {}
            Err(error) => errors.push(error),
        }
    }
    let sections = json!({
        "type": "object",
        "propertyNames": {"pattern": NAME},
        "properties": named,
        "additionalProperties": section(None),
    });
    Ok((sections, errors))
}

fn section(own: Option<&Schema>) -> Value {
    let mut properties: Map<String, Value> =
        SECTION_KEYS.iter().map(|key| (key.name.to_string(), form(&key.form))).collect();
    properties.insert("config".into(), own.map_or_else(|| json!({"type": "object"}), Schema::to_json));
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}
