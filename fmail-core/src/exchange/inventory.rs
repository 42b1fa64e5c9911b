//! All places of a project, in memory, in their order.
//!
//! The places stand in sorted chunks, each with what it adds up to. So a stretch costs a look at the chunks in it, and at
//! the places of the two in which it begins and ends: microseconds at a hundred thousand messages. A place takes 40 bytes,
//! and so does a message that comes behind all others; where they come in any order, chunks are half full at worst, and a message
//! costs 80. A relocated one costs 120 more. A million messages take 40 to 80 MB.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use fmail_api::{ContentHash, Fingerprint, Held, Identity, Message, MessageId, Place, Stretch, Timestamp};

/// No chunk has more places than this: one that is full is divided.
const LARGEST: usize = 1024;

/// How far a message's time may lie from the time that its id spells, to be found by its id without reading it. Where
/// stores give both they are of one second, or a little apart when ids have run ahead of the clock.
const NEAR: Duration = Duration::from_secs(2);

/// The places that are held.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    chunks: Vec<Chunk>,
    /// The ids of messages that have another id here than where they were born.
    moved: HashMap<Identity, MessageId>,
    /// The same the other way.
    born: HashMap<MessageId, Identity>,
}

#[derive(Debug, Default)]
struct Chunk {
    places: Vec<Place>,
    fingerprint: Fingerprint,
}

impl Chunk {
    fn of(places: Vec<Place>) -> Self {
        let fingerprint = sum(&places);
        Chunk { places, fingerprint }
    }
}

fn sum(places: &[Place]) -> Fingerprint {
    places.iter().map(Fingerprint::of_place).fold(Fingerprint::default(), Fingerprint::and)
}

/// The first place that a message of this time could have.
pub(crate) fn first_at(time: Timestamp) -> Place {
    Place { time, origin: MessageId::MIN, hash: ContentHash::from_bytes([0; 16]) }
}

impl Inventory {
    /// Takes a message in. One that is there already changes nothing.
    pub(crate) fn insert(&mut self, message: &Message) {
        let place = Place::of(message);
        if message.origin_id.is_some_and(|origin| origin != message.id) {
            self.moved.insert(place.identity(), message.id);
            self.born.insert(message.id, place.identity());
        }
        self.insert_place(place);
    }

    fn insert_place(&mut self, place: Place) {
        // Most messages are the newest: the last chunk takes them without any search.
        let number = self.chunk_of(&place);
        let is_last = number + 1 == self.chunks.len();
        let Some(chunk) = self.chunks.get_mut(number) else {
            self.chunks.push(Chunk::of(vec![place]));
            return;
        };
        let Err(index) = chunk.places.binary_search(&place) else { return };
        if chunk.places.len() < LARGEST {
            chunk.places.insert(index, place);
            chunk.fingerprint = chunk.fingerprint.and(Fingerprint::of_place(&place));
            return;
        }
        // Before it grows: room for one more than this would be room for twice as many.
        if index == LARGEST && is_last {
            // Most messages are the newest: what comes behind all others begins the next chunk, and this one stays full.
            self.chunks.push(Chunk::of(vec![place]));
            return;
        }
        let behind = chunk.places.split_off(LARGEST / 2);
        let before = std::mem::take(&mut chunk.places);
        *chunk = Chunk::of(before);
        self.chunks.insert(number + 1, Chunk::of(behind));
        self.insert_place(place);
    }

    /// The chunk that holds a place, or would.
    fn chunk_of(&self, place: &Place) -> usize {
        self.chunks.partition_point(|chunk| chunk.places.first().is_some_and(|first| first <= place)).saturating_sub(1)
    }

    /// Whether a place is held.
    pub(crate) fn contains(&self, place: &Place) -> bool {
        self.chunks.get(self.chunk_of(place)).is_some_and(|chunk| chunk.places.binary_search(place).is_ok())
    }

    /// Takes a place out.
    pub(crate) fn remove(&mut self, place: &Place) {
        if let Some(id) = self.moved.remove(&place.identity()) {
            self.born.remove(&id);
        }
        let number = self.chunk_of(place);
        let Some(chunk) = self.chunks.get_mut(number) else { return };
        let Ok(index) = chunk.places.binary_search(place) else { return };
        chunk.places.remove(index);
        chunk.fingerprint = chunk.fingerprint.without(Fingerprint::of_place(place));
        if chunk.places.is_empty() {
            self.chunks.remove(number);
        }
    }

    /// Takes out every place before a time.
    pub(crate) fn remove_before(&mut self, time: Timestamp) {
        let first = first_at(time);
        let gone = self.chunks.partition_point(|chunk| chunk.places.last().is_some_and(|last| *last < first));
        let mut removed: Vec<Place> = self.chunks.drain(..gone).flat_map(|chunk| chunk.places).collect();
        if let Some(chunk) = self.chunks.first_mut() {
            let rest = chunk.places.partition_point(|place| *place < first);
            removed.extend(chunk.places.drain(..rest));
            if rest > 0 {
                chunk.fingerprint = sum(&chunk.places);
            }
        }
        if !self.moved.is_empty() {
            for place in removed {
                if let Some(id) = self.moved.remove(&place.identity()) {
                    self.born.remove(&id);
                }
            }
        }
    }

    /// What is held in a stretch.
    pub(crate) fn held(&self, stretch: Stretch) -> Held {
        let (mut count, mut fingerprint) = (0, Fingerprint::default());
        for (chunk, range) in self.runs(&stretch) {
            count += range.len() as u64;
            let whole = range.len() == chunk.places.len();
            fingerprint = fingerprint.and(if whole { chunk.fingerprint } else { sum(&chunk.places[range]) });
        }
        Held { stretch, count, fingerprint }
    }

    /// The places of a stretch, in order.
    pub(crate) fn places<'a>(&'a self, stretch: &'a Stretch) -> impl Iterator<Item = &'a Place> {
        self.runs(stretch).flat_map(|(chunk, range)| &chunk.places[range])
    }

    /// The chunks that a stretch touches, each with the part of it that lies in the stretch.
    fn runs<'a>(&'a self, stretch: &'a Stretch) -> impl Iterator<Item = (&'a Chunk, Range<usize>)> {
        let first = stretch.from.map_or(0, |from| self.chunk_of(&from));
        self.chunks.iter().skip(first).map_while(|chunk| {
            let begin = stretch.from.map_or(0, |from| chunk.places.partition_point(|place| *place < from));
            let end = stretch.to.map_or(chunk.places.len(), |to| chunk.places.partition_point(|place| *place < to));
            let beyond = stretch.to.is_some_and(|to| chunk.places.first().is_some_and(|first| *first >= to));
            (!beyond).then_some((chunk, begin..end.max(begin)))
        })
    }

    /// A stretch in so many parts that hold about as much each, from its beginning to its end.
    pub(crate) fn divided(&self, whole: Stretch, counted: Stretch, parts: usize) -> Vec<Held> {
        let count = self.held(counted).count as usize;
        let mut bounds: Vec<Place> = Vec::new();
        let (mut seen, mut next) = (0, 1);
        for (chunk, range) in self.runs(&counted) {
            while next < parts && next * count / parts < seen + range.len() {
                let at = next * count / parts;
                bounds.push(chunk.places[range.start + at - seen]);
                next += 1;
            }
            seen += range.len();
        }
        bounds.dedup();
        let begins = std::iter::once(whole.from).chain(bounds.iter().copied().map(Some));
        let ends = bounds.iter().copied().map(Some).chain(std::iter::once(whole.to));
        begins
            .zip(ends)
            .map(|(from, to)| {
                let part = Stretch { from: from.max(counted.from), to };
                Held { stretch: Stretch { from, to }, ..self.held(part) }
            })
            .collect()
    }

    /// The id here of a message that has another one than where it was born.
    pub(crate) fn moved(&self, identity: &Identity) -> Option<MessageId> {
        self.moved.get(identity).copied()
    }

    /// The id under which a place is stored here.
    pub(crate) fn local(&self, place: &Place) -> MessageId {
        self.moved(&place.identity()).unwrap_or(place.origin)
    }

    /// Which message has this id here, as far as that can be told without reading it: one that was born with another id,
    /// or the only one near the time that the id spells.
    pub(crate) fn identity(&self, id: MessageId) -> Option<Identity> {
        if let Some(identity) = self.born.get(&id) {
            return Some(*identity);
        }
        let time = id.time();
        let near = Stretch { from: Some(first_at(time.before(NEAR))), to: Some(first_at(time.after(NEAR))) };
        let mut found = self.places(&near).filter(|place| place.origin == id);
        let here = |place: &&Place| !self.moved.contains_key(&place.identity());
        match (found.by_ref().find(here), found.find(here)) {
            (Some(place), None) => Some(place.identity()),
            _ => None,
        }
    }

    /// Where a message stands that is only known by its identity. Looks at every place when it is not near the time that
    /// its id spells.
    pub(crate) fn place(&self, identity: &Identity) -> Option<Place> {
        let time = identity.origin.time();
        let near = Stretch { from: Some(first_at(time.before(NEAR))), to: Some(first_at(time.after(NEAR))) };
        let is_it = |place: &&Place| place.identity() == *identity;
        let found = self.places(&near).find(is_it);
        found.or_else(|| self.chunks.iter().flat_map(|chunk| &chunk.places).find(is_it)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fmail_api::Draft;

    use super::*;

    fn message(number: u64) -> Message {
        // Neighbouring numbers lie far apart, so that chunks are divided in their middle too.
        let ticks = number.wrapping_mul(7_919) % 100_000;
        let id = MessageId::from_ticks(17_680_590_000_000 + ticks).unwrap();
        let draft = Draft::new("bob".parse().unwrap(), "task".parse().unwrap(), number);
        draft.into_message(id, id.time().whole_seconds())
    }

    fn filled(count: u64) -> (Inventory, BTreeSet<Place>) {
        let (mut inventory, mut places) = (Inventory::default(), BTreeSet::new());
        for number in 0..count {
            inventory.insert(&message(number));
            inventory.insert(&message(number));
            places.insert(Place::of(&message(number)));
        }
        (inventory, places)
    }

    fn expected(places: &BTreeSet<Place>, stretch: Stretch) -> Held {
        let inside: Vec<Place> = places.iter().filter(|place| stretch.contains(place)).copied().collect();
        Held { stretch, count: inside.len() as u64, fingerprint: sum(&inside) }
    }

    #[test]
    fn any_stretch_is_counted_as_its_places_are() {
        let (inventory, places) = filled(5_000);
        assert!(inventory.chunks.len() > 4 && inventory.chunks.iter().all(|chunk| chunk.places.len() <= LARGEST));
        let some: Vec<Place> = places.iter().copied().step_by(701).collect();
        let ends = || some.iter().copied().map(Some).chain([None]);
        for (from, to) in ends().flat_map(|from| ends().map(move |to| (from, to))) {
            let stretch = Stretch { from, to };
            assert_eq!(inventory.held(stretch), expected(&places, stretch));
            let listed: Vec<Place> = inventory.places(&stretch).copied().collect();
            assert_eq!(listed, places.iter().filter(|place| stretch.contains(place)).copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_message_takes_no_more_room_than_twice_its_place() {
        let room = |inventory: &Inventory| inventory.chunks.iter().map(|chunk| chunk.places.capacity()).sum::<usize>();
        let in_order = (0..20_000).map(|ticks| MessageId::from_ticks(17_680_590_000_000 + ticks).unwrap());
        let mut inventory = Inventory::default();
        for id in in_order {
            let draft = Draft::new("bob".parse().unwrap(), "task".parse().unwrap(), "x");
            inventory.insert(&draft.into_message(id, id.time().whole_seconds()));
        }
        assert!(room(&inventory) <= 20_000 + LARGEST, "one behind the other: {} places", room(&inventory));
        let (scattered, places) = filled(20_000);
        assert!(room(&scattered) <= places.len() * 2, "{} places for {}", room(&scattered), places.len());
    }

    #[test]
    fn what_is_taken_out_is_gone_and_the_rest_adds_up() {
        let (mut inventory, mut places) = filled(3_000);
        for place in places.clone().iter().step_by(3) {
            inventory.remove(place);
            places.remove(place);
            assert!(!inventory.contains(place));
        }
        assert_eq!(inventory.held(Stretch::default()), expected(&places, Stretch::default()));
        let time = places.iter().nth(places.len() / 2).unwrap().time;
        inventory.remove_before(time);
        places.retain(|place| place.time >= time);
        assert_eq!(inventory.held(Stretch::default()), expected(&places, Stretch::default()));
        assert!(places.iter().all(|place| inventory.contains(place)));
    }

    #[test]
    fn the_parts_of_a_stretch_follow_each_other_and_hold_about_as_much() {
        let (inventory, places) = filled(4_000);
        let (from, to) = (places.iter().nth(100).copied(), places.iter().nth(3_300).copied());
        for whole in [Stretch::default(), Stretch { from, to }, Stretch { from: None, to }] {
            let parts = inventory.divided(whole, whole, 16);
            assert_eq!(parts.len(), 16);
            assert_eq!((parts[0].stretch.from, parts[15].stretch.to), (whole.from, whole.to));
            for pair in parts.windows(2) {
                assert_eq!(pair[0].stretch.to, pair[1].stretch.from);
                assert!(pair[0].count.abs_diff(pair[1].count) <= 1, "{pair:?}");
            }
            for part in &parts {
                assert_eq!(*part, expected(&places, part.stretch));
            }
            assert_eq!(parts.iter().map(|part| part.count).sum::<u64>(), inventory.held(whole).count);
        }
    }

    #[test]
    fn a_message_under_another_id_is_found_both_ways() {
        let mut inventory = Inventory::default();
        let (ours, mut theirs) = (message(1), message(1));
        theirs.body = "theirs".into();
        (theirs.origin_id, theirs.id) = (Some(ours.id), message(2).id);
        inventory.insert(&ours);
        inventory.insert(&theirs);
        assert_eq!(inventory.local(&Place::of(&ours)), ours.id);
        assert_eq!(inventory.local(&Place::of(&theirs)), theirs.id);
        assert_eq!(inventory.identity(ours.id), Some(ours.identity()));
        assert_eq!(inventory.identity(theirs.id), Some(theirs.identity()));
        assert_eq!(inventory.place(&theirs.identity()), Some(Place::of(&theirs)));
        inventory.remove(&Place::of(&theirs));
        assert_eq!((inventory.identity(theirs.id), inventory.place(&theirs.identity())), (None, None));
    }
}
