//! The store: messages that never change, and records that change by compare-and-swap.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Cursor, Draft, Error, Event, EventStream, Expect, Filters, Mailbox, Message, MessageId, MessageStream, Query,
    Record, RecordKey, Result, Revision, Scope, Target, Timestamp,
};

/// The layout of files that this version writes. A program refuses to write over a layout newer than its own.
pub const FORMAT_VERSION: u32 = 2;

/// The size limit of a message unless the configuration says otherwise: 1 MB, on its compact JSON.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 1_048_576;

/// Keeps one project's messages and records.
///
/// One instance is one project. Methods may be called from any thread and at the same time. The rules below are what
/// callers rely on; `fmail-conformance` has a case of the same number for each.
///
/// # Append
/// - **A1** A message reads back with every field that the draft had, unknown ones included, byte for byte.
/// - **A2** The store assigns the id. Ids are well formed and unique in the project, also under concurrent appends and
///   between instances on the same data.
/// - **A3** Ids that the store assigns become visible in ascending order: who has seen one sees no lower one appear later.
/// - **A4** When `append` returns, every later `scan` on every instance finds the message.
/// - **A5** A store that claims `durable` still has the message after the process is killed right behind the answer.
/// - **A6** A draft whose message is larger than `max_message_bytes` is `too_large`; one of exactly that size is stored.
/// - **A7** Any JSON value is a body: unicode, empty strings, `null`, arrays and objects up to 100 deep.
/// - **A8** A second append with the same key answers with the first message and `duplicate`, and stores nothing, at
///   least for 24 hours.
/// - **A9** A message with several recipients has one id and is found in every recipient's mailbox; a scan over all
///   delivers it once.
/// - **A10** A failed append leaves nothing that a reader can see.
/// - **A11** Appends that run at the same time have each their own verdict: one that is refused, or that repeats a key,
///   changes nothing for the others.
///
/// # Import
/// - **I1** An imported message keeps its id and every field.
/// - **I2** Importing a message that is there (same identity) is `Duplicate` and changes nothing.
/// - **I3** Another message under an id that is taken is `Relocated`: stored under a fresh id, `origin_id` set.
/// - **I4** A message older than what `remove` swept away is `Refused`.
/// - **I5** Of many that are imported together each has the verdict that it would have alone: one that is refused or there
///   already, also twice among them, changes nothing for the others.
///
/// # Scan
/// - **Q1** Scope, ids, sender, thread and times filter exactly; what does not match is not delivered.
/// - **Q2** `Ascending` and `Descending` follow ids; `limit` keeps the newest and `more` says whether any were left out.
/// - **Q3** `Since::Id` of a known message delivers what arrived after it or has a higher id.
/// - **Q4** `Since::Time` compares the message's `time`, inclusive of its second.
/// - **Q5** An empty project, an unknown topic or an unknown id give an empty stream, not an error.
/// - **Q6** `Since::Cursor` delivers exactly what arrived after the cursor.
/// - **Q7** A cursor that cannot be honoured is `expired`, one that is not the store's own form is `invalid_request`.
///
/// # Watch
/// - **W1** Everything that arrives after the cursor is delivered, in order of arrival, exactly once per stream.
/// - **W2** Between a scan and a watch from its cursor nothing is lost and nothing doubled, under concurrent writers.
/// - **W3** A watch resumed from the cursor of a delivery continues right behind it.
/// - **W4** Filters hold as in a scan.
/// - **W5** A dropped stream holds nothing up.
///
/// # Summary and removal
/// - **M1** `summary` counts each target in the scope and tells its newest message.
/// - **M2** `remove` takes away exactly the selection, tells each, and what is removed is in no later scan.
/// - **M3** A dry run tells the same and removes nothing.
///
/// # Records
/// - **R1** A record reads back as it was put; a missing one is `None`.
/// - **R2** `put` and `delete` succeed only if the expectation holds; otherwise `conflict` and nothing changes.
/// - **R3** Of concurrent writers with the same expectation exactly one wins, also between instances.
/// - **R4** `list` gives every record under the prefix, whole segments only.
/// - **R5** A durable record survives a kill right behind the answer.
///
/// # Life
/// - **L1** `health` changes nothing.
/// - **L2** `close` lets go of everything; the data is there on the next open when `durable`.
#[async_trait]
pub trait Store: Send + Sync {
    /// What this store can do. Constant for the life of the instance.
    fn capabilities(&self) -> Capabilities;

    /// Stores a message (A1 to A11).
    async fn append(&self, draft: Draft) -> Result<Appended>;

    /// Stores messages as if each were appended, in this order, and says of each what became of it. One that fails fails
    /// alone. A store that has nothing to gain from getting them together leaves this as it is.
    async fn append_many(&self, drafts: Vec<Draft>) -> Vec<Result<Appended>> {
        join_all(drafts.into_iter().map(|draft| self.append(draft))).await
    }

    /// How many messages a daemon should put together into one [`Store::append_many`] when they come at the same time. One
    /// means that it should ask for each by itself, and for many at a time.
    fn appends_together(&self) -> usize {
        1
    }

    /// Stores a message that another host or store has given its id (I1 to I4).
    async fn import(&self, message: Message) -> Result<Imported>;

    /// Stores many of them, each with its own verdict, in the order of the messages (I1 to I5). By default each is imported
    /// by itself, all at the same time; a store for which many together are cheaper than each alone does better.
    async fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        join_all(messages.into_iter().map(|message| self.import(message))).await
    }

    /// Delivers what is stored (Q1 to Q7).
    async fn scan(&self, query: Query) -> Result<Scan>;

    /// Delivers what arrives behind `from`; `limit` and `order` of the query do not apply (W1 to W5).
    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream>;

    /// Counts and newest message per target (M1). By default everything is scanned.
    async fn summary(&self, query: Query) -> Result<Summary> {
        let scope = query.scope.clone();
        summarise(&scope, self.scan(query).await?.messages).await
    }

    /// Takes messages away, and tells each as it goes (M2, M3). A dropped stream stops the removal.
    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>>;

    /// Reads a record (R1). One that cannot be understood is `corrupt` and stays as it is.
    async fn get(&self, key: &RecordKey) -> Result<Option<Record>>;

    /// Writes a record if the expectation holds (R2, R3). `durable` asks that it survive a power cut.
    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision>;

    /// Lists the records under a prefix (R4). A broken one is an error item; the stream goes on behind it.
    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>>;

    /// Removes a record if the expectation holds (R2). Deleting a missing one with [`Expect::Anything`] succeeds.
    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()>;

    /// Whether the store can be used, without side effects (L1).
    async fn health(&self) -> Result<Health>;

    /// Lets go of everything (L2).
    async fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Care for stored things that cannot be understood, where the store has such.
    fn quarantine(&self) -> Option<&dyn Quarantine> {
        None
    }

    /// The states of mail, where the store keeps them itself.
    fn mailbox(&self) -> Option<&dyn Mailbox> {
        None
    }
}

/// What a store can do. The command line asks this, never the store's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The name by which the configuration chooses the store.
    pub name: String,
    /// Other processes that open the same project see the same data. Without it the store serves only inside a daemon.
    pub shared: bool,
    /// An answered append survives a kill (A5) and, unless configured otherwise, a power cut.
    pub durable: bool,
    /// `import` works.
    pub import: bool,
    /// `remove` works.
    pub remove: bool,
    /// Messages may go to topics. A store without them keeps direct messages only, and refuses others as `unsupported`.
    #[serde(default = "with_topics")]
    pub topics: bool,
    /// Which parts of a query the store evaluates itself.
    pub filters: Filters,
    /// The largest message, in bytes of its compact JSON.
    pub max_message_bytes: usize,
}

/// What was said before there were stores without topics.
fn with_topics() -> bool {
    true
}

/// What became of an append.
#[derive(Debug, Clone)]
pub struct Appended {
    /// The message as it is stored; the first one when the key was known.
    pub message: Arc<Message>,
    /// The key was known: nothing new was stored.
    pub duplicate: bool,
    /// The message is visible, but this kept it from being made durable.
    pub not_durable: Option<String>,
}

/// What became of an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Imported {
    /// Stored under its own id.
    New,
    /// It was there.
    Duplicate,
    /// Its id was taken or too far ahead: stored under this one.
    Relocated(MessageId),
    /// Not stored.
    Refused(RefusedReason),
}

/// Why an import was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedReason {
    /// It is older than what was swept away here.
    BelowHorizon,
    /// It is larger than the limit.
    TooLarge,
    /// It was here and was deleted.
    Deleted,
    /// It has more recipients than a message may have, or says something that cannot be kept.
    Invalid,
}

/// The answer to a scan.
pub struct Scan {
    /// Where everything delivered here ends: a watch from here continues without gap or overlap.
    pub cursor: Cursor,
    /// The limit left something out.
    pub more: bool,
    /// The messages.
    pub messages: MessageStream,
}

/// The answer to [`Store::summary`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// One entry per target that holds a message, in order of their names.
    pub targets: Vec<TargetSummary>,
}

/// How much a target holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetSummary {
    /// The topic or mailbox.
    pub target: Target,
    /// How many messages it holds.
    pub messages: u64,
    /// The newest one's id.
    pub last: MessageId,
    /// The newest one's time.
    pub last_time: Timestamp,
}

/// Which messages to remove. All conditions hold together; without any nothing is selected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// Messages with a `time` before this one. Leaves a horizon: what is older is not imported again (I4).
    pub before: Option<Timestamp>,
    /// These messages.
    pub ids: BTreeSet<MessageId>,
    /// Only tell.
    pub dry_run: bool,
}

/// A message that was removed from a target, or would be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    /// Which.
    pub id: MessageId,
    /// From where.
    pub target: Target,
    /// How the store calls the place; a path below `.fmail/` for files.
    pub place: String,
}

/// The answer to [`Store::health`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Whether messages can be stored now.
    pub writable: bool,
    /// What an operator should know.
    pub detail: String,
}

/// Stored things that cannot be understood: they are skipped, and moved out of the way on request, never silently.
#[async_trait]
pub trait Quarantine: Send + Sync {
    /// What is broken where it stands.
    async fn broken(&self) -> Result<Vec<Broken>>;
    /// What has been moved out of the way.
    async fn held(&self) -> Result<Vec<Quarantined>>;
    /// Moves a broken thing out of the way.
    async fn isolate(&self, place: &str) -> Result<Quarantined>;
    /// Puts it back where it was; refused when something else stands there.
    async fn restore(&self, name: &str) -> Result<String>;
    /// Deletes it for good.
    async fn discard(&self, name: &str) -> Result<()>;
}

/// A stored thing that cannot be understood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    /// Where it stands.
    pub place: String,
    /// Why it cannot be understood.
    pub reason: String,
}

/// A stored thing that was moved out of the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quarantined {
    /// By what it is called now.
    pub name: String,
    /// Where it stood.
    pub place: String,
    /// When it was moved.
    pub since: Timestamp,
}

/// Builds a summary from a scan: counts each message in each of its targets.
pub async fn summarise(scope: &Scope, mut messages: MessageStream) -> Result<Summary> {
    let mut targets = std::collections::BTreeMap::<Target, TargetSummary>::new();
    while let Some(event) = messages.next().await {
        let Event::Message(delivery) = event? else { continue };
        for target in delivery.message.targets() {
            if !scope.contains(&target) {
                continue;
            }
            let (id, time) = (delivery.message.id, delivery.message.time);
            let entry = targets.entry(target.clone()).or_insert(TargetSummary {
                target,
                messages: 0,
                last: id,
                last_time: time,
            });
            entry.messages += 1;
            if id >= entry.last {
                (entry.last, entry.last_time) = (id, time);
            }
        }
    }
    Ok(Summary { targets: targets.into_values().collect() })
}

impl Selection {
    /// Whether a message with this id and time is selected.
    pub fn selects(&self, id: MessageId, time: Timestamp) -> bool {
        (self.before.is_some() || !self.ids.is_empty())
            && self.before.is_none_or(|before| time < before)
            && (self.ids.is_empty() || self.ids.contains(&id))
    }
}

/// The most places that one message may stand in. A store may keep their number in a byte.
const MAX_PLACES: usize = 255;

/// Checks a message against the limits on its size (A6), its recipients and its fields, and says how large it is. Every store
/// calls this before it writes.
pub fn check_size(message: &Message, limit: usize) -> Result<usize> {
    let places = message.targets().len();
    if places > MAX_PLACES {
        return Err(Error::invalid(format!("the message has {places} recipients, at most {MAX_PLACES} are allowed"))
            .help("send it to a topic, or in several messages"));
    }
    message.check_fields()?;
    let size = message.line_length();
    if size <= limit {
        return Ok(size);
    }
    Err(Error::new(
        crate::ErrorKind::TooLarge,
        format!("the message has {size} bytes as JSON, at most {limit} are allowed"),
    )
    .help("write large data to a file and send its path, or raise mail.max_message_bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn more_recipients_than_a_byte_counts_are_refused() {
        let message = |count: usize| {
            let mut draft = Draft::new("a".parse().unwrap(), "@r0".parse().unwrap(), "x");
            draft.more.cc = (1..count).map(|n| format!("@r{n}").parse().unwrap()).collect();
            draft.into_message(MessageId::MIN, Timestamp::from_unix(0, 0))
        };
        assert!(check_size(&message(255), DEFAULT_MAX_MESSAGE_BYTES).is_ok());
        let error = check_size(&message(256), DEFAULT_MAX_MESSAGE_BYTES).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("256") && error.to_string().contains("255"), "{error}");
    }
}
