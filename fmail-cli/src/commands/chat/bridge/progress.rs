//! How far each side was brought over, kept as a record of the project.
//!
//! A message that was brought over says so itself, by its key. So this record may lag behind: what is brought over a second
//! time is known by its key and stored once. It is needed because keys are remembered for a day only, and because lines
//! leave a chat file.

use std::path::Path;
use std::sync::Arc;

use fmail_api::{
    ContentHash, Cursor, Error, ErrorKind, Event, Expect, MessageId, Order, Query, RecordKey, Result, Revision, Since,
    Store,
};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Where a bridge begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Where the last run ended; now, when there was none.
    Resume,
    /// With everything there is.
    Beginning,
    /// With what comes.
    Now,
}

/// Up to where one side was brought over.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Reached {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<Cursor>,
    /// The highest id among what was brought over, for when the cursor is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<MessageId>,
}

/// Content of the record.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// The file, for who looks at the record.
    file: String,
    pub(crate) chat: Reached,
    pub(crate) project: Reached,
}

pub(super) struct Progress {
    store: Arc<dyn Store>,
    key: RecordKey,
    revision: Option<Revision>,
    pub(super) reach: Reach,
}

impl Progress {
    /// What the last run has left; nothing when this is the first.
    pub(super) async fn load(store: Arc<dyn Store>, file: &Path) -> Result<(Progress, bool)> {
        let hash = ContentHash::of(&[file.as_os_str().as_encoded_bytes()]);
        let key: RecordKey = format!("chat-bridge/{hash}").parse()?;
        let record = store.get(&key).await?;
        let reach = record.as_ref().map(|record| record.decode::<Reach>()).transpose()?;
        let (known, revision) = (reach.is_some(), record.map(|record| record.revision));
        let reach = Reach { file: file.display().to_string(), ..reach.unwrap_or_default() };
        Ok((Progress { store, key, revision, reach }, known))
    }

    /// Writes it down. Another bridge over the same file and project is noticed here.
    pub(super) async fn save(&mut self) -> Result<()> {
        let expect = self.revision.clone().map_or(Expect::Absent, Expect::Revision);
        let saved = self.store.put(&self.key, expect, json!(self.reach), true).await;
        self.revision = Some(saved.map_err(|error| {
            match error.kind() {
                ErrorKind::Conflict => {
                    Error::new(ErrorKind::Conflict, "another bridge keeps this file and this project in step")
                        .help("one is enough: end this one or the other")
                }
                _ => error,
            }
        })?);
        Ok(())
    }
}

impl Reached {
    /// The query for what was not brought over yet. A side whose ids are `made` from something else may have made them
    /// anew.
    pub(super) async fn behind(&self, store: &dyn Store, made: bool) -> Result<Query> {
        let query = |since| Query { since, order: Order::Arrival, ..Query::default() };
        if let Some(cursor) = &self.cursor {
            match store.scan(Query { limit: Some(0), ..query(Some(Since::Cursor(cursor.clone()))) }).await {
                Ok(_) => return Ok(query(Some(Since::Cursor(cursor.clone())))),
                Err(error) if error.kind() == ErrorKind::Expired => {}
                Err(error) => return Err(error),
            }
        }
        let Some(id) = self.id else {
            return Ok(query(None));
        };
        if !made || is_same(store, id).await? {
            return Ok(query(Some(Since::Id(id))));
        }
        let text = "the chat file's sidecar knows no message of the time when this bridge last ran: it was made anew";
        Err(Error::new(ErrorKind::Expired, text).help(
            "what was brought over cannot be told from what was not; begin anew with --from-now, or with --from-start, which \
             brings over everything once more",
        ))
    }
}

/// Whether the store still has the ids that it had: any message up to this one, or none at all.
async fn is_same(store: &dyn Store, id: MessageId) -> Result<bool> {
    let mut messages = store.scan(Query::default()).await?.messages;
    while let Some(event) = messages.next().await {
        if let Event::Message(delivery) = event? {
            return Ok(delivery.message.id <= id);
        }
    }
    Ok(true)
}
