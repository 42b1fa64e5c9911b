//! `fetch`: messages by their places, for a peer that lacks them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use fmail_api::{
    Cursor, Delivery, Event, EventStream, FetchRequest, Message, MessageId, Place, Query, Reply, Response, Result,
    Store, Stretch,
};
use futures::{StreamExt, stream};

use crate::Operations;
use crate::exchange::{Exchange, first_at};

/// So many messages are read at a time at most, fewer when they are large.
const MOST: usize = 64;
/// And at first.
const FIRST: usize = 8;
/// About so many bytes are read at a time.
const BYTES: usize = 512 * 1024;

impl Operations {
    /// The messages of the places and stretches that are held here, the oldest place first, in the form in which they
    /// travel. What is found to be gone is left out, and is not told to be held any more.
    pub(crate) async fn fetch(&self, request: FetchRequest) -> Result<Reply> {
        self.check_exchange("give its messages to other hosts")?;
        let horizon = self.exchange.bring_up_to_date().await?.max(request.horizon);
        let fetching = Fetching {
            store: self.store.clone(),
            exchange: self.exchange.clone(),
            host: self.node.as_ref().map(|node| node.host.clone()),
            places: request.places.into_iter().collect(),
            stretches: joined(request.stretches),
            next: horizon.map(first_at),
            batch: FIRST,
        };
        Ok(Reply::streaming(Response::Fetching, fetching.events()))
    }
}

/// Stretches in their order, those that overlap as one: nothing is delivered twice.
fn joined(mut stretches: Vec<Stretch>) -> VecDeque<Stretch> {
    stretches.retain(|stretch| stretch.to.is_none_or(|to| stretch.from.is_none_or(|from| from < to)));
    stretches.sort_by_key(|stretch| stretch.from);
    let mut joined: VecDeque<Stretch> = VecDeque::new();
    for stretch in stretches {
        match joined.back_mut() {
            Some(last) if last.to.is_none_or(|to| stretch.from.is_none_or(|from| from <= to)) => {
                last.to = if last.to.is_none() || stretch.to.is_none() { None } else { last.to.max(stretch.to) };
            }
            _ => joined.push_back(stretch),
        }
    }
    joined
}

/// What is left to be fetched.
struct Fetching {
    store: Arc<dyn Store>,
    exchange: Arc<Exchange>,
    host: Option<String>,
    places: BTreeSet<Place>,
    stretches: VecDeque<Stretch>,
    /// Everything before this one is done.
    next: Option<Place>,
    /// How many are read next.
    batch: usize,
}

impl Fetching {
    fn events(self) -> EventStream {
        let elsewhere = self.exchange.elsewhere.clone();
        let batches = stream::unfold(Some((self, elsewhere)), |state| async move {
            let (fetching, elsewhere) = state?;
            match elsewhere.run(fetching.read()).await {
                Ok(None) => None,
                Ok(Some((fetching, messages))) => {
                    // A place in the order of places is not one in the order of arrival.
                    let events = messages.into_iter().map(|message| {
                        let cursor = Cursor::new(String::new());
                        Ok(Event::Message(Delivery::new(message, cursor)))
                    });
                    Some((events.collect::<Vec<_>>(), Some((fetching, elsewhere))))
                }
                Err(error) => Some((vec![Err(error)], None)),
            }
        });
        batches.flat_map(stream::iter).boxed()
    }

    /// The next messages; nothing when there are no more places.
    async fn read(mut self) -> Result<Option<(Self, Vec<Arc<Message>>)>> {
        let wanted = self.take();
        if wanted.is_empty() {
            return Ok(None);
        }
        let mut found: HashMap<Place, Arc<Message>> = HashMap::new();
        let (mut bytes, ids) = (0, wanted.iter().map(|(_, id)| *id).collect());
        let mut events = self.store.scan(Query { ids, ..Query::default() }).await?.messages;
        while let Some(event) = events.next().await {
            if let Event::Message(delivery) = event? {
                bytes += delivery.line().len();
                found.insert(Place::of(&delivery.message), delivery.message.clone());
            }
        }
        self.batch = match bytes {
            0..BYTES => (self.batch * 2).min(MOST),
            _ => (self.batch * BYTES / bytes).clamp(1, MOST),
        };
        let (mut messages, mut gone) = (Vec::new(), Vec::new());
        for (place, _) in wanted {
            match found.remove(&place) {
                Some(message) => messages.push(self.exchange.origin_form(message, self.host.as_ref(), true).await?),
                None => gone.push(place),
            }
        }
        self.exchange.gone(&gone);
        Ok(Some((self, messages)))
    }

    /// The next places that are held, with the ids that they have here.
    fn take(&mut self) -> Vec<(Place, MessageId)> {
        let mut wanted: Vec<(Place, MessageId)> = Vec::new();
        let exchange = self.exchange.clone();
        exchange.look(|inventory| {
            while wanted.len() < self.batch {
                let single = self.places.first().copied();
                let Some(place) = self.next_of_stretches(inventory).into_iter().chain(single).min() else { break };
                self.places.remove(&place);
                if self.next.is_none_or(|next| place >= next) && inventory.contains(&place) {
                    wanted.push((place, inventory.local(&place)));
                }
                self.next = self.next.max(Some(behind(place)));
            }
        });
        wanted
    }

    /// The next place that lies in a stretch. Stretches that are done are dropped.
    fn next_of_stretches(&mut self, inventory: &crate::exchange::Inventory) -> Option<Place> {
        while let Some(stretch) = self.stretches.front() {
            let rest = Stretch { from: stretch.from.max(self.next), to: stretch.to };
            if let Some(place) = inventory.places(&rest).next() {
                return Some(*place);
            }
            self.stretches.pop_front();
        }
        None
    }
}

/// The place right behind another.
fn behind(place: Place) -> Place {
    let hash = u128::from_be_bytes(*place.hash.as_bytes());
    match hash.checked_add(1) {
        Some(next) => Place { hash: fmail_api::ContentHash::from_bytes(next.to_be_bytes()), ..place },
        None => Place { origin: place.origin.next(), hash: fmail_api::ContentHash::from_bytes([0; 16]), ..place },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_are_one() {
        let at = |second: i64| Some(first_at(fmail_api::Timestamp::from_unix(second, 0)));
        let stretch = |from: Option<i64>, to: Option<i64>| Stretch { from: from.and_then(at), to: to.and_then(at) };
        let some = vec![
            stretch(Some(8), Some(9)),
            stretch(Some(1), Some(3)),
            stretch(Some(2), Some(4)),
            stretch(Some(5), Some(5)),
            stretch(Some(4), Some(5)),
        ];
        assert_eq!(joined(some), [stretch(Some(1), Some(5)), stretch(Some(8), Some(9))]);
        assert_eq!(joined(vec![stretch(Some(3), Some(4)), stretch(None, None)]), [Stretch::default()]);
        assert_eq!(joined(vec![stretch(None, Some(2)), stretch(Some(1), None)]), [Stretch::default()]);
    }
}
