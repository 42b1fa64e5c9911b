//! Which file an agent reads its servers from.

use std::path::PathBuf;

use clap::Args;
use fmail_api::Result;
use fmail_host::{Environment, Project};

use crate::agent_files::places::{dot_directory, home, moved, user_directory};
use crate::inject::HookAgent;

/// For whom the server is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Project,
    User,
}

impl Scope {
    pub(super) const ALL: [Scope; 2] = [Scope::Project, Scope::User];

    /// Its word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Scope::Project => "project",
            Scope::User => "user",
        }
    }
}

// (Not a doc comment: clap would show it as the description of the command.)
#[derive(Args)]
pub(super) struct ScopeFlags {
    /// For everyone who works in this project; the file is usually shared with its repository (the default)
    #[arg(long, conflicts_with = "user")]
    project: bool,

    /// For you, in all projects
    #[arg(long)]
    user: bool,
}

impl ScopeFlags {
    /// What was asked for.
    pub(super) fn scope(&self) -> Scope {
        if self.user { Scope::User } else { Scope::Project }
    }
}

/// The file of an agent's servers.
pub(super) fn file(agent: HookAgent, scope: Scope, environment: &Environment) -> Result<PathBuf> {
    let directory = match (agent, scope) {
        (HookAgent::Claude, Scope::Project) => return Ok(Project::discover(environment)?.root.join(".mcp.json")),
        // Beside its directory, not in it, unless that has been moved.
        (HookAgent::Claude, Scope::User) => match moved(agent, environment) {
            Some(directory) => return Ok(directory.join(".claude.json")),
            None => return Ok(home(environment)?.join(".claude.json")),
        },
        (_, Scope::Project) => Project::discover(environment)?.root.join(dot_directory(agent)),
        (_, Scope::User) => user_directory(agent, environment)?,
    };
    Ok(directory.join(if agent == HookAgent::Codex { "config.toml" } else { "settings.json" }))
}
