//! Reading a line.
//!
//! CHAT-PROTOCOL.md gives one expression that decides what a message is and what its parts are:
//!
//! ```text
//! ^\[([a-zA-Z0-9_-]+)-to-([a-zA-Z0-9_-]+)\](?:\s*@\s*\[([^\]]*)\])?\s*:\s*(.+)$
//! ```
//!
//! It is evaluated here by hand, because it never has to try twice: only one place can hold each bracket and the colon.
//! The two places where the order of trying shows are kept. Of several `-to-` the last one with a name on either side
//! divides them (the first group is greedy), and a text of nothing but white space is a message of its last character
//! (`.+` takes back what `\s*` took). White space is Unicode's `White_Space`, as in Rust's engine, which the document's
//! server uses. Python's `\s` adds U+001C to U+001F; that is the only difference, and `tests/python.rs` shows it.

use std::borrow::Cow;

/// What stands between the sender and the recipient.
pub const SEPARATOR: &str = "-to-";

/// A message of a chat file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChatLine {
    /// Who wrote it.
    pub sender: String,
    /// Who is expected to act.
    pub recipient: String,
    /// Who else shall see it, without the white space around the names; never an empty name.
    pub broadcast: Vec<String>,
    /// What it says. Read from one line it has no newline; [`ChatLine::to_line`] writes further lines indented.
    pub message: String,
}

impl ChatLine {
    /// Reads one line, with or without its ending (`\n` or `\r\n`); nothing when it is no message.
    ///
    /// Any bytes may come: what is not UTF-8 is replaced by U+FFFD, which only a message or a target can hold.
    pub fn parse(line: impl AsRef<[u8]>) -> Option<ChatLine> {
        let bytes = without_ending(line.as_ref());
        if bytes.first() != Some(&b'[') || bytes.contains(&b'\n') {
            return None;
        }
        let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
        let (names, rest) = text.strip_prefix('[')?.split_once(']')?;
        let (sender, recipient) = split_names(names)?;
        let (targets, rest) = match rest.trim_start().strip_prefix('@') {
            Some(rest) => rest.trim_start().strip_prefix('[')?.split_once(']')?,
            None => ("", rest),
        };
        let message = message(rest.trim_start().strip_prefix(':')?)?;
        let targets = targets.split(',').map(str::trim).filter(|target| !target.is_empty());
        Some(ChatLine {
            sender: sender.into(),
            recipient: recipient.into(),
            broadcast: targets.map(Into::into).collect(),
            message: message.into(),
        })
    }

    /// Whether the message is for this agent: as recipient or as one of the targets. Names are compared as they stand.
    pub fn is_for(&self, agent: &str) -> bool {
        self.recipient == agent || self.broadcast.iter().any(|target| target == agent)
    }
}

/// A line without its ending. A carriage return that no newline follows is part of the line.
pub fn without_ending(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
}

/// Whether a name can have this character.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Divides `sender-to-recipient` at the last `-to-` that leaves something on both sides.
fn split_names(names: &str) -> Option<(&str, &str)> {
    let bytes = names.as_bytes();
    if !bytes.iter().copied().all(is_name_byte) {
        return None;
    }
    let length = SEPARATOR.len();
    // One character before it and one behind it, at least.
    let at = (1..bytes.len().saturating_sub(length)).rev().find(|at| bytes[*at..].starts_with(SEPARATOR.as_bytes()))?;
    Some((&names[..at], &names[at + length..]))
}

/// The message in what follows the colon.
fn message(text: &str) -> Option<&str> {
    let trimmed = text.trim_start();
    if trimmed.is_empty() { text.char_indices().next_back().map(|(at, _)| &text[at..]) } else { Some(trimmed) }
}

/// Whether the line goes on with the message above it: it is indented.
pub fn is_continuation(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'\t'))
}

/// A continuation line without its ending and its indentation: a tab, or up to two spaces. What is indented further keeps
/// the rest.
pub fn without_indentation(line: &[u8]) -> &[u8] {
    let line = without_ending(line);
    match line {
        [b'\t', rest @ ..] | [b' ', b' ', rest @ ..] | [b' ', rest @ ..] => rest,
        _ => line,
    }
}
