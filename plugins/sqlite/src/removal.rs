//! Removal: the selection as it stands when it is asked for, taken away in small transactions.

use std::collections::VecDeque;
use std::sync::Arc;

use fmail_api::{MessageId, Removed, Result, Selection, Target};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use rusqlite::Connection;

use crate::database::Database;
use crate::errors::Outcome;
use crate::messages::{self, id_of, row_of};
use crate::records;

/// How many messages go in one transaction: a removal must not hold up those who send, and what is dropped half way
/// stops soon.
const BATCH: usize = 64;

/// What is left of a removal.
struct Removal {
    database: Arc<Database>,
    ids: VecDeque<MessageId>,
    dry_run: bool,
}

/// Answers a removal.
pub(crate) async fn remove(
    database: Arc<Database>,
    selection: Selection,
) -> Result<BoxStream<'static, Result<Removed>>> {
    // Before the first message goes, so that none comes back from a peer while the sweep is under way. A selection that
    // also names ids leaves other old messages standing: everything below is then not swept, so no horizon.
    if let Some(before) = selection.before
        && selection.ids.is_empty()
        && !selection.dry_run
    {
        database.writer()?.write(true, move |writing| records::raise_horizon(writing.connection, before)).await?;
    }
    let dry_run = selection.dry_run;
    if !dry_run {
        database.writer()?;
    }
    let ids = database.readers.read(move |connection| selected(connection, &selection)).await?.into();
    let batches = stream::unfold(Some(Removal { database, ids, dry_run }), |removal| async {
        let mut removal = removal.filter(|removal| !removal.ids.is_empty())?;
        match removal.batch().await {
            Ok(told) => Some((told.into_iter().map(Ok).collect(), Some(removal))),
            Err(error) => Some((vec![Err(error)], None)),
        }
    });
    Ok(batches.flat_map(|told: Vec<Result<Removed>>| stream::iter(told)).boxed())
}

impl Removal {
    async fn batch(&mut self) -> Result<Vec<Removed>> {
        let batch: Vec<MessageId> = self.ids.drain(..self.ids.len().min(BATCH)).collect();
        if self.dry_run {
            return self.database.readers.read(move |connection| tell(connection, &batch)).await;
        }
        let take = move |connection: &Connection| {
            let mut told = Vec::new();
            for id in &batch {
                told.extend(messages::delete(connection, *id)?.into_iter().map(|target| removed(*id, target)));
            }
            Ok(told)
        };
        self.database.writer()?.write(true, move |writing| take(writing.connection)).await
    }
}

/// Where these messages stand.
fn tell(connection: &Connection, ids: &[MessageId]) -> Outcome<Vec<Removed>> {
    let mut told = Vec::new();
    for id in ids {
        if let Some(row) = messages::read(connection, *id)? {
            told.extend(messages::places(connection, &row)?.into_iter().map(|target| removed(*id, target)));
        }
    }
    Ok(told)
}

/// The messages that are selected, by id.
fn selected(connection: &Connection, selection: &Selection) -> Outcome<Vec<MessageId>> {
    let cutoff = selection.before.map(|before| (before.unix_seconds(), before.subsec_nanos()));
    if selection.ids.is_empty() {
        let Some(cutoff) = cutoff else { return Ok(Vec::new()) };
        let sql = "SELECT id FROM messages INDEXED BY messages_by_time WHERE (time, nanos) < (?, ?) ORDER BY id";
        let mut find = connection.prepare_cached(sql)?;
        let ids = find.query_map(cutoff, |row| row.get(0).map(id_of))?;
        return Ok(ids.collect::<Result<_, _>>()?);
    }
    let (seconds, nanos) = cutoff.unwrap_or((i64::MAX, 0));
    let mut find = connection.prepare_cached("SELECT 1 FROM messages WHERE id = ? AND (time, nanos) < (?, ?)")?;
    let mut ids = Vec::new();
    for id in &selection.ids {
        if find.exists((row_of(*id), seconds, nanos))? {
            ids.push(*id);
        }
    }
    Ok(ids)
}

/// A message and where it stood, in the words of the files store, so that `gc` reads the same on both.
fn removed(id: MessageId, target: Target) -> Removed {
    let place = match &target {
        Target::Topic(topic) => format!("topics/{topic}/{id}.json"),
        Target::Agent(agent) => format!("dm/{agent}/{id}.json"),
    };
    Removed { id, target, place }
}
