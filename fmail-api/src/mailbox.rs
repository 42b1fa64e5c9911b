//! The mailbox facet: a backend that keeps the state of mail itself.

use async_trait::async_trait;

use crate::{AgentName, Folder, Mail, MailCount, Mark, MessageId, Result};

/// What a backend offers that knows by itself which mail is read and which is archived, such as a mail script.
///
/// Most stores do not: fmail keeps those states in their records, for every store alike. A backend with states of its
/// own would then have two truths, one that its other users see and one of fmail's. Where a store has this facet
/// ([`Store::mailbox`](crate::Store::mailbox)), `inbox`, `count`, `read`, the marks and `thread` ask it instead.
///
/// Claims are fmail's own and need its records: on such a store they are refused with `unsupported`.
///
/// # Behaviour
/// - **B1** `inbox` gives the agent's messages of the folder, the oldest first, and changes nothing. A mailbox that
///   nobody has written to is empty, not an error.
/// - **B2** `peek` gives a message with its state and changes nothing. An unknown id is `not_found`.
/// - **B3** `read` gives it too, and it is read from then on; it stays open.
/// - **B4** `mark` says whether the mark changed anything. A mark that the backend has no notion of is `unsupported`, one on
///   an unknown id `not_found`. What is deleted is in no folder, and may be unknown from then on.
/// - **B5** `count` counts open messages, and of them the unread ones, as `inbox` would list them.
/// - **B6** `thread` gives the messages of a thread that the agent may read, the oldest first. A thread whose name is the id
///   of a message begins with that message. An unknown one is empty.
/// - **B7** A message's state here is the recipient's: what one agent marks, no other sees as marked.
#[async_trait]
pub trait Mailbox: Send + Sync {
    /// The agent's messages of a folder (B1).
    async fn inbox(&self, agent: &AgentName, folder: Folder) -> Result<Vec<Mail>>;

    /// One message, as the agent sees it (B2).
    async fn peek(&self, agent: &AgentName, id: MessageId) -> Result<Mail>;

    /// The same, and it becomes read (B3).
    async fn read(&self, agent: &AgentName, id: MessageId) -> Result<Mail>;

    /// Notes something about a message; false when it was so already (B4).
    async fn mark(&self, agent: &AgentName, id: MessageId, mark: Mark) -> Result<bool>;

    /// How much open mail the agent has (B5).
    async fn count(&self, agent: &AgentName) -> Result<MailCount>;

    /// The messages of a thread (B6).
    async fn thread(&self, agent: &AgentName, thread: &str) -> Result<Vec<Mail>>;
}
