//! Bytes into lines, with flat memory: a line that is longer than it may be is counted and not kept.

use memchr::memchr;

use crate::line::without_ending;

/// A line as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Where it begins.
    pub(crate) offset: u64,
    /// Where the next one begins.
    pub(crate) end: u64,
    /// What it says, without its ending; the beginning of it when it is too long.
    pub(crate) bytes: &'a [u8],
    /// Whether only the beginning was kept.
    pub(crate) too_long: bool,
}

/// Takes blocks and gives lines.
#[derive(Debug)]
pub(crate) struct Splitter {
    max_line: usize,
    /// How many lines have ended.
    ended: u64,
    /// Where the line begins that has not ended.
    offset: u64,
    /// What there is of it, at most one byte more than a line may have.
    partial: Vec<u8>,
    /// How many bytes there are of it.
    length: u64,
}

impl Splitter {
    /// Starts behind `ended` lines, at this offset.
    pub(crate) fn new(max_line: usize, ended: u64, offset: u64) -> Splitter {
        Splitter { max_line, ended, offset, partial: Vec::new(), length: 0 }
    }

    /// Where the next byte is to be read.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.length
    }

    /// Where the line begins that has not ended.
    pub(crate) fn line_start(&self) -> u64 {
        self.offset
    }

    /// The line that has not ended; nothing when there is not a byte of it.
    pub(crate) fn partial(&self) -> Option<Raw<'_>> {
        let raw = Raw {
            number: self.ended + 1,
            offset: self.offset,
            end: self.position(),
            bytes: &self.partial,
            too_long: self.length > self.max_line as u64,
        };
        (self.length > 0).then_some(raw)
    }

    /// Takes the next bytes and gives each line that ends in them.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut sink: impl FnMut(Raw<'_>)) {
        while let Some(at) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(at + 1);
            bytes = rest;
            self.ended += 1;
            let end = self.offset + self.length + line.len() as u64;
            let (number, offset) = (self.ended, self.offset);
            if self.length == 0 {
                self.sink(Raw { number, offset, end, bytes: line, too_long: false }, &mut sink);
            } else {
                self.keep(line);
                let partial = std::mem::take(&mut self.partial);
                self.sink(Raw { number, offset, end, bytes: &partial, too_long: false }, &mut sink);
                // The buffer is used again unless it was an unusually large one.
                if partial.capacity() <= crate::count::BLOCK {
                    self.partial = partial;
                    self.partial.clear();
                }
            }
            (self.offset, self.length) = (end, 0);
        }
        self.keep(bytes);
        self.length += bytes.len() as u64;
    }

    /// Hands on a line without its ending, or the beginning of it.
    fn sink(&self, raw: Raw<'_>, sink: &mut impl FnMut(Raw<'_>)) {
        let bytes = without_ending(raw.bytes);
        let length = raw.end - raw.offset;
        // What was not kept has no ending to remove.
        let too_long = bytes.len() > self.max_line || length > self.max_line as u64 + 2;
        sink(Raw { bytes: &bytes[..bytes.len().min(self.max_line)], too_long, ..raw });
    }

    fn keep(&mut self, bytes: &[u8]) {
        // Two more than a line may have: its ending.
        let room = (self.max_line + 2).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Found = Vec<(u64, u64, u64, Vec<u8>, bool)>;

    fn split(max_line: usize, blocks: &[&[u8]]) -> (Found, Vec<u8>) {
        let mut splitter = Splitter::new(max_line, 0, 0);
        let mut found = Vec::new();
        for block in blocks {
            splitter.feed(block, |raw| {
                found.push((raw.number, raw.offset, raw.end, raw.bytes.to_vec(), raw.too_long));
            });
        }
        let rest = splitter.partial().map(|raw| raw.bytes.to_vec()).unwrap_or_default();
        (found, rest)
    }

    #[test]
    fn lines_end_with_a_newline_wherever_the_blocks_end() {
        let (found, rest) = split(100, &[b"a\nb", b"", b"c\r", b"\n\n", b"d"]);
        let expected: Found =
            vec![(1, 0, 2, b"a".to_vec(), false), (2, 2, 6, b"bc".to_vec(), false), (3, 6, 7, b"".to_vec(), false)];
        assert_eq!((found, rest), (expected, b"d".to_vec()));
    }

    #[test]
    fn a_line_that_is_too_long_is_told_with_its_beginning_and_the_next_one_is_whole() {
        for blocks in [&[&b"12345\n123456\nx\n"[..]][..], &[b"123", b"45\r\n12345", b"6\nx\n"]] {
            let (found, _) = split(5, blocks);
            let found: Vec<_> = found.iter().map(|(_, _, _, bytes, long)| (bytes.as_slice(), *long)).collect();
            assert_eq!(found, [(&b"12345"[..], false), (b"12345", true), (b"x", false)]);
        }
    }

    proptest! {
        #[test]
        fn blocks_make_no_difference(
            text in prop::collection::vec(prop::sample::select(b"\n\rab[".as_slice()), 0..200),
            cuts in prop::collection::vec(0usize..200, 0..8),
            max_line in 1usize..12,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let blocks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let (whole, (in_blocks, _)) = (split(max_line, &[&text]), split(max_line, &blocks));
            prop_assert_eq!(&whole.0, &in_blocks);
            let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).collect();
            prop_assert_eq!(lines.len(), whole.0.len());
            for (line, (_, offset, end, bytes, too_long)) in lines.iter().zip(&whole.0) {
                prop_assert_eq!((end - offset) as usize, line.len());
                let content = without_ending(line);
                prop_assert_eq!(*too_long, content.len() > max_line);
                prop_assert_eq!(&bytes[..], &content[..content.len().min(max_line)]);
            }
        }
    }
}
