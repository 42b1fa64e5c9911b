//! The calls that we have made, and what the other side says about them.
//!
//! A call is a number from a counter that never goes back, and an entry in a table for as long as an answer is wanted.
//! Whatever the other side says about a number that is not in the table finds nothing: a late answer, a second one, one
//! that was made up. It is counted and has no other effect.
//!
//! The answer has a place of its own beside the queue of items, so that a stream which delivers too much can never be
//! taken for one that has ended.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures::Stream;

use crate::peer::{Observer, Peer};
use crate::status;
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// So many items may be on their way or waiting in one stream.
const WINDOW: u32 = 64;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// A status of [`crate::status`], or any number that the other side made up.
    pub status: i32,
    /// The answer, or what went wrong.
    pub body: Vec<u8>,
}

/// What the other side said that had no effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers and items for a call that is over or was given up.
    pub late: u64,
    /// Answers and items for a number that was never given out.
    pub forged: u64,
    /// Items beyond what was asked for; thrown away.
    pub excess: u64,
}

/// The table of the calls under way.
pub struct Calls {
    table: Mutex<Table>,
    observer: Option<Box<dyn Observer>>,
}

struct Table {
    /// The last number that was given out.
    last: u64,
    open: BTreeMap<u64, Arc<Slot>>,
    counters: Counters,
    /// Set once nothing is called any more: what every further call is answered with.
    closed: Option<Answer>,
}

/// One call under way.
struct Slot(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    answer: Option<Answer>,
    items: VecDeque<Vec<u8>>,
    /// Items that may still come.
    credit: u32,
    /// Items that were taken and not yet asked for again.
    taken: u32,
    waker: Option<Waker>,
}

impl Default for Calls {
    fn default() -> Self {
        Calls::new()
    }
}

impl Calls {
    /// A table without any call.
    pub fn new() -> Self {
        let table = Table { last: 0, open: BTreeMap::new(), counters: Counters::default(), closed: None };
        Calls { table: Mutex::new(table), observer: None }
    }

    /// The same table, whose answers are told to `observer` as they come, with or without effect.
    #[must_use]
    pub fn observed(self, observer: Box<dyn Observer>) -> Self {
        Calls { observer: Some(observer), ..self }
    }

    /// Makes a call. It has begun when this returns, and perhaps been answered.
    pub fn call(self: &Arc<Self>, peer: &Arc<dyn Peer>, method: &str, context: &[u8], request: &[u8]) -> Call {
        let (call, open) = self.register(peer);
        if open {
            peer.call(call.id, method, context, request);
        }
        call
    }

    /// Makes a call that streams.
    pub fn stream(self: &Arc<Self>, peer: &Arc<dyn Peer>, method: &str, context: &[u8], request: &[u8]) -> Items {
        let (call, open) = self.register(peer);
        if open {
            lock(&call.slot.0).credit = WINDOW;
            peer.call(call.id, method, context, request);
            peer.pull(call.id, WINDOW);
        }
        Items { call: Some(call) }
    }

    /// Gives out a number for something that is no `call`, such as the making of an instance: `begin` starts it.
    pub fn begin(self: &Arc<Self>, peer: &Arc<dyn Peer>, begin: impl FnOnce(u64)) -> Call {
        let (call, open) = self.register(peer);
        if open {
            begin(call.id);
        }
        call
    }

    /// Enters a call; false: the table is closed, and the call is answered.
    fn register(self: &Arc<Self>, peer: &Arc<dyn Peer>) -> (Call, bool) {
        let slot = Arc::new(Slot(Mutex::default()));
        let mut table = lock(&self.table);
        table.last += 1;
        let id = table.last;
        let open = table.closed.is_none();
        match &table.closed {
            Some(answer) => lock(&slot.0).answer = Some(answer.clone()),
            None => drop(table.open.insert(id, slot.clone())),
        }
        drop(table);
        (Call { id, slot, answered: false, calls: self.clone(), peer: peer.clone() }, open)
    }

    /// The other side answers.
    pub fn done(&self, id: u64, status: i32, body: &[u8]) {
        if let Some(observer) = &self.observer {
            observer.done(id, status, body);
        }
        let Some(slot) = self.take(id) else { return };
        slot.finish(Answer { status, body: body.into() });
    }

    /// The other side sends an item. False: it is to stop.
    pub fn item(&self, id: u64, body: &[u8]) -> bool {
        if let Some(observer) = &self.observer {
            observer.item(id, body);
        }
        let mut table = lock(&self.table);
        let Some(slot) = table.open.get(&id).cloned() else {
            table.count_unknown(id);
            return false;
        };
        drop(table);
        let mut progress = lock(&slot.0);
        if progress.answer.is_some() {
            // Answered since we looked: nobody may be there any more to take the item.
            drop(progress);
            lock(&self.table).counters.late += 1;
            return false;
        }
        if progress.credit == 0 {
            drop(progress);
            lock(&self.table).counters.excess += 1;
            return false;
        }
        progress.credit -= 1;
        progress.items.push_back(body.into());
        let waker = progress.waker.take();
        drop(progress);
        wake(waker);
        true
    }

    /// Ends every call under way with this answer, and every further one at once.
    pub fn close(&self, answer: &Answer) {
        let mut table = lock(&self.table);
        table.closed.get_or_insert_with(|| answer.clone());
        let open = std::mem::take(&mut table.open);
        drop(table);
        open.into_values().for_each(|slot| slot.finish(answer.clone()));
    }

    /// Ends every call under way with this answer; further ones can be made. For a process that has ended and is started
    /// again.
    pub fn fail(&self, answer: &Answer) {
        let open = std::mem::take(&mut lock(&self.table).open);
        open.into_values().for_each(|slot| slot.finish(answer.clone()));
    }

    /// How many calls are under way.
    pub fn under_way(&self) -> usize {
        lock(&self.table).open.len()
    }

    /// The numbers of the calls under way, in no order.
    pub fn ids(&self) -> Vec<u64> {
        lock(&self.table).open.keys().copied().collect()
    }

    /// What the other side said that had no effect.
    pub fn counters(&self) -> Counters {
        lock(&self.table).counters
    }

    /// Takes a call out of the table: whoever does so is the only one to answer it.
    fn take(&self, id: u64) -> Option<Arc<Slot>> {
        let mut table = lock(&self.table);
        let slot = table.open.remove(&id);
        if slot.is_none() {
            table.count_unknown(id);
        }
        slot
    }

    /// Takes a call out of the table because nobody waits for it; whether it was there.
    fn forget(&self, id: u64) -> bool {
        lock(&self.table).open.remove(&id).is_some()
    }
}

impl Table {
    fn count_unknown(&mut self, id: u64) {
        if id == 0 || id > self.last {
            self.counters.forged += 1;
        } else {
            self.counters.late += 1;
        }
    }
}

impl Slot {
    fn finish(&self, answer: Answer) {
        let mut progress = lock(&self.0);
        progress.answer.get_or_insert(answer);
        let waker = progress.waker.take();
        drop(progress);
        wake(waker);
    }
}

/// Leaves the task's waker. The one that it replaces is dropped without the lock, since that may drop a whole task.
fn wait(mut progress: MutexGuard<'_, Progress>, task: &mut Context<'_>) {
    let before = match &progress.waker {
        Some(waker) if waker.will_wake(task.waker()) => None,
        _ => progress.waker.replace(task.waker().clone()),
    };
    drop(progress);
    drop(before);
}

/// A waker may run anything, so it is called without a lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A call under way. Resolves with its answer; dropped before that, the call is given up.
pub struct Call {
    id: u64,
    slot: Arc<Slot>,
    /// The answer was taken: there is nothing left to give up.
    answered: bool,
    calls: Arc<Calls>,
    peer: Arc<dyn Peer>,
}

impl Call {
    /// The number of the call.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits for no answer, and gives the call up all the same: the other side is not told.
    pub fn leave(mut self) {
        self.answered = true;
    }

    /// Takes the next item, or the answer once no item is left.
    fn poll_item(&self, task: &mut Context<'_>) -> Poll<Result<Vec<u8>, Answer>> {
        let mut progress = lock(&self.slot.0);
        if let Some(item) = progress.items.pop_front() {
            progress.taken += 1;
            let more = if progress.taken >= WINDOW / 2 && progress.answer.is_none() {
                std::mem::take(&mut progress.taken)
            } else {
                0
            };
            progress.credit += more;
            drop(progress);
            if more > 0 {
                self.peer.pull(self.id, more);
            }
            return Poll::Ready(Ok(item));
        }
        if let Some(answer) = progress.answer.clone() {
            return Poll::Ready(Err(answer));
        }
        wait(progress, task);
        Poll::Pending
    }
}

impl Future for Call {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Answer> {
        let mut progress = lock(&self.slot.0);
        if let Some(answer) = progress.answer.take() {
            drop(progress);
            // Polled again it would wait for ever, as a future that was ready may.
            self.answered = true;
            return Poll::Ready(answer);
        }
        wait(progress, task);
        Poll::Pending
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Only a call that nobody has answered needs to be given up, and only once.
        if !self.answered && self.calls.forget(self.id) {
            self.peer.cancel(self.id);
        }
    }
}

/// The items of a call that streams, and at last how it ended: `Err` is the last thing that comes, also when the stream
/// ended well ([`status::END`]). Dropped before that, the call is given up.
pub struct Items {
    call: Option<Call>,
}

impl Stream for Items {
    type Item = Result<Vec<u8>, Answer>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(call) = &self.call else { return Poll::Ready(None) };
        let Poll::Ready(next) = call.poll_item(task) else { return Poll::Pending };
        if next.is_err() {
            self.call = None;
        }
        Poll::Ready(Some(next))
    }
}

impl Answer {
    /// The answer to what is called when the other side is gone.
    pub fn cancelled(why: &str) -> Self {
        Answer { status: status::CANCELLED, body: why.as_bytes().into() }
    }
}
