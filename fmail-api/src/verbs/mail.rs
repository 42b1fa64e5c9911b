//! What is said to a store that keeps the states of mail itself: the [mailbox facet](crate::Mailbox), as JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::shared;
use crate::{AgentName, Folder, Mail, MailState, Mark, Message, MessageId, Standing};

/// Asks for the agent's messages of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxVerb {
    /// Whose.
    pub agent: AgentName,
    /// Which.
    pub folder: Folder,
}

/// Asks for one message, to look at it or to read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MailVerb {
    /// Who asks.
    pub agent: AgentName,
    /// For which.
    pub id: MessageId,
}

/// Asks to note something about a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkVerb {
    /// Who asks.
    pub agent: AgentName,
    /// About which.
    pub id: MessageId,
    /// What.
    pub mark: Mark,
}

/// Answers `mail_mark`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkAnswer {
    /// False: it was so already.
    pub changed: bool,
}

/// Asks how much open mail the agent has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountVerb {
    /// Whose.
    pub agent: AgentName,
}

/// Asks for the messages of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadVerb {
    /// Who asks.
    pub agent: AgentName,
    /// Its name.
    pub thread: String,
}

/// A message with the agent's state of it: answers `mail_peek` and `mail_read`, and an item of `mail_inbox` and
/// `mail_thread`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MailItem {
    /// The message.
    #[serde(with = "shared")]
    pub message: Arc<Message>,
    /// What the agent has done with it; nothing at all may be left out.
    #[serde(default)]
    pub state: MailState,
    /// What that amounts to; nothing for a message that is not in the agent's mailbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

impl From<Mail> for MailItem {
    fn from(mail: Mail) -> Self {
        MailItem { message: mail.message, state: mail.state, standing: mail.standing }
    }
}

impl From<MailItem> for Mail {
    fn from(item: MailItem) -> Self {
        Mail { message: item.message, state: item.state, standing: item.standing }
    }
}
