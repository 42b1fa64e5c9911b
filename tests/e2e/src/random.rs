//! Moments and choices that vary, and can be repeated.

use std::time::{Duration, Instant};

/// A small generator. Its seed is printed, so that a failure can be repeated with `FMAIL_TEST_SEED`.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that starts from `FMAIL_TEST_SEED`, or else from `default`.
    pub fn new(default: u64) -> Random {
        let seed = seed(default);
        println!("FMAIL_TEST_SEED={seed}");
        Random::from(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

impl From<u64> for Random {
    fn from(seed: u64) -> Random {
        // Zero is the one state that this generator never leaves.
        Random(seed.max(1))
    }
}

/// `FMAIL_TEST_SEED`, or else `default`.
pub fn seed(default: u64) -> u64 {
    number("FMAIL_TEST_SEED").unwrap_or(default)
}

/// Waits without sleeping past the moment: the moments that matter are microseconds apart.
pub fn pause(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Whether the slow forms are asked for: more kills, more messages, longer runs.
pub fn full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}

/// How long a suite that could go on forever may take, where `FMAIL_TEST_MINUTES` says so.
pub fn minutes() -> Option<Duration> {
    number("FMAIL_TEST_MINUTES").map(|minutes| Duration::from_secs(60 * minutes))
}

/// A number in the environment. One that cannot be understood is no reason to test something else.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")))
}

/// Tells what was done, in a line that `cargo xtask torture` reads and adds up.
pub fn report(suite: &str, what: &str, seed: u64, counts: &[(&str, u64)]) {
    let counts: String = counts.iter().map(|(name, count)| format!(" {name}={count}")).collect();
    println!("torture {suite}/{what} seed={seed}{counts}");
}
