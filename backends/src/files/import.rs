//! Storing a message that another host or store has given its id.

use fmail_api::{Error, ErrorKind, Imported, Message, RecordKey, RefusedReason, Result, Timestamp, check_size};

use super::fs::Dir;
use super::group::Standing;
use super::head::origin_hash;
use super::index::Entry;
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

    /// Where the same message, by its identity, is stored, made whole where it is not.
    pub fn is_here(&self, top: &Dir, writing: &Writing<'_>, message: &Message) -> Result<Option<Standing>> {
        let state = writing.index.state()?;
        let mut reader = Reader::new(self, top);
        let identity = message.identity();
        let mut places: Vec<Entry> =
            writing.index.find(&state, identity.origin)?.into_iter().map(|(_, entry)| entry).collect();
        let moved = Message { origin_id: Some(identity.origin), ..message.clone() };
        if let Some(key) = writing.index.find_key(&state, origin_hash(&moved))? {
            let entry = writing.index.chain(&state).entry(key.entry)?;
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
