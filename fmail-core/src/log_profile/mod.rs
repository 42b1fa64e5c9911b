//! A store over a log.
//!
//! A [`Log`] keeps texts in order and knows nothing of them. [`LogStore`] makes a whole [`Store`] of it: this is what a
//! backend of eighty lines gets from fmail.
//!
//! # What stands in the log
//!
//! One JSON object per entry, so that the log can be read with `cat` and `jq`. The first says which log it is; cursors
//! carry its epoch, so that one of another log is not taken for one of this:
//!
//! ```text
//! {"fmail_log":1,"epoch":"5ad3f0c2917be846"}
//! {"message":{"id":"20260110-153000-0001","from":"alice","to":"task","time":"2026-01-10T15:30:00Z","body":"hello"}}
//! {"imported":{"id":"20260109-090000-0007","from":"bob","to":"@alice","time":"2026-01-09T09:00:00Z","body":"hi"}}
//! {"record":{"key":"agents/alice","value":{"name":"alice","first_seen":"…","last_seen":"…"}}}
//! {"record_deleted":"leases"}
//! {"removed":["20260110-153000-0001"]}
//! ```
//!
//! * `fmail_log` is the format of all entries. A log with a higher number is refused whole.
//! * `message` was appended here, under an id that this store gave it; its `key`, if any, is used for 24 hours.
//! * `imported` came with its id from another store. Its key is its sender's business.
//! * `record` and `record_deleted` say what a record is from here on. The time below which everything was swept away is
//!   the record `horizon`.
//! * `removed` messages are gone from here on.
//!
//! What a later entry has replaced is dropped after that one is stored: the record before a change, a message behind its
//! removal (while its key is in use, it stays). Removals stay, so that other processes learn of them. An entry that
//! cannot be understood is told by every scan and watch that passes it, and skipped.
//!
//! # What is kept in memory
//!
//! Of every message its position and what a query can ask for, and every record; no body. Bodies are read when they
//! are delivered, at most 64 and about a megabyte at a time for each reader.
//!
//! # Several processes
//!
//! Every write names the position that it expects. When another was faster, what it wrote is read, the change is
//! decided again - is the key now known? does the expectation still hold? - and tried again. On a log that claims
//! `shared`, every read looks first for what others have written, and one thread does so for all watches while there
//! are any.

mod bodies;
mod entry;
mod index;
mod records;
mod state;
mod tail;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Clock, Cursor, Draft, EventStream, Expect, Filters, Health, Imported, Log, Message,
    MessageId, Query, Record, RecordKey, RefusedReason, Removed, Result, Revision, Scan, Selection, Store, Summary,
    Target, TargetSummary, check_size,
};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;

use entry::Entry;
use records::{horizon_value, revision};
use state::{State, announce};
use tail::{Decision, Tail};
use watch::{Follower, Watch, broken_notice};

/// How often a shared log is asked for what other processes have written, while anybody watches.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How many messages one entry removes. What was told before a sweep is broken off is what was removed, up to this.
const SWEEP: usize = 64;

/// A store that keeps everything in a log; see the [module's documentation](self).
pub struct LogStore {
    tail: Arc<Tail>,
    follower: Follower,
    poll_interval: Duration,
}

/// What became of an attempt to append.
enum Attempt {
    Stored(Arc<Message>),
    /// The key is known: its message stands here.
    Known(u64),
}

impl LogStore {
    /// The store over a log. Nothing is read before the first call needs it.
    pub fn new(log: Arc<dyn Log>, clock: Arc<dyn Clock>) -> Self {
        LogStore { tail: Arc::new(Tail::new(log, clock)), follower: Follower::new(), poll_interval: POLL_INTERVAL }
    }

    /// The same store, with another interval between two looks at a shared log for those who watch.
    #[must_use]
    pub fn poll_interval(self, poll_interval: Duration) -> Self {
        LogStore { poll_interval, ..self }
    }

    /// Decides on an append: which message it becomes, or which it repeats.
    fn decide_append(&self, state: &mut State, draft: &Draft) -> Result<Decision<Attempt>> {
        if let Some(position) = draft.key.as_ref().and_then(|key| state.index.with_key(key)) {
            return Ok(Decision::Done(Attempt::Known(position)));
        }
        let now = self.tail.clock.now();
        let id = MessageId::allocate(state.index.last(), now)?;
        let message = draft.clone().into_message(id, now.whole_seconds());
        check_size(&message, self.tail.facts.max_message_bytes)?;
        Ok(Decision::write(Entry::Message(message.clone()), Attempt::Stored(Arc::new(message))))
    }

    /// Decides on an import.
    fn decide_import(&self, state: &mut State, message: &Message) -> Result<Decision<Imported>> {
        if state.index.knows(&message.identity()) {
            return Ok(Decision::Done(Imported::Duplicate));
        }
        if state.records.horizon().is_some_and(|horizon| message.time < horizon) {
            return Ok(Decision::Done(Imported::Refused(RefusedReason::BelowHorizon)));
        }
        let now = self.tail.clock.now();
        if !state.index.holds_id(message.id) && message.id.is_importable(now) {
            return Ok(Decision::write(Entry::Imported(message.clone()), Imported::New));
        }
        let id = MessageId::allocate(state.index.last(), now)?;
        let origin_id = Some(message.origin_id.unwrap_or(message.id));
        let relocated = Message { id, origin_id, ..message.clone() };
        Ok(Decision::write(Entry::Imported(relocated), Imported::Relocated(id)))
    }

    /// Moves the horizon forward; never back, since what was swept stays swept.
    async fn raise_horizon(&self, selection: &Selection) -> Result<()> {
        // A selection that also names ids leaves other old messages standing: everything below is then not swept.
        let Some(before) = selection.before.filter(|_| selection.ids.is_empty() && !selection.dry_run) else {
            return Ok(());
        };
        let decide = |state: &mut State| {
            if state.records.horizon().is_some_and(|horizon| horizon >= before) {
                return Ok(Decision::Done(()));
            }
            Ok(Decision::write(Entry::Record { key: RecordKey::horizon(), value: horizon_value(before) }, ()))
        };
        self.tail.commit(decide).await
    }
}

/// Removes these messages, those that are still there, with one entry; or only tells.
async fn sweep(tail: &Tail, ids: &[MessageId], dry_run: bool) -> Result<Vec<Removed>> {
    let decide = |state: &mut State| {
        let there = |id: &MessageId| Some((*id, state.index.with_id(*id)?.targets.clone()));
        let there: Vec<_> = ids.iter().filter_map(there).collect();
        let told = there.iter().flat_map(|(id, targets)| targets.iter().map(|target| removed(*id, target))).collect();
        if dry_run || there.is_empty() {
            return Ok(Decision::Done(told));
        }
        Ok(Decision::write(Entry::Removed(there.into_iter().map(|(id, _)| id).collect()), told))
    };
    tail.commit(decide).await
}

/// A removed message, its place in the words of the files store, so that `gc` reads the same on both.
fn removed(id: MessageId, target: &Target) -> Removed {
    let place = match target {
        Target::Topic(topic) => format!("topics/{topic}/{id}.json"),
        Target::Agent(agent) => format!("dm/{agent}/{id}.json"),
    };
    Removed { id, target: target.clone(), place }
}

#[async_trait]
impl Store for LogStore {
    fn capabilities(&self) -> Capabilities {
        let facts = &self.tail.facts;
        Capabilities {
            name: facts.name.clone(),
            shared: facts.shared,
            durable: facts.durable,
            import: true,
            remove: true,
            topics: true,
            filters: Filters::ALL,
            max_message_bytes: facts.max_message_bytes,
        }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        loop {
            let position = match self.tail.commit(|state| self.decide_append(state, &draft)).await? {
                Attempt::Stored(message) => return Ok(Appended { message, duplicate: false, not_durable: None }),
                Attempt::Known(position) => position,
            };
            if let Some(message) = self.tail.message(position).await? {
                return Ok(Appended { message, duplicate: true, not_durable: None });
            }
            // The message was removed, and another process has found its key to be older than a day.
            if let Some(key) = &draft.key {
                self.tail.shared.open()?.index.forget_key(key);
            }
        }
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        // The limit is on the message as it came: the `origin_id` that a relocation adds must not turn it away.
        if check_size(&message, self.tail.facts.max_message_bytes).is_err() {
            return Ok(Imported::Refused(RefusedReason::TooLarge));
        }
        self.tail.commit(|state| self.decide_import(state, &message)).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.tail.catch_up().await?;
        let state = self.tail.shared.open()?;
        let filter = state.filter(query)?;
        let page = state.index.page(&filter);
        let end = page.end.unwrap_or(state.end());
        let cursor = state.cursor(end);
        let broken = state.broken.iter().filter(|(at, _)| !filter.names_ids() && (filter.start()..=end).contains(*at));
        let notices: Vec<_> = broken.map(|(at, reason)| Ok(broken_notice(&self.tail, *at, reason))).collect();
        let messages = stream::iter(notices).chain(bodies::deliveries(self.tail.clone(), page.positions));
        Ok(Scan { cursor, more: page.more, messages: messages.boxed() })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        let shared = self.tail.facts.shared;
        let follower = if shared { Some(self.follower.follow(&self.tail, self.poll_interval)?) } else { None };
        self.tail.catch_up().await?;
        let (filter, position) = {
            let state = self.tail.shared.open()?;
            (state.filter(query)?, state.position(&from)?)
        };
        Ok(Watch::new(self.tail.clone(), filter, position, follower).into_stream())
    }

    /// Counts by what is in memory; no body is read.
    async fn summary(&self, query: Query) -> Result<Summary> {
        self.tail.catch_up().await?;
        let state = self.tail.shared.open()?;
        let scope = query.scope.clone();
        let mut targets = std::collections::BTreeMap::<Target, TargetSummary>::new();
        for position in state.index.page(&state.filter(query)?).positions {
            let Some(known) = state.index.at(position) else { continue };
            for target in known.targets.iter().filter(|target| scope.contains(target)) {
                let summary = targets.entry(target.clone()).or_insert_with(|| TargetSummary {
                    target: target.clone(),
                    messages: 0,
                    last: known.id,
                    last_time: known.time,
                });
                summary.messages += 1;
                if known.id >= summary.last {
                    (summary.last, summary.last_time) = (known.id, known.time);
                }
            }
        }
        Ok(Summary { targets: targets.into_values().collect() })
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.tail.catch_up().await?;
        // Before the first message goes, so that none comes back from a peer while the sweep is under way.
        self.raise_horizon(&selection).await?;
        let chosen = self.tail.shared.open()?.index.selected(&selection);
        let (tail, dry_run) = (self.tail.clone(), selection.dry_run);
        let parts: Vec<Vec<MessageId>> = chosen.chunks(SWEEP).map(<[MessageId]>::to_vec).collect();
        let told = stream::iter(parts).then(move |ids| {
            let tail = tail.clone();
            async move { sweep(&tail, &ids, dry_run).await }
        });
        let told = told.flat_map(|part| match part {
            Ok(removed) => stream::iter(removed.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        });
        Ok(told.boxed())
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.tail.catch_up().await?;
        Ok(self.tail.shared.open()?.records.get(key).cloned())
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, _durable: bool) -> Result<Revision> {
        let decide = |state: &mut State| {
            state.records.check(key, &expect)?;
            Ok(Decision::write(Entry::Record { key: key.clone(), value: value.clone() }, revision(&value)))
        };
        self.tail.commit(decide).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.tail.catch_up().await?;
        let records = self.tail.shared.open()?.records.under(prefix);
        Ok(stream::iter(records.into_iter().map(Ok)).boxed())
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        let decide = |state: &mut State| {
            state.records.check(key, &expect)?;
            if state.records.get(key).is_none() {
                return Ok(Decision::Done(()));
            }
            Ok(Decision::write(Entry::RecordDeleted(key.clone()), ()))
        };
        self.tail.commit(decide).await
    }

    async fn health(&self) -> Result<Health> {
        let health = self.tail.log.health().await?;
        let state = self.tail.shared.open()?;
        if !state.replayed {
            return Ok(health);
        }
        let (count, broken) = (state.index.len(), state.broken.len());
        let detail = format!("{}; {count} messages in {} entries, {broken} broken", health.detail, state.end());
        Ok(Health { detail, ..health })
    }

    /// Lets go of the log; watches end with an error, and every later call is refused.
    async fn close(&self) -> Result<()> {
        {
            let mut state = self.tail.shared.lock();
            state.closed = true;
            announce(state);
        }
        self.tail.log.close().await
    }
}

#[cfg(test)]
mod tests;
