//! Reading what is stored.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

use fmail_api::{
    Cursor, Delivery, Error, ErrorKind, Event, Message, MessageId, MessageStream, Notice, NoticeKind, Order, Query,
    Result, Scan, Scope, Since, Summary, Target, TargetSummary, Timestamp,
};
use futures::StreamExt;
use futures::stream;

use super::arrivals::{Arrivals, TOGETHER};
use super::fs::Dir;
use super::index::{Entry, Index, Slot, State, fingerprint};
use super::layout;
use super::newest::Newest;
use super::reader::{Found, Reader, unusable_dir};
use super::session::Session;

/// A place in the order of arrival: an epoch and a slot. Epoch 0 is before the first index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub epoch: u64,
    pub slot: u32,
}

impl Position {
    /// Before everything.
    pub const START: Position = Position { epoch: 0, slot: 0 };

    pub fn cursor(self) -> Cursor {
        Cursor::new(format!("{:016x}:{}", self.epoch, self.slot))
    }

    pub fn parse(cursor: &Cursor) -> Result<Position> {
        let parse = || {
            let (epoch, slot) = cursor.as_str().split_once(':')?;
            (epoch.len() == 16).then_some(())?;
            Some(Position { epoch: u64::from_str_radix(epoch, 16).ok()?, slot: slot.parse().ok()? })
        };
        parse().ok_or_else(|| {
            Error::invalid(format!("`{}` is not a cursor of this store", cursor.as_str().escape_debug()))
                .help("use a cursor as a scan or a watch gave it")
        })
    }
}

pub fn expired() -> Error {
    Error::new(ErrorKind::Expired, "the cursor is from before the index was rebuilt")
        .help("start again from a message id or a time")
}

/// Decides, entry by entry, what belongs to a query.
pub struct Sieve {
    query: Query,
    from: u64,
    thread: u64,
    /// Entries behind this slot fit `since`.
    after_slot: u32,
    /// Entries with a higher id fit `since` as well.
    after_id: Option<MessageId>,
    /// Shared, since a list of very many places names few mailboxes.
    rows: HashMap<u32, Option<Arc<Target>>>,
}

impl Sieve {
    pub fn new(query: &Query, index: &Index, state: &State) -> Result<Sieve> {
        let (after_slot, after_id) = match &query.since {
            None | Some(Since::Time(_)) => (0, None),
            Some(Since::Cursor(cursor)) => match Position::parse(cursor)? {
                Position::START => (0, None),
                position if position.epoch == index.epoch && position.slot <= state.committed => {
                    (index.last_part(state, position.slot)?, None)
                }
                _ => return Err(expired()),
            },
            Some(Since::Id(id)) => {
                let place = index.find(state, *id)?.iter().map(|(slot, _)| *slot).max();
                (place.unwrap_or(u32::MAX), Some(*id))
            }
        };
        Ok(Sieve {
            from: query.from.as_ref().map_or(0, |from| fingerprint(from.as_str())),
            thread: query.thread.as_deref().map_or(0, fingerprint),
            query: query.clone(),
            after_slot,
            after_id,
            rows: HashMap::new(),
        })
    }

    /// The mailbox of a row, if it belongs to the scope.
    fn target(&mut self, index: &Index, row: u32) -> Result<Option<Arc<Target>>> {
        if let Some(known) = self.rows.get(&row) {
            return Ok(known.clone());
        }
        let target = Some(index.row(row)?.target).filter(|target| self.query.scope.contains(target)).map(Arc::new);
        self.rows.insert(row, target.clone());
        Ok(target)
    }

    /// Where to read the message of an entry, if it fits. One that stands in several places is read at the first.
    pub fn accept(&mut self, index: &Index, state: &State, slot: u32, entry: &Entry) -> Result<Option<Arc<Target>>> {
        let fits = !entry.removed
            && (slot > self.after_slot || self.after_id.is_some_and(|id| entry.id > id))
            && (self.from == 0 || self.from == entry.from)
            && (self.thread == 0 || self.thread == entry.thread)
            && self.query.accepts_id(entry.id)
            && self.query.accepts_time(Timestamp::from_unix_nanos(entry.time));
        if !fits {
            return Ok(None);
        }
        let Some(target) = self.target(index, entry.row)? else { return Ok(None) };
        for part in 1..=entry.part {
            let earlier = index.chain(state).entry(slot - u32::from(part))?;
            if !earlier.removed && self.target(index, earlier.row)?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(target))
    }

    /// The first slot that can fit, when going by arrival.
    fn first_slot(&self, index: &Index, state: &State) -> Result<u32> {
        match self.after_id {
            None => Ok(self.after_slot.saturating_add(1)),
            Some(id) => {
                let behind = index.first_at_least(state, id.next())?;
                let early =
                    index.irregular(state)?.into_iter().filter(|(_, entry)| entry.id > id).map(|(slot, _)| slot);
                Ok(early.chain([behind, self.after_slot.saturating_add(1)]).min().unwrap_or(1))
            }
        }
    }
}

/// Where a message is to be read: slot, id and mailbox.
pub type Place = (u32, MessageId, Arc<Target>);

/// What a scan has chosen, in the order of delivery.
struct Chosen {
    places: VecDeque<Place>,
    more: bool,
}

impl Session {
    /// Chooses what fits and delivers it as it is asked for.
    pub fn scan(self: &Arc<Self>, query: Query) -> Result<Scan> {
        let Some(top) = self.top()? else {
            if let Some(Since::Cursor(cursor)) = &query.since
                && Position::parse(cursor)? != Position::START
            {
                return Err(expired());
            }
            return Ok(Scan { cursor: Position::START.cursor(), more: false, messages: stream::empty().boxed() });
        };
        self.check_access(&top, &query.scope)?;
        let looked = self.look(&top, &query.scope, &[], self.patience())?;
        let index = looked.index;
        let state = index.state()?;
        let mut sieve = Sieve::new(&query, &index, &state)?;
        let mut notices: Vec<_> = looked.notices.into_iter().map(|(_, notice)| notice).collect();
        notices.extend(self.hidden_mailbox(&top, &query.scope));
        let notices = stream::iter(notices.into_iter().map(|notice| Ok(Event::Notice(notice))));
        let (epoch, end) = (index.epoch, Position { epoch: index.epoch, slot: state.committed });
        if query.order == Order::Arrival && query.limit.is_none() {
            let first = sieve.first_slot(&index, &state)?;
            if state.committed.saturating_sub(first) >= TOGETHER {
                let arrivals = Arrivals::new(index, state, sieve, first)?;
                let messages = notices.chain(self.deliver(query, epoch, &top, arrivals)).boxed();
                return Ok(Scan { cursor: end.cursor(), more: false, messages });
            }
        }
        if query.order == Order::Descending && query.limit.is_none() && query.ids.is_empty() {
            let first = first_for(&query)?;
            if !matches!(query.scope, Scope::Target(_)) && state.committed.saturating_sub(first) >= TOGETHER {
                let newest = Newest::new(index, state, sieve, first)?;
                let messages = notices.chain(self.deliver(query, epoch, &top, newest)).boxed();
                return Ok(Scan { cursor: end.cursor(), more: false, messages });
            }
        }
        let chosen = choose(&query, &index, &state, &mut sieve)?;
        // By arrival, a limit ends the scan before the end of the index: the next page begins there.
        let last = chosen.places.back().filter(|_| chosen.more && query.order == Order::Arrival);
        let cursor = last.map_or(end, |(slot, _, _)| Position { epoch, slot: *slot }).cursor();
        let messages = self.deliver(query, epoch, &top, chosen.places.into_iter().map(Ok));
        Ok(Scan { cursor, more: chosen.more, messages: notices.chain(messages).boxed() })
    }

    /// A mailbox of another user is an error, not an empty list.
    fn check_access(&self, top: &Dir, scope: &Scope) -> Result<()> {
        let Scope::Target(target) = scope else { return Ok(()) };
        let (parent, name, _) = layout::target_dir(target);
        let opened = self.fs().open_dir(top, parent).and_then(|dir| self.fs().open_dir(&dir, name));
        match opened {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let error = unusable_dir(parent, name, &error);
                Err(if target.is_direct() {
                    error.help("direct messages can be read only by the user who owns the project")
                } else {
                    error
                })
            }
            _ => Ok(()),
        }
    }

    /// What to say when direct messages are asked for among others, and belong to another user.
    fn hidden_mailbox(&self, top: &Dir, scope: &Scope) -> Option<Notice> {
        let (Scope::Visible(_) | Scope::All) = scope else { return None };
        match self.fs().open_dir(top, layout::DIRECT) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Some(Notice::new(
                NoticeKind::Hidden,
                "direct messages are not shown: .fmail/dm can be read only by the user who owns the project",
            )),
            _ => None,
        }
    }

    fn deliver<P>(&self, query: Query, epoch: u64, top: &Dir, places: P) -> MessageStream
    where
        P: Iterator<Item = Result<Place>> + Send + 'static,
    {
        let mut reader = Reader::new(self, top);
        let events = places.flat_map(move |place| match place {
            Ok((slot, id, target)) => read_event(&mut reader, &query, Position { epoch, slot }, id, &target),
            Err(error) => vec![Err(error)],
        });
        stream::iter(events).boxed()
    }

    /// Counts from the index alone when nothing but the scope is asked.
    pub async fn summary(self: &Arc<Self>, query: Query) -> Result<Summary> {
        let plain = Query { scope: query.scope.clone(), ..Query::default() };
        if query != plain {
            let messages = self.healing(|| self.scan(query.clone()))?.messages;
            return fmail_api::summarise(&query.scope, messages).await;
        }
        self.healing(|| self.count(&query))
    }

    fn count(&self, query: &Query) -> Result<Summary> {
        let Some(top) = self.top()? else { return Ok(Summary::default()) };
        self.check_access(&top, &query.scope)?;
        let looked = self.look(&top, &query.scope, &[], self.patience())?;
        for (_, notice) in looked.notices {
            (self.options.reporter)(notice);
        }
        let state = looked.index.state()?;
        let mut targets: Vec<TargetSummary> = looked
            .index
            .rows(&state)?
            .into_iter()
            .filter(|(_, row)| row.live > 0 && query.scope.contains(&row.target))
            .map(|(_, row)| TargetSummary {
                target: row.target,
                messages: u64::from(row.live),
                last: MessageId::from_ticks(row.last_id).unwrap_or(MessageId::MIN),
                last_time: Timestamp::from_unix_nanos(row.last_time),
            })
            .collect();
        targets.sort_unstable_by(|one, two| one.target.cmp(&two.target));
        Ok(Summary { targets })
    }
}

/// The event of a message, if it is asked for.
pub fn event(query: &Query, position: Position, message: Arc<Message>) -> Option<Event> {
    query.accepts(&message).then(|| Event::Message(Delivery::new(message, position.cursor())))
}

/// Reads one message and says what a reader of the query gets for it.
pub fn read_event(
    reader: &mut Reader,
    query: &Query,
    position: Position,
    id: MessageId,
    target: &Target,
) -> Vec<Result<Event>> {
    match reader.read(target, id) {
        Ok(Found::Message(message, odd)) if query.accepts(&message) => {
            let mut events: Vec<Result<Event>> = odd.into_iter().map(|notice| Ok(Event::Notice(notice))).collect();
            events.extend(event(query, position, Arc::new(*message)).map(Ok));
            events
        }
        Ok(Found::Message(..) | Found::Gone) => Vec::new(),
        Ok(Found::Broken(notice)) => vec![Ok(Event::Notice(notice))],
        Err(error) => vec![Err(error)],
    }
}

fn choose(query: &Query, index: &Index, state: &State, sieve: &mut Sieve) -> Result<Chosen> {
    let mut places = VecDeque::new();
    let limit = query.limit.unwrap_or(usize::MAX);
    let mut more = false;
    let mut take = |sieve: &mut Sieve, slot: u32, entry: &Entry| -> Result<bool> {
        if let Some(target) = sieve.accept(index, state, slot, entry)? {
            if places.len() == limit {
                more = true;
                return Ok(false);
            }
            places.push_back((slot, entry.id, target));
        }
        Ok(true)
    };
    if query.order == Order::Arrival {
        let mut slots = index.sweep(state);
        for slot in sieve.first_slot(index, state)?..=state.committed {
            match slots.get(slot)? {
                Slot::Entry(entry) if !take(sieve, slot, &entry)? => break,
                _ => {}
            }
        }
        return Ok(Chosen { places, more });
    }
    // Newest first: what is in order comes backwards by itself, what is not is merged in by id.
    let mut irregular = index.irregular(state)?;
    irregular.sort_unstable_by_key(|(slot, entry)| (entry.id, *slot));
    let mut regular = Backwards::new(query, index, state)?;
    let mut next = regular.next()?;
    loop {
        let early = match (&next, irregular.last()) {
            (None, None) => break,
            (Some((slot, entry)), Some((other, odd))) => (odd.id, *other) > (entry.id, *slot),
            (regular, _) => regular.is_none(),
        };
        let going_on = if early {
            irregular.pop().map_or(Ok(true), |(slot, entry)| take(sieve, slot, &entry))?
        } else {
            let found = next.take();
            next = regular.next()?;
            found.map_or(Ok(true), |(slot, entry)| take(sieve, slot, &entry))?
        };
        if !going_on {
            break;
        }
    }
    if query.order == Order::Ascending {
        places.make_contiguous().reverse();
    }
    Ok(Chosen { places, more })
}

/// The first slot that can fit, when going by id: a time or an id may stand anywhere.
fn first_for(query: &Query) -> Result<u32> {
    match &query.since {
        Some(Since::Cursor(cursor)) => Ok(Position::parse(cursor)?.slot.saturating_add(1)),
        _ => Ok(1),
    }
}

/// The entries that are in order, the newest first: along a mailbox's chain, by known ids, or over everything.
enum Backwards<'a> {
    Chain(super::index::Slots<'a>, u32, u32),
    Sweep(super::index::Slots<'a>, u32, u32),
    Listed(Vec<(u32, Entry)>),
}

impl<'a> Backwards<'a> {
    fn new(query: &Query, index: &'a Index, state: &State) -> Result<Self> {
        if !query.ids.is_empty() {
            return Ok(Backwards::Listed(index.find_all(state, &query.ids)?));
        }
        let first = first_for(query)?;
        if let Scope::Target(target) = &query.scope {
            let row = index.find_row(state, target)?;
            let newest = row.map_or(0, |(_, row)| row.newest);
            return Ok(Backwards::Chain(index.chain(state), first, newest));
        }
        Ok(Backwards::Sweep(index.sweep(state), first, state.committed))
    }

    fn next(&mut self) -> Result<Option<(u32, Entry)>> {
        match self {
            Backwards::Listed(list) => Ok(list.pop()),
            Backwards::Chain(slots, first, number) => {
                // Along a chain slots fall: behind the first that can fit there is nothing more to find.
                while *number >= *first {
                    // A writer may have chained an entry that was not committed when we looked: skip back over it.
                    let at = *number;
                    let entry = slots.entry_even_uncommitted(at)?;
                    *number = entry.previous;
                    if !entry.irregular && slots.holds(at) {
                        return Ok(Some((at, entry)));
                    }
                }
                Ok(None)
            }
            Backwards::Sweep(slots, first, number) => {
                while *number >= *first && *number > 0 {
                    let at = *number;
                    *number -= 1;
                    match slots.get(at)? {
                        Slot::Entry(entry) if !entry.irregular => return Ok(Some((at, entry))),
                        _ => {}
                    }
                }
                Ok(None)
            }
        }
    }
}
