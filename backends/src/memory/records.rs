//! The records: small documents that change by compare-and-swap.

use std::collections::BTreeMap;

use fmail_api::{Expect, Record, RecordKey, Result, Revision, Timestamp};
use serde_json::{Value, json};

/// The field of the `horizon` record that holds the time.
const HORIZON_FIELD: &str = "before";

/// All records of the project.
#[derive(Default)]
pub(super) struct Records(BTreeMap<RecordKey, Record>);

impl Records {
    pub(super) fn get(&self, key: &RecordKey) -> Option<Record> {
        self.0.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: &RecordKey, expect: &Expect, value: Value) -> Result<Revision> {
        self.check(key, expect)?;
        let revision = Revision::of_content(value.to_string().as_bytes());
        self.0.insert(key.clone(), Record { key: key.clone(), revision: revision.clone(), value });
        Ok(revision)
    }

    pub(super) fn delete(&mut self, key: &RecordKey, expect: &Expect) -> Result<()> {
        self.check(key, expect)?;
        self.0.remove(key);
        Ok(())
    }

    pub(super) fn under(&self, prefix: &str) -> Vec<Record> {
        self.0.values().filter(|record| record.key.is_under(prefix)).cloned().collect()
    }

    /// The time below which everything was swept away.
    pub(super) fn horizon(&self) -> Option<Timestamp> {
        self.0.get(&RecordKey::horizon())?.value.get(HORIZON_FIELD)?.as_str()?.parse().ok()
    }

    /// Moves the horizon forward; never back, since what was swept stays swept.
    pub(super) fn raise_horizon(&mut self, before: Timestamp) {
        if self.horizon().is_none_or(|horizon| horizon < before) {
            let key = RecordKey::horizon();
            let value = json!({ HORIZON_FIELD: before });
            let revision = Revision::of_content(value.to_string().as_bytes());
            self.0.insert(key.clone(), Record { key, revision, value });
        }
    }

    fn check(&self, key: &RecordKey, expect: &Expect) -> Result<()> {
        expect.check(key, self.0.get(key).map(|record| &record.revision))
    }
}
