//! Who is known to have which message, so that nothing is sent back to where it came from.
//!
//! Known by the run of the daemon, since ids and names of hosts are copied and repeated. Kept for the newest messages only:
//! a stream is never far behind what is imported, and forgetting costs a duplicate, never a loss.

use std::collections::{HashMap, VecDeque};

use fmail_api::{Identity, NodeId};

/// For so many messages.
const MOST: usize = 10_000;

/// The runs that have a message.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    holders: HashMap<Identity, Vec<NodeId>>,
    /// From the one that was noted first to the one that was noted last.
    noted: VecDeque<Identity>,
}

impl Neighbours {
    /// Notes that a run has a message.
    pub(crate) fn note(&mut self, identity: Identity, run: NodeId) {
        let holders = self.holders.entry(identity).or_default();
        if holders.is_empty() {
            self.noted.push_back(identity);
        }
        if !holders.contains(&run) {
            holders.push(run);
        }
        if self.noted.len() > MOST
            && let Some(oldest) = self.noted.pop_front()
        {
            self.holders.remove(&oldest);
        }
    }

    /// Whether a run is known to have a message.
    pub(crate) fn has(&self, identity: &Identity, run: NodeId) -> bool {
        self.holders.get(identity).is_some_and(|holders| holders.contains(&run))
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ContentHash, MessageId};

    use super::*;

    #[test]
    fn the_newest_are_known_and_the_rest_forgotten() {
        let hash = ContentHash::of(&[b"x"]);
        let identity = |ticks: usize| Identity { origin: MessageId::from_ticks(ticks as u64).unwrap(), hash };
        let (one, two) = (NodeId::new(1), NodeId::new(2));
        let mut neighbours = Neighbours::default();
        for number in 0..=MOST {
            neighbours.note(identity(number), one);
            neighbours.note(identity(number), one);
        }
        neighbours.note(identity(MOST), two);
        assert!(!neighbours.has(&identity(0), one) && neighbours.has(&identity(1), one));
        assert!(neighbours.has(&identity(MOST), two) && !neighbours.has(&identity(1), two));
        assert_eq!(neighbours.holders.len(), MOST);
    }
}
