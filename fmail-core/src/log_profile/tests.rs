//! What the conformance suite cannot see from outside: what stands in the log, what is read of it, and when.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use fmail_api::{Error, ErrorKind, Event, LogEntry, LogFacts, Order};
use futures::executor::block_on;
use futures::{FutureExt, Stream};
use serde_json::json;

use super::*;
use crate::testing::{ManualClock, MemoryLog};

/// A log that counts what is asked of it, and fails or stalls when it is told to.
struct Observed {
    inner: Arc<MemoryLog>,
    reads: AtomicUsize,
    limits: Mutex<Vec<usize>>,
    discarded: Mutex<Vec<u64>>,
    /// The next append is stored, and its answer is this.
    lost_answer: Mutex<Option<ErrorKind>>,
    /// The next append is stored, and never answered.
    stalls: AtomicBool,
    refuses_to_read: AtomicBool,
}

impl Observed {
    fn new(shared: bool) -> Arc<Self> {
        Arc::new(Observed::over(Arc::new(MemoryLog::new(shared))))
    }

    fn over(inner: Arc<MemoryLog>) -> Self {
        Observed {
            inner,
            reads: AtomicUsize::new(0),
            limits: Mutex::default(),
            discarded: Mutex::default(),
            lost_answer: Mutex::default(),
            stalls: AtomicBool::new(false),
            refuses_to_read: AtomicBool::new(false),
        }
    }

    fn texts(&self) -> Vec<String> {
        self.inner.lock().values().cloned().collect()
    }

    fn reads(&self) -> usize {
        self.reads.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl Log for Observed {
    fn facts(&self) -> LogFacts {
        self.inner.facts()
    }

    async fn append(&self, at: u64, entry: String) -> Result<()> {
        self.inner.append(at, entry).await?;
        if self.stalls.swap(false, Ordering::SeqCst) {
            futures::future::pending::<()>().await;
        }
        match self.lost_answer.lock().unwrap().take() {
            Some(kind) => Err(Error::new(kind, "the answer was lost")),
            None => Ok(()),
        }
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.limits.lock().unwrap().push(limit);
        if self.refuses_to_read.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the disk is gone"));
        }
        self.inner.read(after, limit).await
    }

    async fn discard(&self, positions: &[u64]) -> Result<()> {
        self.discarded.lock().unwrap().extend(positions);
        self.inner.discard(positions).await
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }
}

fn store(log: &Arc<Observed>) -> LogStore {
    LogStore::new(log.clone(), ManualClock::new()).poll_interval(Duration::from_millis(1))
}

fn draft(body: impl Into<Value>) -> Draft {
    Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), body)
}

fn keyed(key: &str) -> Draft {
    Draft { key: Some(key.into()), ..draft("keyed") }
}

fn append(store: &LogStore, draft: Draft) -> Arc<Message> {
    block_on(store.append(draft)).unwrap().message
}

fn key(text: &str) -> RecordKey {
    text.parse().unwrap()
}

fn put(store: &LogStore, name: &str, value: Value) {
    block_on(store.put(&key(name), Expect::Anything, value, true)).unwrap();
}

fn remove(store: &LogStore, ids: &[MessageId]) {
    let selection = Selection { ids: ids.iter().copied().collect(), ..Selection::default() };
    block_on(async {
        let removed: Vec<_> = store.remove(selection).await.unwrap().collect().await;
        assert_eq!(removed.into_iter().map(Result::unwrap).count(), ids.len());
    });
}

/// The next message of a watch; waits for it.
fn next_message(watch: &mut EventStream) -> Arc<Message> {
    loop {
        if let Event::Message(delivery) = block_on(watch.next()).unwrap().unwrap() {
            return delivery.message.clone();
        }
    }
}

/// The bodies of all messages, and the texts of all notices.
fn scan(store: &LogStore) -> (Vec<Value>, Vec<String>) {
    let (mut bodies, mut notices) = (Vec::new(), Vec::new());
    let messages = block_on(store.scan(Query::default())).unwrap().messages;
    for event in block_on(messages.collect::<Vec<_>>()) {
        match event.unwrap() {
            Event::Message(delivery) => bodies.push(delivery.message.body.clone()),
            Event::Notice(notice) => notices.push(notice.text),
            other => panic!("unexpected {other:?}"),
        }
    }
    (bodies, notices)
}

#[test]
fn the_log_reads_as_it_is_documented() {
    let log = Observed::new(false);
    let store = store(&log);
    let message = append(&store, draft("hello"));
    put(&store, "leases", json!({"n": 1}));
    block_on(store.delete(&key("leases"), Expect::Anything)).unwrap();
    let texts = log.texts();
    assert!(texts[0].starts_with(r#"{"fmail_log":1,"epoch":""#), "{}", texts[0]);
    assert_eq!(texts[1], format!(r#"{{"message":{}}}"#, message.to_line()));
    assert_eq!(texts[2], r#"{"record_deleted":"leases"}"#);
    assert_eq!(*log.discarded.lock().unwrap(), [3]);
}

#[test]
fn nothing_is_read_before_the_first_call_and_nothing_again_when_nobody_else_writes() {
    let log = Observed::new(false);
    append(&store(&log), draft(1));
    log.reads();
    let store = store(&log);
    assert_eq!(log.reads(), 0);
    append(&store, draft(2));
    assert_eq!(log.reads(), 2, "one batch, and one that says that it was the last");
    append(&store, draft(3));
    put(&store, "leases", json!(1));
    block_on(store.get(&key("leases"))).unwrap();
    block_on(store.summary(Query::default())).unwrap();
    assert_eq!(log.reads(), 0);
    block_on(store.health()).unwrap();
    assert_eq!((scan(&store).0.len(), log.reads()), (3, 1), "the bodies are read with one call");
}

#[test]
fn bodies_are_read_a_bounded_number_at_a_time_as_they_are_asked_for() {
    let log = Observed::new(false);
    let store = store(&log);
    for number in 0..200 {
        append(&store, draft(number));
    }
    log.reads();
    let mut messages = block_on(store.scan(Query { order: Order::Arrival, ..Query::default() })).unwrap().messages;
    assert_eq!(log.reads(), 0);
    block_on(messages.next()).unwrap().unwrap();
    assert_eq!((log.reads(), log.limits.lock().unwrap().last().copied()), (1, Some(64)));
    assert_eq!((block_on(messages.count()), log.reads()), (199, 3));
    // Large ones are fewer at a time.
    for _ in 0..3 {
        append(&store, draft("x".repeat(700_000)));
    }
    log.reads();
    let large = Query { limit: Some(3), ..Query::default() };
    assert_eq!((block_on(block_on(store.scan(large)).unwrap().messages.count()), log.reads()), (3, 3));
}

#[test]
fn replaced_entries_are_dropped_behind_their_successor_and_removals_stay() {
    let log = Observed::new(false);
    let store = store(&log);
    let first = append(&store, draft(1)).id;
    append(&store, draft(2));
    for n in 0..3 {
        put(&store, "leases", json!(n));
    }
    remove(&store, &[first]);
    assert_eq!(*log.discarded.lock().unwrap(), [4, 5, 2]);
    let texts = log.texts();
    assert_eq!(texts.len(), 4, "header, message, record, removal: {texts:?}");
    assert!(texts[3].starts_with(r#"{"removed":"#));
}

#[test]
fn a_log_that_never_forgets_reads_the_same() {
    let log = Observed::new(false);
    let before = {
        let store = store(&log);
        let first = append(&store, draft(1)).id;
        append(&store, draft(2));
        put(&store, "leases", json!(1));
        put(&store, "leases", json!(2));
        let kept = log.inner.lock().clone();
        remove(&store, &[first]);
        log.inner.lock().extend(kept);
        scan(&store)
    };
    log.discarded.lock().unwrap().clear();
    let store = store(&log);
    assert_eq!(scan(&store), before);
    assert_eq!(block_on(store.get(&key("leases"))).unwrap().unwrap().value, json!(2));
    // What was left behind is dropped with the next write, not by reading.
    assert!(log.discarded.lock().unwrap().is_empty());
    append(&store, draft(3));
    assert_eq!(*log.discarded.lock().unwrap(), [2]);
}

#[test]
fn an_entry_that_cannot_be_understood_is_told_and_skipped() {
    let log = Observed::new(false);
    let (first, start) = {
        let store = store(&log);
        append(&store, draft(1));
        let start = block_on(store.scan(Query::default())).unwrap().cursor;
        let next = store.tail.shared.lock().next;
        (next, start)
    };
    block_on(log.inner.append(first, "{\"message\":{\"from\":".into())).unwrap();
    block_on(log.inner.append(first + 1, "{\"x_future\":[]}".into())).unwrap();
    let store = store(&log);
    append(&store, draft(2));
    let (bodies, notices) = scan(&store);
    assert_eq!(bodies, [json!(1), json!(2)]);
    assert!(notices[0].contains("entry 3") && notices[0].contains("memory-log"), "{notices:?}");
    assert!(notices[1].contains("entry 4") && notices[1].contains("x_future"), "{notices:?}");
    let watch = block_on(store.watch(Query::default(), start)).unwrap();
    let events: Vec<_> = block_on(watch.take(3).collect());
    assert!(matches!(&events[..], [Ok(Event::Notice(_)), Ok(Event::Notice(_)), Ok(Event::Message(_))]), "{events:?}");
    assert!(block_on(store.health()).unwrap().detail.contains("2 broken"));
}

#[test]
fn a_log_without_its_header_is_read_and_told() {
    let log = Observed::new(false);
    let message = append(&store(&log), draft(1));
    log.inner.lock().remove(&1);
    let store = store(&log);
    let (bodies, notices) = scan(&store);
    assert_eq!((bodies, notices.len()), (vec![json!(1)], 1));
    assert!(append(&store, draft(2)).id > message.id);
}

#[test]
fn a_log_of_a_newer_format_is_refused() {
    let log = Observed::new(false);
    block_on(log.inner.append(1, r#"{"fmail_log":2,"epoch":"x"}"#.into())).unwrap();
    let store = store(&log);
    for _ in 0..2 {
        assert_eq!(block_on(store.append(draft(1))).unwrap_err().kind(), ErrorKind::InvalidProject);
        assert_eq!(block_on(store.scan(Query::default())).err().unwrap().kind(), ErrorKind::InvalidProject);
    }
    assert_eq!(log.texts().len(), 1);
}

#[test]
fn an_append_whose_answer_was_lost_is_found_again() {
    for shared in [false, true] {
        let log = Observed::new(shared);
        let store = store(&log);
        append(&store, draft("first"));
        *log.lost_answer.lock().unwrap() = Some(ErrorKind::Timeout);
        assert_eq!(block_on(store.append(keyed("k"))).unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(scan(&store).0, [json!("first"), json!("keyed")]);
        assert!(block_on(store.append(keyed("k"))).unwrap().duplicate);
        // The same when the caller gives up in the middle.
        log.stalls.store(true, Ordering::SeqCst);
        assert!(store.append(draft("stalled")).now_or_never().is_none());
        assert_eq!(scan(&store).0.len(), 3);
        append(&store, draft("behind"));
        assert_eq!(scan(&store).0.last(), Some(&json!("behind")));
    }
}

#[test]
fn what_a_write_replaced_is_dropped_also_when_a_reader_met_it_before_its_answer() {
    for shared in [false, true] {
        let log = Observed::new(shared);
        let store = store(&log);
        put(&store, "leases", json!(1));
        log.stalls.store(true, Ordering::SeqCst);
        assert!(store.put(&key("leases"), Expect::Anything, json!(2), true).now_or_never().is_none());
        assert_eq!(block_on(store.get(&key("leases"))).unwrap().unwrap().value, json!(2));
        append(&store, draft("behind"));
        assert_eq!(*log.discarded.lock().unwrap(), [2]);
    }
}

#[test]
fn a_removed_message_still_answers_for_its_key_until_it_is_a_day_old() {
    let log = Observed::new(false);
    let clock = ManualClock::new();
    let store = LogStore::new(log.clone(), clock.clone());
    let message = append(&store, keyed("k"));
    remove(&store, &[message.id]);
    assert!(log.discarded.lock().unwrap().is_empty());
    // Also for a process that comes later.
    for store in [&store, &LogStore::new(log.clone(), clock.clone())] {
        let again = block_on(store.append(keyed("k"))).unwrap();
        assert_eq!((again.duplicate, again.message.id), (true, message.id));
        assert_eq!(scan(store).0.len(), 0);
    }
    clock.advance(Duration::from_secs(24 * 60 * 60 + 1));
    append(&store, draft("later"));
    assert_eq!(*log.discarded.lock().unwrap(), [2]);
    assert!(!block_on(store.append(keyed("k"))).unwrap().duplicate);
}

#[test]
fn a_key_of_the_day_before_is_not_known_to_a_process_that_begins() {
    let log = Observed::new(false);
    let clock = ManualClock::new();
    append(&LogStore::new(log.clone(), clock.clone()), keyed("k"));
    clock.advance(Duration::from_secs(24 * 60 * 60 - 1));
    assert!(block_on(LogStore::new(log.clone(), clock.clone()).append(keyed("k"))).unwrap().duplicate);
    clock.advance(Duration::from_secs(2));
    assert!(!block_on(LogStore::new(log.clone(), clock.clone()).append(keyed("k"))).unwrap().duplicate);
}

#[test]
fn what_another_process_removed_while_a_scan_was_read_is_left_out() {
    let log = Observed::new(true);
    let (one, two) = (store(&log), store(&log));
    let ids: Vec<_> = (0..100).map(|number| append(&one, draft(number)).id).collect();
    let mut messages = block_on(one.scan(Query::default())).unwrap().messages;
    block_on(messages.next()).unwrap().unwrap();
    remove(&two, &ids[90..]);
    let rest: Vec<_> = block_on(messages.collect());
    assert_eq!(rest.len(), 89);
    assert!(rest.iter().all(|event| matches!(event, Ok(Event::Message(_)))), "{rest:?}");
}

#[test]
fn an_entry_that_the_log_has_lost_is_told() {
    let log = Observed::new(false);
    let store = store(&log);
    let lost = append(&store, draft(1)).id;
    append(&store, draft(2));
    log.inner.lock().remove(&2);
    let (bodies, notices) = scan(&store);
    assert_eq!(bodies, [json!(2)]);
    assert!(notices[0].contains(&lost.to_string()) && notices[0].contains("entry 2"), "{notices:?}");
}

#[test]
fn a_shared_log_is_polled_by_one_thread_while_anybody_watches() {
    let log = Observed::new(true);
    let (one, two) = (store(&log), store(&log));
    let start = block_on(one.scan(Query::default())).unwrap().cursor;
    let mut watches: Vec<_> = (0..3).map(|_| block_on(one.watch(Query::default(), start.clone())).unwrap()).collect();
    append(&two, draft(1));
    for watch in &mut watches {
        next_message(watch);
    }
    assert!(one.follower.is_running());
    drop(watches);
    // It ends by itself, and comes back with the next watch.
    while one.follower.is_running() {
        std::thread::yield_now();
    }
    let mut watch = block_on(one.watch(Query::default(), start)).unwrap();
    assert!(one.follower.is_running() && !two.follower.is_running());
    block_on(watch.next()).unwrap().unwrap();
}

#[test]
fn an_outage_ends_a_watch_with_its_error() {
    let log = Observed::new(true);
    let store = store(&log);
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    let mut watch = block_on(store.watch(Query::default(), start.clone())).unwrap();
    log.refuses_to_read.store(true, Ordering::SeqCst);
    assert_eq!(block_on(watch.next()).unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(block_on(watch.next()).is_none());
    log.refuses_to_read.store(false, Ordering::SeqCst);
    let mut watch = block_on(store.watch(Query::default(), start)).unwrap();
    append(&store, draft(1));
    next_message(&mut watch);
}

#[test]
fn a_watch_of_a_log_of_our_own_starts_no_thread_and_leaves_no_waker_behind() {
    let log = Observed::new(false);
    let store = store(&log);
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    {
        let mut watch = pin!(block_on(store.watch(Query::default(), start)).unwrap());
        assert!(matches!(watch.as_mut().poll_next(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        assert!(!store.follower.is_running());
    }
    assert!(store.tail.shared.lock().sleepers.take().is_empty());
}

#[test]
fn closing_ends_watches_and_refuses_later_calls() {
    let log = Observed::new(true);
    let store = store(&log);
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    let mut watch = block_on(store.watch(Query::default(), start)).unwrap();
    block_on(store.close()).unwrap();
    assert_eq!(block_on(watch.next()).unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(block_on(store.append(draft(1))).unwrap_err().kind(), ErrorKind::Unavailable);
}

/// A log that says `conflict` to everything.
struct Stubborn;

#[async_trait]
impl Log for Stubborn {
    fn facts(&self) -> LogFacts {
        LogFacts { name: "stubborn".into(), shared: true, durable: false, max_message_bytes: 1_000 }
    }

    async fn append(&self, _: u64, _: String) -> Result<()> {
        Err(Error::new(ErrorKind::Conflict, "no"))
    }

    async fn read(&self, after: u64, _: usize) -> Result<Vec<LogEntry>> {
        // Repeats itself for those who have read on.
        let text = r#"{"fmail_log":1,"epoch":"0123456789abcdef"}"#.to_string();
        Ok(if after < 2 { vec![LogEntry { position: 1, text }] } else { Vec::new() })
    }

    async fn discard(&self, _: &[u64]) -> Result<()> {
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health { writable: false, detail: String::new() })
    }
}

#[test]
fn a_log_that_repeats_itself_is_a_defect_that_names_it() {
    let store = LogStore::new(Arc::new(Stubborn), ManualClock::new());
    let error = block_on(store.append(draft(1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("stubborn"), "{error}");
}

/// What a process that is started again leaves of a log that is not durable.
#[test]
fn a_log_that_lost_everything_begins_anew_and_says_so_to_whoever_reads_on() {
    let log = Observed::new(false);
    let store = LogStore::new(log.clone(), ManualClock::new());
    let before = block_on(store.append(draft(1))).unwrap().message;
    let cursor = block_on(store.scan(Query::default())).unwrap().cursor;
    let mut watch = block_on(store.watch(Query::default(), cursor.clone())).unwrap();
    assert!(watch.next().now_or_never().is_none());

    log.inner.lock().clear();
    let after = block_on(store.append(draft(2))).unwrap().message;
    assert_ne!(after.id, before.id);
    assert_eq!(log.texts().len(), 2, "a header and the message");
    let ended = block_on(watch.next()).unwrap().unwrap_err();
    assert!(ended.to_string().contains("has begun anew"), "{ended}");
    let messages = block_on(store.scan(Query::default())).unwrap().messages;
    let messages: Vec<Event> = block_on(messages.map(|event| event.unwrap()).collect());
    assert!(matches!(&messages[..], [Event::Message(one)] if one.message.id == after.id), "{messages:?}");
    let error = block_on(store.watch(Query::default(), cursor)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Expired);

    log.inner.lock().clear();
    let mut messages = block_on(store.scan(Query::default())).unwrap().messages;
    let error = block_on(messages.next()).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(block_on(block_on(store.scan(Query::default())).unwrap().messages.next()).is_none());
}
