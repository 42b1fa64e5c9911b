//! A store with one deliberate fault, around the memory store that has none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, ErrorKind, Event, EventStream, Expect, Health, Imported, Message,
    Query, Record, RecordKey, Removed, Result, Revision, Scan, Scope, Selection, Since, Store, Timestamp,
};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_conformance::Subject;
use futures::StreamExt;
use futures::future::ready;
use futures::stream::{self, BoxStream};
use serde_json::Value;

/// What the store under test claims as its limit.
const LIMIT: usize = 20_000;

/// Ways in which a store can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Loses every tenth message of a watch.
    DropsEveryTenthEvent,
    /// Delivers every tenth message of a watch twice.
    DoublesEveryTenthEvent,
    /// Delivers everything, whatever the limit.
    IgnoresLimit,
    /// Stores the message without its key.
    LosesTheKey,
    /// Takes a message that is one byte too large.
    TakesOneByteTooMany,
    /// Leaves out the fields that it does not know.
    DropsUnknownFields,
    /// Refuses a message because that of another thread was refused.
    RefusesTheNeighbour,
    /// Shows direct messages among the topics.
    ShowsMailAmongTopics,
    /// Compares times strictly.
    LosesTheSecondOfSince,
    /// Writes a record whatever the caller expects.
    IgnoresExpectations,
    /// Removes in a dry run too.
    RemovesInADryRun,
    /// Takes a prefix for the start of the text.
    ListsHalfSegments,
    /// Continues a cursor one message too late.
    CursorOneTooFar,
    /// Stores something when asked for its health.
    HealthWrites,
    /// Waits for ever in `close`.
    HangsInClose,
    /// Panics in `health`.
    PanicsInHealth,
}

pub struct Faulty {
    inner: MemoryStore,
    fault: Fault,
    asked: AtomicU64,
    /// The thread whose message was refused last.
    refused: Mutex<Option<ThreadId>>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Moves a cursor of the memory store, which ends in a number, one message on.
    async fn one_too_far(&self, cursor: Cursor) -> Result<Cursor> {
        let end = self.inner.scan(Query::default()).await?.cursor;
        let moved = cursor
            .as_str()
            .rsplit_once(':')
            .and_then(|(epoch, position)| Some(Cursor::new(format!("{epoch}:{}", position.parse::<u64>().ok()? + 1))));
        Ok(moved.filter(|_| cursor != end).unwrap_or(cursor))
    }
}

#[async_trait]
impl Store for Faulty {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "faulty".into(), max_message_bytes: LIMIT, ..self.inner.capabilities() }
    }

    async fn append(&self, mut draft: Draft) -> Result<Appended> {
        if self.has(Fault::LosesTheKey) {
            draft.key = None;
        }
        if self.has(Fault::DropsUnknownFields) {
            draft.extra.clear();
        }
        let this = std::thread::current().id();
        // Who is refused rightly does not use the mistake up.
        if self.has(Fault::RefusesTheNeighbour)
            && draft.body.to_string().len() < 1_000
            && self.refused.lock().unwrap().take_if(|other| *other != this).is_some()
        {
            return Err(Error::new(ErrorKind::TooLarge, "somebody else's message is too large"));
        }
        let appended = self.inner.append(draft).await;
        if appended.is_err() {
            *self.refused.lock().unwrap() = Some(this);
        }
        appended
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.inner.import(message).await
    }

    async fn scan(&self, mut query: Query) -> Result<Scan> {
        if self.has(Fault::IgnoresLimit) {
            query.limit = None;
        }
        if self.has(Fault::ShowsMailAmongTopics) && query.scope == Scope::Topics {
            query.scope = Scope::All;
        }
        match &mut query.since {
            Some(Since::Time(time)) if self.has(Fault::LosesTheSecondOfSince) => {
                *time = Timestamp::from_unix(time.unix_seconds() + 1, 0);
            }
            Some(Since::Cursor(cursor)) if self.has(Fault::CursorOneTooFar) => {
                *cursor = self.one_too_far(cursor.clone()).await?;
            }
            _ => {}
        }
        self.inner.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let fault = self.fault;
        let mut seen = 0;
        let stream = self.inner.watch(query, from).await?.flat_map(move |event| {
            let mut copies = 1;
            if matches!(&event, Ok(Event::Message(_))) {
                seen += 1;
                copies = match fault {
                    Fault::DropsEveryTenthEvent if seen % 10 == 0 => 0,
                    Fault::DoublesEveryTenthEvent if seen % 10 == 0 => 2,
                    _ => 1,
                };
            }
            stream::iter(vec![event; copies])
        });
        Ok(stream.boxed())
    }

    async fn remove(&self, mut selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        if self.has(Fault::RemovesInADryRun) {
            selection.dry_run = false;
        }
        self.inner.remove(selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.inner.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        let expect = if self.has(Fault::IgnoresExpectations) { Expect::Anything } else { expect };
        self.inner.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        if !self.has(Fault::ListsHalfSegments) {
            return self.inner.list(prefix).await;
        }
        let prefix = prefix.to_string();
        let all = self.inner.list("").await?;
        let starts = move |record: &Result<Record>| {
            ready(record.as_ref().is_ok_and(|record| record.key.as_str().starts_with(&prefix)))
        };
        Ok(all.filter(starts).boxed())
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.inner.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        assert!(!self.has(Fault::PanicsInHealth), "on purpose");
        if self.has(Fault::HealthWrites) {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            self.inner.put(&"leases".parse()?, Expect::Anything, asked.into(), false).await?;
        }
        self.inner.health().await
    }

    async fn close(&self) -> Result<()> {
        if self.has(Fault::HangsInClose) {
            std::future::pending::<()>().await;
        }
        self.inner.close().await
    }
}

/// A project in a faulty store.
pub struct Project(Arc<Faulty>);

impl Project {
    pub fn with(fault: Fault) -> Self {
        let limit = if fault == Fault::TakesOneByteTooMany { LIMIT + 1 } else { LIMIT };
        let inner = MemoryStore::new(limit, Arc::new(SystemClock));
        Project(Arc::new(Faulty { inner, fault, asked: AtomicU64::new(0), refused: Mutex::default() }))
    }
}

impl Subject for Project {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(self.0.clone())
    }
}
