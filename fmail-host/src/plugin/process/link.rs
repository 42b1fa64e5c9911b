//! What callers and the keeper of a child share: the state of the child, and the lines that wait for it.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use fmail_abi::{Level, Peer, Verb, status};
use fmail_api::{Error, ErrorKind, Result};
use rustix::event::{EventfdFlags, eventfd};

use super::backoff::Backoff;
use super::child::Ended;
use super::outbox::{About, Bounds, Flushed, Outbox};
use super::{Listener, Program};
use crate::plugin::Carrier;

/// So much may wait for a child that does not read.
const BOUNDS: Bounds = Bounds { lines: 4096, bytes: 16 << 20 };

/// The host's end of a child that comes and goes.
pub(super) struct Link {
    pub(super) program: Program,
    pub(super) listener: Arc<dyn Listener>,
    state: Mutex<State>,
    /// Wakes the keeper.
    pub(super) wake: OwnedFd,
}

/// Where the child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none; a call brings the next one.
    Down,
    /// It is being started.
    Starting,
    /// It takes calls.
    Up,
    /// It is to end: it was asked to, and has the line with this number to answer.
    Leaving(u64),
    /// It is to end now.
    Over,
}

pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) outbox: Outbox,
    pub(super) backoff: Backoff,
    /// Where lines are written, while the child takes calls.
    pub(super) stdin: Option<Arc<OwnedFd>>,
    /// What the instance was made with, for the next child.
    pub(super) creation: Option<Creation>,
    /// Counts the children.
    pub(super) generation: u64,
    /// What a caller has found wrong with the child.
    pub(super) fault: Option<String>,
    /// How the child answered `destroy`, and whether anyone wants to know.
    pub(super) farewell: Option<(i32, Vec<u8>)>,
    pub(super) destroying: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Creation {
    pub(super) id: u64,
    pub(super) envelope: Vec<u8>,
    /// The plugin has said that it is ready.
    pub(super) ready: bool,
}

impl Link {
    pub(super) fn new(program: Program, listener: Arc<dyn Listener>) -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io("cannot make an eventfd", &error.into()))?;
        let state = State {
            phase: Phase::Starting,
            outbox: Outbox::new(BOUNDS),
            backoff: Backoff::default(),
            stdin: None,
            creation: None,
            generation: 0,
            fault: None,
            farewell: None,
            destroying: None,
        };
        Ok(Link { program, listener, state: Mutex::new(state), wake })
    }

    /// Nothing that can panic, and nothing of anyone else's, runs under this lock.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A counter that is full has woken the keeper already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(super) fn awake(&self) {
        // Empty is as good as emptied.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// An error about the program: a sentence of which this is the rest.
    pub(super) fn error(&self, kind: ErrorKind, what: impl Display) -> Error {
        Error::new(kind, format!("its program `{}` {what}", self.program.shown()))
    }

    /// The error of whoever comes too late.
    pub(super) fn closed(&self) -> Error {
        self.error(ErrorKind::Cancelled, "is called no more: the instance was closed")
    }

    /// Answers a call of ours in the place of the child.
    pub(super) fn answer(&self, id: u64, error: &Error) {
        self.listener.done(id, error.kind().status(), &body(error, error.retryable()));
    }

    /// Sends a line that can be refused, and then begins nothing.
    fn offer(&self, about: About, verb: &Verb<'_>) -> Result<()> {
        let line = verb.to_line()?.into_bytes();
        let mut state = self.state();
        match state.phase {
            Phase::Leaving(_) | Phase::Over => return Err(self.closed()),
            Phase::Down => {
                if let Some(why) = state.backoff.refuses(Instant::now()) {
                    return Err(self
                        .error(ErrorKind::Unavailable, format!("is not running: {why}"))
                        .help("nothing was sent to it; try again later"));
                }
            }
            Phase::Starting | Phase::Up => {}
        }
        if about.is_for_another(&state) {
            return Err(self.error(ErrorKind::Cancelled, "that asked for this is gone"));
        }
        if !state.outbox.has_room(line.len()) {
            return Err(self
                .error(ErrorKind::Backpressure, "does not read as fast as it is called; this call was not sent to it")
                .help("try again later"));
        }
        state.outbox.push(about, line);
        self.move_on(state);
        Ok(())
    }

    /// Sends a line that something under way depends on.
    fn insist(&self, about: About, verb: &Verb<'_>) {
        let line = match verb.to_line() {
            Ok(line) => line.into_bytes(),
            // Only a body that is not UTF-8 cannot become a line, and what comes here has none, or `done` has seen to it.
            Err(error) => return self.listener.log(Level::Error, "process", &error.to_string(), b""),
        };
        let mut state = self.state();
        if about.is_for_another(&state) {
            return;
        }
        if !state.outbox.has_reserve(line.len()) {
            let fault = "does not read what it has asked for and what its calls need".to_string();
            state.fault.get_or_insert(fault);
            drop(state);
            return self.wake();
        }
        state.outbox.push(about, line);
        self.move_on(state);
    }

    /// Answers a call of this child.
    fn reply(&self, generation: u64, id: u64, status: i32, body: &[u8]) {
        match std::str::from_utf8(body) {
            Ok(_) => self.insist(About::Answer(generation), &Verb::Done { id, status, body: body.into() }),
            Err(error) => {
                let body = format!("the answer is not UTF-8: {error}").into_bytes();
                self.insist(About::Answer(generation), &Verb::Done { id, status: status::INTERNAL, body: body.into() });
            }
        }
    }

    /// Writes what can be written, and leaves the rest to the keeper.
    fn move_on(&self, mut state: MutexGuard<'_, State>) {
        let left = match state.flush() {
            Some(Flushed::All) => false,
            Some(Flushed::Blocked | Flushed::Closed) => true,
            None => state.phase != Phase::Starting,
        };
        drop(state);
        if left {
            self.wake();
        }
    }

    /// Ends the child, without waiting for that.
    pub(super) fn abandon(&self) {
        self.state().phase = Phase::Over;
        self.wake();
    }
}

impl State {
    /// Writes what can be written; nothing when there is no child that takes lines.
    pub(super) fn flush(&mut self) -> Option<Flushed> {
        let stdin = self.stdin.clone()?;
        Some(self.outbox.flush(&*stdin))
    }
}

impl About {
    /// Whether the child that this was meant for is gone.
    fn is_for_another(&self, state: &State) -> bool {
        matches!(self, About::Answer(generation) if *generation != state.generation || state.phase == Phase::Down)
    }
}

impl Peer for Link {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let verb = Verb::Call { id, method: method.into(), context: context.into(), request: request.into() };
        if let Err(error) = self.offer(About::Call(id, method.into()), &verb) {
            self.answer(id, &error);
        }
    }

    fn pull(&self, id: u64, credits: u32) {
        self.insist(About::Follows(id), &Verb::Pull { id, credits });
    }

    fn cancel(&self, id: u64) {
        let mut state = self.state();
        if state.destroying == Some(id) {
            // Nobody waits for the end any longer, so it comes now.
            state.phase = Phase::Over;
            drop(state);
            return self.wake();
        }
        if state.outbox.take_back(id) {
            return;
        }
        let sent = state.outbox.sent.remove(&id).is_some();
        drop(state);
        if sent {
            self.insist(About::Follows(id), &Verb::Cancel { id });
        }
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        let generation = self.state().generation;
        self.reply(generation, id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        let generation = self.state().generation;
        self.offer(About::Answer(generation), &Verb::Item { id, body: body.into() }).is_ok()
    }
}

/// One child, as those see it who answer its calls.
pub(super) struct ToChild {
    pub(super) link: Weak<Link>,
    pub(super) generation: u64,
}

impl Peer for ToChild {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        if let Some(link) = self.link.upgrade() {
            link.call(id, method, context, request);
        }
    }

    fn pull(&self, id: u64, credits: u32) {
        if let Some(link) = self.link.upgrade() {
            link.pull(id, credits);
        }
    }

    fn cancel(&self, id: u64) {
        if let Some(link) = self.link.upgrade() {
            link.cancel(id);
        }
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        if let Some(link) = self.link.upgrade() {
            link.reply(self.generation, id, status, body);
        }
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        let verb = Verb::Item { id, body: body.into() };
        self.link.upgrade().is_some_and(|link| link.offer(About::Answer(self.generation), &verb).is_ok())
    }
}

impl Carrier for Link {
    fn create(&self, id: u64, envelope: &[u8]) {
        self.state().creation = Some(Creation { id, envelope: envelope.to_vec(), ready: false });
        let verb = Verb::Create { id, envelope: envelope.into() };
        if let Err(error) = self.offer(About::Call(id, "create".into()), &verb) {
            self.answer(id, &error);
        }
    }

    fn destroy(&self, id: u64) {
        let mut state = self.state();
        let alive = state.creation.as_ref().is_some_and(|creation| creation.ready);
        state.destroying = (id != 0).then_some(id);
        match state.phase {
            Phase::Over | Phase::Leaving(_) => {}
            Phase::Up if alive => {
                state.phase = Phase::Leaving(id);
                drop(state);
                self.listener.leaving();
                return self.insist(About::Child, &Verb::Destroy { id });
            }
            Phase::Up | Phase::Starting | Phase::Down => state.phase = Phase::Over,
        }
        drop(state);
        self.wake();
    }

    fn stuck(&self) -> Option<String> {
        let state = self.state();
        let program = self.program.shown();
        match state.phase {
            Phase::Down | Phase::Starting => {
                Some(format!("its program `{program}` is not running: {}", state.backoff.last_time()))
            }
            Phase::Up if !state.outbox.is_empty() => Some(format!("its program `{program}` does not read")),
            _ => None,
        }
    }
}

/// An error as the body of an answer.
pub(super) fn body(error: &Error, retryable: bool) -> Vec<u8> {
    let (code, message) = (error.kind().code(), error.to_string());
    let mut body = serde_json::json!({ "code": code, "message": message, "retryable": retryable });
    if let Some(help) = error.help_text() {
        body["help"] = help.into();
    }
    body.to_string().into_bytes()
}

/// Methods that change nothing by being begun: what they were asked can be asked again.
const LOOKING: [&str; 15] = [
    "create",
    "scan",
    "watch",
    "summary",
    "get",
    "list",
    "health",
    "read",
    "serve",
    "run",
    "shutdown",
    "mail_inbox",
    "mail_peek",
    "mail_count",
    "mail_thread",
];

/// What a call is answered with when its child ended: only of those that look it is known that they changed nothing.
pub(super) fn lost_call(link: &Link, method: &str, ended: &Ended) -> (i32, Vec<u8>) {
    let looks = LOOKING.contains(&method);
    let (what, help) = match (looks, method) {
        (true, "watch") => (String::new(), "watch again from the last cursor: that starts the program again"),
        (true, _) => (String::new(), "the next call starts the program again"),
        (false, _) => (
            format!("; it is not known whether `{method}` took effect"),
            "look before you repeat it; with an idempotency key it can be repeated safely",
        ),
    };
    let error = link.error(ErrorKind::Unavailable, ended.with(&what)).help(help);
    (status::UNAVAILABLE, body(&error, looks))
}

/// How long the keeper sleeps at most.
pub(super) fn tick(deadline: Duration) -> Duration {
    (deadline / 4).clamp(Duration::from_millis(20), Duration::from_secs(10))
}
