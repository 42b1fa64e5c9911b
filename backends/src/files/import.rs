//! Storing a message that another host or store has given its id.

use fmail_api::{Error, ErrorKind, Imported, Message, RecordKey, RefusedReason, Result, Timestamp, check_size};

use super::fs::Dir;
use super::head::origin_hash;
use super::reader::Reader;
use super::session::{Session, Writing};

impl Session {
    /// Stores a message that has its id already, together with all that come at the same time.
    pub fn import(&self, message: Message) -> Result<Imported> {
        let Ok(bytes) = check_size(&message, self.options.max_message_bytes) else {
            return Ok(Imported::Refused(RefusedReason::TooLarge));
        };
        if self.horizon()?.is_some_and(|horizon| message.time < horizon) {
            return Ok(Imported::Refused(RefusedReason::BelowHorizon));
        }
        let original = message.id;
        let stored = self.store_with_others(message, true, bytes)?;
        match stored.not_durable {
            // Who is told so imports it again, and is told that it is there.
            Some(reason) => Err(Error::new(ErrorKind::DurabilityUnknown, reason)),
            None if stored.duplicate => Ok(Imported::Duplicate),
            None if stored.message.id != original => Ok(Imported::Relocated(stored.message.id)),
            None => Ok(Imported::New),
        }
    }

    /// Whether the same message, by its identity, is stored.
    pub fn is_here(&self, top: &Dir, writing: &Writing<'_>, message: &Message) -> Result<bool> {
        let state = writing.index.state()?;
        let mut reader = Reader::new(self, top);
        let identity = message.identity();
        for (_, entry) in writing.index.find(&state, identity.origin)? {
            let target = writing.index.row(entry.row)?.target;
            if reader.read(&target, entry.id)?.message().is_some_and(|found| found.identity() == identity) {
                return Ok(true);
            }
        }
        let moved = Message { origin_id: Some(identity.origin), ..message.clone() };
        match writing.index.find_key(&state, origin_hash(&moved))? {
            Some(key) => {
                let entry = writing.index.chain(&state).entry(key.entry)?;
                Ok(!entry.removed)
            }
            None => Ok(false),
        }
    }

    /// Below which time everything was swept away.
    pub fn horizon(&self) -> Result<Option<Timestamp>> {
        let record = self.get(&RecordKey::horizon())?;
        let time = record.and_then(|record| record.value.get("before").and_then(|time| time.as_str()?.parse().ok()));
        Ok(time)
    }
}
