//! What happens to a message that its recipients have deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{
    AgentName, Expect, Identity, MailState, MailboxRecord, Message, MessageId, Query, RecordKey, Result, Selection,
    Target, Timestamp,
};
use futures::StreamExt;
use serde_json::Value;

use crate::Operations;
use crate::exchange::{Buried, Grave, graves_of, had_here, with_graves};
use crate::mailbox::{Change, Mailbox, Shelf};

/// So many messages are removed at a time: each time costs reading and writing the graves of a day.
const BATCH: usize = 10_000;

impl Operations {
    /// Removes those of the messages that nobody has any more: every place where they stand is a mailbox, and every
    /// recipient has deleted them. A store that cannot remove keeps them, out of everyone's sight.
    pub(crate) async fn remove_deleted(&self, mailbox: &Mailbox<'_>, ids: BTreeSet<MessageId>) -> Result<()> {
        if !self.store.capabilities().remove {
            return Ok(());
        }
        let ids: Vec<MessageId> = ids.into_iter().collect();
        for batch in ids.chunks(BATCH) {
            let messages = mailbox.messages(batch.iter().copied().collect()).await?;
            let removable = self.deleted_by_all(messages).await?;
            if removable.is_empty() {
                continue;
            }
            self.bury(&removable).await?;
            let ids: BTreeSet<MessageId> = removable.iter().map(|message| message.id).collect();
            let mut removed = self.store.remove(Selection { ids: ids.clone(), ..Selection::default() }).await?;
            while let Some(one) = removed.next().await {
                one?;
            }
            mailbox.removed(&ids).await?;
        }
        Ok(())
    }

    /// Those of the messages that stand in nothing but mailboxes whose owners have deleted them.
    async fn deleted_by_all(&self, mut messages: Vec<Arc<Message>>) -> Result<Vec<Arc<Message>>> {
        messages.retain(|message| message.targets().iter().all(|target| target.agent().is_some()));
        let mut of_agent: BTreeMap<AgentName, BTreeSet<MessageId>> = BTreeMap::new();
        for message in &messages {
            for agent in message.targets().iter().filter_map(Target::agent) {
                of_agent.entry(agent.clone()).or_default().insert(message.id);
            }
        }
        for (agent, ids) in of_agent {
            let states = Mailbox::new(&*self.store, &agent, self.moment()).states(&ids).await?;
            let deleted = |id: &MessageId| states.get(id).is_some_and(|state| state.deleted.is_some());
            messages.retain(|message| !ids.contains(&message.id) || deleted(&message.id));
        }
        Ok(messages)
    }

    /// Remembers that the messages were deleted here, so that a peer does not bring them back.
    async fn bury(&self, messages: &[Arc<Message>]) -> Result<()> {
        let elsewhere = messages.iter().filter(|message| message.origin_id.is_some());
        self.leave_ids(elsewhere.map(|message| (message.id, message.identity())).collect()).await?;
        let deleted = self.moment().whole_seconds();
        let graves = messages.iter().map(|message| {
            let grave = Grave { time: Some(message.time), deleted };
            (message.identity(), grave)
        });
        self.dig(graves.collect()).await.map(drop)
    }

    /// Remembers which ids the messages had here, where these are not the ones that they were born with. Before the graves: a
    /// grave says that all of it was done.
    pub(crate) async fn leave_ids(&self, messages: BTreeMap<MessageId, Identity>) -> Result<()> {
        let mut days: BTreeMap<String, BTreeMap<MessageId, Identity>> = BTreeMap::new();
        for (id, identity) in messages {
            days.entry(id.day()).or_default().insert(id, identity);
        }
        for (day, ids) in days {
            self.change_graves(&RecordKey::tombstones(&day), |record| had_here(record, &ids)).await?;
        }
        Ok(())
    }

    /// Keeps graves, and says how many of them were not known.
    pub(crate) async fn dig(&self, graves: BTreeMap<Identity, Grave>) -> Result<u64> {
        let mut days: BTreeMap<String, BTreeMap<Identity, Grave>> = BTreeMap::new();
        for (identity, grave) in graves {
            days.entry(identity.origin.day()).or_default().insert(identity, grave);
        }
        let mut new = 0;
        for (day, graves) in days {
            let before =
                self.change_graves(&RecordKey::tombstones(&day), |record| with_graves(record, &graves)).await?;
            let known = before.map(|record| graves_of(&record));
            new +=
                known.map_or(0, |known| graves.keys().filter(|identity| !known.contains_key(identity)).count() as u64);
        }
        self.exchange.has_buried();
        Ok(new)
    }

    /// Changes the graves of a day by compare-and-swap. What stood there before; nothing when nothing had to be changed.
    async fn change_graves(
        &self,
        key: &RecordKey,
        change: impl Fn(&Value) -> Option<Value> + Send,
    ) -> Result<Option<Value>> {
        loop {
            let (expect, value) = match self.store.get(key).await? {
                Some(record) => (Expect::Revision(record.revision), record.value),
                None => (Expect::Absent, Value::Null),
            };
            let Some(changed) = change(&value) else { return Ok(None) };
            match self.store.put(key, expect, changed, true).await {
                Err(error) if error.kind() == fmail_api::ErrorKind::Conflict => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(Some(value)),
            }
        }
    }

    /// What was buried under the ids of a day.
    pub(crate) async fn graves_on(&self, day: &str) -> Result<Buried> {
        let record = self.store.get(&RecordKey::tombstones(day)).await?;
        Ok(record.map(|record| Buried::of(&record.value)).unwrap_or_default())
    }

    /// Forgets what agents did with an id, for a message that got it while the one that had it before was being deleted.
    pub(crate) async fn clear_states(&self, recipients: &[AgentName], id: MessageId) -> Result<()> {
        for agent in recipients {
            let mailbox = Mailbox::new(&*self.store, agent, self.moment());
            let change = |_: MessageId, _: &MailState| Ok(Some(MailState::default()));
            let change = Change { counts: true, durable: true, change: &change };
            mailbox.change(Shelf::Mailbox, &BTreeSet::from([id]), change).await?;
        }
        Ok(())
    }

    /// Forgets what agents did with messages that are all gone. Asked at the beginning of a sweep: what this sweep
    /// removes is forgotten by the next.
    pub(super) async fn forget_states(&self, before: Timestamp) -> Result<()> {
        let last = MessageId::at(before).day();
        let mut old = Vec::new();
        let mut records = self.store.list("mailbox").await?;
        while let Some(record) = records.next().await {
            // A broken record is for its owner to see, not for a sweep to stop at.
            let Ok(record) = record else { continue };
            let day = record.key.segments().nth(2).and_then(|name| name.get(..8)).unwrap_or_default();
            if day.bytes().all(|byte| byte.is_ascii_digit()) && !day.is_empty() && day < last.as_str() {
                let Ok(states) = record.decode::<MailboxRecord>() else { continue };
                old.push((record.key, record.revision, states));
            }
        }
        // A record that was split leads to its parts, so that it goes behind them.
        let mut kept: Vec<RecordKey> = Vec::new();
        for (key, revision, states) in old.into_iter().rev() {
            let leads_on = states.split && kept.iter().any(|part| is_part(part, &key));
            let ids: BTreeSet<MessageId> = states.messages.into_keys().collect();
            let query = Query { ids, ..Query::default() };
            if leads_on || !query.ids.is_empty() && !self.ids_of(query).await?.is_empty() {
                kept.push(key);
            } else {
                self.store.delete(&key, Expect::Revision(revision)).await?;
            }
        }
        Ok(())
    }
}

/// Whether a record holds the states of a part of another's time, on the same shelf.
fn is_part(part: &RecordKey, whole: &RecordKey) -> bool {
    let (part, whole) = (part.as_str(), whole.as_str());
    let shelf = |key: &str| key.ends_with(".topics");
    shelf(part) == shelf(whole) && part.len() > whole.len() && part.starts_with(whole.trim_end_matches(".topics"))
}
