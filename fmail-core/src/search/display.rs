//! A query as text: the shortest that FTS5's grammar reads back as the same expression.

use std::fmt::{self, Display, Formatter};

use super::expression::{Expression, Phrase};

/// The distance of a NEAR group that names none.
pub(super) const DEFAULT_DISTANCE: u32 = 10;

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Phrase(phrase) => phrase.fmt(f),
            Expression::Near { phrases, distance } => near(f, phrases, *distance),
            Expression::Within { columns, inner } => {
                write!(f, "{}:", columns.filter())?;
                let bare = matches!(**inner, Expression::Phrase(_) | Expression::Near { .. });
                operand(f, inner, bare)
            }
            Expression::And(all) => and(f, all),
            Expression::Or(any) => joined(f, any, " OR ", |f, one| one.fmt(f)),
            Expression::Not { keep, without } => {
                operand(f, keep, binds_tighter_than_not(keep))?;
                without.iter().try_for_each(|one| {
                    f.write_str(" NOT ")?;
                    operand(f, one, binds_tighter_than_not(one))
                })
            }
        }
    }
}

/// Writes the operands of an `And`. Plain ones in a row need no operator between them.
fn and(f: &mut Formatter<'_>, all: &[Expression]) -> fmt::Result {
    let mut rows = all.chunk_by(|one, next| one.is_plain() && next.is_plain());
    let row = |f: &mut Formatter<'_>, row: &[Expression]| {
        joined(f, row, " ", |f, one| operand(f, one, !matches!(one, Expression::Or(_))))
    };
    rows.next().map_or(Ok(()), |first| row(f, first))?;
    rows.try_for_each(|next| {
        f.write_str(" AND ")?;
        row(f, next)
    })
}

fn joined<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    between: &str,
    write: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(index, item)| {
        f.write_str(if index == 0 { "" } else { between })?;
        write(f, item)
    })
}

fn operand(f: &mut Formatter<'_>, expression: &Expression, bare: bool) -> fmt::Result {
    match bare {
        true => expression.fmt(f),
        false => write!(f, "({expression})"),
    }
}

/// Whether an operand of NOT needs no parentheses. A row without operators binds tighter than any operator.
fn binds_tighter_than_not(expression: &Expression) -> bool {
    match expression {
        Expression::And(all) => all.iter().all(Expression::is_plain),
        Expression::Or(_) | Expression::Not { .. } => false,
        Expression::Phrase(_) | Expression::Near { .. } | Expression::Within { .. } => true,
    }
}

fn near(f: &mut Formatter<'_>, phrases: &[Phrase], distance: u32) -> fmt::Result {
    f.write_str("NEAR(")?;
    joined(f, phrases, " ", |f, phrase| phrase.fmt(f))?;
    if distance != DEFAULT_DISTANCE {
        write!(f, ", {distance}")?;
    }
    f.write_str(")")
}

impl Display for Phrase {
    /// Words need no quoting: they have only characters of a bareword, and no keyword is in small letters.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("\"\"");
        }
        f.write_str(if self.first { "^" } else { "" })?;
        let strings: Vec<_> = self.terms.chunk_by(|term, _| !term.prefix).collect();
        joined(f, &strings, " + ", |f, terms| {
            let quote = if terms.len() > 1 { "\"" } else { "" };
            f.write_str(quote)?;
            joined(f, terms, " ", |f, term| f.write_str(&term.word))?;
            f.write_str(quote)?;
            f.write_str(if terms.last().is_some_and(|term| term.prefix) { "*" } else { "" })
        })
    }
}
