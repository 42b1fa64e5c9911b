//! The newest events, for any number of readers that each keep their own place.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use fmail_api::{Error, ErrorKind, Event, Result};

/// How many events a reader may lag behind.
const MAX_EVENTS: usize = 4096;
/// How many bytes of messages the ring holds on to for readers that lag behind.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The newest events. One thread writes; a reader that is overtaken is told so, and never holds the others up.
#[derive(Default)]
pub struct Ring {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    /// The number of the first event that is still there.
    first: u64,
    /// Why no further event will come.
    end: Option<Error>,
    wakers: HashMap<u64, Waker>,
    readers: u64,
}

impl Ring {
    /// Adds an event and wakes who waits for it.
    pub fn push(&self, event: Event) {
        let size = super::weigh(&event);
        let mut inner = self.lock();
        inner.bytes += size;
        inner.events.push_back((event, size));
        while inner.events.len() > MAX_EVENTS || (inner.bytes > MAX_BYTES && inner.events.len() > 1) {
            let gone = inner.events.pop_front().map_or(0, |(_, size)| size);
            inner.bytes -= gone;
            inner.first += 1;
        }
        wake(inner);
    }

    /// Says that no further event will come.
    pub fn end(&self, error: Error) {
        let mut inner = self.lock();
        inner.end = Some(error);
        wake(inner);
    }

    /// A reader of everything that is pushed from now on.
    pub fn reader(self: &Arc<Self>) -> RingReader {
        let mut inner = self.lock();
        inner.readers += 1;
        let (id, next) = (inner.readers, inner.first + inner.events.len() as u64);
        drop(inner);
        RingReader { ring: self.clone(), id, next }
    }

    /// The number that the next event will have.
    pub fn next(&self) -> u64 {
        let inner = self.lock();
        inner.first + inner.events.len() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes outside the lock: whoever wakes up looks at the ring at once.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let wakers: Vec<Waker> = inner.wakers.drain().map(|(_, waker)| waker).collect();
    drop(inner);
    wakers.into_iter().for_each(Waker::wake);
}

/// A place in the ring.
pub struct RingReader {
    ring: Arc<Ring>,
    id: u64,
    next: u64,
}

impl RingReader {
    /// The next event with its number; an error is the last thing that a reader gets.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<(u64, Event)>> {
        let mut inner = self.ring.lock();
        let Some(offset) = self.next.checked_sub(inner.first) else {
            return Poll::Ready(Err(overtaken()));
        };
        if let Some((event, _)) = inner.events.get(offset as usize) {
            self.next += 1;
            return Poll::Ready(Ok((self.next - 1, event.clone())));
        }
        if let Some(error) = &inner.end {
            return Poll::Ready(Err(error.clone()));
        }
        inner.wakers.insert(self.id, waker.clone());
        Poll::Pending
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        self.ring.lock().wakers.remove(&self.id);
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

    fn take(reader: &mut RingReader) -> Poll<Result<u64>> {
        reader.poll(Waker::noop()).map(|next| next.map(|(number, _)| number))
    }

    #[test]
    fn every_reader_gets_everything_from_its_start() {
        let ring = Arc::new(Ring::default());
        ring.push(event(0, 1));
        let mut one = ring.reader();
        ring.push(event(1, 1));
        let mut two = ring.reader();
        ring.push(event(2, 1));
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
            ring.push(event(n, 1));
        }
        let Poll::Ready(Err(error)) = take(&mut slow) else { panic!() };
        assert_eq!(error.kind(), ErrorKind::Backpressure);
        let mut slow = ring.reader();
        for n in 0..20 {
            ring.push(event(n, 1024 * 1024));
        }
        assert!(ring.lock().bytes <= MAX_BYTES);
        assert!(matches!(take(&mut slow), Poll::Ready(Err(_))));
    }
}
