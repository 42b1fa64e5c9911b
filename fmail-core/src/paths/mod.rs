//! Patterns for paths of a project: what an agent reserves, and whether two reservations meet.
//!
//! # What a pattern is
//!
//! A pattern names files and directories relative to the project's root, with `/` between segments:
//!
//! | written | stands for |
//! |---|---|
//! | `*` | any characters of one segment, also none; dots at the beginning too |
//! | `?` | one character of a segment |
//! | `[a-z_]` | one character of these; `]` first or `-` first or last stand for themselves |
//! | `[!a-z]`, `[^a-z]` | one character that is none of these |
//! | `{a,b}` | one of these, which may be empty, contain `/` and braces; at most 8 deep |
//! | `**` | any number of segments, also none; only as a whole segment |
//! | `\*` | the character itself; not before letters, digits and `/` |
//!
//! Everything else stands for itself. Characters are Unicode scalar values, and upper and lower case differ.
//! Repeated slashes, a leading `./` and other `.` segments are dropped, and a `/` at the end where it changes nothing.
//!
//! Names with brackets and braces are common in some projects, and a reservation should rather cover too much than too
//! little. So `[id]` also stands for the text `[id]` (as in `app/[id]/page.tsx`), and braces without a comma are ordinary
//! characters (as in `{{name}}/setup.py`).
//!
//! # What it covers
//!
//! **A pattern covers what it names and everything below it**: `src/api` covers `src/api/db/pool.rs`, since who
//! reserves a directory means what is in it. This holds for wildcards too: `packages/*` covers each package with all its
//! files.
//!
//! **A last segment that looks like a file's name covers nothing below.** It does when it has a dot, written as such,
//! after its first character: `Cargo.toml`, `*.rs`, `.env.local`, but not `.github`. Without this rule `Cargo.toml` and
//! `**/*.rs` would meet in a file `Cargo.toml/a.rs` that nobody will ever write. A directory with such a name is written
//! with a slash: `conf.d/` covers `conf.d` and everything below, as does `conf.d/**`. Nothing here looks at a disk; who
//! can see one adds the slash to what is a directory there (see [`PathPattern::plain_path`]).
//!
//! | pattern | covers | does not cover |
//! |---|---|---|
//! | `src/api`, `src/api/`, `src/api/**` | `src/api`, `src/api/v1/a.rs` | `src/api2`, `lib/src/api` |
//! | `src/*` | `src/a.rs`, `src/api/a.rs` | `src`, `lib/a.rs` |
//! | `src/*.rs` | `src/a.rs` | `src/api/a.rs` |
//! | `**/*.rs` | `a.rs`, `src/api/a.rs` | `a.rs.orig` |
//! | `src/{api,db/pool}/*.rs` | `src/api/a.rs`, `src/db/pool/a.rs` | `src/db/a.rs` |
//!
//! # What is refused
//!
//! Absolute patterns and those with a `..` segment (also as one of the alternatives); empty ones, and `.` (the whole
//! project is `**`); a leading `!`; NUL; more than 1024 bytes; `[`, `{` and `}` that are not closed or opened; a range
//! that runs backwards; `/` or a named class such as `[:alpha:]` in `[…]`; `**` beside other characters; `\` at the end;
//! braces more than 8 deep; and what would need more than 1200 states (only patterns that are made to be difficult do).
//!
//! # When two patterns meet
//!
//! [`PathPattern::intersects`] answers exactly: is there any path that both cover? Both patterns become automata
//! that read one path side by side, and braces become branches of these; nothing is ever expanded. A pattern of *n* bytes
//! has about *n* states, at most 1200. The search visits a pair of states at most five times (once for each thing that
//! the current segment can look like so far) and compares the edges of such a pair, so its cost is bounded by the product
//! of the two sizes: for two patterns of 20 bytes it is some hundred steps, for the worst of 1024 bytes a few million.
//! Matching a path costs at most its length times the size of the pattern.

mod automaton;
mod charset;
mod common;
mod syntax;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use fmail_api::{Error, Result};
use serde::{Deserialize, Serialize, de};

use automaton::Automaton;
use syntax::{Part, Problem};

/// The longest pattern, in bytes.
const MAX_BYTES: usize = 1024;

/// A pattern for paths of a project, as the [module](self) describes it. It is parsed once and cannot be wrong.
///
/// Patterns are equal when their normalised texts are.
#[derive(Clone)]
pub struct PathPattern {
    text: String,
    automaton: Automaton,
}

impl PathPattern {
    /// The normalised text, which parses to the same pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern covers this path, which is relative to the project's root as `git` lists it.
    ///
    /// Repeated slashes and `.` segments in the path do not matter. A path that does not name something below the root -
    /// because it is absolute, empty or has a `..` segment - is covered by no pattern.
    pub fn matches(&self, path: &str) -> bool {
        let segments = || path.split('/').filter(|segment| !matches!(*segment, "" | "."));
        let below_root = !path.starts_with('/') && !path.contains('\0') && segments().all(|segment| segment != "..");
        // A path without segments spells nothing, and `**` would cover it.
        let names_something = segments().next().is_some();
        below_root
            && names_something
            && self.automaton.accepts(segments().flat_map(|segment| segment.chars().chain(['/'])))
    }

    /// Whether there is any path that both patterns cover. It does not matter which of the two is asked.
    pub fn intersects(&self, other: &PathPattern) -> bool {
        common::search(&self.automaton, &other.automaton).path.is_some()
    }

    /// A path that both patterns cover, for people to see why they meet; none if they do not. It need not exist.
    pub fn witness(&self, other: &PathPattern) -> Option<String> {
        let mut path = common::search(&self.automaton, &other.automaton).path?;
        // The shortest file of `*.rs` is called `.rs`; people recognise `a.rs`.
        for (at, _) in path.clone().rmatch_indices('.') {
            let longer = format!("{}a{}", &path[..at], &path[at..]);
            let begins_segment = at == 0 || path[..at].ends_with('/');
            if begins_segment && self.matches(&longer) && other.matches(&longer) {
                path = longer;
            }
        }
        Some(path)
    }

    /// The path that the pattern names, if it has no wildcards, alternatives or classes; without a slash at its end.
    ///
    /// For callers that can see the disk: when this path is a directory there, the pattern with a `/` added to it
    /// covers everything below, whatever the directory's name looks like.
    pub fn plain_path(&self) -> Option<String> {
        let parts = syntax::read(&self.text).ok()?.parts;
        let plain = |part: &Part| match part {
            Part::Char(own) => Some(*own),
            Part::Slash => Some('/'),
            _ => None,
        };
        parts.iter().map(plain).collect()
    }
}

impl FromStr for PathPattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|problem| {
            Error::invalid(format!("`{}` is not a path pattern: {}", shown(text), problem.found)).help(problem.help)
        })
    }
}

fn parse(text: &str) -> Result<PathPattern, Problem> {
    if text.len() > MAX_BYTES {
        let found = format!("it has {} bytes, at most {MAX_BYTES} are allowed", text.len());
        return Err(Problem::new(found, "reserve a directory above, or write several shorter patterns"));
    }
    let mut syntax = syntax::read(text)?;
    let (automaton, slash_matters) = Automaton::of(&syntax)?;
    if slash_matters {
        syntax.text.push('/');
    }
    Ok(PathPattern { text: syntax.text, automaton })
}

/// What an error repeats of a wrong pattern: enough to recognise it, without control characters.
fn shown(text: &str) -> String {
    let mut start: String =
        text.chars().take(60).map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() }).collect();
    if text.chars().nth(60).is_some() {
        start.push('…');
    }
    start
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

impl PartialOrd for PathPattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathPattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for PathPattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for PathPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for PathPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
