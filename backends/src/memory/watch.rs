//! Watching: a stream that keeps its place in the order of arrival and asks for what lies behind it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fmail_api::{Delivery, Event, Result};
use futures::Stream;

use super::messages::{Filter, Position};
use super::{Shared, closed};

/// How many messages that do not fit are passed over in one poll. A reader of a quiet topic must not hold the lock for
/// the whole of a busy project.
const GLANCE: u64 = 1_024;

/// Watches that have seen everything and wait. Each holds one waker and no messages, however slow it is.
#[derive(Default)]
pub(super) struct Sleepers {
    /// In the order of coming, and so the same in every run: simulations depend on it.
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

impl Sleepers {
    /// Everyone who waits; they come back when there is nothing for them.
    pub(super) fn take(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers).into_values().collect()
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// One reader's stream.
pub(super) struct Watch {
    shared: Arc<Shared>,
    filter: Filter,
    /// The next message to look at.
    position: Position,
    /// Everything before this was told, as a message or as progress.
    told: Position,
    /// By what the sleepers know this stream.
    name: u64,
    ended: bool,
}

impl Watch {
    pub(super) fn new(shared: Arc<Shared>, filter: Filter, position: Position) -> Self {
        let name = shared.lock().sleepers.name();
        Watch { shared, filter, position, told: position, name, ended: false }
    }
}

impl Stream for Watch {
    type Item = Result<Event>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let shared = this.shared.clone();
        let mut state = shared.lock();
        if state.closed {
            this.ended = true;
            return Poll::Ready(Some(Err(closed())));
        }
        let messages = &state.messages;
        let start = messages.first_held(this.position);
        let stop = messages.end().min(start + GLANCE);
        for position in start..stop {
            let Some(message) = messages.at(position) else { continue };
            if this.filter.accepts(position, message) {
                this.position = position + 1;
                this.told = this.position;
                let delivery = Delivery::new(message.clone(), messages.cursor_behind(position));
                return Poll::Ready(Some(Ok(Event::Message(delivery))));
            }
        }
        this.position = stop;
        if this.told < stop {
            this.told = stop;
            return Poll::Ready(Some(Ok(Event::Progress(messages.cursor(stop)))));
        }
        state.sleepers.wakers.insert(this.name, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.lock().sleepers.wakers.remove(&self.name);
    }
}
