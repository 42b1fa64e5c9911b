//! What else is needed for an installed server to be used.

use fmail_host::Environment;

use super::change::Change;
use super::entry::Entry;
use super::target::Scope;
use crate::inject::HookAgent;
use crate::output::note;

/// Says it.
pub(super) fn give(entry: &Entry, change: &Change, environment: &Environment) {
    let path = environment.var("PATH").unwrap_or_default();
    if entry.is_started() && !std::env::split_paths(path).any(|directory| directory.join("fmail").is_file()) {
        note("there is no `fmail` on the PATH: where the agent does not find it either, it cannot start the server");
    }
    if !entry.is_started() {
        note("the server has to run when the agent starts: forged with the transport http (docs/mcp.md)");
    }
    token(entry, environment);
    if entry.token_variable().is_some() && (change.agent, change.scope) == (HookAgent::Claude, Scope::User) {
        note("Claude Code documents variables for .mcp.json only; if it is refused (401), install with --project");
    }
    match (change.agent, change.scope) {
        (HookAgent::Claude, Scope::Project) => note("Claude Code asks once whether to use a project's servers"),
        (HookAgent::Codex, Scope::Project) => {
            note("Codex reads a project's configuration only where you trust the project")
        }
        _ => {}
    }
}

/// Says where the agent takes the token from, when it would find none. The token itself is written nowhere.
pub(super) fn token(entry: &Entry, environment: &Environment) {
    if let Some(variable) = entry.token_variable()
        && environment.var(variable).is_none_or(|token| token.trim().is_empty())
    {
        note(&format!("start the agent with {variable}, set to the server's token; it is not set now"));
    }
}
