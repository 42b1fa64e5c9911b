//! Scanning: what fits is found as ids, and the messages follow in pages.

use std::collections::VecDeque;
use std::sync::Arc;

use fmail_api::{Cursor, Event, MessageStream, Order, Query, Result, Scan};
use futures::StreamExt;
use futures::stream;
use rusqlite::Connection;

use crate::database::{Database, Epoch};
use crate::errors::Outcome;
use crate::filter::Filter;
use crate::messages::{self, Row, id_of};
use crate::walk::{Found, Walk, candidates};

/// The most messages of a page, and the most bytes of their texts before it ends.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 1 << 20;
/// How many ids a walk finds first, and at most at once. Each time it finds more, so that questions which are dear to
/// ask, such as the beginning of a word, are asked only a few times.
const FIRST_LOOK: usize = 64;
const LARGEST_LOOK: usize = 1 << 16;

/// What is left of a scan.
pub(crate) struct Rest {
    filter: Filter,
    found: VecDeque<Found>,
    walk: Option<Walk>,
    look: usize,
}

/// The beginning of a scan.
struct Begun {
    cursor: Cursor,
    more: bool,
    events: Vec<Event>,
    rest: Rest,
}

/// Answers a scan.
pub(crate) async fn scan(database: &Arc<Database>, query: Query) -> Result<Scan> {
    let epoch = database.epoch.clone();
    let begun = database.readers.read(move |connection| begin(connection, query, &epoch)).await?;
    let messages = stream_of(database.clone(), begun.events, begun.rest);
    Ok(Scan { cursor: begun.cursor, more: begun.more, messages })
}

/// The events that are there, and those of the pages that follow.
fn stream_of(database: Arc<Database>, events: Vec<Event>, rest: Rest) -> MessageStream {
    let first = stream::iter(events.into_iter().map(Ok));
    let pages = stream::unfold(Some((database, rest)), |state| async {
        let (database, mut rest) = state?;
        let epoch = database.epoch.clone();
        let read = database.readers.read(move |connection| {
            let events = rest.page(connection, &epoch)?;
            Ok((events, rest))
        });
        match read.await {
            Ok((events, _)) if events.is_empty() => None,
            Ok((events, rest)) => Some((events.into_iter().map(Ok).collect(), Some((database, rest)))),
            Err(error) => Some((vec![Err(error)], None)),
        }
    });
    first.chain(pages.flat_map(|events: Vec<Result<Event>>| stream::iter(events))).boxed()
}

fn begin(connection: &Connection, query: Query, epoch: &Epoch) -> Outcome<Begun> {
    let filter = Filter::new(connection, query, epoch)?;
    let order = filter.query.order;
    let limit = filter.query.limit;
    // The newest are kept, so they are looked for first, in whichever order they are wanted.
    let looking = if limit.is_some() && order == Order::Ascending { Order::Descending } else { order };
    let (mut found, mut walk) = match candidates(connection, &filter)? {
        Some(mut found) => {
            match looking {
                Order::Ascending => {}
                Order::Descending => found.reverse(),
                Order::Arrival => found.sort_unstable_by_key(|found| found.arrival),
            }
            (found, None)
        }
        None => (Vec::new(), Some(Walk::new(&filter, looking))),
    };
    let mut end = filter.end;
    let mut more = false;
    if let Some(limit) = limit {
        if let Some(mut walk) = walk.take() {
            // One more than asked for is looked for, to know whether something is left out.
            found = walk.next(connection, &filter, limit.saturating_add(1))?;
        }
        more = found.len() > limit;
        found.truncate(limit);
        // A page in order of arrival ends behind its last message, so that the next page starts there. The others hold
        // the newest, and what they left out lies behind the reader.
        if more && order == Order::Arrival {
            end = found.last().map_or(filter.start(), |last| last.arrival);
        }
        if looking != order {
            found.reverse();
        }
    }
    let mut rest = Rest { filter, found: found.into(), walk, look: FIRST_LOOK };
    let events = rest.page(connection, epoch)?;
    Ok(Begun { cursor: epoch.cursor(connection, end)?, more, events, rest })
}

impl Rest {
    /// The next messages; none when everything was delivered.
    fn page(&mut self, connection: &Connection, epoch: &Epoch) -> Outcome<Vec<Event>> {
        loop {
            if self.found.is_empty() {
                let Some(walk) = &mut self.walk else { return Ok(Vec::new()) };
                let found = walk.next(connection, &self.filter, self.look)?;
                if found.len() < self.look {
                    self.walk = None;
                }
                self.look = (self.look * 4).min(LARGEST_LOOK);
                self.found = found.into();
            }
            let rows = fetch(connection, &mut self.found)?;
            if !rows.is_empty() {
                return Ok(rows.iter().map(|row| row.event(epoch)).collect());
            }
        }
    }
}

/// Takes what was found and reads a page of it. What was removed meanwhile is passed over.
pub(crate) fn fetch(connection: &Connection, found: &mut VecDeque<Found>) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    while rows.len() < PAGE
        && bytes < PAGE_BYTES
        && let Some(next) = found.pop_front()
    {
        // An id that was removed and imported again is another arrival, and not the one that was found.
        if let Some(row) = messages::read(connection, id_of(next.id))?
            && row.arrival == next.arrival
        {
            bytes += row.len();
            rows.push(row);
        }
    }
    Ok(rows)
}
