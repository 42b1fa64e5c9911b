//! From a message as it is stored here to the form in which it travels, and back.

use std::sync::Arc;

use fmail_api::{ContentHash, Identity, Message, MessageId, REPLY_HASH, Result, THREAD_HASH};
use serde_json::{Map, Value};

use super::Exchange;

/// The hash that a message carries beside an id.
fn hash_in(message: &Message, field: &str) -> Option<ContentHash> {
    message.extra.get(field)?.as_str()?.parse().ok()
}

/// The message that this one answers, where it is only known by what other hosts call it.
pub(crate) fn foreign_parent(message: &Message) -> Option<Identity> {
    Some(Identity { origin: message.reply_to?, hash: hash_in(message, REPLY_HASH)? })
}

/// The first message of the thread, where it is only known by what other hosts call it.
pub(crate) fn foreign_thread(message: &Message) -> Option<Identity> {
    Some(Identity { origin: message.thread.as_ref()?.parse().ok()?, hash: hash_in(message, THREAD_HASH)? })
}

/// Whether a message mentions another one by an id that may be another one elsewhere.
fn mentions(message: &Message) -> bool {
    message.reply_to.is_some() || message.thread.as_ref().is_some_and(|thread| thread.parse::<MessageId>().is_ok())
}

/// The message as it travels, where nothing has to be looked up for that, as with most. Otherwise nothing.
pub(crate) fn origin_form_at_once(message: &Arc<Message>, host: Option<&String>, hashes: bool) -> Option<Arc<Message>> {
    if mentions(message) {
        return None;
    }
    if message.origin_id.is_none() && (message.host.is_some() || host.is_none()) {
        return Some(message.clone());
    }
    let mut origin = born(message, host);
    leave_out(&mut origin, hashes);
    Some(Arc::new(origin))
}

/// The message with the id and the host that it was born with. `host` is ours, for what was born here.
fn born(message: &Message, host: Option<&String>) -> Message {
    let mut origin = message.clone();
    origin.id = origin.origin_id.take().unwrap_or(origin.id);
    if origin.host.is_none() {
        origin.host = host.cloned();
    }
    origin
}

/// A peer that does not know the fields with hashes is not given any.
fn leave_out(origin: &mut Message, hashes: bool) {
    if !hashes {
        origin.extra.shift_remove(REPLY_HASH);
        origin.extra.shift_remove(THREAD_HASH);
    }
}

impl Exchange {
    /// The message as it travels. `host` is ours, for what was born here. A peer that does not know the fields with hashes
    /// is not given any.
    pub(crate) async fn origin_form(
        &self,
        message: Arc<Message>,
        host: Option<&String>,
        hashes: bool,
    ) -> Result<Arc<Message>> {
        if let Some(origin) = origin_form_at_once(&message, host, hashes) {
            return Ok(origin);
        }
        let mut origin = born(&message, host);
        // What carries its hash was never found here, and still has the ids that it came with.
        if foreign_parent(&message).is_none()
            && let Some(parent) = message.reply_to
            && let Some(parent) = self.identity(parent).await?
        {
            origin.reply_to = Some(parent.origin);
            origin.extra.insert(REPLY_HASH.into(), Value::String(parent.hash.to_string()));
        }
        if foreign_thread(&message).is_none()
            && let Some(Ok(first)) = message.thread.as_ref().map(|thread| thread.parse())
            && let Some(first) = self.identity(first).await?
        {
            origin.thread = Some(first.origin.to_string());
            origin.extra.insert(THREAD_HASH.into(), Value::String(first.hash.to_string()));
        }
        leave_out(&mut origin, hashes);
        Ok(Arc::new(origin))
    }

    /// Turns what a message mentions into ids of this project. What is not here stays as it came, with its hash.
    pub(crate) async fn localise(&self, message: &mut Message) -> Result<()> {
        if let Some(parent) = foreign_parent(message)
            && let Some(id) = self.local_id(&parent).await?
        {
            message.reply_to = Some(id);
            message.extra.shift_remove(REPLY_HASH);
        }
        if let Some(first) = foreign_thread(message)
            && let Some(id) = self.local_id(&first).await?
        {
            message.thread = Some(id.to_string());
            message.extra.shift_remove(THREAD_HASH);
        }
        Ok(())
    }

    /// The id here of the message that this one answers, if it is here or nobody can tell.
    pub(crate) async fn parent(&self, message: &Message) -> Result<Option<MessageId>> {
        match foreign_parent(message) {
            Some(parent) => self.local_id(&parent).await,
            None => Ok(message.reply_to),
        }
    }

    /// The thread that an answer to a message belongs to by name, and what the answer has to say beside it as long as the
    /// thread's first message is not here.
    pub(crate) async fn thread_to_carry(&self, message: &Message) -> Result<(Option<String>, Map<String, Value>)> {
        let Some(first) = foreign_thread(message) else { return Ok((message.thread.clone(), Map::new())) };
        Ok(match self.local_id(&first).await? {
            Some(id) => (Some(id.to_string()), Map::new()),
            None => {
                let hash = Value::String(first.hash.to_string());
                (message.thread.clone(), Map::from_iter([(THREAD_HASH.into(), hash)]))
            }
        })
    }

    /// The thread that a message belongs to by name, as it is called here.
    pub(crate) async fn thread(&self, message: &Message) -> Result<Option<String>> {
        let named = message.thread.clone();
        match foreign_thread(message) {
            Some(first) => Ok(self.local_id(&first).await?.map(|id| id.to_string()).or(named)),
            None => Ok(named),
        }
    }
}
