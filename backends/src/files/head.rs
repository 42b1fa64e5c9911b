//! What the index needs to know of a message file, read without building the whole message.

use std::fmt;

use fmail_api::{
    AgentName, ContentHash, Error, ErrorKind, Identity, Message, MessageId, Priority, Result, Target, Timestamp,
    canonical_tags,
};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::fs::{Dir, Fs, is_about_name, read_file};
use super::index::{Arrival, Entry, fingerprint};
use super::{layout, reader};

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

/// The fields of an ordinary message file, those that do not matter here with an underscore.
///
/// All that a message can have are named, because one that cannot be used makes the file broken.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(rename = "id")]
    _id: Option<MessageId>,
    from: AgentName,
    to: Option<Target>,
    time: Option<Timestamp>,
    #[serde(rename = "body")]
    _body: Sound,
    #[serde(rename = "subject")]
    _subject: Option<String>,
    thread: Option<String>,
    #[serde(rename = "reply_to")]
    _reply_to: Option<MessageId>,
    #[serde(rename = "priority")]
    _priority: Option<Priority>,
    #[serde(rename = "host")]
    _host: Option<String>,
    #[serde(rename = "tags", default, deserialize_with = "check_tags")]
    _tags: (),
    recipients: Option<Vec<Target>>,
    cc: Option<Vec<Target>>,
    #[serde(rename = "ack_required")]
    _ack_required: Option<bool>,
    #[serde(rename = "expires")]
    _expires: Option<Timestamp>,
    key: Option<String>,
}

/// Accepts the tags that a message can have.
fn check_tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    let tags: Option<Vec<String>> = Option::deserialize(deserializer)?;
    canonical_tags(tags.iter().flatten().map(String::as_str)).map(drop).map_err(de::Error::custom)
}

/// A JSON value that was read to its end and not kept.
///
/// `IgnoredAny` would accept texts and depths that no reader accepts.
struct Sound;

impl<'de> Deserialize<'de> for Sound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Sound)
    }
}

impl<'de> Visitor<'de> for Sound {
    type Value = Sound;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Sound, A::Error> {
        while items.next_element::<Sound>()?.is_some() {}
        Ok(Sound)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Sound, A::Error> {
        while fields.next_entry::<Sound, Sound>()?.is_some() {}
        Ok(Sound)
    }
}

impl Head {
    /// Reads the file of message `id` in the mailbox of `target`. Only a failure of the machine is `unavailable`; what the
    /// file is or says is `invalid_request`.
    pub fn read(fs: &dyn Fs, mailbox: &Dir, target: &Target, id: MessageId) -> Result<Head> {
        let name = layout::file_name(id);
        let bytes = read_file(fs, mailbox, &name, MAX_FILE).map_err(|error| match is_about_name(&error) {
            true => Error::invalid(error.to_string()),
            false => Error::new(ErrorKind::Unavailable, format!("{name} cannot be read: {error}")),
        })?;
        Head::parse(&bytes, target, id)
    }

    /// Whatever is out of the ordinary is judged by the reader. So nothing gets into the index that no reader can show:
    /// there it would be counted, and be among the newest.
    fn parse(bytes: &[u8], target: &Target, id: MessageId) -> Result<Head> {
        match serde_json::from_slice(bytes) {
            Ok(fields) => Ok(Head::ordinary(fields, id)),
            Err(_) => reader::parse(bytes, target, id).map(|(message, _)| Head::of(&message)),
        }
    }

    fn ordinary(fields: Fields, id: MessageId) -> Head {
        let mut targets: Vec<Target> = fields.to.into_iter().collect();
        targets.extend(fields.recipients.into_iter().flatten());
        targets.extend(fields.cc.into_iter().flatten());
        Head {
            time: fields.time.unwrap_or_else(|| id.time().whole_seconds()).unix_nanos(),
            from: fingerprint(fields.from.as_str()),
            thread: fields.thread.as_deref().map_or(0, fingerprint),
            keys: fields.key.as_deref().map(key_hash).into_iter().collect(),
            targets,
        }
    }

    fn of(message: &Message) -> Head {
        Head {
            time: message.time.unix_nanos(),
            from: fingerprint(message.from.as_str()),
            thread: message.thread.as_deref().map_or(0, fingerprint),
            keys: keys_of(message),
            targets: message.targets(),
        }
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
    Arrival {
        id: message.id,
        time: message.time.unix_nanos(),
        from: fingerprint(message.from.as_str()),
        thread: message.thread.as_deref().map_or(0, fingerprint),
        keys: keys_of(message),
        latest,
    }
}

/// By what a message is found again.
fn keys_of(message: &Message) -> Vec<ContentHash> {
    let key = message.key.as_deref().map(key_hash);
    let origin = message.origin_id.map(|_| origin_hash(message));
    key.into_iter().chain(origin).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "20260110-153000-0001";

    fn head(text: &[u8]) -> (Result<Head>, Result<Message>) {
        let (target, id) = ("task".parse().unwrap(), ID.parse().unwrap());
        (Head::parse(text, &target, id), reader::parse(text, &target, id).map(|(message, _)| message))
    }

    #[test]
    fn what_no_reader_accepts_does_not_get_into_the_index() {
        let mut broken: Vec<Vec<u8>> = [
            ("priority", json!("urgent")),
            ("tags", json!(["Not A Tag"])),
            ("tags", json!((0..11).map(|number| format!("t{number}")).collect::<Vec<_>>())),
            ("reply_to", json!("0001")),
            ("expires", json!("noon")),
            ("ack_required", json!("yes")),
            ("subject", json!(7)),
            ("host", json!([])),
            ("id", json!("one")),
            ("origin_id", json!(1)),
        ]
        .into_iter()
        .map(|(field, value)| {
            let mut file = json!({"from": "eve", "to": "task", "body": "x"});
            file[field] = value;
            file.to_string().into_bytes()
        })
        .collect();
        broken.push(b"{\"from\":\"eve\",\"body\":\"caf\xe9\"}".to_vec());
        broken.push(br#"{"from":"eve","body":{"n":["\ud800"]}}"#.to_vec());
        broken.push(br#"{"from":"eve","body":"x","extra":"\ud800"}"#.to_vec());
        broken.push(format!(r#"{{"from":"eve","body":{}{}}}"#, "[".repeat(200), "]".repeat(200)).into_bytes());
        for text in broken {
            let (head, message) = head(&text);
            let reason = message.expect_err("broken").message().to_string();
            let shown = String::from_utf8_lossy(&text);
            assert_eq!(head.err().map(|error| error.message().to_string()), Some(reason), "{shown}");
        }
    }

    #[test]
    fn the_index_is_told_the_same_by_both_ways_of_reading() {
        let ordinary = json!({
            "id": ID, "from": "eve", "to": "task", "time": "2026-01-10T15:30:00Z", "body": {"n": [1.5, null, true, "x"]},
            "subject": "s", "thread": "t", "reply_to": ID, "priority": "high", "host": "h", "tags": ["a", "b"],
            "recipients": ["@bob"], "cc": ["@carol"], "ack_required": true, "expires": "2026-01-11T00:00:00Z", "key": "k",
        });
        let plain = json!({"from": "eve", "body": null, "priority": null, "tags": null});
        for (file, targets) in [(ordinary, 3), (plain, 0)] {
            assert!(serde_json::from_value::<Fields>(file.clone()).is_ok(), "{file} is ordinary");
            let (head, message) = head(file.to_string().as_bytes());
            let (head, of) = (head.unwrap(), Head::of(&message.unwrap()));
            assert_eq!((head.time, head.from, head.thread, head.keys), (of.time, of.from, of.thread, of.keys));
            assert_eq!(head.targets.len(), targets);
        }
    }

    #[test]
    fn fields_that_nobody_knows_and_fields_that_come_twice_break_nothing() {
        for text in [r#"{"from":"eve","body":1,"x-trace":"abc"}"#, r#"{"from":"eve","body":1,"body":2}"#] {
            let (head, message) = head(text.as_bytes());
            assert!(head.is_ok() && message.is_ok(), "{text}");
        }
    }
}
