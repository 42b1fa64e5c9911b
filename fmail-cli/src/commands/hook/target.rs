//! Which file an agent reads its hooks from.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fmail_api::{Error, Result};
use fmail_host::{Environment, Project};

use crate::agent_files::places::{dot_directory, user_directory};
use crate::inject::HookAgent;

/// For whom hooks are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    Project,
    Local,
    User,
}

impl Scope {
    /// Its word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Scope::Project => "project",
            Scope::Local => "local",
            Scope::User => "user",
        }
    }
}

// (Not a doc comment: clap would show it as the description of the command.)
#[derive(Args)]
pub(super) struct ScopeFlags {
    /// For everyone who works in this project; the file is usually shared with its repository (the default)
    #[arg(long, conflicts_with_all = ["user", "local"])]
    project: bool,

    /// For you, in all projects
    #[arg(long)]
    user: bool,

    /// For you, in this project (only claude has a file for that)
    #[arg(long, conflicts_with = "user")]
    local: bool,
}

impl ScopeFlags {
    /// What was asked for.
    pub(super) fn scope(&self) -> Scope {
        match (self.user, self.local) {
            (true, _) => Scope::User,
            (_, true) => Scope::Local,
            _ => Scope::Project,
        }
    }
}

/// The scopes that an agent has.
pub(super) fn scopes(agent: HookAgent) -> &'static [Scope] {
    match agent {
        HookAgent::Claude => &[Scope::Project, Scope::Local, Scope::User],
        HookAgent::Codex | HookAgent::Gemini => &[Scope::Project, Scope::User],
    }
}

/// The file of an agent's hooks.
pub(super) fn file(agent: HookAgent, scope: Scope, environment: &Environment) -> Result<PathBuf> {
    if !scopes(agent).contains(&scope) {
        return Err(Error::invalid(format!("{} has no settings of yours alone in a project", agent.name()))
            .help("use --project or --user"));
    }
    let directory = match scope {
        Scope::Project | Scope::Local => Project::discover(environment)?.root.join(dot_directory(agent)),
        Scope::User => user_directory(agent, environment)?,
    };
    Ok(directory.join(match (agent, scope) {
        (HookAgent::Claude, Scope::Local) => "settings.local.json",
        (HookAgent::Codex, _) => "hooks.json",
        _ => "settings.json",
    }))
}
