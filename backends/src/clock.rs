//! The machine's own clock.

#[cfg(debug_assertions)]
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fmail_api::{Clock, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// The time as the operating system tells it.
///
/// In a build for tests, `FMAIL_TEST_CLOCK_OFFSET` is a number of seconds by which the clock is wrong, ahead or behind. Hosts
/// with clocks that differ by hours can thus be run on one machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => {
                let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
                Timestamp::from_unix(seconds.saturating_add(offset()), since.subsec_nanos())
            }
            Err(_) => Timestamp::from_unix(0, 0),
        }
    }

    fn since_boot(&self) -> Duration {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let time = clock_gettime(clock);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// By how many seconds a test wants the clock to be wrong.
#[cfg(debug_assertions)]
fn offset() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| std::env::var("FMAIL_TEST_CLOCK_OFFSET").map_or(0, |text| text.parse().unwrap_or(0)))
}

/// What is released knows the machine's time only.
#[cfg(not(debug_assertions))]
const fn offset() -> i64 {
    0
}
