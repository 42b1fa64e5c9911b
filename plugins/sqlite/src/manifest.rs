//! What the plugin says about itself before it is created.

/// The keys of the plugin's section in the configuration, in the host's subset of JSON Schema.
pub const CONFIG_SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "path": {
      "type": "string", "format": "path", "minLength": 1, "default": "mail.sqlite",
      "description": "The database file. A relative path lies in the plugin's data directory."
    },
    "durability": {
      "type": "string", "enum": ["full", "normal"], "default": "full",
      "description": "full: what was answered survives a power cut. normal: a power cut may take the last seconds."
    },
    "busy_timeout": {
      "type": "string", "minLength": 2, "maxLength": 20, "default": "10s",
      "description": "How long to wait for other processes that write, up to a day."
    },
    "readers": {
      "type": "integer", "minimum": 1, "maximum": 64, "default": 4,
      "description": "The most threads that read at the same time."
    }
  }
}"#;

/// The manifest of the plugin, without `version` and `config_schema`, which the export adds.
pub const MANIFEST: &str = r#"{
  "name": "sqlite",
  "kind": "store",
  "profile": "store",
  "capabilities": [
    "shared", "durable", "import", "remove", "summary", "filter.scope", "filter.ids", "filter.from", "filter.thread",
    "filter.time", "filter.limit", "filter.order", "filter.text"
  ]
}"#;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::SqliteOptions;

    #[test]
    fn the_schema_names_exactly_the_keys_that_are_read_and_their_defaults() {
        let schema: Value = serde_json::from_str(CONFIG_SCHEMA).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        let defaults: serde_json::Map<String, Value> =
            properties.iter().map(|(key, property)| (key.clone(), property["default"].clone())).collect();
        let written = SqliteOptions::from_config(&Value::Object(defaults), Path::new("/data")).unwrap();
        let silent = SqliteOptions::from_config(&Value::Null, Path::new("/data")).unwrap();
        assert_eq!(format!("{written:?}"), format!("{silent:?}"));
        let error = SqliteOptions::from_config(&serde_json::json!({"x": 1}), Path::new("/data")).unwrap_err();
        let keys = error.help_text().unwrap().to_owned();
        assert!(properties.keys().all(|key| keys.contains(key.as_str())) && properties.len() == 4, "{keys}");
    }

    #[test]
    fn the_manifest_is_json() {
        let manifest: Value = serde_json::from_str(MANIFEST).unwrap();
        assert_eq!(manifest["capabilities"].as_array().map(Vec::len), Some(13));
    }
}
