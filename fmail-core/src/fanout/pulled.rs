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
use crate::waiting::{may_wait, waiting};

/// How many items are read at a time.
const BATCH: usize = 64;
/// How many bytes are read at a time. A batch waits for its reader, and there may be a thousand of them; a message can have
/// a megabyte.
const BATCH_BYTES: usize = 128 * 1024;

/// The same items, read in batches on a thread that may wait. Between two batches no thread is held, however slowly the
/// items are taken. Who may wait itself reads itself: if all threads that may wait waited for another one to read for
/// them, none would be left. `weigh` tells the bytes of an item.
pub fn pulled<T: Send + Unpin + 'static>(
    stream: BoxStream<'static, Result<T>>,
    blocking: Blocking,
    weigh: fn(&T) -> usize,
) -> BoxStream<'static, Result<T>> {
    Pulled { state: State::Resting(Some(stream)), ready: VecDeque::new(), blocking, weigh }.boxed()
}

struct Pulled<T> {
    state: State<T>,
    ready: VecDeque<Result<T>>,
    blocking: Blocking,
    weigh: fn(&T) -> usize,
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
                State::Resting(Some(stream)) if may_wait() => return stream.poll_next_unpin(context),
                State::Resting(stream) => {
                    let stream = stream.take();
                    self.state = State::Reading(read(stream, &self.blocking, self.weigh));
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
    weigh: fn(&T) -> usize,
) -> Receiver<Batch<T>> {
    let (answer, batch) = oneshot::channel();
    blocking(Box::new(move || {
        let (mut stream, mut items, mut bytes) = (stream, VecDeque::new(), 0);
        while items.len() < BATCH && bytes < BATCH_BYTES {
            match stream.as_mut().and_then(|stream| waiting(|| block_on(stream.next()))) {
                Some(item) => {
                    bytes += item.as_ref().map_or(0, weigh);
                    items.push_back(item);
                }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::stream;

    use super::*;

    /// How many items are read from a stream of items of this size until the first can be taken.
    fn read_for_the_first(size: usize) -> usize {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let items = stream::iter((0..1_000).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(size)
        }));
        let elsewhere: Blocking = Arc::new(|work| drop(std::thread::spawn(work)));
        let mut pulled = pulled(items.boxed(), elsewhere, |size| *size);
        assert_eq!(block_on(pulled.next()).unwrap().unwrap(), size);
        let first = read.load(Ordering::Relaxed);
        assert_eq!(block_on(pulled.count()), 999);
        first
    }

    #[test]
    fn who_may_wait_reads_without_another_thread() {
        let nobody: Blocking = Arc::new(|_| panic!("all threads that may wait are taken"));
        let items = stream::iter((0..1_000).map(Ok));
        let mut pulled = pulled(items.boxed(), nobody, |_| 1);
        let first = crate::waiting(|| block_on(pulled.next())).unwrap().unwrap();
        assert_eq!((first, crate::waiting(|| block_on(pulled.count()))), (0, 999));
        assert!(!may_wait(), "only for as long as that work takes");
    }

    #[test]
    fn what_is_read_ahead_is_bounded_in_number_and_in_bytes() {
        assert_eq!(read_for_the_first(10), BATCH);
        assert_eq!(read_for_the_first(BATCH_BYTES / 4), 4);
        assert_eq!(read_for_the_first(10 * BATCH_BYTES), 1);
    }
}
