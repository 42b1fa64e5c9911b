//! An agent's mail: the messages in its mailbox, and what it has done with each.
//!
//! Built on the two things that every store keeps. The messages are the store's; the states are records, one for each
//! day, so that a change costs as much as a day and not as much as a life.

mod changes;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{
    AgentName, ErrorKind, Event, Expect, MailCount, MailState, MailboxRecord, Message, MessageId, Order, Query, Record,
    RecordKey, Result, Since, Store, Target, Timestamp,
};
use futures::StreamExt;
use serde_json::Value;

pub(crate) use changes::{Change, Shelf};
use tally::{DayTally, Tally};

/// A mailbox of at least so many messages keeps its tally also when it was only looked at.
const WORTH_KEEPING: u64 = 256;

/// An agent's mail.
pub(crate) struct Mailbox<'a> {
    store: &'a dyn Store,
    agent: &'a AgentName,
    now: Timestamp,
}

impl<'a> Mailbox<'a> {
    pub(crate) fn new(store: &'a dyn Store, agent: &'a AgentName, now: Timestamp) -> Self {
        Mailbox { store, agent, now }
    }

    fn target(&self) -> Target {
        Target::Agent(self.agent.clone())
    }

    /// A query for messages in this mailbox.
    pub(crate) fn query(&self) -> Query {
        Query::target(self.target())
    }

    /// How much open mail there is.
    pub(crate) async fn count(&self) -> Result<MailCount> {
        Ok(self.tally().await?.1.count(self.now))
    }

    /// The messages that `inbox` shows, the oldest first.
    pub(crate) async fn unread(&self) -> Result<BTreeSet<MessageId>> {
        let (_, tally) = self.tally().await?;
        Ok(tally.unread(self.now).collect())
    }

    /// The messages that are open, read or not.
    pub(crate) async fn open(&self) -> Result<BTreeSet<MessageId>> {
        let (_, tally) = self.tally().await?;
        let mut open = BTreeSet::new();
        for (day, counted) in &tally.days {
            open.extend(counted.unread.keys());
            if counted.read > 0 {
                let record = self.record(&RecordKey::mailbox(self.agent, day)).await?.1;
                let noted = record.messages.iter().filter(|(id, state)| state.is_open() && !counted.gone.contains(id));
                open.extend(noted.filter(|(_, state)| state.is_read()).map(|(id, _)| *id));
            }
        }
        Ok(open)
    }

    /// The messages that are archived.
    pub(crate) async fn archived(&self) -> Result<BTreeSet<MessageId>> {
        let mut archived = BTreeSet::new();
        for record in self.days().await?.values() {
            let shut = record.messages.iter().filter(|(_, state)| state.deleted.is_none() && !state.is_open());
            archived.extend(shut.map(|(id, _)| *id));
        }
        Ok(archived)
    }

    /// What the agent has done with these messages of its mailbox. One without an entry is untouched.
    pub(crate) async fn states(&self, ids: &BTreeSet<MessageId>) -> Result<BTreeMap<MessageId, MailState>> {
        self.states_on(Shelf::Mailbox, ids).await
    }

    /// The same for messages that stand elsewhere: in a topic, or in mailboxes of others.
    pub(crate) async fn states_on(
        &self,
        shelf: Shelf,
        ids: &BTreeSet<MessageId>,
    ) -> Result<BTreeMap<MessageId, MailState>> {
        let mut states = BTreeMap::new();
        for day in days_of(ids) {
            let mut record = self.record(&shelf.key(self.agent, &day)).await?.1;
            record.messages.retain(|id, _| ids.contains(id));
            states.append(&mut record.messages);
        }
        Ok(states)
    }

    /// Messages of this mailbox by their ids.
    pub(crate) async fn messages(&self, ids: BTreeSet<MessageId>) -> Result<Vec<Arc<Message>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        let mut events = self.store.scan(Query { ids, ..self.query() }).await?.messages;
        while let Some(event) = events.next().await {
            if let Event::Message(delivery) = event? {
                found.push(delivery.message);
            }
        }
        Ok(found)
    }

    async fn record(&self, key: &RecordKey) -> Result<(Expect, MailboxRecord)> {
        match self.store.get(key).await? {
            Some(record) => Ok((Expect::Revision(record.revision.clone()), record.decode()?)),
            None => Ok((Expect::Absent, MailboxRecord::default())),
        }
    }

    /// The records of all days.
    async fn days(&self) -> Result<BTreeMap<String, MailboxRecord>> {
        let mut days = BTreeMap::new();
        let mut records = self.store.list(&format!("mailbox/{}", self.agent)).await?;
        while let Some(record) = records.next().await {
            let record = record?;
            if let Some(day) = day_of(&record) {
                days.insert(day, record.decode()?);
            }
        }
        Ok(days)
    }

    /// The tally as it is right now, and what its record has to be for a change of it.
    async fn tally(&self) -> Result<(Expect, Tally)> {
        self.tally_without(&BTreeSet::new()).await
    }

    /// The same, behind the removal of messages by ourselves.
    async fn tally_without(&self, removed: &BTreeSet<MessageId>) -> Result<(Expect, Tally)> {
        let found = self.store.get(&RecordKey::tally(self.agent)).await?;
        let expect = found.as_ref().map_or(Expect::Absent, |record| Expect::Revision(record.revision.clone()));
        // What cannot be understood is as good as no tally.
        let kept = found.and_then(|record| record.decode::<Tally>().ok());
        let settling = kept.as_ref().map(|tally| tally.settling.clone()).unwrap_or_default();
        let advanced = match kept {
            Some(tally) => self.advanced(without(tally, removed)).await?,
            None => None,
        };
        let mut tally = match advanced {
            Some(tally) => tally,
            None => {
                let tally = Tally { settling, ..self.counted().await? };
                return Ok((self.keep(expect, &tally).await, tally));
            }
        };
        let unsettled: Vec<String> = tally.settling.keys().cloned().collect();
        for day in unsettled {
            let counted = self.recounted(&day, tally.days.remove(&day).unwrap_or_default()).await?;
            tally.days.insert(day, counted);
        }
        Ok((expect, tally))
    }

    /// A large mailbox should be read once and not at every look. Where nothing can be written, it is.
    async fn keep(&self, expect: Expect, tally: &Tally) -> Expect {
        if tally.stored < WORTH_KEEPING {
            return expect;
        }
        let kept = self.store.put(&RecordKey::tally(self.agent), expect.clone(), as_value(tally), false).await;
        kept.map_or(expect, Expect::Revision)
    }

    /// The tally with what has arrived since; nothing when it cannot be used any more.
    async fn advanced(&self, mut tally: Tally) -> Result<Option<Tally>> {
        let query = Query { since: Some(Since::Cursor(tally.cursor.clone())), ..self.query() };
        let scan = match self.store.scan(query).await {
            Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::InvalidRequest) => return Ok(None),
            other => other?,
        };
        tally.cursor = scan.cursor;
        self.add_all(&mut tally, scan.messages, &mut BTreeMap::new()).await?;
        let summary = self.store.summary(self.query()).await?;
        let held = summary.targets.iter().map(|target| target.messages).sum::<u64>();
        Ok((held >= tally.stored).then_some(tally))
    }

    /// Counts everything.
    async fn counted(&self) -> Result<Tally> {
        let mut days = self.days().await?;
        let scan = self.store.scan(Query { order: Order::Ascending, ..self.query() }).await?;
        let mut tally = Tally::empty(scan.cursor);
        let stored = self.add_all(&mut tally, scan.messages, &mut days).await?;
        for (day, record) in days {
            let gone: BTreeSet<MessageId> = record.messages.into_keys().filter(|id| !stored.contains(id)).collect();
            if !gone.is_empty() {
                tally.days.entry(day).or_default().gone = gone;
            }
        }
        Ok(tally)
    }

    async fn add_all(
        &self,
        tally: &mut Tally,
        mut messages: fmail_api::MessageStream,
        days: &mut BTreeMap<String, MailboxRecord>,
    ) -> Result<BTreeSet<MessageId>> {
        let mut added = BTreeSet::new();
        while let Some(event) = messages.next().await {
            let Event::Message(delivery) = event? else { continue };
            let (id, expires) = (delivery.message.id, delivery.message.expires);
            let day = id.day();
            if !days.contains_key(&day) {
                days.insert(day.clone(), self.record(&RecordKey::mailbox(self.agent, &day)).await?.1);
            }
            tally.add(id, expires, days.get(&day));
            added.insert(id);
        }
        Ok(added)
    }

    /// One day, counted from its record.
    async fn recounted(&self, day: &str, counted: DayTally) -> Result<DayTally> {
        let record = self.record(&RecordKey::mailbox(self.agent, day)).await?.1;
        let unknown = self.messages(counted.unknown(&record)).await?;
        let expires = unknown.iter().map(|message| (message.id, message.expires)).collect();
        Ok(counted.recounted(&record, &expires))
    }
}

fn without(mut tally: Tally, removed: &BTreeSet<MessageId>) -> Tally {
    for id in removed {
        let day = tally.days.entry(id.day()).or_default();
        day.unread.remove(id);
        if day.gone.insert(*id) {
            tally.stored = tally.stored.saturating_sub(1);
        }
    }
    tally
}

/// The day of a record of states, told by its key.
fn day_of(record: &Record) -> Option<String> {
    let last = record.key.segments().nth(2)?;
    (last.len() == 8 && last.bytes().all(|byte| byte.is_ascii_digit())).then(|| last.to_string())
}

fn days_of(ids: &BTreeSet<MessageId>) -> BTreeSet<String> {
    ids.iter().map(|id| id.day()).collect()
}

fn as_value(value: &impl serde::Serialize) -> Value {
    // Maps with text keys, numbers and texts: there is always a JSON form.
    serde_json::to_value(value).unwrap_or_default()
}
