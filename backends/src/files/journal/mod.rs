//! The journal of a daemon: one write and one sync for a whole group of messages.
//!
//! `.fmail/journal` is filled with zeroes once and then written in place, so that a sync of it never waits for a commit of
//! the file system. A group's messages are written there and synced, then linked into their mailboxes and told to the
//! index, all under the project's lock; and then they are answered. Their files are not synced on that way. That happens
//! later and for many at once, and then the header says up to which position the journal is needed no more
//! ([`checkpoint`]).
//!
//! Whoever finds more in the journal than the index knows finishes it ([`replay`]): the next holder of the lock after a
//! killed daemon, and whoever rebuilds the index after a start of the machine. So nothing here belongs to one process, and
//! two daemons may share a journal as they share the lock.

mod checkpoint;
mod format;
mod keeper;
mod replay;

use std::fs::File;
use std::io;
use std::sync::Arc;

use fmail_api::Message;

pub use keeper::{JournalOptions, Keeper, Run};

use super::fs::{Dir, Fs, Kind, Open, ensure_dir};
use super::layout;
use format::{HEAD, Head, Header, PAGE, RECORDS_AT, size_of_record};

/// What is written at a time while a journal is made.
const ZEROES: usize = 1024 * 1024;

/// An open journal.
pub struct Journal {
    fs: Arc<dyn Fs>,
    file: File,
    /// Which file it is, to notice when another took its place.
    inode: u64,
    size: u64,
    /// When it was last written, in nanoseconds since 1970, as it was opened.
    modified: u64,
}

/// A message in the journal.
pub struct Record {
    head: Head,
    text: Vec<u8>,
}

impl Record {
    /// The message; nothing for a record that counts no more.
    fn message(&self) -> Option<Message> {
        if self.head.void {
            return None;
        }
        serde_json::from_slice(&self.text).ok()
    }
}

impl Journal {
    /// Opens the project's journal, if it has one.
    pub fn open(fs: &Arc<dyn Fs>, top: &Dir) -> io::Result<Option<Journal>> {
        let file = match fs.open(top, layout::JOURNAL, Open::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let stat = fs.stat_file(&file)?;
        if stat.kind != Kind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"));
        }
        Ok(Some(Journal { fs: fs.clone(), file, inode: stat.inode, size: stat.size, modified: stat.modified }))
    }

    /// Makes a journal with room for so many bytes of records. The caller holds the lock, and there is none.
    ///
    /// The zeroes are written, not reserved: blocks that are only reserved have to be marked as written by the first sync
    /// of each, which is a commit of the file system, and that is what the journal is there to avoid.
    pub fn make(fs: &dyn Fs, top: &Dir, header: &Header) -> io::Result<()> {
        let temporary = ensure_dir(fs, top, layout::TEMPORARY, 0o700)?;
        match fs.unlink(&temporary, layout::JOURNAL) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = fs.open(&temporary, layout::JOURNAL, Open::CreateNew(0o600))?;
        let fill = || {
            let (zeroes, size) = (vec![0; ZEROES], RECORDS_AT + header.room);
            let mut at = 0;
            while at < size {
                let count = (size - at).min(ZEROES as u64);
                fs.write_at(&file, &zeroes[..count as usize], at)?;
                at += count;
            }
            fs.write_at(&file, &header.encode(), 0)?;
            fs.sync_data(&file)?;
            fs.rename_new(&temporary, layout::JOURNAL, top, layout::JOURNAL)?;
            fs.sync_dir(top)
        };
        fill().inspect_err(|_| {
            let _ = fs.unlink(&temporary, layout::JOURNAL);
        })
    }

    /// Whether the project's journal is still this file.
    fn is_in_place(&self, top: &Dir) -> bool {
        self.fs.identity(top, layout::JOURNAL).is_ok_and(|stat| stat.inode == self.inode && stat.size == self.size)
    }

    /// The header: of its two copies the one that says more. Nothing when both are damaged.
    pub fn header(&self) -> io::Result<Option<Header>> {
        Ok(self.copies()?.0)
    }

    /// The header, and which copy is to be written next.
    fn copies(&self) -> io::Result<(Option<Header>, u64)> {
        let fits = |header: &Header| header.room + RECORDS_AT == self.size;
        let copy = |at: u64| -> io::Result<Option<Header>> {
            let mut bytes = [0; 64];
            let count = self.fs.read_at(&self.file, &mut bytes, at)?;
            Ok(Header::decode(&bytes[..count]).filter(fits))
        };
        Ok(match (copy(0)?, copy(PAGE)?) {
            (Some(one), Some(two)) if (two.clean, two.suspect) > (one.clean, one.suspect) => (Some(two), 0),
            (Some(one), _) => (Some(one), PAGE),
            (None, two) => (two, 0),
        })
    }

    /// Says that everything before a position is safe, over the copy of the header that says less, and makes that durable: the room
    /// is used again from then on. The caller holds the lock, and this header is the journal's.
    pub fn set_clean(&self, header: &Header, clean: u64) -> io::Result<()> {
        let (_, at) = self.copies()?;
        let said = Header { clean, suspect: false, ..*header };
        self.fs.write_at(&self.file, &said.encode(), at)?;
        self.fs.sync_data(&self.file).inspect_err(|_| {
            // What the disk may not know is not to be believed by who opens the journal next.
            let _ = self.fs.write_at(&self.file, &header.encode(), at);
        })
    }

    /// Says that a sync of what stands in the mailboxes has failed. The caller holds the lock.
    pub fn set_suspect(&self) -> io::Result<()> {
        let (Some(header), at) = self.copies()? else { return Ok(()) };
        self.fs.write_at(&self.file, &Header { suspect: true, ..header }.encode(), at)
    }

    /// Writes records, and lets the disk begin with them.
    fn write(&self, header: &Header, position: u64, records: &[u8]) -> io::Result<()> {
        let at = header.offset(position);
        self.fs.write_at(&self.file, records, at)?;
        self.fs.begin_sync(&self.file, at, records.len() as u64);
        Ok(())
    }

    /// Makes durable what was written.
    fn sync(&self) -> io::Result<()> {
        self.fs.sync_data(&self.file)
    }

    /// Says of records that they count no more, and makes that durable.
    fn void(&self, header: &Header, heads: &[Head]) -> io::Result<()> {
        for head in heads {
            self.fs.write_at(&self.file, &head.voided().encode(), header.offset(head.position))?;
        }
        self.fs.sync_data(&self.file)
    }

    /// The record at a position, or where the records go on at the beginning again.
    fn next(&self, header: &Header, position: u64) -> io::Result<Option<Record>> {
        match self.record(header, position)? {
            None if !position.is_multiple_of(header.room) => self.record(header, header.round(position)),
            found => Ok(found),
        }
    }

    fn record(&self, header: &Header, position: u64) -> io::Result<Option<Record>> {
        let mut bytes = [0; HEAD];
        let at = header.offset(position);
        if self.fs.read_at(&self.file, &mut bytes, at)? != HEAD {
            return Ok(None);
        }
        let Some(head) = Head::decode(&bytes, position) else { return Ok(None) };
        let within = at - RECORDS_AT + size_of_record(head.length as usize) <= header.room;
        if !within || head.end() > header.clean + header.room {
            return Ok(None);
        }
        let mut text = vec![0; head.length as usize];
        let count = self.fs.read_at(&self.file, &mut text, at + HEAD as u64)?;
        Ok((count == text.len() && head.fits(&text)).then_some(Record { head, text }))
    }

    /// All records from a position on, in order.
    fn records<'a>(&'a self, header: &'a Header, from: u64) -> impl Iterator<Item = io::Result<Record>> + 'a {
        let mut position = Some(from);
        std::iter::from_fn(move || {
            let record = self.next(header, position?).transpose();
            position = record.as_ref().and_then(|record| record.as_ref().ok()).map(|record| record.head.end());
            record
        })
    }
}
