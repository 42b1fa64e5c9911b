//! `fmail guard`

mod check;
mod git;
mod hook;

use clap::{Args, Subcommand};
use fmail_host::Environment;
use serde_json::json;

use self::hook::{Hook, Installed, State, Uninstalled};
use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, Stop, note};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail guard install", "git refuses commits on paths that others have reserved"),
    example("fmail guard check", "ask it now: exit 0 when the staged paths are free, 8 when one is not"),
    example("fmail guard uninstall", "as it was before, with your own hook in its place"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Guard {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Put the guard into this repository's pre-commit hook; a hook that is there is kept and runs first
    Install,
    /// Take it out again and put back the hook that was there
    Uninstall,
    /// Tell whether it is installed; exit 1 when it is not
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell whether the staged paths are free of others' exclusive reservations: exit 0 yes, 8 no, another code unknown
    Check {
        /// Print the reservations in the way as a JSON array
        #[arg(long)]
        json: bool,
    },
}

impl Guard {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let hook = || git::hooks_directory(&environment.cwd).map(Hook::in_directory);
        match self.action {
            Action::Install => install(&hook()?, environment),
            Action::Uninstall => uninstall(&hook()?),
            Action::Status { json } => status(&hook()?, json),
            Action::Check { json } => check::run(environment, set, json),
        }
    }
}

fn install(hook: &Hook, environment: &Environment) -> Outcome {
    let path = hook.path.display();
    match hook.install()? {
        Installed::Already => note(&format!("the guard is already in {path}")),
        Installed::Alone => note(&format!("the guard is in {path}")),
        Installed::Before => note(&format!(
            "the guard is in {path}; the hook that was there is {} and runs first",
            hook.before.display()
        )),
    }
    if git::is_shared(&environment.cwd, &hook.path)? {
        note("core.hooksPath points outside this repository: the guard runs for every repository that uses it");
    }
    Ok(())
}

fn uninstall(hook: &Hook) -> Outcome {
    let path = hook.path.display();
    match hook.uninstall()? {
        Uninstalled::Restored => note(&format!("the hook that was there before is back in {path}")),
        Uninstalled::Removed => note(&format!("the guard is no longer in {path}")),
        Uninstalled::NotThere => note(&format!("the guard was not in {path}")),
    }
    Ok(())
}

fn status(hook: &Hook, json: bool) -> Outcome {
    let state = hook.state()?;
    let before = hook.before.exists();
    let mut output = Output::stdout();
    if json {
        let word = match state {
            State::Absent => "absent",
            State::Guard => "installed",
            State::Disabled => "disabled",
            State::Changed => "changed",
            State::Other => "other",
        };
        let before = before.then(|| hook.before.display().to_string());
        output.json(&json!({"state": word, "hook": hook.path.display().to_string(), "before": before}))?;
    } else {
        let path = hook.path.display();
        output.line(&match state {
            State::Absent => format!("not installed: there is no {path}"),
            State::Guard if before => format!("installed in {path}, after {}", hook.before.display()),
            State::Guard => format!("installed in {path}"),
            State::Disabled => format!("not installed: {path} is not executable, so that git ignores it"),
            State::Changed => format!("not known: {path} is the guard's and was changed"),
            State::Other => format!("not installed: {path} is another hook"),
        })?;
    }
    output.flush()?;
    if matches!(state, State::Guard) { Ok(()) } else { Err(Stop::Nothing) }
}
