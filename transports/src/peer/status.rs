//! What can be seen of a link.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fmail_api::{Clock, Imported, LinkStatus, MessageId, Node, Passed};
use tokio::sync::watch;
use tokio::time::Instant;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the other host to this one.
    Inward,
    /// From this host to the other one.
    Outward,
}

/// The state of a link, changed by whoever works on it and read by whoever asks.
pub struct LinkState {
    peer: String,
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
    traffic: Arc<Traffic>,
    /// Moves when the link comes or goes, or has another problem.
    changed: watch::Sender<u64>,
}

struct Seen {
    status: LinkStatus,
    /// What is on its way to the peer, since when.
    under_way: BTreeMap<u64, Instant>,
    next: u64,
    /// What has arrived here while nobody was there to take it.
    waiting: Option<(u64, Instant)>,
    /// What the last comparison found and has not been answered yet.
    missing: u64,
}

/// The bytes of all connections of a link.
#[derive(Debug, Default)]
pub struct Traffic {
    pub received: AtomicU64,
    pub sent: AtomicU64,
}

impl LinkState {
    /// A link to a peer, as the configuration names it, that nobody has dialled yet.
    pub fn new(peer: impl Into<String>, project: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        let peer = peer.into();
        let mut status = LinkStatus::new(peer.clone(), clock.now());
        status.project = Some(project.into());
        let seen = Seen { status, under_way: BTreeMap::new(), next: 0, waiting: None, missing: 0 };
        LinkState { peer, clock, seen: Mutex::new(seen), traffic: Arc::default(), changed: watch::Sender::new(0) }
    }

    /// The peer as the configuration names it.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The state as it is now.
    pub fn view(&self) -> LinkStatus {
        let seen = self.lock();
        let mut status = seen.status.clone();
        status.counts.bytes_received = self.traffic.received.load(Ordering::Relaxed);
        status.counts.bytes_sent = self.traffic.sent.load(Ordering::Relaxed);
        let (waiting, waits_since) = seen.waiting.map_or((0, None), |(count, since)| (count, Some(since)));
        status.queued = waiting.max(seen.missing) + seen.under_way.len() as u64;
        let oldest = seen.under_way.values().next().copied().into_iter().chain(waits_since).min();
        status.lag = oldest.map(|since| since.elapsed());
        status
    }

    /// Tells whenever the link comes or goes, or has another problem.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn traffic(&self) -> Arc<Traffic> {
        self.traffic.clone()
    }

    /// The peer has dialled us.
    #[must_use]
    pub(super) fn incoming(self, plain: bool, authenticated: bool) -> Self {
        let mut seen = self.lock();
        let status = &mut seen.status;
        (status.incoming, status.plain, status.authenticated) = (true, plain, authenticated);
        drop(seen);
        self
    }

    /// The connection is protected like this.
    pub(super) fn protected(&self, authenticated: bool, encrypted: bool) {
        let mut seen = self.lock();
        (seen.status.authenticated, seen.status.encrypted) = (authenticated, encrypted);
    }

    /// The peer has said who it is; one that knows only PROTOCOL.md does not.
    pub(super) fn introduced(&self, node: Option<Node>, version: Option<String>) {
        let mut seen = self.lock();
        let status = &mut seen.status;
        status.plain = node.is_none();
        (status.node, status.version) = (node, version);
    }

    /// The link works; `problem` is what an operator should know although it does.
    pub(super) fn connected(&self, problem: Option<String>) {
        self.turned(true, problem);
    }

    /// The link does not work, for this reason.
    pub(super) fn lost(&self, problem: String) {
        let mut seen = self.lock();
        seen.status.round_trip = None;
        seen.missing = 0;
        drop(seen);
        self.turned(false, Some(problem));
    }

    /// Something that is wrong with a link that works; nothing when it is over.
    pub(super) fn trouble(&self, problem: Option<String>) {
        let connected = self.lock().status.connected;
        self.turned(connected, problem);
    }

    fn turned(&self, connected: bool, problem: Option<String>) {
        let mut seen = self.lock();
        let status = &mut seen.status;
        if status.connected == connected && status.problem == problem {
            return;
        }
        if status.connected != connected {
            status.since = self.clock.now();
        }
        (status.connected, status.problem) = (connected, problem);
        drop(seen);
        self.changed.send_modify(|number| *number += 1);
    }

    /// The peer has answered, after so long.
    pub(super) fn answered(&self, round_trip: Duration) {
        let now = self.clock.now();
        let mut seen = self.lock();
        (seen.status.round_trip, seen.status.answered) = (Some(round_trip), Some(now));
    }

    /// A message is on its way to the peer until it has arrived; one that is given up before that waits for the peer.
    pub(super) fn departs(self: &Arc<Self>) -> UnderWay {
        let mut seen = self.lock();
        let number = seen.next;
        seen.next += 1;
        seen.under_way.insert(number, Instant::now());
        UnderWay { state: self.clone(), number, arrived: false }
    }

    /// A comparison has found that the peer lacks so many.
    pub(super) fn missing(&self, count: u64) {
        self.lock().missing = count;
    }

    /// A message has arrived here while the peer is not there to take it.
    pub(super) fn waits(&self) {
        let mut seen = self.lock();
        let (count, _) = seen.waiting.get_or_insert((0, Instant::now()));
        *count += 1;
    }

    /// The peer has what waited for it.
    pub(super) fn waits_no_more(&self) {
        self.lock().waiting = None;
    }

    /// What became of a message on its way. The id is the one that it was born with.
    pub(super) fn imported(&self, way: Way, id: MessageId, imported: &Imported) {
        let passed = Passed { id, at: self.clock.now() };
        let mut seen = self.lock();
        let status = &mut seen.status;
        match (way, imported) {
            (Way::Inward, Imported::New) => status.counts.received += 1,
            (Way::Inward, Imported::Relocated(_)) => {
                status.counts.received += 1;
                status.counts.relocated += 1;
            }
            (Way::Inward, Imported::Duplicate) => status.counts.duplicates += 1,
            (Way::Inward, Imported::Refused(_)) => status.counts.refused += 1,
            (Way::Outward, Imported::New | Imported::Relocated(_)) => status.counts.sent += 1,
            (Way::Outward, Imported::Duplicate) => {}
            (Way::Outward, Imported::Refused(_)) => status.counts.refused_there += 1,
        }
        match (way, imported) {
            (_, Imported::Refused(_)) => {}
            (Way::Inward, _) => status.last_received = Some(passed),
            (Way::Outward, _) => status.last_sent = Some(passed),
        }
    }

    /// A message or a line that was turned away.
    pub(super) fn refused(&self, way: Way, count: u64) {
        let mut seen = self.lock();
        match way {
            Way::Inward => seen.status.counts.refused += count,
            Way::Outward => seen.status.counts.refused_there += count,
        }
    }

    /// Records that brought something new.
    pub(super) fn merged(&self, count: u64) {
        self.lock().status.counts.records += count;
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that is on its way.
pub struct UnderWay {
    state: Arc<LinkState>,
    number: u64,
    arrived: bool,
}

impl UnderWay {
    /// The peer has answered.
    pub fn arrived(mut self) {
        self.arrived = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut seen = self.state.lock();
        let Some(since) = seen.under_way.remove(&self.number) else { return };
        if !self.arrived {
            let (count, first) = seen.waiting.unwrap_or((0, since));
            seen.waiting = Some((count + 1, first.min(since)));
        }
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{RefusedReason, Timestamp};

    use super::*;

    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix(1_768_059_000, 0)
        }

        fn since_boot(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn link() -> Arc<LinkState> {
        Arc::new(LinkState::new("host-b:7463", "proj-x", Arc::new(Stopped)))
    }

    #[test]
    fn what_was_on_its_way_when_the_link_broke_waits_for_the_peer() {
        let link = link();
        let (one, two) = (link.departs(), link.departs());
        assert_eq!(link.view().queued, 2);
        one.arrived();
        drop(two);
        assert_eq!(link.view().queued, 1);
        assert!(link.view().lag.is_some());
        link.waits_no_more();
        assert_eq!((link.view().queued, link.view().lag), (0, None));
    }

    #[test]
    fn each_outcome_is_counted_where_it_belongs() {
        let (link, id) = (link(), MessageId::MIN);
        for imported in [Imported::New, Imported::Relocated(id), Imported::Duplicate] {
            link.imported(Way::Inward, id, &imported);
            link.imported(Way::Outward, id, &imported);
        }
        let refused = Imported::Refused(RefusedReason::TooLarge);
        link.imported(Way::Inward, id, &refused);
        link.imported(Way::Outward, id, &refused);
        let counts = link.view().counts;
        assert_eq!((counts.received, counts.relocated, counts.duplicates, counts.refused), (2, 1, 1, 1));
        assert_eq!((counts.sent, counts.refused_there), (2, 1));
    }

    #[test]
    fn a_link_that_comes_and_goes_tells_it_once() {
        let link = link();
        let mut changes = link.changes();
        link.connected(None);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        link.connected(None);
        assert!(!changes.has_changed().unwrap());
        link.lost("gone".into());
        assert_eq!((link.view().connected, link.view().problem.as_deref()), (false, Some("gone")));
        assert!(changes.has_changed().unwrap());
    }
}
