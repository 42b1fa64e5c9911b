//! The one thread that writes.
//!
//! Whatever waits when it has time becomes one transaction with one sync. While that is under way the next group gathers
//! by itself: the more there is to write, the larger the groups.
//!
//! A work refuses before it writes: one that was refused has left nothing in the transaction, and the others go on. When
//! the database itself fails within a group, the group is undone, and each work is tried again alone, so that each has
//! the verdict that is its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use fmail_api::{Clock, Error, Result};
use futures::channel::oneshot;
use rusqlite::Connection;

use crate::changes::Changes;
use crate::errors::{Failure, Outcome};
use crate::file::DatabaseFile;
use crate::ids::Counters;
use crate::schema::{keep_log, set_sync};

/// The most works in one transaction. More would make the first wait for the last without saving much.
const GROUP: usize = 256;

/// A log up to this size is left beside the database when the last connection closes. Bringing it in takes several syncs,
/// which would be most of the time of a command that sends one message; reading so much at the next opening takes less
/// than one.
const LOG_LEFT: u64 = 1 << 20;

/// A transaction that writes, as a work sees it.
pub(crate) struct Writing<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) counters: Counters,
}

/// Something to write, and somebody who waits for it.
trait Work: Send {
    /// Writes. May be called again when the transaction came to nothing.
    fn run(&mut self, writing: &mut Writing<'_>) -> Outcome<()>;
    /// Answers the caller.
    fn answer(self: Box<Self>, verdict: Result<()>);
    /// Whether it has to survive a power cut.
    fn durable(&self) -> bool;
    /// Whether nobody waits any more.
    fn abandoned(&self) -> bool;
}

struct Task<T, F> {
    work: F,
    done: Option<T>,
    durable: bool,
    caller: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&mut Writing<'_>) -> Outcome<T> + Send> Work for Task<T, F> {
    fn run(&mut self, writing: &mut Writing<'_>) -> Outcome<()> {
        self.done = Some((self.work)(writing)?);
        Ok(())
    }

    fn answer(self: Box<Self>, verdict: Result<()>) {
        let Task { done, caller, .. } = *self;
        let answer = verdict.and_then(|()| done.ok_or_else(|| Error::internal("a write was answered unwritten")));
        // Who no longer waits does not want to know.
        let _ = caller.send(answer);
    }

    fn durable(&self) -> bool {
        self.durable
    }

    fn abandoned(&self) -> bool {
        self.caller.is_canceled()
    }
}

/// The way to the thread that writes. Dropping it lets the thread finish what waits and close the connection.
pub(crate) struct Writer {
    works: Sender<Box<dyn Work>>,
}

/// What the thread that writes needs.
pub(crate) struct Desk {
    pub(crate) connection: Connection,
    pub(crate) file: DatabaseFile,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) boot: String,
    /// Whether a commit waits for the disk, unless nothing in it has to survive a power cut.
    pub(crate) full_sync: bool,
    pub(crate) changes: Arc<Changes>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(desk: Desk) -> Result<(Writer, JoinHandle<()>)> {
        let (works, waiting) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("fmail-sqlite-writer".into())
            .spawn(move || desk.work_through(&waiting))
            .map_err(|error| Error::io("the thread that writes cannot be started", &error))?;
        Ok((Writer { works }, thread))
    }

    /// Has something written, and gives its outcome once it is committed.
    pub(crate) async fn write<T, F>(&self, durable: bool, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Writing<'_>) -> Outcome<T> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let ended = || Error::internal("the sqlite store's writer ended in the middle of a write");
        self.works.send(Box::new(Task { work, done: None, durable, caller })).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl Desk {
    fn work_through(mut self, waiting: &Receiver<Box<dyn Work>>) {
        let mut synced = self.full_sync;
        while let Ok(first) = waiting.recv() {
            let mut group = vec![first];
            group.extend(waiting.try_iter().take(GROUP - 1));
            group.retain(|work| !work.abandoned());
            // A panic is a defect in a work; those who wait see their channel closed, and the next group is tried.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.commit(group, &mut synced)));
            if outcome.is_err() {
                self.undo();
            }
        }
        // If the setting cannot be made, the log stays, and is read by whoever opens the database next.
        let _ = keep_log(&self.connection, self.file.log_bytes() <= LOG_LEFT);
    }

    /// Writes a group and answers each of its members.
    fn commit(&mut self, mut group: Vec<Box<dyn Work>>, synced: &mut bool) {
        if group.is_empty() {
            return;
        }
        match self.attempt(&mut group, synced) {
            Ok(verdicts) => group.into_iter().zip(verdicts).for_each(|(work, verdict)| work.answer(verdict)),
            // What keeps one from the lock or the file keeps all from it; each alone would have to wait as long again.
            Err(failure) if group.len() == 1 || failure.concerns_all() => {
                let error = failure.on(&self.file.path);
                group.into_iter().for_each(|work| work.answer(Err(error.clone())));
            }
            Err(_) => group.into_iter().for_each(|work| self.commit(vec![work], synced)),
        }
    }

    /// Writes a group in one transaction; it stands as a whole or not at all.
    fn attempt(&mut self, group: &mut [Box<dyn Work>], synced: &mut bool) -> Outcome<Vec<Result<()>>> {
        self.file.check()?;
        let sync = self.full_sync && group.iter().any(|work| work.durable());
        if *synced != sync {
            set_sync(&self.connection, sync)?;
            *synced = sync;
        }
        let written = self.write(group);
        if written.is_err() {
            self.undo();
        }
        written
    }

    fn write(&mut self, group: &mut [Box<dyn Work>]) -> Outcome<Vec<Result<()>>> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        let before = Counters::load(&self.connection, &self.boot)?;
        let changes_before = self.connection.total_changes();
        let mut writing = Writing { connection: &self.connection, clock: &*self.clock, counters: before };
        let mut verdicts = Vec::with_capacity(group.len());
        for work in group {
            let counters = writing.counters;
            match work.run(&mut writing) {
                Ok(()) => verdicts.push(Ok(())),
                Err(Failure::Refused(error)) => {
                    writing.counters = counters;
                    verdicts.push(Err(error));
                }
                Err(failure) => return Err(failure),
            }
        }
        let after = writing.counters;
        if self.connection.total_changes() == changes_before {
            self.connection.prepare_cached("ROLLBACK")?.execute(())?;
            return Ok(verdicts);
        }
        if after != before {
            after.save(&self.connection, &self.boot)?;
        }
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        self.changes.arrived(after.last_arrival);
        Ok(verdicts)
    }

    /// Ends a transaction that came to nothing. SQLite has sometimes done it already.
    fn undo(&mut self) {
        if !self.connection.is_autocommit() {
            // If this fails too, the next transaction does, and says why.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}
