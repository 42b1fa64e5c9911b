//! Random schedules of faults under load: after healing, every host holds the same, and nothing that was acknowledged is missing.
//!
//! Ten of them in the usual form, 500 with `FMAIL_TEST_FULL=1`, or as many as `FMAIL_RELAY_SCHEDULES` says. `FMAIL_RELAY_SEED=7` plays that one
//! alone; each prints its seed and what it does.

use fmail_relay_tests::{Ground, Schedule};
use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // The hosts of one schedule are load enough.
    arguments.test_threads = Some(1);
    if !arguments.list {
        Ground::here();
    }
    let trials = seeds().map(|seed| {
        Trial::test(format!("schedule_{seed}"), move || {
            Schedule::of(seed).run();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn seeds() -> Box<dyn Iterator<Item = u64>> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("FMAIL_RELAY_SEED") {
        return Box::new(std::iter::once(seed));
    }
    let usual = if fmail_e2e::full() { 500 } else { 10 };
    Box::new(1..=number("FMAIL_RELAY_SCHEDULES").unwrap_or(usual))
}
