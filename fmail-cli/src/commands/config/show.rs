//! `fmail config show`

use std::collections::BTreeMap;

use fmail_host::{Entry, PluginName, Schema};
use serde_json::{Map, Value, json};

use crate::output::{Outcome, Output};
use crate::session::Place;

pub(super) fn run(place: &Place, origin: bool, json: bool, output: &mut Output) -> Outcome {
    let entries = place.settings.entries().into_iter().chain(plugin_entries(place));
    if json {
        return output.json(&entries.map(|entry| in_json(entry, origin)).collect::<Map<String, Value>>());
    }
    for entry in entries {
        let mut line = format!("{} = {}", entry.key, entry.value);
        if origin {
            line.push_str(&format!("  # {}", entry.origin));
        }
        if !entry.trusted {
            line.push_str(
                "  # not acted on: a project's file may not make fmail dial until you trust it (`fmail trust`)",
            );
        }
        output.line(line.trim_end())?;
    }
    Ok(())
}

fn in_json(entry: Entry, origin: bool) -> (String, Value) {
    let shown = match origin {
        true => json!({"value": entry.value, "origin": entry.origin.to_string(), "trusted": entry.trusted}),
        false => Value::String(entry.value),
    };
    (entry.key, shown)
}

/// What the sections of plugins say. Of a plugin's own keys only the schema tells which are secrets, so without it none is
/// shown.
fn plugin_entries(place: &Place) -> Vec<Entry> {
    let mut schemas: BTreeMap<PluginName, Option<Schema>> = BTreeMap::new();
    let shown = |(name, mut entry): (PluginName, Entry)| {
        let own = entry.key.strip_prefix(&format!("mail.plugin.{name}.config.")).map(str::to_string);
        let Some(own) = own else { return entry };
        let schema = schemas.entry(name.clone()).or_insert_with(|| place.settings.plugin_schema(&name));
        match schema {
            Some(schema) if !schema.is_secret(&own) => {}
            _ if entry.value.is_empty() => {}
            Some(_) => entry.value = "(not shown)".into(),
            None => entry.value = "(not shown: only the plugin knows whether it is a secret)".into(),
        }
        entry
    };
    place.settings.plugin_entries().into_iter().map(shown).collect()
}
