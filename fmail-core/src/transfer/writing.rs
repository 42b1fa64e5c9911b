//! Storing records that were moved.

use fmail_api::{Error, ErrorKind, Expect, Record, RecordKey, Result, Revision, Store, Timestamp};
use futures::StreamExt;
use serde_json::Value;

use super::marker::Marker;
use super::settle::{Settled, is_plain, settle};

/// So often a record is read and put again when others change it at the same time.
const ATTEMPTS: usize = 5;
/// So many records are noted in the marker at a time.
const BATCH: usize = 256;

/// Puts the records of a source into a store.
pub(super) struct Records<'a> {
    pub(super) to: &'a dyn Store,
    pub(super) now: Timestamp,
    /// Where nobody can tell which record is right, the source's is.
    pub(super) overwrite: bool,
}

/// What a record of the source means for the target.
pub(super) enum Wanted {
    /// It is there.
    Same,
    /// It is to be put.
    Put(Expect, Value),
    /// The target has another one.
    Conflict,
}

impl Records<'_> {
    /// What is to be done about a record. Without a marker nothing in the target is ours.
    pub(super) async fn wanted(&self, key: &RecordKey, value: &Value, marker: Option<&Marker>) -> Result<Wanted> {
        let found = self.to.get(key).await?;
        let (target, revision): (Option<Value>, Option<Revision>) =
            found.map(|record| (record.value, record.revision)).unzip();
        let expect = revision.map_or(Expect::Absent, Expect::Revision);
        let ours = |found: &Value| marker.is_some_and(|marker| marker.wrote(key, found));
        Ok(match settle(key, value, target.as_ref(), self.now) {
            Settled::Same => Wanted::Same,
            Settled::Write(value) => Wanted::Put(expect, value),
            Settled::Conflict if self.overwrite || target.as_ref().is_some_and(ours) => {
                Wanted::Put(expect, value.clone())
            }
            Settled::Conflict => Wanted::Conflict,
        })
    }

    /// Puts a record; tells whether that was needed.
    pub(super) async fn put(&self, key: &RecordKey, value: &Value, marker: Option<&Marker>) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            match self.wanted(key, value, marker).await? {
                Wanted::Same => return Ok(false),
                Wanted::Conflict => return Err(conflict(key)),
                Wanted::Put(expect, value) => match self.to.put(key, expect, value, true).await {
                    // A store may write a record of its own when it creates the project for our first write.
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    put => return put.map(|_| true),
                },
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("others kept changing the record `{key}` at the same time")))
    }

    /// Gives a store that has no project yet the source's, whatever it would have called its own.
    pub(super) async fn found_project(&self, value: &Value) -> Result<()> {
        let key = RecordKey::project();
        if self.to.get(&key).await?.is_some() {
            return Ok(());
        }
        // The store writes a record of its own when it creates the project for our first write; that one is nobody's.
        let founding = Records { overwrite: true, ..*self };
        founding.put(&key, value, None).await.map(drop)
    }

    /// Forgets the caches over mailboxes whose states were changed behind them.
    pub(super) async fn drop_tallies(&self) -> Result<()> {
        let mut records = self.to.list("mailbox").await?;
        let mut tallies = Vec::new();
        while let Some(record) = records.next().await {
            let key = record?.key;
            if key.as_str().ends_with("/tally") {
                tallies.push(key);
            }
        }
        for key in tallies {
            self.to.delete(&key, Expect::Anything).await?;
        }
        Ok(())
    }
}

/// Records whose origin only the marker can tell, on their way: it is told before they are put.
#[derive(Default)]
pub(super) struct Batch(Vec<Record>);

impl Batch {
    /// Takes a record in if it has to be noted first; gives it back otherwise.
    pub(super) fn take(&mut self, record: Record) -> Option<Record> {
        if is_plain(&record.key) {
            self.0.push(record);
            return None;
        }
        Some(record)
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= BATCH
    }

    /// Notes and puts them all; tells how many were needed.
    pub(super) async fn put(&mut self, records: &Records<'_>, marker: &mut Marker) -> Result<u64> {
        let mut needed = Vec::new();
        for record in self.0.drain(..) {
            match records.wanted(&record.key, &record.value, Some(marker)).await? {
                Wanted::Same => {}
                Wanted::Conflict => return Err(conflict(&record.key)),
                Wanted::Put(_, value) => {
                    marker.note(&record.key, &value);
                    needed.push(record);
                }
            }
        }
        if needed.is_empty() {
            return Ok(0);
        }
        marker.place(records.to).await?;
        let mut written = 0;
        for record in needed {
            written += u64::from(records.put(&record.key, &record.value, Some(marker)).await?);
        }
        Ok(written)
    }
}

pub(super) fn conflict(key: &RecordKey) -> Error {
    Error::new(ErrorKind::Conflict, format!("the target has another record `{key}`, and no rule merges the two"))
        .help("--overwrite lets the record that comes in replace the one that is there")
}
