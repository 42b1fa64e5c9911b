//! The vocabulary: one set of operations, shared by the command line, the daemon and every plugin.
//!
//! An operation is a [`Request`] and a [`Response`], or a response and a stream of events. Each has a JSON form, named
//! by `cmd` as PROTOCOL.md has it. The types below are the operations that this version runs; [`Operation`] names all
//! that the design knows, so that a `hello` can tell which ones the other side has.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentName, Backlog, Cursor, Digest, DigestRequest, FetchRequest, HeldLease, ImportManyRequest, ImportRequest,
    Imported, InboxRequest, LeasesChanged, LinkReport, MailCount, MarkRequest, Marked, Message, MessageId, Node,
    NodeId, Notice, NudgeRequest, Priority, Profile, ProjectRecord, ReadRequest, Receipt, ReceiptRequest, Records,
    RecordsRequest, RelayView, ReleaseRequest, RenewRequest, ReplyRequest, ReservationsRequest, ReserveRequest,
    Reserved, SearchRequest, Since, Target, ThreadRequest, Timestamp, Verdict,
};

/// The version of the protocol that this crate describes.
pub const PROTOCOL_VERSION: u32 = 1;

macro_rules! operations {
    ($($name:ident $text:literal)*) => {
        /// The name of an operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Operation { $(#[doc = concat!("`", $text, "`")] $name,)* }

        impl Operation {
            /// Every operation that the design knows.
            pub const ALL: &'static [Operation] = &[$(Operation::$name,)*];
            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Operation::$name => $text,)* }
            }
        }
    };
}

impl Operation {
    /// Whether a stream follows the answer, as [`Request::streams`] says it of a request. For who passes requests on
    /// without reading them.
    pub const fn streams(self) -> bool {
        matches!(
            self,
            Operation::Watch
                | Operation::Relay
                | Operation::Log
                | Operation::Gc
                | Operation::Inbox
                | Operation::Check
                | Operation::Read
                | Operation::Peek
                | Operation::Thread
                | Operation::Search
                | Operation::Fetch
        )
    }
}

operations! {
    Hello "hello" Send "send" Watch "watch" Relay "relay" Log "log" Topics "topics" Who "who" Register "register"
    Status "status" Inbox "inbox" Check "check" Count "count" Read "read" Peek "peek" Ack "ack" Archive "archive"
    Unarchive "unarchive" MarkRead "mark_read" MarkUnread "mark_unread" Retrieved "retrieved" Delete "delete"
    Reply "reply" Thread "thread" Receipt "receipt" Search "search" Reserve "reserve" Release "release" Renew "renew"
    Reservations "reservations" Nudge "nudge" Gc "gc"
    Digest "digest" Fetch "fetch" Import "import" ImportMany "import_many" Records "records" RelayStatus "relay_status"
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Request {
    /// Who is there, and what can it do?
    Hello(HelloRequest),
    /// Store a message.
    Send(Box<SendRequest>),
    /// Stream what arrives.
    Watch(WatchRequest),
    /// Stream everything, for a peer.
    Relay(RelayRequest),
    /// Deliver what is stored, and perhaps what follows.
    Log(LogRequest),
    /// List the topics.
    Topics,
    /// List the agents.
    Who(WhoRequest),
    /// Claim a name.
    Register(RegisterRequest),
    /// Set or show a status.
    Status(StatusRequest),
    /// Remove what is old.
    Gc(GcRequest),
    /// Deliver the agent's own mail.
    Inbox(InboxRequest),
    /// How much open mail the agent has.
    Count,
    /// Deliver messages by their ids.
    Read(ReadRequest),
    /// Note something about the agent's own messages.
    Mark(MarkRequest),
    /// Answer a message.
    Reply(Box<ReplyRequest>),
    /// Deliver a conversation.
    Thread(ThreadRequest),
    /// What became of a message.
    Receipt(ReceiptRequest),
    /// Deliver messages by what they say.
    Search(SearchRequest),
    /// Take leases.
    Reserve(ReserveRequest),
    /// Give leases back.
    Release(ReleaseRequest),
    /// Let leases last longer.
    Renew(RenewRequest),
    /// List the leases.
    Reservations(ReservationsRequest),
    /// Wake an agent.
    Nudge(NudgeRequest),
    /// Store a message that another host has given its id; for relays.
    Import(Box<ImportRequest>),
    /// Store several such messages; for relays.
    ImportMany(ImportManyRequest),
    /// How what the caller holds differs from what is held here; for relays.
    Digest(DigestRequest),
    /// Deliver messages by their places; for relays.
    Fetch(FetchRequest),
    /// Compare or exchange the records that travel between hosts; for relays.
    Records(RecordsRequest),
    /// How the links to other hosts are.
    RelayStatus,
}

impl Request {
    /// Whether a stream follows the answer.
    pub fn streams(&self) -> bool {
        matches!(
            self,
            Request::Watch(_)
                | Request::Relay(_)
                | Request::Log(_)
                | Request::Gc(_)
                | Request::Inbox(_)
                | Request::Read(_)
                | Request::Thread(_)
                | Request::Search(_)
                | Request::Fetch(_)
        )
    }

    /// Whether that stream goes on until somebody leaves.
    pub fn is_endless(&self) -> bool {
        match self {
            Request::Watch(_) | Request::Relay(_) => true,
            Request::Log(log) => log.follow,
            _ => false,
        }
    }

    /// Whether only a relay may ask for it: it reads every mailbox, or writes in other agents' names.
    pub fn is_for_relays(&self) -> bool {
        matches!(
            self,
            Request::Relay(_)
                | Request::Import(_)
                | Request::ImportMany(_)
                | Request::Digest(_)
                | Request::Fetch(_)
                | Request::Records(_)
        )
    }
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Response {
    /// To [`Request::Hello`].
    Hello(Box<Hello>),
    /// To [`Request::Send`].
    Sent(Box<Sent>),
    /// To [`Request::Watch`] and [`Request::Relay`]; messages follow.
    Watching(Cursor),
    /// To [`Request::Log`]; messages follow.
    Log {
        /// The limit left older messages out.
        more: bool,
    },
    /// To [`Request::Topics`].
    Topics(Vec<TopicView>),
    /// To [`Request::Who`].
    Agents {
        /// The agents whose records can be understood, by name.
        agents: Vec<AgentView>,
        /// What was left out, and why.
        notices: Vec<Notice>,
    },
    /// To [`Request::Register`].
    Registered(Registered),
    /// To [`Request::Status`].
    Status(StatusView),
    /// To [`Request::Gc`]; what is removed follows, one [`crate::Event::Swept`] each.
    Collecting(GcReport),
    /// To [`Request::Inbox`] and [`Request::Read`]; one [`crate::Event::Mail`] each follows.
    Mail {
        /// The limit left this many out.
        more: u64,
    },
    /// To [`Request::Count`].
    Counted {
        /// How much there is of what can be read.
        count: MailCount,
        /// What cannot be read, and so is not counted.
        notices: Vec<Notice>,
    },
    /// To [`Request::Mark`], in the order of the request.
    Marked(Vec<Marked>),
    /// To [`Request::Thread`]; one [`crate::Event::Mail`] each follows, the oldest first.
    Thread {
        /// The name of the thread: what further messages of it carry.
        thread: String,
    },
    /// To [`Request::Receipt`].
    Receipt(Box<Receipt>),
    /// To [`Request::Search`]; messages follow, the oldest first.
    Found {
        /// The limit left older messages out.
        more: bool,
    },
    /// To [`Request::Reserve`].
    Reserved(Reserved),
    /// To [`Request::Release`] and [`Request::Renew`].
    LeasesChanged(LeasesChanged),
    /// To [`Request::Reservations`], by pattern.
    Reservations(Vec<HeldLease>),
    /// To [`Request::Nudge`].
    Nudged {
        /// How many open sessions of the agent got it.
        sessions: u64,
    },
    /// To [`Request::Import`].
    Imported(Imported),
    /// To [`Request::ImportMany`], in the order of the request.
    ImportedMany(Vec<Verdict>),
    /// To [`Request::Digest`].
    Digest(Digest),
    /// To [`Request::Fetch`]; messages in their origin form follow, the oldest place first.
    Fetching,
    /// To [`Request::Records`].
    Records(Records),
    /// To [`Request::RelayStatus`].
    RelayStatus(Box<RelayView>),
}

/// Asks who is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HelloRequest {
    /// The client's version.
    #[serde(default)]
    pub version: Option<String>,
    /// The protocol that the client speaks.
    #[serde(default)]
    pub protocol: Option<u32>,
    /// Which host asks, if it is one that relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// How the link does that it drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkReport>,
}

/// Who is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The serving program's version.
    pub version: String,
    /// The protocol that it speaks with this client: the newest that both know, if it knows the client's.
    pub protocol: u32,
    /// The operations that it runs, as far as we know them.
    #[serde(deserialize_with = "known_operations")]
    pub operations: Vec<Operation>,
    /// The project, with its id.
    pub project: ProjectRecord,
    /// Which store this is: two clones of one project differ here, so that neither sends into the other's files.
    pub store_id: String,
    /// Which host this is, if it relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
}

/// A newer daemon runs operations that we have no name for. That is no reason not to talk to it.
fn known_operations<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Operation>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let known = |name: &String| Operation::ALL.iter().copied().find(|operation| operation.as_str() == name);
    Ok(names.iter().filter_map(known).collect())
}

/// Asks to store a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendRequest {
    /// Where to: a topic or `@agent`.
    pub to: Target,
    /// Any JSON value.
    pub body: Value,
    /// The message that this one answers: an id, or the end of one that fits exactly one message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Priority,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The conversation that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Further recipients who are asked to act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<Target>,
    /// Recipients who are only kept informed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<Target>,
    /// Ask for an acknowledgement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ack_required: bool,
    /// After this time the message is of no use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// An idempotency key: a repetition stores nothing and answers with the first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Refuse a recipient whom nobody in the project has seen, instead of warning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Have the message as it is stored in the answer, also where that is extra work: over a connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
    /// Fields that fmail does not know, to be stored with the message.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl SendRequest {
    /// A request with nothing but what every message has.
    pub fn new(to: Target, body: impl Into<Value>) -> Self {
        SendRequest {
            to,
            body: body.into(),
            reply_to: None,
            priority: Priority::Normal,
            tags: Vec::new(),
            subject: None,
            thread: None,
            recipients: Vec::new(),
            cc: Vec::new(),
            ack_required: false,
            expires: None,
            key: None,
            strict: false,
            echo: false,
            extra: Map::new(),
        }
    }
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The message as it is stored.
    pub message: Message,
    /// The key was known: this is the message that was stored then.
    pub duplicate: bool,
    /// The message is visible, but this kept it from being made durable.
    pub not_durable: Option<String>,
    /// Recipients whom nobody in the project has seen, with names that look alike.
    pub unknown: Vec<UnknownRecipient>,
    /// This is the first message of a topic that has the name of this agent: perhaps an `@` was forgotten.
    pub namesake: Option<AgentName>,
    /// Recipients who may not see the message soon.
    pub backlog: Vec<Backlog>,
    /// `reply_to` names a message that is not here.
    pub reply_to_unknown: bool,
    /// The sender's own record could not be kept up to date, for this reason.
    pub agent_not_tracked: Option<String>,
}

/// A recipient whom nobody in the project has seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownRecipient {
    /// The name.
    pub name: AgentName,
    /// Known names that look alike, the nearest first.
    pub near: Vec<AgentName>,
}

/// Asks for what arrives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchRequest {
    /// A topic or `@agent`; nothing means all topics and the agent's own mailbox.
    #[serde(default)]
    pub target: Option<Target>,
    /// Deliver what is stored since then first.
    #[serde(default)]
    pub since: Option<Since>,
    /// Watch another agent's mailbox all the same.
    #[serde(default)]
    pub allow_other_dm: bool,
}

/// Asks for everything, for a peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayRequest {
    /// Deliver what is stored since then first.
    #[serde(default)]
    pub since: Option<Since>,
    /// Which run of which daemon asks: what is known to be there is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeId>,
}

/// Asks for what is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogRequest {
    /// A topic or `@agent`; nothing means all topics and the agent's own mailbox.
    #[serde(default)]
    pub target: Option<Target>,
    /// At most this many, the newest.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only since then.
    #[serde(default)]
    pub since: Option<Since>,
    /// Only from this sender.
    #[serde(default)]
    pub from: Option<AgentName>,
    /// Go on with what arrives.
    #[serde(default)]
    pub follow: bool,
    /// Read another agent's mailbox all the same.
    #[serde(default)]
    pub allow_other_dm: bool,
}

/// Asks for a name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// This name; nothing means a generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<AgentName>,
    /// Who has the name already comes back: that is no conflict, and what the profile says replaces what it said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// A generated name is one word, `briskotter`, and shown as `BriskOtter`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_word: bool,
    /// What the agent tells about itself.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
}

/// Asks who is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WhoRequest {
    /// Only those of these agents that are known, in this order; everyone when none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<AgentName>,
}

/// A name that was claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registered {
    /// The name.
    pub name: AgentName,
    /// When the agent was first seen.
    pub first_seen: Timestamp,
    /// The agent was known before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
}

/// Sets or shows the agent's own status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusRequest {
    /// What to do with it; nothing means to show it.
    #[serde(default)]
    pub change: Option<StatusChange>,
}

/// A change of a status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusChange {
    /// This is what the agent is doing now.
    Set(String),
    /// The agent says nothing.
    Clear,
}

/// An agent's status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// The agent.
    pub name: AgentName,
    /// Its status.
    pub status: Option<String>,
}

/// Asks to remove what is old.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GcRequest {
    /// Messages older than this many days.
    pub days: u32,
    /// Only tell what would go.
    #[serde(default)]
    pub dry_run: bool,
}

/// What is being removed. The items follow one by one: there can be more than fit into memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GcReport {
    /// Messages with a time before this one.
    pub before: Timestamp,
    /// Nothing is removed, only told.
    pub dry_run: bool,
}

/// A topic as `fmail topics` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicView {
    /// The topic.
    pub name: String,
    /// How many messages it holds.
    pub messages: u64,
    /// When the newest was sent.
    pub last_activity: Timestamp,
    /// The newest one's id.
    pub last_id: MessageId,
}

/// An agent as `fmail who` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    /// The agent.
    pub name: AgentName,
    /// The host it was last seen on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The id of that host, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// What it says it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Whether it is there.
    pub state: AgentState,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// What it tells about itself.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
}

/// Whether an agent is there, judged by when it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// Seen within the last 90 seconds, or has an open session. (Senders renew their record once a minute.)
    Active,
    /// Seen within the last 30 minutes.
    Idle,
    /// Not seen for longer.
    Offline,
}

impl AgentState {
    /// The state of an agent that was last seen this long ago.
    pub fn after(quiet: std::time::Duration) -> Self {
        match quiet.as_secs() {
            0..=89 => AgentState::Active,
            90..=1_799 => AgentState::Idle,
            _ => AgentState::Offline,
        }
    }

    /// The word that is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            AgentState::Active => "active",
            AgentState::Idle => "idle",
            AgentState::Offline => "offline",
        }
    }
}
