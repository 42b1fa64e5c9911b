//! The tally: how an agent's mail stands, without reading every message and every day.
//!
//! A cache, kept in the record `mailbox/<agent>/tally`. It covers the messages that arrived up to its cursor; what came
//! later is looked at when it is needed. Arrival, not ids, decides: a message that another host stored long ago and that
//! arrives today is behind the cursor, and so it is not missed.
//!
//! Two records change together, a day's states and the tally, and a process may die between them. So whoever changes a
//! day first notes that in the tally ([`Tally::settling`]), and takes the note away when the tally is right again. A day
//! with a note is counted anew by everyone who looks. Who counts reads the tally before the day, and writes the tally
//! only if nobody else has written it since: of two that change the same day, the later counts what both did.
//!
//! After a power cut the tally may be older than the days. The files store starts a new order of arrival with every
//! boot, so the cursor of an old tally has expired, and all is counted anew. A store that keeps its order keeps its
//! records in order as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fmail_api::{Cursor, MailCount, MailboxRecord, MessageId, Timestamp};
use serde::{Deserialize, Serialize};

/// Whoever noted a change and has not come back for so long is dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// How an agent's mail stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// What arrived up to here is covered.
    pub(super) cursor: Cursor,
    /// How many messages the mailbox held there. If it holds fewer now, somebody removed some, and the tally is void.
    pub(super) stored: u64,
    /// By the day of the message's id.
    pub(super) days: BTreeMap<String, DayTally>,
    /// The days that are being changed: by whom, and since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) settling: BTreeMap<String, BTreeMap<String, Timestamp>>,
}

/// How the mail of one day stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DayTally {
    /// Open and unread, each with its `expires`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) unread: BTreeMap<MessageId, Option<Timestamp>>,
    /// How many are open and read.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) read: u64,
    /// Messages that the day's record knows and that are no longer stored.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) gone: BTreeSet<MessageId>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Tally {
    /// Nothing, up to a cursor.
    pub(super) fn empty(cursor: Cursor) -> Self {
        Tally { cursor, stored: 0, days: BTreeMap::new(), settling: BTreeMap::new() }
    }

    /// Adds a message that the tally does not cover yet.
    pub(super) fn add(&mut self, id: MessageId, expires: Option<Timestamp>, record: Option<&MailboxRecord>) {
        let day = self.days.entry(id.day()).or_default();
        match record.and_then(|record| record.messages.get(&id)) {
            Some(state) if !state.is_open() => {}
            Some(state) if state.is_read() => day.read += 1,
            _ => drop(day.unread.insert(id, expires)),
        }
        self.stored += 1;
    }

    /// Notes that somebody is about to change these days.
    pub(super) fn settle<'a>(&mut self, days: impl IntoIterator<Item = &'a String>, token: &str, now: Timestamp) {
        for day in days {
            self.settling.entry(day.clone()).or_default().insert(token.into(), now);
        }
    }

    /// Takes a note away, and those of the dead. The days must have been counted anew.
    pub(super) fn settled(&mut self, token: &str, now: Timestamp) {
        for notes in self.settling.values_mut() {
            notes.retain(|noted, since| noted != token && now.since(*since) < DEAD_AFTER);
        }
        self.settling.retain(|_, notes| !notes.is_empty());
    }

    /// Every message that is open and unread and not past its time.
    pub(super) fn unread(&self, now: Timestamp) -> impl DoubleEndedIterator<Item = MessageId> {
        let unread = self.days.values().flat_map(|day| &day.unread);
        unread.filter(move |(_, expires)| expires.is_none_or(|expires| expires > now)).map(|(id, _)| *id)
    }

    /// How much there is.
    pub(super) fn count(&self, now: Timestamp) -> MailCount {
        let open: usize = self.days.values().map(|day| day.unread.len()).sum();
        let read: u64 = self.days.values().map(|day| day.read).sum();
        MailCount { total: read + open as u64, unread: self.unread(now).count() as u64 }
    }
}

impl DayTally {
    /// The messages of the day that are stored, as far as the tally and the day's record tell.
    fn stored<'a>(&'a self, record: &'a MailboxRecord) -> impl Iterator<Item = MessageId> + 'a {
        let noted = record.messages.keys().filter(|id| !self.gone.contains(id) && !self.unread.contains_key(id));
        self.unread.keys().chain(noted).copied()
    }

    /// Messages that the record has as unread and the tally does not know as such: their `expires` is to be looked up.
    pub(super) fn unknown(&self, record: &MailboxRecord) -> BTreeSet<MessageId> {
        let unread = |id: &MessageId| record.messages.get(id).is_none_or(|state| state.is_open() && !state.is_read());
        self.stored(record).filter(|id| !self.unread.contains_key(id) && unread(id)).collect()
    }

    /// The day counted anew; `expires` knows what [`DayTally::unknown`] asked for.
    pub(super) fn recounted(&self, record: &MailboxRecord, expires: &BTreeMap<MessageId, Option<Timestamp>>) -> Self {
        let mut counted = DayTally { gone: self.gone.clone(), ..DayTally::default() };
        for id in self.stored(record) {
            match record.messages.get(&id) {
                Some(state) if !state.is_open() => {}
                Some(state) if state.is_read() => counted.read += 1,
                _ => match self.unread.get(&id).or_else(|| expires.get(&id)) {
                    Some(expires) => drop(counted.unread.insert(id, *expires)),
                    None => drop(counted.gone.insert(id)),
                },
            }
        }
        counted
    }
}
