//! A store that rebuilds its index at the worst moment: between telling a place and being asked to watch from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Client, Context, Cursor, Draft, Error, ErrorKind, Event, EventStream, Expect, Health,
    Imported, LogRequest, Message, Query, Record, RecordKey, Removed, Request, Result, Revision, Scan, Selection,
    SendRequest, Since, Store, WatchRequest,
};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_core::Operations;
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::BoxStream;
use serde_json::Value;

/// A store whose next watches find that their cursor has become unknown.
struct Rebuilding {
    inner: MemoryStore,
    left: AtomicU32,
}

#[async_trait]
impl Store for Rebuilding {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.inner.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.inner.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.inner.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let once_less = |left: u32| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, once_less).is_ok() {
            return Err(Error::new(ErrorKind::Expired, "the index was rebuilt"));
        }
        self.inner.watch(query, from).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.inner.remove(selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.inner.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.inner.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.inner.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }
}

/// The bodies that a request brings, one stored before the rebuild and one sent after it.
fn bodies(rebuilds: u32, request: Request) -> Result<Vec<Value>> {
    let clock = Arc::new(SystemClock);
    let inner = MemoryStore::new(10_000, clock.clone());
    let operations = Operations::new(Arc::new(Rebuilding { inner, left: AtomicU32::new(rebuilds) }), clock);
    let context = Context::local("alice".parse()?);
    let send = |body: &str| Request::Send(Box::new(SendRequest::new("task".parse().unwrap(), body)));
    block_on(async {
        operations.call(&context, send("stored")).await?;
        let events = operations.call(&context, request).await?.events.expect("a stream");
        operations.call(&context, send("arriving")).await?;
        let messages = events.filter_map(|event| async {
            match event {
                Ok(Event::Message(delivery)) => Some(delivery.message.body.clone()),
                _ => None,
            }
        });
        Ok(messages.take(2).collect().await)
    })
}

#[test]
fn a_watch_since_an_id_or_a_time_is_not_refused_because_the_index_was_rebuilt_meanwhile() {
    for since in ["20200101-000000-0000", "2020-01-01T00:00:00Z"] {
        let since = match since.parse() {
            Ok(id) => Since::Id(id),
            Err(_) => Since::Time(since.parse().unwrap()),
        };
        let watch = Request::Watch(WatchRequest { since: Some(since.clone()), ..WatchRequest::default() });
        assert_eq!(bodies(2, watch).unwrap(), ["stored", "arriving"]);
        let log = Request::Log(LogRequest { since: Some(since), follow: true, ..LogRequest::default() });
        assert_eq!(bodies(2, log).unwrap(), ["stored", "arriving"]);
    }
}

#[test]
fn a_store_that_never_settles_is_an_error_and_not_an_endless_loop() {
    let error = bodies(u32::MAX, Request::Watch(WatchRequest::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired);
}
