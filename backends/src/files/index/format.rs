//! The bytes of the arrival index.
//!
//! ```text
//! page 0      header: magic, versions, epoch, boot id        (written once)
//!             state: how much is committed, counters         (rewritten in place)
//! page 1, 2   buckets: mailbox name -> newest row            (1,024 slot numbers)
//! page 3, 4   buckets: idempotency key -> newest key slot    (1,024 slot numbers)
//! page 5 …    slots of 64 bytes, numbered from 1, only ever appended
//! ```
//!
//! A slot is an entry (one message in one mailbox), a third of a row (one mailbox, changed in place), or a key. Entries
//! of one mailbox are chained backwards, so that the newest of any mailbox are found without reading the others.
//! Everything has a checksum; whatever does not fit leads to a rebuild, never to a guess.

use fmail_api::{ContentHash, MessageId, Target};

use crate::files::layout;

pub const MAGIC: [u8; 8] = *b"FMAILIX1";
pub const VERSION: u32 = 3;
pub const SLOT: u64 = 64;
pub const STATE_AT: u64 = 64;
pub const ROW_BUCKETS_AT: u64 = 4096;
pub const KEY_BUCKETS_AT: u64 = 12288;
pub const SLOTS_AT: u64 = 20480;
pub const BUCKETS: u32 = 1024;
const BUCKET: u64 = 8;
/// A row takes this many slots.
pub const ROW_SLOTS: u32 = 3;

const KIND_ENTRY: u8 = 1;
const KIND_ROW: u8 = 2;
const KIND_KEY: u8 = 3;
const KIND_ROW_REST: u8 = 9;
const NAME_PART: usize = 56;
/// The first slot of a row ends with this and the others begin with that: a row changes in place, so that one of its
/// slots alone has no checksum, and a damaged entry must not pass for one.
const ROW_END: [u8; 8] = *b"mailbox.";
const REST_START: [u8; 8] = [0, 0, 0, 0, KIND_ROW_REST, 0, 0, 0];

/// Where a slot stands in the file.
pub fn slot_offset(slot: u32) -> u64 {
    SLOTS_AT + u64::from(slot - 1) * SLOT
}

/// A 64-bit FNV-1a hash, for comparing senders and threads without opening a file.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where a bucket stands in the file.
pub fn bucket_offset(table: u64, bucket: u32) -> u64 {
    table + u64::from(bucket) * BUCKET
}

/// The bytes of the bucket at an offset: the slot that it names, and a checksum.
pub fn encode_bucket(at: u64, slot: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&slot.to_le_bytes());
    bytes[4..].copy_from_slice(&bucket_seal(at, slot).to_le_bytes());
    bytes
}

/// The slot that the bucket at an offset names, 0 for none; nothing when it is damaged.
pub fn decode_bucket(at: u64, bytes: &[u8; 8]) -> Option<u32> {
    let slot = u32_at(bytes, 0);
    (u32_at(bytes, 4) == bucket_seal(at, slot)).then_some(slot)
}

fn bucket_seal(at: u64, slot: u32) -> u32 {
    let mut bytes = [0; 24];
    Writer(&mut bytes, 8).u64(at).u64(slot.into());
    checksum(&bytes)
}

/// The bucket of a mailbox.
pub fn row_bucket(direct: bool, name: &str) -> u32 {
    let hash = fingerprint(name) ^ u64::from(direct);
    (hash % u64::from(BUCKETS)) as u32
}

/// The bucket of an idempotency key.
pub fn key_bucket(key: ContentHash) -> u32 {
    (key.short() % u64::from(BUCKETS)) as u32
}

/// What identifies an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Changes whenever slot numbers change their meaning.
    pub epoch: u64,
    /// The boot in which it was written: what was not synced before another boot may be gone.
    pub boot: [u8; 16],
    /// The layout of the message files.
    pub layout: u32,
    /// The file that it was written to. A copy, such as a backup brings back or `cp -r` makes, is another file: it may
    /// be older than the messages beside it.
    pub inode: u64,
}

/// What changes with every append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// Slots that readers may use.
    pub committed: u32,
    /// The newest row.
    pub rows: u32,
    /// The highest id among the entries that are in order; the next one allocated is above it.
    pub high: u64,
    /// Time since boot, in ticks, when the id clock was last read.
    pub clock_boot: u64,
    /// What the id clock said then.
    pub clock_ticks: u64,
    /// The newest entry that is out of order.
    pub irregular: u32,
    /// Set while entries are changed in place; found set, the index is rebuilt.
    pub busy: bool,
    /// The highest id among the entries that are out of order.
    pub irregular_max: u64,
    /// Entries whose message was removed.
    pub removed: u32,
    /// Up to which position of the journal everything is linked and told here; 0 without a journal.
    pub journal: u64,
}

/// One message in one mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The message's id.
    pub id: MessageId,
    /// The message's time, in nanoseconds since 1970.
    pub time: i64,
    /// The slot of its mailbox's row.
    pub row: u32,
    /// The entry before it in the same mailbox.
    pub previous: u32,
    /// Fingerprint of the sender.
    pub from: u64,
    /// Fingerprint of the thread, 0 without one.
    pub thread: u64,
    /// The entry out of order before this one, when this one is.
    pub previous_irregular: u32,
    /// Which of the message's mailboxes this is.
    pub part: u8,
    /// How many mailboxes the message has; their entries follow each other.
    pub parts: u8,
    /// Its id is not above all earlier ones, or lies too far ahead.
    pub irregular: bool,
    /// Its file is gone.
    pub removed: bool,
    /// It has keys: what an index knows of it without its key slots is not all.
    pub keyed: bool,
}

/// One mailbox: a topic or an agent's direct messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The mailbox.
    pub target: Target,
    /// The row before it in the same bucket.
    pub next: u32,
    /// The row made before this one.
    pub previous_row: u32,
    /// Its newest entry.
    pub newest: u32,
    /// Messages in it that are not removed.
    pub live: u32,
    /// The highest id in it.
    pub last_id: u64,
    /// That message's time.
    pub last_time: i64,
    /// The directory's modification time when the index was last in step with it; 0 asks for a listing.
    pub stamp: u64,
    /// When to list the directory all the same, in nanoseconds since 1970; 0 for never. Our own writes move the
    /// directory's time too, and could hide a foreign file that came within the same instant.
    pub recheck: u64,
    /// Holds files that could not be understood (yet).
    pub unsettled: bool,
}

/// An idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its hash.
    pub hash: ContentHash,
    /// The message's first entry.
    pub entry: u32,
    /// The key before it in the same bucket.
    pub next: u32,
    /// When it was used, in nanoseconds since 1970.
    pub time: i64,
}

/// What a slot holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Slot {
    Entry(Entry),
    Key(Key),
    /// The first slot of a row; read it with [`Row::decode`].
    RowStart,
    /// The rest of a row.
    RowRest,
    /// The checksum or the kind is wrong.
    Damaged,
}

struct Writer<'a>(&'a mut [u8], usize);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        self
    }
    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
    fn i64(&mut self, value: i64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Puts the checksum of everything behind the first four bytes into them.
fn seal(bytes: &mut [u8]) {
    let sum = checksum(bytes);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

fn sealed(bytes: &[u8]) -> bool {
    checksum(bytes) == u32_at(bytes, 0)
}

/// A checksum of everything behind the first four bytes, eight at a time.
///
/// Against torn writes and flipped bits, not against people. A hardware CRC would be no faster on so few bytes, and
/// finding out whether there is one costs a short-lived process more than all its checksums.
fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(8).enumerate().map(|(at, chunk)| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word) & if at == 0 { !0xffff_ffff } else { !0 }
    });
    let mixed = words.fold(0x9e37_79b9_7f4a_7c15_u64, |hash, word| {
        let hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^ hash >> 32
    });
    (mixed.wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 32) as u32
}

impl Header {
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        Writer(&mut bytes, 4).u32(VERSION).put(&MAGIC).u64(self.epoch).put(&self.boot).u32(self.layout).u64(self.inode);
        seal(&mut bytes);
        bytes
    }

    /// The header, or nothing when these bytes are not one of this version.
    pub fn decode(bytes: &[u8; 64]) -> Option<Self> {
        if !sealed(bytes) || u32_at(bytes, 4) != VERSION || bytes[8..16] != MAGIC {
            return None;
        }
        let mut boot = [0; 16];
        boot.copy_from_slice(&bytes[24..40]);
        Some(Header { epoch: u64_at(bytes, 16), boot, layout: u32_at(bytes, 40), inode: u64_at(bytes, 44) })
    }
}

impl State {
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        Writer(&mut bytes, 4)
            .u32(self.committed)
            .u64(self.high)
            .u64(self.clock_boot)
            .u64(self.clock_ticks)
            .u64(self.irregular_max)
            .u32(self.rows)
            .u32(self.irregular)
            .u32(self.removed)
            .u32(u32::from(self.busy))
            .u64(self.journal);
        seal(&mut bytes);
        bytes
    }

    pub fn decode(bytes: &[u8; 64]) -> Option<Self> {
        sealed(bytes).then(|| State {
            committed: u32_at(bytes, 4),
            high: u64_at(bytes, 8),
            clock_boot: u64_at(bytes, 16),
            clock_ticks: u64_at(bytes, 24),
            irregular_max: u64_at(bytes, 32),
            rows: u32_at(bytes, 40),
            irregular: u32_at(bytes, 44),
            removed: u32_at(bytes, 48),
            busy: u32_at(bytes, 52) != 0,
            journal: u64_at(bytes, 56),
        })
    }
}

impl Entry {
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        let flags = u8::from(self.irregular) | u8::from(self.removed) << 1 | u8::from(self.keyed) << 2;
        Writer(&mut bytes, 4)
            .put(&[KIND_ENTRY, flags, self.part, self.parts])
            .u64(self.id.ticks())
            .i64(self.time)
            .u32(self.row)
            .u32(self.previous)
            .u64(self.from)
            .u64(self.thread)
            .u32(self.previous_irregular);
        seal(&mut bytes);
        bytes
    }
}

impl Key {
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        Writer(&mut bytes, 4)
            .put(&[KIND_KEY, 0, 0, 0])
            .put(self.hash.as_bytes())
            .u32(self.entry)
            .u32(self.next)
            .i64(self.time);
        seal(&mut bytes);
        bytes
    }
}

impl Slot {
    /// What these 64 bytes hold.
    pub fn decode(bytes: &[u8]) -> Slot {
        match bytes[4] {
            KIND_ROW if bytes[56..64] == ROW_END => return Slot::RowStart,
            KIND_ROW_REST if bytes[..8] == REST_START => return Slot::RowRest,
            _ if !sealed(&bytes[..64]) => return Slot::Damaged,
            _ => {}
        }
        match bytes[4] {
            KIND_ENTRY => MessageId::from_ticks(u64_at(bytes, 8)).map_or(Slot::Damaged, |id| {
                Slot::Entry(Entry {
                    id,
                    time: u64_at(bytes, 16) as i64,
                    row: u32_at(bytes, 24),
                    previous: u32_at(bytes, 28),
                    from: u64_at(bytes, 32),
                    thread: u64_at(bytes, 40),
                    previous_irregular: u32_at(bytes, 48),
                    part: bytes[6],
                    parts: bytes[7],
                    irregular: bytes[5] & 1 != 0,
                    removed: bytes[5] & 2 != 0,
                    keyed: bytes[5] & 4 != 0,
                })
            }),
            KIND_KEY => {
                let mut hash = [0; 16];
                hash.copy_from_slice(&bytes[8..24]);
                Slot::Key(Key {
                    hash: ContentHash::from_bytes(hash),
                    entry: u32_at(bytes, 24),
                    next: u32_at(bytes, 28),
                    time: u64_at(bytes, 32) as i64,
                })
            }
            _ => Slot::Damaged,
        }
    }
}

impl Row {
    /// A row for a mailbox that has none.
    pub fn new(target: Target) -> Self {
        Row {
            target,
            next: 0,
            previous_row: 0,
            newest: 0,
            live: 0,
            last_id: 0,
            last_time: 0,
            stamp: 0,
            recheck: 0,
            unsettled: false,
        }
    }

    pub fn encode(&self) -> [u8; 192] {
        let mut bytes = [0; 192];
        let (_, name, _) = layout::target_dir(&self.target);
        let name = name.as_bytes();
        let direct = u8::from(self.target.is_direct());
        Writer(&mut bytes, 4)
            .put(&[KIND_ROW, direct, name.len() as u8, u8::from(self.unsettled)])
            .u32(self.next)
            .u32(self.previous_row)
            .u32(self.newest)
            .u32(self.live)
            .u64(self.last_id)
            .i64(self.last_time)
            .u64(self.stamp)
            .u64(self.recheck)
            .put(&ROW_END);
        for (part, chunk) in name.chunks(NAME_PART).enumerate() {
            let at = 64 * (part + 1);
            bytes[at + 8..at + 8 + chunk.len()].copy_from_slice(chunk);
        }
        bytes[64..72].copy_from_slice(&REST_START);
        bytes[128..136].copy_from_slice(&REST_START);
        seal(&mut bytes);
        bytes
    }

    pub fn decode(bytes: &[u8; 192]) -> Option<Self> {
        let length = bytes[6] as usize;
        if bytes[4] != KIND_ROW || length > 2 * NAME_PART || !sealed(bytes) {
            return None;
        }
        let first = length.min(NAME_PART);
        let mut name = bytes[72..72 + first].to_vec();
        name.extend_from_slice(&bytes[136..136 + length - first]);
        let name = String::from_utf8(name).ok()?;
        let parent = if bytes[5] != 0 { layout::DIRECT } else { layout::TOPICS };
        Some(Row {
            target: layout::target_of(parent, &name)?,
            next: u32_at(bytes, 8),
            previous_row: u32_at(bytes, 12),
            newest: u32_at(bytes, 16),
            live: u32_at(bytes, 20),
            last_id: u64_at(bytes, 24),
            last_time: u64_at(bytes, 32) as i64,
            stamp: u64_at(bytes, 40),
            recheck: u64_at(bytes, 48),
            unsettled: bytes[7] != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_reads_back_as_it_was_written() {
        let header = Header { epoch: 7, boot: [3; 16], layout: 1, inode: 9 };
        assert_eq!(Header::decode(&header.encode()), Some(header));
        let state = State {
            committed: 1,
            rows: 2,
            high: 3,
            clock_boot: 4,
            clock_ticks: 5,
            irregular: 6,
            busy: true,
            irregular_max: 8,
            removed: 9,
            journal: u64::MAX - 5,
        };
        assert_eq!(State::decode(&state.encode()), Some(state));
        let entry = Entry {
            id: "20260110-153000-0001".parse().unwrap(),
            time: -5,
            row: 1,
            previous: 2,
            from: 3,
            thread: 4,
            previous_irregular: 5,
            part: 1,
            parts: 2,
            irregular: true,
            removed: true,
            keyed: true,
        };
        assert_eq!(Slot::decode(&entry.encode()), Slot::Entry(entry));
        let key = Key { hash: ContentHash::of(&[b"k"]), entry: 4, next: 5, time: 6 };
        assert_eq!(Slot::decode(&key.encode()), Slot::Key(key));
        for name in ["a".to_string(), "b".repeat(56), "c".repeat(57), "d".repeat(100)] {
            let mut row = Row::new(Target::Agent(name.parse().unwrap()));
            (row.newest, row.live, row.stamp, row.recheck, row.unsettled) = (1, 2, 3, 4, true);
            let bytes = row.encode();
            assert_eq!(Row::decode(&bytes), Some(row));
            assert_eq!(Slot::decode(&bytes[64..128]), Slot::RowRest);
        }
    }

    #[test]
    fn one_flipped_bit_is_noticed() {
        let entry = Key { hash: ContentHash::of(&[b"k"]), entry: 4, next: 5, time: 6 }.encode();
        for bit in 0..entry.len() * 8 {
            let mut bytes = entry;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Slot::decode(&bytes), Slot::Damaged, "bit {bit}");
        }
        let at = bucket_offset(ROW_BUCKETS_AT, 7);
        for slot in [0, 1, 77, u32::MAX] {
            let bucket = encode_bucket(at, slot);
            assert_eq!(decode_bucket(at, &bucket), Some(slot));
            for bit in 0..64 {
                let mut bytes = bucket;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode_bucket(at, &bytes), None, "bucket with {slot}, bit {bit}");
            }
        }
        assert_eq!(decode_bucket(at, &[0; 8]), None, "zeros are not an empty bucket");
    }
}
