//! A store that fails on demand: at one of its answers, or from one of them on, as if the process had died there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, ErrorKind, EventStream, Expect, Health, Imported, Message, Query,
    Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store, Summary,
};
use fmail_backends::MemoryStore;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;

/// Which answers are failures. The first answer is number 0.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fails {
    /// None.
    Never,
    /// This one.
    At(usize),
    /// This one and all behind it.
    From(usize),
}

/// A store in memory that fails on demand. Every call is an answer, and so is the end of every stream.
pub(crate) struct Failing {
    inner: Arc<MemoryStore>,
    fails: Fails,
    answers: Arc<AtomicUsize>,
}

impl Failing {
    pub(crate) fn new(inner: Arc<MemoryStore>, fails: Fails) -> Self {
        Failing { inner, fails, answers: Arc::default() }
    }

    /// How many answers there were so far.
    pub(crate) fn answers(&self) -> Arc<AtomicUsize> {
        self.answers.clone()
    }

    fn step(&self) -> Result<()> {
        answer(self.fails, &self.answers)
    }

    fn ended<T: Send + 'static>(&self, items: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
        let (fails, answers) = (self.fails, self.answers.clone());
        let end = stream::once(async move { answer(fails, &answers) });
        items.chain(end.filter_map(|end| async { end.err().map(Err) })).boxed()
    }
}

fn answer(fails: Fails, answers: &AtomicUsize) -> Result<()> {
    let number = answers.fetch_add(1, Ordering::SeqCst);
    let failed = match fails {
        Fails::Never => false,
        Fails::At(at) => number == at,
        Fails::From(from) => number >= from,
    };
    if failed { Err(Error::new(ErrorKind::Unavailable, format!("answer {number} failed on purpose"))) } else { Ok(()) }
}

#[async_trait]
impl Store for Failing {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.step()?;
        self.inner.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.step()?;
        self.inner.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.step()?;
        let scan = self.inner.scan(query).await?;
        Ok(Scan { messages: self.ended(scan.messages), ..scan })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.step()?;
        self.inner.watch(query, from).await
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        self.step()?;
        self.inner.summary(query).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.step()?;
        Ok(self.ended(self.inner.remove(selection).await?))
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.step()?;
        self.inner.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.step()?;
        self.inner.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.step()?;
        Ok(self.ended(self.inner.list(prefix).await?))
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.step()?;
        self.inner.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        self.step()?;
        self.inner.health().await
    }
}
