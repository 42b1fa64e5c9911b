//! The records, as the entries so far have left them.

use std::collections::BTreeMap;

use fmail_api::{Expect, Record, RecordKey, Result, Revision, Timestamp};
use serde_json::{Value, json};

/// The field of the `horizon` record that holds the time.
const HORIZON_FIELD: &str = "before";

/// All records of the log. Their values are kept in memory: they are small, and mail reads them all the time.
#[derive(Default)]
pub(super) struct Records(BTreeMap<RecordKey, Slot>);

/// The last entry about a key, and the record that it left.
struct Slot {
    position: u64,
    record: Option<Record>,
}

impl Records {
    pub(super) fn get(&self, key: &RecordKey) -> Option<&Record> {
        self.0.get(key)?.record.as_ref()
    }

    pub(super) fn check(&self, key: &RecordKey, expect: &Expect) -> Result<()> {
        expect.check(key, self.get(key).map(|record| &record.revision))
    }

    /// Takes in an entry about a record. Gives the position of the entry that it replaces.
    pub(super) fn learn(&mut self, position: u64, key: RecordKey, value: Option<Value>) -> Option<u64> {
        let record = value.map(|value| Record { key: key.clone(), revision: revision(&value), value });
        self.0.insert(key, Slot { position, record }).map(|slot| slot.position)
    }

    pub(super) fn under(&self, prefix: &str) -> Vec<Record> {
        self.0.values().filter_map(|slot| slot.record.clone()).filter(|record| record.key.is_under(prefix)).collect()
    }

    /// The time below which everything was swept away.
    pub(super) fn horizon(&self) -> Option<Timestamp> {
        self.get(&RecordKey::horizon())?.value.get(HORIZON_FIELD)?.as_str()?.parse().ok()
    }
}

/// The revision of a value.
pub(super) fn revision(value: &Value) -> Revision {
    Revision::of_content(value.to_string().as_bytes())
}

/// The value of the `horizon` record.
pub(super) fn horizon_value(before: Timestamp) -> Value {
    json!({ HORIZON_FIELD: before })
}
