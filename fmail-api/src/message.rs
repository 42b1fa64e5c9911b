//! The message: SPEC.md's JSON, on disk and on the wire alike.

use std::io;

use serde::{Deserialize, Serialize, de, ser::SerializeMap};
use serde_json::{Map, Value};

use crate::{
    AgentName, ContentHash, Error, MessageId, Priority, Result, Scope, Tag, Target, Timestamp, canonical_tags,
};

/// A stored message. It never changes.
///
/// A message that uses only SPEC.md's fields is exactly as small as SPEC.md shows it: absent fields are left out, the
/// normal priority too. Fields that fmail does not know are kept in `extra` and written back.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The id in this project.
    pub id: MessageId,
    /// Who sent it.
    pub from: AgentName,
    /// Where it went first.
    pub to: Target,
    /// When it was sent.
    pub time: Timestamp,
    /// Any JSON value.
    pub body: Value,
    /// Recipients beyond the first.
    pub more: Recipients,
    /// The message that this one answers.
    pub reply_to: Option<MessageId>,
    /// How urgent it is.
    pub priority: Priority,
    /// The host it came from (connected mode).
    pub host: Option<String>,
    /// Labels.
    pub tags: Vec<Tag>,
    /// A title.
    pub subject: Option<String>,
    /// The conversation that it belongs to.
    pub thread: Option<String>,
    /// Whether the sender asks for an acknowledgement.
    pub ack_required: bool,
    /// After this time the message is of no use.
    pub expires: Option<Timestamp>,
    /// The sender's idempotency key: a second append with it answers with this message.
    pub key: Option<String>,
    /// The id that the message has where it was first stored, when that is not `id`.
    pub origin_id: Option<MessageId>,
    /// Fields that fmail does not know.
    pub extra: Map<String, Value>,
}

/// Recipients beyond the first. All of them share one message and one id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recipients {
    /// Further recipients who are asked to act.
    pub recipients: Vec<Target>,
    /// Recipients who are only kept informed.
    pub cc: Vec<Target>,
}

/// A message before a store has given it an id.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Who sends it.
    pub from: AgentName,
    /// Where it goes first.
    pub to: Target,
    /// Any JSON value.
    pub body: Value,
    /// Recipients beyond the first.
    pub more: Recipients,
    /// The message that this one answers.
    pub reply_to: Option<MessageId>,
    /// How urgent it is.
    pub priority: Priority,
    /// The host it comes from.
    pub host: Option<String>,
    /// Labels.
    pub tags: Vec<Tag>,
    /// A title.
    pub subject: Option<String>,
    /// The conversation that it belongs to.
    pub thread: Option<String>,
    /// Whether the sender asks for an acknowledgement.
    pub ack_required: bool,
    /// After this time the message is of no use.
    pub expires: Option<Timestamp>,
    /// The sender's idempotency key.
    pub key: Option<String>,
    /// Fields that fmail does not know.
    pub extra: Map<String, Value>,
}

/// By what two hosts recognise the same message: the id where it was first stored, and what it says.
///
/// Not the host's name: standalone messages have none, containers change theirs, two hosts may share one. The hash
/// covers from, to, time and body only, since a plain peer may drop the other fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The id where the message was first stored.
    pub origin: MessageId,
    /// What it says.
    pub hash: ContentHash,
}

/// How many arrays and objects may stand in each other in a body or in a further field. What carries a message puts a few more
/// around it, and most readers of JSON give up at 128.
pub const MAX_NESTING: usize = 100;

/// The fields that fmail gives a message; the further ones have other names.
const OWN_FIELDS: [&str; 17] = [
    "id",
    "from",
    "to",
    "time",
    "body",
    "subject",
    "thread",
    "reply_to",
    "priority",
    "host",
    "tags",
    "recipients",
    "cc",
    "ack_required",
    "expires",
    "key",
    "origin_id",
];

impl Draft {
    /// A draft with nothing but what every message has.
    pub fn new(from: AgentName, to: Target, body: impl Into<Value>) -> Self {
        Draft {
            from,
            to,
            body: body.into(),
            more: Recipients::default(),
            reply_to: None,
            priority: Priority::Normal,
            host: None,
            tags: Vec::new(),
            subject: None,
            thread: None,
            ack_required: false,
            expires: None,
            key: None,
            extra: Map::new(),
        }
    }

    /// The message that this draft becomes.
    pub fn into_message(self, id: MessageId, time: Timestamp) -> Message {
        Message {
            id,
            from: self.from,
            to: self.to,
            time,
            body: self.body,
            more: self.more,
            reply_to: self.reply_to,
            priority: self.priority,
            host: self.host,
            tags: self.tags,
            subject: self.subject,
            thread: self.thread,
            ack_required: self.ack_required,
            expires: self.expires,
            key: self.key,
            origin_id: None,
            extra: self.extra,
        }
    }
}

impl Message {
    /// Every mailbox and topic that holds the message, the first one first, none twice.
    pub fn targets(&self) -> Vec<Target> {
        let mut targets = vec![self.to.clone()];
        for target in self.more.recipients.iter().chain(&self.more.cc) {
            if !targets.contains(target) {
                targets.push(target.clone());
            }
        }
        targets
    }

    /// Whether one of its targets belongs to the scope. Asked for every message by every watcher, so nothing is listed.
    pub fn stands_in(&self, scope: &Scope) -> bool {
        let others = self.more.recipients.iter().chain(&self.more.cc);
        std::iter::once(&self.to).chain(others).any(|target| scope.contains(target))
    }

    /// By what other hosts recognise the message.
    pub fn identity(&self) -> Identity {
        let body = canonical_json(&self.body);
        let parts = [self.from.to_string(), self.to.to_string(), self.time.to_string(), body];
        let hash = ContentHash::of(&parts.each_ref().map(|part| part.as_bytes()));
        Identity { origin: self.origin_id.unwrap_or(self.id), hash }
    }

    /// The compact JSON of the message, one line without its end. Size limits are on this form.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// How many bytes [`to_line`](Message::to_line) has. Asked of every message, so the line is not made for it.
    pub fn line_length(&self) -> usize {
        let mut length = Length(0);
        // Counting does not fail, and what cannot be written has no line either.
        serde_json::to_writer(&mut length, self).map_or(0, |()| length.0)
    }

    /// Whether everybody who carries the message can read it: nothing is nested too deep, and no field of fmail's stands a second
    /// time among the further ones, where a reader would take it for the first.
    pub fn check_fields(&self) -> Result<()> {
        if let Some(name) = self.extra.keys().find(|name| OWN_FIELDS.contains(&name.as_str())) {
            return Err(Error::invalid(format!(
                "`{name}` is a field of its own and cannot be one of the further fields"
            )));
        }
        let values = std::iter::once(("body", &self.body));
        let others = self.extra.iter().map(|(name, value)| (name.as_str(), value));
        values.chain(others).try_for_each(|(name, value)| check_nesting(name, value))
    }

    /// Whether `agent` may read the message: anyone reads a topic, a direct message its sender and its recipients.
    pub fn readable_by(&self, agent: &AgentName) -> bool {
        self.from == *agent || self.targets().iter().any(|target| target.agent().is_none_or(|name| name == agent))
    }

    /// Reads a message from JSON, filling `id`, `to` and `time` from where it was found when they are missing.
    ///
    /// `from` and `body` have to be there. A field of the wrong type is an error, not a silent default.
    pub fn from_value(value: Value, id: Option<MessageId>, to: Option<&Target>) -> Result<Self> {
        let Value::Object(mut fields) = value else {
            return Err(Error::invalid("a message is a JSON object"));
        };
        let id = match take::<MessageId>(&mut fields, "id")? {
            Some(found) => found,
            None => id.ok_or_else(|| missing("id"))?,
        };
        let to = match take::<Target>(&mut fields, "to")? {
            Some(found) => found,
            None => to.cloned().ok_or_else(|| missing("to"))?,
        };
        let tags: Vec<String> = take(&mut fields, "tags")?.unwrap_or_default();
        let message = Message {
            id,
            from: take(&mut fields, "from")?.ok_or_else(|| missing("from"))?,
            to,
            time: take(&mut fields, "time")?.unwrap_or_else(|| id.time().whole_seconds()),
            body: fields.shift_remove("body").ok_or_else(|| missing("body"))?,
            more: Recipients {
                recipients: take(&mut fields, "recipients")?.unwrap_or_default(),
                cc: take(&mut fields, "cc")?.unwrap_or_default(),
            },
            reply_to: take(&mut fields, "reply_to")?,
            priority: take(&mut fields, "priority")?.unwrap_or_default(),
            host: take(&mut fields, "host")?,
            tags: canonical_tags(tags.iter().map(String::as_str))?,
            subject: take(&mut fields, "subject")?,
            thread: take(&mut fields, "thread")?,
            ack_required: take(&mut fields, "ack_required")?.unwrap_or_default(),
            expires: take(&mut fields, "expires")?,
            key: take(&mut fields, "key")?,
            origin_id: take(&mut fields, "origin_id")?,
            extra: fields,
        };
        message.check_fields()?;
        Ok(message)
    }
}

/// Whether a body, or a further field of this name, is one that everybody who carries the message can read.
pub fn check_nesting(name: &str, value: &Value) -> Result<()> {
    fn fits(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
            Value::Object(fields) => levels > 0 && fields.values().all(|value| fits(value, levels - 1)),
            _ => true,
        }
    }
    if fits(value, MAX_NESTING) {
        return Ok(());
    }
    Err(Error::invalid(format!("the message's `{name}` is nested deeper than {MAX_NESTING} levels"))
        .help("send it as text, or write it to a file and send its path"))
}

/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 255;

/// Whether a message may be sent with this key. An empty one comes from a variable that is not set, and would make one message
/// of many.
pub fn check_key(key: &str) -> Result<()> {
    if !key.is_empty() && key.len() <= MAX_KEY && !key.chars().any(char::is_control) {
        return Ok(());
    }
    let bytes = key.len();
    Err(Error::invalid(format!(
        "the key has {bytes} bytes; it has to have 1 to {MAX_KEY}, and no control characters among them"
    ))
    .help("give each message a key of its own, or none"))
}

fn missing(field: &str) -> Error {
    Error::invalid(format!("the message has no `{field}`"))
}

/// Takes a field out of the object; `null` counts as absent.
fn take<T: de::DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<T>> {
    match fields.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|error| Error::invalid(format!("the message's `{name}` cannot be used: {error}"))),
    }
}

/// JSON with the keys of every object in order, so that two hosts hash the same value to the same bytes.
pub fn canonical_json(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_unstable();
                Value::Object(keys.into_iter().map(|key| (key.clone(), sorted(&map[key]))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

/// What a message and a draft have in common, borrowed to be written.
struct Fields<'a> {
    id: Option<&'a MessageId>,
    from: &'a AgentName,
    to: &'a Target,
    time: Option<&'a Timestamp>,
    body: &'a Value,
    more: &'a Recipients,
    reply_to: Option<&'a MessageId>,
    priority: Priority,
    host: Option<&'a String>,
    tags: &'a Vec<Tag>,
    subject: Option<&'a String>,
    thread: Option<&'a String>,
    ack_required: bool,
    expires: Option<&'a Timestamp>,
    key: Option<&'a String>,
    origin_id: Option<&'a MessageId>,
    extra: &'a Map<String, Value>,
}

/// Counts what is written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The fields of a message or a draft, with what only a message has.
macro_rules! fields {
    ($from:expr, $id:expr, $time:expr, $origin_id:expr) => {
        Fields {
            id: $id,
            from: &$from.from,
            to: &$from.to,
            time: $time,
            body: &$from.body,
            more: &$from.more,
            reply_to: $from.reply_to.as_ref(),
            priority: $from.priority,
            host: $from.host.as_ref(),
            tags: &$from.tags,
            subject: $from.subject.as_ref(),
            thread: $from.thread.as_ref(),
            ack_required: $from.ack_required,
            expires: $from.expires.as_ref(),
            key: $from.key.as_ref(),
            origin_id: $origin_id,
            extra: &$from.extra,
        }
    };
}

impl Serialize for Fields<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Optional(&mut map).entry("id", self.id)?;
        map.serialize_entry("from", self.from)?;
        map.serialize_entry("to", self.to)?;
        Optional(&mut map).entry("time", self.time)?;
        map.serialize_entry("body", self.body)?;
        let mut optional = Optional(&mut map);
        optional.entry("subject", self.subject)?;
        optional.entry("thread", self.thread)?;
        optional.entry("reply_to", self.reply_to)?;
        optional.entry("priority", Some(self.priority).filter(|p| *p != Priority::Normal).as_ref())?;
        optional.entry("host", self.host)?;
        optional.entry("tags", Some(self.tags).filter(|tags| !tags.is_empty()))?;
        optional.entry("recipients", Some(&self.more.recipients).filter(|list| !list.is_empty()))?;
        optional.entry("cc", Some(&self.more.cc).filter(|list| !list.is_empty()))?;
        optional.entry("ack_required", self.ack_required.then_some(&true))?;
        optional.entry("expires", self.expires)?;
        optional.entry("key", self.key)?;
        optional.entry("origin_id", self.origin_id)?;
        for (name, value) in self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(self, Some(&self.id), Some(&self.time), self.origin_id.as_ref()).serialize(serializer)
    }
}

/// A draft is a message without `id` and `time`.
impl Serialize for Draft {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(self, None, None, None).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Draft {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        for given in ["id", "time", "origin_id"] {
            if value.get(given).is_some() {
                return Err(de::Error::custom(format!("a draft has no `{given}`: the store gives it")));
            }
        }
        Message::from_value(value, Some(MessageId::MIN), None).map(Draft::from).map_err(de::Error::custom)
    }
}

/// What a message was before a store gave it an id and a time.
impl From<Message> for Draft {
    fn from(message: Message) -> Self {
        Draft {
            from: message.from,
            to: message.to,
            body: message.body,
            more: message.more,
            reply_to: message.reply_to,
            priority: message.priority,
            host: message.host,
            tags: message.tags,
            subject: message.subject,
            thread: message.thread,
            ack_required: message.ack_required,
            expires: message.expires,
            key: message.key,
            extra: message.extra,
        }
    }
}

/// Writes a field only when it is there.
struct Optional<'a, M>(&'a mut M);

impl<M: SerializeMap> Optional<'_, M> {
    fn entry<T: Serialize>(&mut self, name: &str, value: Option<&T>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.0.serialize_entry(name, value))
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Message::from_value(value, None, None).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(0), |inner, level| if level % 2 == 0 { json!([1, inner]) } else { json!({"a": inner}) })
    }

    #[test]
    fn what_is_nested_too_deep_for_those_who_carry_it_is_no_message() {
        let read = |body: Value| {
            let value = json!({"id": "20260110-153000-0001", "from": "a", "to": "t", "body": body, "note": 1});
            Message::from_value(value, None, None)
        };
        assert!(read(nested(MAX_NESTING)).is_ok());
        let error = read(nested(MAX_NESTING + 1)).unwrap_err();
        assert!(error.message().contains("`body` is nested deeper than 100"), "{error}");
        let mut message = read(json!(1)).unwrap();
        message.extra.insert("note".into(), nested(MAX_NESTING + 1));
        assert!(message.check_fields().unwrap_err().message().contains("`note`"));
    }

    #[test]
    fn a_further_field_cannot_have_the_name_of_one_of_fmails() {
        let draft = Draft {
            host: Some("h".into()),
            tags: vec!["t".parse().unwrap()],
            subject: Some("s".into()),
            thread: Some("t".into()),
            reply_to: Some(MessageId::MIN),
            priority: Priority::High,
            more: Recipients { recipients: vec!["b".parse().unwrap()], cc: vec!["c".parse().unwrap()] },
            ack_required: true,
            expires: Some(Timestamp::from_unix(0, 0)),
            key: Some("k".into()),
            ..Draft::new("a".parse().unwrap(), "t".parse().unwrap(), 1)
        };
        let mut message = draft.into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        message.origin_id = Some(MessageId::MIN);
        let Value::Object(fields) = json!(message) else { panic!() };
        assert_eq!(fields.len(), OWN_FIELDS.len(), "a message with everything has them all");
        for name in fields.keys() {
            let twice = Message { extra: Map::from_iter([(name.clone(), json!(1))]), ..message.clone() };
            assert!(twice.check_fields().unwrap_err().message().contains(name.as_str()));
        }
    }
    fn draft() -> Draft {
        Draft::new("architect".parse().unwrap(), "task".parse().unwrap(), "implement user auth")
    }

    fn message() -> Message {
        draft().into_message("20260110-153000-0001".parse().unwrap(), "2026-01-10T15:30:00Z".parse().unwrap())
    }

    #[test]
    fn a_plain_message_is_as_small_as_the_specification_shows_it() {
        assert_eq!(
            message().to_line(),
            r#"{"id":"20260110-153000-0001","from":"architect","to":"task","time":"2026-01-10T15:30:00Z","body":"implement user auth"}"#
        );
    }

    #[test]
    fn every_field_and_unknown_ones_survive_a_round_trip() {
        let text = json!({
            "id": "20260110-153000-0001", "from": "architect", "to": "@reviewer", "time": "2026-01-10T15:30:00Z",
            "body": {"n": 1.5, "list": [null, true]}, "subject": "s", "thread": "t",
            "reply_to": "20260110-152500-0003", "priority": "high", "host": "build-server", "tags": ["urgent", "auth"],
            "recipients": ["@b"], "cc": ["@c"], "ack_required": true, "expires": "2026-01-11T00:00:00Z", "key": "k",
            "origin_id": "20260110-152900-0001", "x_future": {"keep": ["me"]},
        });
        let message: Message = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), text);
    }

    #[test]
    fn the_length_of_a_line_is_known_without_it() {
        for body in [json!("plain"), json!("\"quoted\"\n\u{1}é"), json!({"n": [1.50, null, true]})] {
            let message = Message { body, subject: Some("s".into()), ..message() };
            assert_eq!(message.line_length(), message.to_line().len());
        }
    }

    #[test]
    fn a_draft_is_a_message_without_id_and_time() {
        let mut draft = draft();
        draft.key = Some("k".into());
        draft.extra.insert("x".into(), json!([1]));
        let text = serde_json::to_string(&draft).unwrap();
        assert_eq!(text, r#"{"from":"architect","to":"task","body":"implement user auth","key":"k","x":[1]}"#);
        assert_eq!(serde_json::from_str::<Draft>(&text).unwrap(), draft);
        assert!(serde_json::from_value::<Draft>(json!(message())).unwrap_err().to_string().contains("`id`"));
    }

    #[test]
    fn numbers_keep_every_digit() {
        let text = r#"{"id":"20260110-153000-0001","from":"a","to":"t","time":"2026-01-10T15:30:00Z","body":123456789012345678901234567890.10}"#;
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!(message.to_line(), text);
    }

    #[test]
    fn identity_ignores_key_order_and_fields_that_a_plain_peer_drops() {
        let mut one = message();
        one.body = json!({"a": 1, "b": {"c": 2, "d": 3}});
        let mut two = message();
        two.body = json!({"b": {"d": 3, "c": 2}, "a": 1});
        two.subject = Some("dropped by others".into());
        assert_eq!(one.identity(), two.identity());
        two.body = json!({"a": 2});
        assert_ne!(one.identity(), two.identity());
    }

    #[test]
    fn wrong_types_are_errors_and_missing_places_are_filled() {
        let id = "20260110-153000-0001".parse().unwrap();
        let to = "task".parse().unwrap();
        let filled = Message::from_value(json!({"from": "a", "body": 1}), Some(id), Some(&to)).unwrap();
        assert_eq!((filled.id, &filled.to, filled.time.to_string().as_str()), (id, &to, "2026-01-10T15:30:00Z"));
        for bad in [json!([]), json!({"body": 1}), json!({"from": "a"}), json!({"from": "a", "body": 1, "tags": "x"})] {
            assert!(Message::from_value(bad.clone(), Some(id), Some(&to)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_direct_message_is_readable_by_its_sender_and_recipients_only() {
        let mut direct = draft();
        direct.to = "@bob".parse().unwrap();
        direct.more.cc = vec!["@carol".parse().unwrap()];
        let direct = direct.into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        let may = |name: &str| direct.readable_by(&name.parse().unwrap());
        assert!(may("architect") && may("bob") && may("carol") && !may("dave"));
        assert!(message().readable_by(&"dave".parse().unwrap()));
    }
}
