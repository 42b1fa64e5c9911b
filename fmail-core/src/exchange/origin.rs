//! From a message as it is stored here to the form in which it travels, and to the one in which it is shown.
//!
//! What a message mentions is turned into ids of this project when it is imported. Where the other message is not here yet,
//! the id of birth stays, with its hash, and is kept for that message: nobody else gets it (`awaited.rs`). Where somebody
//! has it already, the stored message does not say it at all, but keeps it aside; what agents see is filled in when it is
//! shown. So nothing that is stored or shown points at the wrong message, and no stored message is ever changed.

use std::sync::Arc;

use fmail_api::{ContentHash, Identity, Message, MessageId, REPLY_HASH, REPLY_ORIGIN, Result, THREAD_HASH};
use serde_json::{Map, Value};

use super::{Exchange, awaited};

/// The hash of a message that was swept away, which nobody knows any more.
const SWEPT: ContentHash = ContentHash::from_bytes([0; 16]);

/// What stands in a text field.
fn text_in<'a>(message: &'a Message, field: &str) -> Option<&'a str> {
    message.extra.get(field)?.as_str()
}

/// The message that this one answers, where it is only known by what other hosts call it.
pub(crate) fn foreign_parent(message: &Message) -> Option<Identity> {
    if message.extra.is_empty() {
        return None;
    }
    let aside = || text_in(message, REPLY_ORIGIN)?.parse().ok();
    Some(Identity { origin: message.reply_to.or_else(aside)?, hash: text_in(message, REPLY_HASH)?.parse().ok()? })
}

/// The first message of the thread, where it is only known by what other hosts call it.
pub(crate) fn foreign_thread(message: &Message) -> Option<Identity> {
    let thread = message.thread.as_ref()?;
    if let Some((origin, hash)) = thread.split_once('/') {
        return Some(Identity { origin: origin.parse().ok()?, hash: hash.parse().ok()? });
    }
    Some(Identity { origin: thread.parse().ok()?, hash: text_in(message, THREAD_HASH)?.parse().ok()? })
}

/// The name of a thread whose first message is not here, and whose id another one has.
pub(crate) fn thread_aside(first: &Identity) -> String {
    format!("{}/{}", first.origin, first.hash)
}

/// Whether agents see a message as it is stored.
pub(crate) fn is_shown_as_it_is(message: &Message) -> bool {
    foreign_parent(message).is_none() && foreign_thread(message).is_none()
}

fn hash_of(identity: &Identity) -> Value {
    Value::String(identity.hash.to_string())
}

/// Whether a message mentions another one by an id that may be another one elsewhere.
fn mentions(message: &Message) -> bool {
    message.reply_to.is_some()
        || message.thread.as_ref().is_some_and(|thread| thread.parse::<MessageId>().is_ok())
        || !is_shown_as_it_is(message)
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
        let parent = match (foreign_parent(&message), message.reply_to) {
            (Some(parent), _) => Some(parent),
            (None, Some(parent)) => self.known_as(parent).await?,
            (None, None) => None,
        };
        if let Some(parent) = parent {
            origin.reply_to = Some(parent.origin);
            origin.extra.shift_remove(REPLY_ORIGIN);
            origin.extra.insert(REPLY_HASH.into(), hash_of(&parent));
        }
        let first = match (foreign_thread(&message), message.thread.as_ref().map(|thread| thread.parse())) {
            (Some(first), _) => Some(first),
            (None, Some(Ok(first))) => self.known_as(first).await?.filter(|first| first.hash != SWEPT),
            _ => None,
        };
        if let Some(first) = first {
            origin.thread = Some(first.origin.to_string());
            origin.extra.insert(THREAD_HASH.into(), hash_of(&first));
        }
        leave_out(&mut origin, hashes);
        Ok(Arc::new(origin))
    }

    /// By what other hosts know the message that has this id here, or had it: what was deleted has a grave; of what was swept
    /// away only that is known. Nothing for an id that no message here ever had, as far as that can be told.
    async fn known_as(&self, id: MessageId) -> Result<Option<Identity>> {
        if let Some(identity) = self.identity(id).await? {
            return Ok(Some(identity));
        }
        if let Some(identity) = self.buried(id).await? {
            return Ok(Some(identity));
        }
        let swept = self.horizon().await?.is_some_and(|horizon| id.time() < horizon);
        Ok(swept.then_some(Identity { origin: id, hash: SWEPT }))
    }

    /// Turns what a message mentions into ids of this project. What is not here stays as it came, with its hash, or is kept
    /// aside where another message has its id.
    pub(crate) async fn localise(&self, message: &mut Message) -> Result<()> {
        // What is kept aside is for us to say.
        message.extra.shift_remove(REPLY_ORIGIN);
        if let Some(parent) = foreign_parent(message) {
            match self.local_id(&parent).await? {
                Some(id) => {
                    message.reply_to = Some(id);
                    message.extra.shift_remove(REPLY_HASH);
                }
                None if parent.hash != SWEPT && self.keeps(&parent).await? => {}
                None => {
                    message.reply_to = None;
                    message.extra.insert(REPLY_ORIGIN.into(), Value::String(parent.origin.to_string()));
                }
            }
        }
        if let Some(first) = foreign_thread(message) {
            match self.local_id(&first).await? {
                Some(id) => {
                    message.thread = Some(id.to_string());
                    message.extra.shift_remove(THREAD_HASH);
                }
                None if self.keeps(&first).await? => {}
                None => {
                    message.thread = Some(thread_aside(&first));
                    message.extra.shift_remove(THREAD_HASH);
                }
            }
        }
        Ok(())
    }

    /// Keeps an id for a message that is not here. Whether that could be done: another one may have the id.
    async fn keeps(&self, identity: &Identity) -> Result<bool> {
        // First kept and then looked: whoever takes the id in between is seen, or sees that it is kept.
        if !self.awaited().keep(identity) {
            return Ok(false);
        }
        let taken = self.stored(identity.origin).await?.iter().any(|message| message.identity() != *identity);
        if taken {
            self.awaited().forget(identity);
        }
        Ok(!taken)
    }

    /// Takes an id for a message that is imported, until the answer is dropped; nothing when it is kept for another one.
    pub(crate) async fn take_id(&self, identity: &Identity) -> Result<Option<awaited::Taking<'_>>> {
        if self.known().cursor.is_none() {
            self.bring_up_to_date().await?;
        }
        Ok(awaited::Taking::new(&self.awaited, identity))
    }

    /// The message as agents see it: what it mentions has the ids of this project, or is not said.
    pub(crate) async fn as_shown(&self, message: Arc<Message>) -> Result<Arc<Message>> {
        let mut shown = Message::clone(&message);
        if let Some(parent) = foreign_parent(&message) {
            match self.found_or_taken(&parent).await? {
                Standing::Here(id) => {
                    shown.reply_to = Some(id);
                    shown.extra.shift_remove(REPLY_HASH);
                    shown.extra.shift_remove(REPLY_ORIGIN);
                }
                Standing::Taken if shown.reply_to.take().is_some() => {
                    shown.extra.insert(REPLY_ORIGIN.into(), Value::String(parent.origin.to_string()));
                }
                Standing::Taken | Standing::Missing => {}
            }
        }
        if let Some(first) = foreign_thread(&message) {
            match self.found_or_taken(&first).await? {
                Standing::Here(id) => {
                    shown.thread = Some(id.to_string());
                    shown.extra.shift_remove(THREAD_HASH);
                }
                Standing::Taken => {
                    shown.thread = Some(thread_aside(&first));
                    shown.extra.shift_remove(THREAD_HASH);
                }
                Standing::Missing => {}
            }
        }
        Ok(Arc::new(shown))
    }

    /// Whether a message is here, or another one in its place. All messages are read for this only where ids have collided.
    async fn found_or_taken(&self, identity: &Identity) -> Result<Standing> {
        let there = self.stored(identity.origin).await?;
        if there.iter().any(|message| message.identity() == *identity) {
            return Ok(Standing::Here(identity.origin));
        }
        if there.is_empty() && self.look(|inventory| inventory.moved(identity)).is_none() {
            return Ok(Standing::Missing);
        }
        Ok(self.local_id(identity).await?.map_or(Standing::Taken, Standing::Here))
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
            None if message.extra.contains_key(THREAD_HASH) => {
                (message.thread.clone(), Map::from_iter([(THREAD_HASH.into(), hash_of(&first))]))
            }
            None => (message.thread.clone(), Map::new()),
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

/// What became of a message that another one mentions.
enum Standing {
    /// It is here, under this id.
    Here(MessageId),
    /// It is not, and another one has its id.
    Taken,
    /// Neither.
    Missing,
}
