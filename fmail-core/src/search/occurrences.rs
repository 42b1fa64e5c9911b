//! Where the words of a query stand in one column of a message, and what follows from it.
//!
//! The cost is bounded for any query and any text. With `n` words in the column and `q` in the query, a phrase costs
//! its length times `n / 64`, and all phrases together at most `q * n / 64`: frequent words are sets of bits, which are
//! compared 64 positions at a time. What is kept takes a few bytes for each word of the column that the query knows.

use std::cell::OnceCell;

use super::plan::PlannedPhrase;

const WORD: usize = u64::BITS as usize;

/// The positions of each word of the query in a column, counted in words of the column.
#[derive(Debug)]
pub(super) struct Occurrences {
    positions: Vec<Positions>,
    /// How many words the column has.
    length: usize,
}

/// The positions of one word, in order.
#[derive(Debug, Default)]
struct Positions {
    list: Vec<u32>,
    /// The same as bits, made when a phrase asks for it.
    bits: OnceCell<Vec<u64>>,
}

impl Occurrences {
    pub(super) fn new(words: usize) -> Self {
        Occurrences { positions: (0..words).map(|_| Positions::default()).collect(), length: 0 }
    }

    /// Forgets the column.
    pub(super) fn clear(&mut self) {
        self.length = 0;
        for positions in &mut self.positions {
            positions.list.clear();
            positions.bits.take();
        }
    }

    /// Notes the next word of the column: `find` calls what it is given with the number of each word of the query that
    /// this is.
    pub(super) fn add(&mut self, find: impl FnOnce(&mut dyn FnMut(usize))) {
        let position = self.length as u32;
        find(&mut |number| self.positions[number].list.push(position));
        self.length += 1;
    }

    /// Whether the phrase is in the column.
    pub(super) fn has(&self, phrase: &PlannedPhrase) -> bool {
        match (phrase.words.as_slice(), phrase.first) {
            ([], _) => false,
            ([word], false) => !self.positions[*word].list.is_empty(),
            ([word], true) => self.positions[*word].list.first() == Some(&0),
            (_, false) => self.starts(phrase).iter().any(|bits| *bits != 0),
            (_, true) => self.starts(phrase).first().is_some_and(|bits| bits & 1 != 0),
        }
    }

    /// Whether some of the phrases stand in the column such that between the start of the last and the end of each
    /// other there are at most `distance` words.
    ///
    /// Each place of a phrase allows a range of places for the start of the last one; all of them must have one in
    /// common.
    pub(super) fn near(&self, phrases: &[PlannedPhrase], distance: u32) -> bool {
        let mut allowed = vec![(0, u32::MAX)];
        for phrase in phrases {
            let reach = distance.saturating_add(phrase.words.len() as u32);
            allowed = common(&allowed, &ranges(&self.list(phrase), reach));
        }
        !allowed.is_empty()
    }

    /// Where the phrase begins.
    fn list(&self, phrase: &PlannedPhrase) -> Vec<u32> {
        match phrase.words.as_slice() {
            [word] => self.positions[*word].list.clone(),
            _ => ones(&self.starts(phrase)),
        }
    }

    /// Where the phrase begins, as bits.
    fn starts(&self, phrase: &PlannedPhrase) -> Vec<u64> {
        if phrase.words.iter().any(|word| self.positions[*word].list.is_empty()) {
            return Vec::new();
        }
        let mut starts = vec![u64::MAX; self.length.div_ceil(WORD)];
        for (offset, word) in phrase.words.iter().enumerate() {
            self.positions[*word].keep_before(&mut starts, offset, self.length);
        }
        starts
    }
}

impl Positions {
    /// Keeps of `starts` those that this word follows at the distance `offset`.
    fn keep_before(&self, starts: &mut [u64], offset: usize, length: usize) {
        if self.list.len() < starts.len() {
            return self.keep_before_few(starts, offset);
        }
        let bits = self.bits.get_or_init(|| self.to_bits(length));
        let (skip, shift) = (offset / WORD, offset % WORD);
        for (index, start) in starts.iter_mut().enumerate() {
            let low = bits.get(index + skip).map_or(0, |bits| bits >> shift);
            let high = bits.get(index + skip + 1).map_or(0, |bits| bits.unbounded_shl((WORD - shift) as u32));
            *start &= low | high;
        }
    }

    /// The same for a word that is too rare to be worth a set of bits.
    fn keep_before_few(&self, starts: &mut [u64], offset: usize) {
        let mut kept = vec![0; starts.len()];
        for start in self.list.iter().filter_map(|position| (*position as usize).checked_sub(offset)) {
            kept[start / WORD] |= starts[start / WORD] & (1 << (start % WORD));
        }
        starts.copy_from_slice(&kept);
    }

    fn to_bits(&self, length: usize) -> Vec<u64> {
        let mut bits = vec![0; length.div_ceil(WORD)];
        for position in self.list.iter().map(|position| *position as usize) {
            bits[position / WORD] |= 1 << (position % WORD);
        }
        bits
    }
}

/// The numbers of the bits that are set.
fn ones(bits: &[u64]) -> Vec<u32> {
    let mut ones = Vec::new();
    for (index, word) in bits.iter().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            ones.push((index * WORD) as u32 + rest.trailing_zeros());
            rest &= rest - 1;
        }
    }
    ones
}

/// The ranges from each position to `reach` beyond it, those that overlap made one.
fn ranges(positions: &[u32], reach: u32) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for position in positions {
        let end = position.saturating_add(reach);
        match ranges.last_mut() {
            Some(last) if *position <= last.1 => last.1 = end,
            _ => ranges.push((*position, end)),
        }
    }
    ranges
}

/// What two lists of ranges, each in order and without overlap, have in common.
fn common(some: &[(u32, u32)], others: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let (mut some, mut others) = (some.iter().peekable(), others.iter().peekable());
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (some.peek(), others.peek()) {
        let (start, end) = (one.0.max(other.0), one.1.min(other.1));
        if start <= end {
            common.push((start, end));
        }
        if one.1 <= other.1 {
            some.next();
        } else {
            others.next();
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column in which each letter is a word, and the query knows `a`, `b` and `c` as 0, 1 and 2.
    fn column(letters: &str) -> Occurrences {
        let mut occurrences = Occurrences::new(3);
        for letter in letters.bytes() {
            occurrences.add(|hit| {
                if letter.is_ascii_lowercase() && letter <= b'c' {
                    hit(usize::from(letter - b'a'));
                }
            });
        }
        occurrences
    }

    fn phrase(letters: &str) -> PlannedPhrase {
        PlannedPhrase { words: letters.bytes().map(|letter| usize::from(letter - b'a')).collect(), first: false }
    }

    /// What [`Occurrences::starts`] means, the slow way.
    fn found(letters: &str, phrase: &str) -> Vec<u32> {
        let starts = 0..letters.len();
        starts.filter(|start| letters[*start..].starts_with(phrase)).map(|start| start as u32).collect()
    }

    #[test]
    fn phrases_are_found_across_the_words_of_a_bit_set() {
        let dense = "ab".repeat(100);
        let mixed = format!("{}ab{}abc{}", "x".repeat(63), "a".repeat(70), "xc".repeat(40));
        for text in [dense.as_str(), &mixed, "abc", "", "c"] {
            for wanted in ["ab", "ba", "abab", "aaa", "abc", "bca", "cc", &"ab".repeat(40), &"a".repeat(65)] {
                let starts = ones(&column(text).starts(&phrase(wanted)));
                assert_eq!(starts, found(text, wanted), "{wanted} in {text}");
            }
        }
    }

    #[test]
    fn near_counts_the_words_between_the_end_of_one_and_the_start_of_the_other() {
        let near = |letters, phrases: &[&str], distance| {
            let phrases: Vec<_> = phrases.iter().map(|letters| phrase(letters)).collect();
            column(letters).near(&phrases, distance)
        };
        assert!(near("axxb", &["a", "b"], 2) && near("bxxa", &["a", "b"], 2));
        assert!(!near("axxxb", &["a", "b"], 2));
        assert!(near("aaxxb", &["aa", "b"], 2) && !near("aaxxxb", &["aa", "b"], 2));
        assert!(near("axbxc", &["c", "a", "b"], 3) && !near("axbxc", &["c", "a", "b"], 2));
        assert!(!near("axx", &["a", "b"], 9));
        assert!(near("axxxxb", &["a", "b"], u32::MAX));
    }

    #[test]
    fn the_first_word_of_a_column_is_told_from_others() {
        let first = |letters| PlannedPhrase { first: true, ..phrase(letters) };
        assert!(column("abc").has(&first("a")) && column("abc").has(&first("ab")));
        assert!(!column("cab").has(&first("a")) && !column("cab").has(&first("ab")));
        assert!(!column("abc").has(&phrase("")));
    }
}
