//! Putting a message at the end of the file.
//!
//! One write of the whole message, under the lock, at wherever the end is (`O_APPEND`): neither we nor a shell that says
//! `echo >>` can come between its bytes. What could not be written whole is taken back.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};

use crate::count::{byte_before, newlines};
use crate::line::ChatLine;
use crate::lock::{Identity, Locked};

/// How long a last line without a newline must have rested before it counts as whole. A writer that is in the middle of a
/// long line goes on long before.
const AT_REST: Duration = Duration::from_millis(100);
/// How often it is looked at while it may still grow.
const LOOK: Duration = Duration::from_millis(5);
/// How often a line is written again that came to stand behind another one's first half.
const ATTEMPTS: u32 = 8;

/// How much of what was written last is remembered.
const RECENT: usize = 256;

/// How to append.
#[derive(Debug, Clone)]
pub struct Options {
    /// Make the file, and the directories above it, when there is none.
    pub create: bool,
    /// Return only when the line would survive a power cut.
    pub sync: bool,
    /// How long to wait for the lock.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { create: true, sync: true, timeout: Duration::from_secs(10) }
    }
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The number of its first line, from 1.
    pub line_number: u64,
    /// Where its first byte stands.
    pub offset: u64,
    /// How many bytes it has, with its newlines.
    pub length: u64,
    /// Which file it is in.
    pub identity: Identity,
}

/// Appends one message. Several go through an [`Appender`], which counts the file's lines once.
pub fn append(path: &Path, line: &ChatLine, options: &Options) -> Result<Appended> {
    Appender::new(path, options.clone()).append(line)
}

/// Appends messages to one file, and remembers how many lines it has seen.
#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    options: Options,
    counted: Option<Counted>,
}

/// How many newlines stand before an offset of a file.
#[derive(Debug, Clone)]
struct Counted {
    identity: Identity,
    offset: u64,
    newlines: u64,
    /// What stands before the offset. Something else is there when the file was written anew.
    recent: Vec<u8>,
}

impl Counted {
    fn holds(&self, locked: &Locked, offset: u64) -> io::Result<bool> {
        if self.identity != locked.identity() || self.offset > offset {
            return Ok(false);
        }
        let mut found = vec![0; self.recent.len()];
        locked.file().read_exact_at(&mut found, self.offset - self.recent.len() as u64)?;
        Ok(found == self.recent)
    }
}

impl Appender {
    /// Appends to the file at this path.
    pub fn new(path: impl Into<PathBuf>, options: Options) -> Appender {
        Appender { path: path.into(), options, counted: None }
    }

    /// Appends the message, whole or not at all. A last line that lacks its newline gets one first.
    pub fn append(&mut self, line: &ChatLine) -> Result<Appended> {
        // Refused before anything is made.
        line.to_line()?;
        let locked = Locked::open(&self.path, self.options.create, self.options.timeout)?;
        self.append_locked(&locked, line)
    }

    /// The same for a file that the caller has locked, to do more than this under one lock.
    pub fn append_locked(&mut self, locked: &Locked, line: &ChatLine) -> Result<Appended> {
        let text = line.to_line()?;
        let offset = self.write(locked.file(), &text)?;
        let before = self.newlines_before(locked, offset, &text).map_err(|error| {
            let doing = format!("{} has the line, but cannot be read to say which one it is", self.path.display());
            Error::io(doing, &error)
        })?;
        if self.options.sync {
            self.sync(locked)?;
        }
        let length = text.len() as u64;
        Ok(Appended { line_number: before + 1, offset, length, identity: locked.identity() })
    }

    /// Appends lines as they are. One without its end gets it.
    pub(crate) fn append_lines(&mut self, lines: &[u8]) -> Result<()> {
        let locked = Locked::open(&self.path, self.options.create, self.options.timeout)?;
        let mut bytes = lines.to_vec();
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        if !self.await_whole_line(locked.file()).map_err(|error| self.read_failed(&error))? {
            bytes.insert(0, b'\n');
        }
        self.write_once(locked.file(), &bytes)?;
        self.sync(&locked)
    }

    /// Writes the text at the end, on a line of its own; where it stands.
    fn write(&self, file: &File, text: &str) -> Result<u64> {
        for _ in 0..ATTEMPTS {
            let whole = self.await_whole_line(file).map_err(|error| self.read_failed(&error))?;
            let bytes = if whole { text.to_string() } else { format!("\n{text}") };
            let end = self.write_once(file, bytes.as_bytes())?;
            let offset = end - text.len() as u64;
            match byte_before(file, offset).map_err(|error| self.read_failed(&error))? {
                None | Some(b'\n') => return Ok(offset),
                // Between our look and our write another writer began a line and did not end it. Ours stands behind
                // that beginning, where nobody reads it as a message, so it is written once more.
                Some(_) => {}
            }
        }
        let text = format!("{} is being written by something that writes no whole lines", self.path.display());
        Err(Error::new(ErrorKind::Backpressure, text).help("stop the other writer, then send again"))
    }

    /// Waits for another writer's half line; whether the file ends with a newline, or is empty.
    fn await_whole_line(&self, file: &File) -> io::Result<bool> {
        let (mut size, mut since) = (file.metadata()?.len(), Instant::now());
        loop {
            if matches!(byte_before(file, size)?, None | Some(b'\n')) {
                return Ok(true);
            }
            if since.elapsed() >= AT_REST {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
            let now = file.metadata()?.len();
            if now != size {
                (size, since) = (now, Instant::now());
            }
        }
    }

    /// Writes the bytes with one call, or leaves the file as it was; where they end.
    fn write_once(&self, mut file: &File, bytes: &[u8]) -> Result<u64> {
        let mut written = 0;
        let failure = loop {
            match file.write(&bytes[written..]) {
                Ok(0) => break io::Error::from(io::ErrorKind::WriteZero),
                Ok(length) => written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
            if written == bytes.len() {
                // An appending write leaves the position behind what it wrote, wherever others have written since.
                return file.stream_position().map_err(|error| self.read_failed(&error));
            }
        };
        let kept = if written == 0 { Ok(()) } else { take_back(file, written as u64) };
        let text = format!("{} cannot be written: {failure}", self.path.display());
        match kept {
            Ok(()) => Err(Error::new(Error::io("", &failure).kind(), format!("{text}; nothing was written"))),
            Err(why) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{text}; the first {written} bytes of the line stand there and could not be removed: {why}"),
            )),
        }
    }

    /// How many newlines stand before this offset, where the text begins that we have written. Only what has come since
    /// the last time is read.
    fn newlines_before(&mut self, locked: &Locked, offset: u64, text: &str) -> io::Result<u64> {
        let (from, before) = match &self.counted {
            Some(known) if known.holds(locked, offset)? => (known.offset, known.newlines),
            _ => (0, 0),
        };
        let count = before + newlines(locked.file(), from, offset)?;
        self.counted = Some(Counted {
            identity: locked.identity(),
            offset: offset + text.len() as u64,
            newlines: count + text.matches('\n').count() as u64,
            recent: text.as_bytes()[text.len().saturating_sub(RECENT)..].to_vec(),
        });
        Ok(count)
    }

    fn sync(&self, locked: &Locked) -> Result<()> {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let synced = locked.file().sync_data().and_then(|()| {
            if locked.is_new() { File::open(directory).and_then(|directory| directory.sync_all()) } else { Ok(()) }
        });
        synced.map_err(|error| {
            let text = format!("{} has the line, but it cannot be made durable: {error}", self.path.display());
            Error::new(ErrorKind::DurabilityUnknown, text)
        })
    }

    fn read_failed(&self, error: &io::Error) -> Error {
        Error::io(format!("{} cannot be read", self.path.display()), error)
    }
}

/// Removes what we have just written, if it is still the end of the file.
fn take_back(mut file: &File, length: u64) -> io::Result<()> {
    let end = file.stream_position()?;
    if file.metadata()?.len() != end {
        return Err(io::Error::other("another writer has appended since"));
    }
    file.set_len(end - length)
}
