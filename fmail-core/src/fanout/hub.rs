//! The thread that watches the store for all.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

use fmail_api::{Error, ErrorKind, EventStream, Result};
use futures::channel::{mpsc, oneshot};
use futures::executor::block_on;
use futures::{FutureExt, StreamExt};

use super::ring::{Ring, RingReader};

/// Watches a store and puts what arrives into a ring. Its thread ends when the last handle is gone.
pub struct Hub {
    ring: Arc<Ring>,
    orders: mpsc::UnboundedSender<oneshot::Sender<RingReader>>,
    running: Arc<AtomicBool>,
}

impl Hub {
    /// Starts the thread.
    pub fn start(events: EventStream) -> Result<Arc<Hub>> {
        let ring = Arc::new(Ring::default());
        let (orders, incoming) = mpsc::unbounded();
        let running = Arc::new(AtomicBool::new(true));
        let work = Work { events, ring: ring.clone(), incoming };
        let state = running.clone();
        thread::Builder::new()
            .name("fmail-fanout".into())
            .spawn(move || {
                block_on(work.run());
                state.store(false, Ordering::Release);
            })
            .map_err(|error| Error::io("no thread to watch the store", &error))?;
        Ok(Arc::new(Hub { ring, orders, running }))
    }

    /// Whether the thread still watches.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// A reader that starts behind everything that had arrived when it was asked for.
    pub async fn reader(&self) -> Result<RingReader> {
        let (order, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Unavailable, "the watch of the store has ended");
        self.orders.unbounded_send(order).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    /// The number of the first event that can arrive after this was asked.
    pub async fn sync(&self) -> Result<u64> {
        self.reader().await?;
        Ok(self.ring.next())
    }
}

struct Work {
    events: EventStream,
    ring: Arc<Ring>,
    incoming: mpsc::UnboundedReceiver<oneshot::Sender<RingReader>>,
}

/// How many events are put into the ring together at most. Who waits is woken once for them.
const TOGETHER: usize = 64;

enum Next {
    Events,
    Order(Option<oneshot::Sender<RingReader>>),
}

impl Work {
    async fn run(mut self) {
        let mut arrived = Vec::with_capacity(TOGETHER);
        loop {
            let order = match self.next(&mut arrived).await {
                Next::Events => match self.store(&mut arrived) {
                    true => continue,
                    false => return,
                },
                Next::Order(Some(order)) => order,
                Next::Order(None) => return,
            };
            // What arrived before the order was given may not have been looked at yet: look until there is nothing.
            while let Some(event) = self.events.next().now_or_never() {
                arrived.push(event);
                if !self.store(&mut arrived) {
                    return;
                }
            }
            let _ = order.send(self.ring.reader());
        }
    }

    /// Events first: an order waits until there is nothing else to do.
    async fn next(&mut self, arrived: &mut Vec<Option<Result<fmail_api::Event>>>) -> Next {
        poll_fn(|context| {
            while arrived.len() < TOGETHER
                && let Poll::Ready(event) = self.events.poll_next_unpin(context)
            {
                let goes_on = matches!(event, Some(Ok(_)));
                arrived.push(event);
                if !goes_on {
                    break;
                }
            }
            match arrived.is_empty() {
                true => self.incoming.poll_next_unpin(context).map(Next::Order),
                false => Poll::Ready(Next::Events),
            }
        })
        .await
    }

    /// Puts events into the ring and wakes who waits for them; whether more can come.
    fn store(&self, arrived: &mut Vec<Option<Result<fmail_api::Event>>>) -> bool {
        let ended = arrived.pop_if(|last| !matches!(last, Some(Ok(_))));
        self.ring.push(arrived.drain(..).filter_map(|event| event?.ok()));
        let error = match ended {
            None => {
                self.ring.wake();
                return true;
            }
            Some(Some(Err(error))) => error,
            Some(_) => Error::new(ErrorKind::Unavailable, "the watch of the store has ended"),
        };
        self.ring.end(error);
        false
    }
}
