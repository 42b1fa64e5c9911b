//! The file that an export writes and an import reads: JSON Lines.
//!
//! ```text
//! {"fmail_export":1,"project":{…},"exported":"2026-01-10T15:30:00Z"}
//! {"message":{…}}
//! {"record":{"key":"agents/bob","value":{…}}}
//! {"end":{"messages":1,"records":1,"sha256":"…"}}
//! ```
//!
//! The sum is of every byte before the last line. A file without a header is a list of messages, one a line.

use std::io::{BufRead, Read};

use fmail_api::{Error, Message, RecordKey, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// The form of file that this version writes.
pub(super) const VERSION: u64 = 1;
/// The longest line that is read: a record may have 16 MB, and escapes take room.
const MAX_LINE: u64 = 128 * 1024 * 1024;

/// The first line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) fmail_export: u64,
    #[serde(default)]
    pub(super) project: Value,
    pub(super) exported: Timestamp,
}

/// A record as it stands in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) key: RecordKey,
    pub(super) value: Value,
}

/// What the last line says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) messages: u64,
    pub(super) records: u64,
    pub(super) sha256: String,
}

/// A line of an export behind the header.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<M = Message> {
    Message(M),
    Record(Entry),
    End(End),
}

/// A sum of bytes in hexadecimal.
pub(super) fn hex(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the lines of a file, numbered, and sums them up.
pub(super) struct Reader<R> {
    from: R,
    number: u64,
    sum: Sha256,
    header: Option<Header>,
    ahead: Option<String>,
}

/// A line with its number, or why it cannot be used.
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) line: Result<Line>,
}

impl<R: BufRead> Reader<R> {
    /// Begins with the header, if the file has one.
    pub(super) fn new(from: R) -> Result<Reader<R>> {
        let mut reader = Reader { from, number: 0, sum: Sha256::new(), header: None, ahead: None };
        let Some(first) = reader.text()? else { return Ok(reader) };
        match serde_json::from_str::<Value>(&first) {
            Ok(value) if value.get("fmail_export").is_some() => {
                let header: Header = serde_json::from_value(value)
                    .map_err(|error| at(1, Error::invalid(format!("the header cannot be used: {error}"))))?;
                if header.fmail_export != VERSION {
                    let text = format!("this is an export of form {}; {VERSION} is known", header.fmail_export);
                    return Err(at(
                        1,
                        Error::invalid(text).help("import it with the fmail that wrote it, or a newer one"),
                    ));
                }
                reader.add(&first);
                reader.header = Some(header);
            }
            _ => reader.ahead = Some(first),
        }
        Ok(reader)
    }

    /// Whether the file is an export, with records and an end.
    pub(super) fn is_export(&self) -> bool {
        self.header.is_some()
    }

    /// The project that was exported.
    pub(super) fn project(&self) -> Option<&Value> {
        self.header.as_ref().map(|header| &header.project).filter(|project| project.is_object())
    }

    /// The next line; nothing at the end. An error is about the file, not about a line.
    pub(super) fn next(&mut self) -> Result<Option<Numbered>> {
        loop {
            let text = match self.ahead.take() {
                Some(text) => text,
                None => match self.text()? {
                    Some(text) => text,
                    None => return Ok(None),
                },
            };
            let number = self.number;
            if self.header.is_none() {
                if text.trim().is_empty() {
                    continue;
                }
                let line = message(&text).map(Line::Message).map_err(|error| at(number, error));
                return Ok(Some(Numbered { number, line }));
            }
            let line = wrapped(&text).map_err(|error| at(number, error));
            if !matches!(line, Ok(Line::End(_))) {
                self.add(&text);
            }
            return Ok(Some(Numbered { number, line }));
        }
    }

    /// The sum of everything before the last line.
    pub(super) fn sum(&self) -> String {
        hex(self.sum.clone())
    }

    fn add(&mut self, line: &str) {
        self.sum.update(line.as_bytes());
        self.sum.update(b"\n");
    }

    /// A line without its end.
    fn text(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        let failed = |error: std::io::Error| Error::io("cannot read what is to be imported", &error);
        let length = (&mut self.from).take(MAX_LINE).read_until(b'\n', &mut bytes).map_err(failed)?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if length as u64 == MAX_LINE {
            return Err(at(self.number, Error::invalid(format!("the line is longer than {MAX_LINE} bytes"))));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| at(self.number, Error::invalid("the line is not UTF-8")))
    }
}

fn message(text: &str) -> Result<Message> {
    let value = serde_json::from_str(text).map_err(|error| Error::invalid(format!("this is not JSON: {error}")))?;
    Message::from_value(value, None, None)
}

fn wrapped(text: &str) -> Result<Line> {
    // Raw, so that a message may be nested as deeply here as on a line of its own.
    let line: Line<Box<RawValue>> = serde_json::from_str(text).map_err(|error| {
        Error::invalid(format!("this is no line of an export: {error}"))
            .help("each line is an object with `message`, `record` or, at last, `end`")
    })?;
    Ok(match line {
        Line::Message(raw) => Line::Message(message(raw.get())?),
        Line::Record(entry) => Line::Record(entry),
        Line::End(end) => Line::End(end),
    })
}

/// The error with the number of its line before it.
pub(super) fn at(number: u64, error: Error) -> Error {
    error.context("line", format_args!("line {number}"))
}
