//! What is kept in memory of every message: where it stands, and all that a query can ask for, but no body.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use fmail_api::{AgentName, Identity, Message, MessageId, Order, Query, Selection, Since, Target, Timestamp};

/// How long an idempotency key is remembered.
const KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known of one message.
pub(super) struct Known {
    pub(super) id: MessageId,
    pub(super) time: Timestamp,
    pub(super) targets: Vec<Target>,
    /// How long its entry is: bodies are read in batches of a bounded size.
    pub(super) bytes: usize,
    from: AgentName,
    thread: Option<String>,
    key: Option<String>,
    identity: Identity,
}

/// All messages of the log.
pub(super) struct Index {
    by_position: BTreeMap<u64, Known>,
    by_id: BTreeMap<MessageId, u64>,
    by_identity: HashMap<Identity, u64>,
    keys: HashMap<String, u64>,
    /// When each key was used, by the clock that does not step.
    key_ages: VecDeque<(Duration, String)>,
    /// The highest id that counts for the next one; removed messages count.
    last: MessageId,
}

/// The time by both clocks.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) time: Timestamp,
    pub(super) since_boot: Duration,
}

/// A query, with its `since` resolved against the messages that were there when it was asked.
pub(super) struct Filter {
    query: Query,
    since: Arrived,
}

/// What `since` asks of a message's position and id.
enum Arrived {
    Whenever,
    BehindPosition(u64),
    /// Behind this position, if the message is known, or with a higher id.
    BehindMessage(Option<u64>, MessageId),
}

/// What a scan found.
pub(super) struct Page {
    /// Where the messages stand, in the order of their delivery.
    pub(super) positions: Vec<u64>,
    /// The last position that a reader has seen who has seen this page, unless it is the log's end.
    pub(super) end: Option<u64>,
    pub(super) more: bool,
}

impl Index {
    pub(super) fn new() -> Self {
        Index {
            by_position: BTreeMap::new(),
            by_id: BTreeMap::new(),
            by_identity: HashMap::new(),
            keys: HashMap::new(),
            key_ages: VecDeque::new(),
            last: MessageId::MIN,
        }
    }

    /// Nothing of what was, but no id is given twice.
    pub(super) fn emptied(&self) -> Self {
        Index { last: self.last, ..Index::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_position.len()
    }

    /// The highest id so far.
    pub(super) fn last(&self) -> MessageId {
        self.last
    }

    pub(super) fn at(&self, position: u64) -> Option<&Known> {
        self.by_position.get(&position)
    }

    pub(super) fn holds_id(&self, id: MessageId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Whether the message of this identity is here, under whatever id.
    pub(super) fn knows(&self, identity: &Identity) -> bool {
        self.by_identity.contains_key(identity)
    }

    /// Adds the message that stands at a position behind all others. `keyed`: its key, if any, is now used.
    pub(super) fn insert(&mut self, position: u64, bytes: usize, message: &Message, keyed: bool, now: Now) {
        let known = Known {
            id: message.id,
            time: message.time,
            targets: message.targets(),
            bytes,
            from: message.from.clone(),
            thread: message.thread.clone(),
            key: message.key.clone().filter(|_| keyed),
            identity: message.identity(),
        };
        self.last = self.last.max(known.id);
        // The age by the clock on the wall, for what was written before this process began.
        let age = now.time.since(known.time);
        if let Some(key) = &known.key
            && age <= KEY_LIFE
        {
            self.key_ages.push_back((now.since_boot.saturating_sub(age), key.clone()));
            self.keys.insert(key.clone(), position);
        }
        self.by_id.insert(known.id, position);
        self.by_identity.insert(known.identity, position);
        self.by_position.insert(position, known);
    }

    /// Takes a message away. Gives the position of its entry when that is of no further use: a key of the last 24 hours
    /// still answers with its message.
    pub(super) fn remove(&mut self, id: MessageId) -> Option<u64> {
        // Even of a message that was never seen here: its id was used.
        self.last = self.last.max(id);
        let position = self.by_id.remove(&id)?;
        let known = self.by_position.remove(&position)?;
        self.by_identity.remove(&known.identity);
        let answers = known.key.is_some_and(|key| self.keys.get(&key) == Some(&position));
        (!answers).then_some(position)
    }

    /// Where the message stands that was appended with this key in the last 24 hours.
    pub(super) fn with_key(&self, key: &str) -> Option<u64> {
        self.keys.get(key).copied()
    }

    /// Forgets a key.
    pub(super) fn forget_key(&mut self, key: &str) {
        self.keys.remove(key);
    }

    /// Forgets keys that are old enough, and gives the positions of removed messages that were kept for them.
    pub(super) fn expire_keys(&mut self, since_boot: Duration) -> Vec<u64> {
        let mut free = Vec::new();
        while let Some((age, _)) = self.key_ages.front()
            && since_boot.saturating_sub(*age) > KEY_LIFE
        {
            let Some((_, key)) = self.key_ages.pop_front() else { break };
            free.extend(self.keys.remove(&key).filter(|position| !self.by_position.contains_key(position)));
        }
        free
    }

    /// Everything that a scan delivers, in its order.
    pub(super) fn page(&self, filter: &Filter) -> Page {
        let limit = filter.query.limit.unwrap_or(usize::MAX);
        let fits = |position: &u64| self.at(*position).is_some_and(|known| filter.accepts(*position, known));
        // One more than asked for is looked for, to know whether something was left out.
        let wanted = limit.saturating_add(1);
        let mut positions: Vec<u64> = match filter.query.order {
            Order::Arrival => self.behind(filter.start()).map(|(p, _)| p).filter(fits).take(wanted).collect(),
            Order::Ascending | Order::Descending if !filter.query.ids.is_empty() => {
                let known = filter.query.ids.iter().rev().filter_map(|id| self.by_id.get(id).copied());
                known.filter(fits).take(wanted).collect()
            }
            Order::Ascending | Order::Descending => {
                self.by_id.values().rev().copied().filter(fits).take(wanted).collect()
            }
        };
        let more = positions.len() > limit;
        positions.truncate(limit);
        // A page in order of arrival ends behind its last message, so that the next page starts there. The others hold
        // the newest, and what they left out lies behind the reader.
        let end = match filter.query.order {
            Order::Arrival if more => Some(positions.last().copied().unwrap_or(filter.start())),
            _ => None,
        };
        if filter.query.order == Order::Ascending {
            positions.reverse();
        }
        Page { positions, end, more }
    }

    /// The messages behind a position, in order of arrival.
    pub(super) fn behind(&self, position: u64) -> impl Iterator<Item = (u64, &Known)> {
        self.by_position
            .range((Bound::Excluded(position), Bound::Unbounded))
            .map(|(position, known)| (*position, known))
    }

    /// The ids that are to be removed, in order.
    pub(super) fn selected(&self, selection: &Selection) -> Vec<MessageId> {
        let selects = |known: &&Known| selection.selects(known.id, known.time);
        self.by_id.values().filter_map(|position| self.at(*position)).filter(selects).map(|known| known.id).collect()
    }

    /// What is known of the message with this id.
    pub(super) fn with_id(&self, id: MessageId) -> Option<&Known> {
        self.at(*self.by_id.get(&id)?)
    }
}

impl Filter {
    /// The filter of a query; `position` reads its cursor.
    pub(super) fn new(query: Query, index: &Index, since: Option<u64>) -> Self {
        let since = match (&query.since, since) {
            (_, Some(position)) => Arrived::BehindPosition(position),
            (Some(Since::Id(id)), None) => Arrived::BehindMessage(index.by_id.get(id).copied(), *id),
            _ => Arrived::Whenever,
        };
        Filter { query, since }
    }

    /// Behind which position a page in order of arrival starts to look.
    pub(super) fn start(&self) -> u64 {
        match self.since {
            Arrived::BehindPosition(position) => position,
            _ => 0,
        }
    }

    /// Whether the query names its messages, so that nothing else is of interest.
    pub(super) fn names_ids(&self) -> bool {
        !self.query.ids.is_empty() || self.query.id_suffix.is_some()
    }

    pub(super) fn accepts(&self, position: u64, known: &Known) -> bool {
        let arrived = match self.since {
            Arrived::Whenever => true,
            Arrived::BehindPosition(from) => position > from,
            Arrived::BehindMessage(place, id) => place.is_some_and(|place| position > place) || known.id > id,
        };
        let query = &self.query;
        arrived
            && query.accepts_id(known.id)
            && query.accepts_time(known.time)
            && query.from.as_ref().is_none_or(|from| *from == known.from)
            && query.thread.as_ref().is_none_or(|thread| Some(thread) == known.thread.as_ref())
            && known.targets.iter().any(|target| query.scope.contains(target))
    }
}
