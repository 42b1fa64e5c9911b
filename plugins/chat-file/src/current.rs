//! The file that is being followed, from when it is opened until another one takes its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant, SystemTime};

use crate::count::{byte_before, newlines, scan};
use crate::follow::{Change, FollowOptions, Item, Line, Start};
use crate::history::{History, Place};
use crate::lock::Identity;
use crate::split::{Raw, Splitter};

/// How long a file that was replaced or rewritten must have rested before it counts as whole.
const SETTLED: Duration = Duration::from_millis(100);
/// How long one that does not come to rest is waited for.
const BUSY: Duration = Duration::from_millis(500);
/// How long a file is missing or empty until what was read before is of no importance any more. No editor takes so long
/// to save a file.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(1);

/// An open file, and how much of it has been read.
#[derive(Debug)]
pub(crate) struct Current {
    file: File,
    identity: Identity,
    reading: Reading,
    /// When bytes were last read from it, or when it was last written before it was opened.
    grew: Instant,
    /// It may hold what was read before, and that is not known yet.
    doubt: Option<Doubt>,
}

/// How much has been read.
#[derive(Debug)]
struct Reading {
    splitter: Splitter,
    history: History,
    /// How many bytes of the line that has not ended were given.
    given: Option<u64>,
}

/// What decides whether a file holds what was read before.
#[derive(Debug)]
struct Doubt {
    /// What was read before.
    past: Reading,
    size: u64,
    /// Since when it has this size.
    since: Instant,
    /// Since when it has had anything in it.
    began: Option<Instant>,
}

impl Reading {
    fn at(file: &File, place: Place, options: &FollowOptions) -> io::Result<Reading> {
        let history = History::load(file, options.max_line, place.offset)?;
        Ok(Reading { splitter: Splitter::new(options.max_line, place.lines, place.offset), history, given: None })
    }
}

impl Current {
    /// Opens a file where the options say.
    pub(crate) fn open(file: File, options: &FollowOptions, found: &mut Vec<Item>) -> io::Result<Current> {
        let wanted = match options.start {
            Start::Beginning => return Current::anew(file, options),
            Start::After(lines) => lines,
            Start::End => u64::MAX,
        };
        let scanned = scan(&file, wanted)?;
        let unfinished = scanned.newlines < wanted && scanned.rest > 0;
        let lines = scanned.newlines + u64::from(unfinished);
        if options.start != Start::End && lines < wanted {
            found.push(Item::Change(Change::Shorter { lines, skipped: wanted }));
            return Current::anew(file, options);
        }
        let mut current = Current::at(file, Place { lines: scanned.newlines, offset: scanned.offset }, options)?;
        if unfinished {
            // It counts as known. It is given when more is written to it.
            let ends_with_return = byte_before(&current.file, scanned.offset + scanned.rest)? == Some(b'\r');
            current.reading.given = Some(scanned.rest - u64::from(ends_with_return));
        }
        Ok(current)
    }

    /// Opens a file at its first line.
    pub(crate) fn anew(file: File, options: &FollowOptions) -> io::Result<Current> {
        Current::at(file, Place { lines: 0, offset: 0 }, options)
    }

    fn at(file: File, place: Place, options: &FollowOptions) -> io::Result<Current> {
        let metadata = file.metadata()?;
        let age = metadata.modified().ok().and_then(|written| SystemTime::now().duration_since(written).ok());
        let now = Instant::now();
        let grew = age.and_then(|age| now.checked_sub(age)).unwrap_or(now);
        let reading = Reading::at(&file, place, options)?;
        Ok(Current { file, identity: Identity::of(&metadata), reading, grew, doubt: None })
    }

    /// Goes on with another file, which may hold what was read of this one.
    pub(crate) fn replaced_by(self, file: File, options: &FollowOptions) -> io::Result<Current> {
        let mut next = Current::anew(file, options)?;
        next.doubt = Some(Doubt::about(self.doubt.map_or(self.reading, |doubt| doubt.past)));
        Ok(next)
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// When the passing of time alone makes something readable.
    pub(crate) fn due(&self, options: &FollowOptions) -> Option<Instant> {
        match &self.doubt {
            Some(doubt) => Some(doubt.end()),
            None => options.rest.filter(|_| self.rest_is_news()).map(|rest| self.grew + rest),
        }
    }

    /// Reads on, at most one block; whether there may be more already.
    pub(crate) fn pull(
        &mut self,
        block: &mut [u8],
        options: &FollowOptions,
        decide: bool,
        found: &mut Vec<Item>,
    ) -> io::Result<bool> {
        if self.doubt.is_some() {
            return self.settle(options, decide, found);
        }
        let known = self.reading.history.recent().len();
        let from = self.reading.splitter.position() - known as u64;
        let length = loop {
            match self.file.read_at(block, from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if length < known || block[..known] != *self.reading.history.recent() {
            // Truncated, or written anew.
            let anew = Reading::at(&self.file, Place { lines: 0, offset: 0 }, options)?;
            self.doubt = Some(Doubt::about(std::mem::replace(&mut self.reading, anew)));
            return Ok(true);
        }
        if length > known {
            self.grew = Instant::now();
            self.reading.take(&block[known..length], options, found);
            return Ok(true);
        }
        if options.rest.is_some_and(|rest| self.grew.elapsed() >= rest) {
            self.give_rest(options, found);
        }
        Ok(false)
    }

    /// Gives the last line without its newline, unless it was given as it is.
    pub(crate) fn give_rest(&mut self, options: &FollowOptions, found: &mut Vec<Item>) {
        if self.rest_is_news() {
            self.reading.give_rest(options, found);
        }
    }

    fn rest_is_news(&self) -> bool {
        self.doubt.is_none() && self.reading.rest_is_news()
    }

    /// Finds out whether the file holds what was read before, if that can be known by now; whether it is.
    fn settle(&mut self, options: &FollowOptions, decide: bool, found: &mut Vec<Item>) -> io::Result<bool> {
        let size = self.file.metadata()?.len();
        let Some(doubt) = &mut self.doubt else { return Ok(true) };
        doubt.look(size);
        let (over, past) = (decide || Instant::now() >= doubt.end(), &doubt.past);
        if size > 0 && past.history.stands_in(&self.file)? && !past.history.is_empty() {
            // The same place. The lines before it are counted again: some of them may have been joined or divided.
            let line_start = past.splitter.line_start();
            let lines = newlines(&self.file, 0, line_start)?;
            let given = past.given;
            self.reading = Reading::at(&self.file, Place { lines, offset: line_start }, options)?;
            self.reading.given = given;
        } else if over || past.history.is_empty() {
            match past.find(&self.file, options)? {
                Some(place) => self.reading = Reading::at(&self.file, place, options)?,
                None => {
                    if past.rest_is_news() && !past.rest_begins(&self.file)? {
                        past.give(options, found);
                    }
                    if past.splitter.position() > 0 {
                        found.push(Item::Change(Change::New));
                    }
                }
            }
        } else {
            return Ok(false);
        }
        self.doubt = None;
        Ok(true)
    }
}

impl Doubt {
    fn about(past: Reading) -> Doubt {
        Doubt { past, size: 0, since: Instant::now(), began: None }
    }

    fn look(&mut self, size: u64) {
        let now = Instant::now();
        if size != self.size {
            (self.size, self.since) = (size, now);
        }
        self.began = if size == 0 { None } else { self.began.or(Some(now)) };
    }

    /// When it is to be decided. A file that never rests is not waited for for ever.
    fn end(&self) -> Instant {
        match self.began {
            None => self.since + FORGOTTEN,
            Some(began) => (self.since + SETTLED).min(began + BUSY),
        }
    }
}

impl Reading {
    /// Takes the next bytes of the file.
    fn take(&mut self, bytes: &[u8], options: &FollowOptions, found: &mut Vec<Item>) {
        let Reading { splitter, history, given } = self;
        splitter.feed(bytes, |raw| {
            history.line(raw);
            let before = given.take();
            let length = if raw.too_long { raw.end - raw.offset - 1 } else { raw.bytes.len() as u64 };
            if before != Some(length) {
                found.push(item(raw, options, true, before.is_some()));
            }
        });
        history.read(bytes);
    }

    fn rest_length(&self) -> Option<u64> {
        let rest = self.splitter.partial()?;
        Some(rest.end - rest.offset - u64::from(!rest.too_long && rest.bytes.ends_with(b"\r")))
    }

    fn rest_is_news(&self) -> bool {
        // One that was there at the start is longer than what has been read of it until all of it has been.
        self.rest_length().is_some_and(|length| self.given.is_none_or(|given| length > given))
    }

    fn give(&self, options: &FollowOptions, found: &mut Vec<Item>) {
        found.extend(self.splitter.partial().map(|rest| item(rest, options, false, self.given.is_some())));
    }

    fn give_rest(&mut self, options: &FollowOptions, found: &mut Vec<Item>) {
        self.give(options, found);
        self.given = self.rest_length();
    }

    /// Whether the file begins with the line that has not ended.
    fn rest_begins(&self, file: &File) -> io::Result<bool> {
        let Some(rest) = self.splitter.partial() else { return Ok(false) };
        let mut start = vec![0; rest.bytes.len()];
        match file.read_exact_at(&mut start, 0) {
            Ok(()) => Ok(start == rest.bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where to go on in a file that holds what was read.
    fn find(&self, file: &File, options: &FollowOptions) -> io::Result<Option<Place>> {
        match self.splitter.partial().filter(|_| self.given.is_some()) {
            None if self.history.is_empty() => Ok(None),
            None => self.history.find(file, options.max_line),
            Some(given) => {
                let mut history = self.history.clone();
                history.line(given);
                history.find(file, options.max_line)
            }
        }
    }
}

fn item(raw: Raw<'_>, options: &FollowOptions, ended: bool, again: bool) -> Item {
    let Raw { number, offset, end, bytes, too_long } = raw;
    if too_long {
        return Item::TooLong { number, offset, length: end - offset, allowed: options.max_line };
    }
    Item::Line(Line { number, offset, bytes: bytes.to_vec(), ended, again })
}
