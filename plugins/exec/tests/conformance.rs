//! Holds the store to the rules of mailboxes (B) and of records (R), over a script of each protocol.
//!
//! The other rules are about topics, imports and copies, which a mail script has none of. A case that comes upon something
//! that a script refuses is skipped and says why.

mod common;

use std::process::ExitCode;
use std::sync::Arc;

use common::Bench;
use fmail_api::{Result, Store};
use fmail_conformance::{Subject, trials};
use fmail_exec::{ExecOptions, Mode, Protocol};
use libtest_mimic::{Arguments, Trial};

/// A script's mail in a directory of its own.
struct Kept {
    bench: Bench,
    protocol: Protocol,
}

impl Subject for Kept {
    fn open(&self) -> Result<Arc<dyn Store>> {
        let options = match self.protocol {
            Protocol::Gc => self.bench.options(self.bench.gc()),
            Protocol::Native => {
                let command = self.bench.python(&self.bench.documented());
                ExecOptions { protocol: Protocol::Native, mode: Mode::Lines, ..self.bench.options(command) }
            }
        };
        Ok(Arc::new(fmail_exec::open(options)?))
    }
}

fn main() -> ExitCode {
    let mut all: Vec<Trial> = Vec::new();
    for (name, protocol) in [("gc", Protocol::Gc), ("native", Protocol::Native)] {
        all.extend(trials(name, move || Ok(Box::new(Kept { bench: Bench::new(), protocol }) as Box<dyn Subject>)));
    }
    let rule = |trial: &Trial| trial.name().split("::").nth(1).unwrap_or_default().to_string();
    let ours = |trial: &Trial| rule(trial).starts_with(['b', 'r']);
    all.retain(ours);
    assert!(all.len() > 40, "only {} cases are left", all.len());
    libtest_mimic::run(&Arguments::from_args(), all).exit_code()
}
