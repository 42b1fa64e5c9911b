//! A store that is held to what it claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Error, Event, EventStream, Expect, Filters, Health, Imported, Mailbox,
    Message, Quarantine, Query, Record, RecordKey, Removed, Result, Revision, Scan, Scope, Selection, Store, Summary,
    Target,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;

/// A store whose answers are looked at before they are believed.
///
/// What it does not claim is refused with `unsupported` and never reaches it. An answer that the store cannot have meant
/// is `internal` and names it. Only what costs next to nothing is looked at: the message that an append answers with
/// against the draft (not its body), the places, ids and number of what a scan delivers, the keys of records, and whether
/// the mail of a [`Mailbox`] is what was asked for.
pub struct Capable {
    pub(super) inner: Arc<dyn Store>,
    capabilities: Capabilities,
}

impl Capable {
    /// The store around `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let capabilities = inner.capabilities();
        Capable { inner, capabilities }
    }

    fn refuse(&self, claims: bool, what: &str) -> Result<()> {
        if claims {
            return Ok(());
        }
        Err(Error::unsupported(what).context("store", &self.capabilities.name))
    }

    /// A store that knows no topics is not asked about one: an empty answer would say that there is such a topic and that
    /// it is quiet.
    fn check_topics(&self, mut named: impl Iterator<Item = bool>) -> Result<()> {
        let direct = self.capabilities.topics || named.all(|direct| direct);
        self.refuse(direct, "keep topics, only direct messages")
            .map_err(|error| error.help("name an agent, as in `fmail send @reviewer \"…\"`; `fmail who` lists them"))
    }

    fn check_scope(&self, scope: &Scope) -> Result<()> {
        self.check_topics(std::iter::once(match scope {
            Scope::Topics => false,
            Scope::Target(target) => target.is_direct(),
            Scope::All | Scope::Visible(_) => true,
        }))
    }

    pub(super) fn nonsense(&self, what: impl std::fmt::Display) -> Error {
        nonsense(&self.capabilities.name, what)
    }

    fn checked(&self, query: Query, messages: EventStream, limited: bool) -> EventStream {
        let (name, filters) = (self.capabilities.name.clone(), self.capabilities.filters);
        let limit = query.limit.filter(|_| limited && filters.limit);
        let mut count = 0;
        let checked = messages.map(move |event| {
            if let Ok(Event::Message(delivery)) = &event {
                count += 1;
                fits(&query, filters, &delivery.message).map_err(|what| nonsense(&name, what))?;
                if limit.is_some_and(|limit| count > limit) {
                    return Err(nonsense(&name, format!("scan delivers more than the {} asked for", count - 1)));
                }
            }
            event
        });
        // An error is the last item.
        let until_error = checked.scan(false, |failed, event| {
            let ended = std::mem::replace(failed, event.is_err());
            std::future::ready((!ended).then_some(event))
        });
        until_error.boxed()
    }
}

/// A defect of the store, told with its name.
fn nonsense(name: &str, what: impl std::fmt::Display) -> Error {
    Error::internal(format!("the store `{name}` cannot be believed: {what}"))
        .help(format!("this is a defect of `{name}`; `fmail plugin check {name}` shows which rule it breaks"))
}

/// Whether a message is one that was asked for, as far as the store claims to look at that.
fn fits(query: &Query, filters: Filters, message: &Message) -> Result<(), String> {
    if filters.scope && !message.targets().iter().any(|target| query.scope.contains(target)) {
        return Err(format!("it delivers {} to {}, outside of {:?}", message.id, message.to, query.scope));
    }
    if filters.ids && !query.accepts_id(message.id) {
        return Err(format!("it delivers {}, which was not asked for", message.id));
    }
    Ok(())
}

#[async_trait]
impl Store for Capable {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        let more = draft.more.recipients.iter().chain(&draft.more.cc);
        self.check_topics(std::iter::once(&draft.to).chain(more).map(Target::is_direct))?;
        let (from, to, key) = (draft.from.clone(), draft.to.clone(), draft.key.clone());
        let appended = self.inner.append(draft).await?;
        let message = &appended.message;
        if message.key != key {
            return Err(self.nonsense(format!("the message {} has another key than its draft", message.id)));
        }
        if appended.duplicate && key.is_none() {
            return Err(self.nonsense(format!("{} is called a duplicate, but its draft had no key", message.id)));
        }
        if !appended.duplicate && (message.from != from || message.to != to) {
            let what = format!("{} from {} to {}, not from {from} to {to}", message.id, message.from, message.to);
            return Err(self.nonsense(format!("append answers with another message: {what}")));
        }
        Ok(appended)
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.refuse(self.capabilities.import, "import messages")?;
        self.inner.import(message).await
    }

    async fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        match self.refuse(self.capabilities.import, "import messages") {
            Ok(()) => self.inner.import_many(messages).await,
            Err(error) => messages.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.check_scope(&query.scope)?;
        let scan = self.inner.scan(query.clone()).await?;
        Ok(Scan { messages: self.checked(query, scan.messages, true), ..scan })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.check_scope(&query.scope)?;
        let events = self.inner.watch(query.clone(), from).await?;
        Ok(self.checked(query, events, false))
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        let scope = query.scope.clone();
        self.check_scope(&scope)?;
        let summary = self.inner.summary(query).await?;
        match summary.targets.iter().find(|entry| self.capabilities.filters.scope && !scope.contains(&entry.target)) {
            Some(entry) => Err(self.nonsense(format!("its summary tells of {}, outside of {scope:?}", entry.target))),
            None => Ok(summary),
        }
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.refuse(self.capabilities.remove, "remove messages")?;
        let (name, wanted): (_, BTreeSet<_>) = (self.capabilities.name.clone(), selection.ids.clone());
        let removed = self.inner.remove(selection).await?;
        let check = move |removed: Result<Removed>| match removed {
            Ok(removed) if !wanted.is_empty() && !wanted.contains(&removed.id) => {
                Err(nonsense(&name, format!("it has removed {}, which was not selected", removed.id)))
            }
            other => other,
        };
        Ok(removed.map(check).boxed())
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        match self.inner.get(key).await? {
            Some(record) if record.key != *key => {
                Err(self.nonsense(format!("asked for the record `{key}`, it gives `{}`", record.key)))
            }
            found => Ok(found),
        }
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.inner.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let (name, wanted) = (self.capabilities.name.clone(), prefix.to_string());
        let check = move |record: Result<Record>| match record {
            Ok(record) if !record.key.is_under(&wanted) => {
                Err(nonsense(&name, format!("it lists the record `{}` under `{wanted}`", record.key)))
            }
            other => other,
        };
        Ok(self.inner.list(prefix).await?.map(check).boxed())
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
        self.inner.mailbox().map(|_| self as &dyn Mailbox)
    }
}
