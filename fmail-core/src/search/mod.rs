//! The query of `fmail search`: SQLite FTS5's query syntax, evaluated the same on every store.
//!
//! A store with a full-text index of its own gets [`SearchQuery::to_fts5`]; for any other, each message is asked with
//! [`SearchQuery::matches`]. Both give the same answer; `tests/search_fts5.rs` compares them on thousands of queries.
//!
//! # Grammar
//!
//! It is that of [FTS5](https://sqlite.org/fts5.html#full_text_query_syntax), with all its details:
//!
//! ```text
//! query    = conj { "OR" conj }
//! conj     = except { "AND" except }
//! except   = operand { "NOT" operand }
//! operand  = "(" query ")" | filter "(" query ")" | row
//! row      = [ filter ] group { [ filter ] group }
//! group    = phrase | "^" phrase | "NEAR" "(" phrase { phrase } [ "," digits ] ")"
//! phrase   = string [ "*" ] { "+" string [ "*" ] }
//! filter   = [ "-" ] ( column | "{" column { column } "}" ) ":"
//! string   = bareword | '"' characters, with "" for a quote '"'
//! bareword = one or more of: letters, digits, "_", the substitute character, everything beyond ASCII
//! ```
//!
//! - All members of a *row* hold; a row binds tighter than NOT, NOT tighter than AND, AND tighter than OR. Only phrases
//!   and NEAR groups stand in a row: parentheses need an operator on both sides.
//! - A string is cut into words like the text of a message (see below); several words are a phrase: they follow each
//!   other, in this order. `+` joins strings to one phrase. With `*`, the last word of its string may go on.
//! - `^` asks for the phrase at the start of a column. NEAR asks for phrases with at most so many words (10 unless
//!   told) between the end of any of them and the start of the last.
//! - A filter limits what follows to some columns, with `-` to all but those; filters within filters limit further.
//! - Keywords are in capitals; column names and words are not sensitive to case.
//! - A string without any word (`"?!"`) is found nowhere, and left out of a row that has other members.
//!
//! # Columns
//!
//! [`SearchColumn`] lists them. A phrase without a filter is looked for in `subject`, `body` and `tags`
//! ([`SearchColumn::TEXT`]): who looks for `bob` does not want everything that bob ever sent. (FTS5 would look in all
//! columns; [`SearchQuery::to_fts5`] therefore names the columns of each phrase.)
//!
//! # One extension
//!
//! Behind a filter for columns that hold names (all but `subject` and `body`), a bareword may contain hyphens and begin
//! with `@`: `from:build-bot`, `to:@bob`, `tags:(needs-review OR on-hold)`. It means the same as in quotes, a phrase;
//! so `from:build-bot` also finds what `build-bot-2` sent, and `to:@bob` what was sent to the topic `bob`. FTS5 refuses
//! such queries, with one exception: it reads `from:a-subject:b` as `from:a -subject:b`, which is refused here, and has
//! to be written with the space.
//!
//! # Words
//!
//! Texts are cut into words exactly as FTS5's tokenizer `unicode61` does by default, with SQLite's own table of
//! characters, which follows Unicode 6.1 for good. (What Unicode has added since counts as letters without capitals,
//! new emoji too.) A column with several parts (tags, targets, the strings of a JSON body) has its words one after
//! another, as if there were a line for each part; so two tags next to each other can be a phrase.
//!
//! # Limits
//!
//! A query has at most [`SearchQuery::MAX_BYTES`] bytes, in its canonical form too, and 24 levels of parentheses. FTS5
//! allows more of plain parentheses and less of others. A query with the character NUL is refused; FTS5 would silently
//! leave out what follows it. So are FTS5's internal commands, which begin with `*`.

mod column;
mod display;
mod expression;
mod fts5;
mod occurrences;
mod parser;
mod plan;
mod scanner;
mod tables;
#[cfg(test)]
mod tests;
mod tokenizer;
mod vocabulary;

use std::fmt;
use std::str::FromStr;

use fmail_api::{Error, Message, Result};
use serde::{Deserialize, Serialize, de};

pub use column::SearchColumn;
use expression::Expression;
use plan::Plan;

/// Which messages a search is for, in FTS5's query language; `docs/search.md` shows it by examples.
///
/// It is made by parsing, and `Display` gives its canonical text: two queries are equal when their canonical texts are,
/// and as JSON a query is that text.
///
/// ```
/// use fmail_core::SearchQuery;
///
/// let query: SearchQuery = r#"from:build-bot AND ("Tests   failed" OR Timeout*)"#.parse()?;
/// assert_eq!(query.to_string(), r#"from:"build bot" AND ("tests failed" OR timeout*)"#);
/// assert_eq!(query.terms(), ["build", "bot", "tests", "failed", "timeout"]);
/// # Ok::<(), fmail_api::Error>(())
/// ```
#[derive(Clone)]
pub struct SearchQuery {
    expression: Expression,
    plan: Plan,
}

impl SearchQuery {
    /// The longest query, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// Whether the message is one of those that the search is for.
    ///
    /// It reads each column that the query looks into once. Whose mail it is plays no role here: asking only about
    /// messages that the searcher may read is the caller's part.
    pub fn matches(&self, message: &Message) -> bool {
        self.plan.matches(message)
    }

    /// The query as a MATCH expression of FTS5, for a table with a column for each [`SearchColumn`], filled with
    /// [`SearchColumn::text`], and the tokenizer `unicode61` without options.
    pub fn to_fts5(&self) -> String {
        fts5::match_expression(&self.expression)
    }

    /// The words that a message may be found by, in the order of the query, each once: what a reader would highlight.
    /// The beginnings of words are among them; what NOT excludes is not.
    pub fn terms(&self) -> Vec<&str> {
        let mut terms: Vec<&str> = Vec::new();
        self.expression.for_each_phrase(false, &mut |phrase| {
            for term in &phrase.terms {
                if !terms.contains(&term.word.as_str()) {
                    terms.push(&term.word);
                }
            }
        });
        terms
    }
}

impl FromStr for SearchQuery {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        check_length(text, "")?;
        if let Some(at) = text.find('\0') {
            let place = text[..at].chars().count() + 1;
            return Err(Error::invalid(format!("the search query contains a NUL as its character {place}"))
                .help("leave it out: no word contains it"));
        }
        if text.trim_ascii().is_empty() {
            return Err(Error::invalid("the search query is empty")
                .help("write what to look for: words, \"a phrase\", from:bob, or several with AND, OR and NOT"));
        }
        let expression = parser::parse(text)?;
        check_length(&expression.to_string(), " when it is written out")?;
        Ok(SearchQuery { plan: Plan::new(&expression), expression })
    }
}

/// The canonical text is checked as well as what was typed: it is what goes over the wire, and must be read there.
fn check_length(text: &str, when: &str) -> Result<()> {
    match text.len() {
        0..=SearchQuery::MAX_BYTES => Ok(()),
        length => Err(Error::invalid(format!(
            "the search query has {length} bytes{when}, at most {} are allowed",
            SearchQuery::MAX_BYTES
        ))
        .help("look for less at once; the beginning of a text is often enough to find it")),
    }
}

impl PartialEq for SearchQuery {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

impl fmt::Display for SearchQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

impl fmt::Debug for SearchQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SearchQuery({})", self.expression)
    }
}

impl Serialize for SearchQuery {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SearchQuery {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
