//! A stream that is read elsewhere.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fmail_api::{Error, Result};
use futures::channel::oneshot::{self, Receiver};
use futures::executor::block_on;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};

use super::Blocking;

/// How many items are read at a time.
const BATCH: usize = 64;

/// The same items, read in batches on a thread that may wait. Between two batches no thread is held, however slowly the
/// items are taken.
pub fn pulled<T: Send + Unpin + 'static>(
    stream: BoxStream<'static, Result<T>>,
    blocking: Blocking,
) -> BoxStream<'static, Result<T>> {
    Pulled { state: State::Resting(Some(stream)), ready: VecDeque::new(), blocking }.boxed()
}

struct Pulled<T> {
    state: State<T>,
    ready: VecDeque<Result<T>>,
    blocking: Blocking,
}

type Batch<T> = (Option<BoxStream<'static, Result<T>>>, VecDeque<Result<T>>);

enum State<T> {
    /// Nobody reads; nothing is left when the stream is gone.
    Resting(Option<BoxStream<'static, Result<T>>>),
    Reading(Receiver<Batch<T>>),
}

impl<T: Send + Unpin + 'static> Stream for Pulled<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            match &mut self.state {
                State::Resting(None) => return Poll::Ready(None),
                State::Resting(stream) => {
                    let stream = stream.take();
                    self.state = State::Reading(read(stream, &self.blocking));
                }
                State::Reading(batch) => match ready!(batch.poll_unpin(context)) {
                    Ok((rest, items)) => {
                        self.state = State::Resting(rest);
                        self.ready = items;
                    }
                    Err(_) => {
                        self.state = State::Resting(None);
                        return Poll::Ready(Some(Err(Error::internal("a reader of the store ended unexpectedly"))));
                    }
                },
            }
        }
    }
}

fn read<T: Send + Unpin + 'static>(
    stream: Option<BoxStream<'static, Result<T>>>,
    blocking: &Blocking,
) -> Receiver<Batch<T>> {
    let (answer, batch) = oneshot::channel();
    blocking(Box::new(move || {
        let (mut stream, mut items) = (stream, VecDeque::with_capacity(BATCH));
        while items.len() < BATCH {
            match stream.as_mut().and_then(|stream| block_on(stream.next())) {
                Some(item) => items.push_back(item),
                None => {
                    stream = None;
                    break;
                }
            }
        }
        // Whoever asked may have gone; then nobody needs it.
        let _ = answer.send((stream, items));
    }));
    batch
}
