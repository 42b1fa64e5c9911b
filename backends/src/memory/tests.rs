//! What the conformance suite cannot see from outside: the clock, the counter of ids, and what a watch holds.

use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fmail_api::{MessageId, Timestamp};
use futures::Stream;
use futures::executor::block_on;

use super::*;

/// A clock that stands where it is put.
struct Hands {
    millis: AtomicI64,
    boot_seconds: AtomicU64,
}

impl Hands {
    fn at(text: &str) -> Arc<Self> {
        let time: Timestamp = text.parse().unwrap();
        Arc::new(Hands { millis: AtomicI64::new(time.unix_seconds() * 1_000), boot_seconds: AtomicU64::new(0) })
    }

    fn turn(&self, seconds: i64) {
        self.millis.fetch_add(seconds * 1_000, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        let millis = self.millis.load(Ordering::Relaxed);
        Timestamp::from_unix(millis.div_euclid(1_000), millis.rem_euclid(1_000) as u32 * 1_000_000)
    }

    fn since_boot(&self) -> Duration {
        Duration::from_secs(self.boot_seconds.load(Ordering::Relaxed))
    }
}

fn store(clock: &Arc<Hands>) -> MemoryStore {
    MemoryStore::new(10_000, clock.clone())
}

fn draft(to: &str) -> Draft {
    Draft::new("alice".parse().unwrap(), to.parse().unwrap(), "hello")
}

fn append(store: &MemoryStore) -> Result<MessageId> {
    block_on(store.append(draft("task"))).map(|appended| appended.message.id)
}

fn foreign(id: &str) -> Message {
    draft("task").into_message(id.parse().unwrap(), "2026-01-10T15:30:00Z".parse().unwrap())
}

#[test]
fn ids_follow_the_clock_and_never_repeat_within_a_tick() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    assert_eq!(append(&store).unwrap().to_string(), "20260110-153000-0000");
    assert_eq!(append(&store).unwrap().to_string(), "20260110-153000-0001");
    clock.turn(1);
    assert_eq!(append(&store).unwrap().to_string(), "20260110-153001-0000");
}

#[test]
fn a_clock_that_steps_back_a_little_is_counted_over_and_a_lot_is_backpressure() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    append(&store).unwrap();
    clock.turn(-59);
    assert_eq!(append(&store).unwrap().to_string(), "20260110-153000-0001");
    clock.turn(-2);
    assert_eq!(append(&store).unwrap_err().kind(), ErrorKind::Backpressure);
    clock.turn(61);
    assert_eq!(append(&store).unwrap().to_string(), "20260110-153000-0002");
}

#[test]
fn an_import_moves_the_counter_only_when_it_is_at_most_ten_seconds_ahead() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    assert_eq!(block_on(store.import(foreign("20260110-153010-0000"))).unwrap(), Imported::New);
    assert_eq!(append(&store).unwrap().to_string(), "20260110-153010-0001");
    let far = block_on(store.import(foreign("20260110-153010-0002"))).unwrap();
    assert_eq!(far, Imported::Relocated("20260110-153010-0002".parse().unwrap()));
    let planted = block_on(store.import(foreign("20990101-000000-0001"))).unwrap();
    assert_eq!(planted, Imported::Relocated("20260110-153010-0003".parse().unwrap()));
}

#[test]
fn a_key_is_forgotten_after_a_day() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    let keyed = || Draft { key: Some("k".into()), ..draft("task") };
    let duplicate = || block_on(store.append(keyed())).unwrap().duplicate;
    assert!(!duplicate());
    clock.boot_seconds.store(24 * 60 * 60, Ordering::Relaxed);
    assert!(duplicate());
    clock.boot_seconds.store(24 * 60 * 60 + 1, Ordering::Relaxed);
    assert!(!duplicate());
    assert!(duplicate());
}

#[test]
fn a_watch_passes_over_what_does_not_fit_in_steps_and_tells_its_progress() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    for _ in 0..2_500 {
        append(&store).unwrap();
    }
    block_on(store.append(draft("wanted"))).unwrap();
    let mut watch = block_on(store.watch(Query::target("wanted".parse().unwrap()), start)).unwrap();
    let events: Vec<Event> = block_on(async { watch.by_ref().take(3).map(Result::unwrap).collect().await });
    assert!(matches!(&events[..], [Event::Progress(_), Event::Progress(_), Event::Message(_)]), "{events:?}");
}

#[test]
fn a_dropped_watch_leaves_no_waker_behind() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    {
        let mut watch = pin!(block_on(store.watch(Query::default(), start)).unwrap());
        assert!(matches!(watch.as_mut().poll_next(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        assert_eq!(store.shared.lock().sleepers.take().len(), 1);
        assert!(matches!(watch.as_mut().poll_next(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    }
    assert!(store.shared.lock().sleepers.take().is_empty());
}

#[test]
fn closing_ends_watches_with_an_error_and_refuses_later_calls() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    let mut watch = block_on(store.watch(Query::default(), start)).unwrap();
    block_on(store.close()).unwrap();
    let last = block_on(watch.next()).unwrap().unwrap_err();
    assert_eq!(last.kind(), ErrorKind::Unavailable);
    assert!(block_on(watch.next()).is_none());
    assert_eq!(append(&store).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn positions_stay_when_the_oldest_messages_are_removed() {
    let clock = Hands::at("2026-01-10T15:30:00Z");
    let store = store(&clock);
    let ids: Vec<_> = (0..4).map(|_| append(&store).unwrap()).collect();
    let gone = Selection { ids: ids[..2].iter().copied().collect(), ..Selection::default() };
    let removed: Vec<_> = block_on(async { store.remove(gone).await.unwrap().collect().await });
    assert_eq!(removed.len(), 2);
    assert_eq!(store.shared.lock().messages.end(), 4);
    let scan = block_on(store.scan(Query { order: fmail_api::Order::Arrival, ..Query::default() })).unwrap();
    assert_eq!(block_on(scan.messages.count()), 2);
}
