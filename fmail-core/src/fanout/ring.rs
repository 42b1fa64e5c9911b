//! The newest events, for any number of readers that each keep their own place.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Poll, Waker};

use fmail_api::{Error, ErrorKind, Event, Result};

/// How many events a reader may lag behind.
const MAX_EVENTS: usize = 4096;
/// How many bytes of messages the ring holds on to for readers that lag behind.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// How many events a reader looks at and how many bytes it takes in one go: it holds on to what it took, and whoever
/// writes to the ring waits while it looks.
const TAKEN_EVENTS: usize = 256;
const TAKEN_BYTES: usize = 64 * 1024;

/// The newest events. One thread writes; a reader that is overtaken is told so, and never holds the others up.
///
/// Readers read side by side, and everyone who waits is woken once for all that was pushed: with a thousand watchers it is the
/// waking that costs.
#[derive(Default)]
pub struct Ring {
    kept: RwLock<Kept>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    /// The number of the first event that is still there.
    first: u64,
    /// Why no further event will come.
    end: Option<Error>,
}

#[derive(Default)]
struct Waiting {
    wakers: HashMap<u64, Waker>,
    readers: u64,
}

impl Ring {
    /// Adds events. Who waits for them is woken by [`Ring::wake`].
    pub fn push(&self, events: impl Iterator<Item = Event>) {
        // The text is made before anybody has to wait for it.
        let weighed = |event| {
            let size = super::weigh(&event);
            (event, size)
        };
        let events: Vec<(Event, usize)> = events.map(weighed).collect();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        for (event, size) in events {
            kept.bytes += size;
            kept.events.push_back((event, size));
        }
        while kept.events.len() > MAX_EVENTS || (kept.bytes > MAX_BYTES && kept.events.len() > 1) {
            let gone = kept.events.pop_front().map_or(0, |(_, size)| size);
            kept.bytes -= gone;
            kept.first += 1;
        }
    }

    /// Says that no further event will come.
    pub fn end(&self, error: Error) {
        self.kept.write().unwrap_or_else(PoisonError::into_inner).end = Some(error);
        self.wake();
    }

    /// Wakes everyone who waits. Outside the lock: whoever wakes up looks at the ring at once.
    pub fn wake(&self) {
        let wakers: Vec<Waker> = self.waiting().wakers.drain().map(|(_, waker)| waker).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A reader of everything that is pushed from now on.
    pub fn reader(self: &Arc<Self>) -> RingReader {
        let mut waiting = self.waiting();
        waiting.readers += 1;
        let id = waiting.readers;
        drop(waiting);
        RingReader { ring: self.clone(), id, next: self.next(), taken: VecDeque::new() }
    }

    /// The number that the next event will have.
    pub fn next(&self) -> u64 {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.first + kept.events.len() as u64
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the ring.
pub struct RingReader {
    ring: Arc<Ring>,
    id: u64,
    next: u64,
    /// What was taken in one go and not given yet.
    taken: VecDeque<Event>,
}

impl RingReader {
    /// The next event that is wanted; an error is the last thing that a reader gets. Whether an event is wanted is asked with
    /// its number, once, and before anything is done for it.
    pub fn poll(&mut self, waker: &Waker, mut wants: impl FnMut(u64, &Event) -> bool) -> Poll<Result<Event>> {
        let mut asked = false;
        loop {
            if let Some(event) = self.taken.pop_front() {
                return Poll::Ready(Ok(event));
            }
            if self.take(&mut wants)? {
                continue;
            }
            // First ask to be woken, then look again: what is pushed in between wakes us, or is seen.
            if std::mem::replace(&mut asked, true) {
                return Poll::Pending;
            }
            self.ring.waiting().wakers.insert(self.id, waker.clone());
        }
    }

    /// Takes what is there, up to a bound, and says whether there was anything.
    fn take(&mut self, wants: &mut impl FnMut(u64, &Event) -> bool) -> Result<bool> {
        let kept = self.ring.kept.read().unwrap_or_else(PoisonError::into_inner);
        let Some(offset) = self.next.checked_sub(kept.first) else { return Err(overtaken()) };
        let before = self.next;
        let mut bytes = 0;
        for (event, size) in kept.events.range(offset as usize..).take(TAKEN_EVENTS) {
            if wants(self.next, event) {
                self.taken.push_back(event.clone());
                bytes += size;
            }
            self.next += 1;
            if bytes >= TAKEN_BYTES {
                break;
            }
        }
        match &kept.end {
            Some(error) if self.next == before => Err(error.clone()),
            _ => Ok(self.next > before),
        }
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        self.ring.waiting().wakers.remove(&self.id);
    }
}

fn overtaken() -> Error {
    Error::new(ErrorKind::Backpressure, "this watch reads more slowly than messages arrive, and was left behind")
        .help("connect again with `since` set to the last message that was seen")
}

#[cfg(test)]
mod tests {
    use fmail_api::{Cursor, Draft, Message, MessageId, Timestamp};
    use serde_json::Value;

    use super::*;

    fn event(n: usize, size: usize) -> Event {
        let body = Value::from("x".repeat(size));
        let draft = Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), body);
        let message: Message = draft.into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        Event::Message(fmail_api::Delivery::new(Arc::new(message), Cursor::new(n.to_string())))
    }

    fn push(ring: &Ring, n: usize, size: usize) {
        ring.push(std::iter::once(event(n, size)));
        ring.wake();
    }

    /// The cursor of the next event, which is the number that the test gave it.
    fn take(reader: &mut RingReader) -> Poll<Result<usize>> {
        take_if(reader, |_| true)
    }

    fn take_if(reader: &mut RingReader, wants: impl Fn(u64) -> bool) -> Poll<Result<usize>> {
        reader.poll(Waker::noop(), |number, _| wants(number)).map_ok(|event| match event {
            Event::Message(delivery) => delivery.cursor.as_str().parse().unwrap(),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn every_reader_gets_everything_from_its_start() {
        let ring = Arc::new(Ring::default());
        push(&ring, 0, 1);
        let mut one = ring.reader();
        push(&ring, 1, 1);
        let mut two = ring.reader();
        push(&ring, 2, 1);
        assert!(matches!(take(&mut one), Poll::Ready(Ok(1))));
        assert!(matches!(take(&mut one), Poll::Ready(Ok(2))));
        assert!(take(&mut one).is_pending());
        assert!(matches!(take(&mut two), Poll::Ready(Ok(2))));
        ring.end(Error::internal("over"));
        assert!(matches!(take(&mut two), Poll::Ready(Err(_))));
    }

    #[test]
    fn a_reader_that_is_overtaken_is_told_and_costs_a_bounded_amount() {
        let ring = Arc::new(Ring::default());
        let mut slow = ring.reader();
        for n in 0..=MAX_EVENTS {
            push(&ring, n, 1);
        }
        let Poll::Ready(Err(error)) = take(&mut slow) else { panic!() };
        assert_eq!(error.kind(), ErrorKind::Backpressure);
        let mut slow = ring.reader();
        for n in 0..20 {
            push(&ring, n, 1024 * 1024);
        }
        assert!(ring.kept.read().unwrap().bytes <= MAX_BYTES);
        assert!(matches!(take(&mut slow), Poll::Ready(Err(_))));
    }

    #[test]
    fn what_a_reader_takes_in_one_go_is_bounded_and_what_it_took_is_not_lost() {
        let ring = Arc::new(Ring::default());
        let (mut large, mut many) = (ring.reader(), ring.reader());
        for n in 0..MAX_EVENTS {
            push(&ring, n, TAKEN_BYTES / 4);
        }
        // Of what is large little is kept, and a reader holds on to little of it.
        let kept = ring.kept.read().unwrap().events.len();
        assert!(matches!(take(&mut large), Poll::Ready(Err(_))));
        let mut large = ring.reader();
        (0..kept).for_each(|n| push(&ring, n, TAKEN_BYTES / 4));
        (0..4).for_each(|n| assert!(matches!(take(&mut large), Poll::Ready(Ok(taken)) if taken == n)));
        assert!(large.taken.len() <= 4);
        drop(many);
        many = ring.reader();
        (0..MAX_EVENTS).for_each(|n| push(&ring, n, 1));
        assert!(matches!(take(&mut many), Poll::Ready(Ok(0))));
        assert!(many.taken.len() < TAKEN_EVENTS);
        // The ring moves on over what was not taken yet; what was taken comes before the reader is told.
        let taken = many.taken.len();
        (0..MAX_EVENTS).for_each(|n| push(&ring, n, 1));
        (1..=taken).for_each(|n| assert!(matches!(take(&mut many), Poll::Ready(Ok(number)) if number == n)));
        assert!(matches!(take(&mut many), Poll::Ready(Err(_))));
    }

    #[test]
    fn a_reader_that_wants_nothing_of_what_came_waits_behind_it() {
        let ring = Arc::new(Ring::default());
        let mut picky = ring.reader();
        (0..2 * TAKEN_EVENTS).for_each(|n| push(&ring, n, 1));
        let last = 2 * TAKEN_EVENTS as u64 - 1;
        assert!(matches!(take_if(&mut picky, |number| number == last), Poll::Ready(Ok(n)) if n as u64 == last));
        push(&ring, 0, 1);
        assert!(take_if(&mut picky, |_| false).is_pending());
        assert_eq!(picky.next, ring.next());
        assert_eq!(ring.waiting().wakers.len(), 1);
        ring.wake();
        assert_eq!(ring.waiting().wakers.len(), 0);
    }
}
