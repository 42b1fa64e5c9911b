//! Reading the index: by slot, by mailbox, by id.

use std::collections::BTreeSet;
use std::ops::Range;

use fmail_api::{ContentHash, MessageId, Result, Target};

use super::format::{self, Entry, Key, ROW_SLOTS, Row, SLOT, Slot, State, slot_offset};
use super::{Index, damaged};
use crate::files::layout;

/// How many slots are read at a time: a page for chains, more for whole scans.
const CHAIN_BLOCK: u32 = 64;
const SCAN_BLOCK: u32 = 1024;

/// Reads slots in blocks, and keeps the last block.
pub struct Slots<'a> {
    index: &'a Index,
    end: u32,
    size: u32,
    first: u32,
    block: Vec<u8>,
}

impl<'a> Slots<'a> {
    fn new(index: &'a Index, state: &State, size: u32) -> Self {
        Slots { index, end: state.committed, size, first: 0, block: Vec::new() }
    }

    /// What slot `number` holds.
    pub fn get(&mut self, number: u32) -> Result<Slot> {
        if number == 0 || number > self.end {
            return Err(damaged());
        }
        let held = (self.block.len() as u64 / SLOT) as u32;
        if self.first == 0 || number < self.first || number >= self.first + held {
            self.load(number)?;
        }
        // An entry may be marked as removed while it is read; the next look is whole.
        for _ in 0..100 {
            let slot = self.decode(number)?;
            if slot != Slot::Damaged {
                return Ok(slot);
            }
            std::thread::yield_now();
            self.load(number)?;
        }
        Err(damaged())
    }

    fn decode(&self, number: u32) -> Result<Slot> {
        let at = ((number - self.first) as usize) * SLOT as usize;
        Ok(Slot::decode(self.block.get(at..at + SLOT as usize).ok_or_else(damaged)?))
    }

    /// The entry in slot `number`; anything else there is damage.
    pub fn entry(&mut self, number: u32) -> Result<Entry> {
        match self.get(number)? {
            Slot::Entry(entry) => Ok(entry),
            _ => Err(damaged()),
        }
    }

    /// Whether slot `number` was committed when the reader was made.
    pub fn holds(&self, number: u32) -> bool {
        number <= self.end
    }

    /// The entry in slot `number`, also when a writer has just chained it and not yet committed it.
    pub fn entry_even_uncommitted(&mut self, number: u32) -> Result<Entry> {
        if self.holds(number) {
            return self.entry(number);
        }
        let mut bytes = [0; SLOT as usize];
        let read = self.index.fs.read_at(&self.index.file, &mut bytes, slot_offset(number));
        match (read.map_err(|error| self.index.failed(&error))?, Slot::decode(&bytes)) {
            (64, Slot::Entry(entry)) => Ok(entry),
            _ => Err(damaged()),
        }
    }

    fn load(&mut self, number: u32) -> Result<()> {
        let first = (number - 1) / self.size * self.size + 1;
        let count = self.size.min(self.end - first + 1);
        self.block.resize(count as usize * SLOT as usize, 0);
        let read = self.index.fs.read_at(&self.index.file, &mut self.block, slot_offset(first));
        let read = read.map_err(|error| self.index.failed(&error))?;
        self.block.truncate(read);
        self.first = first;
        Ok(())
    }
}

impl Index {
    /// A reader for jumping about.
    pub fn chain(&self, state: &State) -> Slots<'_> {
        Slots::new(self, state, CHAIN_BLOCK)
    }

    /// A reader for going over many slots in turn.
    pub fn sweep(&self, state: &State) -> Slots<'_> {
        Slots::new(self, state, SCAN_BLOCK)
    }

    /// The last slot of the message that slot `number` belongs to, or `number` itself. A cursor that was given with one of a
    /// message's mailboxes, or with all of them, stands behind the message in each: otherwise whoever goes on in another one
    /// would see it again.
    pub fn last_part(&self, state: &State, number: u32) -> Result<u32> {
        if number == 0 {
            return Ok(0);
        }
        match self.chain(state).get(number)? {
            Slot::Entry(entry) => Ok(number + u32::from(entry.parts.saturating_sub(entry.part + 1))),
            _ => Ok(number),
        }
    }

    /// The row in slot `number`.
    pub fn row(&self, number: u32) -> Result<Row> {
        for _ in 0..1_000 {
            let mut bytes = [0; 192];
            let read = self.fs.read_at(&self.file, &mut bytes, slot_offset(number.max(1)));
            if read.map_err(|error| self.failed(&error))? != bytes.len() {
                break;
            }
            if let Some(row) = Row::decode(&bytes) {
                return Ok(row);
            }
            std::thread::yield_now();
        }
        Err(damaged())
    }

    /// The row of a mailbox, if it has one.
    pub fn find_row(&self, state: &State, target: &Target) -> Result<Option<(u32, Row)>> {
        let (_, name, _) = layout::target_dir(target);
        let mut number =
            self.bucket(format::bucket_offset(format::ROW_BUCKETS_AT, format::row_bucket(target.is_direct(), name)))?;
        // A bucket may already name a row that is not committed yet; its own chain leads back to those that are.
        while number != 0 {
            let row = self.row(number)?;
            if row.target == *target {
                return Ok((number + ROW_SLOTS - 1 <= state.committed).then_some((number, row)));
            }
            number = row.next;
        }
        Ok(None)
    }

    /// Every row, the newest mailbox first.
    pub fn rows(&self, state: &State) -> Result<Vec<(u32, Row)>> {
        let mut rows = Vec::new();
        let mut number = state.rows;
        while number != 0 {
            let row = self.row(number)?;
            let next = row.previous_row;
            rows.push((number, row));
            number = if next < number { next } else { return Err(damaged()) };
        }
        Ok(rows)
    }

    /// The newest use of an idempotency key.
    pub fn find_key(&self, state: &State, hash: ContentHash) -> Result<Option<Key>> {
        let mut number = self.bucket(format::bucket_offset(format::KEY_BUCKETS_AT, format::key_bucket(hash)))?;
        let mut slots = self.chain(state);
        while number != 0 {
            match slots.get(number)? {
                Slot::Key(key) if key.hash == hash => return Ok(Some(key)),
                Slot::Key(key) => number = key.next,
                _ => return Err(damaged()),
            }
        }
        Ok(None)
    }

    /// The slot that the bucket at an offset names.
    pub(super) fn bucket(&self, at: u64) -> Result<u32> {
        for _ in 0..1_000 {
            let mut bytes = [0; 8];
            let read = self.fs.read_at(&self.file, &mut bytes, at).map_err(|error| self.failed(&error))?;
            if read != bytes.len() {
                break;
            }
            if let Some(slot) = format::decode_bucket(at, &bytes) {
                return Ok(slot);
            }
            std::thread::yield_now();
        }
        Err(damaged())
    }

    /// The entries that are out of order, the newest arrival first, with their slots.
    pub fn irregular(&self, state: &State) -> Result<Vec<(u32, Entry)>> {
        let mut slots = self.chain(state);
        let mut found = Vec::new();
        let mut number = state.irregular;
        while number != 0 {
            let entry = slots.entry(number)?;
            found.push((number, entry));
            let next = entry.previous_irregular;
            number = if next < number { next } else { return Err(damaged()) };
        }
        Ok(found)
    }

    /// The first slot at or behind `from` that begins a message in order, if there is one before `end`.
    fn next_regular(slots: &mut Slots<'_>, from: u32, end: u32) -> Result<Option<(u32, Entry)>> {
        for number in from..end {
            match slots.get(number)? {
                Slot::Entry(entry) if !entry.irregular && entry.part == 0 => return Ok(Some((number, entry))),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The first slot whose message is in order and has an id of at least `id`; one past the end when none has.
    pub fn first_at_least(&self, state: &State, id: MessageId) -> Result<u32> {
        Self::halve(&mut self.chain(state), (1, state.committed + 1), state.committed + 1, id)
    }

    /// The same between two slots: everything in order before the first is below `id`, everything from the second on is
    /// not.
    fn halve(slots: &mut Slots<'_>, (mut low, mut high): (u32, u32), end: u32, id: MessageId) -> Result<u32> {
        while low < high {
            let middle = low + (high - low) / 2;
            match Self::next_regular(slots, middle, high)? {
                Some((number, entry)) if entry.id < id => low = number + 1,
                _ => high = middle,
            }
        }
        Ok(Self::next_regular(slots, low, end)?.map_or(end, |(number, _)| number))
    }

    /// The places in order of messages with these ids, removed ones apart. Ids in order stand in order: each is looked
    /// for behind the one before, near it first, so that many that stand together cost little more than reading them.
    pub fn find_all(&self, state: &State, ids: &BTreeSet<MessageId>) -> Result<Vec<(u32, Entry)>> {
        let (mut slots, end) = (self.chain(state), state.committed + 1);
        let (mut found, mut low) = (Vec::new(), 1);
        for id in ids {
            let (mut high, mut step) = (low, 1_u32);
            while let Some((number, _)) = Self::next_regular(&mut slots, high, end)?.filter(|(_, entry)| entry.id < *id)
            {
                low = number + 1;
                high = low.saturating_add(step).min(end);
                step = step.saturating_mul(2);
            }
            low = Self::halve(&mut slots, (low, high), end, *id)?;
            Self::collect(&mut slots, low..end, *id, &mut found)?;
        }
        found.retain(|(_, entry)| !entry.removed);
        Ok(found)
    }

    /// Adds the entries in order of one message, which follow each other from the beginning of `range` on.
    fn collect(slots: &mut Slots<'_>, range: Range<u32>, id: MessageId, found: &mut Vec<(u32, Entry)>) -> Result<()> {
        for number in range {
            match slots.get(number)? {
                Slot::Entry(entry) if entry.irregular => {}
                Slot::Entry(entry) if entry.id == id => found.push((number, entry)),
                Slot::Entry(_) => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// Every place where a message with this id stands, removed ones apart.
    pub fn find(&self, state: &State, id: MessageId) -> Result<Vec<(u32, Entry)>> {
        let mut found = Vec::new();
        // What is in order goes up to `high`. Most who import ask for a newer id, and need not search at all.
        if id.ticks() <= state.high {
            let start = self.first_at_least(state, id)?;
            Self::collect(&mut self.chain(state), start..state.committed + 1, id, &mut found)?;
        }
        let mut slots = self.chain(state);
        for number in self.strays(state, id)? {
            found.push((number, slots.entry(number)?));
        }
        found.retain(|(_, entry)| !entry.removed);
        Ok(found)
    }
}
