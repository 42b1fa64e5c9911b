//! What the cases share: ways to write messages and to read what a store delivers.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use fmail_api::{
    AgentName, Cursor, Delivery, Draft, ErrorKind, Event, EventStream, Message, MessageId, NoticeKind, Order, Query,
    Result, Store, Target, Timestamp,
};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::Value;

use crate::case::ensure;
use crate::{Failure, Verdict};

/// The names in cases are literals, so a wrong one is a defect of the suite.
pub fn agent(name: &str) -> AgentName {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

thread_local! {
    /// The store under test knows no topics.
    static DIRECT_ONLY: Cell<bool> = const { Cell::new(false) };
}

/// Says for this thread whether the store under test knows topics.
pub fn use_topics(topics: bool) {
    DIRECT_ONLY.set(!topics);
}

/// Whether the store under test knows topics.
pub fn with_topics() -> bool {
    !DIRECT_ONLY.get()
}

/// A topic, or a mailbox with `@`. On a store without topics it is a mailbox of that name in either case: most promises
/// are the same for both.
pub fn target(name: &str) -> Target {
    let mailbox = (!with_topics() && !name.starts_with('@')).then(|| format!("@{name}"));
    mailbox.as_deref().unwrap_or(name).parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A message without anything special.
pub fn draft(to: &str, body: impl Into<Value>) -> Draft {
    Draft::new(agent("alice"), target(to), body)
}

/// Appends and gives the message as it is stored.
pub fn append(store: &dyn Store, draft: Draft) -> Verdict<Arc<Message>> {
    let appended = block_on(store.append(draft))?;
    ensure!(!appended.duplicate, "an append without a known key says that it is a duplicate");
    ensure!(appended.not_durable.is_none(), "the append could not be made durable: {:?}", appended.not_durable);
    Ok(appended.message)
}

/// Appends `count` messages to `to`, one behind the other.
pub fn append_many(store: &dyn Store, to: &str, count: usize) -> Verdict<Vec<Arc<Message>>> {
    (0..count).map(|number| append(store, draft(to, number as u64))).collect()
}

/// The time of day, in whole seconds.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix(elapsed.as_secs() as i64, 0)
}

/// A message of another store, sent at `time` under the `tick`-th id of that second.
pub fn foreign(to: &str, time: Timestamp, tick: u64, body: impl Into<Value>) -> Message {
    let id = MessageId::from_ticks(MessageId::at(time).ticks() + tick);
    draft(to, body).into_message(id.unwrap_or(MessageId::MAX), time)
}

/// What one scan answered.
pub struct Page {
    pub cursor: Cursor,
    pub more: bool,
    pub deliveries: Vec<Delivery>,
}

impl Page {
    pub fn ids(&self) -> Vec<MessageId> {
        self.deliveries.iter().map(|delivery| delivery.message.id).collect()
    }
}

/// Scans, and reads all of it.
pub fn scan(store: &dyn Store, query: Query) -> Verdict<Page> {
    block_on(async {
        let mut scan = store.scan(query).await?;
        let mut deliveries = Vec::new();
        while let Some(event) = scan.messages.next().await {
            deliveries.extend(message_of(event)?);
        }
        Ok(Page { cursor: scan.cursor, more: scan.more, deliveries })
    })
}

/// The ids that a scan delivers, in its order.
pub fn scan_ids(store: &dyn Store, query: Query) -> Verdict<Vec<MessageId>> {
    Ok(scan(store, query)?.ids())
}

/// The one message with this id. Looks through everything, so that a store without the filter can be asked too.
pub fn find(store: &dyn Store, id: MessageId) -> Verdict<Arc<Message>> {
    let mut found = scan(store, Query::default())?.deliveries;
    found.retain(|delivery| delivery.message.id == id);
    match &found[..] {
        [delivery] => Ok(delivery.message.clone()),
        found => Err(Failure::new(format!("a scan finds the id {id} {} times instead of once", found.len()))),
    }
}

/// How many messages there are.
pub fn count(store: &dyn Store) -> Verdict<usize> {
    Ok(scan(store, Query::default())?.deliveries.len())
}

/// Where everything that is stored now ends.
pub fn end(store: &dyn Store) -> Verdict<Cursor> {
    Ok(block_on(store.scan(Query::default()))?.cursor)
}

/// Everything, as it came in.
pub fn arrivals() -> Query {
    Query { order: Order::Arrival, ..Query::default() }
}

/// The message of an event, if it carries one. A store has no reason to find its own messages broken.
pub fn message_of(event: Result<Event>) -> Verdict<Option<Delivery>> {
    match event? {
        Event::Message(delivery) => Ok(Some(delivery)),
        Event::Notice(notice) if matches!(notice.kind, NoticeKind::Broken | NoticeKind::Mismatch) => {
            Err(Failure::new(format!("the store finds its own message broken: {}", notice.text)))
        }
        _ => Ok(None),
    }
}

/// Watches from a cursor.
pub fn watch(store: &dyn Store, query: Query, from: &Cursor) -> Verdict<EventStream> {
    Ok(block_on(store.watch(query, from.clone()))?)
}

/// The next message of a watch; waits for it.
pub fn next(watch: &mut EventStream) -> Verdict<Delivery> {
    loop {
        match block_on(watch.next()) {
            Some(event) => {
                if let Some(delivery) = message_of(event)? {
                    return Ok(delivery);
                }
            }
            None => return Err(Failure::new("the watch ended by itself")),
        }
    }
}

/// The next `count` messages of a watch.
pub fn next_many(watch: &mut EventStream, count: usize) -> Verdict<Vec<Delivery>> {
    (0..count).map(|_| next(watch)).collect()
}

/// Everything that a watch delivers before the message whose body is `last`.
///
/// An end that can be seen is what makes a lost message a difference between two lists instead of a reader that waits.
pub fn until(watch: &mut EventStream, last: &str) -> Verdict<Vec<Delivery>> {
    let mut deliveries = Vec::new();
    loop {
        let delivery = next(watch)?;
        if delivery.message.body == *last {
            return Ok(deliveries);
        }
        deliveries.push(delivery);
    }
}

/// The ids of deliveries, in their order.
pub fn ids_of(deliveries: &[Delivery]) -> Vec<MessageId> {
    deliveries.iter().map(|delivery| delivery.message.id).collect()
}

/// The ids of messages, in their order.
pub fn ids(messages: &[Arc<Message>]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

/// Fails when an id stands twice in the list.
pub fn distinct(ids: &[MessageId], what: &str) -> Verdict<BTreeSet<MessageId>> {
    let set: BTreeSet<_> = ids.iter().copied().collect();
    ensure!(set.len() == ids.len(), "{what}: {} ids, only {} of them distinct", ids.len(), set.len());
    Ok(set)
}

/// Fails unless the ids ascend.
pub fn ascending(ids: &[MessageId], what: &str) -> Verdict {
    for pair in ids.windows(2) {
        ensure!(pair[0] < pair[1], "{what}: {} comes right before {}", pair[0], pair[1]);
    }
    Ok(())
}

/// Fails unless the result is an error of this kind.
pub fn refused<T>(result: Result<T>, kind: ErrorKind, what: &str) -> Verdict {
    match result {
        Ok(_) => Err(Failure::new(format!("{what} succeeds, it should be `{kind}`"))),
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(Failure::new(format!("{what} is `{}`, it should be `{kind}`: {error}", error.kind()))),
    }
}

/// Runs `work` on `count` threads that start together, each with its number, and gives what each returned.
pub fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> Verdict<T> + Sync) -> Verdict<Vec<T>> {
    let (work, start, topics) = (&work, &Barrier::new(count), with_topics());
    thread::scope(|scope| {
        let runner = |number| {
            move || {
                use_topics(topics);
                start.wait();
                work(number)
            }
        };
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(runner(number))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a thread of the case panicked"))))
            .collect()
    })
}
