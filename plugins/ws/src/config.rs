//! The section of the configuration.

use std::net::SocketAddr;
use std::time::Duration;

use fmail_plugin::{Error, ErrorKind, Result, Role};
use serde::Deserialize;

/// What the section may hold.
pub const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "address": {
            "type": "string", "format": "address", "default": "127.0.0.1:7464",
            "description": "where the daemon listens, and where a command connects"
        },
        "token": {
            "type": "string", "format": "secret", "minLength": 32,
            "description": "what a client proves with `Authorization: Bearer <token>`; needed beyond this machine"
        },
        "origins": {
            "type": "array", "items": {"type": "string", "format": "address"}, "default": [],
            "description": "the pages that may connect, such as http://localhost:3000"
        },
        "max_frame_bytes": {
            "type": "integer", "minimum": 1024, "maximum": 268435456, "default": 4194304,
            "description": "the largest message that is read"
        },
        "requests": {
            "type": "integer", "minimum": 1, "maximum": 10000, "default": 64,
            "description": "how many requests one connection may have under way"
        },
        "connections": {
            "type": "integer", "minimum": 1, "maximum": 100000, "default": 1024,
            "description": "how many connections are served at a time"
        }
    }
}"#;

/// How long a peer may take for the handshake, and to take a message.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long a peer may take to go once it was told farewell.
pub const PARTING: Duration = Duration::from_secs(1);
/// A silent connection is asked for a sign of life after this, and given up after as long again.
pub const PING_AFTER: Duration = Duration::from_secs(30);

/// The section.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Where.
    pub address: SocketAddr,
    /// What a client must know.
    #[serde(default)]
    pub token: Option<String>,
    /// The pages that may connect.
    #[serde(default)]
    pub origins: Vec<String>,
    /// The largest message.
    pub max_frame_bytes: usize,
    /// Requests under way on one connection.
    pub requests: usize,
    /// Connections at a time.
    pub connections: usize,
}

impl Config {
    /// Beyond this machine nothing is served that everybody could use.
    pub fn check(&self, role: Role) -> Result<()> {
        if role == Role::Client || self.address.ip().is_loopback() || self.token.is_some() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Denied,
            format!("{} can be reached from other machines, and no token is configured", self.address),
        )
        .help("set `token` in the section of this plugin, and put TLS before it; or listen on 127.0.0.1"))
    }
}
