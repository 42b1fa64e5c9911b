//! When a child that failed is started again.

use std::time::{Duration, Instant};

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(50);
/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(30);
/// A child that ran for so long was well: what happened before it no longer counts.
const STABLE: Duration = Duration::from_secs(60);
/// After so many failures in a row nobody waits for the next attempt.
const PATIENCE: u32 = 5;

/// The failures in a row, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    due: Option<Instant>,
    /// What went wrong last, as a sentence about "it".
    last: String,
}

impl Backoff {
    /// A child ended that should not, or did not start. `ran`: how long it was there for.
    pub(super) fn failed(&mut self, now: Instant, ran: Duration, why: &str) {
        if ran >= STABLE {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let wait = FIRST.saturating_mul(1 << (self.failures - 1).min(16)).min(LONGEST);
        self.due = Some(now + wait);
        self.last = why.to_string();
    }

    /// How long until the next attempt may be made.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }

    /// What went wrong last.
    pub(super) fn last_time(&self) -> &str {
        if self.last.is_empty() { "it has not been started yet" } else { &self.last }
    }

    /// Why no call waits for the next attempt, if that is so.
    pub(super) fn refuses(&self, now: Instant) -> Option<String> {
        let wait = self.wait(now);
        (self.failures >= PATIENCE && !wait.is_zero()).then(|| {
            let Backoff { failures, last, .. } = self;
            format!("it failed {failures} times in a row; the next attempt is due in {wait:.1?}; the last time {last}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_half_a_minute() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.wait(now), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..40 {
            backoff.failed(now, Duration::ZERO, "it ended");
            waits.push(backoff.wait(now).as_millis());
        }
        assert_eq!(waits[..11], [50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000]);
        assert_eq!(waits[39], 30000);
    }

    #[test]
    fn after_a_stable_minute_it_starts_from_the_beginning() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        for _ in 0..9 {
            backoff.failed(now, Duration::from_secs(59), "it ended");
        }
        assert!(backoff.refuses(now).is_some());
        backoff.failed(now, STABLE, "it ended");
        assert_eq!(backoff.wait(now), FIRST);
        assert!(backoff.refuses(now).is_none());
    }

    #[test]
    fn after_five_failures_nobody_waits_until_the_next_attempt_is_due() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        for _ in 0..4 {
            backoff.failed(now, Duration::ZERO, "it ended");
        }
        assert_eq!(backoff.refuses(now), None);
        backoff.failed(now, Duration::ZERO, "it ended with exit status: 3");
        let why = backoff.refuses(now).unwrap();
        assert_eq!(
            why,
            "it failed 5 times in a row; the next attempt is due in 800.0ms; the last time it ended with exit status: 3"
        );
        assert_eq!(backoff.refuses(now + Duration::from_millis(800)), None);
    }
}
