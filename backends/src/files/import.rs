//! Storing a message that another host or store has given its id.

use fmail_api::{
    Appended, Error, ErrorKind, Imported, Message, MessageId, RecordKey, RefusedReason, Result, Timestamp, check_size,
};

use super::fs::Dir;
use super::group::Standing;
use super::head::origin_hash_of;
use super::index::{Entry, State};
use super::reader::Reader;
use super::session::{Session, Writing};

fn nothing_known() -> Result<Imported> {
    Err(Error::internal("nothing is known of what became of a message"))
}

/// What is told of a message that came with this id.
fn imported(original: MessageId, stored: Appended) -> Result<Imported> {
    match stored.not_durable {
        // Who is told so imports it again, and is told that it is there.
        Some(reason) => Err(Error::new(ErrorKind::DurabilityUnknown, reason)),
        None if stored.duplicate => Ok(Imported::Duplicate),
        None if stored.message.id != original => Ok(Imported::Relocated(stored.message.id)),
        None => Ok(Imported::New),
    }
}

impl Session {
    /// Stores a message that has its id already, together with all that come at the same time.
    pub fn import(&self, message: Message) -> Result<Imported> {
        self.import_many(vec![message]).pop().unwrap_or_else(nothing_known)
    }

    /// Stores messages that have their ids already, together with all that come at the same time. Each has its own verdict.
    pub fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        let horizon = match self.horizon() {
            Ok(horizon) => horizon,
            Err(error) => return messages.iter().map(|_| Err(error.clone())).collect(),
        };
        let (mut verdicts, mut ready) = (Vec::with_capacity(messages.len()), Vec::new());
        for message in messages {
            let bytes = check_size(&message, self.options.max_message_bytes);
            verdicts.push(match bytes {
                Err(_) => Some(Imported::Refused(RefusedReason::TooLarge)),
                Ok(_) if horizon.is_some_and(|horizon| message.time < horizon) => {
                    Some(Imported::Refused(RefusedReason::BelowHorizon))
                }
                Ok(bytes) => {
                    ready.push((message, bytes));
                    None
                }
            });
        }
        let originals: Vec<_> = ready.iter().map(|(message, _)| (message.id, message.time)).collect();
        let stored = self.store_all(ready, true);
        let mut stored = originals.into_iter().zip(stored).map(|((original, time), stored)| match stored {
            // A sweep came between our first look and the lock.
            Err(error)
                if error.kind() == ErrorKind::Conflict && self.horizon()?.is_some_and(|horizon| time < horizon) =>
            {
                Ok(Imported::Refused(RefusedReason::BelowHorizon))
            }
            stored => imported(original, stored?),
        });
        let verdict = |refused: Option<Imported>| match refused {
            Some(refused) => Ok(refused),
            None => stored.next().unwrap_or_else(nothing_known),
        };
        verdicts.into_iter().map(verdict).collect()
    }

    /// Where the same message, by its identity, is stored, made whole where it is not. `found` is what has its id.
    pub fn is_here(
        &self,
        top: &Dir,
        writing: &Writing<'_>,
        state: &State,
        message: &Message,
        found: Vec<(u32, Entry)>,
    ) -> Result<Option<Standing>> {
        let mut reader = Reader::new(self, top);
        let identity = message.identity();
        let born = match message.origin_id {
            Some(origin) if origin != message.id => writing.index.find(state, origin)?,
            _ => Vec::new(),
        };
        let mut places: Vec<Entry> = found.into_iter().chain(born).map(|(_, entry)| entry).collect();
        if let Some(key) = writing.index.find_key(state, origin_hash_of(&identity))? {
            let entry = writing.index.chain(state).entry(key.entry)?;
            places.extend(Some(entry).filter(|entry| !entry.removed));
        }
        for entry in places {
            let target = writing.index.row(entry.row)?.target;
            let found = reader.read(&target, entry.id)?.into_message();
            if let Some(found) = found.filter(|found| found.identity() == identity) {
                return self.made_whole(top, &reader, &entry, &target, &found).map(Some);
            }
        }
        Ok(None)
    }

    /// Below which time everything was swept away.
    pub fn horizon(&self) -> Result<Option<Timestamp>> {
        let record = self.get(&RecordKey::horizon())?;
        let time = record.and_then(|record| record.value.get("before").and_then(|time| time.as_str()?.parse().ok()));
        Ok(time)
    }
}
