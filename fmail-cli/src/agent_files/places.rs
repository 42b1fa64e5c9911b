//! Where agents keep their files.

use std::path::PathBuf;

use fmail_api::{Error, Result};
use fmail_host::Environment;

use crate::inject::HookAgent;

/// The directory of an agent in a project, and in the user's home.
pub(crate) fn dot_directory(agent: HookAgent) -> &'static str {
    match agent {
        HookAgent::Claude => ".claude",
        HookAgent::Codex => ".codex",
        HookAgent::Gemini => ".gemini",
    }
}

/// The user's directory for an agent, which each lets the user move by a variable.
pub(crate) fn user_directory(agent: HookAgent, environment: &Environment) -> Result<PathBuf> {
    match moved(agent, environment) {
        Some(directory) => Ok(directory),
        None => Ok(home(environment)?.join(dot_directory(agent))),
    }
}

/// Where the user has moved the agent's directory to.
pub(crate) fn moved(agent: HookAgent, environment: &Environment) -> Option<PathBuf> {
    let named = |name: &str| environment.var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = match agent {
        HookAgent::Claude => named("CLAUDE_CONFIG_DIR"),
        HookAgent::Codex => named("CODEX_HOME"),
        HookAgent::Gemini => named("GEMINI_CLI_HOME").map(|home| home.join(dot_directory(agent))),
    };
    directory.map(|directory| environment.cwd.join(directory))
}

/// The user's home.
pub(crate) fn home(environment: &Environment) -> Result<PathBuf> {
    let home = environment.var("HOME").filter(|value| !value.is_empty()).ok_or_else(|| {
        Error::invalid("HOME is not set, so that your settings cannot be found").help("set HOME, or use --project")
    })?;
    Ok(environment.cwd.join(home))
}
