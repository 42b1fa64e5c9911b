//! Messages of several lines.
//!
//! A message goes on with the indented lines below it. Empty lines belong to it when an indented line follows them;
//! everything else ends it. That is more than the document's server does, which ignores continuation lines.

use crate::line::{ChatLine, is_continuation, without_ending, without_indentation};

/// A message and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The message, with its continuation lines when they were asked for.
    pub line: ChatLine,
    /// The number of its first line, from 1.
    pub line_number: u64,
    /// Where its first line begins.
    pub offset: u64,
    /// How many bytes of continuation lines were left out, because the message is as long as it may be.
    pub left_out: u64,
}

/// Makes messages of lines.
#[derive(Debug)]
pub struct Joiner {
    limit: usize,
    open: Option<Entry>,
    /// Empty lines that belong to the open message if an indented one follows.
    empty: usize,
}

impl Joiner {
    /// Joins messages up to about this many bytes. What is longer is left out and counted.
    pub fn new(limit: usize) -> Joiner {
        Joiner { limit, open: None, empty: 0 }
    }

    /// Takes the next line of the file; gives the message that it ends, if any.
    pub fn push(&mut self, line_number: u64, offset: u64, bytes: &[u8]) -> Option<Entry> {
        let bytes = without_ending(bytes);
        if let Some(open) = &mut self.open {
            if bytes.is_empty() {
                self.empty += 1;
                return None;
            }
            if is_continuation(bytes) {
                let text = without_indentation(bytes);
                let more = self.empty + 1 + text.len();
                if open.left_out > 0 || open.line.message.len() + more > self.limit {
                    open.left_out += more as u64;
                } else {
                    open.line.message.extend(std::iter::repeat_n('\n', self.empty + 1));
                    open.line.message.push_str(&String::from_utf8_lossy(text));
                }
                self.empty = 0;
                return None;
            }
        }
        let ended = self.finish();
        self.open = ChatLine::parse(bytes).map(|line| Entry { line, line_number, offset, left_out: 0 });
        ended
    }

    /// Gives the message that has not been ended by another line.
    pub fn finish(&mut self) -> Option<Entry> {
        self.empty = 0;
        self.open.take()
    }

    /// Whether a message waits for its end.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}
