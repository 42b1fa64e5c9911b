//! What the plugin says about itself before it is created.

/// The keys of the plugin's section in the configuration, in the host's subset of JSON Schema.
///
/// `command` has the format `command`: a project's file may name one only when the user trusts it.
pub const CONFIG_SCHEMA: &str = r#"{
  "type": "object",
  "required": ["command"],
  "properties": {
    "command": {
      "type": "array", "format": "command", "items": {"type": "string"},
      "description": "The script and its arguments, as a list: no shell reads it. A name in PATH or an absolute path."
    },
    "protocol": {
      "type": "string", "enum": ["gc", "native"], "default": "gc",
      "description": "gc: Gas City's contract for mail scripts. native: fmail's envelope of JSON."
    },
    "mode": {
      "type": "string", "enum": ["once", "lines"], "default": "once",
      "description": "once: a process for each call. lines: one process for all, a line for each (native only)."
    },
    "timeout": {
      "type": "string", "minLength": 2, "maxLength": 20, "default": "20s",
      "description": "How long one call of the script may take; then it is ended with all that it has started."
    },
    "max_output": {
      "type": "integer", "minimum": 1024, "maximum": 1073741824, "default": 16777216,
      "description": "The most bytes that the script may answer a call with."
    },
    "parallel": {
      "type": "integer", "minimum": 1, "maximum": 64, "default": 8,
      "description": "The most processes of the script that run at the same time."
    },
    "poll": {
      "type": "string", "minLength": 2, "maxLength": 20, "default": "2s",
      "description": "How often a watch asks the script for mail that others have sent."
    },
    "ensure_running": {
      "type": "boolean", "default": true,
      "description": "gc: run `ensure-running` before the first call, as Gas City does."
    }
  }
}"#;

/// What the store can do: what a script lacks is not among it.
pub const CAPABILITIES: &[&str] = &[
    "shared",
    "filter.scope",
    "filter.ids",
    "filter.from",
    "filter.thread",
    "filter.time",
    "filter.limit",
    "filter.order",
    "mailbox",
    "direct-only",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::ExecOptions;

    #[test]
    fn the_schema_names_exactly_the_keys_that_are_read_and_their_defaults() {
        let schema: Value = serde_json::from_str(CONFIG_SCHEMA).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        let mut written: serde_json::Map<String, Value> =
            properties.iter().map(|(key, property)| (key.clone(), property["default"].clone())).collect();
        written.insert("command".into(), json!(["/x"]));
        let written = ExecOptions::from_config(&Value::Object(written), Path::new("/data")).unwrap();
        let silent = ExecOptions::from_config(&json!({"command": ["/x"]}), Path::new("/data")).unwrap();
        assert_eq!(format!("{written:?}"), format!("{silent:?}"));
        let error = ExecOptions::from_config(&json!({"command": ["/x"], "x": 1}), Path::new("/data")).unwrap_err();
        let keys = error.help_text().unwrap().to_owned();
        assert!(properties.keys().all(|key| keys.contains(key.as_str())) && properties.len() == 8, "{keys}");
    }
}
