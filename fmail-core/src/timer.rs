//! Waiting for a while, without a runtime.
//!
//! fmail runs under tokio in the daemon and under nothing in a command, and stores belong to both. One thread serves
//! everyone who waits; it starts with the first wait, so that a command that never waits has no thread.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

static TIMER: Timer = Timer { waiting: Mutex::new(Waiting::new()), changed: Condvar::new() };

struct Timer {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    /// Who waits until when; the number tells those apart who wait for the same moment.
    wakers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    started: bool,
    /// When the thread looks next by itself; nothing when it waits for the first to come.
    looks_at: Option<Instant>,
}

impl Waiting {
    const fn new() -> Self {
        Waiting { wakers: BTreeMap::new(), next: 0, started: false, looks_at: None }
    }
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            while let Some(first) = waiting.wakers.first_entry()
                && first.key().0 <= now
            {
                let waker = first.remove();
                drop(waiting);
                waker.wake();
                waiting = self.lock();
            }
            let first = waiting.wakers.first_key_value().map(|((at, _), _)| *at);
            waiting.looks_at = first;
            waiting = match first {
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let pause = at.saturating_duration_since(now);
                    self.changed.wait_timeout(waiting, pause).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Ready when its time has come.
pub(crate) struct Sleep {
    until: Instant,
    /// Under which number the timer knows it, once it has been polled.
    number: Option<u64>,
}

impl Sleep {
    /// Ends this long after now.
    pub(crate) fn new(duration: Duration) -> Self {
        let now = Instant::now();
        // Centuries are as good as what cannot be added up.
        let until = now.checked_add(duration).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)));
        Sleep { until, number: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        let mut waiting = TIMER.lock();
        if !waiting.started {
            let started = thread::Builder::new().name("fmail-timer".into()).spawn(|| TIMER.run());
            // Without a thread nobody would wake the caller: then it ends at once, as if its time had come.
            if started.is_err() {
                return Poll::Ready(());
            }
            waiting.started = true;
        }
        let number = *self.number.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert((self.until, number), context.waker().clone());
        // The thread is told only of what comes before its next look: calls that all may take as long cost nothing.
        if waiting.looks_at.is_none_or(|looks_at| self.until < looks_at) {
            waiting.looks_at = Some(self.until);
            TIMER.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            TIMER.lock().wakers.remove(&(self.until, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::executor::block_on;
    use futures::future::{join_all, select};

    #[test]
    fn everyone_wakes_in_time_and_nobody_early() {
        let naps = [30, 5, 20, 5, 0, 10].map(|millis| async move {
            let (start, nap) = (Instant::now(), Duration::from_millis(millis));
            Sleep::new(nap).await;
            assert!(start.elapsed() >= nap);
        });
        block_on(join_all(naps));
    }

    #[test]
    fn a_short_sleep_is_not_held_up_by_a_long_one() {
        let long = Sleep::new(Duration::from_secs(3_600));
        let short = Sleep::new(Duration::from_millis(5));
        assert!(block_on(select(long, short)).factor_first().1.now_or_never().is_none());
    }

    #[test]
    fn a_dropped_sleep_leaves_nothing_behind() {
        let mut sleep = Sleep::new(Duration::from_secs(7_200));
        let key = |sleep: &Sleep| (sleep.until, sleep.number.unwrap());
        assert!((&mut sleep).now_or_never().is_none());
        let key = key(&sleep);
        assert!(TIMER.lock().wakers.contains_key(&key));
        drop(sleep);
        assert!(!TIMER.lock().wakers.contains_key(&key));
    }
}
