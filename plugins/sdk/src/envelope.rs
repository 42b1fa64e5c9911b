//! What an instance is made from.

use std::path::PathBuf;

use fmail_api::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the host says when it makes an instance.
#[derive(Debug, Clone, Deserialize)]
pub struct Envelope {
    /// What the instance is for.
    pub role: Role,
    /// The name of its section in the configuration.
    pub instance: String,
    /// The project that it is for; none for what serves several.
    #[serde(default)]
    pub project: Option<Project>,
    /// The name of this machine.
    #[serde(default)]
    pub node: String,
    /// A directory of its own, which the host never looks into. It may not exist yet.
    #[serde(default)]
    pub data_dir: PathBuf,
    /// The largest message that the host takes, in bytes of its compact JSON; for stores.
    #[serde(default)]
    pub max_message_bytes: Option<usize>,
    /// What the host can do beyond the first version of the boundary.
    #[serde(default)]
    pub features: Vec<String>,
    /// Its section in the configuration, checked against its schema.
    #[serde(default)]
    pub config: Value,
}

/// What an instance is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Keeps one project.
    Store,
    /// The daemon's side of a transport.
    Server,
    /// The command line's side of a transport.
    Client,
    /// Keeps hosts in step.
    Relay,
}

/// A project.
#[derive(Debug, Clone, Deserialize)]
pub struct Project {
    /// Its id.
    pub id: String,
    /// Its directory.
    pub root: PathBuf,
}

impl Envelope {
    /// The plugin's section in the configuration, as a type of its own. The key `runtime` belongs to the SDK and is left out.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        let mut config = self.config.clone();
        if config.is_null() {
            config = Value::Object(serde_json::Map::new());
        }
        if let Some(fields) = config.as_object_mut() {
            fields.shift_remove("runtime");
        }
        serde_json::from_value(config).map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, format!("the configuration of {:?}: {error}", self.instance))
                .help(format!("see the section [mail.plugin.{}.config]", self.instance))
        })
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::invalid(format!("the envelope of the instance cannot be understood: {error}")))
    }

    /// How many threads the runtime gets: `runtime.threads`, 1 to 64.
    pub(crate) fn threads(&self) -> Result<usize> {
        match self.config.get("runtime").and_then(|runtime| runtime.get("threads")) {
            None => Ok(1),
            Some(threads) => threads
                .as_u64()
                .and_then(|threads| usize::try_from(threads).ok())
                .filter(|threads| (1..=64).contains(threads))
                .ok_or_else(|| {
                    let message = format!("runtime.threads is {threads}; a whole number from 1 to 64 is expected");
                    Error::new(ErrorKind::InvalidConfig, message)
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(config: &str) -> Envelope {
        Envelope::parse(format!(r#"{{"role":"store","instance":"s","config":{config}}}"#).as_bytes()).unwrap()
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        path: Option<String>,
    }

    #[test]
    fn the_configuration_is_a_type_of_the_plugin() {
        let config: Config = envelope(r#"{"path":"x","runtime":{"threads":2}}"#).config().unwrap();
        assert_eq!(config.path.as_deref(), Some("x"));
        assert!(envelope("null").config::<Config>().unwrap().path.is_none());
        let error = envelope(r#"{"path":1}"#).config::<Config>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }

    #[test]
    fn threads_are_a_small_number() {
        assert_eq!(envelope("{}").threads().unwrap(), 1);
        assert_eq!(envelope(r#"{"runtime":{"threads":4}}"#).threads().unwrap(), 4);
        for wrong in ["0", "65", "\"2\"", "1.5"] {
            let error = envelope(&format!(r#"{{"runtime":{{"threads":{wrong}}}}}"#)).threads().unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
}
