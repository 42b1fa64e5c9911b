//! What hosts ask each other to find out what each of them lacks.
//!
//! A host knows every message by its [`Place`]: its time, the id that it was born with, and the hash of what it says. Places
//! are the same on all hosts, whatever id a message has there, and they have an order. So two hosts compare what they hold
//! in a stretch of that order by a count and a [`Fingerprint`]; where these differ, the stretch is divided, until what
//! remains is short enough to be listed. Nothing about the last exchange has to be remembered: who comes back after an hour,
//! with an old disk or with messages of last week compares again, and pays for what differs.
//!
//! | operation | asks | answers |
//! |---|---|---|
//! | `digest` | [`DigestRequest`]: what the caller holds in some stretches | [`Digest`]: for each, the same, its parts, or its places |
//! | `fetch` | [`FetchRequest`]: places, or whole stretches | a stream of messages in their origin form |
//! | `import` | [`ImportRequest`]: a message in its origin form | [`Imported`] |
//! | `import_many` | [`ImportManyRequest`]: several of them | a [`Verdict`] for each |
//! | `records` | [`RecordsRequest`]: what the caller holds of the records that travel | [`Records`] |
//! | `relay` | [`RelayRequest`](crate::RelayRequest): everything that arrives | a stream of messages in their origin form |
//!
//! # The origin form
//! A message on its way between hosts has the id that it was born with; `origin_id` is missing. `host` is filled in by the
//! host where it was born. An id that it mentions (`reply_to`, and `thread` where that is the id of a message) is that
//! message's id of birth, and `reply_hash` or `thread_hash` beside it is its hash, so that of two messages that were born
//! with one id the right one is meant. Who imports the message turns these back into ids of its own, once; what cannot be
//! found yet is kept as it came, with its hash.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};
use serde_json::Value;

use crate::{ContentHash, Error, Identity, Imported, Message, MessageId, RecordKey, Result, Timestamp};

/// The field beside `reply_to` in the origin form.
pub const REPLY_HASH: &str = "reply_hash";
/// The field of a stored answer that says by which id other hosts know what it answers, as long as that is not here and
/// another message has that id: then `reply_to` would point at the wrong one, and is left out.
pub const REPLY_ORIGIN: &str = "reply_origin";
/// The field beside `thread` in the origin form, where that is the id of a message.
pub const THREAD_HASH: &str = "thread_hash";

/// Which host this is. The id is random and outlives the process, but not the host: it is kept outside of every project, so
/// that a project which is copied or cloned does not bring it along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The host's id: 32 hexadecimal digits.
    pub id: NodeId,
    /// Which run of the daemon: random, and new each time. A host whose disk was copied with its id is told from its twin
    /// by this, and a daemon that dials itself notices.
    pub run: NodeId,
    /// The host's name, to be shown.
    pub host: String,
}

/// A random number that names a host or a run of its daemon: 32 hexadecimal digits, in small letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u128);

impl NodeId {
    /// The id with this number.
    pub const fn new(number: u128) -> Self {
        NodeId(number)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NodeId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        digits(text).map(NodeId).ok_or_else(|| {
            Error::invalid(format!("`{}` is not a node's id: 32 hexadecimal digits are expected", text.escape_debug()))
        })
    }
}

/// Where a message stands among all messages of all hosts. Ordered by time first, so that what `gc` has removed is a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The message's time.
    pub time: Timestamp,
    /// The id where it was first stored.
    pub origin: MessageId,
    /// What it says.
    pub hash: ContentHash,
}

impl Place {
    /// The place of a message.
    pub fn of(message: &Message) -> Self {
        let Identity { origin, hash } = message.identity();
        Place { time: message.time, origin, hash }
    }

    /// By what hosts recognise the message.
    pub fn identity(&self) -> Identity {
        Identity { origin: self.origin, hash: self.hash }
    }
}

/// `<time>/<origin id>/<hash>`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.time, self.origin, self.hash)
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [time, origin, hash] = parts[..] else {
            let found = text.chars().take(120).flat_map(char::escape_debug).collect::<String>();
            return Err(Error::invalid(format!("`{found}` is not the place of a message"))
                .help("a place is a time, an id and a hash, joined by `/`"));
        };
        Ok(Place { time: time.parse()?, origin: origin.parse()?, hash: hash.parse()? })
    }
}

/// What a set of places adds up to: the same on two hosts if they hold the same places, whatever order they came in.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The fingerprint of one thing.
    pub fn of(parts: &[&[u8]]) -> Self {
        Fingerprint(u128::from_le_bytes(*ContentHash::of(parts).as_bytes()))
    }

    /// The fingerprint of one place. Cheap: the hash in it is a good one already, and only the id has to be mixed in.
    pub fn of_place(place: &Place) -> Self {
        let hash = u128::from_le_bytes(*place.hash.as_bytes());
        let id = u128::from(place.origin.ticks()).wrapping_add(1);
        let mixed = (hash ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
            .wrapping_mul(0xda94_2042_e4dd_58b5_0000_0000_0000_0001);
        Fingerprint(mixed ^ (mixed >> 64))
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Fingerprint(self.0.wrapping_add(other.0))
    }

    /// What is left without the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Fingerprint(self.0.wrapping_sub(other.0))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        digits(text).map(Fingerprint).ok_or_else(|| {
            Error::invalid(format!(
                "`{}` is not a fingerprint: 32 hexadecimal digits are expected",
                text.escape_debug()
            ))
        })
    }
}

fn digits(text: &str) -> Option<u128> {
    let good = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    good.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// Types that are written as their text.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

as_text!(NodeId, Place, Fingerprint);

/// A stretch of places: from the first, which belongs to it, to the second, which does not. Without one it has no end there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stretch {
    /// Where it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Place>,
    /// Where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Place>,
}

impl Stretch {
    /// Whether a place lies in it.
    pub fn contains(&self, place: &Place) -> bool {
        self.from.is_none_or(|from| from <= *place) && self.to.is_none_or(|to| *place < to)
    }
}

/// What somebody holds in a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Where.
    #[serde(flatten)]
    pub stretch: Stretch,
    /// How many messages.
    pub count: u64,
    /// What they add up to.
    pub fingerprint: Fingerprint,
}

/// Asks how what the caller holds differs from what is held here.
///
/// What is older than the horizon of either side is no part of the comparison: nobody brings back what was swept away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestRequest {
    /// Below this time the caller has swept everything away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Timestamp>,
    /// What the caller holds, at most [`DigestRequest::MOST`] stretches. Without any only the horizon is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
}

impl DigestRequest {
    /// The most stretches of a request.
    pub const MOST: usize = 1_000;
}

/// Answers `digest`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Below this time everything has been swept away here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Timestamp>,
    /// What is held here, in the order of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Compared>,
}

/// What is held in a stretch, compared with what the caller holds there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// The same.
    Same,
    /// Something else: the stretch in parts, which follow each other from its beginning to its end.
    Parts(Vec<Held>),
    /// Something else, and few enough to name them all, in order. None when nothing is held here.
    Places(Vec<Place>),
}

/// Asks for messages. What is not there, or not any more, is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FetchRequest {
    /// These.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
    /// Everything in these stretches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<Stretch>,
    /// Only from this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Timestamp>,
}

/// Asks to store a message that another host has given its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportRequest {
    /// The message in its origin form.
    #[serde(rename = "msg")]
    pub message: Message,
    /// Which run of which daemon has it: it is not streamed back there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeId>,
}

impl ImportRequest {
    /// A message of which nobody says where it comes from.
    pub fn new(message: Message) -> Self {
        ImportRequest { message, from: None }
    }
}

/// Asks to store several messages that another host has given their ids. Each has its own verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportManyRequest {
    /// The messages in their origin form, at most [`ImportManyRequest::MOST`].
    #[serde(rename = "msgs")]
    pub messages: Vec<Message>,
    /// Which run of which daemon has them: they are not streamed back there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeId>,
}

impl ImportManyRequest {
    /// The most messages of a request: as many as a store of files commits together.
    pub const MOST: usize = 64;
}

/// What became of one message of [`ImportManyRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The answer that `import` would have given.
    Imported(Imported),
    /// The error that `import` would have given.
    Failed(Error),
}

impl PartialEq for Verdict {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Verdict::Imported(one), Verdict::Imported(two)) => one == two,
            (Verdict::Failed(one), Verdict::Failed(two)) => (one.kind(), one.message()) == (two.kind(), two.message()),
            _ => false,
        }
    }
}

impl From<Result<Imported>> for Verdict {
    fn from(result: Result<Imported>) -> Self {
        match result {
            Ok(imported) => Verdict::Imported(imported),
            Err(error) => Verdict::Failed(error),
        }
    }
}

impl From<Verdict> for Result<Imported> {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Imported(imported) => Ok(imported),
            Verdict::Failed(error) => Err(error),
        }
    }
}

/// How many parts the records that travel are compared in.
pub const RECORD_BUCKETS: u8 = 64;

/// The part that a record is compared in: the first byte of its name's hash, modulo [`RECORD_BUCKETS`].
pub fn record_bucket(key: &RecordKey) -> u8 {
    ContentHash::of(&[key.as_str().as_bytes()]).as_bytes()[0] % RECORD_BUCKETS
}

/// Compares or exchanges the records that travel between hosts. Exactly one of the fields says which.
///
/// Records travel under keys of their own, and their content is the same on all hosts: what a host knows of its own agents
/// and leases under its node's id, what was done with a message under that message's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordsRequest {
    /// Whether all that the caller holds is held here, and nothing else. Answered by [`Records::Same`] or
    /// [`Records::Buckets`].
    Compare(Fingerprint),
    /// Which records are in these buckets. Answered by [`Records::Held`], with whole buckets in the order in which they are asked for,
    /// at least the first that holds any, and no more than fit into a megabyte beyond that. Who wants the rest asks again.
    List(Vec<u8>),
    /// These records. Answered by [`Records::Content`].
    Get(Vec<RecordKey>),
    /// Merge these into what is held here. Answered by [`Records::Merged`].
    Merge(Vec<SharedRecord>),
}

/// Answers `records`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Records {
    /// The same is held here.
    Same,
    /// The fingerprints of all buckets, in order.
    Buckets(Vec<Fingerprint>),
    /// Which records are held.
    Held(Vec<SharedKey>),
    /// What they hold.
    Content(Vec<SharedRecord>),
    /// What became of them.
    Merged {
        /// So many brought something new.
        changed: u64,
        /// So many could not be understood, or are not for others to change.
        refused: u64,
    },
}

/// A record that travels, by its name and what it adds up to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedKey {
    /// Its name on the way.
    pub key: RecordKey,
    /// What it adds up to.
    pub fingerprint: Fingerprint,
}

/// A record that travels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedRecord {
    /// Its name on the way.
    pub key: RecordKey,
    /// Its content on the way.
    pub value: Value,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(time: &str, origin: &str, said: &str) -> Place {
        let hash = ContentHash::of(&[said.as_bytes()]);
        Place { time: time.parse().unwrap(), origin: origin.parse().unwrap(), hash }
    }

    #[test]
    fn places_are_ordered_by_time_and_read_back() {
        let early = place("2026-01-10T15:30:00Z", "20260110-153000-0009", "a");
        let late = place("2026-01-10T15:30:01Z", "20260110-153000-0001", "a");
        assert!(early < late);
        assert_eq!(late.to_string().parse::<Place>().unwrap(), late);
        assert!("2026-01-10T15:30:01Z/20260110-153000-0001".parse::<Place>().is_err());
    }

    #[test]
    fn a_fingerprint_depends_on_what_is_held_and_not_on_the_order() {
        let [one, two] = ["a", "b"].map(|said| place("2026-01-10T15:30:00Z", "20260110-153000-0009", said));
        let [one, two] = [&one, &two].map(Fingerprint::of_place);
        assert_eq!(one.and(two), two.and(one));
        assert_eq!(one.and(two).without(two), one);
        let elsewhere = place("2026-01-10T15:30:00Z", "20260110-153000-0008", "a");
        assert_ne!(Fingerprint::of_place(&elsewhere), one);
        assert_eq!(one.to_string().parse::<Fingerprint>().unwrap(), one);
    }

    #[test]
    fn the_json_of_a_comparison_is_short() {
        let middle = place("2026-01-10T15:30:00Z", "20260110-153000-0009", "a");
        let held =
            Held { stretch: Stretch { from: Some(middle), to: None }, count: 7, fingerprint: Fingerprint::default() };
        let text = json!({"from": middle.to_string(), "count": 7, "fingerprint": "0".repeat(32)});
        assert_eq!(serde_json::to_value(held).unwrap(), text);
        assert_eq!(serde_json::from_value::<Held>(text).unwrap(), held);
        assert_eq!(serde_json::to_value(Compared::Same).unwrap(), json!("same"));
    }

    #[test]
    fn a_stretch_holds_its_beginning_and_not_its_end() {
        let [one, two] =
            ["20260110-153000-0001", "20260110-153000-0002"].map(|id| place("2026-01-10T15:30:00Z", id, "a"));
        let stretch = Stretch { from: Some(one), to: Some(two) };
        assert!(stretch.contains(&one) && !stretch.contains(&two) && Stretch::default().contains(&two));
    }
}
