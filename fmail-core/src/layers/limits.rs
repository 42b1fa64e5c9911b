//! A store that is not asked for more than it can take.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, ErrorKind, EventStream, Expect, Health, Imported, Mailbox, Message,
    MessageId, Quarantine, Query, Record, RecordKey, RefusedReason, Removed, Result, Revision, Scan, Selection, Store,
    Summary, Timestamp, check_size,
};
use futures::channel::oneshot;
use futures::stream::BoxStream;
use serde_json::Value;

use super::facet::facet_around;

/// A store that sees no message over its limit (A6), and only so many calls at once.
///
/// Who comes when that many are under way waits, and is let in in the order of coming; when too many wait already, it is
/// `backpressure`. A stream counts as a call while it is opened, not while it is read: a reader takes its time.
pub struct Limits {
    inner: Arc<dyn Store>,
    name: String,
    max_message_bytes: usize,
    gate: Arc<Gate>,
}

impl Limits {
    /// The store around `inner`, which sees `max_calls` calls at once while up to `max_waiting` wait.
    pub fn new(inner: Arc<dyn Store>, max_calls: usize, max_waiting: usize) -> Self {
        let Capabilities { name, max_message_bytes, .. } = inner.capabilities();
        let gate = Gate { max_waiting, queue: Mutex::new(Queue { free: max_calls.max(1), waiting: VecDeque::new() }) };
        Limits { inner, name, max_message_bytes, gate: Arc::new(gate) }
    }

    /// How many wait, and how many could come in.
    #[cfg(test)]
    pub(super) fn load(&self) -> (usize, usize) {
        let queue = self.gate.lock();
        (queue.waiting.len(), queue.free)
    }

    async fn turn(&self) -> Result<Turn> {
        self.gate.turn().await.map_err(|error| error.context("store", &self.name))
    }

    async fn in_turn<T>(&self, _: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let _turn = self.turn().await?;
        call.await
    }
}

/// Lets so many in at once.
struct Gate {
    max_waiting: usize,
    queue: Mutex<Queue>,
}

struct Queue {
    free: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The right to call the store; given back when it is dropped, unless it is empty.
struct Turn(Option<Arc<Gate>>);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn turn(self: &Arc<Self>) -> Result<Turn> {
        let waiting = {
            let mut queue = self.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return Ok(Turn(Some(self.clone())));
            }
            // Those who gave up do not count.
            queue.waiting.retain(|one| !one.is_canceled());
            if queue.waiting.len() >= self.max_waiting {
                let what = format!("{} calls are waiting for the store already", queue.waiting.len());
                return Err(Error::new(ErrorKind::Backpressure, what).help("try again later"));
            }
            let (sender, receiver) = oneshot::channel();
            queue.waiting.push_back(sender);
            receiver
        };
        waiting.await.map_err(|_| Error::internal("a call that waited for its turn was forgotten"))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut gate) = self.0.take() else { return };
        loop {
            let next = {
                let mut queue = gate.lock();
                let next = queue.waiting.pop_front();
                queue.free += usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            // Who gave up leaves the turn to the next in line.
            let Err(mut refused) = next.send(Turn(Some(gate))) else { return };
            let Some(back) = refused.0.take() else { return };
            gate = back;
        }
    }
}

#[async_trait]
impl Store for Limits {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        // Every id and every time in whole seconds is as long as these.
        let message = draft.clone().into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        check_size(&message, self.max_message_bytes)?;
        let _turn = self.turn().await?;
        self.inner.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        if check_size(&message, self.max_message_bytes).is_err() {
            return Ok(Imported::Refused(RefusedReason::TooLarge));
        }
        let _turn = self.turn().await?;
        self.inner.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let _turn = self.turn().await?;
        self.inner.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let _turn = self.turn().await?;
        self.inner.watch(query, from).await
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        let _turn = self.turn().await?;
        self.inner.summary(query).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        let _turn = self.turn().await?;
        self.inner.remove(selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        let _turn = self.turn().await?;
        self.inner.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        let _turn = self.turn().await?;
        self.inner.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let _turn = self.turn().await?;
        self.inner.list(prefix).await
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        let _turn = self.turn().await?;
        self.inner.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        let _turn = self.turn().await?;
        self.inner.health().await
    }

    /// Waits for no turn: a store that hangs can still be closed.
    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    fn quarantine(&self) -> Option<&dyn Quarantine> {
        self.inner.quarantine()
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.inner.mailbox().map(|_| self as &dyn Mailbox)
    }
}

facet_around!(Limits, in_turn);
