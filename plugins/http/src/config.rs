//! The section of the configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fmail_mcp::Profile;
use fmail_plugin::{Error, ErrorKind, Result, Role};
use serde::Deserialize;

use crate::host_name::HostName;
use crate::origin::Origin;
use crate::token;

/// What the section may hold.
pub const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "address": {
            "type": "string", "format": "address", "default": "127.0.0.1:8765",
            "description": "where the daemon listens, and where a command connects"
        },
        "path": {
            "type": "string", "minLength": 1, "maxLength": 200, "default": "/mcp/",
            "description": "where MCP is served, beside /mcp/ and /api/"
        },
        "profile": {
            "type": "string", "enum": ["minimal", "standard", "full"], "default": "standard",
            "description": "which tools are offered"
        },
        "token": {
            "type": "string", "format": "secret", "minLength": 32,
            "description": "what a client proves with `Authorization: Bearer <token>`; needed beyond this machine"
        },
        "token_file": {
            "type": "string", "format": "path", "minLength": 1,
            "description": "a file with that token, of the user's own and of mode 0600; one of the two keys may be set"
        },
        "hosts": {
            "type": "array", "items": {"type": "string", "format": "address"}, "default": [],
            "description": "the names by which clients reach the address, beside localhost and the address itself"
        },
        "origins": {
            "type": "array", "items": {"type": "string", "format": "address"}, "default": [],
            "description": "the pages that may ask, such as http://localhost:3000; CORS is off without one"
        },
        "max_body_bytes": {
            "type": "integer", "minimum": 1024, "maximum": 268435456, "default": 4194304,
            "description": "the largest request that is read"
        },
        "connections": {
            "type": "integer", "minimum": 1, "maximum": 100000, "default": 4096,
            "description": "how many connections are served at a time"
        },
        "deadline_seconds": {
            "type": "integer", "minimum": 1, "maximum": 3600, "default": 120,
            "description": "how long a request may take until it is answered"
        },
        "patience_seconds": {
            "type": "integer", "minimum": 1, "maximum": 600, "default": 30,
            "description": "how long a client may take to send a request, to take an answer, and to stay between two requests"
        },
        "keep_alive_seconds": {
            "type": "integer", "minimum": 1, "maximum": 300, "default": 15,
            "description": "after how much silence a stream gets a sign of life"
        }
    }
}"#;

/// Where the operations of docs/protocol.md are served.
pub const OPERATIONS: &str = "/fmail/";
/// Where MCP is served whatever is configured: the two spellings that its clients know.
pub const ALIASES: [&str; 2] = ["/mcp/", "/api/"];
/// What else is served, and so cannot be where MCP is.
const RESERVED: [&str; 3] = [OPERATIONS, "/health/", "/.well-known/"];
/// How long a command waits until somebody has taken its connection.
pub const CONNECTING: Duration = Duration::from_secs(5);
/// What is under way may take so long when the daemon ends, and when the client has closed its side.
pub const GRACE: Duration = Duration::from_secs(3);
/// How long a peer may take to go once it was told farewell.
pub const PARTING: Duration = Duration::from_secs(1);

/// The section, as it is written.
#[derive(Debug, Deserialize)]
pub struct Section {
    address: SocketAddr,
    path: String,
    profile: Word,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    token_file: Option<PathBuf>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    origins: Vec<String>,
    max_body_bytes: usize,
    connections: usize,
    deadline_seconds: u64,
    patience_seconds: u64,
    keep_alive_seconds: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Minimal,
    Standard,
    Full,
}

/// The section, understood.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where.
    pub address: SocketAddr,
    /// Where MCP is served, with the slash at its end.
    pub path: String,
    /// Which tools are offered.
    pub profile: Profile,
    /// What a client must know.
    pub token: Option<String>,
    /// The names by which clients reach the address.
    pub hosts: Vec<HostName>,
    /// The pages that may ask.
    pub origins: Vec<Origin>,
    /// The largest request.
    pub max_body_bytes: usize,
    /// Connections at a time.
    pub connections: usize,
    /// How long a request may take.
    pub deadline: Duration,
    /// How long a client may take.
    pub patience: Duration,
    /// When a silent stream gets a sign of life.
    pub keep_alive: Duration,
}

impl Section {
    /// Understands it, for this role. Beyond this machine nothing is served that everybody could use.
    pub fn checked(self, role: Role) -> Result<Config> {
        let token = match (self.token, &self.token_file) {
            (Some(_), Some(_)) => {
                return Err(Error::new(
                    ErrorKind::InvalidConfig,
                    "`token` and `token_file` are both set, and only one of them may",
                )
                .help("remove one of them; `fmail config show --origin` says where each comes from"));
            }
            (None, Some(file)) => Some(token::in_file(file)?),
            (token, None) => token,
        };
        if role != Role::Client && !self.address.ip().is_loopback() && token.is_none() {
            return Err(Error::new(
                ErrorKind::Denied,
                format!("{} can be reached from other machines, and no token is configured", self.address),
            )
            .help("set `token` or `token_file` in the section of this plugin, and put TLS before it; or listen on 127.0.0.1"));
        }
        let hosts = self.hosts.iter().map(|text| HostName::configured(text));
        let origins = self.origins.iter().map(|text| Origin::configured(text));
        Ok(Config {
            address: self.address,
            path: path(&self.path)?,
            profile: match self.profile {
                Word::Minimal => Profile::Minimal,
                Word::Standard => Profile::Standard,
                Word::Full => Profile::Full,
            },
            token,
            hosts: hosts.collect::<Result<_>>()?,
            origins: origins.collect::<Result<_>>()?,
            max_body_bytes: self.max_body_bytes,
            connections: self.connections,
            deadline: Duration::from_secs(self.deadline_seconds),
            patience: Duration::from_secs(self.patience_seconds),
            keep_alive: Duration::from_secs(self.keep_alive_seconds),
        })
    }
}

impl Config {
    /// Whether a request for this host may be meant for us, when it came to this address of the machine.
    pub fn serves(&self, host: &HostName, local: IpAddr) -> bool {
        host.is_loopback()
            || host.is_address(local)
            || host.is_address(self.address.ip())
            || self.hosts.iter().any(|known| known.covers(host))
    }

    /// Where MCP is served, each place once, without the slash at its end.
    pub fn places(&self) -> Vec<&str> {
        let mut places: Vec<&str> = ALIASES.to_vec();
        if !places.contains(&self.path.as_str()) {
            places.push(&self.path);
        }
        places.iter().map(|place| place.trim_end_matches('/')).collect()
    }
}

/// A path that can be served, with the slash at its end.
fn path(text: &str) -> Result<String> {
    let wrong = |why: &str| {
        Error::new(ErrorKind::InvalidConfig, format!("`path` is {text:?}: {why}"))
            .help("write a path such as /mcp/: a slash, then names of a-z, A-Z, 0-9, `-`, `_` and `.` between slashes")
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let inner = text.strip_prefix('/').ok_or_else(|| wrong("it does not begin with a slash"))?;
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let named = |part: &str| !part.is_empty() && part.chars().all(plain) && part != "." && part != "..";
    if !inner.split('/').all(named) {
        return Err(wrong("a part of it is no plain name"));
    }
    let path = format!("/{inner}/");
    match RESERVED.iter().find(|reserved| path.starts_with(*reserved)) {
        Some(reserved) => Err(wrong(&format!("what is below {reserved} is served already"))),
        None => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_plain_and_ends_with_a_slash() {
        for (text, path_) in [("/mcp/", "/mcp/"), ("/mcp", "/mcp/"), ("/a/b-c_d.e", "/a/b-c_d.e/")] {
            assert_eq!(path(text).unwrap(), path_);
        }
        for text in ["", "/", "//", "mcp", "/a//b", "/a/../b", "/a b", "/{id}", "/a?b", "/fmail", "/health/x"] {
            assert_eq!(path(text).unwrap_err().kind(), ErrorKind::InvalidConfig, "{text}");
        }
    }
}
