//! What has been read, remembered well enough to find the place again in another file.
//!
//! A chat file can be replaced by one that holds what it held: an editor saved it, old messages were archived, somebody
//! rewrote it. What was read must not be read again then. A new file that has nothing to do with the old one is read from
//! its start. The difference is in the text alone, because editors, `mv` and `rm` look alike from outside. So the last
//! lines that were read are remembered by their hashes, and looked for.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;

use crate::count::BLOCK;
use crate::line::ChatLine;
use crate::split::{Raw, Splitter};

/// How many lines are remembered.
const LINES: usize = 256;
/// How many of the last bytes are remembered as they are.
const BYTES: usize = 1024;

/// The end of what has been read.
#[derive(Debug, Default, Clone)]
pub(crate) struct History {
    /// The hashes of the last lines that are not blank, the oldest first.
    lines: Vec<u64>,
    /// The last bytes.
    recent: Vec<u8>,
    /// Where they end.
    offset: u64,
}

/// A place in a file, between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// How many lines are before it.
    pub(crate) lines: u64,
    /// How many bytes are before it.
    pub(crate) offset: u64,
}

impl History {
    /// Whether nothing has been read that could be found again.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The last bytes that were read.
    pub(crate) fn recent(&self) -> &[u8] {
        &self.recent
    }

    /// Takes bytes that were read.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        let keep = BYTES.saturating_sub(bytes.len()).min(self.recent.len());
        self.recent.drain(..self.recent.len() - keep);
        self.recent.extend_from_slice(&bytes[bytes.len().saturating_sub(BYTES)..]);
    }

    /// Takes a line that was read.
    pub(crate) fn line(&mut self, raw: Raw<'_>) {
        if let Some(hash) = hash(raw) {
            // Rarely, instead of one line at a time: what moves is the rest.
            if self.lines.len() >= 2 * LINES {
                self.lines.drain(..LINES);
            }
            self.lines.push(hash);
        }
    }

    /// What has been read of a file when its first `offset` bytes have.
    pub(crate) fn load(file: &File, max_line: usize, offset: u64) -> io::Result<History> {
        let from = offset.saturating_sub(BLOCK as u64);
        let mut block = vec![0; (offset - from) as usize];
        file.read_exact_at(&mut block, from)?;
        let mut history = History { offset: from, ..History::default() };
        history.read(&block);
        let mut splitter = Splitter::new(max_line, 0, from);
        // The first line of the block may have begun before it.
        let mut whole = from == 0;
        splitter.feed(&block, |raw| {
            if whole {
                history.line(raw);
            }
            whole = true;
        });
        Ok(history)
    }

    /// Whether the file has at the same place what was read last.
    pub(crate) fn stands_in(&self, file: &File) -> io::Result<bool> {
        let mut found = vec![0; self.recent.len()];
        match file.read_exact_at(&mut found, self.offset - self.recent.len() as u64) {
            Ok(()) => Ok(found == self.recent),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Looks for what was read in another file, or in the same one after it was written anew; where to go on, and nothing
    /// when it is not there.
    ///
    /// The last line that was read is looked for first, with as many as possible of those before it; it alone is enough
    /// when it is all that was read, or when it is the first message of the file, below a title. Where it was changed, at least half of what is
    /// remembered must be there in one piece.
    pub(crate) fn find(&self, file: &File, max_line: usize) -> io::Result<Option<Place>> {
        let lines = &self.lines[self.lines.len().saturating_sub(LINES)..];
        let known: HashSet<u64> = lines.iter().copied().collect();
        // For each remembered line: how many in a row, up to it, have just been seen.
        let (mut runs, mut next) = (vec![0usize; lines.len()], vec![0usize; lines.len()]);
        let (mut at_end, mut anywhere) = ((0, None), (0, None));
        let (mut first, mut no_message, mut begins_with_last) = (true, true, None);
        for_each_line(file, max_line, |raw| {
            let Some(hash) = hash(raw) else { return };
            let place = Place { lines: raw.number, offset: raw.end };
            let is_message = ChatLine::parse(raw.bytes).is_some();
            let begins = std::mem::take(&mut first) || (no_message && is_message);
            no_message &= !is_message;
            if begins && lines.last() == Some(&hash) {
                begins_with_last = Some(place);
            }
            if !known.contains(&hash) {
                runs.fill(0);
                return;
            }
            for (at, line) in lines.iter().enumerate() {
                let before = if at == 0 { 0 } else { runs[at - 1] };
                next[at] = if *line == hash { before + 1 } else { 0 };
                longest(&mut anywhere, next[at], place, self.offset);
            }
            longest(&mut at_end, next.last().copied().unwrap_or(0), place, self.offset);
            std::mem::swap(&mut runs, &mut next);
        })?;
        if at_end.0 >= 2 || at_end.0 == lines.len() {
            return Ok(at_end.1);
        }
        if begins_with_last.is_some() {
            return Ok(begins_with_last);
        }
        Ok(anywhere.1.filter(|_| anywhere.0 * 2 >= lines.len()))
    }
}

/// Keeps the longest run. Of equal ones, as in a file that says the same over and over, it is the last that is not behind
/// the place that was read up to.
fn longest(best: &mut (usize, Option<Place>), run: usize, place: Place, read_up_to: u64) {
    if run > best.0 || (run > 0 && run == best.0 && place.offset <= read_up_to) {
        *best = (run, Some(place));
    }
}

/// What a line is remembered by; nothing for a blank one, which says nothing about where it stands.
fn hash(raw: Raw<'_>) -> Option<u64> {
    let text = raw.bytes.trim_ascii_end();
    if text.is_empty() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    if raw.too_long {
        hasher.write_u64(raw.end - raw.offset);
    }
    Some(hasher.finish())
}

fn for_each_line(file: &File, max_line: usize, mut each: impl FnMut(Raw<'_>)) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut splitter = Splitter::new(max_line, 0, 0);
    loop {
        match file.read_at(&mut block, splitter.position()) {
            Ok(0) => return Ok(()),
            Ok(length) => splitter.feed(&block[..length], &mut each),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const MAX: usize = 1000;

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    /// What would be read of the new file after the old one has been read.
    fn unread(old: &str, new: &str) -> Option<String> {
        let history = History::load(&file(old), MAX, old.len() as u64).unwrap();
        let found = history.find(&file(new), MAX).unwrap()?;
        assert_eq!(found.lines as usize, new[..found.offset as usize].matches('\n').count());
        Some(new[found.offset as usize..].to_string())
    }

    #[track_caller]
    fn check(old: &str, new: &str, expected: Option<&str>) {
        assert_eq!(unread(old, new).as_deref(), expected);
    }

    #[test]
    fn a_copy_with_more_in_it_goes_on() {
        check("a\n", "a\nb\n", Some("b\n"));
        check("a\nb\nc\n", "a\nb\nc\nd\n", Some("d\n"));
        check("a\nb\nc\n", "a\nb\nc\n", Some(""));
        check("a\r\nb\r\n", "a\nb\nc\n", Some("c\n"));
    }

    #[test]
    fn what_was_kept_of_an_archived_file_is_not_read_again() {
        check("a\nb\nc\nd\n", "c\nd\ne\n", Some("e\n"));
        check("a\nb\nc\nd\n", "d\ne\n", Some("e\n"));
        check("a\nb\nc\nd\n", "# archived\n\nc\nd\ne\n", Some("e\n"));
        let old = "# Team chat\n\n[a-to-b]: 1\n[a-to-b]: 2\n[a-to-b]: 3\n";
        check(old, "# Team chat\n\n[a-to-b]: 3\n[a-to-b]: 4\n", Some("[a-to-b]: 4\n"));
        check(old, "# Team chat\n\n[b-to-a]: new\n[a-to-b]: 3\n", None);
    }

    #[test]
    fn an_edited_line_is_read_and_those_before_it_are_not() {
        check("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n", Some("e\n"));
        check("a\nb\nc\nd\n", "a\nb\nc\nD\ne\n", Some("D\ne\n"));
        check("a\nb\n", "a\nB\nc\n", Some("B\nc\n"));
    }

    #[test]
    fn a_file_with_other_text_is_new() {
        check("a\nb\nc\nd\n", "x\ny\n", None);
        check("# chat\nb\nc\nd\n", "# chat\nx\n", None);
        check("a\nb\nc\nd\n", "x\nd\ny\n", None);
        check("a\n\n\n\nb\n", "x\n\n\n\ny\n", None);
    }

    #[test]
    fn what_is_said_again_is_read() {
        check("p\nq\np\nq\n", "p\nq\np\nq\np\nq\n", Some("p\nq\n"));
        check("x\np\nq\n", "x\np\nq\np\nq\n", Some("p\nq\n"));
    }

    #[test]
    fn only_the_end_of_a_long_file_is_remembered() {
        let old: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
        check(&old, &format!("{old}more\n"), Some("more\n"));
        let kept = old.split_once("line 9990\n").unwrap().1;
        check(&old, &format!("{kept}more\n"), Some("more\n"));
        let edited = old.replace("line 9998\n", "line changed\n");
        check(&old, &format!("{edited}more\n"), Some("line changed\nline 9999\nmore\n"));
        assert!(History::load(&file(&old), MAX, old.len() as u64).unwrap().lines.len() <= 2 * LINES);
    }

    #[test]
    fn the_same_place_is_known_by_what_stands_before_it() {
        let mut history = History::default();
        for piece in ["a\nb", "", "b\n", &"c".repeat(3000), "\n"] {
            history.read(piece.as_bytes());
        }
        let text = format!("a\nbb\n{}\n", "c".repeat(3000));
        assert_eq!(history.offset as usize, text.len());
        assert!(history.stands_in(&file(&format!("{text}more"))).unwrap());
        assert!(!history.stands_in(&file(&text[1..])).unwrap());
        assert!(!history.stands_in(&file(&text.replace("c\n", "d\n"))).unwrap());
    }
}
