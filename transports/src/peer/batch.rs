//! Several messages of a stream at a time.

use fmail_api::{Delivery, Event, EventStream, Result};
use futures::{FutureExt, StreamExt};

/// How many bytes of messages go into one request, unless it is a single message. A line of a request is never longer than
/// the shortest limit of lines that a host may have.
pub const BATCH_BYTES: usize = 48 * 1024;

/// What a stream had to say at one moment.
#[derive(Default)]
pub struct Gathered {
    /// Its messages, in their order.
    pub messages: Vec<Delivery>,
    /// What else it said.
    pub hints: Vec<Event>,
    /// How it has ended, if it has.
    pub ended: Option<Result<()>>,
}

/// Waits for the next event, and takes what is there behind it already, up to so many messages. Nobody waits for company:
/// what comes alone goes alone, and while the last batch is on its way the next one grows. Dropping the future loses nothing.
pub async fn gather(events: &mut EventStream, most: usize) -> Gathered {
    let (mut gathered, mut bytes) = (Gathered::default(), 0);
    let mut next = events.next().await;
    loop {
        match next {
            Some(Ok(Event::Message(delivery))) => {
                bytes += delivery.line().len();
                gathered.messages.push(delivery);
            }
            Some(Ok(other)) => gathered.hints.push(other),
            Some(Err(error)) => {
                gathered.ended = Some(Err(error));
                return gathered;
            }
            None => {
                gathered.ended = Some(Ok(()));
                return gathered;
            }
        }
        if gathered.messages.len() + gathered.hints.len() >= most || bytes >= BATCH_BYTES {
            return gathered;
        }
        match events.next().now_or_never() {
            Some(event) => next = event,
            None => return gathered,
        }
    }
}

/// Divides messages so that each part fits into one request. One that is too large for that goes alone.
pub fn parts<T>(messages: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let more = size(&message);
        match parts.last_mut() {
            Some(part) if bytes + more <= BATCH_BYTES => part.push(message),
            _ => {
                parts.push(vec![message]);
                bytes = 0;
            }
        }
        bytes += more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fmail_api::{Cursor, Draft, Error, MessageId, Timestamp};
    use futures::executor::block_on;
    use futures::stream;

    use super::*;

    fn event(size: usize) -> Result<Event> {
        let draft = Draft::new("bob".parse().unwrap(), "task".parse().unwrap(), "x".repeat(size));
        let message = draft.into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        Ok(Event::Message(Delivery::new(Arc::new(message), Cursor::new("c"))))
    }

    #[test]
    fn what_is_there_is_taken_and_what_is_not_is_not_waited_for() {
        let there = stream::iter([event(1), Ok(Event::Progress(Cursor::new("p"))), event(1)]);
        let mut events = there.chain(stream::pending()).boxed();
        let gathered = block_on(gather(&mut events, 64));
        assert_eq!((gathered.messages.len(), gathered.hints.len()), (2, 1));
        assert!(gathered.ended.is_none() && gather(&mut events, 64).now_or_never().is_none());
    }

    #[test]
    fn a_batch_is_bounded_in_number_and_in_bytes_and_the_rest_is_still_there() {
        let mut events = stream::iter((0..10).map(|_| event(1))).boxed();
        assert_eq!(block_on(gather(&mut events, 4)).messages.len(), 4);
        assert_eq!(block_on(gather(&mut events, 64)).messages.len(), 6);
        let mut events = stream::iter((0..10).map(|_| event(BATCH_BYTES / 2))).boxed();
        assert_eq!(block_on(gather(&mut events, 64)).messages.len(), 2);
    }

    #[test]
    fn messages_in_front_of_the_end_of_a_stream_are_not_lost_with_it() {
        let mut events = stream::iter([event(1), Err(Error::internal("over")), event(1)]).boxed();
        let gathered = block_on(gather(&mut events, 64));
        assert_eq!(gathered.messages.len(), 1);
        assert!(matches!(gathered.ended, Some(Err(_))));
        let gathered = block_on(gather(&mut stream::iter([event(1)]).boxed(), 64));
        assert!(matches!((gathered.messages.len(), gathered.ended), (1, Some(Ok(())))));
    }

    #[test]
    fn each_part_fits_into_a_request_or_is_a_single_message() {
        let sizes = vec![1, BATCH_BYTES - 1, 1, 3 * BATCH_BYTES, 5, 5];
        let parts = parts(sizes, |size| *size);
        assert_eq!(parts, [vec![1, BATCH_BYTES - 1], vec![1], vec![3 * BATCH_BYTES], vec![5, 5]]);
    }
}
