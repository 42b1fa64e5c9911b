//! A query as a MATCH expression for a store that has FTS5 itself.
//!
//! It differs from the canonical text in two ways. Every phrase says which columns it is looked for in, since FTS5
//! looks in all columns when there is no filter. And FTS5's parser has a stack of one hundred symbols: operands stand
//! in such an order that every query that we accept fits.

use super::column::ColumnSet;
use super::expression::Expression;

/// Symbols that a phrase or a NEAR group may take on the parser's stack: `{ … } : NEAR ( phrases phrase + string *`.
const PHRASE_DEPTH: usize = 9;

/// A part of a MATCH expression.
struct Part {
    text: String,
    binding: Binding,
    /// How many symbols FTS5's parser has on its stack at most while it reads this.
    depth: usize,
}

/// How tightly the outermost operator of a part binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Phrase,
}

/// The MATCH expression of a query.
pub(super) fn match_expression(expression: &Expression) -> String {
    part(expression, None).text
}

fn part(expression: &Expression, columns: Option<ColumnSet>) -> Part {
    match expression {
        Expression::Phrase(_) | Expression::Near { .. } => phrase(expression, columns.unwrap_or_else(ColumnSet::text)),
        Expression::Within { columns: inside, inner } => {
            part(inner, Some(columns.map_or(*inside, |outside| outside.and(*inside))))
        }
        Expression::And(all) => chain(all, columns, Binding::And),
        Expression::Or(any) => chain(any, columns, Binding::Or),
        Expression::Not { keep, without } => {
            // Several exclusions become one, since each NOT would make FTS5's tree a level higher.
            let without = match without.as_slice() {
                [one] => part(one, columns),
                several => chain(several, columns, Binding::Or),
            };
            joined(vec![part(keep, columns), without], Binding::Not)
        }
    }
}

/// A phrase that can be in no column is the phrase without words, which is found nowhere.
fn phrase(expression: &Expression, columns: ColumnSet) -> Part {
    let text = match columns.is_empty() {
        true => "\"\"".to_owned(),
        false => format!("{} : {expression}", columns.list()),
    };
    Part { text, binding: Binding::Phrase, depth: PHRASE_DEPTH }
}

/// Operands whose order does not matter: the deepest comes first, where it takes the least room on the stack.
fn chain(operands: &[Expression], columns: Option<ColumnSet>, operator: Binding) -> Part {
    let mut parts: Vec<Part> = operands.iter().map(|operand| part(operand, columns)).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.depth));
    joined(parts, operator)
}

fn joined(parts: Vec<Part>, operator: Binding) -> Part {
    let parts: Vec<Part> = parts.into_iter().map(|part| bound(part, operator)).collect();
    let behind = |index: usize| if index == 0 { 0 } else { 2 };
    let depth = parts.iter().enumerate().map(|(index, part)| behind(index) + part.depth).max().unwrap_or(0);
    let texts: Vec<String> = parts.into_iter().map(|part| part.text).collect();
    let between = match operator {
        Binding::Or => " OR ",
        Binding::And => " AND ",
        Binding::Not | Binding::Phrase => " NOT ",
    };
    Part { text: texts.join(between), binding: operator, depth }
}

/// The part as an operand: in parentheses, unless it binds tighter than the operator or is more of the same list.
fn bound(part: Part, operator: Binding) -> Part {
    let continues = part.binding == operator && operator != Binding::Not;
    match part.binding > operator || continues {
        true => part,
        false => Part { text: format!("({})", part.text), binding: Binding::Phrase, depth: part.depth + 1 },
    }
}
