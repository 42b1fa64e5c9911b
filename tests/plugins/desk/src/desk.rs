//! The messages: those of a store in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fmail_backends::{MemoryStore, SystemClock};
use fmail_plugin::futures::stream::BoxStream;
use fmail_plugin::serde_json::Value;
use fmail_plugin::{
    AgentName, Appended, Capabilities, Cursor, Draft, EventStream, Expect, Health, Imported, MailState, Mailbox,
    Message, MessageId, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store, async_trait,
};

use crate::Fault;

/// A store in memory that keeps the states of mail beside its messages.
pub struct Desk {
    pub(crate) messages: MemoryStore,
    pub(crate) states: Mutex<BTreeMap<(AgentName, MessageId), MailState>>,
    pub(crate) clock: SystemClock,
    pub(crate) fault: Fault,
}

impl Desk {
    /// An empty desk.
    pub fn new(fault: Fault) -> Self {
        let messages = MemoryStore::new(1_048_576, Arc::new(SystemClock));
        Desk { messages, states: Mutex::default(), clock: SystemClock, fault }
    }
}

#[async_trait]
impl Store for Desk {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "desk".into(), ..self.messages.capabilities() }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.messages.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.messages.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.messages.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.messages.watch(query, from).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.messages.remove(selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.messages.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.messages.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.messages.list(prefix).await
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.messages.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        self.messages.health().await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }
}
