//! What an agent has done with messages: reading and changing the records that hold it.

use std::collections::{BTreeMap, BTreeSet};

use fmail_api::{AgentName, Error, ErrorKind, Expect, MailState, MailboxRecord, MessageId, RecordKey, Result};
use futures::StreamExt;

use super::stretch::{Stretch, by_day};
use super::tally::States;
use super::{Change, Changed, Mailbox, as_value};

/// Several processes of one agent may change the same record at once. One of them always succeeds, so that this many
/// have to be in each other's way before one gives up.
pub(super) const ATTEMPTS: usize = 1000;

/// A record with more states than this is split.
const MOST: usize = 256;

/// Where a message stands for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// In its own mailbox.
    Mailbox,
    /// In a topic: what the agent has done with it is told in receipts, and is no part of its mail.
    Topic,
}

impl Shelf {
    fn key(self, agent: &AgentName, stretch: &Stretch) -> RecordKey {
        match self {
            Shelf::Mailbox => RecordKey::mailbox(agent, stretch.as_str()),
            Shelf::Topic => RecordKey::mailbox(agent, &format!("{stretch}.topics")),
        }
    }
}

impl Mailbox<'_> {
    /// What the agent has done with these messages. One without an entry is untouched.
    pub(crate) async fn states_on(&self, shelf: Shelf, ids: &BTreeSet<MessageId>) -> Result<States> {
        let mut states = States::new();
        for (_, mut found) in self.held(shelf, ids).await? {
            found.retain(|id, _| ids.contains(id));
            // Not `append`, which takes as long as both are together, for every record again.
            states.extend(found);
        }
        Ok(states)
    }

    /// The stretches that hold the states of these messages, each with all that it holds.
    pub(super) async fn held(&self, shelf: Shelf, ids: &BTreeSet<MessageId>) -> Result<Vec<(Stretch, States)>> {
        let mut held = Vec::new();
        let mut left: Vec<_> = by_day(ids).into_iter().map(|(day, ids)| (day, ids, States::new())).collect();
        while let Some((stretch, ids, mut states)) = left.pop() {
            let record = self.record(&shelf.key(self.agent, &stretch)).await?.1;
            // What a record says is newer than what the record of a longer stretch still says.
            states.extend(record.messages);
            if !record.split {
                held.push((stretch, states));
                continue;
            }
            let mut older = stretch.divided_states(states);
            let parts = stretch.divided(&ids).into_iter();
            left.extend(parts.map(|(part, ids)| (part.clone(), ids, older.remove(&part).unwrap_or_default())));
        }
        Ok(held)
    }

    /// All states of a stretch of the mailbox.
    pub(super) async fn states_in(&self, stretch: &Stretch) -> Result<States> {
        let mut states = States::new();
        let mut left = vec![stretch.clone()];
        while let Some(stretch) = left.pop() {
            let record = self.record(&Shelf::Mailbox.key(self.agent, &stretch)).await?.1;
            // A part is looked at behind its whole, and what it says is newer.
            states.extend(record.messages);
            if record.split {
                left.extend(stretch.parts());
            }
        }
        Ok(states)
    }

    /// What `look` makes of every state of the mailbox.
    pub(super) async fn all_states<T>(&self, look: impl Fn(&MailState) -> T) -> Result<BTreeMap<MessageId, T>> {
        // The tally stands among the states. A broken one is taken away by this.
        self.kept().await?;
        let mut all = BTreeMap::new();
        let mut records = self.store.list(&format!("mailbox/{}", self.agent)).await?;
        while let Some(record) = records.next().await {
            let record = record?;
            if Stretch::of_record(&record).is_some() {
                // In the order of their keys, in which a part follows its whole: what it says is newer.
                let states = record.decode::<MailboxRecord>()?.messages;
                all.extend(states.iter().map(|(id, state)| (*id, look(state))));
            }
        }
        Ok(all)
    }

    async fn record(&self, key: &RecordKey) -> Result<(Expect, MailboxRecord)> {
        match self.store.get(key).await? {
            Some(record) => Ok((Expect::Revision(record.revision.clone()), record.decode()?)),
            None => Ok((Expect::Absent, MailboxRecord::default())),
        }
    }

    /// Changes states, a record at a time.
    pub(super) async fn change_states(
        &self,
        shelf: Shelf,
        ids: &BTreeSet<MessageId>,
        change: &Change<'_>,
    ) -> Result<BTreeMap<MessageId, Changed>> {
        let mut all = BTreeMap::new();
        let mut left: Vec<_> = by_day(ids).into_iter().collect();
        while let Some((stretch, ids)) = left.pop() {
            match self.change_record(shelf, &stretch, &ids, change).await? {
                Some(verdicts) => all.extend(verdicts),
                None => left.extend(stretch.divided(&ids)),
            }
        }
        Ok(all)
    }

    /// Changes the states of one stretch; nothing when they are in the records of its parts.
    async fn change_record(
        &self,
        shelf: Shelf,
        stretch: &Stretch,
        ids: &BTreeSet<MessageId>,
        change: &Change<'_>,
    ) -> Result<Option<BTreeMap<MessageId, Changed>>> {
        let key = shelf.key(self.agent, stretch);
        for _ in 0..ATTEMPTS {
            let (expect, mut record) = self.record(&key).await?;
            if record.split {
                self.divide(shelf, stretch, expect, record).await?;
                return Ok(None);
            }
            let durable = change.durable || record.messages.values().any(is_lasting);
            let before = record.messages.clone();
            let most = if stretch.is_divisible() { MOST } else { usize::MAX };
            let (verdicts, any) = apply(&mut record, ids, change, most);
            if !any {
                return Ok(Some(verdicts));
            }
            let split = record.messages.len() > most;
            if split {
                record = MailboxRecord { split, messages: before };
            }
            match self.store.put(&key, expect, as_value(&record), durable || split).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
                Ok(_) if split => {}
                Ok(_) => return Ok(Some(verdicts)),
            }
        }
        Err(busy(&key))
    }

    /// Moves what still stands in a record that is split to the records of its parts.
    async fn divide(&self, shelf: Shelf, stretch: &Stretch, expect: Expect, record: MailboxRecord) -> Result<()> {
        if record.messages.is_empty() {
            return Ok(());
        }
        for (part, messages) in stretch.divided_states(record.messages) {
            let moved = MailboxRecord { split: false, messages };
            match self.store.put(&shelf.key(self.agent, &part), Expect::Absent, as_value(&moved), true).await {
                // Somebody else has moved it already.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => drop(other?),
            }
        }
        let empty = MailboxRecord { split: true, ..MailboxRecord::default() };
        match self.store.put(&shelf.key(self.agent, stretch), expect, as_value(&empty), true).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Changes the states in a record, until it holds more than it should. What became of each, and whether anything changed.
fn apply(
    record: &mut MailboxRecord,
    ids: &BTreeSet<MessageId>,
    change: &Change<'_>,
    most: usize,
) -> (BTreeMap<MessageId, Changed>, bool) {
    let mut any = false;
    let mut verdicts = BTreeMap::new();
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
        if record.messages.len() > most {
            break;
        }
    }
    (verdicts, any)
}

/// Whether a state has to survive a power cut. A record that holds one is never replaced by one that might not be whole
/// after it.
pub(crate) fn is_lasting(state: &MailState) -> bool {
    MailState { retrieved: None, claim: None, ..state.clone() } != MailState::default()
}

pub(super) fn busy(key: &RecordKey) -> Error {
    Error::new(ErrorKind::Backpressure, format!("others kept changing the record `{key}` at the same time"))
        .help("try again")
}
