//! All that is known of the log, and what each entry changes in it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fmail_api::{Cursor, Error, ErrorKind, LogEntry, Query, Result, Revision, Since};

use super::entry::{Entry, is_epoch};
use super::index::{Filter, Index, Now};
use super::records::Records;
use super::watch::Sleepers;

/// The epoch in a cursor that was given before the log had an entry, and so had no epoch yet.
const NO_EPOCH: &str = "0000000000000000";

/// What the store, its streams and its follower share.
///
/// The mutex is the standard library's: nothing is awaited while it is held.
pub(super) struct Shared(Mutex<State>);

pub(super) struct State {
    /// The position that the next entry gets.
    pub(super) next: u64,
    /// Says which log a cursor belongs to.
    epoch: Option<String>,
    pub(super) index: Index,
    pub(super) records: Records,
    /// Entries that cannot be understood, and why.
    pub(super) broken: BTreeMap<u64, String>,
    /// Entries that have been replaced by later ones and can be dropped with the next write.
    pub(super) replaced: Vec<u64>,
    /// The log was read to its end once.
    pub(super) replayed: bool,
    /// Where our last append was to stand.
    pub(super) writing_at: u64,
    /// An append has ended without saying whether its entry is stored.
    pub(super) uncertain: bool,
    pub(super) sleepers: Sleepers,
    pub(super) closed: bool,
    /// How often the log was found to be another one.
    pub(super) generation: u64,
}

impl Shared {
    pub(super) fn new() -> Self {
        Shared(Mutex::new(State {
            next: 1,
            epoch: None,
            index: Index::new(),
            records: Records::default(),
            broken: BTreeMap::new(),
            replaced: Vec::new(),
            replayed: false,
            writing_at: 0,
            uncertain: false,
            sleepers: Sleepers::default(),
            closed: false,
            generation: 0,
        }))
    }

    /// The state, open or closed. A panic elsewhere cannot leave it half changed, so poisoning is of no interest.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless the store is closed.
    pub(super) fn open(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.closed { Err(closed()) } else { Ok(state) }
    }
}

/// Ends a change: lets go of the lock, then wakes whoever watches, so that they do not run into it.
pub(super) fn announce(mut state: MutexGuard<'_, State>) {
    let sleepers = state.sleepers.take();
    drop(state);
    sleepers.into_iter().for_each(|waker| waker.wake());
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the store is closed").help("open the project again")
}

impl State {
    /// The last position of the log, as far as it is known.
    pub(super) fn end(&self) -> u64 {
        self.next - 1
    }

    /// Which log this is, once it has an entry.
    pub(super) fn epoch(&self) -> Option<&str> {
        self.epoch.as_deref()
    }

    /// Forgets everything: the log is another one than it was.
    pub(super) fn begin_anew(&mut self) {
        self.next = 1;
        self.epoch = None;
        self.index = self.index.emptied();
        self.records = Records::default();
        self.broken.clear();
        self.replaced.clear();
        self.replayed = false;
        self.writing_at = 0;
        self.uncertain = false;
        self.generation += 1;
    }

    /// Whether the log has its header.
    pub(super) fn has_header(&self) -> bool {
        self.epoch.is_some()
    }

    /// Takes in entries that were read, and the time at which they were. What is known already is passed over, so that
    /// two who have read the same entries do no harm.
    pub(super) fn learn(&mut self, read: Vec<(LogEntry, Result<Entry>)>, now: Now) -> Result<()> {
        for (entry, parsed) in read {
            if entry.position < self.next {
                continue;
            }
            if self.epoch.is_none() && !matches!(parsed, Ok(Entry::Header { .. })) {
                // A log whose header is gone or damaged still needs an epoch that every process finds alike.
                let hash = Revision::of_content(entry.text.as_bytes());
                self.epoch = Some(hash.as_str()[..16].into());
                self.broken.insert(entry.position, "the log does not begin with its header".into());
            }
            match parsed {
                // What the entries of others replace is theirs to drop. What was left behind is ours, and so is what our
                // own entry replaces, when a reader meets it before its writer has the answer.
                Ok(change) => {
                    let ours = !self.replayed || entry.position == self.writing_at;
                    self.apply(entry.position, entry.text.len(), change, now, ours);
                }
                Err(error) if error.kind() == ErrorKind::InvalidProject => return Err(error),
                Err(error) => {
                    self.next = entry.position + 1;
                    self.broken.insert(entry.position, error.to_string());
                }
            }
        }
        Ok(())
    }

    /// Changes what is known by the entry at a position at or behind `next`. `ours`: what it replaces is ours to drop.
    pub(super) fn apply(&mut self, position: u64, bytes: usize, entry: Entry, now: Now, ours: bool) {
        if position < self.next {
            return;
        }
        self.next = position + 1;
        let mut replaced = Vec::new();
        match entry {
            Entry::Header { epoch } => self.epoch = Some(epoch),
            Entry::Message(message) => self.index.insert(position, bytes, &message, true, now),
            Entry::Imported(message) => self.index.insert(position, bytes, &message, false, now),
            Entry::Record { key, value } => replaced.extend(self.records.learn(position, key, Some(value))),
            Entry::RecordDeleted(key) => replaced.extend(self.records.learn(position, key, None)),
            Entry::Removed(ids) => replaced.extend(ids.into_iter().filter_map(|id| self.index.remove(id))),
        }
        if ours {
            self.replaced.extend(replaced);
        }
    }

    /// The cursor behind a position.
    pub(super) fn cursor(&self, position: u64) -> Cursor {
        Cursor::new(format!("{}:{position}", self.epoch.as_deref().unwrap_or(NO_EPOCH)))
    }

    /// Reads a cursor: the position behind which it stands.
    pub(super) fn position(&self, cursor: &Cursor) -> Result<u64> {
        let wrong = || {
            Error::invalid(format!("`{}` is not a cursor of this store", cursor.as_str().escape_debug()))
                .help("use a cursor that a scan or a watch of this store has given")
        };
        let (epoch, position) = cursor.as_str().split_once(':').ok_or_else(wrong)?;
        let position: u64 = position.parse().map_err(|_| wrong())?;
        if !is_epoch(epoch) {
            return Err(wrong());
        }
        // Whoever has seen an empty log has missed nothing of this one.
        let unbegun = epoch == NO_EPOCH && position == 0;
        if unbegun || (Some(epoch) == self.epoch.as_deref() && position <= self.end()) {
            return Ok(position);
        }
        Err(Error::new(ErrorKind::Expired, "the cursor belongs to another log than the one that is here now")
            .help("start again from a message id or a time"))
    }

    /// The filter of a query.
    pub(super) fn filter(&self, query: Query) -> Result<Filter> {
        let since = match &query.since {
            Some(Since::Cursor(cursor)) => Some(self.position(cursor)?),
            _ => None,
        };
        Ok(Filter::new(query, &self.index, since))
    }
}
