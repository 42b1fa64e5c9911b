//! What a query says, in a form in which everything that means nothing (parentheses, spelling, case) is gone.

use super::column::ColumnSet;
use super::tokenizer::for_each_word;

/// A condition on a message.
///
/// Lists are flat: an [`Expression::And`] has no `And` in it, an [`Expression::Or`] no `Or`, and the `keep` of an
/// [`Expression::Not`] is no `Not`. The functions below keep it so.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// These words follow each other in one column.
    Phrase(Phrase),
    /// Two or more different phrases stand close together in one column.
    Near { phrases: Vec<Phrase>, distance: u32 },
    /// The condition holds, and what it names is found in these columns.
    Within { columns: ColumnSet, inner: Box<Expression> },
    /// All of two or more hold.
    And(Vec<Expression>),
    /// One of two or more holds.
    Or(Vec<Expression>),
    /// `keep` holds, and none of `without`.
    Not { keep: Box<Expression>, without: Vec<Expression> },
}

/// Words that follow each other. Without any word, as in `"?!"`, it is found nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Phrase {
    pub(super) terms: Vec<Term>,
    /// Only at the start of a column.
    pub(super) first: bool,
}

/// A word that is looked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    /// The word, as the tokenizer gives it.
    pub(super) word: String,
    /// Whether it may go on.
    pub(super) prefix: bool,
}

impl Phrase {
    /// Appends the words of a string of the query. A `*` behind it concerns the last word of the phrase so far, even
    /// when the string has no word: so FTS5 has it.
    pub(super) fn append(&mut self, text: &str, prefix: bool) {
        for_each_word(text, &mut String::new(), |word| self.terms.push(Term { word: word.to_owned(), prefix: false }));
        if let Some(last) = self.terms.last_mut() {
            last.prefix = prefix;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl Expression {
    /// A NEAR group. Phrases without words are left out of it, as FTS5 does, and repeated ones, which change nothing;
    /// what is left alone is near to itself.
    pub(super) fn near(phrases: Vec<Phrase>, distance: u32) -> Expression {
        let mut different: Vec<Phrase> = Vec::new();
        for phrase in phrases {
            if !phrase.is_empty() && !different.contains(&phrase) {
                different.push(phrase);
            }
        }
        match different.len() {
            0 | 1 => Expression::Phrase(different.pop().unwrap_or_default()),
            _ => Expression::Near { phrases: different, distance },
        }
    }

    /// `self AND other`.
    pub(super) fn and(self, other: Expression) -> Expression {
        let mut all = match self {
            Expression::And(all) => all,
            one => vec![one],
        };
        match other {
            Expression::And(others) => all.extend(others),
            one => all.push(one),
        }
        Expression::And(all)
    }

    /// `self OR other`.
    pub(super) fn or(self, other: Expression) -> Expression {
        let mut any = match self {
            Expression::Or(any) => any,
            one => vec![one],
        };
        match other {
            Expression::Or(others) => any.extend(others),
            one => any.push(one),
        }
        Expression::Or(any)
    }

    /// `self NOT other`.
    pub(super) fn not(self, other: Expression) -> Expression {
        match self {
            Expression::Not { keep, mut without } => {
                without.push(other);
                Expression::Not { keep, without }
            }
            keep => Expression::Not { keep: Box::new(keep), without: vec![other] },
        }
    }

    /// Calls `visit` with every phrase, in order; those that NOT excludes only when they are asked for.
    pub(super) fn for_each_phrase<'e>(&'e self, excluded: bool, visit: &mut dyn FnMut(&'e Phrase)) {
        match self {
            Expression::Phrase(phrase) => visit(phrase),
            Expression::Near { phrases, .. } => phrases.iter().for_each(visit),
            Expression::Within { inner, .. } => inner.for_each_phrase(excluded, visit),
            Expression::And(list) | Expression::Or(list) => {
                list.iter().for_each(|one| one.for_each_phrase(excluded, visit));
            }
            Expression::Not { keep, without } => {
                keep.for_each_phrase(excluded, visit);
                without.iter().filter(|_| excluded).for_each(|one| one.for_each_phrase(excluded, visit));
            }
        }
    }

    /// Whether this is a phrase or a NEAR group with words in it, with a filter or not: what may stand in a row
    /// without operators.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Expression::Phrase(phrase) => !phrase.is_empty(),
            Expression::Near { .. } => true,
            Expression::Within { inner, .. } => match &**inner {
                Expression::Phrase(phrase) => !phrase.is_empty(),
                Expression::Near { .. } => true,
                _ => false,
            },
            _ => false,
        }
    }
}
