//! The cases of logs: one or more for each numbered rule of [`fmail_api::Log`], apart from G5, which binds the caller.

mod append;
mod life;
mod read;

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{ErrorKind, Log, LogEntry, LogFacts, Result};
use futures::executor::block_on;
use libtest_mimic::{Completion, Trial};

use crate::case::ensure;
use crate::run::{DEADLINE, Outcome, guarded};
use crate::{Failure, Verdict};

/// One promise of a log.
pub struct LogCase {
    /// The rule of [`Log`] that it checks, for example `G1`.
    pub rule: &'static str,
    /// The promise, as a name.
    pub name: &'static str,
    /// What the log must claim for the promise to apply.
    pub needs: &'static [LogNeed],
    /// Checks the promise on a fresh project.
    pub check: fn(&dyn LogSubject) -> Verdict,
}

/// What a log must claim in its [`LogFacts`] for a case to apply.
#[derive(Debug, Clone, Copy)]
pub enum LogNeed {
    /// `shared`: two instances are not the same one.
    Shared,
    /// `durable`.
    Durable,
}

impl LogNeed {
    fn missing(self, facts: &LogFacts) -> Option<String> {
        let (claimed, what) = match self {
            LogNeed::Shared => (facts.shared, "shared"),
            LogNeed::Durable => (facts.durable, "durable"),
        };
        (!claimed).then(|| format!("the log `{}` does not claim `{what}`", facts.name))
    }
}

/// One project of the log under test. It is empty when the factory hands it out, and gone when it is dropped.
pub trait LogSubject: Send + Sync {
    /// An instance on the project's data. Each call gives a fresh one; a log that is not shared gives the same one again.
    fn open(&self) -> Result<Arc<dyn Log>>;
}

/// Makes a fresh subject for each case.
pub type LogFactory = Arc<dyn Fn() -> Result<Box<dyn LogSubject>> + Send + Sync>;

/// All cases of logs, in the order of the rules.
pub fn log_cases() -> impl Iterator<Item = &'static LogCase> {
    [append::CASES, read::CASES, life::CASES].into_iter().flatten()
}

/// Runs one case on a fresh project, as [`run`](crate::run()) does.
pub fn run_log(case: &'static LogCase, factory: LogFactory, deadline: Duration) -> Outcome {
    guarded(case.name, deadline, move || {
        let check = || {
            let subject = factory()?;
            let facts = subject.open()?.facts();
            if let Some(reason) = case.needs.iter().find_map(|need| need.missing(&facts)) {
                return Ok(Outcome::Skipped(reason));
            }
            (case.check)(&*subject).map(|()| Outcome::Passed)
        };
        check().unwrap_or_else(|failure: Failure| Outcome::Failed(failure.to_string()))
    })
}

/// Every case as a test of the harness, named `<log>::<rule>::<promise>`.
pub fn log_trials<F>(log: &str, factory: F) -> Vec<Trial>
where
    F: Fn() -> Result<Box<dyn LogSubject>> + Send + Sync + 'static,
{
    let factory: LogFactory = Arc::new(factory);
    let trial = |case: &'static LogCase| {
        let factory = factory.clone();
        let name = format!("{log}::{}::{}", case.rule.to_lowercase(), case.name);
        Trial::ignorable_test(name, move || match run_log(case, factory, DEADLINE) {
            Outcome::Passed => Ok(Completion::Completed),
            Outcome::Skipped(reason) => Ok(Completion::ignored_with(reason)),
            Outcome::Failed(sentence) => Err(format!("rule {}: {sentence}", case.rule).into()),
        })
    };
    log_cases().map(trial).collect()
}

/// Appends, which must succeed.
fn append(log: &dyn Log, at: u64, text: &str) -> Verdict {
    block_on(log.append(at, text.into()))
        .map_err(|error| Failure::new(format!("an append at the next position, {at}, failed: {error:?}")))
}

/// Appends `texts` from the position `at` on.
fn append_all(log: &dyn Log, at: u64, texts: &[&str]) -> Verdict {
    texts.iter().zip(at..).try_for_each(|(text, at)| append(log, at, text))
}

/// Appends where it must not succeed.
fn refused(log: &dyn Log, at: u64, text: &str) -> Verdict {
    match block_on(log.append(at, text.into())) {
        Ok(()) => Err(Failure::new(format!("an append at {at}, which is not the next position, succeeded"))),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
        Err(error) => Err(Failure::new(format!("an append at {at} is no `conflict`: {error:?}"))),
    }
}

/// Everything behind a position, read in steps of at most `limit`, until the answer is empty.
fn read_all(log: &dyn Log, after: u64, limit: usize) -> Verdict<Vec<LogEntry>> {
    let mut all: Vec<LogEntry> = Vec::new();
    loop {
        let after = all.last().map_or(after, |last| last.position);
        let some = block_on(log.read(after, limit))?;
        if some.is_empty() {
            return Ok(all);
        }
        ensure!(some.len() <= limit, "a read with the limit {limit} delivers {} entries", some.len());
        all.extend(some);
    }
}

/// Positions and texts, to compare.
fn shown(entries: &[LogEntry]) -> Vec<(u64, &str)> {
    entries.iter().map(|entry| (entry.position, entry.text.as_str())).collect()
}
