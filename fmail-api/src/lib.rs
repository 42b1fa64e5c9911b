//! The contract of fmail.
//!
//! Agents exchange messages through topics and direct messages. Everything that stores, carries or relays a message
//! stands behind one of three traits in this crate, [`Store`], [`Transport`] and [`Relay`], so that a plugin can
//! replace it without an agent noticing. This is the only crate that the author of one has to read.
//!
//! The crate does no input or output and needs no runtime. It holds:
//!
//! * **names that cannot be wrong**: [`Topic`], [`AgentName`], [`Target`], [`Tag`], [`Priority`]. They are parsed once,
//!   where text enters the program, and passed on as types;
//! * **the message**: [`Message`] as it stands on disk and on the wire, [`Draft`] before it has an id, [`MessageId`],
//!   and [`Identity`], by which two hosts recognise the same message;
//! * **records**: small named JSON documents with compare-and-swap, named by a [`RecordKey`];
//! * **questions**: [`Query`], [`Cursor`], [`Event`];
//! * **the traits**, whose behaviour is written as numbered rules; each rule has a case in `fmail-conformance`. A
//!   backend too small for a [`Store`] can be a [`Log`];
//! * **the vocabulary**: [`Request`] and [`Response`], the operations that the command line, the daemon and every
//!   plugin share;
//! * **the exchange**: [`Place`], [`Digest`] and what else hosts ask each other to find out what each of them lacks;
//! * **one error**: [`Error`], whose [`ErrorKind`] is at once protocol code, plugin status and exit code.
//!
//! A store keeps two things and only two: messages, which never change, and records, which change by
//! compare-and-swap. Who is there, what is read, which paths are reserved: all that is composed above the store, once,
//! for every store. That is why the [`Store`] trait is short.

mod error;
mod event;
mod exchange;
mod foreign;
mod hash;
mod id;
mod lease;
mod log;
mod mail;
mod mailbox;
mod message;
mod names;
mod ops;
mod query;
mod record;
mod relay;
mod store;
mod time;
mod transport;
pub mod verbs;

pub use error::{Error, ErrorKind, Result};
pub use event::{Cursor, Delivered, Delivery, Event, EventStream, MessageStream, Notice, NoticeKind, Reporter};
pub use exchange::{
    Compared, Digest, DigestRequest, FetchRequest, Fingerprint, Held, ImportManyRequest, ImportRequest, Node, NodeId,
    Place, RECORD_BUCKETS, REPLY_HASH, REPLY_ORIGIN, Records, RecordsRequest, SharedKey, SharedRecord, Stretch,
    THREAD_HASH, Verdict, record_bucket,
};
pub use hash::{ContentHash, hex_sha256};
pub use id::{MessageId, TICKS_PER_SECOND};
pub use lease::{
    HeldLease, Lease, LeaseConflict, LeaseSelection, LeasesChanged, LeasesRecord, ReleaseRequest, RenewRequest,
    ReservationsRequest, ReserveRequest, Reserved, SkippedLease,
};
pub use log::{Log, LogEntry, LogFacts};
pub use mail::{
    Backlog, Bulk, Claim, Flag, Folder, InboxRequest, Mail, MailCount, MailState, MailboxRecord, Mark, MarkRequest,
    Marked, Nudge, NudgeRequest, ReadRequest, Receipt, ReceiptRequest, RecipientReceipt, ReplyRequest, SearchRequest,
    Standing, ThreadRequest,
};
pub use mailbox::Mailbox;
pub use message::{Draft, Identity, MAX_NESTING, Message, Recipients, canonical_json, check_key, check_nesting};
pub use names::{AgentName, Priority, Tag, Target, Topic, canonical_tags};
pub use ops::{
    AgentState, AgentView, GcReport, GcRequest, Hello, HelloRequest, LogRequest, Operation, PROTOCOL_VERSION,
    RegisterRequest, Registered, RelayRequest, Request, Response, SendRequest, Sent, StatusChange, StatusRequest,
    StatusView, TopicView, UnknownRecipient, WatchRequest, WhoRequest,
};
pub use query::{Filters, Order, Query, Scope, Since};
pub use record::{AgentRecord, Expect, Profile, ProjectIdSource, ProjectRecord, Record, RecordKey, Revision};
pub use relay::{
    Authentication, LinkCounts, LinkReport, LinkStatus, Passed, Relay, RelayStatus, RelayView, RunningRelay, Strangers,
};
pub use store::{
    Appended, Broken, Capabilities, DEFAULT_MAX_MESSAGE_BYTES, FORMAT_VERSION, Health, Imported, Quarantine,
    Quarantined, RefusedReason, Removed, Scan, Selection, Store, Summary, TargetSummary, check_size, summarise,
};
pub use time::{Clock, Timestamp, parse_duration};
pub use transport::{
    Client, Context, Host, HostedProject, Listening, Principal, ProjectRef, Reply, Shutdown, Transport,
};
