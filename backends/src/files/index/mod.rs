//! The arrival index: in which order messages came into the store.
//!
//! A reader that lists a directory and remembers the highest id loses messages, even when one writer publishes in
//! perfect order. So positions come only from here. The index is a cache: it is rebuilt from the names on disk when it
//! is missing, damaged, or written before the machine last started.

mod append;
mod format;
mod read;
mod rebuild;
mod strays;

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use fmail_api::{Error, ErrorKind, Result};

pub use append::{Arrival, Changes};
pub use format::{Entry, Row, Slot, State, fingerprint};
pub use read::Slots;
pub use rebuild::{Rebuild, random_u64};

use super::fs::{Dir, Fs, Open};
use super::layout;
use format::{Header, STATE_AT, slot_offset};
use strays::Strays;

/// An open index.
pub struct Index {
    fs: Arc<dyn Fs>,
    file: File,
    /// Changes whenever slot numbers change their meaning.
    pub epoch: u64,
    /// Which file this is, to notice when another took its place.
    pub inode: u64,
    /// The file system that it is on.
    pub device: u64,
    /// Where the messages stand that are out of order.
    strays: Mutex<Strays>,
}

/// Why an index cannot be used.
pub enum Unusable {
    /// There is none, or it is damaged, or it is a copy, or from another boot: rebuild it.
    Rebuild,
    /// It was written by a newer program.
    Newer(u32),
    /// The file system refuses.
    Io(io::Error),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Unusable::Rebuild } else { Unusable::Io(error) }
    }
}

impl Index {
    /// Opens the project's index, for reading or for both.
    pub fn open(fs: &Arc<dyn Fs>, top: &Dir, boot: [u8; 16], how: Open) -> Result<Index, Unusable> {
        let file = fs.open(top, layout::INDEX, how)?;
        let stat = fs.stat_file(&file)?;
        let mut bytes = [0; 64];
        if fs.read_at(&file, &mut bytes, 0)? != bytes.len() {
            return Err(Unusable::Rebuild);
        }
        let header = Header::decode(&bytes).ok_or(Unusable::Rebuild)?;
        if header.layout > fmail_api::FORMAT_VERSION {
            return Err(Unusable::Newer(header.layout));
        }
        if header.boot != boot || header.inode != stat.inode {
            return Err(Unusable::Rebuild);
        }
        Ok(Index {
            fs: fs.clone(),
            file,
            epoch: header.epoch,
            inode: stat.inode,
            device: stat.device,
            strays: Mutex::default(),
        })
    }

    /// An index that lives only in this process.
    pub fn in_memory(fs: &Arc<dyn Fs>, file: File, epoch: u64) -> Index {
        Index { fs: fs.clone(), file, epoch, inode: 0, device: 0, strays: Mutex::default() }
    }

    /// Opens whatever is left of an index of any boot, to save reading the files it knows; and says which boot.
    fn open_remains(fs: &Arc<dyn Fs>, top: &Dir) -> Option<(Index, [u8; 16])> {
        let file = fs.open(top, layout::INDEX, Open::Read).ok()?;
        let mut bytes = [0; 64];
        fs.read_at(&file, &mut bytes, 0).ok()?;
        let header = Header::decode(&bytes)?;
        Some((
            Index { fs: fs.clone(), file, epoch: header.epoch, inode: 0, device: 0, strays: Mutex::default() },
            header.boot,
        ))
    }

    /// The counters, as they are now.
    pub fn state(&self) -> Result<State> {
        // A reader takes no lock and may see half of an update; the checksum tells, and the next look is whole.
        for _ in 0..1_000 {
            let mut bytes = [0; 64];
            let count = self.fs.read_at(&self.file, &mut bytes, STATE_AT).map_err(|error| self.failed(&error))?;
            if count != bytes.len() {
                break;
            }
            if let Some(state) = State::decode(&bytes) {
                return Ok(state);
            }
            std::thread::yield_now();
        }
        Err(damaged())
    }

    /// Whether the file is exactly as long as the committed slots need and nothing was interrupted.
    pub fn is_settled(&self, state: &State) -> Result<bool> {
        let expect = if state.committed == 0 { format::SLOTS_AT } else { slot_offset(state.committed) + format::SLOT };
        let size = self.fs.size(&self.file).map_err(|error| self.failed(&error))?;
        Ok(!state.busy && size == expect)
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::io("the index .fmail/index cannot be used", error)
    }
}

const DAMAGED: &str = "the index .fmail/index is damaged";

/// Whether an error says that the index is damaged.
pub fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt && error.message() == DAMAGED
}

/// The error that leads to a rebuild.
pub fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, DAMAGED).help("delete .fmail/index; the next command rebuilds it from the messages")
}
