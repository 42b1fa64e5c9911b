//! The same bytes give the same lines, however they are cut into pieces, and cost no more than they may.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use fmail_fuzz::{Dice, fuzz, mutated, requests};
use fmail_transports::wire::{Line, LineReader};
use futures::FutureExt;
use tokio::io::{AsyncRead, ReadBuf};

use crate::shown;

/// Gives its bytes piece by piece; where a length is 0 there is nothing yet. Nobody is woken: the test asks again.
struct Pieces<'a> {
    bytes: &'a [u8],
    lengths: VecDeque<usize>,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(length) = self.lengths.pop_front() else { return Poll::Ready(Ok(())) };
        if length == 0 {
            return Poll::Pending;
        }
        let (piece, rest) = self.bytes.split_at(length.min(buffer.remaining()));
        buffer.put_slice(piece);
        self.bytes = rest;
        if piece.len() < length {
            self.lengths.push_front(length - piece.len());
        }
        Poll::Ready(Ok(()))
    }
}

/// Cuts bytes into pieces of up to `longest` bytes.
fn pieces<'a>(dice: &mut Dice, bytes: &'a [u8], longest: usize) -> Pieces<'a> {
    let (mut lengths, mut left) = (VecDeque::new(), bytes.len());
    while left > 0 {
        let length = (1 + dice.roll(longest)).min(left);
        if dice.roll(2) == 0 {
            lengths.push_back(0);
        }
        lengths.push_back(length);
        left -= length;
    }
    Pieces { bytes, lengths }
}

/// Everything that a reader makes of these pieces. Whenever it has to wait it is given up and asked anew, which must lose
/// nothing, and what it holds is looked at.
fn read(pieces: Pieces<'_>, limit: usize) -> Vec<Line> {
    const CHUNK: usize = 8 * 1024;
    let (mut reader, mut lines) = (LineReader::new(pieces, limit), Vec::new());
    while lines.last() != Some(&Line::End) {
        let line = reader.next().now_or_never();
        assert!(reader.held() <= limit + CHUNK, "{} bytes are held, the limit is {limit}", reader.held());
        let Some(line) = line else { continue };
        let line = line.expect("the source does not fail");
        if let Line::Whole(line) = &line {
            assert!(line.len() <= limit, "a line of {} bytes, the limit is {limit}", line.len());
        }
        lines.push(line);
    }
    lines
}

/// What the lines of these bytes are, said in the simplest way.
fn expected(bytes: &[u8], limit: usize) -> Vec<Line> {
    let mut parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let rest = parts.pop().unwrap_or_default();
    let line = |part: &[u8]| if part.len() > limit { Line::TooLong } else { Line::Whole(part.to_vec()) };
    let mut lines: Vec<Line> = parts.into_iter().map(line).collect();
    match rest.len() {
        0 => {}
        length if length > limit => lines.push(Line::TooLong),
        _ => lines.push(Line::CutOff),
    }
    lines.push(Line::End);
    lines
}

#[test]
fn any_division_into_pieces_gives_the_same_lines() {
    let corpus = requests();
    fuzz(|dice| {
        let mut bytes = Vec::new();
        for _ in 0..dice.roll(8) {
            bytes.extend(mutated(dice, &corpus));
            bytes.extend_from_slice(dice.pick(&[b"\n".as_slice(), b"\r\n", b"\n\n", b""]));
        }
        // Now and then a line that is far beyond every limit.
        if dice.roll(20) == 0 {
            bytes.extend(std::iter::repeat_n(b'x', dice.roll(400_000)));
            bytes.push(b'\n');
        }
        let limit = dice.pick(&[1, 60, 300, 5_000, 100_000, 1_000_000]);
        let lines = expected(&bytes, limit);
        let shortest = 1 + bytes.len() / 2_000;
        for longest in [shortest, 700.max(shortest), 100_000] {
            let found = read(pieces(dice, &bytes, longest), limit);
            assert!(found == lines, "with limit {limit} {} gave {found:?}", shown(&bytes));
        }
    });
}
