//! The characters of a query, read one piece at a time.

use std::borrow::Cow;

use fmail_api::{Error, Result};

/// A place in a query.
pub(super) struct Scanner<'q> {
    text: &'q str,
    at: usize,
}

/// A bareword or a quoted string of a query.
pub(super) struct Piece<'q> {
    /// Where it begins, in bytes.
    pub(super) start: usize,
    /// What it says, without quotes.
    pub(super) text: Cow<'q, str>,
    /// Whether it was in quotes; what is in quotes is never a keyword.
    pub(super) quoted: bool,
}

impl Piece<'_> {
    /// Whether this is the keyword, which is written in capitals and without quotes.
    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }
}

impl<'q> Scanner<'q> {
    pub(super) fn new(text: &'q str) -> Self {
        Scanner { text, at: 0 }
    }

    /// The next character that is no space; the scanner stands before it.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.rest().chars().next()
    }

    /// Steps over `wanted` when it comes next.
    pub(super) fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Steps over the keyword when it comes next.
    pub(super) fn eat_keyword(&mut self, keyword: &str) -> bool {
        let found = self.at_keyword(keyword);
        if found {
            self.at += keyword.len();
        }
        found
    }

    /// Whether the keyword comes next.
    pub(super) fn at_keyword(&mut self, keyword: &str) -> bool {
        self.peek().is_some() && bareword(self.rest(), false) == keyword
    }

    /// Whether a string comes next that is no operator. Behind a filter for names it may begin with `@`.
    pub(super) fn at_string(&mut self, names: bool) -> bool {
        let begins = self.peek().is_some_and(|c| c == '"' || is_bareword(c) || (names && c == '@'));
        begins && !["AND", "OR", "NOT"].into_iter().any(|keyword| self.at_keyword(keyword))
    }

    /// Reads the string that [`Scanner::at_string`] found. Behind a filter for names it may contain hyphens.
    pub(super) fn string(&mut self, names: bool) -> Result<Piece<'q>> {
        let start = self.at;
        if self.eat('"') {
            let text = self.quoted(start)?;
            return Ok(Piece { start, text, quoted: true });
        }
        let at_sign = usize::from(names && self.eat('@'));
        let word = bareword(self.rest(), names);
        self.at += word.len();
        Ok(Piece { start, text: Cow::Borrowed(&self.text[start..start + at_sign + word.len()]), quoted: false })
    }

    /// Reads up to the closing quote; two quotes stand for one.
    fn quoted(&mut self, start: usize) -> Result<Cow<'q, str>> {
        let text = self.rest();
        let mut at = 0;
        while let Some(quote) = text[at..].find('"').map(|found| at + found) {
            if text[quote + 1..].starts_with('"') {
                at = quote + 2;
                continue;
            }
            self.at += quote + 1;
            let inner = &text[..quote];
            let doubled = inner.contains('"');
            return Ok(if doubled { Cow::Owned(inner.replace("\"\"", "\"")) } else { Cow::Borrowed(inner) });
        }
        let place = self.place(start);
        Err(Error::invalid(format!("the quoted string that begins {place} does not end"))
            .help("close it with a double quote; within quotes, a double quote is written twice"))
    }

    /// The error for what comes next, when something else has to.
    pub(super) fn unexpected(&mut self, allowed: &str) -> Error {
        match self.peek() {
            None => Error::invalid(format!("the search query ends where {allowed} has to follow")),
            Some(found) => {
                let word = bareword(self.rest(), false);
                let found = if word.is_empty() { shown(&found.to_string()) } else { shown(word) };
                let place = self.place(self.at);
                Error::invalid(format!("found `{found}` {place}, where {allowed} has to follow"))
            }
        }
    }

    /// Whether the scanner stands directly behind a character of a word, as before the hyphen of `fmail-core`.
    pub(super) fn within_word(&self) -> bool {
        self.text[..self.at].chars().next_back().is_some_and(is_bareword)
    }

    /// Where the scanner stands, in bytes.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// A place for the reader of an error, who counts characters from one.
    pub(super) fn place(&self, at: usize) -> String {
        format!("at character {} of the search query", self.text[..at].chars().count() + 1)
    }

    fn rest(&self) -> &'q str {
        &self.text[self.at..]
    }
}

/// What an error repeats of a query: enough to recognise it, without control characters.
pub(super) fn shown(text: &str) -> String {
    let escaped =
        |character: char| if character.is_control() { character.escape_debug().to_string() } else { character.into() };
    let mut start: String = text.chars().take(60).map(escaped).collect();
    if text.chars().nth(60).is_some() {
        start.push('…');
    }
    start
}

/// Letters, digits, `_`, the substitute character, and everything beyond ASCII.
fn is_bareword(character: char) -> bool {
    !character.is_ascii() || character.is_ascii_alphanumeric() || matches!(character, '_' | '\u{1a}')
}

/// The bareword that the text begins with; a name goes on over hyphens, but does not begin with one.
fn bareword(text: &str, names: bool) -> &str {
    let mut previous = false;
    let ends = |character: char| {
        let belongs = is_bareword(character) || (names && previous && character == '-');
        previous = true;
        !belongs
    };
    &text[..text.find(ends).unwrap_or(text.len())]
}
