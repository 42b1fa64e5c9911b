//! What stands in the log.

use std::fmt;

use fmail_api::{Error, ErrorKind, Message, MessageId, RecordKey, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// The layout of entries that this version writes.
const FORMAT: u64 = 1;

/// One entry of the log; the module's documentation shows each as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    /// The first entry: which log this is.
    Header { epoch: String },
    /// A message that was appended here.
    Message(Message),
    /// A message that came from elsewhere with its id.
    Imported(Message),
    /// A record, as it is from here on.
    Record { key: RecordKey, value: Value },
    /// A record is gone from here on.
    RecordDeleted(RecordKey),
    /// These messages are gone from here on.
    Removed(Vec<MessageId>),
}

/// The content of `record`.
#[derive(Deserialize)]
struct RecordEntry {
    key: RecordKey,
    value: Value,
}

const MESSAGE: &str = "{\"message\":";
const IMPORTED: &str = "{\"imported\":";

impl Entry {
    /// Reads an entry. A log of a newer layout is `invalid_project`; anything else that cannot be used is `corrupt`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        // Messages are read from where they stand, not out of the object around them: that is most of the log, and a
        // body may be nested as deeply as a JSON reader follows.
        let inside = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix('}');
        if let Some(message) = inside(MESSAGE).and_then(|text| serde_json::from_str(text).ok()) {
            return Ok(Entry::Message(message));
        }
        if let Some(message) = inside(IMPORTED).and_then(|text| serde_json::from_str(text).ok()) {
            return Ok(Entry::Imported(message));
        }
        let value = serde_json::from_str(text).map_err(|error| broken(format!("it is not JSON: {error}")))?;
        let Value::Object(mut fields) = value else { return Err(broken("it is not a JSON object")) };
        if let Some(format) = fields.get("fmail_log") {
            let epoch = fields.get("epoch").and_then(Value::as_str).filter(|epoch| is_epoch(epoch));
            return match (format.as_u64(), epoch) {
                (Some(FORMAT), Some(epoch)) => Ok(Entry::Header { epoch: epoch.into() }),
                (Some(format), _) if format > FORMAT => Err(newer(format)),
                _ => Err(broken("its header has no usable `fmail_log` and `epoch`")),
            };
        }
        let mut field = |name: &str| fields.shift_remove(name);
        if let Some(message) = field("message") {
            return message_of(message).map(Entry::Message);
        }
        if let Some(message) = field("imported") {
            return message_of(message).map(Entry::Imported);
        }
        if let Some(record) = field("record") {
            let RecordEntry { key, value } = decode(record, "record")?;
            return Ok(Entry::Record { key, value });
        }
        if let Some(key) = field("record_deleted") {
            return decode(key, "record_deleted").map(Entry::RecordDeleted);
        }
        if let Some(ids) = field("removed") {
            return decode(ids, "removed").map(Entry::Removed);
        }
        let found: Vec<&String> = fields.keys().collect();
        Err(broken(format!("none of its fields {found:?} is known")))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Header { epoch } => write!(f, "{}", json!({"fmail_log": FORMAT, "epoch": epoch})),
            Entry::Message(message) => write!(f, "{MESSAGE}{}}}", message.to_line()),
            Entry::Imported(message) => write!(f, "{IMPORTED}{}}}", message.to_line()),
            Entry::Record { key, value } => write!(f, "{{\"record\":{{\"key\":\"{key}\",\"value\":{value}}}}}"),
            Entry::RecordDeleted(key) => write!(f, "{}", json!({"record_deleted": key})),
            Entry::Removed(ids) => write!(f, "{}", json!({"removed": ids})),
        }
    }
}

/// Whether the text can be the epoch of a log: 16 hexadecimal digits.
pub(super) fn is_epoch(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn message_of(value: Value) -> Result<Message> {
    Message::from_value(value, None, None).map_err(|error| broken(error.message()))
}

fn decode<T: serde::de::DeserializeOwned>(value: Value, field: &str) -> Result<T> {
    serde_json::from_value(value).map_err(|error| broken(format!("its `{field}` cannot be used: {error}")))
}

fn broken(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, why)
}

fn newer(format: u64) -> Error {
    Error::new(
        ErrorKind::InvalidProject,
        format!("the log has the format {format}, this program knows formats up to {FORMAT}"),
    )
    .help("upgrade fmail")
}

#[cfg(test)]
mod tests {
    use fmail_api::MAX_NESTING;

    use super::*;

    fn message() -> Message {
        let line =
            r#"{"id":"20260110-153000-0001","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":{"n":1.50}}"#;
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn entries_read_back_as_they_are_documented() {
        let id = "20260110-153000-0001";
        let line = message().to_line();
        let check = |entry: Entry, text: &str| {
            assert_eq!(entry.to_string(), text);
            assert_eq!(Entry::parse(text).unwrap(), entry);
            // The same with the spaces that another program writes.
            let spaced = serde_json::to_string_pretty(&serde_json::from_str::<Value>(text).unwrap()).unwrap();
            assert_eq!(Entry::parse(&spaced).unwrap(), entry);
        };
        check(Entry::Header { epoch: "0123456789abcdef".into() }, r#"{"fmail_log":1,"epoch":"0123456789abcdef"}"#);
        check(Entry::Message(message()), &format!("{{\"message\":{line}}}"));
        check(Entry::Imported(message()), &format!("{{\"imported\":{line}}}"));
        let record = Entry::Record { key: "agents/bob".parse().unwrap(), value: json!({"b": 1, "a": null}) };
        check(record, r#"{"record":{"key":"agents/bob","value":{"b":1,"a":null}}}"#);
        check(Entry::RecordDeleted("leases".parse().unwrap()), r#"{"record_deleted":"leases"}"#);
        check(Entry::Removed(vec![id.parse().unwrap()]), r#"{"removed":["20260110-153000-0001"]}"#);
    }

    #[test]
    fn what_cannot_be_understood_says_why() {
        let check = |text: &str, kind: ErrorKind, part: &str| {
            let error = Entry::parse(text).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        };
        check("", ErrorKind::Corrupt, "not JSON");
        check("[1]", ErrorKind::Corrupt, "not a JSON object");
        check("{\"message\":{\"id\":1}}", ErrorKind::Corrupt, "`id`");
        check("{\"record\":{\"key\":\"../x\"}}", ErrorKind::Corrupt, "record key");
        check("{\"record\":7}", ErrorKind::Corrupt, "record");
        check("{\"removed\":7}", ErrorKind::Corrupt, "removed");
        check("{\"x_future\":7}", ErrorKind::Corrupt, "x_future");
        check("{\"fmail_log\":1}", ErrorKind::Corrupt, "epoch");
        check("{\"fmail_log\":2,\"epoch\":\"?\"}", ErrorKind::InvalidProject, "format 2");
    }

    #[test]
    fn a_body_as_deep_as_allowed_reads_back() {
        let mut deep = message();
        deep.body = serde_json::from_str(&format!("{}1{}", "[".repeat(MAX_NESTING), "]".repeat(MAX_NESTING))).unwrap();
        let entry = Entry::Message(deep);
        assert_eq!(Entry::parse(&entry.to_string()).unwrap(), entry);
    }
}
