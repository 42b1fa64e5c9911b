//! Storing a message that another host or store has given its id.

use fmail_api::{
    Error, ErrorKind, Imported, Message, MessageId, RecordKey, RefusedReason, Result, Target, Timestamp, check_size,
};

use super::crew::Crew;
use super::fs::Dir;
use super::group::ids_ahead;
use super::head::origin_hash;
use super::index::Entry;
use super::publish::Outcome;
use super::reader::Reader;
use super::session::{Session, Writing};

impl Session {
    /// Stores a message that has its id already.
    pub fn import(&self, mut message: Message) -> Result<Imported> {
        if check_size(&message, self.options.max_message_bytes).is_err() {
            return Ok(Imported::Refused(RefusedReason::TooLarge));
        }
        if self.horizon()?.is_some_and(|horizon| message.time < horizon) {
            return Ok(Imported::Refused(RefusedReason::BelowHorizon));
        }
        let top = self.top_for_writing()?;
        // Whoever imports does so over and over.
        let lock = self.lock_in_line(&top)?;
        let writing = self.writing_with(&top, lock)?;
        let mut changes = writing.changes()?;
        if let Some(dirs) = self.is_here(&top, &writing, &message)? {
            drop(writing);
            return self.safe_in(dirs, &Crew::alone(&self.options.fs)).map(|()| Imported::Duplicate);
        }
        let original = message.id;
        let taken = !writing.index.find(&changes.state, original)?.is_empty();
        let crew = Crew::alone(&self.options.fs);
        let mut above = MessageId::MIN;
        let mut relocate = taken || original > self.latest();
        loop {
            if relocate {
                message.id = self.allocate(&writing, &mut changes, above)?.ok_or_else(ids_ahead)?;
                message.origin_id = Some(message.origin_id.unwrap_or(original));
            }
            match self.publish(&top, &mut changes, std::slice::from_ref(&message), &crew)?.pop() {
                Some(Outcome::Stored(dirs)) => {
                    drop(writing);
                    self.safe_in(dirs, &crew)?;
                    return Ok(if relocate { Imported::Relocated(message.id) } else { Imported::New });
                }
                Some(Outcome::Failed(error)) => return Err(error),
                Some(Outcome::Taken) | None => {
                    if relocate {
                        above = message.id.next();
                    }
                    relocate = true;
                }
            }
        }
    }

    /// Makes a message's names durable.
    fn safe_in(&self, dirs: Vec<(Target, Dir)>, crew: &Crew) -> Result<()> {
        let dirs = dirs.into_iter().map(|(_, dir)| dir).collect();
        self.sync_dirs(dirs, crew).into_iter().flatten().next().map_or(Ok(()), Err)
    }

    /// Whether the same message, by its identity, is stored, and what has to be synced before that can be told.
    fn is_here(&self, top: &Dir, writing: &Writing<'_>, message: &Message) -> Result<Option<Vec<(Target, Dir)>>> {
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
            let Some(found) = found.filter(|found| found.identity() == identity) else { continue };
            let (dirs, not_durable) = self.made_whole(top, &reader, &entry, &target, &found)?;
            return match not_durable {
                Some(reason) => Err(Error::new(ErrorKind::DurabilityUnknown, reason)),
                None => Ok(Some(dirs)),
            };
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
