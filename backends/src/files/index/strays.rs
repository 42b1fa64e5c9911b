//! Where the messages stand that are out of order, by their ids.
//!
//! They are chained, the newest arrival first. Where two hosts send at the same time and relay to each other, half of all
//! messages may be in that chain, and a host that imports asks for each one's id: so it is read once, and then only what is new of
//! it. Positions are remembered, and nothing that can change: whether a message was removed is read each time.

use fmail_api::{MessageId, Result};

use super::read::Slots;
use super::{Index, State, damaged};

/// What is new is put in order when it is more than this, or more than an eighth of the rest.
const UNSORTED: usize = 1024;

/// What is known of the chain.
#[derive(Default)]
pub struct Strays {
    /// The slot at which it began when it was read.
    head: u32,
    sorted: Vec<(MessageId, u32)>,
    recent: Vec<(MessageId, u32)>,
}

impl Strays {
    /// Reads what is new in a chain that begins at this slot.
    fn follow(&mut self, slots: &mut Slots<'_>, head: u32) -> Result<()> {
        if head < self.head {
            // A reader with an older state than the one before: it has no slot that is not known.
            return Ok(());
        }
        let mut number = head;
        while number > self.head {
            let entry = slots.entry(number)?;
            self.recent.push((entry.id, number));
            let next = entry.previous_irregular;
            number = if next < number { next } else { return Err(damaged()) };
        }
        self.head = head;
        if self.recent.len() > UNSORTED.max(self.sorted.len() / 8) {
            self.sorted.append(&mut self.recent);
            self.sorted.sort();
        }
        Ok(())
    }

    fn slots_of(&self, id: MessageId) -> Vec<u32> {
        let from = self.sorted.partition_point(|(known, _)| *known < id);
        let sorted = self.sorted[from..].iter().take_while(|(known, _)| *known == id);
        let recent = self.recent.iter().filter(|(known, _)| *known == id);
        sorted.chain(recent).map(|(_, slot)| *slot).collect()
    }
}

impl Index {
    /// The slots of what is out of order and has this id, removed ones too.
    pub fn strays(&self, state: &State, id: MessageId) -> Result<Vec<u32>> {
        if state.irregular == 0 || state.irregular_max < id.ticks() {
            return Ok(Vec::new());
        }
        let mut strays = crate::files::session::relock(&self.strays);
        if let Err(error) = strays.follow(&mut self.chain(state), state.irregular) {
            *strays = Strays::default();
            return Err(error);
        }
        let mut slots = strays.slots_of(id);
        slots.retain(|slot| *slot <= state.committed);
        Ok(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ticks: u64) -> MessageId {
        MessageId::from_ticks(MessageId::MIN.ticks() + ticks).unwrap()
    }

    #[test]
    fn every_slot_of_an_id_is_found_in_order_or_not() {
        let strays = Strays {
            head: 9,
            sorted: vec![(id(1), 2), (id(3), 4), (id(3), 6), (id(5), 1)],
            recent: vec![(id(3), 9), (id(2), 8)],
        };
        assert_eq!(strays.slots_of(id(3)), [4, 6, 9]);
        assert_eq!(strays.slots_of(id(2)), [8]);
        assert!(strays.slots_of(id(4)).is_empty());
    }
}
