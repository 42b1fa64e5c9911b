//! `fmail hook`

mod advice;
mod change;
mod entries;
mod target;
#[cfg(test)]
mod tests;

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use fmail_api::{AgentName, Error};
use fmail_host::Environment;
use serde_json::{Value, json};

use self::change::{Change, Done};
use self::entries::Settings;
use self::target::{ScopeFlags, scopes};
use crate::agent_files::{SettingsFile, in_file};
use crate::examples::{Example, example, help};
use crate::inject::HookAgent;
use crate::output::{Outcome, Output, Stop, note};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail hook install claude", "sessions in this project that have FMAIL_AGENT are told of new mail"),
    example("fmail hook install codex --user --stop", "everywhere, and also when the agent would stop"),
    example("fmail hook status", "which agents have the hooks, and in which files"),
    example("fmail hook uninstall claude", "the file as it was before"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Hook {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Let an agent run `fmail check --inject` at the start of a session, with each prompt and after each tool
    Install {
        /// Which agent
        agent_program: HookAgent,

        #[command(flatten)]
        scope: ScopeFlags,

        /// Whose mail it is in sessions without FMAIL_AGENT
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,

        /// Also when the agent is done: new mail makes it go on, once
        #[arg(long)]
        stop: bool,

        /// Print the file as it would be, and change nothing
        #[arg(long)]
        dry_run: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take our hooks out again, and nothing else
    Uninstall {
        /// Which agent
        agent_program: HookAgent,

        #[command(flatten)]
        scope: ScopeFlags,

        /// Print the file as it would be, and change nothing
        #[arg(long)]
        dry_run: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell where our hooks are installed; exit 1 when they are nowhere
    Status {
        /// Only this agent
        agent_program: Option<HookAgent>,

        /// Print JSON, one object a line for each file
        #[arg(long)]
        json: bool,
    },
}

impl Hook {
    pub(crate) fn run(self, environment: &Environment) -> Outcome {
        match self.action {
            Action::Install { agent_program, scope, agent, stop, dry_run, json } => {
                let name = agent.as_deref().map(str::parse::<AgentName>).transpose()?;
                let events = entries::names(agent_program).into_iter().take(if stop { 4 } else { 3 });
                let command = entries::command(agent_program, name.as_ref().map(AgentName::as_str));
                let wanted: Vec<entries::Entry> = events.map(|event| (event.to_string(), command.clone())).collect();
                let change = Change::of(agent_program, scope.scope(), environment)?;
                let done = change.install(&wanted, dry_run)?;
                if !json {
                    advice::give(agent_program, scope.scope(), name.as_ref(), environment, &change);
                }
                tell(&change, &done, "installed in", "already installed in", dry_run, json)
            }
            Action::Uninstall { agent_program, scope, dry_run, json } => {
                let change = Change::of(agent_program, scope.scope(), environment)?;
                let done = change.uninstall(dry_run)?;
                tell(&change, &done, "removed from", "not installed in", dry_run, json)
            }
            Action::Status { agent_program, json } => status(agent_program, environment, json),
        }
    }
}

fn tell(change: &Change, done: &Done, changed: &str, unchanged: &str, dry_run: bool, as_json: bool) -> Outcome {
    let path = change.file.path.display();
    let mut output = Output::stdout();
    if as_json {
        let events: Vec<&str> = done.entries.iter().map(|(event, _)| event.as_str()).collect();
        output.json(&json!({
            "agent": change.agent.name(),
            "scope": change.scope.name(),
            "file": path.to_string(),
            "changed": done.changed,
            "dry_run": dry_run,
            "events": events,
            "text": done.text.as_ref().filter(|_| dry_run),
        }))?;
    } else if dry_run && done.changed {
        match &done.text {
            Some(text) => output.line(text.strip_suffix('\n').unwrap_or(text))?,
            None => note(&format!("{path} would be removed")),
        }
    } else {
        note(&format!("the hooks are {} {path}", if done.changed { changed } else { unchanged }));
    }
    output.flush()
}

fn status(only: Option<HookAgent>, environment: &Environment, as_json: bool) -> Outcome {
    let agents: Vec<HookAgent> = only.map_or_else(|| HookAgent::value_variants().to_vec(), |agent| vec![agent]);
    let mut output = Output::stdout();
    let (mut anywhere, mut failed) = (false, None);
    for agent in agents {
        for scope in scopes(agent) {
            let path = target::file(agent, *scope, environment)?;
            match state_of(agent, &path) {
                Ok(state) => {
                    let events: Vec<&str> = state.entries.iter().map(|(event, _)| event.as_str()).collect();
                    anywhere |= !events.is_empty();
                    if as_json {
                        let commands: Vec<&String> = state.entries.iter().map(|(_, command)| command).collect();
                        output.json(&json!({
                            "agent": agent.name(), "scope": scope.name(), "file": path.display().to_string(),
                            "installed": !events.is_empty(), "events": events, "commands": commands,
                            "switched_off": state.switched_off,
                        }))?;
                    } else {
                        output.line(&described(agent, scope.name(), &path, &events, state.switched_off))?;
                    }
                }
                // Told with the others; the exit code is the first failure's.
                Err(error) => {
                    if as_json {
                        let told = Value::from(error.to_string());
                        let file = path.display().to_string();
                        output.json(
                            &json!({"agent": agent.name(), "scope": scope.name(), "file": file, "error": told}),
                        )?;
                    }
                    failed = failed.or(Some(error));
                }
            }
        }
    }
    output.flush()?;
    match failed {
        Some(error) => Err(error.into()),
        None if anywhere => Ok(()),
        None => Err(Stop::Nothing),
    }
}

/// What a file says of our hooks.
struct State {
    entries: Vec<entries::Entry>,
    switched_off: Option<&'static str>,
}

fn state_of(agent: HookAgent, path: &Path) -> Result<State, Error> {
    let file = SettingsFile::read(path.to_path_buf())?;
    let Some(text) = file.text() else { return Ok(State { entries: Vec::new(), switched_off: None }) };
    let settings = Settings::parse(agent, text.to_string()).map_err(|error| in_file(path, &error))?;
    Ok(State { entries: settings.entries(), switched_off: settings.switched_off() })
}

fn described(agent: HookAgent, scope: &str, path: &Path, events: &[&str], off: Option<&str>) -> String {
    let state = match events {
        [] => "not installed".to_string(),
        events => format!("installed at {}", events.join(", ")),
    };
    let off = off.map(|off| format!(" (but {off}, so that no hook runs)")).unwrap_or_default();
    format!("{} {scope}: {state}{off} - {}", agent.name(), path.display())
}
