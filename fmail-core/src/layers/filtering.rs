//! A store that evaluates whole queries.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Event, EventStream, Expect, Filters, Health, Imported, Mailbox, Message,
    MessageId, Order, Quarantine, Query, Record, RecordKey, Removed, Result, Revision, Scan, Scope, Selection, Since,
    Store, Summary, summarise,
};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use serde_json::Value;

use super::newest::{Collected, first, newest};

/// How many messages a watch passes over before it tells how far it is.
const GLANCE: usize = 1_024;

/// A store that evaluates the parts of a query that the store inside does not: scope, ids, sender, thread, times, order
/// and limit. What the inner one can do is left to it. Text is not looked at: searching does that for every store.
///
/// # What it costs
///
/// Everything that the inner store cannot leave out is read. Messages are passed on as they come, and none is kept,
/// except that
/// - with a limit as many as the limit are held in memory, since `more` is told before the first is delivered;
/// - a scan in the order of ids without a limit, over a store that has no order, holds every message that fits.
///
/// A page of no messages in order of arrival (`limit` 0) has no place to go on from: its cursor is the end.
pub struct Filtering {
    inner: Arc<dyn Store>,
    filters: Filters,
}

/// What is left of a query for this layer to evaluate.
struct Rest {
    query: Query,
    /// The store inside does not look at places.
    scope: bool,
    /// Only behind the message with this id, or with a higher one; and whether that message was passed.
    behind: Option<(MessageId, bool)>,
}

impl Rest {
    fn accepts(&mut self, message: &Message) -> bool {
        let arrived = match &mut self.behind {
            None => true,
            Some((id, passed)) => {
                let arrived = *passed || message.id > *id;
                *passed |= message.id == *id;
                arrived
            }
        };
        let in_scope = !self.scope || message.targets().iter().any(|target| self.query.scope.contains(target));
        arrived && in_scope && self.query.accepts(message)
    }

    fn passes(&mut self, event: &Result<Event>) -> bool {
        match event {
            Ok(Event::Message(delivery)) => self.accepts(&delivery.message),
            _ => true,
        }
    }
}

impl Filtering {
    /// The store around `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let filters = inner.capabilities().filters;
        Filtering { inner, filters }
    }

    /// Whether a condition of the query is not evaluated inside.
    fn lacks_condition(&self, query: &Query) -> bool {
        let Filters { scope, ids, from, thread, time, .. } = self.filters;
        let by_time = query.before.is_some() || matches!(query.since, Some(Since::Time(_) | Since::Id(_)));
        (!scope && query.scope != Scope::All)
            || (!ids && (!query.ids.is_empty() || query.id_suffix.is_some()))
            || (!from && query.from.is_some())
            || (!thread && query.thread.is_some())
            || (!time && by_time)
    }

    /// The id behind which messages are wanted, if that is not evaluated inside.
    fn behind(&self, query: &Query) -> Option<MessageId> {
        match query.since {
            Some(Since::Id(id)) if !self.filters.time => Some(id),
            _ => None,
        }
    }

    /// The conditions of the query that are evaluated inside, and no limit.
    fn inside(&self, query: &Query, order: Order) -> Query {
        let cursor = query.since.clone().filter(|since| matches!(since, Since::Cursor(_)));
        let bare = Query { since: cursor, text: query.text.clone(), order, ..Query::default() };
        // A message behind which others are wanted has to be seen, whatever else it is.
        if self.behind(query).is_some() {
            return bare;
        }
        let Filters { scope, ids, from, thread, time, .. } = self.filters;
        Query {
            scope: if scope { query.scope.clone() } else { Scope::All },
            ids: if ids { query.ids.clone() } else { Default::default() },
            id_suffix: query.id_suffix.clone().filter(|_| ids),
            from: query.from.clone().filter(|_| from),
            thread: query.thread.clone().filter(|_| thread),
            since: if time { query.since.clone() } else { bare.since },
            before: query.before.filter(|_| time),
            ..bare
        }
    }

    fn rest(&self, query: &Query, passed: bool) -> Rest {
        let behind = self.behind(query).map(|id| (id, passed));
        Rest { query: query.clone(), scope: !self.filters.scope || behind.is_some(), behind }
    }

    /// Whether a scan finds the message with this id.
    async fn holds(&self, query: Query, id: MessageId) -> Result<bool> {
        let mut messages = self.scan(Query { ids: [id].into(), ..query }).await?.messages;
        while let Some(event) = messages.next().await {
            if let Event::Message(_) = event? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Reads what the limit asks for, or all of it in the order of ids.
async fn collect(query: &Query, sort: bool, messages: EventStream) -> Result<Collected> {
    let limit = query.limit.unwrap_or(usize::MAX);
    if !sort {
        // In order of arrival the first are kept; otherwise they come from the newest down.
        let mut collected = first(messages, limit).await?;
        if query.order == Order::Ascending {
            collected.deliveries.reverse();
        }
        return Ok(collected);
    }
    let mut collected = newest(messages, limit).await?;
    if query.order == Order::Descending {
        collected.deliveries.reverse();
    }
    Ok(collected)
}

#[async_trait]
impl Store for Filtering {
    fn capabilities(&self) -> Capabilities {
        let capabilities = self.inner.capabilities();
        let filters = Filters { text: capabilities.filters.text, ..Filters::ALL };
        Capabilities { filters, ..capabilities }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.inner.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.inner.import(message).await
    }

    async fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        self.inner.import_many(messages).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let ordered = self.filters.order || query.order == Order::Arrival;
        let limited = self.filters.limit || query.limit.is_none();
        if ordered && limited && !self.lacks_condition(&query) {
            return self.inner.scan(query).await;
        }
        let sort = query.order != Order::Arrival && (!self.filters.order || self.behind(&query).is_some());
        let order = match query.order {
            _ if sort => Order::Arrival,
            // The newest are kept, so that they have to come first.
            Order::Ascending if query.limit.is_some() => Order::Descending,
            order => order,
        };
        let scan = self.inner.scan(self.inside(&query, order)).await?;
        let mut rest = self.rest(&query, false);
        let messages = scan.messages.filter(move |event| std::future::ready(rest.passes(event))).boxed();
        if !sort && query.limit.is_none() {
            return Ok(Scan { cursor: scan.cursor, more: false, messages });
        }
        let Collected { told, deliveries, more } = collect(&query, sort, messages).await?;
        let page_ends_early = more && query.order == Order::Arrival;
        let last = deliveries.last().map(|delivery| delivery.cursor.clone());
        let cursor = match (&query.since, last) {
            (_, Some(last)) if page_ends_early => last,
            (Some(Since::Cursor(start)), None) if page_ends_early => start.clone(),
            _ => scan.cursor,
        };
        let events = told.into_iter().chain(deliveries.into_iter().map(Event::Message)).map(Ok);
        Ok(Scan { cursor, more, messages: stream::iter(events.collect::<Vec<_>>()).boxed() })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        if !self.lacks_condition(&query) {
            return self.inner.watch(query, from).await;
        }
        let passed = match self.behind(&query) {
            None => false,
            // If the message came before the place from which is watched, everything comes behind it.
            Some(id) => {
                let ahead = Query { since: Some(Since::Cursor(from.clone())), ..Query::default() };
                !self.holds(ahead, id).await? && self.holds(Query::default(), id).await?
            }
        };
        let events = self.inner.watch(self.inside(&query, Order::default()), from).await?;
        Ok(Watching { events, rest: self.rest(&query, passed), over: 0, cursor: None }.boxed())
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        if query.limit.is_none() && !self.lacks_condition(&query) {
            return self.inner.summary(query).await;
        }
        let scope = query.scope.clone();
        summarise(&scope, self.scan(query).await?.messages).await
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

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    fn quarantine(&self) -> Option<&dyn Quarantine> {
        self.inner.quarantine()
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.inner.mailbox()
    }
}

/// A watch that passes over what does not fit, and tells how far it is before it waits.
struct Watching {
    events: EventStream,
    rest: Rest,
    /// How many were passed over since the last event, and where that ends.
    over: usize,
    cursor: Option<Cursor>,
}

impl Stream for Watching {
    type Item = Result<Event>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while this.over < GLANCE {
            match this.events.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(Event::Message(delivery)))) if !this.rest.accepts(&delivery.message) => {
                    this.over += 1;
                    this.cursor = Some(delivery.cursor.clone());
                }
                Poll::Ready(event) => {
                    // An event of the store's own says where it is, or does not matter for that.
                    if matches!(event, Some(Ok(Event::Message(_) | Event::Progress(_)))) {
                        (this.over, this.cursor) = (0, None);
                    }
                    return Poll::Ready(event);
                }
                Poll::Pending => break,
            }
        }
        this.over = 0;
        match this.cursor.take() {
            // The waker of a wait that was just begun is not lost: the next poll begins it again.
            Some(cursor) => Poll::Ready(Some(Ok(Event::Progress(cursor)))),
            None => Poll::Pending,
        }
    }
}
