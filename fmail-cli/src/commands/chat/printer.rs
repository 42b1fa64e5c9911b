//! The messages of a chat file as lines of JSON.

use std::path::Path;

use fmail_api::Timestamp;
use fmail_chat_file::line::{is_continuation, without_ending};
use fmail_chat_file::{Change, ChatLine, Entry, Item, Joiner, Line};
use serde::Serialize;

use crate::output::{Outcome, Output, advise, note};
use crate::session::now;

/// A message as CHAT-PROTOCOL.md prints it, in its order.
#[derive(Serialize)]
struct Detected<'a> {
    timestamp: String,
    sender: &'a str,
    recipient: &'a str,
    broadcast: &'a [String],
    message: &'a str,
    line_number: u64,
}

/// Prints messages, and tells what else is found.
pub(super) struct Printer {
    output: Output,
    /// What the file is called in notes.
    file: String,
    only_for: Option<String>,
    /// Joins messages of several lines, if that is wanted.
    joiner: Option<Joiner>,
    /// How many messages may still be printed.
    left: Option<u64>,
    /// The last line that was looked at.
    last: u64,
    /// The message of a line that was printed before its newline came.
    unended: Option<ChatLine>,
    /// The line of a message that was printed because the file rested, as long as further lines of it could come.
    rested: Option<u64>,
}

impl Printer {
    /// Prints the messages for this agent, or all; with `multiline`, joined up to so many bytes; `count` of them at most.
    pub(super) fn new(path: &Path, only_for: Option<String>, multiline: Option<usize>, count: Option<u64>) -> Printer {
        Printer {
            output: Output::stdout(),
            file: path.display().to_string(),
            only_for,
            joiner: multiline.map(Joiner::new),
            left: count,
            last: 0,
            unended: None,
            rested: None,
        }
    }

    /// Prints the messages among these, at once; whether the count is reached.
    pub(super) fn take(&mut self, items: &mut Vec<Item>) -> Outcome<bool> {
        for item in items.drain(..) {
            match item {
                Item::Line(line) => self.line(line)?,
                Item::TooLong { number, length, allowed, .. } => {
                    self.close()?;
                    note(&format!(
                        "{}: line {number} has {length} bytes, and {allowed} are read at most; it is not printed",
                        self.file
                    ));
                }
                Item::Change(change) => {
                    self.close()?;
                    self.tell(&change);
                }
            }
            if self.is_done() {
                break;
            }
        }
        self.output.flush()?;
        Ok(self.is_done())
    }

    /// Whether a message waits for further lines of it.
    pub(super) fn has_open(&self) -> bool {
        self.joiner.as_ref().is_some_and(Joiner::is_open)
    }

    /// Prints the message that waits for further lines, because none have come; whether the count is reached.
    pub(super) fn rest(&mut self) -> Outcome<bool> {
        if let Some(entry) = self.joiner.as_mut().and_then(Joiner::finish) {
            self.rested = Some(entry.line_number);
            self.entry(&entry)?;
        }
        self.output.flush()?;
        Ok(self.is_done())
    }

    /// Prints what is left when the time is over.
    pub(super) fn finish(&mut self) -> Outcome {
        self.close()?;
        self.output.flush()
    }

    /// The same when the file has more that was not looked at.
    pub(super) fn cut_short(&mut self) -> Outcome {
        self.finish()?;
        note(&format!("{}: the time is over, and not all lines were looked at", self.file));
        advise(&format!("go on with --since-line {}, or with more time", self.last));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    fn line(&mut self, line: Line) -> Outcome {
        self.last = line.number;
        let message = ChatLine::parse(&line.bytes);
        let before = self.unended.take();
        if line.again && before.is_some() {
            if message == before {
                return Ok(());
            }
            note(&format!(
                "{}: line {} went on after it was printed; it is printed again, whole",
                self.file, line.number
            ));
        }
        if !line.ended {
            self.unended = message.clone();
        }
        if self.joiner.is_some() {
            return self.join(&line);
        }
        match message {
            Some(message) => {
                let entry = Entry { line: message, line_number: line.number, offset: line.offset, left_out: 0 };
                self.entry(&entry)
            }
            None => Ok(()),
        }
    }

    fn join(&mut self, line: &Line) -> Outcome {
        if let Some(rested) = self.rested.filter(|_| !without_ending(&line.bytes).is_empty()) {
            if is_continuation(&line.bytes) {
                note(&format!(
                    "{}: line {} belongs to the message of line {rested}, which was printed when the file rested",
                    self.file, line.number
                ));
                return Ok(());
            }
            self.rested = None;
        }
        let ended = self.joiner.as_mut().and_then(|joiner| joiner.push(line.number, line.offset, &line.bytes));
        ended.map_or(Ok(()), |entry| self.entry(&entry))
    }

    /// Prints the message that waits for further lines: there will be none.
    fn close(&mut self) -> Outcome {
        self.rested = None;
        let open = self.joiner.as_mut().and_then(Joiner::finish);
        open.map_or(Ok(()), |entry| self.entry(&entry))
    }

    fn entry(&mut self, entry: &Entry) -> Outcome {
        let Entry { line, line_number, left_out, .. } = entry;
        if self.is_done() || self.only_for.as_ref().is_some_and(|agent| !line.is_for(agent)) {
            return Ok(());
        }
        if *left_out > 0 {
            note(&format!(
                "{}: the message of line {line_number} goes on for {left_out} more bytes than are joined",
                self.file
            ));
        }
        self.output.json(&Detected {
            timestamp: milliseconds(now()),
            sender: &line.sender,
            recipient: &line.recipient,
            broadcast: &line.broadcast,
            message: &line.message,
            line_number: *line_number,
        })?;
        self.left = self.left.map(|left| left - 1);
        Ok(())
    }

    fn tell(&self, change: &Change) {
        let file = &self.file;
        note(&match change {
            Change::Missing => format!("{file} does not exist; waiting for it"),
            Change::New => format!("{file} was emptied or is another file now; reading it from its first line"),
            Change::Shorter { lines, skipped } => format!(
                "{file} has no line {skipped}, its last is line {lines}, so it is not the file that it was; reading it from \
                 its first line"
            ),
            Change::Polling(reason) => reason.clone(),
        });
    }
}

/// ISO 8601 in UTC with three digits behind the seconds, as the document shows it.
fn milliseconds(time: Timestamp) -> String {
    let seconds = time.whole_seconds().to_string();
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), time.subsec_nanos() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_behind_the_seconds() {
        for (nanos, digits) in [(0, "000"), (1_999_999, "001"), (123_456_789, "123"), (999_999_999, "999")] {
            let time = Timestamp::from_unix(1_771_322_700, nanos);
            assert_eq!(milliseconds(time), format!("2026-02-17T10:05:00.{digits}Z"));
        }
    }
}
