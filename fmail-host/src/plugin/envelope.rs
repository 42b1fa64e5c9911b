//! What an instance is told when it is made.

use std::path::PathBuf;

use serde_json::{Value, json};

/// What an instance is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Keeps messages.
    Store,
    /// Takes the connections of clients.
    Server,
    /// Connects to a server.
    Client,
    /// Exchanges messages with others.
    Relay,
}

impl Role {
    /// Its word in the envelope.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Store => "store",
            Role::Server => "server",
            Role::Client => "client",
            Role::Relay => "relay",
        }
    }
}

/// Where an instance finds itself.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// What it is to be.
    pub role: Role,
    /// The id and the root of the project that it is for, if it is for one.
    pub project: Option<(String, PathBuf)>,
    /// The name of this host.
    pub node: String,
    /// A directory of its own, which nobody else looks into.
    pub data_dir: PathBuf,
    /// The largest message that the host takes, in bytes of its compact JSON; for stores.
    pub max_message_bytes: Option<usize>,
}

impl Surroundings {
    /// The envelope for an instance of this name, with its own section of the configuration.
    pub fn envelope(&self, instance: &str, config: &Value) -> Vec<u8> {
        let project = self.project.as_ref().map(|(id, root)| json!({"id": id, "root": root.to_string_lossy()}));
        let envelope = json!({
            "role": self.role.word(),
            "instance": instance,
            "project": project,
            "node": self.node,
            "data_dir": self.data_dir.to_string_lossy(),
            "max_message_bytes": self.max_message_bytes,
            "features": [],
            "config": config,
        });
        envelope.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_as_the_header_says() {
        let project = Some(("p-1".to_string(), PathBuf::from("/p")));
        let mut surroundings = Surroundings {
            role: Role::Store,
            project,
            node: "n".into(),
            data_dir: "/p/.fmail/plugins/s".into(),
            max_message_bytes: Some(9),
        };
        let text =
            |surroundings: &Surroundings| String::from_utf8(surroundings.envelope("s", &json!({"a": 1}))).unwrap();
        assert_eq!(
            text(&surroundings),
            r#"{"role":"store","instance":"s","project":{"id":"p-1","root":"/p"},"node":"n","data_dir":"/p/.fmail/plugins/s","max_message_bytes":9,"features":[],"config":{"a":1}}"#
        );
        surroundings.project = None;
        assert!(text(&surroundings).contains(r#""project":null"#));
    }
}
