//! The threads that read, each with a connection of its own.
//!
//! A reading is one short transaction: it gives a page and lets go. None waits for the one who asked.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use fmail_api::{Error, Result};
use futures::channel::oneshot;
use rusqlite::{Connection, Transaction};

use crate::errors::Outcome;
use crate::schema::Door;

/// Something to read, given the connection or why there is none.
type Reading = Box<dyn FnOnce(Result<&mut Connection>) + Send>;

/// The threads, and what waits for them.
pub(crate) struct Readers {
    door: Door,
    most: usize,
    state: Mutex<State>,
    waiting: Condvar,
}

#[derive(Default)]
struct State {
    readings: VecDeque<Reading>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl Readers {
    pub(crate) fn new(door: Door, most: usize) -> Arc<Self> {
        Arc::new(Readers { door, most: most.max(1), state: Mutex::default(), waiting: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something read in one transaction.
    pub(crate) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Outcome<T> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let path = self.door.path.clone();
        let reading: Reading = Box::new(move |connection| {
            // Who no longer waits need not be read for.
            if caller.is_canceled() {
                return;
            }
            let read =
                connection.and_then(|connection| in_transaction(connection, work).map_err(|failure| failure.on(&path)));
            let _ = caller.send(read);
        });
        self.enqueue(reading)?;
        answer.await.map_err(|_| Error::internal("the sqlite store ended in the middle of a reading"))?
    }

    /// Puts a reading into the queue, and starts a thread for it if none is free and one more is allowed.
    fn enqueue(self: &Arc<Self>, reading: Reading) -> Result<()> {
        let mut state = self.lock();
        state.readings.push_back(reading);
        if state.idle < state.readings.len() && state.threads.len() < self.most {
            let readers = self.clone();
            match thread::Builder::new().name("fmail-sqlite-reader".into()).spawn(move || readers.work_through()) {
                Ok(thread) => state.threads.push(thread),
                Err(error) if state.threads.is_empty() => {
                    state.readings.pop_back();
                    return Err(Error::io("a thread that reads cannot be started", &error));
                }
                // The others come to it.
                Err(_) => {}
            }
        }
        self.waiting.notify_one();
        Ok(())
    }

    fn work_through(self: Arc<Self>) {
        let mut connection = None;
        while let Some(reading) = self.next() {
            let opened = match &mut connection {
                Some(connection) => Ok(connection),
                none => self.door.open().map(|opened| none.insert(opened)),
            };
            // A panic is a defect in a reading; the one who waits sees its channel closed.
            if catch_unwind(AssertUnwindSafe(|| reading(opened))).is_err() {
                connection = None;
            }
        }
    }

    fn next(&self) -> Option<Reading> {
        let mut state = self.lock();
        loop {
            if let Some(reading) = state.readings.pop_front() {
                return Some(reading);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.waiting.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Lets the threads end; gives them to whoever joins them.
    pub(crate) fn close(&self) -> Vec<JoinHandle<()>> {
        let mut state = self.lock();
        state.closed = true;
        self.waiting.notify_all();
        std::mem::take(&mut state.threads)
    }
}

/// Reads everything from one state of the database.
fn in_transaction<T>(connection: &mut Connection, work: impl FnOnce(&Transaction<'_>) -> Outcome<T>) -> Outcome<T> {
    let transaction = connection.transaction()?;
    let read = work(&transaction)?;
    transaction.commit()?;
    Ok(read)
}
