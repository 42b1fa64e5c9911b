//! The record in the target that says that a copy is not finished.

use std::collections::{BTreeMap, BTreeSet};

use fmail_api::{ContentHash, Error, ErrorKind, Expect, RecordKey, Result, Revision, Store, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The marker's key.
pub(super) const KEY: &str = "transfer";

/// What the marker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Content {
    /// From which store.
    from: String,
    /// Since when.
    started: Timestamp,
    /// What the copy has put, or was about to put, where nothing else tells whose record it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    written: BTreeMap<RecordKey, BTreeSet<ContentHash>>,
}

/// The marker of a copy that is under way.
pub(super) struct Marker {
    content: Content,
    /// The state of the record that was last read or written; nothing before it is placed.
    revision: Option<Revision>,
}

impl Marker {
    /// The marker that an interrupted copy left in the store, or one that is still to be placed.
    pub(super) async fn find(store: &dyn Store, from: &str, now: Timestamp) -> Result<Marker> {
        let Some((content, revision)) = read(store).await? else {
            let content = Content { from: from.into(), started: now, written: BTreeMap::new() };
            return Ok(Marker { content, revision: None });
        };
        if content.from != from {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("the target holds a copy of the store `{}` that is not finished", content.from),
            )
            .help(format!("finish that one first, with --from {}", content.from)));
        }
        Ok(Marker { content, revision: Some(revision) })
    }

    /// Whether an earlier copy was interrupted.
    pub(super) fn is_placed(&self) -> bool {
        self.revision.is_some()
    }

    /// Whether an earlier part of this copy has put this value there.
    pub(super) fn wrote(&self, key: &RecordKey, value: &Value) -> bool {
        self.content.written.get(key).is_some_and(|hashes| hashes.contains(&hash(value)))
    }

    /// The keys of what was put and cannot be told from what others put.
    pub(super) fn keys(&self) -> impl Iterator<Item = &RecordKey> {
        self.content.written.keys()
    }

    /// Notes what is about to be put.
    pub(super) fn note(&mut self, key: &RecordKey, value: &Value) {
        self.content.written.entry(key.clone()).or_default().insert(hash(value));
    }

    /// Writes the marker.
    pub(super) async fn place(&mut self, store: &dyn Store) -> Result<()> {
        let expect = self.revision.clone().map_or(Expect::Absent, Expect::Revision);
        let value = serde_json::to_value(&self.content)
            .map_err(|error| Error::internal(format!("the marker of a copy has no JSON form: {error}")))?;
        let revision = store.put(&key()?, expect, value, true).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict => Error::new(ErrorKind::Conflict, "another copy into the same store is under way")
                .help("wait for its end, then run this one again"),
            _ => error,
        })?;
        self.revision = Some(revision);
        Ok(())
    }

    /// Takes the marker away: the copy is whole.
    pub(super) async fn remove(self, store: &dyn Store) -> Result<()> {
        match self.revision {
            Some(revision) => store.delete(&key()?, Expect::Revision(revision)).await,
            None => Ok(()),
        }
    }
}

/// Refuses a store that holds only a part of another one.
pub(super) async fn check_whole(store: &dyn Store) -> Result<()> {
    let Some((content, _)) = read(store).await? else { return Ok(()) };
    let name = store.capabilities().name;
    Err(Error::new(
        ErrorKind::Conflict,
        format!("the store `{name}` is itself a copy of `{}` that is not finished", content.from),
    )
    .help(format!("finish that copy first, with --from {} --to {name}", content.from)))
}

async fn read(store: &dyn Store) -> Result<Option<(Content, Revision)>> {
    match store.get(&key()?).await? {
        Some(record) => Ok(Some((record.decode()?, record.revision))),
        None => Ok(None),
    }
}

fn key() -> Result<RecordKey> {
    KEY.parse()
}

fn hash(value: &Value) -> ContentHash {
    ContentHash::of(&[value.to_string().as_bytes()])
}
