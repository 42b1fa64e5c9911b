//! What else is needed for installed hooks to run and to tell somebody something.

use std::fs;
use std::path::Path;

use fmail_api::AgentName;
use fmail_host::Environment;

use super::change::Change;
use super::entries::Settings;
use super::target::Scope;
use crate::inject::HookAgent;
use crate::output::note;

/// Says it.
pub(super) fn give(
    agent: HookAgent,
    scope: Scope,
    name: Option<&AgentName>,
    environment: &Environment,
    change: &Change,
) {
    if let Some(off) = switched_off(agent, change) {
        note(&format!("{off}: no hook will run until that is changed"));
    }
    if agent == HookAgent::Codex {
        note("Codex runs a hook after you have looked at it: open /hooks in a session and trust it");
    }
    let path = environment.var("PATH").unwrap_or_default();
    if !std::env::split_paths(path).any(|directory| directory.join("fmail").is_file()) {
        note("there is no `fmail` on the PATH: where the agent does not find it either, the hook does nothing");
    }
    match name {
        Some(name) if scope == Scope::Project => {
            let path = change.file.path.display();
            note(&format!("everyone who uses {path} gets the mail of @{name}, unless FMAIL_AGENT says otherwise"));
        }
        None if environment.var("FMAIL_AGENT").is_none() => {
            note("a session is told of mail only when it has FMAIL_AGENT: start the agent with FMAIL_AGENT=name");
        }
        _ => {}
    }
}

/// Where hooks are switched off, if they are.
fn switched_off(agent: HookAgent, change: &Change) -> Option<String> {
    if agent == HookAgent::Codex {
        let config = change.file.real().with_file_name("config.toml");
        return codex_switched_off(&config).map(|key| format!("{} sets {key} = false", config.display()));
    }
    let settings = Settings::parse(agent, change.file.text()?.to_string()).ok()?;
    settings.switched_off().map(|off| format!("in {} {off}", change.file.path.display()))
}

/// The key that switches Codex's hooks off, under its new or its old name.
fn codex_switched_off(config: &Path) -> Option<&'static str> {
    let config: toml::Table = fs::read_to_string(config).ok()?.parse().ok()?;
    let features = config.get("features")?;
    let off = |key: &str| features.get(key).and_then(toml::Value::as_bool) == Some(false);
    [("hooks", "features.hooks"), ("codex_hooks", "features.codex_hooks")]
        .into_iter()
        .find_map(|(key, name)| off(key).then_some(name))
}
