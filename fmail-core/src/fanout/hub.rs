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

enum Next {
    Event(Option<Result<fmail_api::Event>>),
    Order(Option<oneshot::Sender<RingReader>>),
}

impl Work {
    async fn run(mut self) {
        loop {
            let order = match self.next().await {
                Next::Event(event) => match self.store(event) {
                    true => continue,
                    false => return,
                },
                Next::Order(Some(order)) => order,
                Next::Order(None) => return,
            };
            // What arrived before the order was given may not have been looked at yet: look until there is nothing.
            while let Some(event) = self.events.next().now_or_never() {
                if !self.store(event) {
                    return;
                }
            }
            let _ = order.send(self.ring.reader());
        }
    }

    /// Events first: an order waits until there is nothing else to do.
    async fn next(&mut self) -> Next {
        poll_fn(|context| {
            if let Poll::Ready(event) = self.events.poll_next_unpin(context) {
                return Poll::Ready(Next::Event(event));
            }
            self.incoming.poll_next_unpin(context).map(Next::Order)
        })
        .await
    }

    /// Puts an event into the ring; whether more can come.
    fn store(&self, event: Option<Result<fmail_api::Event>>) -> bool {
        let error = match event {
            Some(Ok(event)) => {
                self.ring.push(event);
                return true;
            }
            Some(Err(error)) => error,
            None => Error::new(ErrorKind::Unavailable, "the watch of the store has ended"),
        };
        self.ring.end(error);
        false
    }
}
