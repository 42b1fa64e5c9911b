//! The characters that one place of a pattern stands for.

/// What no class ever contains: `/` separates segments, and no path contains a NUL.
const NEVER: [(char, char); 2] = [('\0', '\0'), ('/', '/')];

/// What a witness is spelled with when there is a choice, the best first: characters that people use in names.
const READABLE: [(char, char); 5] = [('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_'), ('-', '-')];

/// A set of characters that may stand in a segment: sorted ranges that do not touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CharSet(Vec<(char, char)>);

impl CharSet {
    /// The characters in these ranges.
    pub(super) fn of(ranges: Vec<(char, char)>) -> Self {
        let mut others = complement(ranges);
        others.extend(NEVER);
        CharSet(complement(others))
    }

    /// The characters in none of these ranges.
    pub(super) fn except(mut ranges: Vec<(char, char)>) -> Self {
        ranges.extend(NEVER);
        CharSet(complement(ranges))
    }

    pub(super) fn contains(&self, character: char) -> bool {
        self.0.iter().any(|&(low, high)| (low..=high).contains(&character))
    }

    /// What both sets contain.
    pub(super) fn meet(&self, other: &CharSet) -> CharSet {
        CharSet(meet(&self.0, &other.0))
    }

    /// A character of the set, if it has one. It is a dot only when the set has nothing else, because the names `.` and
    /// `..` are no names and a choice must never lead there needlessly; the search relies on that.
    pub(super) fn example(&self) -> Option<char> {
        let readable = READABLE.iter().find_map(|range| meet(&self.0, &[*range]).first().map(|&(low, _)| low));
        // Of the first two characters of a range at most one is the dot.
        let without_dot = || self.0.iter().flat_map(|&(low, high)| (low..=high).take(2)).filter(|&found| found != '.');
        readable
            .or_else(|| without_dot().find(|found| !found.is_control()))
            .or_else(|| without_dot().next())
            .or_else(|| self.0.first().map(|&(low, _)| low))
    }
}

/// Everything outside the ranges, which may overlap and need no order.
fn complement(mut ranges: Vec<(char, char)>) -> Vec<(char, char)> {
    ranges.sort_unstable();
    let mut gaps = Vec::new();
    let mut next = Some('\0');
    for (low, high) in ranges {
        let Some(from) = next else { break };
        if from < low {
            gaps.extend(('\0'..low).next_back().map(|before| (from, before)));
        }
        next = if high < from { next } else { (high..=char::MAX).nth(1) };
    }
    gaps.extend(next.map(|from| (from, char::MAX)));
    gaps
}

/// The ranges that two lists of ranges share. Both are walked once, side by side.
fn meet(left: &[(char, char)], right: &[(char, char)]) -> Vec<(char, char)> {
    let (mut shared, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some(&(low, high)), Some(&(other_low, other_high))) = (left.get(i), right.get(j)) {
        if low.max(other_low) <= high.min(other_high) {
            shared.push((low.max(other_low), high.min(other_high)));
        }
        if high < other_high { i += 1 } else { j += 1 }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: CharSet, ranges: &[(char, char)], example: Option<char>) {
        assert_eq!((set.0.as_slice(), set.example()), (ranges, example));
    }

    #[test]
    fn ranges_are_merged_and_never_hold_a_slash_or_nul() {
        check(CharSet::of(vec![('c', 'f'), ('a', 'd')]), &[('a', 'f')], Some('a'));
        check(CharSet::of(vec![('.', '0')]), &[('.', '.'), ('0', '0')], Some('0'));
        check(CharSet::of(vec![('/', '/')]), &[], None);
        check(CharSet::except(vec![]), &[('\u{1}', '.'), ('0', char::MAX)], Some('a'));
        check(CharSet::except(vec![('\0', char::MAX)]), &[], None);
        check(CharSet::except(vec![('\0', 'y'), ('{', char::MAX)]), &[('z', 'z')], Some('z'));
    }

    #[test]
    fn the_gap_of_the_surrogates_holds_no_character() {
        let around = CharSet::of(vec![('\u{d7ff}', '\u{e000}')]);
        assert!(around.meet(&CharSet::except(vec![('\u{d7ff}', '\u{d7ff}'), ('\u{e000}', '\u{e000}')])).0.is_empty());
    }

    #[test]
    fn an_example_is_a_dot_only_when_there_is_nothing_else() {
        check(CharSet::of(vec![('.', '.')]), &[('.', '.')], Some('.'));
        check(CharSet::of(vec![('-', '.')]), &[('-', '.')], Some('-'));
        check(CharSet::of(vec![('.', '.'), ('\u{1}', '\u{1}')]), &[('\u{1}', '\u{1}'), ('.', '.')], Some('\u{1}'));
        check(CharSet::of(vec![('.', '.'), ('é', 'é')]), &[('.', '.'), ('é', 'é')], Some('é'));
    }

    #[test]
    fn a_meeting_is_what_both_contain() {
        let letters = CharSet::of(vec![('a', 'f'), ('x', 'z')]);
        check(letters.meet(&CharSet::of(vec![('e', 'y')])), &[('e', 'f'), ('x', 'y')], Some('e'));
        check(letters.meet(&CharSet::of(vec![('0', '9')])), &[], None);
    }
}
