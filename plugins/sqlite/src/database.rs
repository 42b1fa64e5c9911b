//! One open database: the thread that writes, the threads that read, and who waits for messages.
//!
//! Stores of one process on one file share it. That keeps one writer, whose groups grow with the number of callers, and
//! lets every watcher be woken directly.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use fmail_api::{Cursor, Error, ErrorKind, MessageId, Result};
use rusqlite::{Connection, OptionalExtension};

use crate::changes::Changes;
use crate::clock::boot_id;
use crate::errors::{Outcome, sqlite};
use crate::file::{DatabaseFile, FileId};
use crate::messages::id_of;
use crate::readers::Readers;
use crate::schema::{Door, check_readable, open_writer};
use crate::writer::{Desk, Writer};
use crate::{Durability, SqliteOptions};

/// The databases that this process has open.
static OPEN: LazyLock<Mutex<HashMap<FileId, Weak<Database>>>> = LazyLock::new(Mutex::default);

/// One open database.
pub(crate) struct Database {
    pub(crate) file: DatabaseFile,
    pub(crate) epoch: Epoch,
    pub(crate) readers: Arc<Readers>,
    pub(crate) changes: Arc<Changes>,
    durability: Durability,
    /// None when the database can only be read.
    writer: Option<Writer>,
    writing: Option<JoinHandle<()>>,
}

impl Database {
    /// The database of these options: the one that is open already, or a new one.
    pub(crate) fn open(options: &SqliteOptions) -> Result<Arc<Self>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let file = DatabaseFile::at(&options.path)?;
        if let Some(database) = open.get(&file.id).and_then(Weak::upgrade) {
            return database.shared(&file, options);
        }
        let database = Arc::new(Self::start(file, options.clone())?);
        open.retain(|_, database| database.strong_count() > 0);
        open.insert(database.file.id, Arc::downgrade(&database));
        Ok(database)
    }

    /// This database, for another store, if it means the same by it.
    fn shared(self: Arc<Self>, file: &DatabaseFile, options: &SqliteOptions) -> Result<Arc<Self>> {
        let differs = |what: &str| {
            Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("{}: this process has the database open with another {what}", file.path.display()),
            )
            .help("use the same settings wherever one process opens the same database"))
        };
        if self.file.path != file.path {
            return differs(&format!("name, {}", self.file.path.display()));
        }
        if self.durability != options.durability {
            return differs("durability");
        }
        Ok(self)
    }

    fn start(file: DatabaseFile, options: SqliteOptions) -> Result<Self> {
        let mut door = Door { path: file.path.clone(), busy_timeout: options.busy_timeout, immutable: false };
        let writing = match open_writer(&file.path, &options) {
            Ok(connection) => Some(connection),
            Err(error) if error.kind() == ErrorKind::Denied || !file.is_writable() => {
                door.immutable = reading_only(&file, &door, error)?;
                None
            }
            Err(error) => return Err(error),
        };
        let connection = match &writing {
            Some(connection) => connection,
            None => &door.open()?,
        };
        let epoch = Epoch::of(connection).map_err(|error| sqlite(&error, &file.path))?;
        let changes = Changes::new(door.clone(), options.poll_interval);
        let readers = Readers::new(door, options.readers);
        let durability = options.durability;
        let started = writing.map(|connection| {
            let (file, changes) = (file.clone(), changes.clone());
            let full_sync = durability == Durability::Full;
            Writer::start(Desk { connection, file, clock: options.clock, boot: boot_id(), full_sync, changes })
        });
        let (writer, writing) = started.transpose()?.unzip();
        Ok(Database { file, epoch, readers, changes, durability, writer, writing })
    }

    /// The way to write.
    pub(crate) fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Denied, format!("{}: the database can only be read", self.file.path.display()))
                .help("check the owner and the mode of the file and of its directory, both have to be writable")
        })
    }

    /// Whether it can be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.writer.is_some()
    }
}

/// Whether a database that cannot be written can be read, and whether only as a file that nobody changes.
///
/// Readers share the log through a file beside the database. Where that is missing and cannot be made, there is no log
/// either, and the file alone is all there is.
fn reading_only(file: &DatabaseFile, door: &Door, denied: Error) -> Result<bool> {
    let attempt = |immutable| {
        let door = Door { immutable, ..door.clone() };
        check_readable(&door.open()?, &file.path)
    };
    if attempt(false).is_ok() {
        return Ok(false);
    }
    if file.log_bytes() == 0 && attempt(true).is_ok() { Ok(true) } else { Err(denied) }
}

impl Drop for Database {
    /// Ends the threads and with them the connections. The writer's is the last, since only that can bring the log into
    /// the database.
    fn drop(&mut self) {
        self.readers.close().into_iter().chain(self.changes.close()).for_each(join);
        self.writer = None;
        self.writing.take().into_iter().for_each(join);
    }
}

/// Waits for a thread, unless it is this one: the last reference may go with a task that the thread wakes.
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

/// Says which database a cursor belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Epoch(Arc<str>);

impl Epoch {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        connection.query_row("SELECT epoch FROM state", (), |row| Ok(Epoch(row.get::<_, String>(0)?.into())))
    }

    /// The cursor right behind the message that came at this place.
    pub(crate) fn behind(&self, arrival: i64, id: Option<MessageId>) -> Cursor {
        Cursor::new(format!("{}.{arrival}.{}", self.0, id.map_or(0, MessageId::ticks)))
    }

    /// The cursor right behind this place.
    pub(crate) fn cursor(&self, connection: &Connection, arrival: i64) -> rusqlite::Result<Cursor> {
        Ok(self.behind(arrival, arrived_at(connection, arrival)?))
    }

    /// The place that a cursor stands right behind, in a database that ends with `last`.
    pub(crate) fn position(&self, connection: &Connection, cursor: &Cursor, last: i64) -> Outcome<i64> {
        let wrong = || {
            Error::invalid(format!("`{}` is not a cursor of the sqlite store", cursor.as_str().escape_debug()))
                .help("use a cursor that a scan or a watch of this store has given")
        };
        let parts: Vec<&str> = cursor.as_str().split('.').collect();
        let [epoch, arrival, id] = parts[..] else { return Err(wrong().into()) };
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<i64>().map_err(|_| wrong()),
            false => Err(wrong()),
        };
        let (arrival, id) = (number(arrival)?, number(id)?);
        if epoch.len() != 16 || !epoch.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong().into());
        }
        // In a database that was restored from a backup, another message may have come at this place.
        let known = *epoch == *self.0 && arrival <= last;
        if known && (id == 0 || arrived_at(connection, arrival)?.is_none_or(|found| found == id_of(id))) {
            return Ok(arrival);
        }
        Err(Error::new(ErrorKind::Expired, "the cursor belongs to another database, or to another state of this one")
            .help("start again from a message id or a time")
            .into())
    }
}

/// The message that came at this place, unless it was removed.
fn arrived_at(connection: &Connection, arrival: i64) -> rusqlite::Result<Option<MessageId>> {
    let mut find = connection.prepare_cached("SELECT id FROM messages WHERE arrival = ?")?;
    find.query_row([arrival], |row| row.get(0).map(id_of)).optional()
}
