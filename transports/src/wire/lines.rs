//! Lines of bounded length out of a stream of bytes.

use std::io;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at a time.
const CHUNK: usize = 8 * 1024;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// A line that is longer than the limit. Told as soon as that is known; its rest is skipped.
    TooLong,
    /// The peer stopped in the middle of a line: what it wanted to say is not known.
    CutOff,
    /// The peer has nothing more to say.
    End,
}

/// Reads lines. Never holds more than the limit and one chunk, whatever the peer sends.
pub struct LineReader<R> {
    source: R,
    /// What was read and not taken yet.
    buffer: Vec<u8>,
    /// How much of the buffer is known to hold no end of a line.
    searched: usize,
    limit: usize,
    /// The rest of a line that was too long is being skipped.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes.
    pub fn new(source: R, limit: usize) -> Self {
        LineReader { source, buffer: Vec::new(), searched: 0, limit, skipping: false }
    }

    /// Reads lines of at most so many bytes from here on; gives what it was.
    pub fn limit(&mut self, limit: usize) -> usize {
        std::mem::replace(&mut self.limit, limit)
    }

    /// The next line. Dropping the future loses nothing.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            if let Some(line) = self.buffered() {
                return Ok(line);
            }
            self.make_room();
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                let cut_off = !self.buffer.is_empty();
                self.buffer = Vec::new();
                self.searched = 0;
                return Ok(if cut_off { Line::CutOff } else { Line::End });
            }
        }
    }

    /// Makes room for a chunk behind what was read, which is never more than the limit here. The buffer doubles, so that a
    /// long line is not copied for every chunk, but not beyond the limit and a chunk.
    fn make_room(&mut self) {
        let read = self.buffer.len();
        if self.buffer.capacity() - read < CHUNK {
            let most = self.limit.saturating_add(CHUNK);
            let wanted = (2 * read).min(most).max(read + CHUNK);
            self.buffer.reserve_exact(wanted - read);
        }
    }

    /// How much memory is held for what the peer has sent.
    pub fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// A line that is here already.
    pub fn buffered(&mut self) -> Option<Line> {
        loop {
            let end = memchr(b'\n', &self.buffer[self.searched..]);
            let Some(end) = end.map(|place| self.searched + place) else {
                self.searched = self.buffer.len();
                if self.skipping {
                    self.take(self.buffer.len());
                } else if self.buffer.len() > self.limit {
                    self.skipping = true;
                    self.take(self.buffer.len());
                    return Some(Line::TooLong);
                }
                return None;
            };
            let mut line = self.take(end + 1);
            line.pop();
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            return Some(if line.len() > self.limit { Line::TooLong } else { Line::Whole(line) });
        }
    }

    /// Takes the first `count` bytes. A large buffer is given away with its line, so that an idle peer costs little; one of the
    /// usual size stays for the next line.
    fn take(&mut self, count: usize) -> Vec<u8> {
        if self.buffer.capacity() <= 2 * CHUNK {
            self.searched = 0;
            let line = self.buffer[..count].to_vec();
            self.buffer.drain(..count);
            return line;
        }
        let rest = self.buffer.split_off(count);
        self.searched = 0;
        std::mem::replace(&mut self.buffer, rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads everything that comes in these pieces.
    fn read(pieces: &[&[u8]], limit: usize) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut near, far) = tokio::io::duplex(64);
            let write = async move {
                for piece in pieces {
                    tokio::io::AsyncWriteExt::write_all(&mut near, piece).await.unwrap();
                }
            };
            let take = async move {
                let (mut reader, mut lines) = (LineReader::new(far, limit), Vec::new());
                loop {
                    let line = reader.next().await.unwrap();
                    assert!(reader.held() <= limit + CHUNK);
                    let last = line == Line::End;
                    lines.push(line);
                    if last {
                        return lines;
                    }
                }
            };
            futures::join!(write, take).1
        })
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[test]
    fn lines_are_put_together_and_taken_apart() {
        assert_eq!(read(&[b"a", b"b\nc", b"d\n", b"\n"], 10), [whole("ab"), whole("cd"), whole(""), Line::End]);
    }

    #[test]
    fn a_line_over_the_limit_is_told_once_and_the_next_one_read() {
        let long = vec![b'x'; 100_000];
        assert_eq!(read(&[b"a\n", &long, b"\nb\n"], 10), [whole("a"), Line::TooLong, whole("b"), Line::End]);
        assert_eq!(
            read(&[b"1234567890\n12345678901\nb\n"], 10),
            [whole("1234567890"), Line::TooLong, whole("b"), Line::End]
        );
    }

    #[test]
    fn the_middle_of_a_line_is_no_line() {
        assert_eq!(read(&[b"a\nb"], 10), [whole("a"), Line::CutOff, Line::End]);
    }

    proptest! {
        #[test]
        fn any_division_into_pieces_gives_the_same_lines(
            text in "[ab\n]{0,60}",
            cuts in proptest::collection::vec(0usize..60, 0..6),
            limit in 1usize..8,
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let lines = read(&pieces, limit);
            let mut expected: Vec<Line> = Vec::new();
            let mut parts: Vec<&str> = text.split('\n').collect();
            let rest = parts.pop().unwrap_or_default();
            let shown = |part: &str| if part.len() > limit { Line::TooLong } else { whole(part) };
            expected.extend(parts.into_iter().map(shown));
            match rest.len() {
                0 => {}
                n if n > limit => expected.push(Line::TooLong),
                _ => expected.push(Line::CutOff),
            }
            expected.push(Line::End);
            prop_assert_eq!(lines, expected);
        }
    }
}
