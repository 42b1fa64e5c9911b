//! The order in which a conversation is shown: the oldest first, and nothing before what it answers.
//!
//! Not by ids alone. A message whose id was taken here has a later one than its answers, and a host whose clock is behind
//! answers before it was asked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fmail_api::{Message, MessageId};

/// A message of a conversation, as far as its place in it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    id: MessageId,
    /// The id that it was born with, which has its time.
    born: MessageId,
    /// What it answers.
    above: Option<MessageId>,
}

impl Turn {
    /// The turn of a message that answers this one. Which one that is here, the message may not know itself.
    pub(crate) fn of(message: &Message, above: Option<MessageId>) -> Turn {
        Turn { id: message.id, born: message.origin_id.unwrap_or(message.id), above }
    }
}

/// The ids of a conversation, in order.
pub(crate) fn in_order(turns: impl IntoIterator<Item = Turn>) -> Vec<MessageId> {
    let turns: BTreeMap<MessageId, Turn> = turns.into_iter().map(|turn| (turn.id, turn)).collect();
    let mut answers: HashMap<MessageId, Vec<&Turn>> = HashMap::new();
    let (mut next, mut left) = (BTreeSet::new(), BTreeSet::new());
    for turn in turns.values() {
        left.insert((turn.born, turn.id));
        match turn.above.filter(|above| turns.contains_key(above)) {
            Some(above) => answers.entry(above).or_default().push(turn),
            None => drop(next.insert((turn.born, turn.id))),
        }
    }
    let mut ordered = Vec::with_capacity(turns.len());
    // A chain that bites its own tail has no beginning: its oldest is as good as any.
    while let Some(turn) = next.pop_first().or_else(|| left.first().copied()) {
        if left.remove(&turn) {
            ordered.push(turn.1);
            next.extend(answers.remove(&turn.1).into_iter().flatten().map(|turn| (turn.born, turn.id)));
        }
    }
    ordered
}

/// A conversation in order, of messages that agents see: they say which message of this project they answer.
pub fn oldest_first<T>(mut all: Vec<T>, message: impl Fn(&T) -> &Message) -> Vec<T> {
    let order = in_order(all.iter().map(|one| Turn::of(message(one), message(one).reply_to)));
    let place: HashMap<MessageId, usize> = order.into_iter().enumerate().map(|(place, id)| (id, place)).collect();
    all.sort_by_key(|one| place.get(&message(one).id).copied());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> MessageId {
        format!("20260110-153000-{number:04}").parse().unwrap()
    }

    /// Of turns `(id, born, above)` the ids in order.
    fn ordered(turns: &[(u16, u16, Option<u16>)]) -> Vec<u16> {
        let turn =
            |(own, born, above): &(u16, u16, Option<u16>)| Turn { id: id(*own), born: id(*born), above: above.map(id) };
        let numbers: HashMap<MessageId, u16> = turns.iter().map(|(own, ..)| (id(*own), *own)).collect();
        in_order(turns.iter().map(turn)).iter().map(|id| numbers[id]).collect()
    }

    #[test]
    fn nothing_stands_before_what_it_answers_and_the_rest_goes_by_birth() {
        for (turns, expected) in [
            (&[][..], &[][..]),
            (&[(1, 1, None), (2, 2, Some(1)), (3, 3, Some(1))], &[1, 2, 3]),
            // It got a later id here than its answers have.
            (&[(9, 1, None), (2, 2, Some(9)), (3, 3, Some(2))], &[9, 2, 3]),
            // It was answered by a host whose clock was behind.
            (&[(1, 1, Some(5)), (5, 5, None), (2, 2, Some(1))], &[5, 1, 2]),
            // What it answers is not here, or is not for these eyes.
            (&[(3, 3, Some(8)), (4, 4, None), (9, 2, None)], &[9, 3, 4]),
            (&[(1, 1, Some(1))], &[1]),
            (&[(7, 7, None), (1, 1, Some(3)), (3, 3, Some(2)), (2, 2, Some(1))], &[7, 1, 2, 3]),
        ] {
            assert_eq!(ordered(turns), expected, "{turns:?}");
        }
    }
}
