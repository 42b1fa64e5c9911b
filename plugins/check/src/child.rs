//! The children: each does one thing and ends, well or badly.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fmail_api::{Error, Result};
use fmail_conformance::{LogSubject, Outcome, Subject, guarded, run, run_log, write_until_killed};
use fmail_host::plugin::{Inspection, apart};
use serde::{Deserialize, Serialize};

use crate::cases::{Body, find};
use crate::subject::{LogProject, StoreProject, store_at};
use crate::which::Which;

/// What became of a case, on its way to the parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "reason", rename_all = "snake_case")]
pub enum Told {
    Passed,
    Skipped(String),
    Failed(String),
}

impl From<Outcome> for Told {
    fn from(outcome: Outcome) -> Told {
        match outcome {
            Outcome::Passed => Told::Passed,
            Outcome::Skipped(reason) => Told::Skipped(reason),
            Outcome::Failed(reason) => Told::Failed(reason),
        }
    }
}

/// What the plugin is.
pub fn manifest(which: &Which) -> Result<()> {
    apart::answer(which.chosen().and_then(|chosen| Inspection::of(&chosen.plugin)))
}

/// One case.
#[derive(Args)]
pub struct OneCase {
    #[command(flatten)]
    which: Which,
    /// Its rule
    rule: String,
    /// Its name
    name: String,
    /// How long it may take
    seconds: u64,
    /// `pair` if a relay joins the projects of its host
    pair: Option<String>,
}

impl OneCase {
    pub fn run(self) -> Result<()> {
        let deadline = Duration::from_secs(self.seconds);
        let case = find(&self.rule, &self.name)
            .ok_or_else(|| Error::invalid(format!("there is no case {} {}", self.rule, self.name)))?;
        let which = self.which.clone();
        let outcome = match case.body {
            Body::Store(case) => {
                let fresh = move || Ok(Box::new(StoreProject::new(&which)?) as Box<dyn Subject>);
                run(case, Arc::new(fresh), deadline)
            }
            Body::Log(case) => {
                let fresh = move || Ok(Box::new(LogProject::new(&which)?) as Box<dyn LogSubject>);
                run_log(case, Arc::new(fresh), deadline)
            }
            Body::Own(check) => {
                let pair = self.pair.is_some();
                guarded(case.name, deadline, move || {
                    check(&which, pair).unwrap_or_else(|failure| Outcome::Failed(failure.to_string()))
                })
            }
        };
        apart::answer(Ok(Told::from(outcome)))
    }
}

/// A process that writes to a project until it is killed.
#[derive(Args)]
pub struct Writer {
    #[command(flatten)]
    which: Which,
    /// The project
    root: PathBuf,
    /// What to write
    work: String,
}

impl Writer {
    pub fn run(self) -> Result<()> {
        let store = store_at(&self.root, &self.which.chosen()?)?;
        write_until_killed(&*store, self.work.parse()?)
    }
}
