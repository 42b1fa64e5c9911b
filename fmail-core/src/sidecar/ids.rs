//! The map between a backend's own ids and fmail's.

use std::sync::Arc;

use fmail_api::{
    ContentHash, Error, ErrorKind, Expect, MessageId, Record, RecordKey, Result, Store, TICKS_PER_SECOND, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::OWN;

/// The ids of messages that a backend knows by names of its own.
///
/// A name gets the id that its message's time and the name itself lead to, or the next one that is free. So the map can
/// be lost: whoever asks for the same names in the same order gets the same ids again. An id that was given stays with
/// its name for good; two names never share one, also when several processes ask at once.
pub struct IdMap {
    records: Arc<dyn Store>,
}

/// Content of both records of a pair.
#[derive(Serialize, Deserialize)]
struct Pair {
    foreign: String,
    id: MessageId,
}

impl IdMap {
    /// The map that is kept in the records of a store.
    pub fn new(records: Arc<dyn Store>) -> Self {
        IdMap { records }
    }

    /// The id of the message that the backend knows by this name, which was sent at this time.
    pub async fn id_of(&self, foreign: &str, time: Timestamp) -> Result<MessageId> {
        if let Some(id) = self.known(foreign).await? {
            return Ok(id);
        }
        let first = MessageId::at(time.whole_seconds()).ticks()
            + ContentHash::of(&[foreign.as_bytes()]).short() % TICKS_PER_SECOND;
        for ticks in first.. {
            let Some(id) = MessageId::from_ticks(ticks) else { break };
            if self.take(foreign, id).await? {
                return Ok(id);
            }
        }
        Err(Error::internal(format!("no id is left behind {time}")))
    }

    /// The name by which the backend knows the message with this id, if the id was given.
    pub async fn foreign_of(&self, id: MessageId) -> Result<Option<String>> {
        let pair = self.records.get(&by_id(id)?).await?;
        pair.map(|record| record.decode::<Pair>().map(|pair| pair.foreign)).transpose()
    }

    /// Notes a pair as it is. One that contradicts what is known is `corrupt`.
    pub(super) async fn note(&self, foreign: &str, id: MessageId) -> Result<()> {
        let known = match self.known(foreign).await? {
            None if self.take(foreign, id).await? => return Ok(()),
            None => self.foreign_of(id).await?.map(|name| format!("{id} is known as `{}`", name.escape_debug())),
            Some(other) if other == id => return Ok(()),
            Some(other) => Some(format!("it is known to have the id {other}")),
        };
        let what = format!("the message `{}` says that its id is {id}, but ", foreign.escape_debug());
        Err(Error::new(ErrorKind::Corrupt, what + &known.unwrap_or_default())
            .help("a backend's names and times never change; delete the sidecar's directory to begin anew"))
    }

    /// The id of the message that the backend knows by this name, if it was given one.
    pub async fn known(&self, foreign: &str) -> Result<Option<MessageId>> {
        let key = by_name(foreign)?;
        match self.records.get(&key).await? {
            None => Ok(None),
            Some(record) => pair_of(&record, foreign).map(Some),
        }
    }

    /// Gives an id to a name. False when another name has it.
    ///
    /// The id is taken first and the name follows: a process that dies between the two leaves an id that already names
    /// its owner, and the next who asks for that name finishes it.
    async fn take(&self, foreign: &str, id: MessageId) -> Result<bool> {
        let value = json!(Pair { foreign: foreign.into(), id });
        let key = by_id(id)?;
        match self.records.put(&key, Expect::Absent, value.clone(), true).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Conflict => {
                if self.foreign_of(id).await?.as_deref() != Some(foreign) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
        match self.records.put(&by_name(foreign)?, Expect::Absent, value, true).await {
            // Somebody else has just done the same: ids are tried in the same order by everyone.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(self.known(foreign).await? == Some(id)),
            other => other.map(|_| true),
        }
    }
}

fn pair_of(record: &Record, foreign: &str) -> Result<MessageId> {
    let pair: Pair = record.decode()?;
    if pair.foreign == foreign {
        return Ok(pair.id);
    }
    Err(Error::new(ErrorKind::Corrupt, format!("the record `{}` is of another name than its key", record.key)))
}

fn by_name(foreign: &str) -> Result<RecordKey> {
    format!("{OWN}/names/{}", ContentHash::of(&[foreign.as_bytes()])).parse()
}

fn by_id(id: MessageId) -> Result<RecordKey> {
    format!("{OWN}/ids/{id}").parse()
}
