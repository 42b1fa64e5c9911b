//! `forged`: serves projects to agents, so that a message reaches who waits for it at once.

mod alone;
mod client;
mod completions;
mod control;
mod found;
mod host;
mod limits;
mod lock;
mod log;
mod notify;
mod paired;
mod plugins;
mod presence;
mod project;
mod relay;
mod sends;
mod serve;
mod tcp;
mod underway;

use std::process::ExitCode;

use clap::Parser;
use fmail_host::Environment;
use forged::arguments;

use arguments::{Action, Arguments};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = Environment::from_process().and_then(|environment| match &arguments.action {
        Some(Action::Status(status)) => control::status(&environment, status),
        Some(Action::Stop(stop)) => control::stop(&environment, stop),
        Some(Action::Completions(wanted)) => completions::print(wanted.shell),
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
