//! Delivering what arrives.
//!
//! A watch reads the index from where it stands; events of the kernel only tell it to look again. So nothing depends on
//! an event being complete or in order, and a watcher that reads slowly costs nothing.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use fmail_api::{Cursor, ErrorKind, Event, EventStream, Message, MessageId, Notice, Query, Result, Since, Target};
use futures::Stream;
use rustix::event::EventfdFlags;
use std::os::fd::OwnedFd;

use super::index::{Index, Row, Slot, State, is_damage};
use super::layout;
use super::reader::Reader;
use super::scan::{Position, Sieve, event, expired, read_event};
use super::session::{Session, relock};

mod hub;

pub use hub::is_remote;

/// How many events a watch reads ahead.
const READ_AHEAD: usize = 64;
/// How many messages are kept for watches, and how many bytes of them: those of a few groups.
const MAX_FRESH: usize = 512;
const MAX_FRESH_BYTES: usize = 1024 * 1024;
/// A watch to which nothing fits says how far it is after this many entries.
const PROGRESS_AFTER: u32 = 4096;

/// Wakes the watches of a store: one thread, one set of kernel events, however many watches there are.
pub struct Hub {
    wakers: Mutex<HashMap<u64, Option<Waker>>>,
    next: AtomicU64,
    stop: OwnedFd,
    /// What was found broken while anybody watches, each once.
    broken: Mutex<Vec<(Target, Notice)>>,
    /// What was stored last by this process. The index says what of it is still there.
    fresh: Mutex<Fresh>,
}

/// The newest messages of this process, by their ids.
#[derive(Default)]
struct Fresh {
    messages: HashMap<MessageId, Arc<Message>>,
    /// In the order in which they were stored, with their sizes.
    order: VecDeque<(MessageId, usize)>,
    bytes: usize,
}

impl Fresh {
    fn keep<'m>(&mut self, messages: impl Iterator<Item = (&'m Arc<Message>, usize)>) {
        for (message, bytes) in messages {
            self.messages.insert(message.id, message.clone());
            self.order.push_back((message.id, bytes));
            self.bytes += bytes;
        }
        while self.order.len() > MAX_FRESH || self.bytes > MAX_FRESH_BYTES {
            let Some((id, bytes)) = self.order.pop_front() else { return };
            self.messages.remove(&id);
            self.bytes -= bytes;
        }
    }
}

impl Hub {
    /// Has every watch look again.
    pub fn wake_all(&self) {
        for waker in relock(&self.wakers).values_mut().filter_map(Option::take) {
            waker.wake();
        }
    }

    /// Keeps what was not told before.
    fn tell(&self, notices: Vec<(Target, Notice)>) {
        let mut broken = relock(&self.broken);
        for (target, notice) in notices {
            if !broken.iter().any(|(_, told)| told.text == notice.text) {
                broken.push((target, notice));
            }
        }
    }

    /// Keeps messages that this process has just stored, with their sizes, so that its watches need not read them again.
    pub fn keep<'m>(&self, messages: impl Iterator<Item = (&'m Arc<Message>, usize)>) {
        relock(&self.fresh).keep(messages);
    }

    /// A message that this process has just stored in this mailbox.
    fn fresh(&self, id: MessageId, target: &Target) -> Option<Arc<Message>> {
        let message = relock(&self.fresh).messages.get(&id)?.clone();
        message.targets().contains(target).then_some(message)
    }

    fn register(&self, watch: u64, waker: &Waker) {
        relock(&self.wakers).insert(watch, Some(waker.clone()));
    }
}

impl Session {
    /// Delivers what arrives behind a cursor.
    pub fn watch(self: &Arc<Self>, query: Query, from: &Cursor) -> Result<EventStream> {
        let mut query = Query { limit: None, ..query };
        let mut position = Position::parse(from)?;
        if let Some(Since::Cursor(cursor)) = &query.since {
            // Both are positions: the later one holds, and stays right when the index is rebuilt.
            let since = Position::parse(cursor)?;
            if since.epoch == position.epoch || position == Position::START {
                position.slot = position.slot.max(since.slot);
                position.epoch = since.epoch;
            } else if since != Position::START {
                return Err(expired());
            }
            query.since = None;
        }
        let mut index = None;
        if position.epoch != 0 {
            let top = self.top()?.ok_or_else(expired)?;
            let current = self.index(&top)?;
            let state = current.state()?;
            if current.epoch != position.epoch || position.slot > state.committed {
                return Err(expired());
            }
            position.slot = current.last_part(&state, position.slot)?;
            index = Some(current);
        } else {
            position = Position::START;
        }
        let (hub, id) = self.join_hub()?;
        Ok(Box::pin(Watch {
            session: self.clone(),
            hub,
            id,
            query,
            position,
            index,
            sieve: None,
            missed: VecDeque::new(),
            ready: VecDeque::new(),
            last: MessageId::MIN,
            moved: false,
            quiet: 0,
            told: 0,
            ended: false,
        }))
    }

    /// Becomes one of a hub's watches. It is counted before another one's end can find the hub without any and stop it.
    fn join_hub(self: &Arc<Self>) -> Result<(Arc<Hub>, u64)> {
        let mut hub = relock(&self.hub);
        let joined = match hub.as_ref() {
            Some(hub) => hub.clone(),
            None => hub.insert(self.start_hub()?).clone(),
        };
        let id = joined.next.fetch_add(1, Ordering::Relaxed);
        relock(&joined.wakers).insert(id, None);
        Ok((joined, id))
    }

    fn start_hub(self: &Arc<Self>) -> Result<Arc<Hub>> {
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| fmail_api::Error::io("no event descriptor for watching", &error.into()))?;
        let new = Arc::new(Hub {
            wakers: Mutex::default(),
            next: AtomicU64::new(1),
            stop,
            broken: Mutex::default(),
            fresh: Mutex::default(),
        });
        hub::start(self.clone(), new.clone())?;
        Ok(new)
    }
}

/// One watch.
struct Watch {
    session: Arc<Session>,
    hub: Arc<Hub>,
    id: u64,
    query: Query,
    /// Everything up to here was looked at.
    position: Position,
    /// The index that the position is in.
    index: Option<Arc<Index>>,
    sieve: Option<Sieve>,
    /// Entries of a rebuilt index that were not delivered from the one before.
    missed: VecDeque<u32>,
    ready: VecDeque<Result<Event>>,
    last: MessageId,
    /// The index was rebuilt, and nobody knows yet where in the new one this watch is.
    moved: bool,
    quiet: u32,
    /// How many of the hub's broken files were looked at.
    told: usize,
    ended: bool,
}

impl Stream for Watch {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let watch = &mut *self;
        if watch.ended {
            return Poll::Ready(None);
        }
        if watch.ready.is_empty() {
            // First ask to be woken, then look: what arrives in between wakes us again.
            watch.hub.register(watch.id, context.waker());
            let mut advanced = watch.advance();
            if advanced.as_ref().is_err_and(is_damage) {
                advanced = watch.session.heal().and_then(|()| watch.advance());
            }
            if let Err(error) = advanced {
                watch.ready.push_back(Err(error));
            }
        }
        match watch.ready.pop_front() {
            Some(event) => {
                watch.ended = event.is_err();
                Poll::Ready(Some(event))
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut hub = relock(&self.session.hub);
        let mut wakers = relock(&self.hub.wakers);
        wakers.remove(&self.id);
        if wakers.is_empty() && hub.as_ref().is_some_and(|current| Arc::ptr_eq(current, &self.hub)) {
            *hub = None;
            let _ = rustix::io::write(&self.hub.stop, &1_u64.to_ne_bytes());
        }
    }
}

impl Watch {
    /// Reads what has come since, up to a bound.
    fn advance(&mut self) -> Result<()> {
        self.tell_broken();
        let Some(top) = self.session.top()? else { return Ok(()) };
        if self.session.lacks(&top, layout::INDEX) {
            // The thread that waits for events has it made anew, and wakes us.
            return Ok(());
        }
        let index = match self.session.index(&top) {
            // Someone is at work; its end wakes us.
            Err(error) if error.kind() == ErrorKind::Backpressure => return Ok(()),
            other => other?,
        };
        let state = index.state()?;
        if index.epoch != self.position.epoch {
            self.change_index(&index, &state)?;
        }
        let mut reader = Reader::new(&self.session, &top);
        let mut sieve = match self.sieve.take() {
            Some(sieve) => sieve,
            None => Sieve::new(&self.query, &index, &state)?,
        };
        let mut slots = index.sweep(&state);
        while self.ready.len() < READ_AHEAD {
            let missed = self.missed.pop_front();
            let slot = match missed {
                Some(slot) => slot,
                None if self.position.slot < state.committed => self.position.slot + 1,
                None => break,
            };
            if let Slot::Entry(entry) = slots.get(slot)? {
                if let Some(target) = sieve.accept(&index, &state, slot, &entry)? {
                    let place = Position { epoch: index.epoch, slot };
                    match self.hub.fresh(entry.id, &target) {
                        Some(message) => self.ready.extend(event(&self.query, place, message).map(Ok)),
                        None => self.ready.extend(read_event(&mut reader, &self.query, place, entry.id, &target)),
                    }
                    self.quiet = 0;
                }
                self.last = self.last.max(entry.id);
            }
            if missed.is_none() {
                self.position.slot = slot;
            }
            self.quiet += 1;
            if self.quiet >= PROGRESS_AFTER && self.missed.is_empty() {
                self.quiet = 0;
                self.ready.push_back(Ok(Event::Progress(self.position.cursor())));
            }
        }
        drop(slots);
        self.sieve = Some(sieve);
        self.index = Some(index);
        if self.moved && self.missed.is_empty() {
            // Cursors of the index before are void: who was told nothing since could not go on elsewhere.
            self.moved = false;
            self.ready.push_back(Ok(Event::Progress(self.position.cursor())));
        }
        Ok(())
    }

    /// Tells of files that turned out to be broken where this watch looks.
    fn tell_broken(&mut self) {
        let broken = relock(&self.hub.broken);
        let news = broken[self.told..].iter().filter(|(target, _)| self.query.scope.contains(target));
        self.ready.extend(news.map(|(_, notice)| Ok(Event::Notice(notice.clone()))));
        self.told = broken.len();
    }

    /// Another index took the place of ours. What it holds and ours did not is still to be delivered.
    fn change_index(&mut self, index: &Arc<Index>, state: &State) -> Result<()> {
        self.sieve = None;
        let before = self.position;
        self.position = Position { epoch: index.epoch, slot: state.committed };
        let undelivered = std::mem::take(&mut self.missed);
        if before == Position::START {
            self.position.slot = 0;
            return Ok(());
        }
        self.moved = true;
        let seen = self.index.as_ref().and_then(|old| seen_before(old, before.slot, &undelivered).ok());
        let rows = fingerprints(index, state)?;
        let mut slots = index.sweep(state);
        for slot in 1..=state.committed {
            let Slot::Entry(entry) = slots.get(slot)? else { continue };
            let known = match (&seen, rows.get(&entry.row)) {
                (Some(seen), Some(target)) => seen.binary_search(&(entry.id, *target)).is_ok(),
                // The old index cannot be read any more: what is above the last one delivered is new.
                _ => entry.id <= self.last,
            };
            if !known {
                self.missed.push_back(slot);
            }
        }
        Ok(())
    }
}

/// The mailboxes of an index, by their rows: slot numbers mean nothing in another index.
fn fingerprints(index: &Index, state: &State) -> Result<HashMap<u32, u64>> {
    let fingerprint = |row: &Row| super::index::fingerprint(&row.target.to_string());
    Ok(index.rows(state)?.iter().map(|(number, row)| (*number, fingerprint(row))).collect())
}

/// What an index held up to a slot, apart from what is still to be delivered.
///
/// A sorted list and not a set: a million messages take 16 MB in it, and four times that in a hash table.
fn seen_before(index: &Index, last: u32, undelivered: &VecDeque<u32>) -> Result<Vec<(MessageId, u64)>> {
    let state = index.state()?;
    let rows = fingerprints(index, &state)?;
    let mut slots = index.sweep(&state);
    let mut seen = Vec::with_capacity(last as usize);
    for slot in (1..=last).filter(|slot| undelivered.binary_search(slot).is_err()) {
        if let Slot::Entry(entry) = slots.get(slot)? {
            seen.push((entry.id, rows.get(&entry.row).copied().unwrap_or(0)));
        }
    }
    seen.sort_unstable();
    Ok(seen)
}
