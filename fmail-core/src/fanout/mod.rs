//! One watch of the store for any number of watchers.
//!
//! A store may do its work in the thread that polls it, and each of its watches looks at the store again whenever
//! anything arrives. That is right for a command with one watch. A daemon has hundreds, and threads that must not wait
//! for a disk. [`Fanout`] is a store around a store for that case: a single watch, on a thread of its own, reads
//! everything that arrives, and gives the same message to all who watch; what is read from the past is read by
//! the threads that the daemon has for waiting.

mod hub;
mod pulled;
mod ring;

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, ErrorKind, Event, EventStream, Expect, Health, Identity, Imported,
    Mailbox, Message, Order, Quarantine, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Since,
    Store, Summary,
};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use serde_json::Value;

use hub::Hub;
use pulled::pulled;
use ring::RingReader;

/// Runs work that may wait for a disk, on a thread that may wait.
pub type Blocking = Arc<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// Between asking for a place and watching from it no more than this can have arrived.
const MAX_GAP: usize = 4096;

/// A store whose watches share one watch of the store inside, and whose streams never block who polls them.
pub struct Fanout {
    inner: Arc<dyn Store>,
    blocking: Blocking,
    hub: Mutex<Option<Arc<Hub>>>,
}

impl Fanout {
    /// The store around `inner`; `blocking` runs what may wait.
    pub fn new(inner: Arc<dyn Store>, blocking: Blocking) -> Self {
        Fanout { inner, blocking, hub: Mutex::default() }
    }

    /// The hub, started with the first watch, and again after its watch ended with an error.
    async fn hub(&self) -> Result<Arc<Hub>> {
        let running = || self.hub.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|hub| hub.is_running());
        if let Some(hub) = running() {
            return Ok(hub);
        }
        let end = Query { order: Order::Descending, limit: Some(0), ..Query::default() };
        let from = self.inner.scan(end).await?.cursor;
        let started = Hub::start(self.inner.watch(Query::default(), from).await?)?;
        let mut place = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two that started at once, one stays; the other ends when its last handle goes.
        match &*place {
            Some(hub) if hub.is_running() => Ok(hub.clone()),
            _ => Ok(place.insert(started).clone()),
        }
    }

    /// Joins the shared watch without gap or overlap: take a place in it, read what arrived between `from` and that
    /// place, and leave out what both have.
    async fn join(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let hub = self.hub().await?;
        let reader = hub.reader().await?;
        let since = Some(Since::Cursor(from));
        let gap_query = Query { since, limit: Some(MAX_GAP), order: Order::Arrival, ..query.clone() };
        let scan = self.inner.scan(gap_query).await?;
        if scan.more {
            return Err(Error::new(ErrorKind::Backpressure, "too much has arrived since the place to watch from")
                .help("connect again with `since` set to the last message that was seen"));
        }
        let (mut gap, mut known) = (Vec::new(), HashSet::new());
        let mut messages = scan.messages;
        while let Some(event) = messages.next().await {
            match event {
                Ok(Event::Message(delivery)) => {
                    known.insert(delivery.message.identity());
                    if query.accepts(&delivery.message) {
                        gap.push(Ok(Event::Message(delivery)));
                    }
                }
                other => gap.push(other),
            }
        }
        let until = if known.is_empty() { 0 } else { hub.sync().await? };
        let live = Live { _hub: hub, reader, query, known, until, ended: false };
        Ok(stream::iter(gap).chain(live).boxed())
    }
}

/// How many bytes of messages an event holds on to. Its text is made here and kept: whoever gets the event needs it.
fn weigh(event: &Event) -> usize {
    match event {
        Event::Message(delivery) => delivery.line().len(),
        _ => 0,
    }
}

/// The live part of a watch.
struct Live {
    /// The watch goes on as long as somebody reads, also when the store's handle is gone.
    _hub: Arc<Hub>,
    reader: RingReader,
    query: Query,
    /// What was delivered from the gap. Only events below `until` can be among it.
    known: HashSet<Identity>,
    until: u64,
    ended: bool,
}

/// What a watcher wants of the ring.
struct Wanted<'a> {
    query: &'a Query,
    known: &'a mut HashSet<Identity>,
    until: u64,
}

impl Wanted<'_> {
    fn has(&mut self, number: u64, event: &Event) -> bool {
        if number >= self.until && !self.known.is_empty() {
            *self.known = HashSet::new();
        }
        match event {
            Event::Message(delivery) => {
                (self.known.is_empty() || !self.known.contains(&delivery.message.identity()))
                    && delivery.message.stands_in(&self.query.scope)
                    && self.query.accepts(&delivery.message)
            }
            _ => true,
        }
    }
}

impl Stream for Live {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Live { reader, query, known, until, ended, .. } = &mut *self;
        if *ended {
            return Poll::Ready(None);
        }
        let mut wanted = Wanted { query, known, until: *until };
        let event = ready!(reader.poll(context.waker(), |number, event| wanted.has(number, event)));
        *ended = event.is_err();
        Poll::Ready(Some(event))
    }
}

#[async_trait]
impl Store for Fanout {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.inner.append(draft).await
    }

    async fn append_many(&self, drafts: Vec<Draft>) -> Vec<Result<Appended>> {
        self.inner.append_many(drafts).await
    }

    fn appends_together(&self) -> usize {
        self.inner.appends_together()
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.inner.import(message).await
    }

    async fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        self.inner.import_many(messages).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let scan = self.inner.scan(query).await?;
        Ok(Scan { messages: pulled(scan.messages, self.blocking.clone(), weigh), ..scan })
    }

    /// A watch from another place than the end, or one that asks for more than what arrives, is the store's own.
    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        match query.since {
            None | Some(Since::Time(_)) => self.join(Query { limit: None, ..query }, from).await,
            Some(Since::Id(_) | Since::Cursor(_)) => self.inner.watch(query, from).await,
        }
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        self.inner.summary(query).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        Ok(pulled(self.inner.remove(selection).await?, self.blocking.clone(), |_| 0))
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

    async fn close(&self) -> Result<()> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.inner.close().await
    }

    fn quarantine(&self) -> Option<&dyn Quarantine> {
        self.inner.quarantine()
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.inner.mailbox()
    }
}
