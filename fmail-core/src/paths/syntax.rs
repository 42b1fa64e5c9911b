//! From the text of a pattern to its parts.

use super::charset::CharSet;

/// How deep `{…}` may stand in `{…}`.
pub(super) const MAX_DEPTH: usize = 8;

/// What is wrong with a pattern, and what to write instead.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) found: String,
    pub(super) help: String,
}

impl Problem {
    pub(super) fn new(found: impl Into<String>, help: impl Into<String>) -> Self {
        Problem { found: found.into(), help: help.into() }
    }
}

/// One part of a pattern.
#[derive(Debug)]
pub(super) enum Part {
    /// This character.
    Char(char),
    /// `?`
    AnyChar,
    /// `*`
    Star,
    /// `**`
    DoubleStar,
    /// `[…]`: a character of the set, or the text between and with the brackets.
    Class { set: CharSet, text: String },
    /// `/`
    Slash,
    /// `{…,…}`
    Alternatives(Vec<Vec<Part>>),
}

/// A pattern that was read.
#[derive(Debug)]
pub(super) struct Syntax {
    /// The normalised text, without a slash at its end.
    pub(super) text: String,
    /// What the text consists of.
    pub(super) parts: Vec<Part>,
    /// Whether the text ended in `/` (or `/.`), and so named a directory.
    pub(super) names_directory: bool,
}

/// Reads a pattern: drops repeated slashes and `.` segments, and takes the rest apart.
pub(super) fn read(text: &str) -> Result<Syntax, Problem> {
    check_start(text)?;
    let mut reader = Reader { text, position: 0 };
    let mut segments = Vec::new();
    let mut parts = Vec::new();
    let names_directory = loop {
        let start = reader.position;
        let segment = reader.sequence(0)?;
        let written = &text[start..reader.position];
        if !matches!(written, "" | ".") {
            parts.extend((!parts.is_empty()).then_some(Part::Slash));
            parts.extend(segment);
            segments.push(written);
        }
        if !reader.eat('/') {
            break matches!(written, "" | ".");
        }
    };
    if segments.is_empty() {
        return Err(Problem::new("it names nothing below the project's root", "write `**` for the whole project"));
    }
    Ok(Syntax { text: segments.join("/"), parts, names_directory })
}

fn check_start(text: &str) -> Result<(), Problem> {
    match text.chars().next() {
        None => Err(Problem::new("it is empty", "name a file or a directory of the project, or `**` for all of it")),
        Some('/') => Err(absolute("it begins with `/`")),
        Some('!') => Err(Problem::new(
            "it begins with `!`, and a pattern cannot exclude paths",
            "write what is included; a name that begins with `!` is written `\\!…`",
        )),
        Some(_) if text.contains('\0') => Err(Problem::new("it contains a NUL character", "no path contains one")),
        Some(_) => Ok(()),
    }
}

/// The pattern does not stay below the project's root.
pub(super) fn absolute(found: &str) -> Problem {
    Problem::new(found, "write it relative to the project's root, for example `src/main.rs`")
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.position += found.len_utf8();
        Some(found)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.position += if found { wanted.len_utf8() } else { 0 };
        found
    }

    /// Reads up to the end, or to what ends a sequence here: a slash outside all braces, a comma or brace inside them.
    fn sequence(&mut self, depth: usize) -> Result<Vec<Part>, Problem> {
        let mut parts = Vec::new();
        while let Some(found) = self.peek() {
            match found {
                '/' if depth == 0 => break,
                ',' | '}' if depth > 0 => break,
                _ => self.position += found.len_utf8(),
            }
            match found {
                '/' if matches!(parts.last(), Some(Part::Slash)) => {}
                '/' => parts.push(Part::Slash),
                '?' => parts.push(Part::AnyChar),
                '*' => parts.push(self.stars()?),
                '[' => parts.push(self.class()?),
                '{' => self.braces(depth + 1, &mut parts)?,
                '}' => return Err(Problem::new("it has a `}` without a `{`", "write `\\}` for the character itself")),
                '\\' => parts.push(Part::Char(self.escaped()?)),
                _ => parts.push(Part::Char(found)),
            }
        }
        Ok(parts)
    }

    fn stars(&mut self) -> Result<Part, Problem> {
        if !self.eat('*') {
            return Ok(Part::Star);
        }
        if self.peek() == Some('*') {
            return Err(lone_stars());
        }
        Ok(Part::DoubleStar)
    }

    /// A `\` was read: the character after it. Letters, digits and `/` have no other meaning to take away; who puts a
    /// `\` before them means a path of another system, which would otherwise silently name something else.
    fn escaped(&mut self) -> Result<char, Problem> {
        match self.next() {
            Some(found) if !found.is_alphanumeric() && found != '/' => Ok(found),
            Some(found) => Err(Problem::new(
                format!("`\\` stands before {found:?}"),
                "directories are separated by `/`; `\\` only takes the special meaning from a character, as in `\\*`",
            )),
            None => Err(Problem::new("it ends in `\\`", "write `\\\\` for the character itself")),
        }
    }

    /// A `{` was read. Without a comma, braces are ordinary characters, as in a shell: `{{name}}` is a file's name.
    fn braces(&mut self, depth: usize, parts: &mut Vec<Part>) -> Result<(), Problem> {
        if depth > MAX_DEPTH {
            return Err(Problem::new(
                format!("its braces stand more than {MAX_DEPTH} deep in each other"),
                "write several patterns instead",
            ));
        }
        let mut alternatives = vec![self.sequence(depth)?];
        while self.eat(',') {
            alternatives.push(self.sequence(depth)?);
        }
        if !self.eat('}') {
            return Err(Problem::new("it has a `{` without a `}`", "write `\\{` for the character itself"));
        }
        if let [only] = &mut alternatives[..] {
            parts.push(Part::Char('{'));
            parts.append(only);
            parts.push(Part::Char('}'));
        } else {
            parts.push(Part::Alternatives(alternatives));
        }
        Ok(())
    }

    /// A `[` was read: the rest of the class.
    fn class(&mut self) -> Result<Part, Problem> {
        let start = self.position - 1;
        let except = self.eat('!') || self.eat('^');
        let mut ranges = Vec::new();
        // A `]` that comes first is a member, or it could not be written.
        while ranges.is_empty() || self.peek() != Some(']') {
            let low = self.member()?;
            let is_range = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            self.position += usize::from(is_range);
            let high = if is_range { self.member()? } else { low };
            if high < low {
                return Err(Problem::new(
                    format!("the range `{low}-{high}` in `[…]` runs backwards"),
                    "put the smaller character first; for a name with brackets write `\\[` instead of `[`",
                ));
            }
            ranges.push((low, high));
        }
        self.position += 1;
        let set = if except { CharSet::except(ranges) } else { CharSet::of(ranges) };
        Ok(Part::Class { set, text: self.text[start..self.position].to_string() })
    }

    fn member(&mut self) -> Result<char, Problem> {
        if self.rest().starts_with("[:") && self.rest().contains(":]") {
            return Err(Problem::new("it has a named class such as `[:alpha:]`", "write ranges, as in `[a-zA-Z]`"));
        }
        match self.next() {
            Some('\\') => self.escaped(),
            Some('/') => Err(Problem::new(
                "it has a `/` inside `[…]`, which stands for one character of a name",
                "write `{…,…}` with the alternatives, or `\\[` for the character `[` itself",
            )),
            Some(found) => Ok(found),
            None => Err(Problem::new("it has a `[` without a `]`", "write `\\[` for the character itself")),
        }
    }
}

/// Stars that are neither `*` nor a whole segment `**`.
pub(super) fn lone_stars() -> Problem {
    Problem::new(
        "`**` is not a whole segment there",
        "`**` stands alone between slashes, as in `src/**/*.rs`; within a name write `*`",
    )
}
