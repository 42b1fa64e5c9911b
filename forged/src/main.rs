//! `forged`: serves projects to agents, so that a message reaches who waits for it at once.

mod arguments;
mod client;
mod control;
mod host;
mod limits;
mod lock;
mod log;
mod notify;
mod presence;
mod project;
mod serve;

use std::process::ExitCode;

use clap::Parser;
use fmail_host::Environment;

use arguments::{Action, Arguments};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = Environment::from_process().and_then(|environment| match &arguments.action {
        Some(Action::Status(status)) => control::status(&environment, status),
        Some(Action::Stop(stop)) => control::stop(&environment, stop),
        None => serve::serve(&environment, &arguments.serve).map(|()| ExitCode::SUCCESS),
    });
    outcome.unwrap_or_else(|error| {
        eprintln!("forged: {error}");
        if let Some(help) = error.help_text() {
            eprintln!("  help: {help}");
        }
        ExitCode::from(error.kind().exit_code())
    })
}
