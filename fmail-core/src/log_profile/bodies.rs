//! Reading messages out of the log, a few at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fmail_api::{Delivery, Error, ErrorKind, Event, Message, Notice, NoticeKind, Result};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::entry::Entry;
use super::tail::Tail;

/// The most messages, and about the most bytes, that are held in memory for one reader.
const MAX_BATCH: usize = 64;
const MAX_BYTES: usize = 1 << 20;
/// Entries that are of no interest are read along rather than asking again, up to this many.
const MAX_GAP: u64 = 8;

/// The messages at these positions, in this order, read as they are asked for.
pub(super) fn deliveries(tail: Arc<Tail>, positions: Vec<u64>) -> BoxStream<'static, Result<Event>> {
    let start = (tail, VecDeque::from(positions), VecDeque::<Result<Event>>::new());
    let stream = stream::unfold(start, |(tail, mut positions, mut ready)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((event, (tail, positions, ready)));
            }
            let batch = tail.batch(&mut positions);
            if batch.is_empty() {
                return None;
            }
            match tail.events(&batch).await {
                Ok(events) => ready = events.into_iter().map(Ok).collect(),
                Err(error) => {
                    positions.clear();
                    ready.push_back(Err(error));
                }
            }
        }
    });
    stream.boxed()
}

impl Tail {
    /// Takes the next positions of a bounded size off the list.
    fn batch(&self, positions: &mut VecDeque<u64>) -> Vec<u64> {
        let state = self.shared.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < MAX_BATCH
            && let Some(position) = positions.front()
        {
            bytes += state.index.at(*position).map_or(0, |known| known.bytes);
            if bytes > MAX_BYTES && !batch.is_empty() {
                break;
            }
            batch.extend(positions.pop_front());
        }
        batch
    }

    /// Of the positions of a watch, as many as are read at once.
    pub(super) fn first_batch(&self, positions: Vec<u64>) -> Vec<u64> {
        self.batch(&mut positions.into())
    }

    /// The messages at these positions, in this order. What was removed meanwhile is left out; what the log does not
    /// deliver although nobody has removed it is told.
    pub(super) async fn events(&self, positions: &[u64]) -> Result<Vec<Event>> {
        let mut found = self.messages(positions).await?;
        if found.len() < positions.len() && self.facts.shared {
            // Another process may have removed it; its removal is in the log then.
            self.read_on().await?;
        }
        if found.len() < positions.len() && self.has_begun_anew().await? {
            return Err(self.gone());
        }
        let state = self.shared.lock();
        let event = |position: &u64| match found.remove(position) {
            Some(message) => Some(Event::Message(Delivery::new(message, state.cursor(*position)))),
            None => state.index.at(*position).map(|known| {
                let text = format!(
                    "message {} was skipped: the log `{}` no longer has its entry {position}",
                    known.id, self.facts.name
                );
                Event::Notice(Notice::new(NoticeKind::Broken, text))
            }),
        };
        Ok(positions.iter().filter_map(event).collect())
    }

    /// The message at a position, if it is there.
    pub(super) async fn message(&self, position: u64) -> Result<Option<Arc<Message>>> {
        Ok(self.messages(&[position]).await?.remove(&position))
    }

    /// Reads the messages at these positions, those that lie together at once.
    async fn messages(&self, positions: &[u64]) -> Result<BTreeMap<u64, Arc<Message>>> {
        let mut wanted = positions.to_vec();
        wanted.sort_unstable();
        let mut found = BTreeMap::new();
        let mut rest = &wanted[..];
        while let Some(first) = rest.first() {
            let near = |pair: &[u64]| pair[1] - pair[0] <= MAX_GAP;
            let length = rest.windows(2).take_while(|pair| near(pair)).count() + 1;
            let last = rest[length - 1];
            let mut after = first - 1;
            while after < last {
                let limit = usize::try_from(last - after).unwrap_or(MAX_BATCH);
                let read = self.log.read(after, limit).await?;
                let Some(end) = read.last().map(|entry| entry.position) else { break };
                if end <= after {
                    return Err(self.astray(after, end));
                }
                after = end;
                for entry in read.into_iter().filter(|entry| rest[..length].binary_search(&entry.position).is_ok()) {
                    match Entry::parse(&entry.text) {
                        Ok(Entry::Message(message) | Entry::Imported(message)) => {
                            found.insert(entry.position, Arc::new(message));
                        }
                        _ => return Err(self.changed(entry.position)),
                    }
                }
            }
            rest = &rest[length..];
        }
        Ok(found)
    }

    fn astray(&self, after: u64, end: u64) -> Error {
        Error::internal(format!("the log `{}` delivers the position {end} behind {after}", self.facts.name))
            .help("positions ascend, rule G6; report this to the log's author")
    }

    fn changed(&self, position: u64) -> Error {
        let what = format!("entry {position} of the log `{}` was a message and is none any more", self.facts.name);
        Error::new(ErrorKind::Corrupt, what).help("entries never change, rule G4; look at the log with its own tools")
    }
}
