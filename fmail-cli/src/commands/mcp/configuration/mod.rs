//! `fmail mcp config`, `install`, `uninstall` and `status`: our server in the configuration of agents.

mod advice;
mod change;
mod entry;
mod json;
mod servers;
mod target;
#[cfg(test)]
mod tests;
mod toml;

use clap::{Args, ValueEnum};
use fmail_api::Error;
use fmail_host::Environment;
use serde_json::{Value, json};

use self::change::{Change, Done};
use self::entry::{Entry, EntryFlags, NameFlag};
use self::servers::Servers;
use self::target::{Scope, ScopeFlags};
use crate::inject::HookAgent;
use crate::output::{Outcome, Output, Stop};

#[derive(Args)]
pub(crate) struct Config {
    /// Which agent
    agent_program: HookAgent,

    #[command(flatten)]
    entry: EntryFlags,

    /// Print JSON on one line, whatever the agent's own form is
    #[arg(long)]
    json: bool,
}

impl Config {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let entry = Entry::of(&self.entry, environment, set)?;
        let value = entry.value(self.agent_program);
        advice::token(&entry, environment);
        let mut output = Output::stdout();
        if self.json {
            output.json(&json!({&entry.name: value}))?;
        } else {
            let blank = Servers::parse(self.agent_program, Servers::blank(self.agent_program).to_string())?;
            output.line(blank.with(&entry.name, &value)?.0.trim_end())?;
        }
        output.flush()
    }
}

#[derive(Args)]
pub(crate) struct Install {
    /// Which agent
    agent_program: HookAgent,

    #[command(flatten)]
    scope: ScopeFlags,

    #[command(flatten)]
    entry: EntryFlags,

    /// Print the file as it would be, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Install {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let entry = Entry::of(&self.entry, environment, set)?;
        let change = Change::of(self.agent_program, self.scope.scope(), entry.name.clone(), environment)?;
        let done = change.install(&entry, self.dry_run)?;
        if !self.json {
            advice::give(&entry, &change, environment);
        }
        tell(&change, &done, "installed in", "already installed in", self.dry_run, self.json)
    }
}

#[derive(Args)]
pub(crate) struct Uninstall {
    /// Which agent
    agent_program: HookAgent,

    #[command(flatten)]
    scope: ScopeFlags,

    #[command(flatten)]
    name: NameFlag,

    /// Print the file as it would be, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Uninstall {
    pub(crate) fn run(self, environment: &Environment) -> Outcome {
        let change = Change::of(self.agent_program, self.scope.scope(), self.name.checked()?, environment)?;
        let done = change.uninstall(self.dry_run)?;
        tell(&change, &done, "removed from", "not installed in", self.dry_run, self.json)
    }
}

fn tell(change: &Change, done: &Done, changed: &str, unchanged: &str, dry_run: bool, as_json: bool) -> Outcome {
    let path = change.file.path.display();
    let mut output = Output::stdout();
    if as_json {
        output.json(&json!({
            "agent": change.agent.name(), "scope": change.scope.name(), "file": path.to_string(), "name": change.name,
            "installed": done.entry.is_some(), "changed": done.changed, "dry_run": dry_run, "server": done.entry,
        }))?;
    } else if dry_run {
        output.line(done.text.as_deref().unwrap_or_default().trim_end_matches('\n'))?;
    } else {
        crate::output::note(&format!("{} {path}", if done.changed { changed } else { unchanged }));
    }
    output.flush()
}

#[derive(Args)]
pub(crate) struct Status {
    /// Only this agent
    agent_program: Option<HookAgent>,

    #[command(flatten)]
    name: NameFlag,

    /// Print JSON, one object a line for each file
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, environment: &Environment) -> Outcome {
        let name = self.name.checked()?;
        let agents = self.agent_program.map_or_else(|| HookAgent::value_variants().to_vec(), |agent| vec![agent]);
        let mut output = Output::stdout();
        let (mut anywhere, mut failed) = (false, None);
        for (agent, scope) in agents.into_iter().flat_map(|agent| Scope::ALL.map(|scope| (agent, scope))) {
            let path = target::file(agent, scope, environment)?;
            let found = Change::of(agent, scope, name.clone(), environment).and_then(|change| change.installed());
            anywhere |= matches!(&found, Ok(Some(_)));
            if self.json {
                let (agent, scope, file) = (agent.name(), scope.name(), path.display().to_string());
                output.json(&match &found {
                    Ok(server) => json!({"agent": agent, "scope": scope, "file": file, "name": name,
                        "installed": server.is_some(), "server": server}),
                    Err(error) => json!({"agent": agent, "scope": scope, "file": file, "error": error.to_string()}),
                })?;
            } else if let Ok(server) = &found {
                let state = described(server.as_ref());
                output.line(&format!("{} {}: {state} - {}", agent.name(), scope.name(), path.display()))?;
            }
            // Told with the others; the exit code is the first failure's.
            failed = failed.or(found.err());
        }
        output.flush()?;
        ended(failed, anywhere)
    }
}

fn ended(failed: Option<Error>, anywhere: bool) -> Outcome {
    match failed {
        Some(error) => Err(error.into()),
        None if anywhere => Ok(()),
        None => Err(Stop::Nothing),
    }
}

fn described(server: Option<&Value>) -> String {
    let text = |key: &str| server.and_then(|server| server[key].as_str());
    match (server, text("url").or(text("httpUrl"))) {
        (None, _) => "not installed".to_string(),
        (Some(_), Some(url)) => format!("installed, at {url}"),
        (Some(_), None) => "installed, started by the agent".to_string(),
    }
}
