//! Watching: streams that keep their place in the log, and the one thread that looks for what other processes write.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use fmail_api::{Error, Event, EventStream, Notice, NoticeKind, Result};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream;

use super::index::Filter;
use super::state::closed;
use super::tail::Tail;

/// How many messages that do not fit are passed over under one hold of the lock.
const GLANCE: usize = 1_024;

/// Watches that have seen everything and wait. Each holds one waker and no messages, however slow it is.
#[derive(Default)]
pub(super) struct Sleepers {
    wakers: HashMap<u64, Waker>,
    next: u64,
    /// What keeps the follower from reading on; every watch ends with it.
    pub(super) failure: Option<Error>,
}

impl Sleepers {
    /// Everyone who waits; they come back when there is nothing for them.
    pub(super) fn take(&mut self) -> Vec<Waker> {
        self.wakers.drain().map(|(_, waker)| waker).collect()
    }
}

/// One reader's place in the log.
pub(super) struct Watch {
    tail: Arc<Tail>,
    filter: Filter,
    /// The last position that was looked at.
    position: u64,
    /// Everything up to here was told, as a message or as progress.
    told: u64,
    ready: VecDeque<Event>,
    /// By what the sleepers know this stream.
    name: u64,
    ended: bool,
    /// The log that the place is in.
    generation: u64,
    /// Keeps the follower running.
    _follower: Option<Following>,
}

/// What a look at the index found.
struct Glance {
    positions: Vec<u64>,
    broken: Vec<(u64, String)>,
    end: u64,
}

impl Watch {
    pub(super) fn new(tail: Arc<Tail>, filter: Filter, position: u64, follower: Option<Following>) -> Self {
        let (name, generation) = {
            let mut state = tail.shared.lock();
            state.sleepers.next += 1;
            (state.sleepers.next, state.generation)
        };
        let ready = VecDeque::new();
        Watch { tail, filter, position, told: position, ready, name, ended: false, generation, _follower: follower }
    }

    pub(super) fn into_stream(self) -> EventStream {
        let next = |mut watch: Watch| async move {
            if watch.ended {
                return None;
            }
            let event = watch.next().await;
            watch.ended = event.is_err();
            Some((event, watch))
        };
        stream::unfold(self, next).boxed()
    }

    async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let glance = self.glance()?;
            if glance.positions.is_empty() && glance.broken.is_empty() {
                self.position = glance.end;
                if self.told < self.position {
                    self.told = self.position;
                    return Ok(Event::Progress(self.tail.shared.lock().cursor(self.position)));
                }
                self.sleep().await?;
                continue;
            }
            let batch = self.tail.first_batch(glance.positions.clone());
            let events = self.tail.events(&batch).await?;
            // The place moves on only with what was read: a failed read is tried again from here.
            self.position = match batch.last() {
                Some(last) if batch.len() < glance.positions.len() => *last,
                _ => glance.end,
            };
            let broken = glance.broken.into_iter().filter(|(position, _)| *position <= self.position);
            self.ready.extend(broken.map(|(position, reason)| broken_notice(&self.tail, position, &reason)));
            self.ready.extend(events);
            self.told = self.told.max(batch.last().copied().unwrap_or(0));
        }
    }

    /// Looks at what lies behind the place, a stretch at a time.
    fn glance(&self) -> Result<Glance> {
        let state = self.tail.shared.open()?;
        if state.generation != self.generation {
            return Err(self.tail.gone());
        }
        let stretch = || state.index.behind(self.position).take(GLANCE);
        // A full stretch ends at its last message, any other at the end of the log.
        let end = stretch().nth(GLANCE - 1).map_or(state.end(), |(position, _)| position);
        let fits = stretch().filter(|(position, known)| self.filter.accepts(*position, known));
        let positions = fits.map(|(position, _)| position).collect();
        let broken = state.broken.range(self.position + 1..=end.max(self.position + 1));
        let broken = broken.filter(|(position, _)| **position <= end).map(|(at, why)| (*at, why.clone())).collect();
        Ok(Glance { positions, broken, end })
    }

    /// Waits until something lies behind the place.
    async fn sleep(&self) -> Result<()> {
        poll_fn(|context| {
            let mut state = self.tail.shared.lock();
            if state.closed {
                return Poll::Ready(Err(closed()));
            }
            if let Some(error) = &state.sleepers.failure {
                return Poll::Ready(Err(error.clone()));
            }
            if state.end() > self.position || state.generation != self.generation {
                return Poll::Ready(Ok(()));
            }
            state.sleepers.wakers.insert(self.name, context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tail.shared.lock().sleepers.wakers.remove(&self.name);
    }
}

/// Tells of an entry that cannot be understood.
pub(super) fn broken_notice(tail: &Tail, position: u64, reason: &str) -> Event {
    let text = format!("entry {position} of the log `{}` was skipped: {reason}", tail.facts.name);
    Event::Notice(Notice::new(NoticeKind::Broken, text))
}

/// The thread that reads what other processes write, while anybody watches.
pub(super) struct Follower(Arc<Post>);

/// Where the follower and the watches meet.
struct Post {
    watches: Mutex<Watches>,
    changed: Condvar,
}

#[derive(Default)]
struct Watches {
    count: usize,
    running: bool,
}

/// A watch that wants the follower to run.
pub(super) struct Following(Arc<Post>);

impl Post {
    fn lock(&self) -> std::sync::MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    pub(super) fn new() -> Self {
        Follower(Arc::new(Post { watches: Mutex::default(), changed: Condvar::new() }))
    }

    /// Whether the thread runs.
    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.0.lock().running
    }

    /// Lets the follower run until the answer is dropped.
    pub(super) fn follow(&self, tail: &Arc<Tail>, every: Duration) -> Result<Following> {
        let mut watches = self.0.lock();
        if !watches.running {
            tail.shared.lock().sleepers.failure = None;
            let (post, tail) = (self.0.clone(), tail.clone());
            thread::Builder::new()
                .name("fmail-log".into())
                .spawn(move || run(&post, &tail, every))
                .map_err(|error| Error::io("no thread to follow the log", &error))?;
            watches.running = true;
        }
        watches.count += 1;
        Ok(Following(self.0.clone()))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.lock().count -= 1;
        self.0.changed.notify_all();
    }
}

/// Reads on at every interval, until nobody watches or the log fails. A failure ends the watches too: a reader must not
/// take an outage for silence.
fn run(post: &Post, tail: &Tail, every: Duration) {
    loop {
        let watches = post.lock();
        let waited = post.changed.wait_timeout_while(watches, every, |watches| watches.count > 0);
        let mut watches = waited.unwrap_or_else(PoisonError::into_inner).0;
        if watches.count == 0 {
            watches.running = false;
            return;
        }
        drop(watches);
        if let Err(error) = block_on(tail.catch_up()) {
            // Under the lock of the post: a watch that comes now starts another follower.
            let mut watches = post.lock();
            watches.running = false;
            let mut state = tail.shared.lock();
            state.sleepers.failure = Some(error);
            super::state::announce(state);
            return;
        }
    }
}
