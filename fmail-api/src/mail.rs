//! Mail: what an agent does with the messages in its mailbox, and the operations for it.
//!
//! A message never changes. What a recipient has done with it - retrieved, read, acknowledged, archived, deleted - is
//! that recipient's own [`MailState`], kept in records beside the messages. So two recipients of one message never
//! change each other's view, and whoever only looks at a mailbox changes nothing.
//!
//! # The state table
//!
//! | a message that is … for an agent | inbox, check | inbox --all | count: total, unread | thread, log, search | gc |
//! |---|---|---|---|---|---|
//! | unread | yes | yes | 1, 1 | yes | goes when it is old |
//! | unread and past its `expires` | no | yes, as expired | 1, 0 | yes | goes when it is old |
//! | claimed (unread, under a lease) | yes, with the claim; a further claim skips it | yes | 1, 1 | yes | goes when it is old |
//! | read | no | yes | 1, 0 | yes | goes when it is old |
//! | acknowledged (is read too) | no | yes | 1, 0 | yes | goes when it is old |
//! | archived | no (`inbox --archived` shows it) | no | 0, 0 | yes, as archived | goes when it is old |
//! | deleted | no | no | 0, 0 | thread: no; log, search: while it is stored for other recipients | goes with its last recipient |
//!
//! Reading keeps a message open, archiving closes it. `mark-unread` opens what was read, `unarchive` what was archived;
//! the two are independent: an archived message that is marked unread stays archived. Deleting is for good.
//!
//! # Between hosts
//!
//! Receipts (retrieved, first read, acknowledged, deleted) merge to the earliest. Flags (read, archived) merge to the
//! later stamp, every stamp lies above the one that it replaces, and on a tie the flag that is set wins. A claim is
//! local. [`MailState::merged`] is that rule.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{AgentName, ContentHash, Error, Message, MessageId, Priority, Result, Timestamp, canonical_json};

/// What one agent has done with one message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailState {
    /// When it first reached the agent: listed in its inbox, claimed, or delivered to its watch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieved: Option<Timestamp>,
    /// When the agent first read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_read: Option<Timestamp>,
    /// When the agent acknowledged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Timestamp>,
    /// When the agent deleted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// Whether it counts as read now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Flag>,
    /// Whether it is archived now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<Flag>,
    /// Who works on it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// What a newer version has noted.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Something that can be set and taken back, and when that was last done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// Whether it is set.
    pub set: bool,
    /// When it was set or taken back; above the time that it replaced.
    pub at: Timestamp,
}

/// The right of one reader to work on a message for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// What the reader shows to finish the message.
    pub token: String,
    /// When the message is free again.
    pub until: Timestamp,
    /// How often it has been claimed; more than once means that a reader gave up or died.
    pub attempts: u32,
}

/// What an agent's [`MailState`] amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Not read.
    Unread,
    /// Not read, and past its `expires`.
    Expired,
    /// Read, not acknowledged.
    Read,
    /// Read and acknowledged.
    Acknowledged,
    /// Archived.
    Archived,
    /// Deleted.
    Deleted,
}

impl MailState {
    /// Whether the message counts as read.
    pub fn is_read(&self) -> bool {
        self.read.is_some_and(|flag| flag.set)
    }

    /// Whether the message is neither archived nor deleted.
    pub fn is_open(&self) -> bool {
        self.deleted.is_none() && !self.archived.is_some_and(|flag| flag.set)
    }

    /// What the state amounts to, for a message with this `expires`.
    pub fn standing(&self, expires: Option<Timestamp>, now: Timestamp) -> Standing {
        match self {
            state if state.deleted.is_some() => Standing::Deleted,
            state if !state.is_open() => Standing::Archived,
            state if state.is_read() && state.acknowledged.is_some() => Standing::Acknowledged,
            state if state.is_read() => Standing::Read,
            _ if expires.is_some_and(|expires| expires <= now) => Standing::Expired,
            _ => Standing::Unread,
        }
    }

    /// The claim that holds now.
    pub fn live_claim(&self, now: Timestamp) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.until > now)
    }

    /// What two hosts know together. Order and repetition do not matter.
    #[must_use]
    pub fn merged(self, other: MailState) -> MailState {
        MailState {
            retrieved: earlier(self.retrieved, other.retrieved),
            first_read: earlier(self.first_read, other.first_read),
            acknowledged: earlier(self.acknowledged, other.acknowledged),
            deleted: earlier(self.deleted, other.deleted),
            read: later(self.read, other.read),
            archived: later(self.archived, other.archived),
            claim: self.claim,
            extra: both(self.extra, other.extra),
        }
    }
}

fn earlier(one: Option<Timestamp>, two: Option<Timestamp>) -> Option<Timestamp> {
    [one, two].into_iter().flatten().min()
}

/// Of fields that we do not know, those of both; where both have one, the same on every host.
fn both(mut one: Map<String, Value>, two: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in two {
        match one.get(&name) {
            Some(kept) if canonical_json(kept) >= canonical_json(&value) => {}
            _ => drop(one.insert(name, value)),
        }
    }
    one
}

fn later(one: Option<Flag>, two: Option<Flag>) -> Option<Flag> {
    [one, two].into_iter().flatten().max_by_key(|flag| (flag.at, flag.set))
}

impl Flag {
    /// The flag after it was set or taken back now. Its stamp lies above the one that it replaces, whatever the clock says.
    pub fn changed(before: Option<Flag>, set: bool, now: Timestamp) -> Flag {
        let above = before.map(|flag| flag.at.after(Duration::from_millis(1)));
        Flag { set, at: above.map_or(now, |above| above.max(now)) }
    }
}

/// Content of `mailbox/<agent>/<day>`: what the agent has done with the messages whose ids are of that day; and of
/// `mailbox/<agent>/<day>-<hour>` and so on, where a day has more than one record should hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRecord {
    /// The states are in the records of shorter stretches of time. What still stands here is older than what stands
    /// there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub split: bool,
    /// By message.
    #[serde(flatten)]
    pub messages: BTreeMap<MessageId, MailState>,
}

/// A message with what the asking agent has done with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// The message.
    pub message: Arc<Message>,
    /// The agent's own state of it.
    pub state: MailState,
    /// What that amounts to; nothing for a message that is not in the agent's mailbox.
    pub standing: Option<Standing>,
}

/// Which messages of a mailbox are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Folder {
    /// Open and unread, what `inbox` shows.
    #[default]
    Unread,
    /// Open, read or not.
    Open,
    /// Archived.
    Archived,
}

/// Asks for the agent's own mail, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InboxRequest {
    /// Which messages.
    pub folder: Folder,
    /// Only from this sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentName>,
    /// Only of this thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Only since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<crate::Since>,
    /// At most this many, the oldest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The newest first, and with a limit the newest.
    pub newest: bool,
    /// Only look: not even that the messages were retrieved is noted.
    pub peek: bool,
    /// Take the unread messages that nobody works on, for this many seconds. Each comes with a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_seconds: Option<u64>,
}

/// Asks for messages by their ids, or the ends of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadRequest {
    /// Which messages.
    pub ids: Vec<String>,
    /// Only look: they do not become read.
    pub peek: bool,
    /// The token of the claim under which they are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// What can be noted about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// It reached the agent.
    Retrieved,
    /// It is read.
    Read,
    /// It is to be read again.
    Unread,
    /// It is read and agreed to.
    Acknowledged,
    /// It is done with.
    Archived,
    /// It is not done with after all.
    Unarchived,
    /// It is gone for this agent.
    Deleted,
}

/// Notes something about the agent's own messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkRequest {
    /// What.
    pub mark: Mark,
    /// About these: ids, or the ends of them.
    #[serde(default)]
    pub ids: Vec<String>,
    /// About all that fit. With `ids` it is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<Bulk>,
    /// The token of the claim under which they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Only tell.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which messages a change in bulk is about: those of the agent's mailbox that the change would change, and of them …
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bulk {
    /// … all. Without it, a further condition has to be there.
    pub all: bool,
    /// … those sent before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
    /// … those from this sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentName>,
}

/// What became of one message of a [`MarkRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Marked {
    /// The message; what the caller wrote when no message was found.
    pub id: String,
    /// It was so already: nothing changed, and that is no failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// It was unread before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_unread: bool,
    /// Why nothing was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

impl PartialEq for Marked {
    fn eq(&self, other: &Self) -> bool {
        let said = |marked: &Marked| marked.error.as_ref().map(|error| (error.kind(), error.message().to_string()));
        (&self.id, self.already, self.was_unread) == (&other.id, other.already, other.was_unread)
            && said(self) == said(other)
    }
}

/// Answers a message: to its sender, in its thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplyRequest {
    /// The message: its id, or the end of it.
    pub id: String,
    /// Any JSON value.
    pub body: Value,
    /// Another title than `Re:` and the one of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Also to the other recipients; to the topic, when the message is in one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Priority,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Ask for an acknowledgement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ack_required: bool,
    /// After this time the message is of no use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// An idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Asks for a conversation: by its name, or by any of its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRequest {
    /// The name of the thread, the id of a message, or the end of such an id.
    pub id: String,
}

/// How much open mail an agent has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailCount {
    /// Open messages, read or not.
    pub total: u64,
    /// Of them those that `inbox` shows.
    pub unread: u64,
    /// Which ones those are, as [`MailCount::set_of`] has it: whoever knows a set can tell without listing the mail whether
    /// it is still the same. Nothing where the store that counts does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_set: Option<ContentHash>,
}

impl MailCount {
    /// What tells one set of messages from another; nothing for no messages.
    pub fn set_of(ids: impl IntoIterator<Item = MessageId>) -> Option<ContentHash> {
        let ids: String = ids.into_iter().map(|id| id.to_string()).collect();
        (!ids.is_empty()).then(|| ContentHash::of(&[ids.as_bytes()]))
    }
}

/// Asks what became of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceiptRequest {
    /// Its id, or the end of it.
    pub id: String,
}

/// What became of a message, recipient by recipient. No more than what is known: stored is not delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The message.
    pub id: MessageId,
    /// Who sent it.
    pub from: AgentName,
    /// When it was stored.
    pub stored: Timestamp,
    /// After this time it is of no use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Its recipients, and for a topic everyone who has done something with it.
    pub recipients: Vec<RecipientReceipt>,
}

/// What one recipient has done with a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecipientReceipt {
    /// Who.
    pub agent: AgentName,
    /// Only kept informed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cc: bool,
    /// What it amounts to.
    pub standing: Standing,
    /// When it first reached the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieved: Option<Timestamp>,
    /// When the agent first read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Timestamp>,
    /// When the agent acknowledged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Timestamp>,
    /// When the agent archived it, if it is archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Timestamp>,
    /// When the agent deleted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
}

/// A recipient who may not see a message soon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Backlog {
    /// Who.
    pub name: AgentName,
    /// How many messages were unread before this one.
    pub unread: u64,
    /// When the agent was last seen.
    pub last_seen: Timestamp,
}

/// Asks for messages by what they say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchRequest {
    /// The question, in the syntax of FTS5.
    pub query: String,
    /// At most this many, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<crate::Since>,
}

/// Wakes an agent. Nothing is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NudgeRequest {
    /// Whom.
    pub to: AgentName,
    /// What to say.
    pub text: String,
}

impl NudgeRequest {
    /// The longest text, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// Whether the text can be given to sessions and commands: some words, without what would act on a terminal.
    pub fn check(&self) -> Result<()> {
        let size = self.text.len();
        if self.text.trim().is_empty() || size > Self::MAX_BYTES {
            return Err(Error::invalid(format!(
                "a nudge of {size} bytes, allowed are 1 to {} and not only blanks",
                Self::MAX_BYTES
            ))
            .help("what is long or has to last is a message: `fmail send`"));
        }
        match self.text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            Some(c) => Err(Error::invalid(format!("the text of the nudge contains the control character {c:?}"))
                .help("leave it out; line breaks and tabs are allowed")),
            None => Ok(()),
        }
    }
}

/// A nudge, as the sessions of an agent get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nudge {
    /// Who nudges.
    pub from: AgentName,
    /// What it says.
    pub text: String,
    /// When.
    pub time: Timestamp,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times() -> impl Strategy<Value = Option<Timestamp>> {
        proptest::option::of((0i64..4).prop_map(|seconds| Timestamp::from_unix(seconds, 0)))
    }

    fn flags() -> impl Strategy<Value = Option<Flag>> {
        proptest::option::of(
            (any::<bool>(), 0i64..4).prop_map(|(set, seconds)| Flag { set, at: Timestamp::from_unix(seconds, 0) }),
        )
    }

    fn states() -> impl Strategy<Value = MailState> {
        (times(), times(), times(), times(), flags(), flags()).prop_map(
            |(retrieved, first_read, acknowledged, deleted, read, archived)| MailState {
                retrieved,
                first_read,
                acknowledged,
                deleted,
                read,
                archived,
                ..MailState::default()
            },
        )
    }

    proptest! {
        #[test]
        fn merging_is_commutative_associative_and_idempotent(a in states(), b in states(), c in states()) {
            let merged = |one: &MailState, two: &MailState| one.clone().merged(two.clone());
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            prop_assert_eq!(merged(&a, &a), a);
        }
    }

    #[test]
    fn a_change_outlives_the_state_that_it_replaced() {
        let late = Timestamp::from_unix(100, 0);
        let set = Flag::changed(None, true, late);
        // The clock was put back meanwhile.
        let taken_back = Flag::changed(Some(set), false, Timestamp::from_unix(50, 0));
        assert!(taken_back.at > set.at);
        let state = |flag| MailState { archived: Some(flag), ..MailState::default() };
        assert!(state(set).merged(state(taken_back)).is_open());
    }

    #[test]
    fn the_state_table_holds() {
        let now = Timestamp::from_unix(100, 0);
        let set = Some(Flag { set: true, at: now });
        let past = Some(Timestamp::from_unix(99, 0));
        let unread = MailState::default();
        assert_eq!(unread.standing(None, now), Standing::Unread);
        assert_eq!(unread.standing(past, now), Standing::Expired);
        let read = MailState { read: set, ..MailState::default() };
        assert_eq!(read.standing(past, now), Standing::Read);
        let acknowledged = MailState { acknowledged: past, ..read.clone() };
        assert_eq!(acknowledged.standing(None, now), Standing::Acknowledged);
        let archived = MailState { archived: set, ..acknowledged };
        assert_eq!(archived.standing(None, now), Standing::Archived);
        let deleted = MailState { deleted: past, ..archived };
        assert_eq!(deleted.standing(None, now), Standing::Deleted);
    }
}
