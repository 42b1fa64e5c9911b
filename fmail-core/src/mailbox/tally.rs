//! The tally: how an agent's mail stands, without reading every message and every state.
//!
//! A cache, kept in the record `mailbox/<agent>/tally`. It covers the messages that arrived up to its cursor; what came
//! later is looked at when it is needed. Arrival, not ids, decides: a message that another host stored long ago and that
//! arrives today is behind the cursor, and so it is not missed.
//!
//! Two records change together, that of the states and the tally, and a process may die between them. So whoever changes
//! the states of a stretch of time first notes that in the tally ([`Tally::settling`]), and takes the note away when the
//! tally is right again. A stretch with a note is counted anew by everyone who looks: what the tally has counted of it is
//! in the note, and the difference to what it holds now is what has changed. Who counts reads the tally before the
//! states, and writes the tally only if nobody else has written it since: of two that change the same stretch, the later
//! counts what both did.
//!
//! After a power cut the tally may be older than the states. The files store starts a new order of arrival with every
//! boot, so the cursor of an old tally has expired, and all is counted anew. A store that keeps its order keeps its
//! records in order as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fmail_api::{Cursor, MailCount, MailState, MessageId, Timestamp};
use serde::{Deserialize, Serialize};

use super::stretch::Stretch;
use super::unread::Unread;

/// Whoever noted a change and has not come back for so long is dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// How an agent's mail stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// What arrived up to here is covered.
    pub(super) cursor: Cursor,
    /// How many messages the mailbox held there. If it holds fewer now, somebody removed some, and the tally is void.
    pub(super) stored: u64,
    /// Open and unread, each with its `expires`.
    #[serde(with = "super::unread")]
    pub(super) unread: Unread,
    /// How many are open and read, by the days of their ids.
    pub(super) read: BTreeMap<String, u64>,
    /// Messages whose states say that they are open, and that are no longer stored.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) gone: BTreeSet<MessageId>,
    /// The stretches of time that are being changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) settling: BTreeMap<Stretch, Note>,
}

/// A stretch of time whose states are being changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// How many of its messages the tally has counted as open and read.
    pub(super) read: u64,
    /// By whom it is changed, and since when.
    pub(super) by: BTreeMap<String, Timestamp>,
}

/// States, by message.
pub(super) type States = BTreeMap<MessageId, MailState>;

/// How a state counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// Archived or deleted: not at all.
    Closed,
    /// Open and read.
    Read,
    /// Open and unread.
    Unread,
}

impl Counted {
    /// How this state counts.
    pub(super) fn of(state: &MailState) -> Self {
        match state {
            state if !state.is_open() => Counted::Closed,
            state if state.is_read() => Counted::Read,
            _ => Counted::Unread,
        }
    }
}

impl Tally {
    /// Nothing, up to a cursor.
    pub(super) fn empty(cursor: Cursor) -> Self {
        let (unread, read, gone, settling) = Default::default();
        Tally { cursor, stored: 0, unread, read, gone, settling }
    }

    /// Adds a message that the tally does not cover yet.
    pub(super) fn add(&mut self, id: MessageId, expires: Option<Timestamp>, counted: Counted) {
        match counted {
            Counted::Closed => {}
            Counted::Read => *self.read.entry(id.day()).or_default() += 1,
            Counted::Unread => drop(self.unread.insert(id, expires)),
        }
        self.stored += 1;
    }

    /// How many of these are stored, open and read.
    pub(super) fn read_among(&self, states: &States) -> u64 {
        let counts =
            |(id, state): &(&MessageId, &MailState)| Counted::of(state) == Counted::Read && !self.gone.contains(id);
        states.iter().filter(counts).count() as u64
    }

    /// Notes that somebody is about to change a stretch, in which the tally has counted so many as read. A note on a
    /// longer stretch is as good.
    pub(super) fn settle(&mut self, stretch: &Stretch, read: u64, token: &str, now: Timestamp) {
        let noted = self.settling.keys().find(|noted| noted.covers(stretch)).unwrap_or(stretch).clone();
        let fresh = || Note { read, by: BTreeMap::new() };
        self.settling.entry(noted).or_insert_with(fresh).by.insert(token.into(), now);
    }

    /// Puts one note in place of those on parts of the stretch; whether there were any. All has to be counted anew then.
    /// It happens when a sweep forgot the states of the parts and who had noted them is dead.
    pub(super) fn absorb(&mut self, stretch: &Stretch) -> bool {
        let is_part = |noted: &&Stretch| *noted != stretch && stretch.covers(noted);
        let parts: Vec<Stretch> = self.settling.keys().filter(is_part).cloned().collect();
        for part in &parts {
            let note = self.settling.remove(part).unwrap_or_default();
            self.settling.entry(stretch.clone()).or_default().by.extend(note.by);
        }
        !parts.is_empty()
    }

    /// Takes the notes of one process away, and those of the dead: their stretches have been counted anew. Whether the
    /// process had a note.
    pub(super) fn settled(&mut self, token: &str, now: Timestamp) -> bool {
        let mut found = false;
        for note in self.settling.values_mut() {
            found |= note.by.remove(token).is_some();
            note.by.retain(|_, since| now.since(*since) < DEAD_AFTER);
        }
        self.settling.retain(|_, note| !note.by.is_empty());
        found
    }

    /// The messages of a stretch that its states have as unread and the tally does not know as such: their `expires` is
    /// to be looked up.
    pub(super) fn unknown(&self, states: &States) -> BTreeSet<MessageId> {
        let unread = states.iter().filter(|(_, state)| Counted::of(state) == Counted::Unread).map(|(id, _)| *id);
        unread.filter(|id| !self.unread.contains_key(id) && !self.gone.contains(id)).collect()
    }

    /// Counts a noted stretch anew; `expires` knows what [`Tally::unknown`] asked for, as far as it is stored.
    pub(super) fn recount(
        &mut self,
        stretch: &Stretch,
        states: &States,
        expires: &BTreeMap<MessageId, Option<Timestamp>>,
    ) {
        for id in self.unknown(states) {
            match expires.get(&id) {
                Some(expires) => drop(self.unread.insert(id, *expires)),
                None => drop(self.gone.insert(id)),
            }
        }
        for (id, state) in states {
            if Counted::of(state) != Counted::Unread {
                self.unread.remove(id);
            }
        }
        let read = self.read_among(states);
        let note = self.settling.entry(stretch.clone()).or_default();
        let day = self.read.entry(stretch.as_day().into()).or_default();
        *day = (*day + read).saturating_sub(note.read);
        note.read = read;
        self.read.retain(|_, count| *count > 0);
    }

    /// Every message that is open and unread and not past its time.
    pub(super) fn unread(&self, now: Timestamp) -> impl DoubleEndedIterator<Item = MessageId> {
        let current =
            move |(_, expires): &(&MessageId, &Option<Timestamp>)| expires.is_none_or(|expires| expires > now);
        self.unread.iter().filter(current).map(|(id, _)| *id)
    }

    /// How much there is.
    pub(super) fn count(&self, now: Timestamp) -> MailCount {
        let read: u64 = self.read.values().sum();
        MailCount {
            total: read + self.unread.len() as u64,
            unread: self.unread(now).count() as u64,
            unread_set: MailCount::set_of(self.unread(now)),
        }
    }
}
