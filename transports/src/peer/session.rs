//! The exchange between two ends, as long as both answer.

use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fmail_api::{Error, ErrorKind, EventStream, LinkCounts, LinkReport, Node, Place, Timestamp};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Duration, Instant, sleep, timeout};

use super::both::Both;
use super::carry::RefusedPlaces;
use super::end::End;
use super::pace::Pace;
use super::records::Futile;
use super::status::{LinkState, Way};

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// This host.
    Here,
    /// The other one.
    There,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Here => Side::There,
            Side::There => Side::Here,
        }
    }
}

impl Way {
    /// Where messages come from.
    pub fn origin(self) -> Side {
        match self {
            Way::Inward => Side::There,
            Way::Outward => Side::Here,
        }
    }

    /// Where they go.
    pub fn destination(self) -> Side {
        self.origin().other()
    }
}

/// Why a session is over.
#[derive(Debug)]
pub enum Ended {
    /// The other end is gone, or does not answer.
    Lost(Error),
}

/// An exchange with another host over one link. Nothing about it outlives it: the next one compares again.
pub struct Session {
    node: Node,
    here: End,
    there: End,
    pub(super) pace: Pace,
    pub(super) state: Arc<LinkState>,
    both: Mutex<Both>,
    lanes: [Lane; 2],
    /// Messages are to be compared.
    compare: Notify,
    /// Something could not be stored: they are to be compared before long.
    unsettled: Notify,
    /// How many times that was so.
    failed: AtomicU64,
    records: Notify,
    /// The later of both horizons, as far as it is known.
    horizon: Mutex<Option<Timestamp>>,
    pub(super) futile: Mutex<Option<Futile>>,
    /// What an operator should know of this peer although the link works.
    remark: Option<String>,
    /// The number of this session among all of this process.
    number: u64,
    /// What was counted before it.
    before: LinkCounts,
    pub(super) reading: Reading,
    /// Both ends were compared.
    compared: AtomicBool,
    /// There is something that the other end should know.
    news: Notify,
}

/// Counts the sessions of this process.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// How far the stream of the other end's messages was read.
#[derive(Default)]
pub struct Reading {
    stream: AtomicU64,
    dealt: AtomicU64,
}

impl Reading {
    /// A stream was opened. What the one before it had left comes by a comparison.
    pub fn opened(&self, way: Way) {
        if way == Way::Inward {
            self.stream.fetch_add(1, Ordering::Relaxed);
            self.dealt.store(0, Ordering::Relaxed);
        }
    }

    /// So many messages of the stream were dealt with.
    pub fn dealt_with(&self, way: Way, count: usize) {
        if way == Way::Inward {
            self.dealt.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}

/// One way over the link.
pub struct Lane {
    pub slots: Semaphore,
    pub bytes: Semaphore,
    refused: Mutex<RefusedPlaces>,
    closed: AtomicBool,
}

impl Lane {
    fn new(pace: &Pace) -> Self {
        Lane {
            slots: Semaphore::new(pace.batches),
            bytes: Semaphore::new(pace.bytes),
            refused: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// The destination takes nothing at all.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub fn note_refused(&self, place: Place) {
        locked(&self.refused).add(place);
    }

    pub fn has_refused(&self, place: &Place) -> bool {
        locked(&self.refused).contains(place)
    }
}

impl Session {
    /// A session between this host, which is `node`, and another one. `remark` is what an operator should know of it
    /// although the link works.
    pub fn new(node: Node, here: End, there: End, pace: Pace, state: Arc<LinkState>, remark: Option<String>) -> Self {
        let before = state.view().counts;
        Session {
            node,
            here,
            there,
            pace,
            state,
            both: Mutex::default(),
            lanes: [Lane::new(&pace), Lane::new(&pace)],
            compare: Notify::new(),
            unsettled: Notify::new(),
            failed: AtomicU64::new(0),
            records: Notify::new(),
            horizon: Mutex::new(None),
            futile: Mutex::default(),
            remark,
            number: SESSIONS.fetch_add(1, Ordering::Relaxed) + 1,
            before,
            reading: Reading::default(),
            compared: AtomicBool::new(false),
            news: Notify::new(),
        }
    }

    /// Exchanges until the other end is gone; `gone` resolves when the connection knows.
    ///
    /// The streams are opened first and read from then on, so that nothing falls between them and the comparison.
    pub async fn run(&self, gone: impl Future<Output = Error>) -> Ended {
        let Ended::Lost(error) = self.run_until(gone).await;
        self.state.lost(error.to_string());
        Ended::Lost(error)
    }

    async fn run_until(&self, gone: impl Future<Output = Error>) -> Ended {
        tokio::pin!(gone);
        let streams = async {
            let asked = Instant::now();
            let outward = self.open(Way::Outward).await?;
            // Whoever sees the link connected sees that it has answered.
            self.state.answered(asked.elapsed());
            Ok((outward, self.open(Way::Inward).await?))
        };
        let (outward, inward) = tokio::select! {
            biased;
            error = &mut gone => return Ended::Lost(error),
            streams = timeout(self.pace.dead, streams) => match streams {
                Ok(Ok(streams)) => streams,
                Ok(Err(error)) => return Ended::Lost(error),
                Err(_) => return Ended::Lost(self.silent()),
            },
        };
        self.state.connected(self.remark.clone());
        self.compare_now();
        tokio::select! {
            biased;
            error = gone => Ended::Lost(error),
            error = self.ask_for_life() => Ended::Lost(error),
            never = self.exchange(outward, inward) => match never {},
        }
    }

    async fn exchange(&self, outward: EventStream, inward: EventStream) -> Infallible {
        tokio::select! {
            biased;
            never = self.pump(Way::Outward, outward) => never,
            never = self.pump(Way::Inward, inward) => never,
            never = self.keep_comparing() => never,
            never = self.keep_records() => never,
        }
    }

    /// Asks the other end whether it is there, again and again, and tells it how the link does; ends when it does not answer
    /// in time. It only ever answers: what became of its messages, and that its answers arrive, it has to be told.
    async fn ask_for_life(&self) -> Error {
        let mut first = true;
        loop {
            let asked = Instant::now();
            match self.still_hears(self.there.hello(&self.node, Some(self.report()))).await {
                Some(Ok(hello)) if hello.node.as_ref().is_some_and(|node| node.run == self.there.run) => {
                    self.state.answered(asked.elapsed());
                    if std::mem::take(&mut first) {
                        self.has_news();
                    }
                }
                Some(Ok(_)) => return Error::new(ErrorKind::Unavailable, "another daemon answers there now"),
                Some(Err(error)) => return error,
                None => return self.silent(),
            }
            tokio::select! {
                biased;
                () = async { self.news.notified().await; sleep(self.pace.report).await } => {}
                () = sleep(self.pace.ping) => {}
            }
        }
    }

    fn report(&self) -> LinkReport {
        LinkReport {
            link: self.number,
            stream: self.reading.stream.load(Ordering::Relaxed),
            dealt: self.reading.dealt.load(Ordering::Relaxed),
            compared: self.compared.load(Ordering::Relaxed),
            ..self.state.report(&self.before)
        }
    }

    /// The other end should know something before long.
    pub(super) fn has_news(&self) {
        self.news.notify_one();
    }

    /// Waits for an answer as long as anything comes; nothing when the peer has been silent. An answer stands in line behind
    /// the messages that were asked for, and they come as fast as they can be stored here.
    async fn still_hears<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(answer);
        let traffic = self.state.traffic();
        let mut heard = traffic.received.load(Ordering::Relaxed);
        loop {
            if let Ok(answer) = timeout(self.pace.dead, &mut answer).await {
                return Some(answer);
            }
            let now = traffic.received.load(Ordering::Relaxed);
            if now == heard {
                return None;
            }
            heard = now;
        }
    }

    async fn keep_comparing(&self) -> Infallible {
        let (mut first, mut failures) = (true, 0);
        loop {
            // What fails again and again is tried less and less often.
            let again = self.pace.again.saturating_mul(1 << failures.min(4));
            tokio::select! {
                biased;
                () = self.compare.notified() => {}
                () = async { self.unsettled.notified().await; sleep(again).await } => {}
                () = sleep(self.pace.compare) => {}
            }
            let failed = self.failed.load(Ordering::Relaxed);
            match self.reconcile(first).await {
                Ok(()) if self.failed.load(Ordering::Relaxed) > failed => failures += 1,
                Ok(()) => {
                    (first, failures) = (false, 0);
                    for way in [Way::Outward, Way::Inward] {
                        self.state.missing(way, 0);
                    }
                    self.state.waits_no_more();
                    if !self.compared.swap(true, Ordering::Relaxed) {
                        self.has_news();
                    }
                    if !self.lanes.iter().any(Lane::is_closed) {
                        self.state.trouble(self.remark.clone());
                    }
                }
                Err(error) => {
                    failures += 1;
                    self.troubled(&format!("the messages of both hosts cannot be compared: {error}"));
                    self.compare_later();
                }
            }
        }
    }

    async fn keep_records(&self) -> Infallible {
        loop {
            if let Err(error) = self.exchange_records().await {
                tracing::debug!(peer = self.peer(), %error, "records are not exchanged now");
            }
            let _ = timeout(self.pace.records, self.records.notified()).await;
        }
    }

    fn silent(&self) -> Error {
        let time = self.pace.dead.as_secs();
        Error::new(ErrorKind::Timeout, format!("the peer has not answered for {time} s"))
    }

    pub(super) fn end(&self, side: Side) -> &End {
        match side {
            Side::Here => &self.here,
            Side::There => &self.there,
        }
    }

    pub(super) fn lane(&self, way: Way) -> &Lane {
        &self.lanes[usize::from(way == Way::Outward)]
    }

    pub(super) fn both(&self) -> MutexGuard<'_, Both> {
        locked(&self.both)
    }

    /// The later of both horizons; `seen` is one that was just told.
    pub(super) fn horizon(&self, seen: Option<Timestamp>) -> Option<Timestamp> {
        let mut horizon = locked(&self.horizon);
        *horizon = (*horizon).max(seen);
        *horizon
    }

    pub(super) fn compare_now(&self) {
        self.compare.notify_one();
    }

    pub(super) fn compare_later(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.unsettled.notify_one();
    }

    pub(super) fn records_changed(&self) {
        self.records.notify_one();
    }

    pub(super) fn troubled(&self, problem: &str) {
        tracing::warn!(peer = self.peer(), problem, "a link has a problem");
        self.state.trouble(Some(problem.into()));
    }

    pub(super) fn peer(&self) -> &str {
        self.state.peer()
    }

    /// How long something that may still be on its way is waited for.
    pub(super) fn settle(&self) -> Duration {
        self.pace.settle
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
