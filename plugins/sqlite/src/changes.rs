//! Who waits for messages, and how they are woken: by our own commits, and by a look at what other processes commit.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use crate::schema::Door;

/// So many looks without anybody who waits, and the thread that looks ends.
const IDLE_LOOKS: u32 = 100;

/// Where the order of arrival ends, and who waits for it to go on.
pub(crate) struct Changes {
    door: Door,
    poll_interval: Duration,
    state: Mutex<State>,
    /// Wakes the thread that looks, when it should end.
    ended: Condvar,
}

struct State {
    /// The latest arrival that is known here.
    last: i64,
    /// Counts the calls to look again, whatever the reason.
    alarms: u64,
    sleepers: HashMap<u64, Waker>,
    next_name: u64,
    looking: Option<JoinHandle<()>>,
    closed: bool,
}

impl Changes {
    pub(crate) fn new(door: Door, poll_interval: Duration) -> Arc<Self> {
        let state = State { last: 0, alarms: 0, sleepers: HashMap::new(), next_name: 0, looking: None, closed: false };
        Arc::new(Changes { door, poll_interval, state: Mutex::new(state), ended: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everyone who waits that messages up to here are there.
    pub(crate) fn arrived(&self, last: i64) {
        let mut state = self.lock();
        if last > state.last {
            state.last = last;
            Self::wake(state);
        }
    }

    /// Has everyone who waits look again.
    pub(crate) fn alarm(&self) {
        let mut state = self.lock();
        state.alarms += 1;
        Self::wake(state);
    }

    /// Lets go of the lock first, so that those who wake do not run into it.
    fn wake(mut state: MutexGuard<'_, State>) {
        let sleepers: Vec<Waker> = state.sleepers.drain().map(|(_, waker)| waker).collect();
        drop(state);
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// How often everyone was told to look again. Whoever is going to wait asks before it looks.
    pub(crate) fn alarms(&self) -> u64 {
        self.lock().alarms
    }

    /// Waits until something lies behind `seen`, or until there was an alarm more than `alarms`.
    pub(crate) fn behind(self: &Arc<Self>, seen: i64, alarms: u64) -> Behind {
        let mut state = self.lock();
        state.next_name += 1;
        Behind { changes: self.clone(), seen, alarms, name: state.next_name }
    }

    /// Ends the thread that looks; gives it to whoever joins it.
    pub(crate) fn close(&self) -> Option<JoinHandle<()>> {
        let mut state = self.lock();
        state.closed = true;
        self.ended.notify_all();
        state.looking.take()
    }

    /// Looks for commits of other processes while somebody waits.
    fn look(self: Arc<Self>) {
        let mut connection = None;
        let mut version = None;
        let mut idle = 0;
        loop {
            let mut state = self.lock();
            idle = if state.sleepers.is_empty() { idle + 1 } else { 0 };
            if state.closed || idle > IDLE_LOOKS {
                // Whoever waits from now on finds nobody looking, and starts this again.
                state.looking = None;
                return;
            }
            let wait = self.ended.wait_timeout(state, self.poll_interval);
            if wait.unwrap_or_else(PoisonError::into_inner).0.closed {
                continue;
            }
            if self.glance(&mut connection, &mut version).is_err() {
                // Those who wait read for themselves, and tell if they meet the same error.
                self.alarm();
            }
        }
    }

    /// Asks whether anything was committed elsewhere, and only then where the messages end.
    fn glance(&self, connection: &mut Option<Connection>, version: &mut Option<i64>) -> fmail_api::Result<()> {
        let open = match connection.take() {
            Some(open) => open,
            None => {
                *version = None;
                self.door.open()?
            }
        };
        let failed = |error: rusqlite::Error| crate::errors::sqlite(&error, &self.door.path);
        let number = |sql: &str| open.prepare_cached(sql)?.query_row((), |row| row.get::<_, i64>(0));
        let found = number("PRAGMA data_version").map_err(failed)?;
        if *version != Some(found) {
            let last = number("SELECT last_arrival FROM state").map_err(failed)?;
            *version = Some(found);
            self.arrived(last);
        }
        *connection = Some(open);
        Ok(())
    }
}

/// Waits for what comes behind a place in the order of arrival.
pub(crate) struct Behind {
    changes: Arc<Changes>,
    seen: i64,
    alarms: u64,
    name: u64,
}

impl Future for Behind {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.changes.lock();
        if state.last > self.seen || state.alarms != self.alarms || state.closed {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.name, context.waker().clone());
        if state.looking.is_none() {
            let changes = self.changes.clone();
            let looking = thread::Builder::new().name("fmail-sqlite-looker".into()).spawn(move || changes.look());
            // Without a thread the writes of this process still wake us; those of others wait for the next try.
            state.looking = looking.ok();
        }
        Poll::Pending
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.changes.lock().sleepers.remove(&self.name);
    }
}
