//! Bringing the sidecar in step with the file.
//!
//! Usually lines were appended, and only those are read. To know that it was so, the last message that was read before is
//! read again: when it still stands where it stood, nothing before it has moved. Otherwise - the file was replaced,
//! truncated, edited, or whoever did this last was killed over it - the whole file is compared with the whole sidecar.
//! The same line keeps its message then. Of several equal lines the last ones are the ones that are kept, because it is
//! the start of a chat file that is moved to the archive.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fmail_api::{Appended, Error, ErrorKind, MessageId, Result};
use futures::executor::block_on;
use rustix::fs::OFlags;

use crate::entries::{self, Found};
use crate::line;
use crate::sidecar::Sidecar;
use crate::state::{AT_REST, Last, News, Pending, Seen, State, rests};

/// What was found, and what became of the message that was about to be written.
#[derive(Default)]
pub(crate) struct Synced {
    pub(crate) stored: Option<Appended>,
}

/// Brings the sidecar in step with the file. The caller holds the sidecar's lock. A file that is missing says nothing: it
/// may be about to be replaced.
pub(crate) fn sync(sidecar: &Sidecar, path: &Path) -> Result<Synced> {
    let known = block_on(sidecar.state())?;
    let Some((file, metadata)) = settled(path, known.as_ref())? else { return Ok(Synced::default()) };
    let failed = |error: io::Error| Error::io(format!("{} cannot be read", path.display()), &error);
    let first = known.is_none();
    let mut state = known.unwrap_or_default();
    if !first && state.is_current(&metadata) && state.pending.is_none() {
        return Ok(Synced::default());
    }
    let read = |from| entries::read(&file, from, metadata.len(), rests(&metadata)).map_err(failed);
    let mut work = Work { sidecar, pending: state.pending.take(), stored: None, news: Vec::new() };
    let mut reading = None;
    if state.may_have_grown(&metadata) {
        let from = state.last.as_ref().map_or(0, |last| last.offset);
        let mut grown = read(from)?;
        reading = match (&state.last, grown.found.first()) {
            (None, _) => Some(grown),
            (Some(last), Some(found)) if (found.offset, found.mark) == (last.offset, last.mark) => {
                grown.found.remove(0);
                Some(grown)
            }
            _ => None,
        };
    }
    let (end, last) = match reading {
        Some(grown) => {
            let last = grown.found.last().map(last_of).or(state.last.take());
            if !grown.found.is_empty() {
                work.begin(&mut state)?;
                work.store_all(&mut state, grown.found)?;
            }
            (grown.end, last)
        }
        None => {
            let whole = read(0)?;
            let last = whole.found.last().map(last_of);
            work.begin(&mut state)?;
            work.compare(&mut state, whole.found, path, first)?;
            (whole.end, last)
        }
    };
    if !work.news.is_empty() {
        state.news = Some(News::new(work.news));
    }
    state = State { seen: Some(Seen::of(&metadata)), end, last, busy: false, pending: None, ..state };
    sidecar.put_state(&state)?;
    Ok(Synced { stored: work.stored })
}

/// The file, once it is not being rewritten: many editors empty a file and write it again, and in between its messages
/// have not left it. A file that is shorter than it was has some time to become longer again.
fn settled(path: &Path, known: Option<&State>) -> Result<Option<(File, Metadata)>> {
    let end = Instant::now() + 2 * AT_REST;
    loop {
        let Some(file) = open(path)? else { return Ok(None) };
        let failed = |error| Error::io(format!("{} cannot be looked at", path.display()), &error);
        let metadata = file.metadata().map_err(failed)?;
        let shrunk = known.is_some_and(|state| state.is_in(&metadata) && metadata.len() < state.end);
        if !shrunk || rests(&metadata) || Instant::now() >= end {
            return Ok(Some((file, metadata)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Opens the file for reading; nothing when it is missing.
pub(crate) fn open(path: &Path) -> Result<Option<File>> {
    let mut options = File::options();
    // Non-blocking: a pipe in the file's place must be refused and not waited for.
    let opened = options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    match opened {
        Ok(file) if file.metadata().is_ok_and(|metadata| !metadata.is_file()) => {
            Err(Error::invalid(format!("{} is not a regular file; a chat file is one", path.display())))
        }
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("{} cannot be opened", path.display()), &error)),
    }
}

fn last_of(found: &Found) -> Last {
    Last { offset: found.offset, mark: found.mark }
}

struct Work<'a> {
    sidecar: &'a Sidecar,
    pending: Option<Pending>,
    stored: Option<Appended>,
    /// What is to be told.
    news: Vec<String>,
}

impl Work<'_> {
    /// Notes that the sidecar is being changed; what was about to be written stays noted until it is found.
    fn begin(&self, state: &mut State) -> Result<()> {
        let busy = State { busy: true, pending: self.pending.clone(), ..state.clone() };
        self.sidecar.put_state(&busy)
    }

    /// Stores messages in the order of the file.
    fn store_all(&mut self, state: &mut State, found: Vec<Found>) -> Result<()> {
        for found in found {
            if self.pending.as_ref().is_some_and(|pending| pending.mark == found.mark)
                && let Some(pending) = self.pending.take()
            {
                self.stored = Some(self.sidecar.store(pending.draft()?, found.mark)?);
                continue;
            }
            let stored = line::draft(&found.line).and_then(|draft| self.sidecar.store_found(draft, found.mark));
            match stored {
                Ok(()) => {}
                Err(error) if is_about_line(&error) => {
                    let start: String = found.line.message.chars().take(40).collect();
                    let (sender, recipient) = (&found.line.sender, &found.line.recipient);
                    state.skip(format!("`[{sender}-to-{recipient}]: {start}…`: {}", error.message()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Compares the whole file with the whole sidecar.
    fn compare(&mut self, state: &mut State, found: Vec<Found>, path: &Path, first: bool) -> Result<()> {
        (state.skipped, state.skipped_more) = (Vec::new(), 0);
        let mut known = self.sidecar.marks()?;
        let total = found.len();
        // From the end: the last of several equal lines are the ones that stayed.
        let mut new: Vec<Found> =
            found.into_iter().rev().filter(|found| known.get_mut(&found.mark).and_then(Vec::pop).is_none()).collect();
        new.reverse();
        let left: BTreeSet<MessageId> = known.into_values().flatten().collect();
        if !left.is_empty() {
            let text = format!("{} messages are no longer in {}", left.len(), path.display());
            self.sidecar.remove(left)?;
            self.tell(text);
        }
        if first && total > 0 {
            self.tell(format!(
                "{}: {total} messages were read for the first time; they have the time of now, and ids made from it. If the \
                 file had a sidecar before, what only that knew is gone: priorities, tags, what was read",
                path.display()
            ));
        }
        self.store_all(state, new)
    }

    fn tell(&mut self, text: String) {
        self.news.push(text);
    }
}

/// Whether it is the line that cannot be a message, and not the sidecar that cannot store it.
fn is_about_line(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidAgent | ErrorKind::TooLarge | ErrorKind::InvalidRequest)
}
