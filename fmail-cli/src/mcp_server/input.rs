//! Lines from standard input.

use std::io::{self, BufRead};
use std::thread;

use fmail_api::{Error, Result};
use tokio::sync::mpsc::{Receiver, channel};

use crate::output::note;

/// The longest line: more than the largest message takes, however it is escaped.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// What came in.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A line that was too long, and was passed over.
    TooLong,
}

/// The lines of standard input, until it ends. Read by a thread that nobody waits for: it sleeps until something comes.
pub(super) fn lines() -> Result<Receiver<Line>> {
    let (sender, receiver) = channel(16);
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let sent = match next(&mut input, LONGEST) {
                Ok(Some(line)) => sender.blocking_send(line),
                Ok(None) => return,
                Err(error) => return note(&format!("cannot read standard input: {error}")),
            };
            if sent.is_err() {
                return;
            }
        }
    };
    let spawned = thread::Builder::new().name("input".into()).spawn(read);
    spawned.map_err(|error| Error::io("no thread to read standard input", &error))?;
    Ok(receiver)
}

/// The next line; nothing at the end. One without its end counts: its sender may have ended with it.
fn next(input: &mut impl BufRead, longest: usize) -> io::Result<Option<Line>> {
    let (mut line, mut length) = (Vec::new(), 0);
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if available.is_empty() {
            return Ok((length > 0).then(|| finished(line, length, longest)));
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        length += part.len();
        if length <= longest {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(finished(line, length, longest)));
        }
    }
}

fn finished(line: Vec<u8>, length: usize, longest: usize) -> Line {
    if length > longest { Line::TooLong } else { Line::Whole(line) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn lines_are_told_apart_however_they_arrive_and_a_long_one_is_passed_over() {
        let text = b"one\n\r\n12345678\n123456789\n\xff\nlast";
        for size in 1..=text.len() {
            let mut input = BufReader::with_capacity(size, &text[..]);
            let mut found = Vec::new();
            while let Some(line) = next(&mut input, 8).unwrap() {
                found.push(line);
            }
            let whole = |text: &[u8]| Line::Whole(text.to_vec());
            let expect =
                [whole(b"one"), whole(b"\r"), whole(b"12345678"), Line::TooLong, whole(b"\xff"), whole(b"last")];
            assert_eq!(found, expect, "in pieces of {size}");
        }
    }
}
