//! Following a chat file: every whole line once, whatever becomes of the file.
//!
//! | what happens | what is read |
//! |---|---|
//! | a line is appended | the line, when its newline is there |
//! | the last line has no newline | the line, when the file has rested for a while; again if it then goes on |
//! | the file is truncated, moved away or deleted, and written anew | what was left of the old one, then the new one from its first line |
//! | the file is replaced or rewritten, and holds what was read last | only what follows that |
//! | the file or its directory is not there | everything, when it comes |
//!
//! [`Follower`] blocks and starts no thread. Its user calls [`Follower::read`] until that has nothing more, then
//! [`Follower::wait`].

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::count::BLOCK;
use crate::current::{Current, FORGOTTEN};
use crate::lock::Identity;
use crate::wake::{Stopper, Wake, Woken};

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first line.
    Beginning,
    /// With the line after this one; lines are counted from 1.
    After(u64),
    /// With what comes from now on.
    End,
}

/// How to follow.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// Where to begin. A file that is not there yet is read from its first line.
    pub start: Start,
    /// Be woken by the kernel.
    pub events: bool,
    /// How often to look where the kernel does not tell.
    pub interval: Duration,
    /// How many bytes a line may have. Longer ones are told and not given.
    pub max_line: usize,
    /// How long a last line without a newline must have rested before it is given; nothing for never.
    pub rest: Option<Duration>,
}

impl Default for FollowOptions {
    fn default() -> Self {
        FollowOptions {
            start: Start::End,
            events: true,
            interval: Duration::from_millis(100),
            max_line: 4 * 1024 * 1024,
            rest: Some(Duration::from_secs(1)),
        }
    }
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// Where it begins.
    pub offset: u64,
    /// What it says, without its ending.
    pub bytes: Vec<u8>,
    /// Whether its newline is there. If not, the file had rested.
    pub ended: bool,
    /// Whether it was given before, without its newline, and has become longer since.
    pub again: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A line.
    Line(Line),
    /// A line that is longer than it may be, and is not given.
    TooLong {
        /// Its number, from 1.
        number: u64,
        /// Where it begins.
        offset: u64,
        /// How many bytes it has, with its ending.
        length: u64,
        /// How many it may have.
        allowed: usize,
    },
    /// Something that happened to the file.
    Change(Change),
}

/// What became of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is not there, and waited for.
    Missing,
    /// It is another one, or was emptied, and is read from its first line.
    New,
    /// It has fewer lines than there were to skip, and is read from its first line.
    Shorter {
        /// How many lines it has.
        lines: u64,
        /// How many were to be skipped.
        skipped: u64,
    },
    /// The kernel does not tell of changes; the reason, and how often it is looked at.
    Polling(String),
}

/// Reads a chat file as it grows.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    options: FollowOptions,
    wake: Wake,
    current: Option<Current>,
    /// Since when the path leads nowhere.
    missing: Option<Instant>,
    told_missing: bool,
    /// What was found before the first read.
    found: Vec<Item>,
    block: Vec<u8>,
}

impl Follower {
    /// Takes its place: with [`Start::End`], everything that is appended after this call is read.
    pub fn open(path: impl Into<PathBuf>, options: FollowOptions) -> Result<Follower> {
        let path = path.into();
        let (mut found, block) = (Vec::new(), vec![0; BLOCK]);
        let failed = |error: io::Error| Error::io(format!("{} cannot be read", path.display()), &error);
        let file = open_file(&path)?;
        let current = file.map(|file| Current::open(file, &options, &mut found)).transpose().map_err(failed)?;
        let wake = Wake::new(&path, options.events, options.interval)
            .map_err(|error| Error::io("cannot prepare to wait for the chat file", &error))?;
        Ok(Follower { path, options, wake, current, missing: None, told_missing: false, found, block })
    }

    /// Whether there is a file that it reads.
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// What ends a wait from another thread.
    pub fn stopper(&self) -> Stopper {
        self.wake.stopper()
    }

    /// Reads on, at most one block, and adds what was found; whether there may be more already.
    pub fn read(&mut self, found: &mut Vec<Item>) -> Result<bool> {
        found.append(&mut self.found);
        found.extend(self.wake.take_reason().map(|reason| Item::Change(Change::Polling(reason))));
        match self.path.metadata() {
            Ok(now) => {
                let identity = Identity::of(&now);
                if self.current.as_ref().is_none_or(|current| current.identity() != identity) {
                    return self.change_over(found);
                }
                (self.missing, self.told_missing) = (None, false);
                self.pull(false, found)
            }
            Err(error) if is_missing(&error) => {
                let since = *self.missing.get_or_insert_with(Instant::now);
                // Who had the file open may still be writing to it.
                let more = self.pull(since.elapsed() >= FORGOTTEN, found)?;
                if !more {
                    self.tell_missing(since, found);
                }
                Ok(more)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Reads on in the file that is open. With `decide`, a file that may hold what was read before is not waited for.
    fn pull(&mut self, decide: bool, found: &mut Vec<Item>) -> Result<bool> {
        let Some(current) = &mut self.current else { return Ok(false) };
        match current.pull(&mut self.block, &self.options, decide, found) {
            // On a network file system somebody else has removed the file that we have open.
            Err(error) if error.raw_os_error() == Some(Errno::STALE.raw_os_error()) => Ok(false),
            pulled => pulled.map_err(|error| self.failed(&error)),
        }
    }

    /// Goes on to the file that has the name now, when nothing is left of the one before.
    fn change_over(&mut self, found: &mut Vec<Item>) -> Result<bool> {
        if self.pull(true, found)? {
            return Ok(true);
        }
        let forgotten = self.missing.is_some_and(|since| since.elapsed() >= FORGOTTEN);
        let Some(file) = open_file(&self.path)? else { return Ok(false) };
        (self.missing, self.told_missing) = (None, false);
        let next = match self.current.take() {
            None => Current::anew(file, &self.options),
            Some(mut before) if forgotten => {
                before.give_rest(&self.options, found);
                found.push(Item::Change(Change::New));
                Current::anew(file, &self.options)
            }
            Some(before) => before.replaced_by(file, &self.options),
        };
        self.current = Some(next.map_err(|error| self.failed(&error))?);
        Ok(true)
    }

    /// Tells that there is no file, unless it may just be in the making.
    fn tell_missing(&mut self, since: Instant, found: &mut Vec<Item>) {
        if self.told_missing || (self.current.is_some() && since.elapsed() < FORGOTTEN) {
            return;
        }
        self.told_missing = true;
        if let Some(current) = &mut self.current {
            current.give_rest(&self.options, found);
        }
        found.push(Item::Change(Change::Missing));
    }

    /// Waits until there may be something to read, or until this time. Time that passes matters to some files, so that this
    /// may end sooner than anything happens.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<Woken> {
        let due = [until, self.due()].into_iter().flatten().min();
        let woken = self.wake.wait(due).map_err(|error| Error::io("cannot wait for the chat file", &error))?;
        Ok(if woken == Woken::Time && due != until { Woken::Look } else { woken })
    }

    /// When the passing of time alone makes something readable, if it does.
    pub fn due(&self) -> Option<Instant> {
        let missing = self.missing.filter(|_| !self.told_missing).map(|since| since + FORGOTTEN);
        let file = self.current.as_ref().and_then(|current| current.due(&self.options));
        [missing, file].into_iter().flatten().min()
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::io(format!("{} cannot be read", self.path.display()), error)
    }
}

/// Opens the file, if it is there.
fn open_file(path: &Path) -> Result<Option<File>> {
    let failed = |error: &io::Error| Error::io(format!("{} cannot be read", path.display()), error);
    // Non-blocking: a pipe in the file's place must be refused and not waited for.
    let opened = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    if !file.metadata().map_err(|error| failed(&error))?.is_file() {
        return Err(Error::invalid(format!("{} is not a regular file; a chat file is one", path.display())));
    }
    Ok(Some(file))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
