//! The messages: in order of arrival, and by id.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Cursor, Error, ErrorKind, Identity, Message, MessageId, Order, Query, Result, Selection, Since, Timestamp,
};

/// How long an idempotency key is remembered.
const KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The place of a message in the order of arrival, from the store's first message on.
pub(super) type Position = u64;

/// All messages of the project.
pub(super) struct Messages {
    /// Says which list a cursor belongs to: one of another store or another run is not honoured.
    epoch: String,
    /// In order of arrival; a removed message leaves its place empty, so that positions stay.
    arrivals: VecDeque<Option<Arc<Message>>>,
    /// The position of the first place in `arrivals`: empty places at the front are let go.
    first: Position,
    by_id: BTreeMap<MessageId, Position>,
    by_identity: HashMap<Identity, MessageId>,
    keys: HashMap<String, Arc<Message>>,
    /// When each key was first used, by the clock that does not step.
    key_ages: VecDeque<(Duration, String)>,
    /// The highest id that counts for the next one.
    last: MessageId,
}

/// A query, with its `since` resolved against the messages that were there when it was asked.
pub(super) struct Filter {
    query: Query,
    since: Arrived,
}

/// What `since` asks of a message's place and id.
enum Arrived {
    Whenever,
    FromPosition(Position),
    /// Behind this position, if the message is known, or with a higher id.
    BehindMessage(Option<Position>, MessageId),
}

/// What a scan found.
pub(super) struct Page {
    pub(super) found: Vec<(Position, Arc<Message>)>,
    /// Where a reader continues who has seen this page.
    pub(super) end: Position,
    pub(super) more: bool,
}

impl Messages {
    pub(super) fn new() -> Self {
        Messages {
            // The hasher's keys are random for each process and differ for each hasher, which is all an epoch needs.
            epoch: format!("{:016x}", RandomState::new().hash_one(0)),
            arrivals: VecDeque::new(),
            first: 0,
            by_id: BTreeMap::new(),
            by_identity: HashMap::new(),
            keys: HashMap::new(),
            key_ages: VecDeque::new(),
            last: MessageId::MIN,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The position that the next message will have.
    pub(super) fn end(&self) -> Position {
        self.first + self.arrivals.len() as u64
    }

    pub(super) fn cursor(&self, position: Position) -> Cursor {
        Cursor::new(format!("{}:{position}", self.epoch))
    }

    pub(super) fn cursor_behind(&self, position: Position) -> Cursor {
        self.cursor(position + 1)
    }

    /// Reads a cursor of this store.
    pub(super) fn position(&self, cursor: &Cursor) -> Result<Position> {
        let wrong = || {
            Error::invalid(format!("`{}` is not a cursor of the memory store", cursor.as_str().escape_debug()))
                .help("use a cursor that a scan or a watch of this store has given")
        };
        let (epoch, position) = cursor.as_str().split_once(':').ok_or_else(wrong)?;
        if epoch.len() != self.epoch.len() || !epoch.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let position: Position = position.parse().map_err(|_| wrong())?;
        if epoch == self.epoch && position <= self.end() {
            return Ok(position);
        }
        Err(Error::new(ErrorKind::Expired, "the cursor belongs to an earlier run of the memory store")
            .help("start again from a message id or a time"))
    }

    /// The next id.
    pub(super) fn allocate(&self, now: Timestamp) -> Result<MessageId> {
        MessageId::allocate(self.last, now)
    }

    /// Whether a message of another store may keep this id.
    pub(super) fn accepts_foreign(&self, id: MessageId, now: Timestamp) -> bool {
        !self.by_id.contains_key(&id) && id.is_importable(now)
    }

    /// Whether the message of this identity is here, under whatever id.
    pub(super) fn knows(&self, identity: &Identity) -> bool {
        self.by_identity.contains_key(identity)
    }

    /// Adds a message as the latest arrival. Its id is free.
    pub(super) fn insert(&mut self, message: Arc<Message>) {
        self.last = self.last.max(message.id);
        self.by_id.insert(message.id, self.end());
        self.by_identity.insert(message.identity(), message.id);
        self.arrivals.push_back(Some(message));
    }

    /// The message that was appended with this key in the last 24 hours.
    pub(super) fn with_key(&mut self, key: &str, now: Duration) -> Option<Arc<Message>> {
        while let Some((age, _)) = self.key_ages.front()
            && now.saturating_sub(*age) > KEY_LIFE
        {
            if let Some((_, old)) = self.key_ages.pop_front() {
                self.keys.remove(&old);
            }
        }
        self.keys.get(key).cloned()
    }

    pub(super) fn remember_key(&mut self, key: String, message: Arc<Message>, now: Duration) {
        self.key_ages.push_back((now, key.clone()));
        self.keys.insert(key, message);
    }

    /// The message at a position, unless it was removed.
    pub(super) fn at(&self, position: Position) -> Option<&Arc<Message>> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.arrivals.get(index)?.as_ref()
    }

    /// The first position at or behind `from` that can hold a message.
    pub(super) fn first_held(&self, from: Position) -> Position {
        from.max(self.first)
    }

    /// Everything that a scan delivers, in its order.
    pub(super) fn page(&self, filter: &Filter) -> Page {
        let limit = filter.query.limit.unwrap_or(usize::MAX);
        let fits = |position: Position| {
            let message = self.at(position)?;
            filter.accepts(position, message).then(|| (position, message.clone()))
        };
        // One more than asked for is looked for, to know whether something was left out.
        let wanted = limit.saturating_add(1);
        let mut found: Vec<_> = match filter.query.order {
            Order::Arrival => (filter.start().max(self.first)..self.end()).filter_map(fits).take(wanted).collect(),
            Order::Ascending | Order::Descending if !filter.query.ids.is_empty() => {
                let known = filter.query.ids.iter().rev().filter_map(|id| self.by_id.get(id).copied());
                known.filter_map(fits).take(wanted).collect()
            }
            Order::Ascending | Order::Descending => {
                self.by_id.values().rev().copied().filter_map(fits).take(wanted).collect()
            }
        };
        let more = found.len() > limit;
        found.truncate(limit);
        // A page in order of arrival ends behind its last message, so that the next page starts there. The others hold
        // the newest, and what they left out lies behind the reader.
        let end = match filter.query.order {
            Order::Arrival if more => found.last().map_or(filter.start(), |(position, _)| position + 1),
            _ => self.end(),
        };
        if filter.query.order == Order::Ascending {
            found.reverse();
        }
        Page { found, end, more }
    }

    /// The messages that are to be removed, by id.
    pub(super) fn selected(&self, selection: &Selection) -> Vec<Arc<Message>> {
        let all = self.by_id.values().filter_map(|position| self.at(*position));
        all.filter(|message| selection.selects(message.id, message.time)).cloned().collect()
    }

    /// Takes a message away; tells whether it was there.
    pub(super) fn remove(&mut self, id: MessageId) -> bool {
        let Some(position) = self.by_id.remove(&id) else { return false };
        if let Some(message) = self.arrivals.get_mut((position - self.first) as usize).and_then(Option::take) {
            self.by_identity.remove(&message.identity());
        }
        while let Some(None) = self.arrivals.front() {
            self.arrivals.pop_front();
            self.first += 1;
        }
        true
    }
}

impl Filter {
    pub(super) fn new(query: Query, messages: &Messages) -> Result<Self> {
        let since = match &query.since {
            None | Some(Since::Time(_)) => Arrived::Whenever,
            Some(Since::Cursor(cursor)) => Arrived::FromPosition(messages.position(cursor)?),
            Some(Since::Id(id)) => Arrived::BehindMessage(messages.by_id.get(id).copied(), *id),
        };
        Ok(Filter { query, since })
    }

    /// Where a page in order of arrival starts to look.
    fn start(&self) -> Position {
        match self.since {
            Arrived::FromPosition(position) => position,
            _ => 0,
        }
    }

    pub(super) fn accepts(&self, position: Position, message: &Message) -> bool {
        let arrived = match self.since {
            Arrived::Whenever => true,
            Arrived::FromPosition(from) => position >= from,
            Arrived::BehindMessage(known, id) => known.is_some_and(|known| position > known) || message.id > id,
        };
        arrived
            && self.query.accepts(message)
            && message.targets().iter().any(|target| self.query.scope.contains(target))
    }
}
