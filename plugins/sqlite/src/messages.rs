//! Messages as rows: how one is stored, and how it is read again.

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Appended, Delivery, Draft, Error, ErrorKind, Event, Identity, Imported, Message, MessageId, Notice, NoticeKind,
    RefusedReason, Result, Target, Timestamp, check_size,
};
use fmail_core::SearchColumn;
use rusqlite::{Connection, OptionalExtension, params_from_iter, types::ToSql};

use crate::database::Epoch;
use crate::errors::Outcome;
use crate::ids::Counters;
use crate::records;
use crate::writer::Writing;

/// How long an idempotency key is remembered.
const KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// A message that waits to be stored. What does not depend on its id is worked out by the caller, since there is only
/// one writer.
pub(crate) struct Waiting {
    message: Message,
    words: Vec<String>,
}

impl Waiting {
    /// A draft that is small enough.
    pub(crate) fn draft(draft: Draft, max_message_bytes: usize) -> Result<Self> {
        // The id and the time in whole seconds take the same room whatever they are.
        let message = draft.into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        check_size(&message, max_message_bytes)?;
        Ok(Waiting::message(message))
    }

    /// A message of another store.
    pub(crate) fn message(message: Message) -> Self {
        let words = SearchColumn::ALL.map(|column| column.text(&message)).into();
        Waiting { message, words }
    }

    /// Stores the draft under the next id, unless its key is known.
    pub(crate) fn append(&self, writing: &mut Writing<'_>) -> Outcome<Appended> {
        let now = writing.clock.now();
        if let Some(key) = &self.message.key
            && let Some(first) = with_key(writing.connection, key, now)?
        {
            return Ok(Appended { message: Arc::new(first), duplicate: true, not_durable: None });
        }
        let id = writing.counters.allocate(writing.clock)?;
        let message = Message { id, time: now.whole_seconds(), ..self.message.clone() };
        insert(writing, &message, &self.words)?;
        Ok(Appended { message: Arc::new(message), duplicate: false, not_durable: None })
    }

    /// Stores the message under its own id, or under a fresh one when that is taken or too far ahead.
    pub(crate) fn import(&self, writing: &mut Writing<'_>) -> Outcome<Imported> {
        if knows(writing.connection, &self.message.identity())? {
            return Ok(Imported::Duplicate);
        }
        if records::horizon(writing.connection)?.is_some_and(|horizon| self.message.time < horizon) {
            return Ok(Imported::Refused(RefusedReason::BelowHorizon));
        }
        let given = self.message.id;
        let free = read(writing.connection, given)?.is_none();
        if free && Counters::accepts_foreign(given, writing.clock.now()) {
            writing.counters.count_foreign(given);
            insert(writing, &self.message, &self.words)?;
            return Ok(Imported::New);
        }
        let id = writing.counters.allocate(writing.clock)?;
        let origin_id = Some(self.message.origin_id.unwrap_or(given));
        insert(writing, &Message { id, origin_id, ..self.message.clone() }, &self.words)?;
        Ok(Imported::Relocated(id))
    }
}

fn insert(writing: &mut Writing<'_>, message: &Message, words: &[String]) -> Outcome<()> {
    let (id, arrival) = (row_of(message.id), writing.counters.next_arrival());
    let targets = message.targets();
    let connection = writing.connection;
    let sql = "INSERT INTO messages (id, arrival, time, nanos, topic, sender, thread, key, origin, json)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    connection.prepare_cached(sql)?.execute((
        id,
        arrival,
        message.time.unix_seconds(),
        message.time.subsec_nanos(),
        targets.iter().any(|target| !target.is_direct()),
        message.from.as_str(),
        &message.thread,
        &message.key,
        message.origin_id.map(row_of),
        message.to_line(),
    ))?;
    let mut place = connection.prepare_cached("INSERT INTO places (target, id, arrival) VALUES (?, ?, ?)")?;
    for target in &targets {
        place.execute((target.to_string(), id, arrival))?;
    }
    let sql = "INSERT INTO search (rowid, subject, body, tags, \"from\", \"to\", topic, thread, priority)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let values = std::iter::once(&id as &dyn ToSql).chain(words.iter().map(|text| text as &dyn ToSql));
    connection.prepare_cached(sql)?.execute(params_from_iter(values))?;
    Ok(())
}

/// Takes a message away, and tells where it stood. Nothing is told of one that was gone.
pub(crate) fn delete(connection: &Connection, id: MessageId) -> Outcome<Vec<Target>> {
    let Some(row) = read(connection, id)? else { return Ok(Vec::new()) };
    let targets = places(connection, &row)?;
    connection.prepare_cached("DELETE FROM messages WHERE id = ?")?.execute([row_of(id)])?;
    connection.prepare_cached("DELETE FROM search WHERE rowid = ?")?.execute([row_of(id)])?;
    let mut place = connection.prepare_cached("DELETE FROM places WHERE target = ? AND id = ?")?;
    for target in &targets {
        place.execute((target.to_string(), row_of(id)))?;
    }
    Ok(targets)
}

/// Where a message stands. One that cannot be read does not say it, and every place is asked.
pub(crate) fn places(connection: &Connection, row: &Row) -> Outcome<Vec<Target>> {
    if let Ok(message) = row.message() {
        return Ok(message.targets());
    }
    let mut find = connection.prepare("SELECT target FROM places WHERE id = ?")?;
    let names = find.query_map([row_of(row.id)], |row| row.get::<_, String>(0))?;
    names.map(|name| Ok(name?.parse()?)).collect()
}

/// The number by which a message's row is known.
pub(crate) fn row_of(id: MessageId) -> i64 {
    i64::try_from(id.ticks()).unwrap_or(i64::MAX)
}

/// A stored message.
pub(crate) struct Row {
    pub(crate) id: MessageId,
    pub(crate) arrival: i64,
    json: String,
}

impl Row {
    /// How many bytes its text has.
    pub(crate) fn len(&self) -> usize {
        self.json.len()
    }

    /// The message that the row holds. It is ours, so it can be understood, unless somebody else wrote into the table.
    pub(crate) fn message(&self) -> Result<Message> {
        let broken = |reason: String| {
            Error::new(ErrorKind::Corrupt, format!("the message {} cannot be understood: {reason}", self.id))
                .help("it was left as it is; `fmail gc` and `fmail delete` can take it away")
        };
        let value = serde_json::from_str(&self.json).map_err(|error| broken(error.to_string()))?;
        let message = Message::from_value(value, Some(self.id), None).map_err(|error| broken(error.to_string()))?;
        if message.id != self.id {
            return Err(broken(format!("it says that it is {}", message.id)));
        }
        Ok(message)
    }

    /// The message on its way to a reader; a broken one is told and passed over.
    pub(crate) fn event(&self, epoch: &Epoch) -> Event {
        match self.message() {
            Ok(message) => Event::Message(Delivery::new(Arc::new(message), epoch.behind(self.arrival, Some(self.id)))),
            Err(error) => Event::Notice(Notice::new(NoticeKind::Broken, error.to_string())),
        }
    }
}

/// The message with this id.
pub(crate) fn read(connection: &Connection, id: MessageId) -> rusqlite::Result<Option<Row>> {
    let mut find = connection.prepare_cached("SELECT arrival, json FROM messages WHERE id = ?")?;
    find.query_row([row_of(id)], |row| Ok(Row { id, arrival: row.get(0)?, json: row.get(1)? })).optional()
}

/// The message that was stored with this key in the last 24 hours, if it is still there.
fn with_key(connection: &Connection, key: &str, now: Timestamp) -> Outcome<Option<Message>> {
    let sql = "SELECT id, time FROM messages WHERE key = ? ORDER BY arrival DESC LIMIT 1";
    let found = connection.prepare_cached(sql)?.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((id, time)) = found else { return Ok(None) };
    if now.since(Timestamp::from_unix(time, 0)) > KEY_LIFE {
        return Ok(None);
    }
    match read(connection, id_of(id))? {
        Some(row) => Ok(Some(row.message()?)),
        None => Ok(None),
    }
}

/// Whether the message of this identity is here, under whatever id.
///
/// It is here under the id of its origin, or was relocated and names it. The hash is worked out again from the text:
/// imports are rare, and each append is spared a hash of its body.
fn knows(connection: &Connection, identity: &Identity) -> Outcome<bool> {
    let mut relocated = connection.prepare_cached("SELECT id FROM messages WHERE origin = ?")?;
    let ids = relocated.query_map([row_of(identity.origin)], |row| row.get(0).map(id_of))?;
    let mut ids: Vec<MessageId> = ids.collect::<Result<_, _>>()?;
    ids.push(identity.origin);
    for id in ids {
        if let Some(row) = read(connection, id)?
            && row.message().is_ok_and(|message| message.identity() == *identity)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The id that a row's number stands for.
pub(crate) fn id_of(row: i64) -> MessageId {
    u64::try_from(row).ok().and_then(MessageId::from_ticks).unwrap_or(MessageId::MAX)
}
