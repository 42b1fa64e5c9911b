//! The unread messages of a tally, as its record has them: all ids of a day in one text.
//!
//! A mailbox may have many thousands of them, and every look at it reads the record. As a value of JSON each would take
//! several hundred bytes while the record is read, and as much again while it is written; in a text it takes twelve.

use std::collections::BTreeMap;

use fmail_api::{MessageId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Unread messages, each with its `expires`.
pub(super) type Unread = BTreeMap<MessageId, Option<Timestamp>>;

/// Their form in the record.
#[derive(Default, Serialize, Deserialize)]
struct Written {
    /// By day what follows the day in each id, in order, with spaces between: `153000-0001 153002-0017`.
    ids: BTreeMap<String, String>,
    /// Few messages have one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    expires: BTreeMap<MessageId, Timestamp>,
}

/// How many characters of an id are its day.
const DAY: usize = 8;

pub(super) fn serialize<S: Serializer>(unread: &Unread, serializer: S) -> Result<S::Ok, S::Error> {
    let mut written = Written::default();
    for (id, expires) in unread {
        let text = id.to_string();
        let (day, rest) = (&text[..DAY], &text[DAY + 1..]);
        match written.ids.get_mut(day) {
            Some(ids) => ids.extend([" ", rest]),
            None => drop(written.ids.insert(day.into(), rest.into())),
        }
        written.expires.extend(expires.map(|expires| (*id, expires)));
    }
    written.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Unread, D::Error> {
    let written = Written::deserialize(deserializer)?;
    let mut unread = Unread::new();
    for (day, ids) in &written.ids {
        for rest in ids.split(' ') {
            let id: MessageId = format!("{day}-{rest}").parse().map_err(de::Error::custom)?;
            unread.insert(id, written.expires.get(&id).copied());
        }
    }
    Ok(unread)
}
