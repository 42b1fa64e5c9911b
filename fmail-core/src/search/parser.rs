//! Reads a query: the grammar in the documentation of the module, by recursive descent, a function for each rule.

use fmail_api::{Error, Result};

use super::column::{ColumnSet, SearchColumn};
use super::display::DEFAULT_DISTANCE;
use super::expression::{Expression, Phrase};
use super::scanner::{Piece, Scanner, shown};
use crate::near_names;

/// Parentheses within parentheses. FTS5's own parser keeps a stack of one hundred symbols, of which a level takes up
/// to three in the form that `fts5.rs` writes; this leaves room for the innermost phrase.
pub(super) const MAX_NESTING: usize = 24;

/// More than any message has words, and within what FTS5 can count.
const MAX_DISTANCE: u32 = 999_999_999;

const A_CONDITION: &str = "a word, a quoted string, a filter such as `from:`, `^`, `NEAR(` or `(`";
const A_PHRASE: &str = "a word or a quoted string";
const QUOTE_IT: &str = "put text with other characters than letters, digits and `_` in double quotes: \"fmail-core\"";
const WRITE_AND: &str =
    "write AND, OR or NOT before and behind parentheses; only words and phrases may follow each other";
const TO_EXCLUDE: &str = "to leave something out, write NOT between two conditions: `deploy NOT draft`";

/// Reads the whole text as a query.
pub(super) fn parse(text: &str) -> Result<Expression> {
    let mut parser = Parser { scanner: Scanner::new(text), nesting: 0, names: false };
    let expression = parser.query()?;
    match parser.scanner.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.misplaced("AND, OR, NOT or the end")),
    }
}

struct Parser<'q> {
    scanner: Scanner<'q>,
    nesting: usize,
    /// Whether strings are names here: within a filter for columns of names.
    names: bool,
}

impl<'q> Parser<'q> {
    fn query(&mut self) -> Result<Expression> {
        let mut expression = self.conjunction()?;
        while self.scanner.eat_keyword("OR") {
            expression = expression.or(self.conjunction()?);
        }
        Ok(expression)
    }

    fn conjunction(&mut self) -> Result<Expression> {
        let mut expression = self.except()?;
        while self.scanner.eat_keyword("AND") {
            expression = expression.and(self.except()?);
        }
        Ok(expression)
    }

    fn except(&mut self) -> Result<Expression> {
        let mut expression = self.operand()?;
        while self.scanner.eat_keyword("NOT") {
            expression = expression.not(self.operand()?);
        }
        Ok(expression)
    }

    fn operand(&mut self) -> Result<Expression> {
        if self.scanner.peek() == Some('(') {
            return self.parenthesised();
        }
        let mut row = match self.item()? {
            Item::Parenthesised(expression) => return Ok(expression),
            Item::Plain(expression) => expression,
        };
        while self.at_item() {
            let start = self.scanner.position();
            row = match self.item()? {
                Item::Plain(next) => in_a_row(row, next),
                Item::Parenthesised(_) => return Err(self.parenthesis_in_row(start)),
            };
        }
        Ok(row)
    }

    fn at_item(&mut self) -> bool {
        matches!(self.scanner.peek(), Some('{' | '-' | '^')) || self.scanner.at_string(self.names)
    }

    fn item(&mut self) -> Result<Item> {
        if matches!(self.scanner.peek(), Some('{' | '-')) {
            let columns = self.columns()?;
            return self.filtered(columns);
        }
        if !self.scanner.at_string(self.names) {
            return self.group().map(Item::Plain);
        }
        let string = self.scanner.string(self.names)?;
        if self.scanner.eat(':') {
            let columns = ColumnSet::from_iter([self.column(&string)?]);
            return self.filtered(columns);
        }
        self.group_from(&string).map(Item::Plain)
    }

    /// What stands behind a filter.
    fn filtered(&mut self, columns: ColumnSet) -> Result<Item> {
        let outside = std::mem::replace(&mut self.names, columns.holds_names());
        let within = |inner| Expression::Within { columns, inner: Box::new(inner) };
        let item = match self.scanner.peek() {
            Some('(') => Item::Parenthesised(within(self.parenthesised()?)),
            _ => Item::Plain(within(self.group()?)),
        };
        self.names = outside;
        Ok(item)
    }

    fn group(&mut self) -> Result<Expression> {
        if self.scanner.eat('^') {
            let string = self.string(A_PHRASE)?;
            let mut phrase = self.phrase(&string)?;
            phrase.first = !phrase.is_empty();
            return Ok(Expression::Phrase(phrase));
        }
        let string = self.string(A_CONDITION)?;
        self.group_from(&string)
    }

    fn group_from(&mut self, string: &Piece<'q>) -> Result<Expression> {
        match string.is_keyword("NEAR") && self.scanner.eat('(') {
            true => self.near(),
            false => self.phrase(string).map(Expression::Phrase),
        }
    }

    fn near(&mut self) -> Result<Expression> {
        let mut phrases = Vec::new();
        while phrases.is_empty() || self.scanner.at_string(self.names) {
            let string = self.string(A_PHRASE)?;
            phrases.push(self.phrase(&string)?);
        }
        let distance = match self.scanner.eat(',') {
            true => self.distance()?,
            false => DEFAULT_DISTANCE,
        };
        match self.scanner.eat(')') {
            true => Ok(Expression::near(phrases, distance)),
            false => Err(self.misplaced("another phrase of NEAR, `,` with a distance, or `)`")),
        }
    }

    fn distance(&mut self) -> Result<u32> {
        const A_DISTANCE: &str = "a distance for NEAR in digits, such as 5,";
        if !self.scanner.at_string(false) {
            return Err(self.scanner.unexpected(A_DISTANCE));
        }
        let string = self.scanner.string(false)?;
        let digits = !string.quoted && string.text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits {
            let place = self.scanner.place(string.start);
            let found = shown(&string.text);
            return Err(Error::invalid(format!("found `{found}` {place}, where {A_DISTANCE} has to follow")));
        }
        Ok(string.text.parse().unwrap_or(MAX_DISTANCE).min(MAX_DISTANCE))
    }

    /// A phrase whose first string has been read.
    fn phrase(&mut self, first: &Piece<'q>) -> Result<Phrase> {
        let mut phrase = Phrase::default();
        phrase.append(&first.text, self.scanner.eat('*'));
        while self.scanner.eat('+') {
            let string = self.string(A_PHRASE)?;
            phrase.append(&string.text, self.scanner.eat('*'));
        }
        Ok(phrase)
    }

    fn string(&mut self, allowed: &str) -> Result<Piece<'q>> {
        match self.scanner.at_string(self.names) {
            true => self.scanner.string(self.names),
            false => Err(self.misplaced(allowed)),
        }
    }

    /// A filter that begins with `-` or `{`, with its colon.
    fn columns(&mut self) -> Result<ColumnSet> {
        let joined_on = self.scanner.within_word();
        let inverted = self.scanner.eat('-');
        let mut columns = ColumnSet::EMPTY;
        match self.scanner.eat('{') {
            true => {
                while columns.is_empty() || !self.scanner.eat('}') {
                    let name = self.column_name("the name of a column")?;
                    columns.insert(self.column(&name)?);
                }
                self.colon("")?;
            }
            false => {
                let name = self.column_name("a filter such as `-subject:`")?;
                self.colon(if joined_on { QUOTE_IT } else { TO_EXCLUDE })?;
                columns.insert(self.column(&name)?);
            }
        }
        Ok(if inverted { columns.inverted() } else { columns })
    }

    fn column_name(&mut self, allowed: &str) -> Result<Piece<'q>> {
        match self.scanner.at_string(false) {
            true => self.scanner.string(false),
            false => Err(self.misplaced(allowed)),
        }
    }

    fn colon(&mut self, help: &str) -> Result<()> {
        match self.scanner.eat(':') {
            true => Ok(()),
            false if help.is_empty() => Err(self.misplaced("the `:` of a filter")),
            false => Err(self.scanner.unexpected("the `:` of a filter such as `-subject:`").help(help)),
        }
    }

    fn column(&self, name: &Piece<'_>) -> Result<SearchColumn> {
        SearchColumn::named(&name.text).ok_or_else(|| {
            let place = self.scanner.place(name.start);
            let all = SearchColumn::ALL.map(SearchColumn::name);
            let wanted = name.text.to_lowercase();
            let near = near_names(&wanted, all.map(str::to_owned));
            let meant = near.first().map(|near| format!("did you mean `{near}:`? ")).unwrap_or_default();
            Error::invalid(format!("`{}` {place} is not a column; there are {}", shown(&name.text), all.join(", ")))
                .help(format!("{meant}to look for a colon as part of a text, put the text in double quotes"))
        })
    }

    fn parenthesised(&mut self) -> Result<Expression> {
        if self.nesting == MAX_NESTING {
            let place = self.scanner.place(self.scanner.position());
            return Err(Error::invalid(format!("the parentheses {place} are nested deeper than {MAX_NESTING} levels"))
                .help("write the search query with fewer parentheses"));
        }
        self.scanner.eat('(');
        self.nesting += 1;
        let inner = self.query()?;
        self.nesting -= 1;
        match self.scanner.eat(')') {
            true => Ok(inner),
            false => Err(self.misplaced("AND, OR, NOT or `)`")),
        }
    }

    fn parenthesis_in_row(&self, start: usize) -> Error {
        let place = self.scanner.place(start);
        Error::invalid(format!("the filter with parentheses {place} has no AND, OR or NOT before it")).help(WRITE_AND)
    }

    /// The error for what comes next, with what its writer may have meant.
    fn misplaced(&mut self, allowed: &str) -> Error {
        let operator = ["AND", "OR", "NOT"].into_iter().any(|keyword| self.scanner.at_keyword(keyword));
        let help = match self.scanner.peek() {
            None => return self.scanner.unexpected(allowed),
            Some(_) if operator => {
                "AND, OR and NOT stand between two conditions; as words, write them in small letters"
            }
            Some('(') => WRITE_AND,
            Some('*') => "`*` stands behind the beginning of a word: `auth*`",
            Some(')') => "every `)` needs a `(` before it, and something in between",
            Some(_) if self.at_item() => WRITE_AND,
            Some(_) => QUOTE_IT,
        };
        self.scanner.unexpected(allowed).help(help)
    }
}

/// One member of a row, or a filter with parentheses, which stands alone.
enum Item {
    Plain(Expression),
    Parenthesised(Expression),
}

/// What has no words is left out of a row, unless nothing else is in it: so FTS5 has it.
fn in_a_row(row: Expression, next: Expression) -> Expression {
    let row_has_words = row.is_plain() || matches!(row, Expression::And(_));
    match (row_has_words, next.is_plain()) {
        (true, true) => row.and(next),
        (false, true) => next,
        (_, false) => row,
    }
}
