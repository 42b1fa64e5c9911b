//! Records for a store that has none.
//!
//! Some backends keep messages and nothing else: a directory of chat files, a mail script. fmail needs records - agents,
//! leases, what was read - and message ids of its own form. [`Sidecar`] keeps the records in a second store beside the
//! first, such as a files store in the plugin's data directory, and [`IdMap`] the ids.
//!
//! The second store is the truth for records, as they exist nowhere else. For ids it is a cache: the id of a message
//! follows from the name that the backend gives it and from its time, so that a map that was lost is made again with the
//! same ids.

mod ids;

use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, Event, EventStream, Expect, Health, Imported, Mailbox, Message,
    Order, Quarantine, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store, Summary,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;

pub use ids::IdMap;

/// The field of a message in which a backend tells by what name it knows the message itself.
pub const FOREIGN_ID: &str = "foreign_id";

/// Where the map of ids is kept. These records are the sidecar's own and are not shown.
const OWN: &str = "sidecar";

/// A store of messages with the records of another.
pub struct Sidecar {
    messages: Arc<dyn Store>,
    records: Arc<dyn Store>,
    ids: IdMap,
}

impl Sidecar {
    /// The messages of one store, with records kept in another.
    pub fn new(messages: Arc<dyn Store>, records: Arc<dyn Store>) -> Self {
        Sidecar { messages, ids: IdMap::new(records.clone()), records }
    }

    /// The map between the backend's ids and fmail's.
    pub fn ids(&self) -> &IdMap {
        &self.ids
    }

    /// Makes the map of ids again from the messages that say by what name the backend knows them ([`FOREIGN_ID`]), in
    /// the order of their arrival. Gives their number.
    ///
    /// A message whose name leads to another id than the one it has is `corrupt`: its backend has changed its name or
    /// its time.
    pub async fn rebuild(&self) -> Result<u64> {
        let query = Query { order: Order::Arrival, ..Query::default() };
        let mut events = self.messages.scan(query).await?.messages;
        let mut count = 0;
        while let Some(event) = events.next().await {
            let Event::Message(delivery) = event? else { continue };
            let message = &delivery.message;
            if let Some(foreign) = message.extra.get(FOREIGN_ID).and_then(Value::as_str) {
                self.ids.note(foreign, message.id).await?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Refuses the keys that are the sidecar's own.
    fn check(&self, key: &RecordKey) -> Result<()> {
        if key.is_under(OWN) {
            return Err(Error::invalid(format!("the record `{key}` is kept for the map of ids"))
                .help(format!("records under `{OWN}` cannot be read or written")));
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Sidecar {
    /// Those of the messages' store. What survives a kill, and what other processes see, is what both can.
    fn capabilities(&self) -> Capabilities {
        let (messages, records) = (self.messages.capabilities(), self.records.capabilities());
        let (shared, durable) = (messages.shared && records.shared, messages.durable && records.durable);
        Capabilities { shared, durable, ..messages }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.messages.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.messages.import(message).await
    }

    async fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        self.messages.import_many(messages).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.messages.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.messages.watch(query, from).await
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        self.messages.summary(query).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.messages.remove(selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.check(key)?;
        self.records.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.check(key)?;
        self.records.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let records = self.records.list(prefix).await?;
        let shown = |record: &Result<Record>| !record.as_ref().is_ok_and(|record| record.key.is_under(OWN));
        Ok(records.filter(move |record| std::future::ready(shown(record))).boxed())
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.check(key)?;
        self.records.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        let (messages, records) = (self.messages.health().await?, self.records.health().await?);
        let detail = format!("{}; records: {}", messages.detail, records.detail);
        Ok(Health { writable: messages.writable && records.writable, detail })
    }

    /// Closes both, also when the first fails.
    async fn close(&self) -> Result<()> {
        let messages = self.messages.close().await;
        self.records.close().await.and(messages)
    }

    fn quarantine(&self) -> Option<&dyn Quarantine> {
        self.messages.quarantine()
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.messages.mailbox()
    }
}

#[cfg(test)]
mod tests;
