//! The bytes of the journal.
//!
//! ```text
//! page 0, 1   the header, in two copies that are written in turn: up to which position everything is safe elsewhere
//! page 2 …    records, one behind the other, at their position modulo the room
//! ```
//!
//! A position counts all bytes since the journal was made and is never used twice, so that a record which has not been
//! overwritten yet cannot be taken for a later one: it says its own position. Records of one group stand in one piece; what
//! does not fit in front of the end begins at the next multiple of the room.

/// What is written for a header; a disk that writes pages whole never has both copies in one.
pub const PAGE: u64 = 4096;
/// Where the records begin.
pub const RECORDS_AT: u64 = 2 * PAGE;
/// What stands in front of a record's text.
pub const HEAD: usize = 32;

const MAGIC: [u8; 8] = *b"FMAILJN1";
const RECORD: u32 = 0x3152_4a46;
const VOID: u32 = 1;

/// What is known of the journal as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// How many bytes of records it holds.
    pub room: u64,
    /// Everything before this position is safe in its mailboxes.
    pub clean: u64,
    /// A sync of what is in the mailboxes has failed: it is not asked again, the files are written anew.
    pub suspect: bool,
}

impl Header {
    /// The bytes of one copy.
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[8..16].copy_from_slice(&MAGIC);
        bytes[16..24].copy_from_slice(&self.room.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.clean.to_le_bytes());
        bytes[32] = u8::from(self.suspect);
        let sum = checksum(&[&bytes[8..]]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header, or nothing when these bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.len() >= 64 && u64_at(bytes, 0) == checksum(&[&bytes[8..64]]) && bytes[8..16] == MAGIC;
        let header = Header { room: u64_at(bytes, 16), clean: u64_at(bytes, 24), suspect: bytes[32] != 0 };
        (whole && header.room > 0).then_some(header)
    }

    /// Where a position stands in the file.
    pub fn offset(&self, position: u64) -> u64 {
        RECORDS_AT + position % self.room
    }

    /// The first position from this one on at which a piece of this size does not cross the end.
    pub fn place(&self, position: u64, size: u64) -> u64 {
        if position % self.room + size <= self.room { position } else { self.round(position) }
    }

    /// The next time that the end is reached.
    pub fn round(&self, position: u64) -> u64 {
        position.div_ceil(self.room) * self.room
    }

    /// A position behind all that were ever written: nothing that stands in the file can be taken for what comes there.
    pub fn beyond(&self) -> u64 {
        self.round(self.clean + self.room)
    }

    /// Whether records may stand at this position.
    pub fn covers(&self, position: u64) -> bool {
        (self.clean..=self.clean + self.room).contains(&position)
    }
}

/// What stands in front of a record's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its position.
    pub position: u64,
    /// How long the text is.
    pub length: u32,
    /// The permissions of the message's file.
    pub mode: u32,
    /// The message was not stored after all: its caller was told so.
    pub void: bool,
    sum: u64,
}

impl Head {
    /// The head of a record with this text.
    pub fn new(position: u64, mode: u32, text: &[u8]) -> Head {
        let mut head = Head { position, length: text.len() as u32, mode, void: false, sum: 0 };
        head.sum = checksum(&[&head.encode()[8..], text]);
        head
    }

    /// The same for a record that counts no more.
    pub fn voided(self) -> Head {
        let mut head = Head { void: true, ..self };
        head.sum = checksum(&[&head.encode()[8..]]);
        head
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.sum.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.length.to_le_bytes());
        bytes[20..24].copy_from_slice(&(if self.void { VOID } else { 0 }).to_le_bytes());
        bytes[24..28].copy_from_slice(&self.mode.to_le_bytes());
        bytes[28..32].copy_from_slice(&RECORD.to_le_bytes());
        bytes
    }

    /// A head that says that it stands here; whether its record is whole is another question.
    pub fn decode(bytes: &[u8; HEAD], position: u64) -> Option<Head> {
        let head = Head {
            position: u64_at(bytes, 8),
            length: u32_at(bytes, 16),
            mode: u32_at(bytes, 24),
            void: u32_at(bytes, 20) == VOID,
            sum: u64_at(bytes, 0),
        };
        (head.position == position && u32_at(bytes, 28) == RECORD && u32_at(bytes, 20) <= VOID).then_some(head)
    }

    /// Whether the record is whole.
    pub fn fits(&self, text: &[u8]) -> bool {
        self.sum == if self.void { self.voided().sum } else { checksum(&[&self.encode()[8..], text]) }
    }

    /// Where the next record stands.
    pub fn end(&self) -> u64 {
        self.position + size_of_record(self.length as usize)
    }
}

/// How many bytes a record takes.
pub fn size_of_record(text: usize) -> u64 {
    (HEAD + text).next_multiple_of(8) as u64
}

/// A checksum of all parts, eight bytes at a time: against torn writes and flipped bits, not against people.
fn checksum(parts: &[&[u8]]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for part in parts {
        let mut words = part.chunks_exact(8);
        for word in words.by_ref() {
            hash = mix(hash ^ u64_at(word, 0));
        }
        let mut rest = [0; 8];
        rest[..words.remainder().len()].copy_from_slice(words.remainder());
        hash = mix(hash ^ u64::from_le_bytes(rest) ^ (part.len() as u64) << 32);
    }
    hash
}

fn mix(word: u64) -> u64 {
    let word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^ word >> 32
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_was_written_or_none() {
        let header = Header { room: 8192, clean: 77, suspect: true };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        for at in 0..64 {
            let mut other = bytes;
            other[at] ^= 4;
            assert_eq!(Header::decode(&other), None, "byte {at}");
        }
        assert_eq!(Header::decode(&[0; 64]), None);
        assert_eq!(Header::decode(&bytes[..63]), None);
    }

    #[test]
    fn a_record_is_whole_or_not_there() {
        for text in [&b"x"[..], b"eight..8", b"some text that is longer than that"] {
            let head = Head::new(4711, 0o600, text);
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes, 4711), Some(head));
            assert_eq!(Head::decode(&bytes, 4712), None);
            assert!(head.fits(text));
            for at in 0..text.len() {
                let mut other = text.to_vec();
                other[at] ^= 1;
                assert!(!head.fits(&other));
            }
            for at in 0..HEAD {
                let mut other = bytes;
                other[at] ^= 1;
                assert!(Head::decode(&other, 4711).is_none_or(|head| !head.fits(text)), "byte {at}");
            }
            let void = head.voided();
            assert_eq!(Head::decode(&void.encode(), 4711), Some(void));
            assert!(void.void && void.fits(b"anything") && void.end() == head.end());
        }
    }

    #[test]
    fn a_piece_never_crosses_the_end() {
        let header = Header { room: 100, clean: 30, suspect: false };
        assert_eq!(header.place(30, 70), 30);
        assert_eq!(header.place(40, 70), 100);
        assert_eq!(header.place(100, 100), 100);
        assert_eq!((header.offset(30), header.offset(130)), (RECORDS_AT + 30, RECORDS_AT + 30));
        assert!(header.beyond() >= header.clean + header.room && header.beyond().is_multiple_of(100));
        assert!(header.covers(30) && header.covers(130) && !header.covers(29) && !header.covers(131));
    }
}
