//! What a child prints, cut into lines.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// So much is read at once.
const CHUNK: usize = 64 * 1024;

/// Bytes on their way to be lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Up to here lines have been taken.
    taken: usize,
    /// Up to here there is no line break behind `taken`.
    searched: usize,
}

/// How a read ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Something came.
    Some,
    /// Nothing is there at present.
    Nothing,
    /// Nothing comes any more.
    End,
}

impl Lines {
    /// Reads what is there, a chunk at most.
    pub(super) fn fill(&mut self, from: impl AsFd) -> Filled {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        let before = self.bytes.len();
        self.bytes.resize(before + CHUNK, 0);
        let read = loop {
            match rustix::io::read(&from, &mut self.bytes[before..]) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(1..) => Filled::Some,
            Err(Errno::AGAIN) => Filled::Nothing,
            // A pipe that cannot be read brings nothing any more.
            Ok(0) | Err(_) => Filled::End,
        }
    }

    /// The next whole line, without its break.
    pub(super) fn next(&mut self) -> Option<Range<usize>> {
        match self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let line = self.taken..self.searched + at;
                self.taken = line.end + 1;
                self.searched = self.taken;
                Some(line)
            }
            None => {
                self.searched = self.bytes.len();
                None
            }
        }
    }

    /// The bytes of a line that [`Lines::next`] gave; good until more is read.
    pub(super) fn line(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// What has come since the last line break.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Forgets what has come since the last line break.
    pub(super) fn forget_rest(&mut self) {
        self.bytes.clear();
        (self.taken, self.searched) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_whole_however_they_were_cut() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for part in ["on", "e\ntw", "o\n\nfour\nfi", "ve", "\n", "rest"] {
            writer.write_all(part.as_bytes()).unwrap();
            assert_eq!(lines.fill(&reader), Filled::Some);
            while let Some(range) = lines.next() {
                found.push(String::from_utf8(lines.line(range).to_vec()).unwrap());
            }
        }
        drop(writer);
        assert_eq!(lines.fill(&reader), Filled::End);
        assert_eq!(found, ["one", "two", "", "four", "five"]);
        assert_eq!(lines.rest(), b"rest");
    }
}
