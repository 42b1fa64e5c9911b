//! Which calls of an instance are under way, and whether further ones are taken.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::moment::Moment;

/// The life of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Not created yet, or being created.
    New,
    /// Takes calls.
    Alive,
    /// Takes no further calls; those under way may end.
    Closing,
    /// Is gone, or was given up.
    Gone,
}

/// The calls under way.
pub struct Ledger(Mutex<Book>);

struct Book {
    life: Life,
    next: u64,
    begun: BTreeMap<u64, (&'static str, Moment)>,
    /// Waits for the last call to end.
    closer: Option<Waker>,
}

/// A call under way; it is over when this is dropped.
pub struct Ticket {
    ledger: Arc<Ledger>,
    number: u64,
}

impl Ledger {
    pub fn new() -> Arc<Self> {
        Arc::new(Ledger(Mutex::new(Book { life: Life::New, next: 0, begun: BTreeMap::new(), closer: None })))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a call; the life when it is none that takes calls.
    pub fn begin(self: &Arc<Self>, method: &'static str) -> Result<Ticket, Life> {
        let mut book = self.book();
        if book.life != Life::Alive {
            return Err(book.life);
        }
        book.next += 1;
        let number = book.next;
        book.begun.insert(number, (method, Moment::now()));
        drop(book);
        Ok(Ticket { ledger: self.clone(), number })
    }

    /// Goes from one life to the next, if it is in the first.
    pub fn turn(&self, from: Life, to: Life) -> bool {
        let mut book = self.book();
        let turned = book.life == from;
        if turned {
            book.life = to;
        }
        turned
    }

    /// Goes to the last life, from whatever it is in; which that was.
    pub fn end(&self) -> Life {
        std::mem::replace(&mut self.book().life, Life::Gone)
    }

    /// Resolves when no call is under way.
    pub async fn idle(&self) {
        poll_fn(|task| {
            let mut book = self.book();
            if book.begun.is_empty() {
                return Poll::Ready(());
            }
            book.closer = Some(task.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// What is under way and for how long, the oldest first.
    pub fn under_way(&self) -> Vec<(&'static str, Duration)> {
        self.book().begun.values().map(|(method, since)| (*method, since.elapsed())).collect()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut book = self.ledger.book();
        book.begun.remove(&self.number);
        let closer = if book.begun.is_empty() { book.closer.take() } else { None };
        drop(book);
        if let Some(closer) = closer {
            closer.wake();
        }
    }
}
