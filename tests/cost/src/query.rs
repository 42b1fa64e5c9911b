//! SQLite without fmail: a question to the database of the `sqlite` store, in the store's own version of the library.
//!
//! The `sqlite3` of a distribution may be too old for its index of words.

use std::path::Path;

use fmail_api::{Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// Prints what the database answers, a row in a line.
pub fn run(database: &Path, sql: &str) -> Result<()> {
    let failed = |error: rusqlite::Error| Error::internal(format!("{}: {error}", database.display()));
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let columns = statement.column_count();
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let cells = (0..columns).map(|column| row.get_ref(column).map(text)).collect::<Result<Vec<_>, _>>();
        println!("{}", cells.map_err(failed)?.join("\t"));
    }
    Ok(())
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{:?}", other.data_type()),
    }
}
