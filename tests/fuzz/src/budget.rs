//! How long to go on, and from which seed.

use std::time::{Duration, Instant};

use crate::Dice;

/// How long each test goes on: a few seconds, a minute in the full form, or what `FMAIL_TEST_FUZZ_SECONDS` says.
pub fn seconds() -> Duration {
    let full = std::env::var_os("FMAIL_TEST_FULL").is_some();
    Duration::from_secs(number("FMAIL_TEST_FUZZ_SECONDS").unwrap_or(if full { 60 } else { 3 }))
}

/// The seed of the first case: the same one each time, unless `FMAIL_TEST_FUZZ_SEED` says another.
pub fn first_seed() -> u64 {
    number("FMAIL_TEST_FUZZ_SEED").unwrap_or(1)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`; allowed is a whole number")))
}

/// Runs cases until the time is over, at least one, each with the seed behind that of the one before. A case that panics
/// prints its seed, and with that seed it is the first one of the next run.
pub fn fuzz(mut case: impl FnMut(&mut Dice)) {
    let end = Instant::now() + seconds();
    let first = first_seed();
    let mut count = 0;
    while count == 0 || Instant::now() < end {
        let seed = Seed(first.wrapping_add(count));
        case(&mut Dice::new(seed.0));
        count += 1;
    }
    println!("{count} cases from seed {first}");
}

/// Tells itself when its case panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat this case: FMAIL_TEST_FUZZ_SEED={} FMAIL_TEST_FUZZ_SECONDS=0", self.0);
        }
    }
}
