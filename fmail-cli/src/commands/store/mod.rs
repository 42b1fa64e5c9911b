//! `fmail store`

mod copy;
mod export;
mod import;
mod opened;
mod progress;

use clap::{Args, Subcommand};
use fmail_host::Environment;

use crate::examples::{Example, example, help};
use crate::output::Outcome;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail store copy --from files --to sqlite", "everything, into another store of this project"),
    example("fmail store export backup.jsonl", "everything, into a file that only you can read"),
    example("fmail store import backup.jsonl", "and back"),
    example("fmail store import --dry-run backup.jsonl", "check the file and tell what would be new"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Store {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Copy everything from one store of this project to another, and compare the two
    ///
    /// Messages keep their ids, times and unknown fields; agents, states of mail, reservations and deletions come along.
    /// An interrupted copy goes on when it is run again. No forged may serve the project meanwhile, and nobody should write.
    /// The exit code is 8 when the target has something that cannot be merged, or when the two differ at the end.
    Copy(copy::Copy),
    /// Write everything to a file, one JSON object a line
    ///
    /// A backup: direct messages of all agents are in it, and the file is for you alone (0600). Its last line has the counts
    /// and a sum, so that a file that was cut off is noticed.
    Export(export::Export),
    /// Read such a file, or messages, one JSON object a line
    ///
    /// The whole file is checked before anything is written. What is there already is left alone.
    Import(import::Import),
}

impl Store {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        match self.action {
            Action::Copy(copy) => copy.run(environment, set),
            Action::Export(export) => export.run(environment, set),
            Action::Import(import) => import.run(environment, set),
        }
    }
}
