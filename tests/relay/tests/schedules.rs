//! Random schedules of faults under load: after healing, every host holds the same, and nothing that was acknowledged is missing.
//!
//! Ten of them in the usual form, 500 with `FMAIL_TEST_FULL=1`, or as many as `FMAIL_RELAY_SCHEDULES` says. `FMAIL_TEST_SEED=7` plays that one
//! alone, or so many from there on; each prints its seed and what it does. Those that would begin behind `FMAIL_TEST_MINUTES` are ignored.

use std::time::Instant;

use fmail_e2e::{minutes, report};
use fmail_relay_tests::{Ground, Schedule};
use libtest_mimic::{Arguments, Completion, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // The hosts of one schedule are load enough.
    arguments.test_threads = Some(1);
    if !arguments.list {
        Ground::here();
    }
    let began = Instant::now();
    let trials = seeds().map(|seed| {
        Trial::ignorable_test(format!("schedule_{seed}"), move || {
            if minutes().is_some_and(|minutes| began.elapsed() >= minutes) {
                return Ok(Completion::Ignored { reason: Some("FMAIL_TEST_MINUTES are over".into()) });
            }
            let verdict = Schedule::of(seed).run();
            report("relay", "hosts", seed, &[("schedules", 1), ("messages", verdict.count("acknowledged"))]);
            Ok(Completion::Completed)
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn seeds() -> Box<dyn Iterator<Item = u64>> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("FMAIL_RELAY_SCHEDULES");
    if let Some(seed) = number("FMAIL_TEST_SEED") {
        return Box::new(seed..seed + count.unwrap_or(1));
    }
    let usual = if fmail_e2e::full() { 500 } else { 10 };
    Box::new(1..=count.unwrap_or(usual))
}
