//! Threads of our own for the functions of a plugin that blocks.
//!
//! A plugin that keeps rule 5 is called on the thread of whoever wants something of it, which costs nothing. One that was
//! seen to block must not hold up the caller, who has a deadline: its functions are called from here. What belongs to one
//! call stays in order; different calls overtake each other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many threads may be stuck in one instance.
const THREADS: usize = 8;
/// So many calls may wait for one of them.
const WAITING: usize = 4096;
/// A thread that has nothing to do for this long ends.
const IDLE: Duration = Duration::from_secs(10);

/// Something to do inside the plugin.
pub type Work = Box<dyn FnOnce() + Send>;

/// The threads of one instance.
pub struct Lane(Arc<Shared>);

struct Shared {
    name: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(u64, Work)>,
    /// The calls for which a thread is inside.
    running: Vec<u64>,
    threads: usize,
    idle: usize,
}

impl Lane {
    /// No thread yet; they are called `name`.
    pub fn new(name: String) -> Self {
        Lane(Arc::new(Shared { name, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Does something after everything else that was given for the same call. False: too much is waiting, or there is no
    /// thread to be had.
    pub fn run(&self, call: u64, work: Work) -> bool {
        let mut state = self.0.state();
        if state.waiting.len() >= WAITING {
            return false;
        }
        state.waiting.push_back((call, work));
        // A thread that was woken for another one still counts as idle, so what waits is counted against them.
        if state.waiting.len() <= state.idle || state.threads == THREADS {
            drop(state);
            self.0.changed.notify_one();
            return true;
        }
        let shared = self.0.clone();
        match std::thread::Builder::new().name(self.0.name.clone()).spawn(move || shared.serve()) {
            Ok(_) => state.threads += 1,
            // Those that are there will get to it.
            Err(_) if state.threads > 0 => {}
            Err(_) => {
                state.waiting.pop_back();
                return false;
            }
        }
        true
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread's work, until there has been none for a while.
    fn serve(&self) {
        let mut state = self.state();
        loop {
            if let Some((call, work)) = state.take() {
                state.running.push(call);
                drop(state);
                work();
                state = self.state();
                state.running.retain(|running| *running != call);
                // The next one of the same call may have been waiting for this.
                self.changed.notify_one();
                continue;
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.idle -= 1;
            if waited.1.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

impl State {
    /// The first work whose call has no thread inside.
    fn take(&mut self) -> Option<(u64, Work)> {
        let place = self.waiting.iter().position(|(call, _)| !self.running.contains(call))?;
        self.waiting.remove(place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_belongs_to_one_call_stays_in_order_and_others_overtake() {
        let lane = Lane::new("lane".into());
        let (unblock, blocked) = mpsc::channel::<()>();
        let (say, said) = mpsc::channel();
        let saying = |text: &'static str| {
            let say = say.clone();
            Box::new(move || say.send(text).unwrap())
        };
        let first = saying("first of 1");
        let blocking = move || {
            blocked.recv().unwrap();
            first();
        };
        assert!(lane.run(1, Box::new(blocking)));
        assert!(lane.run(1, saying("second of 1")));
        assert!(lane.run(2, saying("2")));
        assert_eq!(said.recv().unwrap(), "2", "a call that blocks does not hold up another");
        unblock.send(()).unwrap();
        assert_eq!([said.recv().unwrap(), said.recv().unwrap()], ["first of 1", "second of 1"]);
    }

    #[test]
    fn when_every_thread_is_stuck_a_bounded_number_waits() {
        let lane = Lane::new("lane".into());
        let mut keep = Vec::new();
        let (say, entered) = mpsc::channel();
        for call in 0..THREADS as u64 {
            let (unblock, blocked) = mpsc::channel::<()>();
            keep.push(unblock);
            let say = say.clone();
            let blocking = move || {
                say.send(()).unwrap();
                // Ends when the other end is dropped.
                assert!(blocked.recv().is_err());
            };
            assert!(lane.run(call, Box::new(blocking)));
            entered.recv().unwrap();
        }
        for call in 0..WAITING as u64 {
            assert!(lane.run(100 + call, Box::new(|| {})));
        }
        assert!(!lane.run(99, Box::new(|| {})), "one more is refused");
        keep.clear();
        loop {
            let say = say.clone();
            if lane.run(99, Box::new(move || say.send(()).unwrap())) {
                break;
            }
            std::thread::yield_now();
        }
        entered.recv().unwrap();
    }
}
