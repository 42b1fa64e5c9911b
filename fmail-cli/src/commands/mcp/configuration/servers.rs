//! The servers in the text of an agent's configuration: ours found, added, and taken away again.

use fmail_api::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::json::JsonServers;
use super::toml::TomlServers;
use crate::inject::HookAgent;

/// What was made of a file to hold our entry, so that it can be undone to the byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Traces {
    /// There was no object of servers.
    pub(super) created: bool,
    /// What stood between the braces of the file's own object, when it was empty.
    pub(super) empty_root: Option<String>,
    /// What stood between those of the servers, when they were empty.
    pub(super) empty_servers: Option<String>,
    /// What was put between the text and our table.
    pub(super) before: Option<String>,
}

/// An agent's configuration.
pub(super) enum Servers {
    Json(JsonServers),
    Toml(TomlServers),
}

impl Servers {
    /// Reads it. An error when it is not what the agent expects: it is nobody's business to guess then.
    pub(super) fn parse(agent: HookAgent, text: String) -> Result<Servers> {
        match agent {
            HookAgent::Codex => TomlServers::parse(text).map(Servers::Toml),
            // Gemini CLI allows comments in its settings.
            HookAgent::Gemini => JsonServers::parse(text, true).map(Servers::Json),
            HookAgent::Claude => JsonServers::parse(text, false).map(Servers::Json),
        }
    }

    /// The text of a file that says nothing.
    pub(super) fn blank(agent: HookAgent) -> &'static str {
        if agent == HookAgent::Codex { "" } else { "{}\n" }
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        match self {
            Servers::Json(servers) => servers.text(),
            Servers::Toml(servers) => servers.text(),
        }
    }

    /// The server of this name.
    pub(super) fn get(&self, name: &str) -> Option<Value> {
        match self {
            Servers::Json(servers) => servers.get(name),
            Servers::Toml(servers) => servers.get(name),
        }
    }

    /// The text with this server too, and what was made for it.
    pub(super) fn with(&self, name: &str, entry: &Map<String, Value>) -> Result<(String, Traces)> {
        match self {
            Servers::Json(servers) => Ok(servers.with(name, entry)),
            Servers::Toml(servers) => servers.with(name, entry),
        }
    }

    /// The text without this server. What was made for it goes too; where that is not known, what it leaves empty goes.
    pub(super) fn without(&self, name: &str, traces: Option<&Traces>) -> Result<String> {
        match self {
            Servers::Json(servers) => Ok(servers.without(name, traces)),
            Servers::Toml(servers) => servers.without(name, traces),
        }
    }
}

/// The error about a text.
pub(super) fn unusable(why: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, why)
}
