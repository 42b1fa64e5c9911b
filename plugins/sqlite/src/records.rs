//! Records as rows: small documents that change by compare-and-swap.

use fmail_api::{Error, ErrorKind, Expect, Record, RecordKey, Result, Revision, Timestamp};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value, json};

use crate::errors::Outcome;

/// The field of the `horizon` record that holds the time.
const HORIZON_FIELD: &str = "before";
/// How many records are read in one go.
const PAGE: i64 = 128;

/// Reads a record.
pub(crate) fn get(connection: &Connection, key: &RecordKey) -> Outcome<Option<Record>> {
    match text(connection, key)? {
        Some(text) => Ok(Some(record(key.clone(), &text)?)),
        None => Ok(None),
    }
}

/// Writes a record if the expectation holds.
pub(crate) fn put(connection: &Connection, key: &RecordKey, expect: &Expect, value: &Value) -> Outcome<Revision> {
    check(connection, key, expect)?;
    let text = value.to_string();
    let sql = "INSERT INTO records (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute((key.as_str(), &text))?;
    Ok(Revision::of_content(text.as_bytes()))
}

/// Removes a record if the expectation holds.
pub(crate) fn delete(connection: &Connection, key: &RecordKey, expect: &Expect) -> Outcome<()> {
    check(connection, key, expect)?;
    connection.prepare_cached("DELETE FROM records WHERE key = ?")?.execute([key.as_str()])?;
    Ok(())
}

/// Some of the records under a prefix: those behind `after`, and whether there may be more.
///
/// One that cannot be understood is an error in its place.
pub(crate) fn page(connection: &Connection, prefix: &str, after: &str) -> Outcome<Page> {
    let prefix = prefix.trim_end_matches('/');
    // `0` is the character behind `/`: between the two lies what is below the prefix, whole segments only. No key has a
    // `~`, and all are before it.
    let (below, behind) = match prefix {
        "" => (String::new(), "~".to_owned()),
        prefix => (format!("{prefix}/"), format!("{prefix}0")),
    };
    let from = if after.is_empty() { prefix.to_owned() } else { format!("{after}\0") };
    let sql = "SELECT key, value FROM records
        WHERE key >= ? AND key < ? AND (key = ? OR key >= ?) ORDER BY key LIMIT ?";
    let mut find = connection.prepare_cached(sql)?;
    let rows = find.query_map((from, behind, prefix, below, PAGE), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut page = Page { records: Vec::new(), last: after.to_owned(), more: false };
    for row in rows {
        let (key, text): (String, String) = row?;
        page.records.push(key.parse().and_then(|key| record(key, &text)));
        page.last = key;
    }
    page.more = page.records.len() as i64 == PAGE;
    Ok(page)
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) records: Vec<Result<Record>>,
    /// The key behind which the next page starts.
    pub(crate) last: String,
    pub(crate) more: bool,
}

/// The time below which everything was swept away.
pub(crate) fn horizon(connection: &Connection) -> Outcome<Option<Timestamp>> {
    let Some(record) = get(connection, &RecordKey::horizon())? else { return Ok(None) };
    Ok(record.value.get(HORIZON_FIELD).and_then(Value::as_str).and_then(|text| text.parse().ok()))
}

/// Moves the horizon forward; never back, since what was swept stays swept.
pub(crate) fn raise_horizon(connection: &Connection, before: Timestamp) -> Outcome<()> {
    if horizon(connection)?.is_none_or(|horizon| horizon < before) {
        put(connection, &RecordKey::horizon(), &Expect::Anything, &json!({ HORIZON_FIELD: before }))?;
    }
    Ok(())
}

fn text(connection: &Connection, key: &RecordKey) -> rusqlite::Result<Option<String>> {
    let mut find = connection.prepare_cached("SELECT value FROM records WHERE key = ?")?;
    find.query_row([key.as_str()], |row| row.get(0)).optional()
}

fn record(key: RecordKey, text: &str) -> Result<Record> {
    let value = serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the record `{key}` cannot be understood: {error}"))
            .help("it was left as it is; write it again or delete it")
    })?;
    Ok(Record { key, revision: Revision::of_content(text.as_bytes()), value })
}

fn check(connection: &Connection, key: &RecordKey, expect: &Expect) -> Outcome<()> {
    if *expect == Expect::Anything {
        return Ok(());
    }
    let found = text(connection, key)?.map(|text| Revision::of_content(text.as_bytes()));
    let problem = match (expect, found) {
        (Expect::Anything, _) | (Expect::Absent, None) => return Ok(()),
        (Expect::Revision(wanted), Some(revision)) if *wanted == revision => return Ok(()),
        (Expect::Absent, Some(_)) => "exists already",
        (Expect::Revision(_), Some(_)) => "has changed since it was read",
        (Expect::Revision(_), None) => "is gone",
    };
    Err(Error::new(ErrorKind::Conflict, format!("the record `{key}` {problem}"))
        .help("read it again and repeat the change on what is there now")
        .into())
}
