//! What is said to a store that is a plugin: the names of the methods, and the JSON of their bodies.
//!
//! | method | request | answer, or head and items |
//! |---|---|---|
//! | `append` | the draft: a message without `id` and `time` | [`AppendAnswer`] |
//! | `import` | the message | [`crate::Imported`] |
//! | `scan` | [`crate::Query`] | [`ScanHead`], then events |
//! | `watch` | [`WatchVerb`] | `{}`, then events |
//! | `summary` | [`crate::Query`] | [`crate::Summary`] |
//! | `remove` | [`crate::Selection`] | `{}`, then [`crate::Removed`] |
//! | `get` | [`GetVerb`] | [`GetAnswer`] |
//! | `put` | [`PutVerb`] | [`PutAnswer`] |
//! | `list` | [`ListVerb`] | `{}`, then [`ListItem`] |
//! | `delete` | [`DeleteVerb`] | `{}` |
//! | `health` | `{}` | [`crate::Health`] |
//! | `mail_inbox` | [`InboxVerb`] | `{}`, then [`MailItem`] |
//! | `mail_peek`, `mail_read` | [`MailVerb`] | [`MailItem`] |
//! | `mail_mark` | [`MarkVerb`] | [`MarkAnswer`] |
//! | `mail_count` | [`CountVerb`] | [`crate::MailCount`] |
//! | `mail_thread` | [`ThreadVerb`] | `{}`, then [`MailItem`] |
//!
//! Those of mail are the [mailbox facet](crate::Mailbox): a store that claims `mailbox` has them.
//!
//! The host and the SDK share these types; a plugin in another language reads and writes the same JSON. An event is
//! written by [`event_json`] and read by [`event_from_json`].

mod mail;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Cursor, Delivery, Error, ErrorKind, Event, Expect, Message, MessageId, Notice, Query, Record, RecordKey, Result,
    Revision, Target,
};

pub use mail::{CountVerb, InboxVerb, MailItem, MailVerb, MarkAnswer, MarkVerb, ThreadVerb};

/// The names of the methods.
pub mod method {
    /// Stores a message.
    pub const APPEND: &str = "append";
    /// Stores a message that has its id.
    pub const IMPORT: &str = "import";
    /// Delivers what is stored.
    pub const SCAN: &str = "scan";
    /// Delivers what arrives.
    pub const WATCH: &str = "watch";
    /// Counts per target.
    pub const SUMMARY: &str = "summary";
    /// Takes messages away.
    pub const REMOVE: &str = "remove";
    /// Reads a record.
    pub const GET: &str = "get";
    /// Writes a record.
    pub const PUT: &str = "put";
    /// Lists records.
    pub const LIST: &str = "list";
    /// Removes a record.
    pub const DELETE: &str = "delete";
    /// Whether the store can be used.
    pub const HEALTH: &str = "health";
    /// Mailbox: an agent's messages of a folder.
    pub const MAIL_INBOX: &str = "mail_inbox";
    /// Mailbox: one message.
    pub const MAIL_PEEK: &str = "mail_peek";
    /// Mailbox: one message, which becomes read.
    pub const MAIL_READ: &str = "mail_read";
    /// Mailbox: notes something about a message.
    pub const MAIL_MARK: &str = "mail_mark";
    /// Mailbox: how much open mail there is.
    pub const MAIL_COUNT: &str = "mail_count";
    /// Mailbox: the messages of a thread.
    pub const MAIL_THREAD: &str = "mail_thread";
    /// Log profile: the entries behind a position.
    pub const READ: &str = "read";
    /// Log profile: entries that may be forgotten.
    pub const DROP: &str = "drop";
    /// Transports: serves until `shutdown`.
    pub const SERVE: &str = "serve";
    /// Relays: runs until `shutdown`.
    pub const RUN: &str = "run";
    /// Transports and relays: the program wants to end.
    pub const SHUTDOWN: &str = "shutdown";
    /// One operation of the vocabulary, in either direction.
    pub const REQUEST: &str = "request";
    /// Asked of the host: the ids of the projects that are served.
    pub const PROJECTS: &str = "projects";
    /// Asked of the host: the project that an absolute path means.
    pub const FIND: &str = "find";
}

/// Asks the host for the project that an absolute path means.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FindRequest {
    /// The path.
    pub path: std::path::PathBuf,
    /// Create the project if there is none.
    #[serde(default)]
    pub create: bool,
}

/// Asks the host which projects there are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProjectsRequest {
    /// Also those that `find` finds. Looking them up costs more than most who ask for the ids want to pay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hosted: bool,
}

/// Answers `projects`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProjectsAnswer {
    /// The ids of the projects that are served.
    pub projects: Vec<String>,
    /// Every project that `find` finds, if that was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<crate::HostedProject>,
}

/// Answers `append`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AppendAnswer {
    /// The message as it is stored.
    #[serde(with = "shared")]
    pub message: Arc<Message>,
    /// The key was known: nothing new was stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// The message is visible, but this kept it from being made durable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_durable: Option<String>,
}

/// A shared message is written and read as the message.
mod shared {
    use super::{Arc, Deserialize, Message, Serialize};

    pub(super) fn serialize<S: serde::Serializer>(message: &Arc<Message>, serializer: S) -> Result<S::Ok, S::Error> {
        message.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Arc<Message>, D::Error> {
        Message::deserialize(deserializer).map(Arc::new)
    }
}

/// Precedes the events of `scan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanHead {
    /// Where everything delivered ends.
    pub cursor: Cursor,
    /// The limit left something out.
    #[serde(default)]
    pub more: bool,
}

/// Asks for what arrives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchVerb {
    /// Which messages.
    #[serde(default)]
    pub query: Query,
    /// Behind which place.
    pub from: Cursor,
}

/// Asks for a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GetVerb {
    /// Which.
    pub key: RecordKey,
}

/// Answers `get`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GetAnswer {
    /// The record, if there is one.
    pub record: Option<Record>,
}

/// Asks to write a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutVerb {
    /// Which.
    pub key: RecordKey,
    /// What has to be there now.
    pub expect: Expect,
    /// Its content.
    pub value: Value,
    /// It must survive a power cut.
    #[serde(default)]
    pub durable: bool,
}

/// Answers `put`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutAnswer {
    /// The state that was written.
    pub revision: Revision,
}

/// Asks for records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListVerb {
    /// Under which prefix; empty means all.
    #[serde(default)]
    pub prefix: String,
}

/// An item of `list`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListItem {
    /// A record.
    Record(Record),
    /// A record that cannot be understood; the list goes on.
    Error(Error),
}

/// Asks to remove a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteVerb {
    /// Which.
    pub key: RecordKey,
    /// What has to be there now.
    pub expect: Expect,
}

/// The events that a store has, in their JSON form: `{"message":{…},"cursor":"…"}`, `{"progress":"…"}`,
/// `{"removed":{"target":"…","id":"…"}}`, `{"record":"…"}`, `{"notice":{…}}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Hint {
    Progress(Cursor),
    Removed { target: Target, id: MessageId },
    Record(RecordKey),
    Notice(Notice),
}

#[derive(Deserialize)]
struct Delivered {
    message: Message,
    cursor: Cursor,
}

/// The JSON of an event of a store; nothing for the events that only operations have.
pub fn event_json(event: &Event) -> Option<String> {
    let hint = match event {
        Event::Message(delivery) => {
            let cursor = serde_json::to_string(&delivery.cursor).ok()?;
            return Some(format!("{{\"message\":{},\"cursor\":{cursor}}}", delivery.line()));
        }
        Event::Progress(cursor) => Hint::Progress(cursor.clone()),
        Event::Removed(target, id) => Hint::Removed { target: target.clone(), id: *id },
        Event::Record(key) => Hint::Record(key.clone()),
        Event::Notice(notice) => Hint::Notice(notice.clone()),
        _ => return None,
    };
    serde_json::to_string(&hint).ok()
}

/// The event that this JSON stands for.
pub fn event_from_json(bytes: &[u8]) -> Result<Event> {
    if bytes.starts_with(b"{\"message\":") {
        return delivered(bytes);
    }
    match serde_json::from_slice::<Hint>(bytes) {
        Ok(Hint::Progress(cursor)) => Ok(Event::Progress(cursor)),
        Ok(Hint::Removed { target, id }) => Ok(Event::Removed(target, id)),
        Ok(Hint::Record(key)) => Ok(Event::Record(key)),
        Ok(Hint::Notice(notice)) => Ok(Event::Notice(notice)),
        // A message whose fields stand in another order is one all the same.
        Err(_) => delivered(bytes),
    }
}

fn delivered(bytes: &[u8]) -> Result<Event> {
    let Delivered { message, cursor } = decode("an event", bytes)?;
    Ok(Event::Message(Delivery::new(Arc::new(message), cursor)))
}

/// Reads a body; `what` names it in the error.
pub fn decode<T: serde::de::DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let shown: String = String::from_utf8_lossy(bytes).chars().take(120).collect();
        Error::new(ErrorKind::Internal, format!("{what} cannot be understood: {error}; it begins {shown:?}"))
    })
}

/// Writes a body. Every type of this module has a JSON form.
pub fn encode<T: Serialize>(body: &T) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draft, NoticeKind, Timestamp};

    #[test]
    fn events_read_back() {
        let message = Draft::new("a".parse().unwrap(), "task".parse().unwrap(), "x")
            .into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        let events = [
            Event::Message(Delivery::new(Arc::new(message), Cursor::new("e:\"1"))),
            Event::Progress(Cursor::new("e:2")),
            Event::Removed("@bob".parse().unwrap(), MessageId::MIN),
            Event::Record(RecordKey::leases()),
            Event::Notice(Notice::new(NoticeKind::Broken, "skipped")),
        ];
        for event in events {
            let text = event_json(&event).unwrap();
            let back = event_from_json(text.as_bytes()).unwrap();
            assert_eq!(event_json(&back).unwrap(), text);
            assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&event));
        }
    }

    #[test]
    fn the_order_of_fields_does_not_matter() {
        let text = r#"{"cursor":"c","message":{"body":1,"id":"20260110-153000-0001","from":"a","to":"t"}}"#;
        assert!(matches!(event_from_json(text.as_bytes()).unwrap(), Event::Message(_)));
        let error = event_from_json(b"{\"cursor\":1}").unwrap_err();
        assert!(error.message().contains("an event cannot be understood"), "{error}");
    }
}
