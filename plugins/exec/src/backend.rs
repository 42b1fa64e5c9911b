//! What a script can be asked, whatever is spoken with it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use fmail_api::{AgentName, Error, ErrorKind, Folder, MailCount, Mark, Priority, Result, Tag, Timestamp};
use serde_json::Value;

use crate::foreign::Foreign;

/// A message that a script is to send, in its own terms.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub from: String,
    pub to: String,
    pub subject: Option<String>,
    pub body: Value,
    pub answers: Option<Answered>,
    pub thread: Option<String>,
    pub cc: Vec<String>,
    pub priority: Priority,
    pub tags: Vec<Tag>,
    pub ack_required: bool,
    pub expires: Option<Timestamp>,
    pub key: Option<String>,
}

/// The message that another one answers.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub id: String,
    pub from: String,
    pub thread: Option<String>,
}

/// What came of sending.
pub(crate) struct Stored {
    pub message: Foreign,
    /// The script says that it knew the key.
    pub duplicate: bool,
}

/// A way to speak with a script. Names and ids are the script's.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Whether the script itself sees to it that a key is used once.
    async fn keeps_keys(&self) -> Result<bool>;

    /// Sends a message; `unsupported` when it has something that the script has no room for.
    async fn send(&self, letter: &Letter) -> Result<Stored>;

    /// A message, without changing anything.
    async fn get(&self, reader: Option<&str>, id: &str) -> Result<Foreign>;

    /// A message, which is read from then on.
    async fn read(&self, reader: &str, id: &str) -> Result<Foreign>;

    /// Notes something. False when the script says that it was so already.
    async fn mark(&self, reader: &str, id: &str, mark: Mark) -> Result<bool>;

    /// The messages of a folder.
    async fn list(&self, mailbox: &str, folder: Folder) -> Result<Vec<Foreign>>;

    /// How many are open, and of them unread.
    async fn count(&self, mailbox: &str) -> Result<MailCount>;

    /// The messages of a thread.
    async fn thread(&self, reader: &str, thread: &str) -> Result<Vec<Foreign>>;

    /// Whether the script can be used, without side effects, in a sentence.
    async fn health(&self) -> Result<String>;

    /// Lets go of what runs.
    async fn close(&self) {}
}

/// What a letter may have beyond what every script can hold, by the name of the feature.
pub(crate) const FEATURES: [(&str, &str); 7] = [
    ("cc", "recipients beyond the first"),
    ("priority", "priorities"),
    ("tags", "tags"),
    ("ack_required", "requests for an acknowledgement"),
    ("expires", "times at which a message expires"),
    ("thread", "threads that a message begins by name"),
    ("json_bodies", "bodies that are not text"),
];

impl Letter {
    /// Refuses what a script with these features has no room for: it would be lost without a word.
    ///
    /// A body that is not text is no reason: it is sent as its JSON.
    pub(crate) fn check(&self, script: &str, features: &BTreeSet<String>) -> Result<()> {
        let needs = [
            ("cc", !self.cc.is_empty()),
            ("priority", self.priority != Priority::Normal),
            ("tags", !self.tags.is_empty()),
            ("ack_required", self.ack_required),
            ("expires", self.expires.is_some()),
            ("thread", self.thread.is_some() && self.answers.is_none()),
        ];
        let lacking: Vec<&str> = FEATURES
            .iter()
            .filter(|(name, _)| needs.contains(&(*name, true)) && !features.contains(*name))
            .map(|(_, words)| *words)
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "hold {}: the mail script `{script}` has no room for them",
            lacking.join(" and ")
        ))
        .help("send the message without; nothing was sent"))
    }

    /// The body as a text: that of JSON for what is none.
    pub(crate) fn text(&self) -> String {
        self.body.as_str().map_or_else(|| self.body.to_string(), String::from)
    }
}

/// A mark that a script has no notion of.
pub(crate) fn no_such_mark(script: &str, mark: Mark) -> Error {
    let what = match mark {
        Mark::Retrieved => "note that messages were retrieved",
        Mark::Acknowledged => "acknowledge messages",
        Mark::Unarchived => "bring archived messages back",
        Mark::Archived => "archive messages",
        Mark::Deleted => "delete messages",
        Mark::Read | Mark::Unread => "note what was read",
    };
    Error::unsupported(format!("{what}: the mail script `{script}` has no notion of it"))
}

/// The agent by the name that a script uses.
pub(crate) fn agent_of(name: &str) -> Result<AgentName> {
    AgentName::from_foreign(name)
}

/// A count that cannot be.
pub(crate) fn checked(call: &crate::script::Call<'_>, total: u64, unread: u64) -> Result<MailCount> {
    if unread > total {
        let what = format!("counts {unread} unread messages among {total}");
        return Err(call
            .error(ErrorKind::Corrupt, what)
            .help("`total` counts all open messages, the unread ones included"));
    }
    Ok(MailCount { total, unread, ..MailCount::default() })
}
