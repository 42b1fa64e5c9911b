//! Moments and choices that vary, and can be repeated.

use std::time::{Duration, Instant};

/// A small generator. Its seed is printed, so that a failure can be repeated with `FMAIL_TEST_SEED`.
pub struct Random(u64);

impl Random {
    /// A generator that starts from `FMAIL_TEST_SEED`, or else from `default`.
    pub fn new(default: u64) -> Random {
        let seed = std::env::var("FMAIL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default);
        println!("FMAIL_TEST_SEED={seed}");
        // Zero is the one state that this generator never leaves.
        Random(seed.max(1))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
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
