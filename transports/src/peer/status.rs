//! What can be seen of a link.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fmail_api::{Authentication, Clock, Imported, LinkCounts, LinkReport, LinkStatus, MessageId, Node, Passed};
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
    /// What the last comparison found that the peer lacks and has not got yet, since when.
    missing: Option<(u64, Instant)>,
    /// What it found that we lack and have not got yet.
    lacking: u64,
    /// What the peer, which drives the link, has told of it last.
    reported: LinkReport,
    /// The bytes of the connection that the peer has dialled now.
    dialled_in: Option<Arc<Traffic>>,
}

/// The bytes of all connections of a link.
#[derive(Debug, Default)]
pub struct Traffic {
    /// What came.
    pub received: AtomicU64,
    /// What went.
    pub sent: AtomicU64,
}

impl LinkState {
    /// A link to a peer, as the configuration names it, that nobody has dialled yet.
    pub fn new(peer: impl Into<String>, project: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        let peer = peer.into();
        let mut status = LinkStatus::new(peer.clone(), clock.now());
        status.project = Some(project.into());
        let seen = Seen {
            status,
            under_way: BTreeMap::new(),
            next: 0,
            waiting: None,
            missing: None,
            lacking: 0,
            reported: LinkReport::default(),
            dialled_in: None,
        };
        LinkState { peer, clock, seen: Mutex::new(seen), traffic: Arc::default(), changed: watch::Sender::new(0) }
    }

    /// The peer as the configuration named it first.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The state as it is now.
    pub fn view(&self) -> LinkStatus {
        let seen = self.lock();
        let mut status = seen.status.clone();
        let bytes = || [Some(&self.traffic), seen.dialled_in.as_ref()].into_iter().flatten();
        status.counts.bytes_received = bytes().map(|traffic| traffic.received.load(Ordering::Relaxed)).sum();
        status.counts.bytes_sent = bytes().map(|traffic| traffic.sent.load(Ordering::Relaxed)).sum();
        let (waiting, waits_since) = seen.waiting.unzip();
        let (missing, missing_since) = seen.missing.unzip();
        status.queued = waiting.max(missing).unwrap_or(0) + seen.under_way.len() as u64;
        let oldest = seen.under_way.values().next().copied();
        let oldest = oldest.into_iter().chain(waits_since).chain(missing_since).min();
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
    pub(super) fn incoming(self, plain: bool) -> Self {
        let mut seen = self.lock();
        let status = &mut seen.status;
        (status.incoming, status.plain) = (true, plain);
        drop(seen);
        self
    }

    /// The peer has to prove who it is by this, over a connection that is encrypted or not.
    pub(super) fn protected(&self, authentication: Option<Authentication>, encrypted: bool) {
        let mut seen = self.lock();
        (seen.status.authentication, seen.status.encrypted) = (authentication, encrypted);
    }

    /// Whether the peer has proved who it is.
    pub(super) fn proved(&self, authenticated: bool) {
        self.lock().status.authenticated = authenticated;
    }

    /// The peer is known by another name from now on.
    pub(super) fn named(&self, peer: &str) {
        self.lock().status.peer = peer.to_string();
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
        // What the peer lacked and did not get waits for it.
        if let Some((missing, since)) = seen.missing.take() {
            let (count, first) = seen.waiting.unwrap_or((0, since));
            seen.waiting = Some((count.max(missing), first.min(since)));
        }
        seen.lacking = 0;
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

    /// A comparison has found that the destination lacks so many.
    pub(super) fn missing(&self, way: Way, count: u64) {
        let mut seen = self.lock();
        match way {
            Way::Outward => seen.missing = (count > 0).then(|| (count, Instant::now())),
            Way::Inward => seen.lacking = count,
        }
    }

    /// A message could not be stored where it goes: it is missing there until a comparison has brought it.
    pub(super) fn still_missing(&self, way: Way) {
        let mut seen = self.lock();
        match way {
            Way::Outward => {
                let (count, since) = seen.missing.unwrap_or((0, Instant::now()));
                seen.missing = Some((count + 1, since));
            }
            Way::Inward => seen.lacking += 1,
        }
    }

    /// So many of those that were missing were brought there.
    pub(super) fn brought(&self, way: Way, brought: usize) {
        let (mut seen, brought) = (self.lock(), brought as u64);
        match way {
            Way::Outward => {
                let left = seen.missing.map(|(count, since)| (count.saturating_sub(brought), since));
                seen.missing = left.filter(|(count, _)| *count > 0);
            }
            Way::Inward => seen.lacking = seen.lacking.saturating_sub(brought),
        }
    }

    /// What the other end should know of this link, which has counted so much before it began.
    pub(super) fn report(&self, before: &LinkCounts) -> LinkReport {
        let seen = self.lock();
        let status = &seen.status;
        let stored = status.counts.received.saturating_sub(before.received);
        LinkReport {
            round_trip: status.round_trip,
            stored,
            refused: status.counts.refused.saturating_sub(before.refused),
            last: status.last_received.filter(|_| stored > 0).map(|passed| passed.id),
            missing: seen.lacking,
            problem: status.problem.clone(),
            ..LinkReport::default()
        }
    }

    /// The peer, which drives the link, has told how it does; `remark` is what we know of it ourselves.
    pub(super) fn reported(&self, report: &LinkReport, remark: Option<String>) {
        let now = self.clock.now();
        let mut seen = self.lock();
        if seen.reported.link != report.link {
            seen.reported = LinkReport { link: report.link, ..LinkReport::default() };
        }
        let stored = report.stored.saturating_sub(seen.reported.stored);
        let refused = report.refused.saturating_sub(seen.reported.refused);
        let missing_since = seen.missing.map_or_else(Instant::now, |(_, since)| since);
        seen.missing = (report.missing > 0).then_some((report.missing, missing_since));
        if report.compared {
            seen.waiting = None;
        }
        let status = &mut seen.status;
        status.counts.sent += stored;
        status.counts.refused_there += refused;
        if let Some(id) = report.last.filter(|_| stored > 0) {
            status.last_sent = Some(Passed { id, at: now });
        }
        if report.round_trip.is_some() {
            (status.round_trip, status.answered) = (report.round_trip, Some(now));
        }
        let said = report.problem.as_deref().map(|problem| format!("the other host says: {}", brief(problem)));
        seen.reported = report.clone();
        drop(seen);
        self.trouble(remark.or(said));
    }

    /// The peer has dialled anew, over a connection that counts its bytes there: a link of its own.
    pub(super) fn begins(&self, traffic: Option<Arc<Traffic>>, problem: Option<String>) {
        let mut seen = self.lock();
        if let Some(old) = std::mem::replace(&mut seen.dialled_in, traffic) {
            self.traffic.received.fetch_add(old.received.load(Ordering::Relaxed), Ordering::Relaxed);
            self.traffic.sent.fetch_add(old.sent.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        seen.status.since = self.clock.now();
        seen.status.round_trip = None;
        drop(seen);
        self.connected(problem);
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

    /// A message was written to a peer that will not say what became of it.
    pub(super) fn written(&self, id: MessageId) {
        let passed = Passed { id, at: self.clock.now() };
        let mut seen = self.lock();
        seen.status.counts.unconfirmed += 1;
        seen.status.last_sent = Some(passed);
    }

    /// Records that brought something new.
    pub(super) fn merged(&self, count: u64) {
        self.lock().status.counts.records += count;
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a peer says is shown to people: not too much of it, and nothing that a terminal would act on.
pub(super) fn brief(text: &str) -> String {
    text.chars().take(300).map(|c| if c.is_control() { '?' } else { c }).collect()
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
    fn what_a_comparison_found_and_did_not_bring_waits_for_the_peer() {
        let link = link();
        link.missing(Way::Outward, 3);
        link.brought(Way::Outward, 1);
        assert_eq!(link.view().queued, 2);
        link.lost("gone".into());
        assert_eq!((link.view().queued, link.view().lag.is_some()), (2, true));
    }

    #[test]
    fn what_the_driving_end_reports_is_counted_once_and_goes_on_over_a_new_link() {
        let link = link();
        link.begins(None, None);
        let report = |number: u64, stored: u64| LinkReport {
            link: number,
            stored,
            last: Some(MessageId::MIN),
            round_trip: Some(Duration::from_millis(3)),
            ..LinkReport::default()
        };
        for (number, stored, sum) in [(1, 0, 0), (1, 2, 2), (1, 2, 2), (1, 5, 5), (2, 1, 6), (2, 1, 6)] {
            link.reported(&report(number, stored), None);
            assert_eq!(link.view().counts.sent, sum);
        }
        assert_eq!(link.view().round_trip, Some(Duration::from_millis(3)));
        assert!(link.view().answered.is_some() && link.view().last_sent.is_some());
        link.waits();
        link.reported(&LinkReport { missing: 4, ..report(2, 1) }, None);
        assert_eq!(link.view().queued, 4);
        let told = LinkReport { compared: true, problem: Some("full\ndisk".into()), ..report(2, 1) };
        link.reported(&told, None);
        assert_eq!((link.view().queued, link.view().problem.unwrap().as_str()), (0, "the other host says: full?disk"));
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
