//! The words that a query looks for, numbered.

use super::expression::Term;

/// The different words of a query, each with its number: first the whole words, then the beginnings of words.
#[derive(Debug, Clone)]
pub(super) struct Vocabulary {
    /// Sorted.
    whole: Vec<String>,
    /// Sorted.
    beginnings: Vec<String>,
    /// The lengths that the beginnings have, each once. A query of a few thousand bytes has at most some ninety, which
    /// bounds what looking up a word costs.
    lengths: Vec<usize>,
    /// Whether any of them begins with this byte; most words of a message are done with here.
    first_bytes: [bool; 256],
}

impl Vocabulary {
    pub(super) fn new(mut terms: Vec<Term>) -> Self {
        terms.sort_unstable();
        terms.dedup();
        let mut first_bytes = [false; 256];
        for byte in terms.iter().filter_map(|term| term.word.as_bytes().first()) {
            first_bytes[usize::from(*byte)] = true;
        }
        let (beginnings, whole): (Vec<Term>, Vec<Term>) = terms.into_iter().partition(|term| term.prefix);
        let mut lengths: Vec<usize> = beginnings.iter().map(|term| term.word.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let words = |terms: Vec<Term>| terms.into_iter().map(|term| term.word).collect();
        Vocabulary { whole: words(whole), beginnings: words(beginnings), lengths, first_bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.whole.len() + self.beginnings.len()
    }

    /// The number of a term of the query.
    pub(super) fn number(&self, term: &Term) -> Option<usize> {
        match term.prefix {
            true => self.beginnings.binary_search(&term.word).ok().map(|index| self.whole.len() + index),
            false => self.whole.binary_search(&term.word).ok(),
        }
    }

    /// Calls `hit` with the number of everything in the query that this word of a message is.
    pub(super) fn find(&self, word: &str, hit: &mut dyn FnMut(usize)) {
        let word = word.as_bytes();
        if !word.first().is_some_and(|byte| self.first_bytes[usize::from(*byte)]) {
            return;
        }
        if let Ok(index) = self.whole.binary_search_by(|whole| whole.as_bytes().cmp(word)) {
            hit(index);
        }
        for length in self.lengths.iter().take_while(|length| **length <= word.len()) {
            let start = &word[..*length];
            if let Ok(index) = self.beginnings.binary_search_by(|beginning| beginning.as_bytes().cmp(start)) {
                hit(self.whole.len() + index);
            }
        }
    }
}
