//! The store that keeps everything in this process: for tests, and for a daemon whose mail need not outlive it.
//!
//! It is held to the same rules as every other store, except that nothing survives the process.

mod messages;
mod records;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Clock, Cursor, Delivery, Draft, Error, ErrorKind, Event, EventStream, Expect, Filters,
    Health, Imported, Message, Query, Record, RecordKey, RefusedReason, Removed, Result, Revision, Scan, Selection,
    Store, Target, check_size,
};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;

use messages::{Filter, Messages};
use records::Records;
use watch::{Sleepers, Watch};

/// Messages and records in memory. Other processes do not see them, and they end with the process.
pub struct MemoryStore {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    max_message_bytes: usize,
}

/// What the store and its streams share.
///
/// The mutex is the standard library's: nothing is awaited while it is held, and no lock is held for longer than one
/// pass over the messages.
struct Shared(Mutex<State>);

struct State {
    messages: Messages,
    records: Records,
    sleepers: Sleepers,
    closed: bool,
}

impl Shared {
    /// The state, open or closed. A panic elsewhere cannot leave it half changed, so poisoning is of no interest.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryStore {
    /// An empty store that takes messages up to this size.
    pub fn new(max_message_bytes: usize, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            messages: Messages::new(),
            records: Records::default(),
            sleepers: Sleepers::default(),
            closed: false,
        };
        MemoryStore { shared: Arc::new(Shared(Mutex::new(state))), clock, max_message_bytes }
    }

    /// The state, unless the store is closed.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.shared.lock();
        if state.closed { Err(closed()) } else { Ok(state) }
    }

    /// Ends a change: lets go of the lock, then wakes whoever watches, so that they do not run into it.
    fn announce(mut state: MutexGuard<'_, State>) {
        let sleepers = state.sleepers.take();
        drop(state);
        sleepers.into_iter().for_each(|waker| waker.wake());
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the memory store is closed").help("open the project again")
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "memory".into(),
            shared: false,
            durable: false,
            import: true,
            remove: true,
            topics: true,
            filters: Filters::ALL,
            max_message_bytes: self.max_message_bytes,
        }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        let mut state = self.state()?;
        if let Some(key) = &draft.key
            && let Some(message) = state.messages.with_key(key, self.clock.since_boot())
        {
            return Ok(Appended { message, duplicate: true, not_durable: None });
        }
        let now = self.clock.now();
        let id = state.messages.allocate(now)?;
        let message = draft.into_message(id, now.whole_seconds());
        check_size(&message, self.max_message_bytes)?;
        let message = Arc::new(message);
        if let Some(key) = &message.key {
            state.messages.remember_key(key.clone(), message.clone(), self.clock.since_boot());
        }
        state.messages.insert(message.clone());
        Self::announce(state);
        Ok(Appended { message, duplicate: false, not_durable: None })
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        // The limit is on the message as it came: the `origin_id` that a relocation adds must not turn it away.
        if check_size(&message, self.max_message_bytes).is_err() {
            return Ok(Imported::Refused(RefusedReason::TooLarge));
        }
        let mut state = self.state()?;
        if state.messages.knows(&message.identity()) {
            return Ok(Imported::Duplicate);
        }
        if state.records.horizon().is_some_and(|horizon| message.time < horizon) {
            return Ok(Imported::Refused(RefusedReason::BelowHorizon));
        }
        let now = self.clock.now();
        let (message, imported) = if state.messages.accepts_foreign(message.id, now) {
            (message, Imported::New)
        } else {
            let id = state.messages.allocate(now)?;
            let origin_id = Some(message.origin_id.unwrap_or(message.id));
            (Message { id, origin_id, ..message }, Imported::Relocated(id))
        };
        state.messages.insert(Arc::new(message));
        Self::announce(state);
        Ok(imported)
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let state = self.state()?;
        let messages = &state.messages;
        let page = messages.page(&Filter::new(query, messages)?);
        let found: Vec<_> = page
            .found
            .into_iter()
            .map(|(position, message)| Ok(Event::Message(Delivery::new(message, messages.cursor_behind(position)))))
            .collect();
        Ok(Scan { cursor: messages.cursor(page.end), more: page.more, messages: stream::iter(found).boxed() })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let state = self.state()?;
        let position = state.messages.position(&from)?;
        let filter = Filter::new(query, &state.messages)?;
        drop(state);
        Ok(Watch::new(self.shared.clone(), filter, position).boxed())
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        let mut state = self.state()?;
        let chosen = state.messages.selected(&selection);
        // Before the first message goes, so that none comes back from a peer while the sweep is under way. A selection
        // that also names ids leaves other old messages standing: everything below is then not swept, so no horizon.
        if let Some(before) = selection.before
            && selection.ids.is_empty()
            && !selection.dry_run
        {
            state.records.raise_horizon(before);
        }
        drop(state);
        let shared = self.shared.clone();
        let told = stream::iter(chosen).flat_map(move |message| {
            let there = selection.dry_run || shared.lock().messages.remove(message.id);
            let targets = if there { message.targets() } else { Vec::new() };
            stream::iter(targets.into_iter().map(move |target| {
                let place = place(&target, &message);
                Ok(Removed { id: message.id, target, place })
            }))
        });
        Ok(told.boxed())
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        Ok(self.state()?.records.get(key))
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, _durable: bool) -> Result<Revision> {
        self.state()?.records.put(key, &expect, value)
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let records = self.state()?.records.under(prefix);
        Ok(stream::iter(records.into_iter().map(Ok)).boxed())
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.state()?.records.delete(key, &expect)
    }

    async fn health(&self) -> Result<Health> {
        let count = self.state()?.messages.len();
        let detail = format!("{count} messages in the memory of this process, which end with it");
        Ok(Health { writable: true, detail })
    }

    /// Forgets everything; watches end with an error, and every later call is refused.
    async fn close(&self) -> Result<()> {
        let mut state = self.shared.lock();
        state.closed = true;
        state.messages = Messages::new();
        state.records = Records::default();
        Self::announce(state);
        Ok(())
    }
}

/// The place of a message, in the words of the files store, so that `gc` reads the same on both.
fn place(target: &Target, message: &Message) -> String {
    match target {
        Target::Topic(topic) => format!("topics/{topic}/{}.json", message.id),
        Target::Agent(agent) => format!("dm/{agent}/{}.json", message.id),
    }
}

#[cfg(test)]
mod tests;
