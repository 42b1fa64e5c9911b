//! In which order messages were first seen.
//!
//! A script has no order of arrival, and its times need not ascend. So the store notes each message when it sees it first,
//! in a file that only grows, under a lock; a cursor is a place in it. Each line has the same length: the message's id and
//! a number for the mailbox. The file can be lost: then its cursors have expired, and what the script lists arrives anew.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fmail_api::{AgentName, ContentHash, Cursor, Error, ErrorKind, MessageId, Result};
use rustix::fs::{FlockOperation, flock};

/// The length of a line: an id, a blank, a mailbox in 16 digits, the end.
const LINE: usize = 38;

/// The list of arrivals of one data directory.
pub(crate) struct Arrivals {
    path: PathBuf,
    seen: Mutex<Seen>,
}

/// What was read of the file so far.
#[derive(Default, Clone)]
struct Seen {
    epoch: String,
    entries: Vec<Arrival>,
    places: HashMap<MessageId, u64>,
}

/// A message that was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrival {
    pub id: MessageId,
    pub mailbox: u64,
}

/// By which number a mailbox stands in the list.
pub(crate) fn number_of(mailbox: &AgentName) -> u64 {
    ContentHash::of(&[mailbox.as_str().as_bytes()]).short()
}

impl Arrivals {
    pub(crate) fn new(directory: &Path) -> Self {
        Arrivals { path: directory.join("arrivals"), seen: Mutex::default() }
    }

    /// Notes those of the messages that are new, in this order.
    pub(crate) fn add(&self, new: &[Arrival]) -> Result<()> {
        if self.look(|seen| new.iter().all(|arrival| seen.places.contains_key(&arrival.id)))? {
            return Ok(());
        }
        let doing = |error: io::Error| Error::io(format_args!("noting arrivals in {}", self.path.display()), &error);
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path).map_err(doing)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| doing(error.into()))?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let length = file.metadata().map_err(doing)?.len();
        // A line that was torn by a kill or a full disk was never seen by anyone.
        file.set_len(length - length % LINE as u64).map_err(doing)?;
        let mut text = String::new();
        if length < LINE as u64 {
            text.push_str(&fresh_epoch());
        } else {
            seen.read(&mut file).map_err(doing)?;
        }
        let mut added: Vec<MessageId> = Vec::new();
        for arrival in new {
            if !seen.places.contains_key(&arrival.id) && !added.contains(&arrival.id) {
                added.push(arrival.id);
                text.push_str(&format!("{} {:016x}\n", arrival.id, arrival.mailbox));
            }
        }
        file.write_all(text.as_bytes()).map_err(doing)?;
        seen.read(&mut file).map_err(doing)
    }

    /// What arrived behind a place, with the place of the end.
    pub(crate) fn behind(&self, place: u64) -> Result<(Vec<(u64, Arrival)>, u64)> {
        self.look(|seen| {
            let behind = seen.entries.iter().enumerate().skip(place as usize);
            (behind.map(|(at, arrival)| (at as u64 + 1, *arrival)).collect(), seen.entries.len() as u64)
        })
    }

    /// The end of the list.
    pub(crate) fn end(&self) -> Result<u64> {
        self.look(|seen| seen.entries.len() as u64)
    }

    /// Where a message stands.
    pub(crate) fn place_of(&self, id: MessageId) -> Result<Option<u64>> {
        self.look(|seen| seen.places.get(&id).copied())
    }

    /// The messages whose ids end so.
    pub(crate) fn ending(&self, suffix: &str) -> Result<Vec<MessageId>> {
        self.look(|seen| seen.places.keys().filter(|id| id.ends_with(suffix)).copied().collect())
    }

    /// A place as a cursor. Before anything has arrived there is nothing that could be missed.
    pub(crate) fn cursor(&self, place: u64) -> Result<Cursor> {
        self.look(|seen| Cursor::new(format!("{}-{place}", if seen.epoch.is_empty() { "none" } else { &seen.epoch })))
    }

    /// The place that a cursor means.
    pub(crate) fn place(&self, cursor: &Cursor) -> Result<u64> {
        let wrong = || Error::invalid(format!("`{}` is no cursor of the exec store", cursor.as_str().escape_debug()));
        let (epoch, place) = cursor.as_str().rsplit_once('-').ok_or_else(wrong)?;
        let place: u64 = place.parse().map_err(|_| wrong())?;
        self.look(|seen| match epoch {
            "none" if place == 0 => Ok(0),
            epoch if epoch == seen.epoch && place <= seen.entries.len() as u64 => Ok(place),
            _ => Err(Error::new(ErrorKind::Expired, "the list of arrivals was made anew since the cursor was taken")
                .help("start again from an id or a time")),
        })?
    }

    fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> Result<T> {
        let doing = |error: io::Error| Error::io(format_args!("reading arrivals in {}", self.path.display()), &error);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match File::open(&self.path) {
            Ok(mut file) => seen.read(&mut file).map_err(doing)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => *seen = Seen::default(),
            Err(error) => return Err(doing(error)),
        }
        Ok(look(&seen))
    }
}

impl Seen {
    /// Reads what was added since. A file with another first line is another list.
    fn read(&mut self, file: &mut File) -> io::Result<()> {
        let mut first = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        Read::by_ref(file).take(LINE as u64).read_to_end(&mut first)?;
        let epoch = String::from_utf8_lossy(&first).trim_end().to_string();
        if first.len() < LINE {
            *self = Seen::default();
            return Ok(());
        }
        if epoch != self.epoch {
            *self = Seen { epoch, ..Seen::default() };
        }
        let mut text = Vec::new();
        file.seek(SeekFrom::Start((LINE * (1 + self.entries.len())) as u64))?;
        file.read_to_end(&mut text)?;
        for line in text.chunks_exact(LINE) {
            let damaged =
                || io::Error::new(io::ErrorKind::InvalidData, "a line is damaged; delete the file, it is made anew");
            let line = std::str::from_utf8(line).map_err(|_| damaged())?;
            let (id, mailbox) = line.trim_end().split_once(' ').ok_or_else(damaged)?;
            let arrival = Arrival {
                id: id.parse().map_err(|_| damaged())?,
                mailbox: u64::from_str_radix(mailbox, 16).map_err(|_| damaged())?,
            };
            self.entries.push(arrival);
            self.places.entry(arrival.id).or_insert(self.entries.len() as u64);
        }
        Ok(())
    }
}

/// The first line of a new list: no two lists have the same.
fn fresh_epoch() -> String {
    let mut random = [0_u8; 18];
    // Without randomness the time still tells lists apart.
    if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        random[..16].copy_from_slice(&now.as_nanos().to_le_bytes());
    }
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("a{digits}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(ticks: u64) -> Arrival {
        Arrival { id: MessageId::from_ticks(ticks).unwrap(), mailbox: ticks }
    }

    #[test]
    fn what_is_noted_once_keeps_its_place_in_every_process() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (Arrivals::new(directory.path()), Arrivals::new(directory.path()));
        one.add(&[arrival(7), arrival(3), arrival(7)]).unwrap();
        two.add(&[arrival(3), arrival(5)]).unwrap();
        let (behind, end) = one.behind(1).unwrap();
        assert_eq!((behind, end), (vec![(2, arrival(3)), (3, arrival(5))], 3));
        let cursor = one.cursor(2).unwrap();
        assert_eq!(two.place(&cursor).unwrap(), 2);
    }

    #[test]
    fn a_torn_line_is_cut_and_a_lost_list_expires_its_cursors() {
        let directory = tempfile::tempdir().unwrap();
        let arrivals = Arrivals::new(directory.path());
        arrivals.add(&[arrival(1)]).unwrap();
        let path = directory.path().join("arrivals");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"2026").unwrap();
        assert_eq!(arrivals.end().unwrap(), 1);
        arrivals.add(&[arrival(2)]).unwrap();
        assert_eq!(Arrivals::new(directory.path()).end().unwrap(), 2);
        let cursor = arrivals.cursor(2).unwrap();
        std::fs::remove_file(&path).unwrap();
        arrivals.add(&[arrival(9), arrival(10), arrival(11)]).unwrap();
        assert_eq!(arrivals.place(&cursor).unwrap_err().kind(), ErrorKind::Expired);
        assert_eq!(arrivals.place(&Cursor::new("x")).unwrap_err().kind(), ErrorKind::InvalidRequest);
    }
}
