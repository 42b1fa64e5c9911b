//! Building an index from the names on disk.
//!
//! Only names are listed; a file is read when no earlier index knows it. After a restart of the machine that makes the
//! rebuild a listing, not a reading of every message.

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{Error, MessageId, Notice, NoticeKind, Reporter, Result, Target};

use super::format::{self, Entry, Header, Key, ROW_SLOTS, Row, SLOT, Slot, State, slot_offset};
use super::{Index, Slots};
use crate::files::SETTLED_AFTER;
use crate::files::fs::{Dir, Fs, if_there};
use crate::files::head::Head;
use crate::files::layout;
use crate::files::publish::MAX_AHEAD;
use crate::files::reader::unusable;

/// What is written at a time.
const BUFFER: usize = 256 * 1024;

/// Builds an index.
pub struct Rebuild<'a> {
    /// The file system.
    pub fs: &'a Arc<dyn Fs>,
    /// The project.
    pub top: &'a Dir,
    /// The boot that the index will belong to.
    pub boot: [u8; 16],
    /// Ids above this one are out of order.
    pub latest: MessageId,
    /// The time, in nanoseconds since 1970.
    pub now: u64,
    /// The position of the journal up to which everything is in the mailboxes.
    pub journal: u64,
    /// Where progress is reported.
    pub reporter: &'a Reporter,
}

/// One message file that was listed.
#[derive(Clone, Copy)]
struct Listed {
    id: MessageId,
    row: u32,
}

impl Rebuild<'_> {
    /// Lists everything, sorts it by id and writes the index to `file`. Returns its epoch.
    pub fn write_to(&self, file: &File) -> Result<u64> {
        let epoch = random_u64()?;
        let mut writer = Writer::new(self.fs, file);
        let mut rows: Vec<Row> = Vec::new();
        let mut listed: Vec<Listed> = Vec::new();
        let mut progress = Progress::new(self.reporter);
        for parent in [layout::TOPICS, layout::DIRECT] {
            self.list(parent, &mut rows, &mut listed, &mut progress)?;
        }
        progress.total = listed.len();
        for (number, row) in rows.iter_mut().enumerate() {
            // Rows come first, in one run, so that their slots are known before any entry is written.
            writer.reserve_row(row, number as u32);
        }
        let remains = Index::open_remains(self.fs, self.top).filter(|remains| self.is_trusted(remains));
        let this = Rebuild { latest: self.take_over_clock(remains.as_ref(), &mut writer.state), ..*self };
        let given = remains.as_ref().and_then(|(index, _)| index.state().ok()).map_or(0, |state| state.high);
        let mut known = Known::new(remains.as_ref().map(|(index, _)| index));
        let mut dirs: HashMap<u32, Dir> = HashMap::new();
        let mut keys: Vec<Key> = Vec::new();
        // What is in order first, then what is too far ahead; in place, since the list of a million is most of the memory.
        listed.sort_unstable_by_key(|item| (item.id > this.latest, item.id, item.row));
        for group in listed.chunk_by(|one, two| one.id == two.id) {
            progress.advance(group.len());
            this.place(group, &mut rows, &mut known, &mut dirs, &mut writer, &mut keys)?;
        }
        // An id that was given is not given again, also when a power cut took its message: this index is not synced, and the
        // earlier one may come back and tell of another message under that id.
        writer.state.high = writer.state.high.max(given);
        self.finish(&mut writer, &mut rows, &keys, epoch)?;
        progress.finish();
        Ok(epoch)
    }

    /// Whether what an earlier index says of an id can be believed: not when it is of another boot and its ids are so far
    /// ahead of the clock that they have to be given again.
    fn is_trusted(&self, (index, boot): &(Index, [u8; 16])) -> bool {
        let high = index.state().map_or(0, |state| state.high);
        *boot == self.boot || high <= self.latest.ticks() + MAX_AHEAD / 2
    }

    /// The id clock of this boot goes on, and what was in order stays so: after the time of day was stepped back, our own
    /// ids may lie far ahead of it. Returns the highest id that counts as in order.
    fn take_over_clock(&self, remains: Option<&(Index, [u8; 16])>, state: &mut State) -> MessageId {
        let earlier = remains.filter(|(_, boot)| *boot == self.boot).and_then(|(index, _)| index.state().ok());
        let Some(earlier) = earlier else { return self.latest };
        (state.clock_boot, state.clock_ticks) = (earlier.clock_boot, earlier.clock_ticks);
        self.latest.max(MessageId::from_ticks(earlier.high).unwrap_or(MessageId::MIN))
    }

    fn list(
        &self,
        parent: &str,
        rows: &mut Vec<Row>,
        listed: &mut Vec<Listed>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let dir = match self.fs.open_dir(self.top, parent) {
            Ok(dir) => dir,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // Another user reads the topics; the direct messages are not for them.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && parent == layout::DIRECT => return Ok(()),
            Err(error) => return Err(unusable(parent, &error)),
        };
        let mut targets = Vec::new();
        let listing = self.fs.list(&dir, &mut |name, _| {
            targets.extend(layout::target_of(parent, name));
            true
        });
        listing.map_err(|error| Error::io(format!(".fmail/{parent} cannot be listed"), &error))?;
        targets.sort_unstable();
        for target in targets {
            let (_, name, _) = layout::target_dir(&target);
            // A symlink, a file, or a directory of another user: not ours to index.
            let failed = |error| Error::io(format!(".fmail/{parent}/{name} cannot be listed"), &error);
            let Some(mailbox) = if_there(self.fs.open_dir(&dir, name)).map_err(failed)? else { continue };
            let mut row = Row::new(target.clone());
            row.stamp = self.fs.stat_dir(&mailbox).map_or(0, |stat| stat.modified);
            let number = rows.len() as u32;
            let listing = self.fs.list(&mailbox, &mut |name, _| {
                listed.extend(layout::id_of(name).map(|id| Listed { id, row: number }));
                progress.listed(listed.len());
                true
            });
            listing.map_err(failed)?;
            row.recheck = u64::from(row.stamp + SETTLED_AFTER > self.now);
            rows.push(row);
        }
        Ok(())
    }

    /// Writes the entries of all files with one id: one message in several mailboxes, or several messages that another
    /// implementation gave the same id.
    fn place(
        &self,
        group: &[Listed],
        rows: &mut [Row],
        known: &mut Known<'_>,
        dirs: &mut HashMap<u32, Dir>,
        writer: &mut Writer<'_>,
        keys: &mut Vec<Key>,
    ) -> Result<()> {
        let mut rest: Vec<Listed> = group.to_vec();
        let mut first_of_id = true;
        while let Some(item) = rest.first().copied() {
            let target = rows[item.row as usize].target.clone();
            let known_head = if group.len() == 1 { known.head(item.id, &target) } else { None };
            let head = match known_head {
                Some(head) => head,
                None => match self.read_head(item, &target, dirs) {
                    Ok(head) => head,
                    Err(error) if error.kind() == fmail_api::ErrorKind::Unavailable => return Err(error),
                    Err(_) => {
                        rows[item.row as usize].unsettled = true;
                        // What is not known of it yet, its id is: its file is named by it, and nobody may get it again.
                        if item.id <= self.latest {
                            writer.state.high = writer.state.high.max(item.id.ticks());
                        }
                        rest.remove(0);
                        continue;
                    }
                },
            };
            let shared: Vec<Listed> = rest
                .iter()
                .filter(|other| other.row == item.row || head.targets.contains(&rows[other.row as usize].target))
                .copied()
                .take(u8::MAX.into())
                .collect();
            rest.retain(|other| !shared.iter().any(|taken| taken.row == other.row));
            let regular = first_of_id && item.id <= self.latest;
            first_of_id = false;
            let first = writer.entries(&head, item.id, regular, &shared, rows)?;
            keys.extend(head.keys.iter().map(|hash| Key { hash: *hash, entry: first, next: 0, time: head.time }));
        }
        Ok(())
    }

    fn read_head(&self, item: Listed, target: &Target, dirs: &mut HashMap<u32, Dir>) -> Result<Head> {
        // Handles are kept for few mailboxes only: with thousands of topics they would exhaust the limit.
        if dirs.len() > 64 {
            dirs.clear();
        }
        let dir = match dirs.entry(item.row) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let (parent, name, _) = layout::target_dir(target);
                let failed = |error| Error::io(format!(".fmail/{parent}/{name} cannot be opened"), &error);
                let parent = self.fs.open_dir(self.top, parent).map_err(failed)?;
                entry.insert(self.fs.open_dir(&parent, name).map_err(failed)?)
            }
        };
        Head::read(self.fs.as_ref(), dir, target, item.id)
    }

    fn finish(&self, writer: &mut Writer<'_>, rows: &mut [Row], keys: &[Key], epoch: u64) -> Result<()> {
        let mut row_buckets = vec![0_u32; format::BUCKETS as usize];
        for (number, row) in rows.iter_mut().enumerate() {
            let slot = row_slot(number as u32);
            let (_, name, _) = layout::target_dir(&row.target);
            let bucket = &mut row_buckets[format::row_bucket(row.target.is_direct(), name) as usize];
            row.next = std::mem::replace(bucket, slot);
        }
        let mut key_buckets = vec![0_u32; format::BUCKETS as usize];
        for key in keys {
            let bucket = &mut key_buckets[format::key_bucket(key.hash) as usize];
            let number = writer.next;
            let next = std::mem::replace(bucket, number);
            writer.push(&Key { next, ..*key }.encode())?;
        }
        writer.flush()?;
        for (number, row) in rows.iter().enumerate() {
            writer.write(&row.encode(), slot_offset(row_slot(number as u32)))?;
        }
        for (table, buckets) in [(format::ROW_BUCKETS_AT, &row_buckets), (format::KEY_BUCKETS_AT, &key_buckets)] {
            let encode = |(number, slot): (usize, &u32)| {
                format::encode_bucket(format::bucket_offset(table, number as u32), *slot)
            };
            let bytes: Vec<u8> = buckets.iter().enumerate().flat_map(encode).collect();
            writer.write(&bytes, table)?;
        }
        writer.state.journal = self.journal;
        writer.state.committed = writer.next - 1;
        writer.state.rows = rows.len().checked_sub(1).map_or(0, |last| row_slot(last as u32));
        writer.write(&writer.state.encode(), format::STATE_AT)?;
        let inode = self.fs.stat_file(writer.file).map_err(|error| Error::io(".fmail/index", &error))?.inode;
        let header = Header { epoch, boot: self.boot, layout: fmail_api::FORMAT_VERSION, inode };
        writer.write(&header.encode(), 0)
    }
}

/// The slot of the row with this position: rows come first in a rebuilt index.
fn row_slot(number: u32) -> u32 {
    number * ROW_SLOTS + 1
}

/// Writes slots in large pieces.
struct Writer<'a> {
    fs: &'a Arc<dyn Fs>,
    file: &'a File,
    buffer: Vec<u8>,
    /// The slot behind everything written or buffered.
    next: u32,
    state: State,
}

impl<'a> Writer<'a> {
    fn new(fs: &'a Arc<dyn Fs>, file: &'a File) -> Self {
        Writer { fs, file, buffer: Vec::with_capacity(BUFFER), next: 1, state: State::default() }
    }

    fn reserve_row(&mut self, row: &mut Row, number: u32) {
        row.previous_row = number.checked_sub(1).map_or(0, row_slot);
        self.next += ROW_SLOTS;
    }

    /// Writes one message's entries and returns the first slot.
    fn entries(
        &mut self,
        head: &Head,
        id: MessageId,
        regular: bool,
        places: &[Listed],
        rows: &mut [Row],
    ) -> Result<u32> {
        let first = self.next;
        for (part, place) in places.iter().enumerate() {
            let number = self.next;
            let row = &mut rows[place.row as usize];
            let entry = Entry {
                id,
                time: head.time,
                row: row_slot(place.row),
                previous: row.newest,
                from: head.from,
                thread: head.thread,
                previous_irregular: if regular { 0 } else { self.state.irregular },
                part: part as u8,
                parts: places.len() as u8,
                irregular: !regular,
                removed: false,
                keyed: !head.keys.is_empty(),
            };
            row.newest = number;
            row.live += 1;
            if id.ticks() >= row.last_id {
                (row.last_id, row.last_time) = (id.ticks(), head.time);
            }
            if !regular {
                self.state.irregular = number;
            }
            self.push(&entry.encode())?;
        }
        if regular {
            self.state.high = id.ticks();
        } else {
            self.state.irregular_max = self.state.irregular_max.max(id.ticks());
        }
        Ok(first)
    }

    fn push(&mut self, slot: &[u8; 64]) -> Result<()> {
        self.buffer.extend_from_slice(slot);
        self.next += 1;
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let count = (self.buffer.len() as u64 / SLOT) as u32;
        if count > 0 {
            self.write(&self.buffer, slot_offset(self.next - count))?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        let written = self.fs.write_at(self.file, bytes, at);
        written.map_err(|error| Error::io("the index .fmail/index cannot be written", &error))
    }
}

/// What an earlier index still knows of messages, read in step with a sorted list of ids.
struct Known<'a> {
    slots: Option<Slots<'a>>,
    targets: HashMap<u32, Target>,
    position: u32,
    end: u32,
}

impl<'a> Known<'a> {
    fn new(index: Option<&'a Index>) -> Self {
        let state = index.and_then(|index| index.state().ok()).unwrap_or_default();
        let rows = index.and_then(|index| index.rows(&state).ok()).unwrap_or_default();
        Known {
            slots: index.map(|index| index.sweep(&state)),
            targets: rows.into_iter().map(|(number, row)| (number, row.target)).collect(),
            position: 1,
            end: state.committed,
        }
    }

    /// What is known of the message `id` in `target`. Ids have to be asked for in ascending order. A message with a key
    /// is not answered: its entry does not hold the key, so that its file has to be read.
    fn head(&mut self, id: MessageId, target: &Target) -> Option<Head> {
        let slots = self.slots.as_mut()?;
        while self.position <= self.end {
            // A slot that is damaged knows nothing; those behind it do.
            if let Ok(Slot::Entry(entry)) = slots.get(self.position) {
                if !entry.irregular && entry.id > id {
                    return None;
                }
                let same = !entry.irregular && !entry.removed && entry.id == id && entry.parts == 1;
                if same && self.targets.get(&entry.row) == Some(target) {
                    return (!entry.keyed).then(|| Head::known(&entry, target.clone()));
                }
            }
            self.position += 1;
        }
        None
    }
}

/// How often a rebuild tells how far it is, and after which time it begins to.
const EVERY: Duration = Duration::from_secs(1);

/// Tells how far a rebuild is, once it takes longer than a second.
struct Progress<'a> {
    reporter: &'a Reporter,
    total: usize,
    done: usize,
    started: Instant,
    next: Duration,
    shown: bool,
}

impl<'a> Progress<'a> {
    fn new(reporter: &'a Reporter) -> Self {
        Progress { reporter, total: 0, done: 0, started: Instant::now(), next: EVERY, shown: false }
    }

    /// So many names have been listed; how many there are is not known yet.
    fn listed(&mut self, names: usize) {
        if names.is_multiple_of(512) && self.is_due() {
            self.tell(format!("rebuilding the index: {names} messages found so far"));
        }
    }

    /// So many more messages have been placed.
    fn advance(&mut self, by: usize) {
        self.done += by;
        if self.done % 512 < by && self.is_due() {
            self.tell(format!("rebuilding the index: {} of {} messages", self.done, self.total));
        }
    }

    fn is_due(&self) -> bool {
        self.started.elapsed() >= self.next
    }

    fn tell(&mut self, text: String) {
        // From now on, and not from when this was due: a step that took long is told once.
        self.next = self.started.elapsed() + EVERY;
        self.shown = true;
        (self.reporter)(Notice::new(NoticeKind::Progress, text));
    }

    fn finish(&self) {
        if self.shown {
            let text =
                format!("index rebuilt: {} messages in {:.1} s", self.total, self.started.elapsed().as_secs_f64());
            (self.reporter)(Notice::new(NoticeKind::Progress, text));
        }
    }
}

pub fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::io("no random number", &error.into()))?;
    // 0 stands for "no index yet" in cursors.
    Ok(u64::from_le_bytes(bytes).max(1))
}
