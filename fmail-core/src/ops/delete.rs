//! What happens to a message that its recipients have deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use fmail_api::{Expect, MailboxRecord, Message, MessageId, Query, RecordKey, Result, Selection, Target, Timestamp};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::Operations;
use crate::mailbox::Mailbox;

impl Operations {
    /// Removes those of the messages that nobody has any more: every place where they stand is a mailbox, and every
    /// recipient has deleted them. A store that cannot remove keeps them, out of everyone's sight.
    pub(super) async fn remove_deleted(&self, mailbox: &Mailbox<'_>, ids: BTreeSet<MessageId>) -> Result<()> {
        if !self.store.capabilities().remove {
            return Ok(());
        }
        let mut removable = BTreeSet::new();
        for message in mailbox.messages(ids).await? {
            if self.is_deleted_by_all(&message).await? {
                self.bury(&message).await?;
                removable.insert(message.id);
            }
        }
        if removable.is_empty() {
            return Ok(());
        }
        let mut removed = self.store.remove(Selection { ids: removable.clone(), ..Selection::default() }).await?;
        while let Some(one) = removed.next().await {
            one?;
        }
        mailbox.removed(&removable).await
    }

    async fn is_deleted_by_all(&self, message: &Arc<Message>) -> Result<bool> {
        let ids = BTreeSet::from([message.id]);
        for target in message.targets() {
            let Target::Agent(agent) = target else { return Ok(false) };
            let states = Mailbox::new(&*self.store, &agent, self.moment()).states(&ids).await?;
            if states.get(&message.id).is_none_or(|state| state.deleted.is_none()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Remembers that the message was deleted here, so that a peer does not bring it back.
    async fn bury(&self, message: &Message) -> Result<()> {
        let identity = message.identity();
        let grave = json!({"hash": identity.hash, "deleted": self.moment().whole_seconds()});
        self.change_value(&RecordKey::tombstones(&identity.origin.day()), |value| {
            let mut graves = value.as_object().cloned().unwrap_or_default();
            graves.insert(identity.origin.to_string(), grave.clone());
            Value::Object(graves)
        })
        .await
    }

    async fn change_value(&self, key: &RecordKey, change: impl Fn(Value) -> Value) -> Result<()> {
        loop {
            let (expect, value) = match self.store.get(key).await? {
                Some(record) => (Expect::Revision(record.revision), record.value),
                None => (Expect::Absent, Value::Null),
            };
            match self.store.put(key, expect, change(value), true).await {
                Err(error) if error.kind() == fmail_api::ErrorKind::Conflict => {}
                other => return other.map(drop),
            }
        }
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
