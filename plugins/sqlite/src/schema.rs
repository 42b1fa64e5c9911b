//! The tables, and the number of their layout.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};
use fmail_core::SearchColumn;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::errors::{Outcome, is_busy, sqlite};
use crate::{Durability, SqliteOptions};

/// The layout that this version writes, kept as `PRAGMA user_version`. A newer one is not written to.
pub const FORMAT: i64 = 1;

/// `fmal`, kept as `PRAGMA application_id`, so that `file` and we know whose database it is.
const APPLICATION_ID: i64 = 0x666d_616c;

/// How large the write-ahead log may stay once everything in it stands in the database.
const WAL_KEPT: i64 = 8 * 1024 * 1024;

/// How many prepared statements a connection keeps.
const STATEMENTS: usize = 64;

/// Everything but the index of words.
///
/// Messages are ordered by id, since most questions are; `arrival` counts up by one with each message. What a question
/// compares stands before the text, which is as long as the message and need not be read for that. `places` has a row
/// for each recipient, in the order of ids and in that of arrival.
const TABLES: &str = "
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch TEXT NOT NULL,
    last_id INTEGER NOT NULL,
    last_arrival INTEGER NOT NULL,
    boot TEXT NOT NULL,
    boot_ticks INTEGER NOT NULL,
    clock_ticks INTEGER NOT NULL
) STRICT;
INSERT INTO state VALUES (1, lower(hex(randomblob(8))), 0, 0, '', 0, 0);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    arrival INTEGER NOT NULL,
    time INTEGER NOT NULL,
    nanos INTEGER NOT NULL,
    topic INTEGER NOT NULL,
    sender TEXT NOT NULL,
    thread TEXT,
    key TEXT,
    origin INTEGER,
    json TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_by_arrival ON messages (arrival);
CREATE INDEX messages_by_time ON messages (time, nanos);
CREATE INDEX messages_by_sender ON messages (sender);
CREATE INDEX messages_by_thread ON messages (thread) WHERE thread IS NOT NULL;
CREATE INDEX messages_by_key ON messages (key) WHERE key IS NOT NULL;
CREATE INDEX messages_by_origin ON messages (origin) WHERE origin IS NOT NULL;
CREATE TABLE places (
    target TEXT NOT NULL,
    id INTEGER NOT NULL,
    arrival INTEGER NOT NULL,
    PRIMARY KEY (target, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX places_by_arrival ON places (target, arrival);
CREATE TABLE records (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
";

/// The index of words: it holds no texts, and its rows have the ids of the messages, so that it answers in their order.
fn search_table() -> String {
    let columns = SearchColumn::ALL.map(|column| format!("\"{}\"", column.name())).join(", ");
    format!("CREATE VIRTUAL TABLE search USING fts5({columns}, content='', contentless_delete=1);")
}

/// A connection that writes, with the tables in place.
pub(crate) fn open_writer(path: &Path, options: &SqliteOptions) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let failed = |error: rusqlite::Error| sqlite(&error, path);
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    // SQLite opens a file that may not be written all the same, for reading.
    if connection.is_readonly("main").map_err(failed)? {
        return Err(Error::new(ErrorKind::Denied, format!("{}: the database may not be written", path.display()))
            .help("check the owner and the mode of the file and of its directory, both have to be writable"));
    }
    prepare(&connection, options.busy_timeout).map_err(failed)?;
    let found = identify(&connection).map_err(failed)?;
    found.check(path)?;
    let mode = use_log(&connection, options.busy_timeout).map_err(failed)?;
    if mode != "wal" {
        return Err(Error::new(
            ErrorKind::Unavailable,
            format!("{}: SQLite cannot keep a write-ahead log here (its mode is `{mode}`)", path.display()),
        )
        .help("keep the database on a local filesystem: the log needs shared memory between processes"));
    }
    if found.is_empty() {
        create(&mut connection).map_err(|failure| failure.on(path))?;
        identify(&connection).map_err(failed)?.check(path)?;
    }
    connection.pragma_update(None, "journal_size_limit", WAL_KEPT).map_err(failed)?;
    set_sync(&connection, options.durability == Durability::Full).map_err(failed)?;
    if let Some(pages) = options.max_pages {
        connection.pragma_update(None, "max_page_count", pages).map_err(failed)?;
    }
    Ok(connection)
}

/// What a connection that only reads needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) path: PathBuf,
    pub(crate) busy_timeout: Duration,
    /// Nobody can write the file, and it is read without a look at locks and logs.
    pub(crate) immutable: bool,
}

impl Door {
    /// A connection that only reads.
    pub(crate) fn open(&self) -> Result<Connection> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let failed = |error: rusqlite::Error| sqlite(&error, &self.path);
        let connection = match self.immutable {
            true => Connection::open_with_flags(immutable_uri(&self.path), flags | OpenFlags::SQLITE_OPEN_URI),
            false => Connection::open_with_flags(&self.path, flags),
        };
        let connection = connection.map_err(failed)?;
        prepare(&connection, self.busy_timeout).map_err(failed)?;
        Ok(connection)
    }
}

/// The file as SQLite reads one that nobody changes.
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri + "?immutable=1"
}

/// Refuses a database that is not ours, is newer, or has no tables yet.
pub(crate) fn check_readable(connection: &Connection, path: &Path) -> Result<()> {
    let found = identify(connection).map_err(|error| sqlite(&error, path))?;
    found.check(path)?;
    if found.is_empty() {
        return Err(Error::new(ErrorKind::Denied, format!("{}: the database is empty and read-only", path.display()))
            .help("make the file and its directory writable; the tables are made then"));
    }
    Ok(())
}

/// Whether a commit waits until the disk has it.
pub(crate) fn set_sync(connection: &Connection, full: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", if full { "FULL" } else { "NORMAL" })
}

/// Whether the log stays when the last connection closes, or is brought into the database.
pub(crate) fn keep_log(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

fn prepare(connection: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // What is sorted holds nothing that should lie in a directory for everyone.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // The tables are ours; what a file that came from elsewhere holds besides them must not run code in their place.
    connection.pragma_update(None, "trusted_schema", false)
}

/// What kind of database was found.
struct Found {
    application: i64,
    format: i64,
    tables: i64,
}

/// All of one moment: while another process makes the tables, two questions could see them half as nobody's and half as ours.
fn identify(connection: &Connection) -> rusqlite::Result<Found> {
    let _moment = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
    let number = |sql: &str| connection.query_row(sql, (), |row| row.get(0));
    Ok(Found {
        application: number("PRAGMA application_id")?,
        format: number("PRAGMA user_version")?,
        tables: number("SELECT count(*) FROM sqlite_schema")?,
    })
}

impl Found {
    fn is_empty(&self) -> bool {
        self.application == 0 && self.format == 0 && self.tables == 0
    }

    fn check(&self, path: &Path) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        if self.application != APPLICATION_ID {
            return Err(Error::new(
                ErrorKind::InvalidProject,
                format!(
                    "{}: this is a database of another program (application id {}, {} tables), not one of fmail",
                    path.display(),
                    self.application,
                    self.tables
                ),
            )
            .help("it was left as it is; name another file"));
        }
        if self.format != FORMAT {
            return Err(Error::new(
                ErrorKind::InvalidProject,
                format!("{}: the database has format {}, this fmail knows {FORMAT}", path.display(), self.format),
            )
            .help("it was left as it is; use the version of fmail that wrote it, or a newer one"));
        }
        Ok(())
    }
}

/// Switches to the write-ahead log. SQLite does not wait for other connections here, so we do.
fn use_log(connection: &Connection, patience: Duration) -> rusqlite::Result<String> {
    let deadline = Instant::now() + patience;
    loop {
        let switched = connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get::<_, String>(0));
        match switched {
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// Makes the tables, unless another process was faster.
fn create(connection: &mut Connection) -> Outcome<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if identify(&transaction)?.is_empty() {
        transaction.execute_batch(TABLES)?;
        transaction.execute_batch(&search_table())?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
    }
    Ok(transaction.commit()?)
}
