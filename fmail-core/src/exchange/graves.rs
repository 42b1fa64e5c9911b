//! The graves of single messages: records `tombstones/<day>`, by the day of the id that a message was born with.
//!
//! A grave is named `<origin id>/<hash>`, since two messages may have been born with one id. It is never taken away, and
//! two hosts together have the graves of both.
//!
//! A message that had another id here than at birth leaves that id too, as `here/<id>` in the record of that id's day, with
//! the grave that it belongs to. What agents did with a message is kept by its id here, and must not fall to another one
//! that comes with it. This is of no interest to other hosts and does not travel.

use std::collections::{BTreeMap, HashSet};

use fmail_api::{Identity, MessageId, Timestamp};
use serde_json::{Map, Value, json};

/// What is kept of a message that was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grave {
    /// The message's time. Graves of earlier versions do not say it.
    pub(crate) time: Option<Timestamp>,
    /// When it was deleted.
    pub(crate) deleted: Timestamp,
}

impl Grave {
    /// What two hosts know together: the earliest deletion.
    pub(crate) fn merged(self, other: Grave) -> Grave {
        Grave { time: self.time.max(other.time), deleted: self.deleted.min(other.deleted) }
    }

    pub(crate) fn to_value(self) -> Value {
        match self.time {
            Some(time) => json!({"time": time, "deleted": self.deleted}),
            None => json!({"deleted": self.deleted}),
        }
    }

    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let stamp = |name: &str| value.get(name)?.as_str()?.parse().ok();
        Some(Grave { time: stamp("time"), deleted: stamp("deleted")? })
    }
}

/// The name of a grave in its record.
pub(crate) fn name_of(identity: &Identity) -> String {
    format!("{}/{}", identity.origin, identity.hash)
}

/// The graves that a record holds. What cannot be understood is passed over.
pub(crate) fn graves_of(record: &Value) -> BTreeMap<Identity, Grave> {
    let Some(graves) = record.as_object() else { return BTreeMap::new() };
    graves.iter().filter_map(|(name, value)| Some((identity_of(name, value)?, Grave::from_value(value)?))).collect()
}

/// Earlier versions named a grave by the id alone, with the hash in it.
fn identity_of(name: &str, value: &Value) -> Option<Identity> {
    let (origin, hash) = match name.split_once('/') {
        Some(parts) => parts,
        None => (name, value.get("hash")?.as_str()?),
    };
    Some(Identity { origin: origin.parse().ok()?, hash: hash.parse().ok()? })
}

/// How the id of a message that was deleted is named in its record.
fn name_here(id: MessageId) -> String {
    format!("here/{id}")
}

/// The record with ids that messages had here which were deleted; nothing when it holds them all already.
pub(crate) fn had_here(record: &Value, ids: &BTreeMap<MessageId, Identity>) -> Option<Value> {
    let mut all: Map<String, Value> = record.as_object().cloned().unwrap_or_default();
    let before = all.len();
    for (id, identity) in ids {
        all.entry(name_here(*id)).or_insert_with(|| json!(name_of(identity)));
    }
    (all.len() > before).then_some(Value::Object(all))
}

/// The message that had an id here and was deleted: one that was given it here, or the only one that was born with it.
pub(crate) fn identity_here(record: &Value, id: MessageId) -> Option<Identity> {
    if let Some(name) = record.get(name_here(id)) {
        let (origin, hash) = name.as_str()?.split_once('/')?;
        return Some(Identity { origin: origin.parse().ok()?, hash: hash.parse().ok()? });
    }
    let mut born = graves_of(record).into_keys().filter(|buried| buried.origin == id);
    born.next().filter(|_| born.next().is_none())
}

/// What was buried under the ids of a day.
#[derive(Debug, Default)]
pub(crate) struct Buried {
    graves: BTreeMap<Identity, Grave>,
    /// The ids with which these were born, and those that messages had here.
    ids: HashSet<MessageId>,
}

impl Buried {
    /// What a record holds.
    pub(crate) fn of(record: &Value) -> Self {
        let graves = graves_of(record);
        let names = record.as_object().into_iter().flat_map(|record| record.keys());
        let here = names.filter_map(|name| name.strip_prefix("here/")?.parse().ok());
        let ids = graves.keys().map(|buried| buried.origin).chain(here).collect();
        Buried { graves, ids }
    }

    /// Whether a message was deleted.
    pub(crate) fn has(&self, identity: &Identity) -> bool {
        self.graves.contains_key(identity)
    }

    /// Whether a message that was born with this id, or had it here, was deleted.
    pub(crate) fn had(&self, id: MessageId) -> bool {
        self.ids.contains(&id)
    }
}

/// The record with further graves in it; nothing when it holds them all already.
pub(crate) fn with_graves(record: &Value, more: &BTreeMap<Identity, Grave>) -> Option<Value> {
    let known = graves_of(record);
    let mut graves: Map<String, Value> = record.as_object().cloned().unwrap_or_default();
    let mut any = false;
    for (identity, grave) in more {
        let merged = known.get(identity).map_or(*grave, |known| known.merged(*grave));
        if known.get(identity) != Some(&merged) {
            any = true;
            let old = graves.get(&identity.origin.to_string());
            if old.is_some_and(|old| identity_of(&identity.origin.to_string(), old) == Some(*identity)) {
                graves.remove(&identity.origin.to_string());
            }
            graves.insert(name_of(identity), merged.to_value());
        }
    }
    any.then_some(Value::Object(graves))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grave(deleted: &str) -> Grave {
        Grave { time: None, deleted: deleted.parse().unwrap() }
    }

    #[test]
    fn two_messages_of_one_id_have_two_graves_and_the_earliest_deletion_counts() {
        let identity = |hash: char| Identity {
            origin: "20260110-153000-0001".parse().unwrap(),
            hash: hash.to_string().repeat(32).parse().unwrap(),
        };
        let old = json!({"20260110-153000-0001":
            {"hash": "a".repeat(32), "deleted": "2026-01-11T00:00:02Z"}, "x": 1});
        let more = [(identity('b'), grave("2026-01-11T00:00:00Z")), (identity('a'), grave("2026-01-11T00:00:01Z"))];
        let merged = with_graves(&old, &more.into()).unwrap();
        let found = graves_of(&merged);
        assert_eq!(found, more.into());
        assert_eq!(merged["x"], 1, "what is not understood is kept");
        assert_eq!(with_graves(&merged, &found), None);
        let later = [(identity('a'), grave("2026-01-12T00:00:00Z"))].into();
        assert_eq!(with_graves(&merged, &later), None);
    }
}
