//! A clock for what is measured in tenths of a second: every call of a plugin looks at it several times.

use std::time::Duration;

/// A point in time, to a few milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Now. On Linux the time of the last tick of the kernel, which costs a fraction of the exact one.
    pub fn now() -> Self {
        #[cfg(target_os = "linux")]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::MonotonicCoarse;
        #[cfg(not(target_os = "linux"))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(CLOCK);
        Moment(Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// How long ago that was.
    pub fn elapsed(self) -> Duration {
        Moment::now().0.saturating_sub(self.0)
    }
}
