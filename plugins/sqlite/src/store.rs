//! The store itself: each call is work for a thread of the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, ErrorKind, EventStream, Expect, Filters, Health, Imported, Message,
    Query, Record, RecordKey, RefusedReason, Removed, Result, Revision, Scan, Selection, Store, Summary, check_size,
    summarise,
};
use futures::StreamExt;
use futures::channel::oneshot;
use futures::stream::{self, BoxStream};
use serde_json::Value;

use crate::database::Database;
use crate::messages::Waiting;
use crate::{SqliteOptions, pages, records, removal, summary, watch};

/// A project's messages and records in one SQLite database.
///
/// Stores of one process on one file share its connections; other processes may have it open at the same time.
pub struct SqliteStore {
    /// None once the store is closed.
    database: Mutex<Option<Arc<Database>>>,
    /// Tells the streams of this store that it is closed.
    closed: Arc<AtomicBool>,
    max_message_bytes: usize,
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the sqlite store is closed").help("open the project again")
}

impl SqliteStore {
    /// Opens the database; makes it if it is missing.
    ///
    /// This blocks while another process makes the same database, at most for the busy timeout.
    pub fn open(options: SqliteOptions) -> Result<Self> {
        let database = Database::open(&options)?;
        Ok(SqliteStore {
            database: Mutex::new(Some(database)),
            closed: Arc::new(AtomicBool::new(false)),
            max_message_bytes: options.max_message_bytes,
        })
    }

    fn database(&self) -> Result<Arc<Database>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "sqlite".into(),
            shared: true,
            durable: true,
            import: true,
            remove: true,
            topics: true,
            filters: Filters { text: true, ..Filters::ALL },
            max_message_bytes: self.max_message_bytes,
        }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        let database = self.database()?;
        let waiting = Waiting::draft(draft, self.max_message_bytes)?;
        database.writer()?.write(true, move |writing| waiting.append(writing)).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        let database = self.database()?;
        // The limit is on the message as it came: the `origin_id` that a relocation adds must not turn it away.
        if check_size(&message, self.max_message_bytes).is_err() {
            return Ok(Imported::Refused(RefusedReason::TooLarge));
        }
        let waiting = Waiting::message(message);
        database.writer()?.write(true, move |writing| waiting.import(writing)).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        pages::scan(&self.database()?, query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        watch::watch(self.database()?, self.closed.clone(), query, from).await
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        let scope = query.scope.clone();
        if !summary::is_plain(&query) {
            return summarise(&scope, self.scan(query).await?.messages).await;
        }
        self.database()?.readers.read(move |connection| summary::summary(connection, &scope)).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        removal::remove(self.database()?, selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        let key = key.clone();
        self.database()?.readers.read(move |connection| records::get(connection, &key)).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        let (database, key) = (self.database()?, key.clone());
        let put =
            move |writing: &mut crate::writer::Writing<'_>| records::put(writing.connection, &key, &expect, &value);
        database.writer()?.write(durable, put).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let state = Some((self.database()?, prefix.to_owned(), String::new()));
        let pages = stream::unfold(state, |state| async {
            let (database, prefix, after) = state?;
            let wanted = prefix.clone();
            match database.readers.read(move |connection| records::page(connection, &wanted, &after)).await {
                Ok(page) => Some((page.records, page.more.then_some((database, prefix, page.last)))),
                Err(error) => Some((vec![Err(error)], None)),
            }
        });
        Ok(pages.flat_map(stream::iter).boxed())
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        let (database, key) = (self.database()?, key.clone());
        let delete = move |writing: &mut crate::writer::Writing<'_>| records::delete(writing.connection, &key, &expect);
        database.writer()?.write(true, delete).await
    }

    async fn health(&self) -> Result<Health> {
        let database = self.database()?;
        database.file.check()?;
        let count = |connection: &rusqlite::Transaction<'_>| {
            let sql = "SELECT count(*) FROM messages INDEXED BY messages_by_arrival";
            Ok(connection.prepare_cached(sql)?.query_row((), |row| row.get::<_, i64>(0))?)
        };
        let count = database.readers.read(count).await?;
        let (path, version) = (database.file.path.display(), rusqlite::version());
        let only = if database.is_writable() { "" } else { ", which can only be read" };
        let detail = format!("{count} messages in {path}{only} (SQLite {version})");
        Ok(Health { writable: database.is_writable(), detail })
    }

    /// Ends this store's watches. The last store of a process on a file brings the log into the database and lets go of
    /// the file.
    async fn close(&self) -> Result<()> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(database) = database else { return Ok(()) };
        self.closed.store(true, Ordering::Release);
        database.changes.alarm();
        // The threads are waited for on a thread of our own, since nobody's poll may block.
        let (done, ended) = oneshot::channel::<()>();
        let closing = thread::Builder::new().name("fmail-sqlite-close".into()).spawn(move || {
            drop(database);
            drop(done);
        });
        closing.map_err(|error| Error::io("the thread that closes the database cannot be started", &error))?;
        // The channel is closed when the database is.
        let _ = ended.await;
        Ok(())
    }
}
