//! The door into a plugin's instance.
//!
//! Whoever calls a function of the plugin passes through here. Nothing enters before the instance is ready, nothing once it
//! is to be destroyed, and `destroy` itself is called only when everyone has left: a function that is just about to begin
//! must not find its instance gone.
//!
//! No lock is held while someone is inside, so those inside may enter again.

use std::sync::PoisonError;
use std::time::Duration;

use super::moment::Moment;
use super::sync::{Condvar, Mutex};

/// A function of a plugin that takes longer than this blocks: rule 5 of `fmail_plugin.h`.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Who may enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nobody yet: the instance is being made.
    Waiting,
    /// Everyone.
    Open,
    /// Nobody any more.
    Sealed,
}

/// The door of one instance.
pub struct Gate {
    state: Mutex<State>,
    left: Condvar,
    /// Told once, when a function is first seen to block.
    blocks: Box<dyn Fn(&'static str) + Send + Sync>,
}

struct State {
    phase: Phase,
    next: u64,
    /// Who is inside, the longest first.
    inside: Vec<Inside>,
    slow: bool,
    /// Whether somebody waits for the last one to leave. To wake nobody would cost every call a system call.
    awaited: bool,
}

struct Inside {
    number: u64,
    function: &'static str,
    since: Moment,
    /// May take its time: the functions that make and end an instance are called on threads of their own.
    patient: bool,
}

/// Being inside; dropped on leaving.
pub struct Entered<'a> {
    gate: &'a Gate,
    number: u64,
}

/// Whether one may enter on one's own thread.
pub enum Entry<'a> {
    /// Yes.
    Here(Entered<'a>),
    /// No: the plugin was seen to block. A thread that may be held up calls [`Gate::enter`].
    Elsewhere,
    /// Nobody may.
    Shut,
}

impl Gate {
    /// A door that is not open yet. `blocks` is told once, when a function is first seen to block.
    pub fn new(blocks: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        let state = State { phase: Phase::Waiting, next: 0, inside: Vec::new(), slow: false, awaited: false };
        Gate { state: Mutex::new(state), left: Condvar::new(), blocks: Box::new(blocks) }
    }

    /// Runs something with the state. Nothing that can panic runs in it.
    fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        run(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Enters, to call this function on one's own thread.
    pub fn enter_here(&self, function: &'static str) -> Entry<'_> {
        let (entry, blocking) = self.with(|state| {
            let blocking = state.notice();
            match (state.phase, state.slow) {
                (Phase::Open, false) => {
                    (Entry::Here(Entered { gate: self, number: state.admit(function, false) }), blocking)
                }
                (Phase::Open, true) => (Entry::Elsewhere, blocking),
                _ => (Entry::Shut, blocking),
            }
        });
        self.tell(blocking);
        entry
    }

    /// Enters, to call this function on a thread that may be held up; none when the door is not open.
    pub fn enter(&self, function: &'static str) -> Option<Entered<'_>> {
        self.with(|state| (state.phase == Phase::Open).then(|| state.admit(function, false)))
            .map(|number| Entered { gate: self, number })
    }

    /// Enters in whatever phase and for as long as it takes: to make or to end the instance.
    pub fn enter_alone(&self, function: &'static str) -> Entered<'_> {
        let number = self.with(|state| state.admit(function, true));
        Entered { gate: self, number }
    }

    /// Opens the door, unless it was sealed before that.
    pub fn open(&self) -> bool {
        self.with(|state| {
            let opens = state.phase == Phase::Waiting;
            if opens {
                state.phase = Phase::Open;
            }
            opens
        })
    }

    /// Lets nobody in any more; the phase that was.
    pub fn seal(&self) -> Phase {
        self.with(|state| std::mem::replace(&mut state.phase, Phase::Sealed))
    }

    /// Who may enter now.
    pub fn phase(&self) -> Phase {
        self.with(|state| state.phase)
    }

    /// Waits until everyone has left. Whoever is inside must not call this: it would wait for itself.
    pub fn wait_until_empty(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.inside.is_empty() {
            state.awaited = true;
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Who has been inside for too long, the longest first.
    pub fn stuck(&self) -> Vec<(&'static str, Duration)> {
        self.with(|state| {
            let ages = state.inside.iter().map(|inside| (inside.function, inside.since.elapsed()));
            ages.filter(|(_, age)| *age > PATIENCE).collect()
        })
    }

    fn tell(&self, blocking: Option<&'static str>) {
        if let Some(function) = blocking {
            (self.blocks)(function);
        }
    }
}

impl State {
    fn admit(&mut self, function: &'static str, patient: bool) -> u64 {
        self.next += 1;
        self.inside.push(Inside { number: self.next, function, since: Moment::now(), patient });
        self.next
    }

    /// Looks whether the one who is inside for longest blocks; its function when that is news.
    fn notice(&mut self) -> Option<&'static str> {
        let first = self.inside.iter().find(|inside| !inside.patient)?;
        let news = !self.slow && first.since.elapsed() > PATIENCE;
        self.slow |= news;
        news.then_some(first.function)
    }

    /// Lets one out; its function when it has blocked and that is news.
    fn dismiss(&mut self, number: u64) -> Option<&'static str> {
        let blocking = self.notice();
        self.inside.retain(|inside| inside.number != number);
        blocking
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let (blocking, awaited) =
            self.gate.with(|state| (state.dismiss(self.number), state.awaited && state.inside.is_empty()));
        if awaited {
            self.gate.left.notify_all();
        }
        self.gate.tell(blocking);
    }
}
