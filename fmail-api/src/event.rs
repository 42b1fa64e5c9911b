//! What streams deliver, and where a stream can be taken up again.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use futures::stream::BoxStream;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Mail, Message, MessageId, Nudge, RecordKey, Removed, Result, Target};

/// A place in the order of arrival of one store. Opaque: only the store that made it can read it.
///
/// Shared: every watcher of a daemon gets the cursor of every message.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Cursor(Arc<str>);

impl Cursor {
    /// A cursor in the store's own form.
    pub fn new(text: impl Into<String>) -> Self {
        Cursor(text.into().into())
    }

    /// The store's own form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Cursor::new)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({})", self.0)
    }
}

/// A message on its way to readers, who share it.
///
/// One count for all that they share, and not one for each part: a hundred readers change it two hundred times for a message, from
/// all processors.
#[derive(Debug, Clone)]
pub struct Delivery(Arc<Delivered>);

/// What all clones of a [`Delivery`] share.
#[derive(Debug)]
pub struct Delivered {
    /// The message.
    pub message: Arc<Message>,
    /// A watch that starts here continues right behind this message.
    pub cursor: Cursor,
    encoded: OnceLock<Encoded>,
}

impl Deref for Delivery {
    type Target = Delivered;

    fn deref(&self) -> &Delivered {
        &self.0
    }
}

/// A delivery as JSON.
#[derive(Debug)]
struct Encoded {
    text: Box<str>,
    /// Where in the text the message ends.
    end: usize,
}

/// What stands before the message.
const BEFORE: &str = "{\"msg\":";
/// What stands between the message and its cursor.
const BEFORE_CURSOR: &str = ",\"cursor\":";

impl Delivery {
    /// A message and the place behind it.
    pub fn new(message: Arc<Message>, cursor: Cursor) -> Self {
        Delivery(Arc::new(Delivered { message, cursor, encoded: OnceLock::new() }))
    }

    /// The compact JSON of the message.
    pub fn line(&self) -> &str {
        let encoded = self.encoded();
        &encoded.text[BEFORE.len()..encoded.end]
    }

    /// The JSON of the delivery without its closing brace, `{"msg":…,"cursor":…`: who passes it on has something to add.
    pub fn open_object(&self) -> &str {
        &self.encoded().text
    }

    /// Made once for all clones of this delivery: a daemon gives the same bytes to every watcher.
    fn encoded(&self) -> &Encoded {
        self.encoded.get_or_init(|| {
            // A text always has a JSON form.
            let (line, cursor) = (self.message.to_line(), serde_json::to_string(&self.cursor).unwrap_or_default());
            // In one go and without room to grow: a daemon keeps thousands of these, and a text that grows by its last few
            // bytes takes twice its length.
            let text = [BEFORE, &line, BEFORE_CURSOR, &cursor].concat().into_boxed_str();
            Encoded { text, end: BEFORE.len() + line.len() }
        })
    }
}

impl PartialEq for Delivery {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message && self.cursor == other.cursor
    }
}

/// What a stream carries.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A message that fits the query.
    Message(Delivery),
    /// Nothing to deliver up to here; a watch may be resumed from this cursor.
    Progress(Cursor),
    /// A hint: this message is gone. Not every removal is announced.
    Removed(Target, MessageId),
    /// In answer to `gc`: this was removed, or would be.
    Swept(Removed),
    /// A message with what the asking agent has done with it.
    Mail(Box<Mail>),
    /// Somebody wakes the agent. It is stored nowhere.
    Nudge(Nudge),
    /// A hint: this record changed. Not every change is announced.
    Record(RecordKey),
    /// Something that the reader should know and that does not end the stream.
    Notice(Notice),
}

/// Messages and notices in answer to a scan; it ends.
pub type MessageStream = BoxStream<'static, Result<Event>>;
/// Events in answer to a watch; it does not end by itself. An error is its last item.
pub type EventStream = BoxStream<'static, Result<Event>>;

/// Something worth telling that is not a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// The sentence to show.
    pub text: String,
}

/// What a [`Notice`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoticeKind {
    /// A stored thing was skipped because it cannot be understood.
    Broken,
    /// What a file says about itself is not where it stands; the place was believed.
    Mismatch,
    /// The kernel cannot wake us; polling instead.
    Polling,
    /// A long task is under way.
    Progress,
    /// There is more than this user may read.
    Hidden,
    /// Anything else.
    Other,
}

impl Notice {
    /// A notice with its sentence.
    pub fn new(kind: NoticeKind, text: impl Into<String>) -> Self {
        Notice { kind, text: text.into() }
    }
}

/// Where a store reports what happens outside any stream, such as the progress of a rebuild: the terminal of a command,
/// the log of a daemon.
pub type Reporter = Arc<dyn Fn(Notice) + Send + Sync>;
