//! Stretches of time: which record holds the state of which message.
//!
//! The states of a day are one record, as long as they are few. A record that has grown too large is split: its states
//! move to the records of shorter stretches, an hour, ten minutes, a minute, down to ten milliseconds, in which there is
//! room for no more than a hundred ids. So whoever changes one state reads and writes a few hundred at most, on a day
//! with ten messages and on a day with a million; and where mail is sparse, few records hold it all.
//!
//! A split may be cut off at any moment, so it is done in three steps that anyone can finish: the record says that it is
//! split and keeps its states; the shorter records are created, each if it is not there; the states are taken out. From
//! the first step on nobody changes the states in the longer record, so what a shorter one says is always the newer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

use fmail_api::{Error, MessageId, Record};
use serde::{Deserialize, Serialize};

use super::tally::States;

/// How many characters of an id name a stretch: a day, an hour, ten minutes, a minute, ten seconds, a second, a tenth of
/// a second, ten milliseconds.
const LENGTHS: [usize; 8] = [8, 11, 12, 13, 14, 15, 17, 18];

/// All ids whose text begins alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Stretch(String);

impl Stretch {
    /// The day of an id.
    pub(super) fn day(id: MessageId) -> Self {
        Stretch(id.day())
    }

    /// The stretch that this text names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let named = Stretch(text.into());
        (LENGTHS.contains(&text.len()) && named.first().is_some()).then_some(named)
    }

    /// The stretch whose states of mail a record holds; nothing for a record of anything else.
    pub(super) fn of_record(record: &Record) -> Option<Self> {
        Stretch::parse(record.key.segments().nth(2)?)
    }

    /// Its name: the beginning of its ids.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The day that it is a part of.
    pub(super) fn as_day(&self) -> &str {
        &self.0[..LENGTHS[0]]
    }

    /// Its first and its last id.
    pub(super) fn ids(&self) -> RangeInclusive<MessageId> {
        let last = self.completed("YYYYMMDD-235959-9999").unwrap_or(MessageId::MIN);
        self.first().unwrap_or(MessageId::MAX)..=last
    }

    fn first(&self) -> Option<MessageId> {
        self.completed("YYYYMMDD-000000-0000")
    }

    fn completed(&self, pattern: &str) -> Option<MessageId> {
        format!("{}{}", self.0, pattern.get(self.0.len()..)?).parse().ok()
    }

    /// Whether `other` is this stretch or a part of it.
    pub(super) fn covers(&self, other: &Stretch) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Whether it has parts.
    pub(super) fn is_divisible(&self) -> bool {
        self.next_length().is_some()
    }

    fn next_length(&self) -> Option<usize> {
        LENGTHS.into_iter().find(|length| *length > self.0.len())
    }

    /// The part that an id of this stretch belongs to. The shortest stretch has none.
    pub(super) fn part(&self, id: MessageId) -> Option<Stretch> {
        let mut text = id.to_string();
        text.truncate(self.next_length()?);
        Some(Stretch(text))
    }

    /// All its parts.
    pub(super) fn parts(&self) -> Vec<Stretch> {
        let Some(length) = self.next_length() else { return Vec::new() };
        let added = length - self.0.len();
        // Behind a day and behind a second there is a hyphen. Of ten minutes there are six, of hours 24.
        let (hyphen, digits) = if matches!(self.0.len(), 8 | 15) { ("-", added - 1) } else { ("", added) };
        let numbers = (0..10_u32.pow(digits as u32)).map(|number| format!("{}{hyphen}{number:0digits$}", self.0));
        numbers.filter_map(|name| Stretch::parse(&name)).collect()
    }

    /// Ids of this stretch, by its parts.
    pub(super) fn divided(&self, ids: &BTreeSet<MessageId>) -> BTreeMap<Stretch, BTreeSet<MessageId>> {
        grouped(ids.iter().copied(), |id| self.part(*id).unwrap_or_else(|| self.clone()))
    }

    /// States of this stretch, by its parts.
    pub(super) fn divided_states(&self, states: States) -> BTreeMap<Stretch, States> {
        grouped(states, |(id, _)| self.part(*id).unwrap_or_else(|| self.clone()))
    }
}

/// Ids by their days.
pub(super) fn by_day(ids: &BTreeSet<MessageId>) -> BTreeMap<Stretch, BTreeSet<MessageId>> {
    grouped(ids.iter().copied(), |id| Stretch::day(*id))
}

fn grouped<One, Group: Default + Extend<One>>(
    all: impl IntoIterator<Item = One>,
    stretch: impl Fn(&One) -> Stretch,
) -> BTreeMap<Stretch, Group> {
    let mut groups: BTreeMap<Stretch, Group> = BTreeMap::new();
    for one in all {
        groups.entry(stretch(&one)).or_default().extend([one]);
    }
    groups
}

impl TryFrom<String> for Stretch {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Stretch::parse(&text)
            .ok_or_else(|| Error::invalid(format!("`{}` is not the beginning of an id", text.escape_debug())))
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_stretch_cover_it_without_gap_and_overlap() {
        let mut stretch = Stretch::parse("20260110").unwrap();
        for count in [24, 6, 10, 6, 10, 10, 10] {
            let parts = stretch.parts();
            assert_eq!(parts.len(), count, "{stretch}");
            assert_eq!(
                (parts[0].ids().start(), parts[count - 1].ids().end()),
                (stretch.ids().start(), stretch.ids().end())
            );
            for pair in parts.windows(2) {
                assert_eq!(pair[0].ids().end().next(), *pair[1].ids().start(), "{pair:?}");
            }
            for part in &parts {
                assert!(stretch.covers(part) && !part.covers(&stretch));
                assert_eq!(stretch.part(*part.ids().start()).as_ref(), Some(part));
                assert_eq!(stretch.part(*part.ids().end()).as_ref(), Some(part));
            }
            stretch = parts[count / 2].clone();
        }
        assert!(!stretch.is_divisible() && stretch.parts().is_empty());
        let ids = stretch.ids();
        assert_eq!(ids.end().ticks() - ids.start().ticks(), 99, "the shortest has room for a hundred");
    }

    #[test]
    fn only_the_beginnings_of_ids_name_a_stretch() {
        for text in [
            "",
            "2026011",
            "20260110-",
            "20260110-1",
            "20260110-24",
            "20260110-156",
            "20261310",
            "tally",
            "20260110.topics",
        ] {
            assert_eq!(Stretch::parse(text), None, "{text}");
        }
        assert_eq!(Stretch::parse("20260110-153").unwrap().as_day(), "20260110");
    }
}
