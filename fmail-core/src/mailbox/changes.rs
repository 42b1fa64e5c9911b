//! Changing what an agent has done with messages.

use std::collections::{BTreeMap, BTreeSet};

use fmail_api::{AgentName, Error, ErrorKind, MailState, MessageId, RecordKey, Result};

use super::{Mailbox, as_value, days_of};
use crate::operations::random;

/// Several processes of one agent may change the same day at once. One of them always succeeds, so that this many have
/// to be in each other's way before one gives up.
const ATTEMPTS: usize = 1000;

/// Where a message stands for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// In its own mailbox.
    Mailbox,
    /// In a topic: what the agent has done with it is told in receipts, and is no part of its mail.
    Topic,
}

impl Shelf {
    /// The record of a day.
    pub(super) fn key(self, agent: &AgentName, day: &str) -> RecordKey {
        match self {
            Shelf::Mailbox => RecordKey::mailbox(agent, day),
            Shelf::Topic => RecordKey::mailbox(agent, &format!("{day}.topics")),
        }
    }
}

/// A change of states. `change` sees each message's state and answers what it is to be, nothing to leave it as it is.
pub(crate) struct Change<'a> {
    /// Whether it can change what is unread or open.
    pub(crate) counts: bool,
    /// Whether it has to survive a power cut.
    pub(crate) durable: bool,
    /// The new state.
    pub(crate) change: &'a (dyn Fn(MessageId, &MailState) -> Result<Option<MailState>> + Sync),
}

/// What became of one message: its state before and after, equal when nothing changed.
pub(crate) type Changed = Result<(MailState, MailState)>;

impl Mailbox<'_> {
    /// Changes the states of messages, a day at a time. Each message has its own verdict; an error of the store is the
    /// error of all that are left.
    pub(crate) async fn change(
        &self,
        shelf: Shelf,
        ids: &BTreeSet<MessageId>,
        change: Change<'_>,
    ) -> Result<BTreeMap<MessageId, Changed>> {
        let days = days_of(ids);
        if !change.counts || shelf == Shelf::Topic {
            return self.change_days(shelf, &days, ids, &change).await;
        }
        let token = format!("{:016x}", random());
        self.settle(&days, &token).await?;
        let changed = self.change_days(shelf, &days, ids, &change).await;
        // The states are stored, and a day that stays noted is counted anew by all: what fails here is only slow.
        let _ = self.settled(&token, &BTreeSet::new()).await;
        changed
    }

    async fn change_days(
        &self,
        shelf: Shelf,
        days: &BTreeSet<String>,
        ids: &BTreeSet<MessageId>,
        change: &Change<'_>,
    ) -> Result<BTreeMap<MessageId, Changed>> {
        let mut all = BTreeMap::new();
        for day in days {
            let of_day = ids.iter().copied().filter(|id| id.day() == *day).collect();
            all.append(&mut self.change_day(&shelf.key(self.agent, day), &of_day, change).await?);
        }
        Ok(all)
    }

    async fn change_day(
        &self,
        key: &RecordKey,
        ids: &BTreeSet<MessageId>,
        change: &Change<'_>,
    ) -> Result<BTreeMap<MessageId, Changed>> {
        for _ in 0..ATTEMPTS {
            let (expect, mut record) = self.record(key).await?;
            let mut verdicts = BTreeMap::new();
            let mut any = false;
            for id in ids {
                let before = record.messages.get(id).cloned().unwrap_or_default();
                let verdict = (change.change)(*id, &before).map(|after| match after {
                    Some(after) if after != before => {
                        any = true;
                        record.messages.insert(*id, after.clone());
                        (before, after)
                    }
                    _ => (before.clone(), before),
                });
                verdicts.insert(*id, verdict);
            }
            if !any {
                return Ok(verdicts);
            }
            match self.store.put(key, expect, as_value(&record), change.durable).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(verdicts),
            }
        }
        Err(busy(key))
    }

    /// Notes in the tally that these days are about to change.
    pub(crate) async fn settle(&self, days: &BTreeSet<String>, token: &str) -> Result<()> {
        let key = RecordKey::tally(self.agent);
        for _ in 0..ATTEMPTS {
            let (expect, mut tally) = self.tally().await?;
            tally.settled("", self.now);
            tally.settle(days, token, self.now);
            match self.store.put(&key, expect, as_value(&tally), false).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other.map(drop),
            }
        }
        Err(busy(&key))
    }

    /// Takes the note away: the days have been counted anew. `removed` are messages that we have just removed.
    pub(crate) async fn settled(&self, token: &str, removed: &BTreeSet<MessageId>) -> Result<()> {
        let key = RecordKey::tally(self.agent);
        for _ in 0..ATTEMPTS {
            let (expect, mut tally) = self.tally_without(removed).await?;
            tally.settled(token, self.now);
            match self.store.put(&key, expect, as_value(&tally), false).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other.map(drop),
            }
        }
        Err(busy(&key))
    }
}

fn busy(key: &RecordKey) -> Error {
    Error::new(ErrorKind::Backpressure, format!("others kept changing the record `{key}` at the same time"))
        .help("try again")
}
