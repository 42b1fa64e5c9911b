//! `fmail-plugin-check`: holds a plugin to the rules of the contract, and measures it. `fmail plugin check` and
//! `fmail plugin bench` run it; it is a program of its own so that `fmail` stays small.
//!
//! | file | holds |
//! |---|---|
//! | `check.rs` | the parent: which cases, a child for each, what is told |
//! | `child.rs` | the children: one case, or a process that writes until it is killed |
//! | `which.rs` | which plugin is meant |
//! | `subject.rs` | projects that it keeps, for the suite of stores and logs |
//! | `boundary.rs` | an instance whose calls are looked at on their way |
//! | `times.rs` | how long those calls take to return |
//! | `hosted.rs` | a host with projects in memory, one of which may misbehave, for transports and relays |
//! | `cases/` | the cases that are not those of stores |
//! | `bench.rs` | what it costs |

mod bench;
mod boundary;
mod cases;
mod check;
mod child;
mod hosted;
mod subject;
mod times;
mod which;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fmail_api::Result;

/// Hold a plugin of fmail to the rules of the contract, or measure it
#[derive(Parser)]
#[command(name = "fmail-plugin-check", version)]
struct Tool {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run the cases, each in a process of its own; exit 1 when one fails
    Check(check::Check),
    /// Measure a store plugin beside the store in memory
    Bench(bench::Bench),
    /// The child: what the plugin is
    #[command(hide = true)]
    Manifest(which::Which),
    /// The child: one case
    #[command(hide = true)]
    Case(child::OneCase),
    /// The child: writes until it is killed
    #[command(hide = true)]
    Write(child::Writer),
}

/// The exit code of a plugin that breaks a rule.
const BROKEN: u8 = 1;

fn main() -> ExitCode {
    let done: Result<bool> = match Tool::parse().action {
        Action::Check(check) => check.run(),
        Action::Bench(bench) => bench.run().map(|()| true),
        Action::Manifest(which) => child::manifest(&which).map(|()| true),
        Action::Case(case) => case.run().map(|()| true),
        Action::Write(writer) => writer.run().map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BROKEN),
        Err(error) => {
            eprintln!("fmail: {error}");
            if let Some(help) = error.help_text() {
                eprintln!("  help: {help}");
            }
            ExitCode::from(error.kind().exit_code())
        }
    }
}
