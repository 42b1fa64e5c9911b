//! A query prepared for looking into many messages.
//!
//! The words of a column are read once, and each is looked up among the words of the query. What is kept of the column
//! is where the query's words stand in it; conditions on phrases are answered from that, and the operators from those
//! answers. The columns are taken one after another, since no phrase goes over two of them.

use fmail_api::Message;

use super::column::{ColumnSet, SearchColumn};
use super::expression::{Expression, Phrase};
use super::occurrences::Occurrences;
use super::tokenizer::for_each_word;
use super::vocabulary::Vocabulary;

/// A prepared query.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    vocabulary: Vocabulary,
    conditions: Vec<Condition>,
    verdict: Verdict,
}

/// Phrases that stand near each other in one of these columns; mostly it is one phrase.
#[derive(Debug, Clone)]
struct Condition {
    columns: ColumnSet,
    phrases: Vec<PlannedPhrase>,
    distance: u32,
}

/// A phrase, its words by their numbers in the vocabulary.
#[derive(Debug, Clone)]
pub(super) struct PlannedPhrase {
    pub(super) words: Vec<usize>,
    pub(super) first: bool,
}

/// How the answers to the conditions make the answer to the query.
#[derive(Debug, Clone)]
enum Verdict {
    Condition(usize),
    All(Vec<Verdict>),
    Any(Vec<Verdict>),
    Except(Box<Verdict>, Vec<Verdict>),
}

impl Plan {
    pub(super) fn new(expression: &Expression) -> Self {
        let mut terms = Vec::new();
        expression.for_each_phrase(true, &mut |phrase| terms.extend(phrase.terms.iter().cloned()));
        let vocabulary = Vocabulary::new(terms);
        let mut conditions = Vec::new();
        let verdict = Verdict::of(expression, None, &vocabulary, &mut conditions);
        Plan { vocabulary, conditions, verdict }
    }

    pub(super) fn matches(&self, message: &Message) -> bool {
        let mut answers = vec![false; self.conditions.len()];
        let mut word = String::new();
        let mut occurrences = Occurrences::new(self.vocabulary.len());
        let wanted = self.conditions.iter().fold(ColumnSet::EMPTY, |all, condition| all.or(condition.columns));
        for column in wanted.iter() {
            occurrences.clear();
            column.for_each_part(message, &mut |part| {
                for_each_word(part, &mut word, |word| occurrences.add(|hit| self.vocabulary.find(word, hit)));
            });
            self.answer(column, &occurrences, &mut answers);
        }
        self.verdict.holds(&answers)
    }

    fn answer(&self, column: SearchColumn, occurrences: &Occurrences, answers: &mut [bool]) {
        for (condition, answer) in self.conditions.iter().zip(answers) {
            *answer = *answer || (condition.columns.contains(column) && condition.holds(occurrences));
        }
    }
}

impl Condition {
    fn holds(&self, occurrences: &Occurrences) -> bool {
        match self.phrases.as_slice() {
            [phrase] => occurrences.has(phrase),
            phrases => occurrences.near(phrases, self.distance),
        }
    }
}

impl Verdict {
    fn of(
        expression: &Expression,
        columns: Option<ColumnSet>,
        vocabulary: &Vocabulary,
        conditions: &mut Vec<Condition>,
    ) -> Verdict {
        let mut condition = |phrases: &[Phrase], distance| {
            let phrases = phrases.iter().map(|phrase| planned(phrase, vocabulary)).collect();
            conditions.push(Condition { columns: columns.unwrap_or_else(ColumnSet::text), phrases, distance });
            Verdict::Condition(conditions.len() - 1)
        };
        match expression {
            Expression::Phrase(phrase) => condition(std::slice::from_ref(phrase), 0),
            Expression::Near { phrases, distance } => condition(phrases, *distance),
            Expression::Within { columns: inside, inner } => {
                let columns = columns.map_or(*inside, |outside| outside.and(*inside));
                Verdict::of(inner, Some(columns), vocabulary, conditions)
            }
            Expression::And(all) => Verdict::All(Verdict::each(all, columns, vocabulary, conditions)),
            Expression::Or(any) => Verdict::Any(Verdict::each(any, columns, vocabulary, conditions)),
            Expression::Not { keep, without } => {
                let keep = Verdict::of(keep, columns, vocabulary, conditions);
                Verdict::Except(Box::new(keep), Verdict::each(without, columns, vocabulary, conditions))
            }
        }
    }

    fn each(
        expressions: &[Expression],
        columns: Option<ColumnSet>,
        vocabulary: &Vocabulary,
        conditions: &mut Vec<Condition>,
    ) -> Vec<Verdict> {
        expressions.iter().map(|one| Verdict::of(one, columns, vocabulary, conditions)).collect()
    }

    fn holds(&self, answers: &[bool]) -> bool {
        match self {
            Verdict::Condition(index) => answers[*index],
            Verdict::All(all) => all.iter().all(|one| one.holds(answers)),
            Verdict::Any(any) => any.iter().any(|one| one.holds(answers)),
            Verdict::Except(keep, without) => keep.holds(answers) && !without.iter().any(|one| one.holds(answers)),
        }
    }
}

fn planned(phrase: &Phrase, vocabulary: &Vocabulary) -> PlannedPhrase {
    let words = phrase.terms.iter().filter_map(|term| vocabulary.number(term)).collect();
    PlannedPhrase { words, first: phrase.first }
}
