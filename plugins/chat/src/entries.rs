//! Reading the messages of a chat file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use fmail_api::ContentHash;
use fmail_chat_file::{ChatLine, Entry, Joiner};

use crate::line;

/// A message of the file.
pub(crate) struct Found {
    pub(crate) line: ChatLine,
    pub(crate) offset: u64,
    pub(crate) mark: ContentHash,
}

impl From<Entry> for Found {
    fn from(entry: Entry) -> Self {
        Found { mark: line::fingerprint(&entry.line), line: entry.line, offset: entry.offset }
    }
}

/// The messages from an offset on, and where reading ended.
pub(crate) struct Reading {
    pub(crate) found: Vec<Found>,
    /// Behind the last line that was read.
    pub(crate) end: u64,
}

/// Reads `from..size` of the file, which is the start of a line. A last line without its end is in the making, and read
/// only if `take_tail` says that it has rested.
pub(crate) fn read(file: &File, from: u64, size: u64, take_tail: bool) -> io::Result<Reading> {
    let mut reader = file;
    reader.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(reader.take(size.saturating_sub(from)));
    // Without a limit: what is too long for a message is refused where it is stored, and told there.
    let mut joiner = Joiner::new(usize::MAX / 2);
    let (mut found, mut line, mut end, mut number) = (Vec::new(), Vec::new(), from, 0);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if length == 0 || (!line.ends_with(b"\n") && !take_tail) {
            break;
        }
        number += 1;
        found.extend(joiner.push(number, end, &line).map(Found::from));
        end += length as u64;
    }
    found.extend(joiner.finish().map(Found::from));
    Ok(Reading { found, end })
}

/// The messages of a text.
pub(crate) fn of_text(text: &[u8]) -> Vec<Found> {
    let mut joiner = Joiner::new(usize::MAX / 2);
    let mut found: Vec<Found> = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        found.extend(joiner.push(1, 0, line).map(Found::from));
    }
    found.extend(joiner.finish().map(Found::from));
    found
}
