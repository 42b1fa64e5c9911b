//! Our server as each agent writes it down.

use clap::Args;
use fmail_api::{Error, Result};
use fmail_host::Environment;
use serde_json::{Map, Value, json};

use crate::agent_mail::{Endpoint, ServerFlags, TOKEN_VARIABLE};
use crate::inject::HookAgent;

/// The command of a server that an agent starts itself.
const COMMAND: &str = "fmail";
const ARGUMENTS: [&str; 3] = ["mcp", "serve", "--stdio"];
/// What Codex does not pass on to the servers that it starts, and ours goes by.
const PASSED_ON: [&str; 5] = ["FMAIL_ROOT", "FMAIL_PROJECT", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];

// (Not a doc comment: clap would show it as the description of the command.)
#[derive(Args)]
pub(super) struct EntryFlags {
    /// The agent starts `fmail mcp serve --stdio` itself; nothing else has to run (the default)
    #[arg(long, conflicts_with = "http")]
    stdio: bool,

    /// The agent talks to the server at --url, such as forged with the transport http
    #[arg(long)]
    http: bool,

    #[command(flatten)]
    server: ServerFlags,

    /// The variable that the agent takes the server's token from; without it AGENT_MAIL_BEARER_TOKEN, if that is set now or the plugin http has a token in your configuration
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    token_env: Option<String>,

    #[command(flatten)]
    name: NameFlag,
}

// (As above.)
#[derive(Args)]
pub(super) struct NameFlag {
    /// What the agent calls the server; `mcp-agent-mail` fits instructions that were written for that
    #[arg(long, value_name = "NAME", default_value = "fmail")]
    name: String,
}

impl NameFlag {
    /// The name, as every agent takes it.
    pub(super) fn checked(&self) -> Result<String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(fits) {
            return Err(Error::invalid(format!("`{}` is no name for a server", self.name.escape_debug()))
                .help("use 1 to 64 letters, digits, hyphens and underscores"));
        }
        Ok(self.name.clone())
    }
}

/// Our server in an agent's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// What the agent calls it.
    pub(super) name: String,
    way: Way,
}

/// How the agent reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// It starts it.
    Stdio,
    /// Over HTTP; the variable holds the token.
    Http { url: String, token_variable: Option<String> },
}

impl Entry {
    /// The entry that the flags ask for.
    pub(super) fn of(flags: &EntryFlags, environment: &Environment, set: &[String]) -> Result<Entry> {
        let name = flags.name.checked()?;
        if !flags.http {
            flags.server.must_be_absent("--http")?;
            return Ok(Entry { name, way: Way::Stdio });
        }
        flags.server.must_have_no_token_file()?;
        let endpoint = Endpoint::of(&flags.server, environment, set)?;
        let is_set = || environment.var(TOKEN_VARIABLE).is_some_and(|token| !token.trim().is_empty());
        let token_variable = match &flags.token_env {
            Some(variable) => Some(checked_variable(variable)?),
            None => (endpoint.wants_token || is_set()).then(|| TOKEN_VARIABLE.to_string()),
        };
        Ok(Entry { name, way: Way::Http { url: endpoint.url, token_variable } })
    }

    /// Whether the agent starts the server.
    pub(super) fn is_started(&self) -> bool {
        self.way == Way::Stdio
    }

    /// The variable that has to hold the token.
    pub(super) fn token_variable(&self) -> Option<&str> {
        match &self.way {
            Way::Http { token_variable, .. } => token_variable.as_deref(),
            Way::Stdio => None,
        }
    }

    /// What stands under the name.
    pub(super) fn value(&self, agent: HookAgent) -> Map<String, Value> {
        let value = match (&self.way, agent) {
            (Way::Stdio, HookAgent::Claude) => json!({"type": "stdio", "command": COMMAND, "args": ARGUMENTS}),
            (Way::Stdio, HookAgent::Codex) => json!({"command": COMMAND, "args": ARGUMENTS, "env_vars": PASSED_ON}),
            (Way::Stdio, HookAgent::Gemini) => json!({"command": COMMAND, "args": ARGUMENTS}),
            (Way::Http { url, token_variable }, HookAgent::Codex) => match token_variable {
                Some(variable) => json!({"url": url, "bearer_token_env_var": variable}),
                None => json!({"url": url}),
            },
            (Way::Http { url, token_variable }, HookAgent::Claude) => {
                with_token(json!({"type": "http", "url": url}), token_variable.as_deref())
            }
            (Way::Http { url, token_variable }, HookAgent::Gemini) => {
                with_token(json!({"httpUrl": url}), token_variable.as_deref())
            }
        };
        value.as_object().cloned().unwrap_or_default()
    }
}

/// The entry with a header that names the variable. Both agents put its value in when they connect.
fn with_token(mut value: Value, variable: Option<&str>) -> Value {
    if let Some(variable) = variable {
        value["headers"] = json!({"Authorization": format!("Bearer ${{{variable}}}")});
    }
    value
}

fn checked_variable(name: &str) -> Result<String> {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(name.to_string());
    }
    // It may be the token itself, given by mistake.
    Err(Error::invalid("--token-env takes the name of a variable, and this is none")
        .help(format!("put the token into a variable and name that, such as {TOKEN_VARIABLE}")))
}

/// Whether an entry is one that we write, perhaps of another day: with another address, or with keys of the user's.
///
/// A program that it starts is ours. An address alone may be anybody's, so that the entry has to look like ours in all.
pub(super) fn is_ours(agent: HookAgent, entry: &Value) -> bool {
    if let Some(command) = entry["command"].as_str() {
        let arguments: Vec<&str> = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_fmail = command == COMMAND || command.ends_with("/fmail");
        return is_fmail && arguments.starts_with(&ARGUMENTS[..2]);
    }
    let Some(members) = entry.as_object() else { return false };
    let (address, others): (&str, &[&str]) = match agent {
        HookAgent::Claude => ("url", &["type", "headers"]),
        HookAgent::Codex => ("url", &["bearer_token_env_var"]),
        HookAgent::Gemini => ("httpUrl", &["headers"]),
    };
    members.contains_key(address) && members.keys().all(|key| key == address || others.contains(&key.as_str()))
}

/// The keys of an entry that we never write: somebody has put them there.
pub(super) fn further_keys(agent: HookAgent, entry: &Value) -> Vec<String> {
    let known: &[&str] = match agent {
        HookAgent::Claude => &["type", "command", "args", "url", "headers"],
        HookAgent::Codex => &["command", "args", "env_vars", "url", "bearer_token_env_var"],
        HookAgent::Gemini => &["command", "args", "httpUrl", "headers"],
    };
    let keys = entry.as_object().into_iter().flat_map(|members| members.keys());
    keys.filter(|key| !known.contains(&key.as_str())).cloned().collect()
}
