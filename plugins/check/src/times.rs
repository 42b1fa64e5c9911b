//! How long the calls of a library take to return.
//!
//! Once a call has taken longer than the host's patience, the host calls that instance from threads of its own, and what
//! its caller sees says nothing about the plugin any more. So an instance is followed up to its first such call only, and to
//! be sure up to the first that takes half as long: the host's clock begins a moment earlier than the one here.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fmail_conformance::{Failure, Verdict};
use fmail_host::plugin::PATIENCE;

/// Rule 5.
const LONGEST: Duration = Duration::from_millis(5);
/// Nobody waits longer than this for a call to return.
const LIMIT: Duration = Duration::from_secs(1);

/// What is told by the thread that calls.
pub enum Step {
    /// A call of this method begins.
    Entered(String),
    /// It has returned, after so long.
    Returned(String, Duration),
    /// There will be no more calls.
    Finished(Verdict),
}

/// How far an instance was followed.
#[derive(Debug, PartialEq, Eq)]
pub enum Followed {
    /// Through all of its calls.
    ToTheEnd,
    /// Up to a call that came near the host's patience.
    UntilItBlocked,
}

/// How long the fastest call of each method took, and how many there were.
#[derive(Default)]
pub struct Times(BTreeMap<String, (Duration, u32)>);

impl Times {
    /// Notes the calls of one instance, which are made one after the other.
    pub fn follow(&mut self, steps: &Receiver<Step>) -> Verdict<Followed> {
        let mut inside: Option<(String, Instant)> = None;
        loop {
            let step = match &inside {
                Some((_, since)) => steps.recv_timeout(LIMIT.saturating_sub(since.elapsed())),
                None => steps.recv().map_err(RecvTimeoutError::from),
            };
            match (step, inside.take()) {
                (Ok(Step::Entered(method)), _) => inside = Some((method, Instant::now())),
                (Ok(Step::Returned(method, took)), _) => {
                    self.note(method, took);
                    if took > PATIENCE / 2 {
                        return Ok(Followed::UntilItBlocked);
                    }
                }
                (Ok(Step::Finished(verdict)), _) => return verdict.map(|()| Followed::ToTheEnd),
                (Err(RecvTimeoutError::Timeout), Some((method, _))) => {
                    self.note(method, LIMIT);
                    return Ok(Followed::UntilItBlocked);
                }
                (Err(_), _) => return Err(Failure::new("the thread that calls has ended without a word")),
            }
        }
    }

    fn note(&mut self, method: String, took: Duration) {
        let (least, count) = self.0.entry(method).or_insert((took, 0));
        (*least, *count) = ((*least).min(took), *count + 1);
    }

    /// Whether every method has returned in time at least once.
    pub fn judge(&self) -> Verdict {
        let Some((method, (least, count))) = self.0.iter().find(|(_, (least, _))| *least > LONGEST) else {
            return Ok(());
        };
        let took = match *least >= LIMIT {
            true => format!("more than {LIMIT:?}"),
            false => format!("{least:?}"),
        };
        let text = format!("of {count} calls of `{method}` none returned within {LONGEST:?}; the fastest took {took}");
        Err(Failure::new(format!("{text}. What waits goes to a thread of the plugin's own")))
    }
}
