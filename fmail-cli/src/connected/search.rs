//! Looking for a daemon while the files are watched, or while nothing is.

use std::time::Duration;

use fmail_api::{Error, Reply, Request, Result};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use super::daemons::{Daemons, Found, Where};
use crate::guard::at;

/// How long to wait before looking again, at first and at last.
const SOON: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_secs(4);
/// A port is asked more rarely than a file is looked at: it may be a stranger's. Who has nothing else asks as often.
const PORT: Duration = Duration::from_secs(30);

/// When to look, and a look that is under way.
///
/// A watch that lost its daemon expects it back and looks at times. One that never had any looks only when a message
/// woke it, so that an idle watch sleeps.
pub(super) struct Search {
    daemons: Daemons,
    /// How long a port is left alone.
    port: Duration,
    expects: bool,
    next: Option<Instant>,
    wait: Duration,
    looked: Instant,
    asked_port: Instant,
    attempt: Option<JoinHandle<Result<Found<Reply>>>>,
}

impl Search {
    pub(super) fn new(daemons: Daemons) -> Search {
        let now = Instant::now();
        let (expects, next, attempt) = (false, None, None);
        let port = if daemons.are_the_only_way() { LATE } else { PORT };
        Search { daemons, port, expects, next, wait: SOON, looked: now, asked_port: now, attempt }
    }

    /// Looks now, everywhere.
    pub(super) async fn look(&mut self, request: Request) -> Result<Found<Reply>> {
        self.give_up();
        self.start(Where::Everywhere, request);
        self.outcome().await
    }

    /// Takes no interest in a look that is under way: what it asks for is no longer what is wanted.
    pub(super) fn give_up(&mut self) {
        self.attempt = None;
    }

    /// The daemon is lost and expected back: soon, or later each time when the connection was worth nothing.
    pub(super) fn expect(&mut self, was_worth_it: bool) {
        self.expects = true;
        self.wait = if was_worth_it { SOON } else { (self.wait * 2).min(LATE) };
        self.schedule();
    }

    /// A message came: a look costs little now, and one after a while is enough.
    pub(super) fn nudge(&mut self) {
        if self.next.is_none() && self.attempt.is_none() && self.looked.elapsed() >= self.wait {
            self.next = Some(Instant::now());
        }
    }

    /// What the next look brings, when its time has come. Can be dropped and called again.
    pub(super) async fn next(&mut self, request: impl FnOnce() -> Request) -> Result<Found<Reply>> {
        if self.attempt.is_none() {
            at(self.next).await;
            self.next = None;
            let place = if self.asked_port.elapsed() >= self.port { Where::Everywhere } else { Where::Socket };
            if !self.daemons.may_be(place) {
                self.looked = Instant::now();
                self.failed();
                return Ok(Found::Nobody);
            }
            self.start(place, request());
        }
        let found = self.outcome().await;
        if !matches!(found, Ok(Found::There(_))) {
            self.failed();
        }
        found
    }

    /// Connecting waits for the other side; messages, signals and times must not wait for that.
    fn start(&mut self, place: Where, request: Request) {
        let daemons = self.daemons.clone();
        self.attempt = Some(spawn_blocking(move || daemons.stream(place, &request)));
        self.looked = Instant::now();
        if place == Where::Everywhere {
            self.asked_port = self.looked;
        }
    }

    async fn outcome(&mut self) -> Result<Found<Reply>> {
        let Some(attempt) = &mut self.attempt else { return Ok(Found::Nobody) };
        let found = attempt.await;
        self.attempt = None;
        found.unwrap_or_else(|_| Err(Error::internal("looking for the daemon ended unexpectedly")))
    }

    fn failed(&mut self) {
        self.wait = (self.wait * 2).min(LATE);
        self.schedule();
    }

    fn schedule(&mut self) {
        self.next = self.expects.then(|| Instant::now() + self.wait);
    }
}
