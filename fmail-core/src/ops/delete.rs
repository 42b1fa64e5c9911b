//! What happens to a message that its recipients have deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{
    AgentName, Expect, Identity, MailboxRecord, Message, MessageId, Query, RecordKey, Result, Selection, Target,
    Timestamp,
};
use futures::StreamExt;
use serde_json::Value;

use crate::Operations;
use crate::exchange::{Grave, graves_of, with_graves};
use crate::mailbox::Mailbox;

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
        let deleted = self.moment().whole_seconds();
        let graves = messages.iter().map(|message| {
            let grave = Grave { time: Some(message.time), deleted };
            (message.identity(), grave)
        });
        self.dig(graves.collect()).await.map(drop)
    }

    /// Keeps graves, and says how many of them were not known.
    pub(crate) async fn dig(&self, graves: BTreeMap<Identity, Grave>) -> Result<u64> {
        let mut days: BTreeMap<String, BTreeMap<Identity, Grave>> = BTreeMap::new();
        for (identity, grave) in graves {
            days.entry(identity.origin.day()).or_default().insert(identity, grave);
        }
        let mut new = 0;
        for (day, graves) in days {
            new += self.dig_on(&RecordKey::tombstones(&day), &graves).await?;
        }
        Ok(new)
    }

    async fn dig_on(&self, key: &RecordKey, graves: &BTreeMap<Identity, Grave>) -> Result<u64> {
        loop {
            let (expect, value) = match self.store.get(key).await? {
                Some(record) => (Expect::Revision(record.revision), record.value),
                None => (Expect::Absent, Value::Null),
            };
            let Some(changed) = with_graves(&value, graves) else { return Ok(0) };
            let known = graves_of(&value);
            match self.store.put(key, expect, changed, true).await {
                Err(error) if error.kind() == fmail_api::ErrorKind::Conflict => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(graves.keys().filter(|identity| !known.contains_key(identity)).count() as u64),
            }
        }
    }

    /// The graves of the messages that were born on a day.
    pub(crate) async fn graves_on(&self, day: &str) -> Result<BTreeMap<Identity, Grave>> {
        let record = self.store.get(&RecordKey::tombstones(day)).await?;
        Ok(record.map(|record| graves_of(&record.value)).unwrap_or_default())
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
