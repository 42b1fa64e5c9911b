//! Watching: a stream that keeps its place in the order of arrival and asks for what lies behind it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fmail_api::{Cursor, Event, EventStream, Query, Result};
use futures::StreamExt;
use futures::stream;
use rusqlite::Connection;

use crate::database::{Database, Epoch};
use crate::errors::Outcome;
use crate::filter::{Filter, last_arrival};
use crate::pages::fetch;
use crate::store::closed;
use crate::walk::Walk;

/// How many messages are looked for at once.
const LOOK: usize = 256;

/// One reader's stream.
struct Watch {
    database: Arc<Database>,
    /// The store that was asked is closed.
    closed: Arc<AtomicBool>,
    filter: Arc<Filter>,
    /// Everything up to here was looked at.
    position: i64,
    /// Everything up to here was told, as a message or as progress.
    told: i64,
    events: VecDeque<(i64, Event)>,
}

/// What a look behind a position brought.
struct Look {
    events: VecDeque<(i64, Event)>,
    /// Everything up to here was looked at.
    position: i64,
    /// The same as a cursor.
    cursor: Cursor,
    /// Where the order of arrival ended.
    end: i64,
}

/// Answers a watch.
pub(crate) async fn watch(
    database: Arc<Database>,
    closed: Arc<AtomicBool>,
    query: Query,
    from: Cursor,
) -> Result<EventStream> {
    let epoch = database.epoch.clone();
    let begin = move |connection: &rusqlite::Transaction<'_>| {
        let filter = Filter::new(connection, query, &epoch)?;
        let position = epoch.position(connection, &from, filter.end)?;
        Ok((Arc::new(filter), position))
    };
    let (filter, position) = database.readers.read(begin).await?;
    let watch = Watch { database, closed, filter, position, told: position, events: VecDeque::new() };
    Ok(stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(event) => Some((Ok(event), Some(watch))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed())
}

impl Watch {
    async fn next(&mut self) -> Result<Event> {
        loop {
            // Asked before the look, so that no alarm in between is slept through.
            let alarms = self.database.changes.alarms();
            if self.closed.load(Ordering::Acquire) {
                return Err(closed());
            }
            if let Some((arrival, event)) = self.events.pop_front() {
                self.told = arrival;
                return Ok(event);
            }
            let (filter, epoch, position) = (self.filter.clone(), self.database.epoch.clone(), self.position);
            let look = self.database.readers.read(move |connection| look(connection, &filter, &epoch, position));
            let Look { events, position, cursor, end } = look.await?;
            (self.events, self.position) = (events, position);
            if !self.events.is_empty() {
                continue;
            }
            if self.told < self.position {
                self.told = self.position;
                return Ok(Event::Progress(cursor));
            }
            if self.position == end {
                self.database.changes.behind(end, alarms).await;
            }
        }
    }
}

fn look(connection: &Connection, filter: &Filter, epoch: &Epoch, position: i64) -> Outcome<Look> {
    let end = last_arrival(connection)?;
    let found = match position < end {
        true => Walk::arrivals(filter, position, end).next(connection, filter, LOOK)?,
        false => Vec::new(),
    };
    let seen = match found.last() {
        Some(last) if found.len() == LOOK => last.arrival,
        _ => end,
    };
    let mut found = VecDeque::from(found);
    let mut events = VecDeque::new();
    for row in fetch(connection, &mut found)? {
        let event = row.event(epoch);
        // The index of words would look through all messages for each that comes.
        let fits = match (&event, &filter.text) {
            (Event::Message(delivery), Some(text)) => text.matches(&delivery.message),
            _ => true,
        };
        if fits {
            events.push_back((row.arrival, event));
        }
    }
    // A page that was full of bytes leaves some of what was found for the next look.
    let position = found.front().map_or(seen, |left| left.arrival - 1);
    Ok(Look { events, position, cursor: epoch.cursor(connection, position)?, end })
}
