//! A query in terms of the tables.

use fmail_api::{MessageId, Query, Scope, Since};
use fmail_core::SearchQuery;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use crate::database::Epoch;
use crate::errors::Outcome;
use crate::messages::row_of;

/// A query, with its `since` resolved against the messages that were there when it was asked.
pub(crate) struct Filter {
    pub(crate) query: Query,
    pub(crate) since: Arrived,
    pub(crate) text: Option<SearchQuery>,
    /// Where the order of arrival ended when it was asked.
    pub(crate) end: i64,
}

/// What `since` asks of a message's place in the order of arrival, and of its id.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrived {
    Whenever,
    Behind(i64),
    /// Behind this place, if the message is known, or with a higher id.
    BehindMessage(Option<i64>, MessageId),
}

/// Conditions on the message `m`, each preceded by AND, and the values for their question marks.
#[derive(Default)]
pub(crate) struct Conditions {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

impl Conditions {
    fn and<const N: usize>(&mut self, sql: &str, values: [Value; N]) {
        self.sql.push_str(" AND ");
        self.sql.push_str(sql);
        self.values.extend(values);
    }
}

/// Where the order of arrival ends.
pub(crate) fn last_arrival(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT last_arrival FROM state")?.query_row((), |row| row.get(0))
}

impl Filter {
    pub(crate) fn new(connection: &Connection, query: Query, epoch: &Epoch) -> Outcome<Self> {
        let end = last_arrival(connection)?;
        let since = match &query.since {
            None | Some(Since::Time(_)) => Arrived::Whenever,
            Some(Since::Cursor(cursor)) => Arrived::Behind(epoch.position(connection, cursor, end)?),
            Some(Since::Id(id)) => {
                let mut find = connection.prepare_cached("SELECT arrival FROM messages WHERE id = ?")?;
                Arrived::BehindMessage(find.query_row([row_of(*id)], |row| row.get(0)).optional()?, *id)
            }
        };
        let text = query.text.as_deref().map(str::parse).transpose()?;
        Ok(Filter { query, since, text, end })
    }

    /// Where an order of arrival starts.
    pub(crate) fn start(&self) -> i64 {
        match self.since {
            Arrived::Behind(position) => position,
            _ => 0,
        }
    }

    /// Everything that the query asks, except for ids and text.
    pub(crate) fn conditions(&self) -> Conditions {
        let mut all = Conditions::default();
        self.scope(&mut all);
        self.time(&mut all);
        let query = &self.query;
        if let Some(from) = &query.from {
            all.and("m.sender = ?", [from.as_str().to_owned().into()]);
        }
        if let Some(thread) = &query.thread {
            all.and("m.thread = ?", [thread.clone().into()]);
        }
        match self.since {
            Arrived::Whenever => {}
            Arrived::Behind(position) => all.and("m.arrival > ?", [position.into()]),
            Arrived::BehindMessage(None, id) => all.and("m.id > ?", [row_of(id).into()]),
            Arrived::BehindMessage(Some(position), id) => {
                all.and("(m.arrival > ? OR m.id > ?)", [position.into(), row_of(id).into()]);
            }
        }
        // The usual ending, compared as a number, spares us most rows; `accepts_id` has the last word on any.
        if let Some(suffix) = query.id_suffix.as_deref().filter(|suffix| (1..=4).contains(&suffix.len()))
            && suffix.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(number) = suffix.parse::<i64>()
        {
            all.and("m.id % ? = ?", [10_i64.pow(suffix.len() as u32).into(), number.into()]);
        }
        all
    }

    fn scope(&self, all: &mut Conditions) {
        const PLACE: &str = "EXISTS (SELECT 1 FROM places WHERE target = ? AND id = m.id)";
        match &self.query.scope {
            Scope::All => {}
            Scope::Topics => all.and("m.topic = 1", []),
            Scope::Target(target) => all.and(PLACE, [target.to_string().into()]),
            Scope::Visible(agent) => all.and(&format!("(m.topic = 1 OR {PLACE})"), [format!("@{agent}").into()]),
        }
    }

    fn time(&self, all: &mut Conditions) {
        if let Some(Since::Time(since)) = &self.query.since {
            all.and("m.time >= ?", [since.unix_seconds().into()]);
        }
        if let Some(before) = &self.query.before {
            all.and("(m.time, m.nanos) < (?, ?)", [before.unix_seconds().into(), before.subsec_nanos().into()]);
        }
    }
}
