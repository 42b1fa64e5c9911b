//! The cases of logs must be able to fail: each deliberate fault is reported under the rules that it breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Error, ErrorKind, Health, Log, LogEntry, LogFacts, Result};
use fmail_conformance::{LogFactory, LogSubject, Outcome, log_cases, run_log};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Lets two appends take one position.
    TakesAPositionTwice,
    /// Stores at any position.
    IgnoresThePosition,
    /// Begins with 0.
    BeginsWithZero,
    /// Cuts spaces at the ends.
    Trims,
    /// Delivers one more than asked for.
    IgnoresLimit,
    /// Delivers in the wrong order.
    Reverses,
    /// Says that there is nothing behind a hole.
    EndsAtAHole,
    /// Numbers anew what is left after a drop.
    Renumbers,
    /// Fails when something is dropped twice.
    MindsDroppingTwice,
    /// Stores something when asked for its health.
    HealthWrites,
    /// Fails when it is closed.
    CannotClose,
}

struct Faulty {
    fault: Fault,
    entries: Mutex<BTreeMap<u64, String>>,
}

impl Faulty {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next(entries: &BTreeMap<u64, String>) -> u64 {
    entries.last_key_value().map_or(1, |(last, _)| last + 1)
}

#[async_trait]
impl Log for Faulty {
    fn facts(&self) -> LogFacts {
        LogFacts { name: "faulty".into(), shared: false, durable: false, max_message_bytes: 100_000 }
    }

    async fn append(&self, at: u64, entry: String) -> Result<()> {
        let mut entries = self.lock();
        let next = match self.fault {
            Fault::IgnoresThePosition => at,
            // The one who comes second overwrites the first.
            Fault::TakesAPositionTwice if at + 1 == next(&entries) && at > 0 => at,
            Fault::BeginsWithZero if entries.is_empty() => 0,
            _ => next(&entries),
        };
        if at != next {
            return Err(Error::new(ErrorKind::Conflict, format!("the next position is {next}, not {at}")));
        }
        let entry = if self.fault == Fault::Trims { entry.trim().to_string() } else { entry };
        entries.insert(at, entry);
        Ok(())
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let entries = self.lock();
        if self.fault == Fault::EndsAtAHole && after > 0 && !entries.contains_key(&(after + 1)) {
            return Ok(Vec::new());
        }
        let limit = if self.fault == Fault::IgnoresLimit { limit + 1 } else { limit };
        let behind = entries.range(after + 1..).take(limit);
        let mut all: Vec<_> = behind.map(|(at, text)| LogEntry { position: *at, text: text.clone() }).collect();
        if self.fault == Fault::Reverses {
            all.reverse();
        }
        Ok(all)
    }

    async fn discard(&self, positions: &[u64]) -> Result<()> {
        let mut entries = self.lock();
        for position in positions {
            if entries.remove(position).is_none() && self.fault == Fault::MindsDroppingTwice {
                return Err(Error::not_found("dropped already"));
            }
        }
        if self.fault == Fault::Renumbers {
            *entries = std::mem::take(&mut *entries).into_values().zip(1..).map(|(text, at)| (at, text)).collect();
        }
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        if self.fault == Fault::HealthWrites {
            let mut entries = self.lock();
            let at = next(&entries);
            entries.insert(at, "health".into());
        }
        Ok(Health { writable: true, detail: String::new() })
    }

    async fn close(&self) -> Result<()> {
        match self.fault {
            Fault::CannotClose => Err(Error::internal("cannot close")),
            _ => Ok(()),
        }
    }
}

struct Project(Arc<Faulty>);

impl LogSubject for Project {
    fn open(&self) -> Result<Arc<dyn Log>> {
        Ok(self.0.clone())
    }
}

/// The rules that are found broken include these, and a log without fault breaks none.
#[track_caller]
fn check(fault: Fault, broken: &[&str]) {
    let factory: LogFactory = Arc::new(move || {
        Ok(Box::new(Project(Arc::new(Faulty { fault, entries: Mutex::default() }))) as Box<dyn LogSubject>)
    });
    let outcomes: Vec<_> =
        log_cases().map(|case| (case, run_log(case, factory.clone(), Duration::from_secs(20)))).collect();
    let failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    let rules: BTreeSet<&str> = failed.clone().map(|(case, _)| case.rule).collect();
    let told: Vec<String> = failed.map(|(case, outcome)| format!("{} {}: {outcome:?}", case.rule, case.name)).collect();
    let missing: Vec<&&str> = broken.iter().filter(|rule| !rules.contains(**rule)).collect();
    assert!(missing.is_empty(), "{fault:?} was not found under {missing:?}:\n{}", told.join("\n"));
    assert_eq!(rules.is_empty(), broken.is_empty(), "{fault:?}:\n{}", told.join("\n"));
}

#[test]
fn a_log_without_fault_passes() {
    check(Fault::None, &[]);
}

#[test]
fn positions_that_are_wrong_break_their_rules() {
    check(Fault::TakesAPositionTwice, &["G2"]);
    check(Fault::IgnoresThePosition, &["G1", "G2"]);
    check(Fault::BeginsWithZero, &["G1"]);
}

#[test]
fn texts_that_are_changed_break_the_rule_of_texts() {
    check(Fault::Trims, &["G4"]);
}

#[test]
fn reads_that_are_wrong_break_their_rules() {
    check(Fault::IgnoresLimit, &["G6"]);
    check(Fault::Reverses, &["G6"]);
    check(Fault::EndsAtAHole, &["G7"]);
}

#[test]
fn drops_that_are_wrong_break_their_rules() {
    check(Fault::Renumbers, &["G1", "G8"]);
    check(Fault::MindsDroppingTwice, &["G9"]);
}

#[test]
fn a_life_that_is_wrong_breaks_its_rules() {
    check(Fault::HealthWrites, &["G10"]);
    check(Fault::CannotClose, &["G11"]);
}

#[test]
fn every_rule_of_logs_that_binds_the_log_has_a_case() {
    let contract = include_str!("../../../fmail-api/src/log.rs");
    let rules: BTreeSet<&str> = contract
        .lines()
        .filter_map(|line| line.strip_prefix("/// - **")?.split_once("**").map(|(rule, _)| rule))
        // It says what a caller may conclude.
        .filter(|rule| *rule != "G5")
        .collect();
    assert!(rules.len() == 10, "the contract's rules were not found: {rules:?}");
    assert_eq!(log_cases().map(|case| case.rule).collect::<BTreeSet<_>>(), rules);
}
