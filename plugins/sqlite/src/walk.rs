//! Finding messages: by walking along an index, or by looking at a few candidates.
//!
//! Only ids are found here. A walk keeps its place as a number and starts again behind it, so that no transaction stays
//! open between two looks.

use std::collections::BTreeMap;

use fmail_api::{Order, Scope, Since};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use crate::errors::Outcome;
use crate::filter::{Arrived, Filter};
use crate::messages::{id_of, row_of};

/// Up to so many candidates are looked at one by one; a walk along all messages is faster for more.
const FEW: i64 = 10_000;

/// A message that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) arrival: i64,
}

/// A way along the messages that fit, in one of the orders.
pub(crate) struct Walk {
    sql: String,
    values: Vec<Value>,
    /// Which of the values is the place that the walk has come to.
    place: usize,
    by_arrival: bool,
}

impl Walk {
    /// A walk in this order, along the index that fits best.
    pub(crate) fn new(filter: &Filter, order: Order) -> Self {
        match order {
            Order::Arrival => Walk::by_arrival(filter, filter.text.is_some()),
            Order::Ascending => Walk::by_id(filter, ">", "", i64::MIN),
            Order::Descending => Walk::by_id(filter, "<", "DESC", i64::MAX),
        }
    }

    /// A walk along everything that has arrived behind `position`, whatever it says.
    pub(crate) fn arrivals(filter: &Filter, position: i64, end: i64) -> Self {
        let mut walk = Walk::by_arrival(filter, false);
        walk.values[walk.place] = position.into();
        walk.values[walk.place + 1] = end.into();
        walk
    }

    fn by_id(filter: &Filter, compare: &str, direction: &str, start: i64) -> Self {
        let query = &filter.query;
        let (from, lead, key) = if let Some(text) = &filter.text {
            (TEXT, Some(text.to_fts5()), "search.rowid")
        } else if let Scope::Target(target) = &query.scope {
            ("places CROSS JOIN messages m ON m.id = places.id WHERE target = ?", Some(target.to_string()), "places.id")
        } else if let Some(thread) = &query.thread {
            ("messages m INDEXED BY messages_by_thread WHERE m.thread = ?", Some(thread.clone()), "m.id")
        } else if let Some(sender) = &query.from {
            ("messages m INDEXED BY messages_by_sender WHERE m.sender = ?", Some(sender.to_string()), "m.id")
        } else {
            ("messages m NOT INDEXED WHERE true", None, "m.id")
        };
        Walk::along(filter, from, lead, key, (compare, direction, start))
    }

    fn by_arrival(filter: &Filter, by_text: bool) -> Self {
        let (from, lead, key) = match (&filter.text, &filter.query.scope) {
            // The index of words knows nothing of arrival, and SQLite sorts what it finds.
            (Some(text), _) if by_text => (TEXT, Some(text.to_fts5()), "m.arrival"),
            (_, Scope::Target(target)) => (
                "places INDEXED BY places_by_arrival CROSS JOIN messages m ON m.id = places.id WHERE target = ?",
                Some(target.to_string()),
                "places.arrival",
            ),
            _ => ("messages m INDEXED BY messages_by_arrival WHERE true", None, "m.arrival"),
        };
        Walk { by_arrival: true, ..Walk::along(filter, from, lead, key, (">", "", filter.start())) }
    }

    fn along(
        filter: &Filter,
        from: &str,
        lead: Option<String>,
        key: &str,
        (compare, direction, start): (&str, &str, i64),
    ) -> Self {
        let conditions = filter.conditions();
        let mut values: Vec<Value> = lead.into_iter().map(Value::from).collect();
        let place = values.len();
        values.extend([start.into(), filter.end.into()]);
        values.extend(conditions.values);
        let sql = format!(
            "SELECT m.id, m.arrival FROM {from} AND {key} {compare} ? AND m.arrival <= ?{} ORDER BY {key} {direction}",
            conditions.sql
        );
        Walk { sql, values, place, by_arrival: false }
    }

    /// The next `count` messages; fewer when the walk is at its end.
    pub(crate) fn next(&mut self, connection: &Connection, filter: &Filter, count: usize) -> Outcome<Vec<Found>> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let mut rows = statement.query(params_from_iter(&self.values))?;
        let mut found = Vec::new();
        while found.len() < count
            && let Some(row) = rows.next()?
        {
            let next = Found { id: row.get(0)?, arrival: row.get(1)? };
            if filter.query.accepts_id(id_of(next.id)) {
                found.push(next);
            }
        }
        drop(rows);
        if let Some(last) = found.last() {
            self.values[self.place] = if self.by_arrival { last.arrival } else { last.id }.into();
        }
        Ok(found)
    }

    #[cfg(test)]
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }
}

const TEXT: &str = "search CROSS JOIN messages m ON m.id = search.rowid WHERE search MATCH ?";

/// The messages that fit, in the order of their ids, when the query itself says that it is about few of them.
///
/// That is so when it names ids, and mostly when it asks for what came after some point.
pub(crate) fn candidates(connection: &Connection, filter: &Filter) -> Outcome<Option<Vec<Found>>> {
    if filter.text.is_some() {
        return Ok(None);
    }
    let ids = if !filter.query.ids.is_empty() {
        filter.query.ids.iter().copied().map(row_of).collect()
    } else if let Some(ids) = recent(connection, filter)? {
        ids
    } else {
        return Ok(None);
    };
    let conditions = filter.conditions();
    let sql = format!("SELECT m.arrival FROM messages m WHERE m.id = ? AND m.arrival <= ?{}", conditions.sql);
    let mut look = connection.prepare_cached(&sql)?;
    let mut fitting = BTreeMap::new();
    for id in ids {
        let values = [id.into(), filter.end.into()].into_iter().chain(conditions.values.iter().cloned());
        let arrival = look.query_row(params_from_iter(values), |row| row.get(0)).optional()?;
        if let Some(arrival) = arrival
            && filter.query.accepts_id(id_of(id))
        {
            fitting.insert(id, arrival);
        }
    }
    Ok(Some(fitting.into_iter().map(|(id, arrival)| Found { id, arrival }).collect()))
}

/// The ids behind the query's `since`, if they are few. An id may stand there twice.
fn recent(connection: &Connection, filter: &Filter) -> Outcome<Option<Vec<i64>>> {
    const BY_ARRIVAL: &str = "SELECT id FROM messages INDEXED BY messages_by_arrival WHERE arrival > ? LIMIT ?";
    const BY_ID: &str = "SELECT id FROM messages WHERE id > ? LIMIT ?";
    const BY_TIME: &str = "SELECT id FROM messages INDEXED BY messages_by_time WHERE time >= ? LIMIT ?";
    let parts = match (filter.since, &filter.query.since) {
        (Arrived::Behind(position), _) => vec![(BY_ARRIVAL, position)],
        (Arrived::BehindMessage(None, id), _) => vec![(BY_ID, row_of(id))],
        (Arrived::BehindMessage(Some(position), id), _) => vec![(BY_ARRIVAL, position), (BY_ID, row_of(id))],
        (Arrived::Whenever, Some(Since::Time(time))) => vec![(BY_TIME, time.unix_seconds())],
        (Arrived::Whenever, _) => return Ok(None),
    };
    let mut ids = Vec::new();
    for (sql, value) in parts {
        let mut find = connection.prepare_cached(sql)?;
        let before = ids.len();
        for id in find.query_map([value, FEW + 1], |row| row.get::<_, i64>(0))? {
            ids.push(id?);
        }
        if (ids.len() - before) as i64 > FEW {
            return Ok(None);
        }
    }
    Ok(Some(ids))
}
