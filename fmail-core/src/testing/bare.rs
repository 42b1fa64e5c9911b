//! A store that evaluates only some parts of a query, and goes wrong on demand.

use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{
    AgentName, Appended, Capabilities, Cursor, Draft, EventStream, Expect, Filters, Folder, Health, Imported, Mail,
    MailCount, MailState, Mailbox, Mark, Message, MessageId, Order, Query, Record, RecordKey, Removed, Result,
    Revision, Scan, Scope, Selection, Since, Store, Timestamp,
};
use fmail_backends::MemoryStore;
use futures::StreamExt;
use futures::future::pending;
use futures::stream::{self, BoxStream};
use serde_json::Value;

/// In which way a store goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(dead_code, reason = "the conformance tests use the store as it should be")]
pub enum Twist {
    /// It does what it should.
    Straight,
    /// It never answers.
    Hangs,
    /// Its streams deliver one item and no further one.
    Stalls,
    /// It can neither import nor remove, and says so.
    Incapable,
    /// It answers an append with the message of another.
    OtherMessage,
    /// It calls everything a duplicate.
    Duplicates,
    /// It claims to evaluate everything and evaluates nothing.
    Boasts,
    /// It gives another record than the one asked for, and lists them all.
    OtherRecord,
    /// Its mailbox never answers.
    HangingMail,
    /// Its mailbox gives other mail than what was asked for.
    OtherMail,
}

/// A store in memory of which some parts are hidden.
pub struct Bare {
    inner: Arc<MemoryStore>,
    filters: Filters,
    pub twist: Twist,
}

impl Bare {
    pub fn new(inner: Arc<MemoryStore>, filters: Filters) -> Self {
        Bare { inner, filters, twist: Twist::Straight }
    }

    /// The query with everything left out that this store does not look at.
    fn seen(&self, query: Query) -> Query {
        let Filters { scope, ids, from, thread, time, limit, order, .. } = self.filters;
        let cursor = query.since.clone().filter(|since| time || matches!(since, Since::Cursor(_)));
        Query {
            scope: if scope { query.scope } else { Scope::All },
            ids: if ids { query.ids } else { Default::default() },
            id_suffix: query.id_suffix.filter(|_| ids),
            from: query.from.filter(|_| from),
            thread: query.thread.filter(|_| thread),
            since: cursor,
            before: query.before.filter(|_| time),
            text: None,
            limit: query.limit.filter(|_| limit),
            order: if order { query.order } else { Order::Arrival },
        }
    }

    async fn answer(&self) {
        if self.twist == Twist::Hangs {
            pending::<()>().await;
        }
    }

    fn items<T: Send + 'static>(&self, items: BoxStream<'static, T>) -> BoxStream<'static, T> {
        if self.twist == Twist::Stalls { items.take(1).chain(stream::pending()).boxed() } else { items }
    }
}

#[async_trait]
impl Store for Bare {
    fn capabilities(&self) -> Capabilities {
        let able = self.twist != Twist::Incapable;
        let filters = if self.twist == Twist::Boasts { Filters::ALL } else { self.filters };
        let inner = self.inner.capabilities();
        Capabilities { name: "bare".into(), import: able, remove: able, topics: able, filters, ..inner }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.answer().await;
        let draft = match self.twist {
            Twist::OtherMessage => Draft { from: "mallory".parse()?, ..draft },
            _ => draft,
        };
        let appended = self.inner.append(draft).await?;
        Ok(Appended { duplicate: appended.duplicate || self.twist == Twist::Duplicates, ..appended })
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.answer().await;
        self.inner.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.answer().await;
        let scan = self.inner.scan(self.seen(query)).await?;
        Ok(Scan { messages: self.items(scan.messages), ..scan })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.answer().await;
        self.inner.watch(self.seen(query), from).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.answer().await;
        Ok(self.items(self.inner.remove(selection).await?))
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.answer().await;
        let found = self.inner.get(key).await?;
        Ok(match self.twist {
            Twist::OtherRecord => {
                Some(Record { key: "other".parse()?, revision: Revision::new("r"), value: Value::Null })
            }
            _ => found,
        })
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.answer().await;
        self.inner.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.answer().await;
        let prefix = if self.twist == Twist::OtherRecord { "" } else { prefix };
        Ok(self.items(self.inner.list(prefix).await?))
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.answer().await;
        self.inner.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        self.answer().await;
        self.inner.health().await
    }

    async fn close(&self) -> Result<()> {
        self.answer().await;
        self.inner.close().await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        matches!(self.twist, Twist::HangingMail | Twist::OtherMail).then_some(self)
    }
}

impl Bare {
    /// Unread mail under an id that nobody asks for.
    async fn other_mail(&self) -> Result<Mail> {
        if self.twist == Twist::HangingMail {
            pending::<()>().await;
        }
        let draft = Draft::new("alice".parse()?, "@bob".parse()?, "x");
        let message = Arc::new(draft.into_message(MessageId::MIN, Timestamp::from_unix(0, 0)));
        Ok(Mail { message, state: MailState::default(), standing: None })
    }
}

#[async_trait]
impl Mailbox for Bare {
    async fn inbox(&self, _: &AgentName, _: Folder) -> Result<Vec<Mail>> {
        Ok(vec![self.other_mail().await?, self.other_mail().await?])
    }

    async fn peek(&self, _: &AgentName, _: MessageId) -> Result<Mail> {
        self.other_mail().await
    }

    async fn read(&self, _: &AgentName, _: MessageId) -> Result<Mail> {
        self.other_mail().await
    }

    async fn mark(&self, _: &AgentName, _: MessageId, _: Mark) -> Result<bool> {
        self.other_mail().await.map(|_| true)
    }

    async fn count(&self, _: &AgentName) -> Result<MailCount> {
        self.other_mail().await.map(|_| MailCount { total: 1, unread: 2, ..MailCount::default() })
    }

    async fn thread(&self, _: &AgentName, _: &str) -> Result<Vec<Mail>> {
        Ok(vec![self.other_mail().await?, self.other_mail().await?])
    }
}
