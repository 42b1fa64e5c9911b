//! Which messages are meant.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{AgentName, Cursor, Message, MessageId, Target, Timestamp};

/// Which messages a scan or a watch delivers. All conditions hold together; the default matches everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// Where the message is.
    pub scope: Scope,
    /// Only these ids, when there are any.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ids: BTreeSet<MessageId>,
    /// Only ids that end like this: people write `0042` for the message they just saw. A store that knows its ids
    /// without reading messages checks this first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_suffix: Option<String>,
    /// Only from this sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentName>,
    /// Only of this thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Only after this point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// Only with a `time` before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
    /// Only messages that say this, in the syntax of FTS5. A store that does not claim [`Filters::text`] ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// At most this many. The newest by id are kept, except in [`Order::Arrival`], where the first to arrive are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// In which order they come.
    pub order: Order,
}

/// Where messages are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every topic and every mailbox.
    #[default]
    All,
    /// Every topic, no mailbox.
    Topics,
    /// One topic or one mailbox.
    Target(Target),
    /// What an agent sees: every topic and its own mailbox.
    Visible(AgentName),
}

/// After which point messages are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// With a `time` in the second of this one or later. (Messages carry whole seconds: a strict comparison would lose
    /// what was sent within the same second.)
    Time(Timestamp),
    /// That arrived after the message with this id, or have a higher id; only the latter when the id is not known.
    Id(MessageId),
    /// That arrived after this cursor was taken.
    Cursor(Cursor),
}

/// In which order messages are delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By id, the oldest first.
    #[default]
    Ascending,
    /// By id, the newest first.
    Descending,
    /// As they came into this store.
    Arrival,
}

/// Which parts of a [`Query`] a store evaluates itself. What it lacks, a wrapper adds by reading more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filters {
    /// [`Query::scope`].
    pub scope: bool,
    /// [`Query::ids`] and [`Query::id_suffix`].
    pub ids: bool,
    /// [`Query::from`].
    pub from: bool,
    /// [`Query::thread`].
    pub thread: bool,
    /// [`Query::since`] a time or an id, and [`Query::before`]. A cursor is always the store's to evaluate: nobody else
    /// can read it.
    pub time: bool,
    /// [`Query::limit`].
    pub limit: bool,
    /// All values of [`Query::order`]. A store without it delivers in order of arrival.
    pub order: bool,
    /// [`Query::text`]. A search over a store without it reads and compares.
    pub text: bool,
}

impl Filters {
    /// Everything that a message says outside its text is evaluated by the store.
    pub const ALL: Filters =
        Filters { scope: true, ids: true, from: true, thread: true, time: true, limit: true, order: true, text: false };
}

impl Query {
    /// Everything in one topic or mailbox.
    pub fn target(target: Target) -> Self {
        Query { scope: Scope::Target(target), ..Query::default() }
    }

    /// Everything that an agent sees.
    pub fn visible(agent: AgentName) -> Self {
        Query { scope: Scope::Visible(agent), ..Query::default() }
    }

    /// Whether what the message itself says fits: ids, sender, thread and time.
    ///
    /// Scope and arrival are the store's to check: a message does not know every place it stands in, nor when it came.
    pub fn accepts(&self, message: &Message) -> bool {
        self.accepts_id(message.id)
            && self.from.as_ref().is_none_or(|from| *from == message.from)
            && self.thread.as_ref().is_none_or(|thread| Some(thread) == message.thread.as_ref())
            && self.accepts_time(message.time)
    }

    /// Whether a message with this id fits `ids` and `id_suffix`.
    pub fn accepts_id(&self, id: MessageId) -> bool {
        (self.ids.is_empty() || self.ids.contains(&id))
            && self.id_suffix.as_ref().is_none_or(|suffix| id.ends_with(suffix))
    }

    /// Whether a message of this time fits `since` and `before`.
    pub fn accepts_time(&self, time: Timestamp) -> bool {
        let after = match &self.since {
            Some(Since::Time(since)) => time >= since.whole_seconds(),
            _ => true,
        };
        after && self.before.is_none_or(|before| time < before)
    }
}

impl Scope {
    /// Whether what is stored at `target` belongs to the scope.
    pub fn contains(&self, target: &Target) -> bool {
        match self {
            Scope::All => true,
            Scope::Topics => !target.is_direct(),
            Scope::Target(wanted) => wanted == target,
            Scope::Visible(agent) => target.agent().is_none_or(|name| name == agent),
        }
    }
}
