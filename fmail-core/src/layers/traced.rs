//! A store whose calls can be followed in the log.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, EventStream, Expect, Health, Imported, Mailbox, Message, Quarantine,
    Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store, Summary,
};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::BoxStream;
use serde_json::Value;
use tracing::{Instrument, Level, debug, debug_span};

use super::facet::facet_around;

/// The target under which calls are told.
const TARGET: &str = "fmail::store";

/// A store that tells of each call: which store, which operation, how long it took and what became of it.
///
/// A call is a span at the level `debug` with one event at its end, both under the target `fmail::store`; a stream has a
/// further event when it ends or is dropped. Where nobody listens nothing is made, not even the time is asked for.
pub struct Traced {
    inner: Arc<dyn Store>,
    name: String,
}

impl Traced {
    /// The store around `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let name = inner.capabilities().name;
        Traced { inner, name }
    }

    async fn call<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        if !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return call.await;
        }
        let span = debug_span!(target: TARGET, "store", store = %self.name, operation);
        let start = Instant::now();
        let answer = call.instrument(span.clone()).await;
        let micros = start.elapsed().as_micros() as u64;
        span.in_scope(|| match &answer {
            Ok(_) => debug!(target: TARGET, store = %self.name, operation, micros, outcome = "ok"),
            Err(error) => {
                debug!(target: TARGET, store = %self.name, operation, micros, outcome = error.kind().code(), %error);
            }
        });
        answer
    }

    fn stream<T>(&self, operation: &'static str, items: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>>
    where
        T: Send + 'static,
    {
        if !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return items;
        }
        let mut told = Told { name: self.name.clone(), operation, start: Instant::now(), items: 0, outcome: "dropped" };
        let end = futures::stream::once(async { None });
        let items = items.map(Some).chain(end).filter_map(move |item| {
            told.note(item.as_ref().map(|item| item.as_ref().err()));
            std::future::ready(item)
        });
        items.boxed()
    }
}

/// Tells of a stream when it is gone.
struct Told {
    name: String,
    operation: &'static str,
    start: Instant,
    items: u64,
    outcome: &'static str,
}

impl Told {
    /// Notes an item, which may be an error, or the end.
    fn note(&mut self, item: Option<Option<&Error>>) {
        match item {
            Some(None) => self.items += 1,
            Some(Some(error)) => self.outcome = error.kind().code(),
            None if self.outcome == "dropped" => self.outcome = "ok",
            None => {}
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let micros = self.start.elapsed().as_micros() as u64;
        let (operation, items, outcome) = (self.operation, self.items, self.outcome);
        debug!(target: TARGET, store = %self.name, operation, items, micros, outcome, "stream");
    }
}

#[async_trait]
impl Store for Traced {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.call("append", self.inner.append(draft)).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.call("import", self.inner.import(message)).await
    }

    /// Told one by one, since each has its own outcome.
    async fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        if !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return self.inner.import_many(messages).await;
        }
        join_all(messages.into_iter().map(|message| self.import(message))).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let scan = self.call("scan", self.inner.scan(query)).await?;
        Ok(Scan { messages: self.stream("scan", scan.messages), ..scan })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let events = self.call("watch", self.inner.watch(query, from)).await?;
        Ok(self.stream("watch", events))
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        self.call("summary", self.inner.summary(query)).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        let removed = self.call("remove", self.inner.remove(selection)).await?;
        Ok(self.stream("remove", removed))
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.call("get", self.inner.get(key)).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.call("put", self.inner.put(key, expect, value, durable)).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let records = self.call("list", self.inner.list(prefix)).await?;
        Ok(self.stream("list", records))
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.call("delete", self.inner.delete(key, expect)).await
    }

    async fn health(&self) -> Result<Health> {
        self.call("health", self.inner.health()).await
    }

    async fn close(&self) -> Result<()> {
        self.call("close", self.inner.close()).await
    }

    fn quarantine(&self) -> Option<&dyn Quarantine> {
        self.inner.quarantine()
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.inner.mailbox().map(|_| self as &dyn Mailbox)
    }
}

facet_around!(Traced, call);
