//! An agent's mail: the messages in its mailbox, and what it has done with each.
//!
//! Built on the two things that every store keeps. The messages are the store's; the states are records, one for each
//! day and more for a busy one, so that a change costs as much as a few hundred states and not as much as a life.

mod changes;
mod states;
mod stretch;
mod tally;
#[cfg(test)]
mod tests;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use fmail_api::{
    AgentName, ErrorKind, Event, Expect, MailCount, MailState, Message, MessageId, MessageStream, NoticeKind, Order,
    Query, RecordKey, Result, Since, Store, Target, Timestamp,
};
use futures::StreamExt;
use serde_json::Value;

pub(crate) use changes::Change;
use changes::Changed;
pub(crate) use states::{Shelf, is_lasting};
use stretch::Stretch;
use tally::{Counted, Note, Tally};

use crate::notices::Notices;

/// Whoever only looks, and had to look at this many messages, keeps the tally for the next.
const WORTH_KEEPING: u64 = 256;

/// An agent's mail.
pub(crate) struct Mailbox<'a> {
    store: &'a dyn Store,
    agent: &'a AgentName,
    now: Timestamp,
    /// What of it turned out to be broken while it was looked through.
    notices: Mutex<Notices>,
}

impl<'a> Mailbox<'a> {
    pub(crate) fn new(store: &'a dyn Store, agent: &'a AgentName, now: Timestamp) -> Self {
        Mailbox { store, agent, now, notices: Mutex::default() }
    }

    fn target(&self) -> Target {
        Target::Agent(self.agent.clone())
    }

    /// A query for messages in this mailbox.
    pub(crate) fn query(&self) -> Query {
        Query::target(self.target())
    }

    /// What was found broken so far: it is in the mailbox, and not among its messages.
    pub(crate) fn into_notices(self) -> Notices {
        self.notices.into_inner().unwrap_or_else(PoisonError::into_inner)
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
        let mut open: BTreeSet<MessageId> = tally.unread.keys().copied().collect();
        for day in tally.read.keys().filter_map(|day| Stretch::parse(day)) {
            let states = self.states_in(&day).await?;
            let read =
                states.iter().filter(|(id, state)| Counted::of(state) == Counted::Read && !tally.gone.contains(id));
            open.extend(read.map(|(id, _)| *id));
        }
        Ok(open)
    }

    /// The messages that are archived.
    pub(crate) async fn archived(&self) -> Result<BTreeSet<MessageId>> {
        let all = self.all_states(|state| state.deleted.is_none() && !state.is_open()).await?;
        Ok(all.into_iter().filter(|(_, archived)| *archived).map(|(id, _)| id).collect())
    }

    /// What the agent has done with these messages of its mailbox. One without an entry is untouched.
    pub(crate) async fn states(&self, ids: &BTreeSet<MessageId>) -> Result<BTreeMap<MessageId, MailState>> {
        self.states_on(Shelf::Mailbox, ids).await
    }

    /// Messages of this mailbox by their ids.
    pub(crate) async fn messages(&self, ids: BTreeSet<MessageId>) -> Result<Vec<Arc<Message>>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let events = self.store.scan(Query { ids, ..self.query() }).await?.messages;
        let mut found = Vec::new();
        self.each(events, |message| found.push(message.clone())).await?;
        Ok(found)
    }

    /// Goes through the messages of a scan, and keeps what is said of those that are broken.
    async fn each(&self, mut events: MessageStream, mut seen: impl FnMut(&Arc<Message>)) -> Result<()> {
        while let Some(event) = events.next().await {
            match event? {
                Event::Message(delivery) => seen(&delivery.message),
                Event::Notice(notice) if notice.kind == NoticeKind::Broken => {
                    self.notices.lock().unwrap_or_else(PoisonError::into_inner).add(notice);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The messages of a scan, each with its `expires`.
    async fn arrivals(&self, events: MessageStream) -> Result<BTreeMap<MessageId, Option<Timestamp>>> {
        let mut found = BTreeMap::new();
        self.each(events, |message| {
            found.insert(message.id, message.expires);
        })
        .await?;
        Ok(found)
    }

    /// The tally as it was kept, and what its record has to be for a change of it. What cannot be understood is as good
    /// as no tally; what is broken is taken away, since it would be in the way of the next.
    async fn kept(&self) -> Result<(Expect, Option<Tally>)> {
        let key = RecordKey::tally(self.agent);
        match self.store.get(&key).await {
            Ok(Some(record)) => Ok((Expect::Revision(record.revision.clone()), record.decode().ok())),
            Ok(None) => Ok((Expect::Absent, None)),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                // Where nothing can be written, it stays, and is told by whoever lists it.
                let _ = self.store.delete(&key, Expect::Anything).await;
                Ok((Expect::Absent, None))
            }
            Err(error) => Err(error),
        }
    }

    /// The tally as it is right now, and what its record has to be for a change of it.
    async fn tally(&self) -> Result<(Expect, Tally)> {
        self.tally_without(&BTreeSet::new()).await
    }

    /// The same, behind the removal of messages by ourselves.
    async fn tally_without(&self, removed: &BTreeSet<MessageId>) -> Result<(Expect, Tally)> {
        let mut void = None;
        loop {
            let (expect, kept) = self.kept().await?;
            let settling = kept.as_ref().map(|tally| tally.settling.clone()).unwrap_or_default();
            let advanced = match kept {
                Some(tally) => self.advanced(tally, removed).await?,
                None => None,
            };
            match advanced {
                Some((mut tally, added)) => {
                    for stretch in tally.settling.keys().cloned().collect::<Vec<_>>() {
                        self.recount(&mut tally, &stretch).await?;
                    }
                    return Ok((self.keep(expect, &tally, added).await, tally));
                }
                // Perhaps it is only older than what others have done while we looked.
                None if expect != Expect::Absent && void.as_ref() != Some(&expect) => void = Some(expect),
                None => {
                    let tally = self.counted(settling).await?;
                    return Ok((self.keep(expect, &tally, tally.stored).await, tally));
                }
            }
        }
    }

    /// Much that was looked through should be looked through once. Where nothing can be written, it is every time.
    async fn keep(&self, expect: Expect, tally: &Tally, looked_through: u64) -> Expect {
        if looked_through < WORTH_KEEPING {
            return expect;
        }
        let kept = self.store.put(&RecordKey::tally(self.agent), expect.clone(), as_value(tally), false).await;
        kept.map_or(expect, Expect::Revision)
    }

    /// The tally with what has arrived since, and how much that was; nothing when it cannot be used any more.
    async fn advanced(&self, mut tally: Tally, removed: &BTreeSet<MessageId>) -> Result<Option<(Tally, u64)>> {
        let query = Query { since: Some(Since::Cursor(tally.cursor.clone())), ..self.query() };
        let scan = match self.store.scan(query).await {
            Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::InvalidRequest) => return Ok(None),
            other => other?,
        };
        tally.cursor = scan.cursor;
        let arrived = self.arrivals(scan.messages).await?;
        let states = self.states(&arrived.keys().copied().collect()).await?;
        for (id, expires) in &arrived {
            let counted = states.get(id).map_or(Counted::Unread, Counted::of);
            // Nobody reads a message that the tally does not cover: who is about to, brings the tally up to it.
            if counted == Counted::Read {
                return Ok(None);
            }
            tally.add(*id, *expires, counted);
        }
        let summary = self.store.summary(self.query()).await?;
        let held = summary.targets.iter().map(|target| target.messages).sum::<u64>();
        if held < tally.stored {
            tally.unread.retain(|id, _| !removed.contains(id));
            tally.stored = tally.stored.saturating_sub(removed.len() as u64);
        }
        Ok((held >= tally.stored).then_some((tally, arrived.len() as u64)))
    }

    /// Counts everything. What is being settled stays noted, with what was counted of it here.
    async fn counted(&self, settling: BTreeMap<Stretch, Note>) -> Result<Tally> {
        let states = self.all_states(Counted::of).await?;
        let scan = self.store.scan(Query { order: Order::Ascending, ..self.query() }).await?;
        let mut tally = Tally { settling, ..Tally::empty(scan.cursor) };
        let stored = self.arrivals(scan.messages).await?;
        for (id, expires) in &stored {
            tally.add(*id, *expires, states.get(id).copied().unwrap_or(Counted::Unread));
        }
        let open = states.iter().filter(|(_, counted)| **counted != Counted::Closed).map(|(id, _)| *id);
        tally.gone = open.filter(|id| !stored.contains_key(id)).collect();
        for (stretch, note) in &mut tally.settling {
            let read = states
                .range(stretch.ids())
                .filter(|(id, counted)| **counted == Counted::Read && stored.contains_key(id));
            note.read = read.count() as u64;
        }
        Ok(tally)
    }

    /// Counts a noted stretch anew.
    async fn recount(&self, tally: &mut Tally, stretch: &Stretch) -> Result<()> {
        let states = self.states_in(stretch).await?;
        let unknown = self.messages(tally.unknown(&states)).await?;
        let expires = unknown.iter().map(|message| (message.id, message.expires)).collect();
        tally.recount(stretch, &states, &expires);
        Ok(())
    }
}

fn as_value(value: &impl serde::Serialize) -> Value {
    // Maps with text keys, numbers and texts: there is always a JSON form.
    serde_json::to_value(value).unwrap_or_default()
}

/// Where a message stands for an agent; nothing when the agent only sent it.
pub(crate) fn shelf_of(agent: &AgentName, message: &Message) -> Option<Shelf> {
    shelf_among(agent, &message.targets())
}

/// Where a message with these targets stands for an agent.
pub(crate) fn shelf_among(agent: &AgentName, targets: &[Target]) -> Option<Shelf> {
    if targets.iter().any(|target| target.agent() == Some(agent)) {
        return Some(Shelf::Mailbox);
    }
    targets.iter().any(|target| matches!(target, Target::Topic(_))).then_some(Shelf::Topic)
}
