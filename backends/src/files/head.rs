//! What the index needs to know of a message file, read without building the whole message.

use fmail_api::{AgentName, ContentHash, Error, ErrorKind, Identity, Message, MessageId, Result, Target, Timestamp};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::fs::{Dir, Fs, is_about_name, read_file};
use super::index::{Arrival, Entry, fingerprint};
use super::layout;

/// The largest file that is read as a message. Larger than any size limit in use, and small enough not to hurt.
pub const MAX_FILE: u64 = 64 * 1024 * 1024;

/// What the index keeps of a message.
pub struct Head {
    /// Its time, in nanoseconds since 1970.
    pub time: i64,
    /// Fingerprint of its sender.
    pub from: u64,
    /// Fingerprint of its thread, 0 without one.
    pub thread: u64,
    /// Hashes by which it is found again.
    pub keys: Vec<ContentHash>,
    /// The mailboxes that it names.
    pub targets: Vec<Target>,
}

/// The fields of a message file that matter here; the body only has to be there.
#[derive(Deserialize)]
struct Fields {
    from: AgentName,
    to: Option<Target>,
    time: Option<Timestamp>,
    #[serde(rename = "body")]
    _body: IgnoredAny,
    thread: Option<String>,
    key: Option<String>,
    origin_id: Option<MessageId>,
    recipients: Option<Vec<Target>>,
    cc: Option<Vec<Target>>,
}

impl Head {
    /// Reads the file of message `id` in a mailbox. Only a failure of the machine is `unavailable`; what the file is or
    /// says is `invalid_request`.
    pub fn read(fs: &dyn Fs, mailbox: &Dir, id: MessageId) -> Result<Head> {
        let name = layout::file_name(id);
        let bytes = read_file(fs, mailbox, &name, MAX_FILE).map_err(|error| match is_about_name(&error) {
            true => Error::invalid(error.to_string()),
            false => Error::new(ErrorKind::Unavailable, format!("{name} cannot be read: {error}")),
        })?;
        Head::parse(&bytes, id)
    }

    fn parse(bytes: &[u8], id: MessageId) -> Result<Head> {
        let wrong = |error: serde_json::Error| Error::invalid(format!("it is not a message: {error}"));
        let fields: Fields = serde_json::from_slice(bytes).map_err(wrong)?;
        let mut keys: Vec<ContentHash> = fields.key.as_deref().map(key_hash).into_iter().collect();
        if fields.origin_id.is_some() {
            let value = serde_json::from_slice(bytes).map_err(wrong)?;
            keys.push(origin_hash(&Message::from_value(value, Some(id), fields.to.as_ref())?));
        }
        let mut targets: Vec<Target> = fields.to.into_iter().collect();
        targets.extend(fields.recipients.into_iter().flatten());
        targets.extend(fields.cc.into_iter().flatten());
        Ok(Head {
            time: fields.time.unwrap_or_else(|| id.time().whole_seconds()).unix_nanos(),
            from: fingerprint(fields.from.as_str()),
            thread: fields.thread.as_deref().map_or(0, fingerprint),
            keys,
            targets,
        })
    }

    /// What an entry of an earlier index says.
    pub fn known(entry: &Entry, target: Target) -> Head {
        Head { time: entry.time, from: entry.from, thread: entry.thread, keys: Vec::new(), targets: vec![target] }
    }

    /// What the index is told when a file is found.
    pub fn arrival(&self, id: MessageId, latest: MessageId) -> Arrival {
        let keys = self.keys.clone();
        Arrival { id, time: self.time, from: self.from, thread: self.thread, keys, latest }
    }
}

/// What the index is told of a message that is being stored.
pub fn arrival_of(message: &Message, latest: MessageId) -> Arrival {
    let mut keys: Vec<ContentHash> = message.key.as_deref().map(key_hash).into_iter().collect();
    if message.origin_id.is_some() {
        keys.push(origin_hash(message));
    }
    Arrival {
        id: message.id,
        time: message.time.unix_nanos(),
        from: fingerprint(message.from.as_str()),
        thread: message.thread.as_deref().map_or(0, fingerprint),
        keys,
        latest,
    }
}

/// By what an idempotency key is found.
pub fn key_hash(key: &str) -> ContentHash {
    ContentHash::of(&[b"key", key.as_bytes()])
}

/// By what an imported message that got another id is found.
pub fn origin_hash(message: &Message) -> ContentHash {
    origin_hash_of(&message.identity())
}

/// The same for who knows the identity.
pub fn origin_hash_of(identity: &Identity) -> ContentHash {
    ContentHash::of(&[b"origin", identity.origin.to_string().as_bytes(), identity.hash.as_bytes()])
}
