//! What both ends are known to hold.

use std::collections::{HashMap, VecDeque};

use fmail_api::Place;
use tokio::time::Instant;

/// The messages that were last seen on both ends, so that what has come over one way does not go back over the other.
/// Forgetting one costs a message that is sent in vain, never one that is missing.
#[derive(Default)]
pub struct Both {
    known: HashMap<Place, Instant>,
    order: VecDeque<Place>,
}

impl Both {
    /// So many are remembered.
    const MOST: usize = 10_000;

    /// Both ends hold this one now.
    pub fn note(&mut self, place: Place) {
        if self.known.insert(place, Instant::now()).is_none() {
            self.order.push_back(place);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether both ends are known to hold it.
    pub fn hold(&self, place: &Place) -> bool {
        self.known.contains_key(place)
    }

    /// Whether that became known after `moment`.
    pub fn hold_since(&self, place: &Place, moment: Instant) -> bool {
        self.known.get(place).is_some_and(|noted| *noted >= moment)
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ContentHash, MessageId};

    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let place = |number: u64| Place {
            time: "2026-01-10T15:30:00Z".parse().unwrap(),
            origin: MessageId::from_ticks(number).unwrap(),
            hash: ContentHash::of(&[]),
        };
        let mut both = Both::default();
        (0..=Both::MOST as u64).for_each(|number| both.note(place(number)));
        assert!(!both.hold(&place(0)) && both.hold(&place(1)) && both.hold(&place(Both::MOST as u64)));
        assert_eq!(both.known.len(), both.order.len());
    }
}
