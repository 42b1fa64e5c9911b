//! A stream that is being read: the project stays open for it, and it ends when the project is gone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fmail_api::{Error, Event, EventStream, Result};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};

/// The events of an operation.
pub struct Underway {
    /// Nothing when they have ended.
    events: Option<EventStream>,
    /// Why they end early.
    loss: Option<BoxFuture<'static, Error>>,
    _busy: Arc<()>,
}

impl Underway {
    /// The events; `busy` is held as long as they are read, and `loss` ends them.
    pub fn new(events: EventStream, busy: Arc<()>, loss: Option<BoxFuture<'static, Error>>) -> Self {
        Underway { events: Some(events), loss, _busy: busy }
    }
}

impl Stream for Underway {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        match events.poll_next_unpin(context) {
            Poll::Ready(None) => self.events = None,
            Poll::Ready(event) => return Poll::Ready(event),
            Poll::Pending => match self.loss.as_mut().map(|loss| loss.poll_unpin(context)) {
                Some(Poll::Ready(error)) => {
                    self.events = None;
                    return Poll::Ready(Some(Err(error)));
                }
                _ => return Poll::Pending,
            },
        }
        Poll::Ready(None)
    }
}
