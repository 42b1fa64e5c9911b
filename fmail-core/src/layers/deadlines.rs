//! A store that answers in time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, ErrorKind, EventStream, Expect, Health, Imported, Mailbox, Message,
    Quarantine, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store, Summary,
};
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use serde_json::Value;

use super::facet::facet_around;
use crate::timer::Sleep;

/// A store whose calls end in time, with their answer or with `timeout`.
///
/// The same time is given to each wait for the next item of a scan, a list or a removal; the time that the reader takes
/// between two items does not count. A watch may wait for ever: only opening it has a deadline. What a mailbox lists has to
/// be there whole in that time. A call that is over its time is dropped, which is how a store learns that nobody waits any more.
///
/// A call that is answered at once costs no timer.
pub struct Deadlines {
    inner: Arc<dyn Store>,
    name: String,
    limit: Duration,
}

impl Deadlines {
    /// The store around `inner`, which has `limit` for each answer.
    pub fn new(inner: Arc<dyn Store>, limit: Duration) -> Self {
        let name = inner.capabilities().name;
        Deadlines { inner, name, limit }
    }

    async fn within<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let mut call = pin!(call);
        let mut sleep = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = call.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            ready!(sleep.get_or_insert_with(|| Sleep::new(self.limit)).poll_unpin(context));
            Poll::Ready(Err(timeout(&self.name, operation, self.limit)))
        })
        .await
    }

    fn paced<T>(&self, operation: &'static str, items: Items<T>) -> Items<T>
    where
        T: Send + 'static,
    {
        Paced { items: Some(items), name: self.name.clone(), operation, limit: self.limit, sleep: None }.boxed()
    }
}

type Items<T> = BoxStream<'static, Result<T>>;

fn timeout(name: &str, operation: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("the store `{name}` did not answer `{operation}` within {limit:?}"))
        .help(format!("try again; if it persists, look at its log, or raise `timeout` in [mail.plugin.{name}]"))
}

/// A stream whose items come in time.
struct Paced<T> {
    /// Nothing once it has failed.
    items: Option<Items<T>>,
    name: String,
    operation: &'static str,
    limit: Duration,
    /// The wait for the next item, if one is under way.
    sleep: Option<Sleep>,
}

impl<T> Stream for Paced<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(items) = &mut this.items else { return Poll::Ready(None) };
        if let Poll::Ready(item) = items.poll_next_unpin(context) {
            this.sleep = None;
            return Poll::Ready(item);
        }
        ready!(this.sleep.get_or_insert_with(|| Sleep::new(this.limit)).poll_unpin(context));
        this.items = None;
        Poll::Ready(Some(Err(timeout(&this.name, this.operation, this.limit))))
    }
}

#[async_trait]
impl Store for Deadlines {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.within("append", self.inner.append(draft)).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.within("import", self.inner.import(message)).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let scan = self.within("scan", self.inner.scan(query)).await?;
        Ok(Scan { messages: self.paced("scan", scan.messages), ..scan })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.within("watch", self.inner.watch(query, from)).await
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        self.within("summary", self.inner.summary(query)).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        let removed = self.within("remove", self.inner.remove(selection)).await?;
        Ok(self.paced("remove", removed))
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.within("get", self.inner.get(key)).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.within("put", self.inner.put(key, expect, value, durable)).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let records = self.within("list", self.inner.list(prefix)).await?;
        Ok(self.paced("list", records))
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.within("delete", self.inner.delete(key, expect)).await
    }

    async fn health(&self) -> Result<Health> {
        self.within("health", self.inner.health()).await
    }

    async fn close(&self) -> Result<()> {
        self.within("close", self.inner.close()).await
    }

    fn quarantine(&self) -> Option<&dyn Quarantine> {
        self.inner.quarantine()
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.inner.mailbox().map(|_| self as &dyn Mailbox)
    }
}

facet_around!(Deadlines, within);
