//! `fmail quarantine`

use clap::{Args, Subcommand};
use fmail_api::{Error, ErrorKind, Quarantine as Keeper};
use fmail_host::Route;
use futures::executor::block_on;
use serde_json::json;

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::render::on_one_line;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail quarantine list", "what is broken, and what was moved away"),
    example("fmail quarantine isolate topics/task/x.json", "move it out of the way"),
    example("fmail quarantine restore NAME", "put it back"),
    example("fmail quarantine remove NAME", "delete it for good"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Quarantine {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show what is broken where it stands, and what was moved away
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Move broken files out of the way
    Isolate {
        /// Where they stand, as list shows it
        #[arg(required = true)]
        place: Vec<String>,
    },
    /// Put them back where they were
    Restore {
        /// Their names, as list shows them
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Delete them for good
    Remove {
        /// Their names, as list shows them
        #[arg(required = true)]
        name: Vec<String>,
    },
}

impl Quarantine {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let none = || {
            let name = &place.settings.mail.store;
            Error::new(
                ErrorKind::Unsupported,
                format!("the store `{name}` has no quarantine: it does not hold broken things"),
            )
        };
        // What is no files of the project's own cannot be broken from outside.
        if place.settings.route() != Route::Direct {
            return Err(none().into());
        }
        let store = place.store()?;
        let keeper = store.quarantine().ok_or_else(none)?;
        let mut output = Output::stdout();
        match self.action {
            Action::List { json } => list(keeper, json, &mut output)?,
            Action::Isolate { place } => {
                for place in place {
                    output.line(&block_on(keeper.isolate(&place))?.name)?;
                }
            }
            Action::Restore { name } => {
                for name in name {
                    output.line(&block_on(keeper.restore(&name))?)?;
                }
            }
            Action::Remove { name } => {
                for name in name {
                    block_on(keeper.discard(&name))?;
                }
            }
        }
        output.flush()
    }
}

fn list(keeper: &dyn Keeper, json: bool, output: &mut Output) -> Outcome {
    let (broken, held) = (block_on(keeper.broken())?, block_on(keeper.held())?);
    if json {
        return output.json(&json!({"broken": broken, "held": held}));
    }
    if broken.is_empty() && held.is_empty() {
        note("nothing is broken, and nothing is held");
    }
    for one in &broken {
        output.line(&on_one_line(&format!("broken {}: {}", one.place, one.reason)))?;
    }
    for one in &held {
        output.line(&on_one_line(&format!("held {} (was {}, since {})", one.name, one.place, one.since)))?;
    }
    Ok(())
}
