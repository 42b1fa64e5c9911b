//! Changing the index. Whoever does this holds the project's lock.
//!
//! The order of writes is: new slots behind the committed ones, then rows and buckets, then the state that commits. A
//! process that is killed in between leaves a file that is longer than its state says, and the next holder of the lock
//! rebuilds. Nothing here is synced: after a power cut the index is rebuilt anyway.

use fmail_api::{ContentHash, MessageId, Result, Target};

use super::format::{self, Entry, Key, ROW_SLOTS, Row, STATE_AT, State, slot_offset};
use super::{Index, damaged};
use crate::files::layout;

/// A message that has just got its place on disk.
pub struct Arrival {
    /// Its id.
    pub id: MessageId,
    /// Its time, in nanoseconds since 1970.
    pub time: i64,
    /// Fingerprint of its sender.
    pub from: u64,
    /// Fingerprint of its thread, 0 without one.
    pub thread: u64,
    /// Hashes by which it is found again: its idempotency key, its origin.
    pub keys: Vec<ContentHash>,
    /// Above this id it counts as out of order: a planted file must not drag our ids into the future.
    pub latest: MessageId,
}

/// A series of changes under the lock.
pub struct Changes<'a> {
    index: &'a Index,
    /// The state as it is after the changes so far.
    pub state: State,
}

impl<'a> Changes<'a> {
    /// Begins, unless a process died in the middle of its changes.
    pub fn begin(index: &'a Index) -> Result<Self> {
        let state = index.state()?;
        if index.is_settled(&state)? { Ok(Changes { index, state }) } else { Err(damaged()) }
    }

    /// The row of a mailbox, made when it is missing.
    pub fn ensure_row(&mut self, target: &Target) -> Result<(u32, Row)> {
        if let Some(found) = self.index.find_row(&self.state, target)? {
            return Ok(found);
        }
        let (_, name, _) = layout::target_dir(target);
        let bucket = format::bucket_offset(format::ROW_BUCKETS_AT, format::row_bucket(target.is_direct(), name));
        let number = self.state.committed + 1;
        let mut row = Row::new(target.clone());
        row.next = self.index.bucket(bucket)?;
        row.previous_row = self.state.rows;
        self.write(&row.encode(), slot_offset(number))?;
        self.write(&format::encode_bucket(bucket, number), bucket)?;
        self.state.rows = number;
        self.state.committed += ROW_SLOTS;
        self.commit()?;
        Ok((number, row))
    }

    /// Announces messages, each with the positions of its mailboxes in `rows`. All become visible in one step.
    pub fn arrive(&mut self, arrivals: &[(Arrival, &[usize])], rows: &mut [(u32, Row)]) -> Result<()> {
        let first = self.state.committed + 1;
        let mut news = News { bytes: Vec::new(), end: self.state.committed, state: self.state, buckets: Vec::new() };
        for (arrival, mailboxes) in arrivals {
            let entry = news.end + 1;
            news.entries(arrival, mailboxes, rows);
            for hash in &arrival.keys {
                let bucket = format::bucket_offset(format::KEY_BUCKETS_AT, format::key_bucket(*hash));
                let next = match news.buckets.iter().rev().find(|(_, at)| *at == bucket) {
                    Some((number, _)) => *number,
                    None => self.index.bucket(bucket)?,
                };
                news.key(Key { hash: *hash, entry, next, time: arrival.time }, bucket);
            }
        }
        self.write(&news.bytes, slot_offset(first))?;
        let mut touched: Vec<usize> = arrivals.iter().flat_map(|(_, mailboxes)| mailboxes.iter().copied()).collect();
        touched.sort_unstable();
        touched.dedup();
        for (number, row) in touched.into_iter().map(|at| &rows[at]) {
            self.write(&row.encode(), slot_offset(*number))?;
        }
        for (number, bucket) in &news.buckets {
            self.write(&format::encode_bucket(*bucket, *number), *bucket)?;
        }
        self.state = State { committed: news.end, ..news.state };
        self.commit()
    }

    /// Writes a row in place.
    pub fn set_row(&mut self, number: u32, row: &Row) -> Result<()> {
        self.write(&row.encode(), slot_offset(number))
    }

    /// Says that entries are about to change in place, or no longer do.
    pub fn set_busy(&mut self, busy: bool) -> Result<()> {
        self.state.busy = busy;
        self.commit()
    }

    /// Marks an entry as removed.
    pub fn mark_removed(&mut self, number: u32, mut entry: Entry) -> Result<()> {
        entry.removed = true;
        self.state.removed += 1;
        self.write(&entry.encode(), slot_offset(number))
    }

    /// Makes the changes visible.
    pub fn commit(&mut self) -> Result<()> {
        self.write(&self.state.encode(), STATE_AT)
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.index.fs.write_at(&self.index.file, bytes, at).map_err(|error| self.index.failed(&error))
    }
}

/// Slots that are about to be written, and what changes with them.
struct News {
    bytes: Vec<u8>,
    /// The last slot so far.
    end: u32,
    state: State,
    /// Key buckets and what they will name.
    buckets: Vec<(u32, u64)>,
}

impl News {
    /// Adds the entries of one message.
    fn entries(&mut self, arrival: &Arrival, mailboxes: &[usize], rows: &mut [(u32, Row)]) {
        let state = &mut self.state;
        let regular = arrival.id.ticks() > state.high && arrival.id <= arrival.latest;
        for (part, at) in mailboxes.iter().enumerate() {
            let (row, mailbox) = &mut rows[*at];
            self.end += 1;
            let entry = Entry {
                id: arrival.id,
                time: arrival.time,
                row: *row,
                previous: mailbox.newest,
                from: arrival.from,
                thread: arrival.thread,
                previous_irregular: if regular { 0 } else { state.irregular },
                part: part as u8,
                parts: mailboxes.len() as u8,
                irregular: !regular,
                removed: false,
                keyed: !arrival.keys.is_empty(),
            };
            if !regular {
                state.irregular = self.end;
            }
            mailbox.newest = self.end;
            mailbox.live += 1;
            if arrival.id.ticks() >= mailbox.last_id {
                (mailbox.last_id, mailbox.last_time) = (arrival.id.ticks(), arrival.time);
            }
            self.bytes.extend_from_slice(&entry.encode());
        }
        if regular {
            state.high = arrival.id.ticks();
        } else {
            state.irregular_max = state.irregular_max.max(arrival.id.ticks());
        }
    }

    /// Adds a key, which its bucket will name.
    fn key(&mut self, key: Key, bucket: u64) {
        self.end += 1;
        self.bytes.extend_from_slice(&key.encode());
        self.buckets.push((self.end, bucket));
    }
}
