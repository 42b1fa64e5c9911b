//! A plugin of the whole contract, as a store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::verbs::{
    AppendAnswer, DeleteVerb, GetAnswer, GetVerb, ListItem, ListVerb, PutAnswer, PutVerb, ScanHead, WatchVerb, decode,
    encode, event_from_json, method,
};
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, Event, EventStream, Expect, Filters, Health, Imported, Mailbox,
    Message, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store, Summary, summarise,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::manifest::Capability;
use super::{Instance, Manifest, Replies};

/// How long calls under way may take when the store is closed, and the instance to end after that.
const GRACE: Duration = Duration::from_secs(5);

/// A store that is a plugin. Every method is one call of the instance.
pub struct PluginStore {
    instance: Arc<Instance>,
    capabilities: Capabilities,
    /// What every call is told beside its request.
    context: Vec<u8>,
}

impl PluginStore {
    /// The store behind an instance. Messages are limited to `max_message_bytes`, and to what the plugin says if that is
    /// less.
    pub fn new(instance: Arc<Instance>, max_message_bytes: usize) -> Self {
        let capabilities = capabilities(instance.name(), instance.manifest(), max_message_bytes);
        let context = context(&instance);
        PluginStore { instance, capabilities, context }
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, method: &'static str, request: &impl Serialize) -> Result<T> {
        let body = self.instance.call(method, &self.context, &encode(request)).await?;
        self.understood(method, &body)
    }

    pub(super) async fn stream<T: DeserializeOwned>(
        &self,
        method: &'static str,
        request: &impl Serialize,
    ) -> Result<(T, Replies)> {
        let (head, items) = self.instance.stream(method, &self.context, &encode(request)).await?;
        Ok((self.understood(method, &head)?, items))
    }

    /// What a body says. A body that cannot be understood is the plugin's defect, whatever the request was.
    fn understood<T: DeserializeOwned>(&self, method: &str, body: &[u8]) -> Result<T> {
        decode("the answer", body).map_err(|error| blamed(&self.instance, method, error))
    }

    /// The items of a stream as events. The stream holds the instance: it may outlive the store.
    fn events(&self, method: &'static str, items: Replies) -> BoxStream<'static, Result<Event>> {
        let instance = self.instance.clone();
        items.map(move |item| event_from_json(&item?).map_err(|error| blamed(&instance, method, error))).boxed()
    }

    /// The items of a stream as values. The stream holds the instance: it may outlive the store.
    pub(super) fn items<T: DeserializeOwned + Send + 'static>(
        &self,
        method: &'static str,
        items: Replies,
    ) -> BoxStream<'static, Result<T>> {
        let instance = self.instance.clone();
        items.map(move |item| decode("an item", &item?).map_err(|error| blamed(&instance, method, error))).boxed()
    }
}

/// A defect of the plugin.
fn blamed(instance: &Instance, method: &str, error: Error) -> Error {
    error
        .context("plugin", format_args!("the plugin `{}`, `{method}`", instance.name()))
        .help("this is a defect of the plugin; `fmail plugin check` says which rule it breaks")
}

/// What every call is told: how long an answer is waited for.
pub(super) fn context(instance: &Instance) -> Vec<u8> {
    format!("{{\"deadline_ms\":{}}}", instance.timeout().as_millis()).into_bytes()
}

/// What the manifest claims, as the operations ask for it.
fn capabilities(name: &str, manifest: &Manifest, max_message_bytes: usize) -> Capabilities {
    let has = |capability| manifest.has(capability);
    Capabilities {
        name: name.into(),
        shared: has(Capability::Shared),
        durable: has(Capability::Durable),
        import: has(Capability::Import),
        remove: has(Capability::Remove),
        topics: !has(Capability::DirectOnly),
        filters: Filters {
            scope: has(Capability::FilterScope),
            ids: has(Capability::FilterIds),
            from: has(Capability::FilterFrom),
            thread: has(Capability::FilterThread),
            time: has(Capability::FilterTime),
            limit: has(Capability::FilterLimit),
            order: has(Capability::FilterOrder),
            text: has(Capability::FilterText),
        },
        max_message_bytes: manifest.max_message_bytes.unwrap_or(usize::MAX).min(max_message_bytes),
    }
}

/// An answer or a head that says nothing.
#[derive(serde::Deserialize)]
pub(super) struct Nothing {}

#[async_trait]
impl Store for PluginStore {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        let AppendAnswer { message, duplicate, not_durable } = self.ask(method::APPEND, &draft).await?;
        Ok(Appended { message, duplicate, not_durable })
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.ask(method::IMPORT, &message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let (ScanHead { cursor, more }, items) = self.stream(method::SCAN, &query).await?;
        Ok(Scan { cursor, more, messages: self.events(method::SCAN, items) })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let (Nothing {}, items) = self.stream(method::WATCH, &WatchVerb { query, from }).await?;
        Ok(self.events(method::WATCH, items))
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        if self.instance.manifest().has(Capability::Summary) {
            return self.ask(method::SUMMARY, &query).await;
        }
        let scope = query.scope.clone();
        summarise(&scope, self.scan(query).await?.messages).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        let (Nothing {}, items) = self.stream(method::REMOVE, &selection).await?;
        Ok(self.items(method::REMOVE, items))
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        let GetAnswer { record } = self.ask(method::GET, &GetVerb { key: key.clone() }).await?;
        match record {
            Some(record) if record.key != *key => {
                let text = format!("asked for the record `{key}`, the answer is about `{}`", record.key);
                Err(blamed(&self.instance, method::GET, Error::internal(text)))
            }
            record => Ok(record),
        }
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        let verb = PutVerb { key: key.clone(), expect, value, durable };
        let PutAnswer { revision } = self.ask(method::PUT, &verb).await?;
        Ok(revision)
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let (Nothing {}, items) = self.stream(method::LIST, &ListVerb { prefix: prefix.into() }).await?;
        let records = self.items::<ListItem>(method::LIST, items).map(|item| match item? {
            ListItem::Record(record) => Ok(record),
            ListItem::Error(error) => Err(error),
        });
        Ok(records.boxed())
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        let Nothing {} = self.ask(method::DELETE, &DeleteVerb { key: key.clone(), expect }).await?;
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        self.ask(method::HEALTH, &serde_json::json!({})).await
    }

    async fn close(&self) -> Result<()> {
        self.instance.close(GRACE).await.map(drop)
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.instance.manifest().has(Capability::Mailbox).then_some(self)
    }
}
