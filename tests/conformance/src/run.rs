//! Running cases: each on a thread of its own, with a deadline, as one named test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fmail_api::Result;
use libtest_mimic::{Completion, Trial};

use crate::kit::use_topics;
use crate::mail::MAIL;
use crate::{Bench, Case, Factory, Subject, cases, mail_cases};

/// How long a case may take. The slowest takes a few seconds on a busy machine; what takes longer hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The promise holds.
    Passed,
    /// The promise does not apply, for this reason.
    Skipped(String),
    /// The promise is broken, in this way.
    Failed(String),
}

/// Runs one case on a fresh project.
///
/// A case that does not come back in time has failed; its thread is left behind, since nothing can end it.
pub fn run(case: &'static Case, factory: Factory, deadline: Duration) -> Outcome {
    guarded(case.name, deadline, move || attempt(case, factory))
}

/// Runs the body of a case on a thread of its own, at most so long; a panic is a failure.
pub fn guarded(name: &str, deadline: Duration, body: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        // Nobody listens any more when the deadline was first.
        let _ = sender.send(outcome.unwrap_or_else(|panic| Outcome::Failed(panic_text(panic.as_ref()))));
    };
    if let Err(error) = thread::Builder::new().name(name.into()).spawn(body) {
        return Outcome::Failed(format!("the suite could not start a thread: {error}"));
    }
    receiver.recv_timeout(deadline).unwrap_or_else(|_| {
        Outcome::Failed(format!("it did not come back within {deadline:?}: something waits for what never happens"))
    })
}

fn attempt(case: &Case, factory: Factory) -> Outcome {
    let check = || {
        let bench = Bench::new(factory)?;
        let store = bench.open()?;
        if let Some(reason) = case.needs.iter().find_map(|need| need.missing(&*store)) {
            return Ok(Outcome::Skipped(reason));
        }
        let delegated = store.mailbox().is_some() && (case.rule == MAIL || case.rule.starts_with('B'));
        use_topics(store.capabilities().topics);
        // An instance that the case does not know of could be in its way.
        drop(store);
        match (case.check)(&bench) {
            Ok(()) => Ok(Outcome::Passed),
            // A mailbox may have no notion of a mark (B4), and its backend of topics or copies; what the operations then do
            // is not its fault.
            Err(failure) if delegated && failure.unsupported => Ok(Outcome::Skipped(failure.to_string())),
            Err(failure) => Err(failure),
        }
    };
    check().unwrap_or_else(|failure: crate::Failure| Outcome::Failed(failure.to_string()))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    format!("it panicked: {text}")
}

/// Every case as a test of the harness, named `<store>::<rule>::<promise>`.
pub fn trials<F>(store: &str, factory: F) -> Vec<Trial>
where
    F: Fn() -> Result<Box<dyn Subject>> + Send + Sync + 'static,
{
    let factory: Factory = Arc::new(factory);
    let trial = |case: &'static Case| {
        let factory = factory.clone();
        let name = format!("{store}::{}::{}", case.rule.to_lowercase(), case.name);
        Trial::ignorable_test(name, move || match run(case, factory, DEADLINE) {
            Outcome::Passed => Ok(Completion::Completed),
            Outcome::Skipped(reason) => Ok(Completion::ignored_with(reason)),
            Outcome::Failed(sentence) => Err(format!("rule {}: {sentence}", case.rule).into()),
        })
    };
    cases().chain(mail_cases()).map(trial).collect()
}
