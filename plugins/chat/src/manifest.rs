//! What the plugin says about itself before it is created.

/// The keys of the plugin's section in the configuration, in the host's subset of JSON Schema.
pub const CONFIG_SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "file": {
      "type": "string", "format": "path", "minLength": 1, "default": ".workplace/chat.md",
      "description": "The chat file. A relative path lies in the project's directory."
    },
    "sidecar": {
      "type": "string", "format": "path", "minLength": 1,
      "description": "The directory for what a line has no room for. By default .<name>.fmail beside the file."
    },
    "acknowledgements": {
      "type": "boolean", "default": true,
      "description": "Write a line when an agent acknowledges a message, so that those without fmail see it."
    }
  }
}"#;

/// What the store can do.
pub const CAPABILITIES: &[&str] = &[
    "shared",
    "durable",
    "direct-only",
    "summary",
    "filter.scope",
    "filter.ids",
    "filter.from",
    "filter.thread",
    "filter.time",
    "filter.limit",
    "filter.order",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::ChatOptions;

    #[test]
    fn the_schema_names_exactly_the_keys_that_are_read_and_their_defaults() {
        let schema: Value = serde_json::from_str(CONFIG_SCHEMA).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        let defaults: serde_json::Map<String, Value> = properties
            .iter()
            .filter_map(|(key, property)| Some((key.clone(), property.get("default")?.clone())))
            .collect();
        let written = ChatOptions::from_config(&Value::Object(defaults), Path::new("/project")).unwrap();
        let silent = ChatOptions::from_config(&Value::Null, Path::new("/project")).unwrap();
        assert_eq!(format!("{written:?}"), format!("{silent:?}"));
        let error = ChatOptions::from_config(&json!({"x": 1}), Path::new("/project")).unwrap_err();
        let keys = error.help_text().unwrap().to_owned();
        assert!(properties.keys().all(|key| keys.contains(key.as_str())) && properties.len() == 3, "{keys}");
    }
}
