//! JSON as text with places, so that a file can be changed in one place and stays as it is in all others.

use std::ops::Range;

use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// A text that is one JSON value, and where everything in it stands.
pub(crate) struct Document {
    pub(crate) text: String,
    /// The text with blanks in place of comments, byte for byte.
    blank: String,
    pub(crate) root: Node,
}

/// A value and its place.
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

/// What a value is, as far as it matters here.
pub(crate) enum Kind {
    Object(Vec<Member>),
    Array(Vec<Node>),
    String(String),
    True,
    False,
    Other,
}

/// A key with its value.
pub(crate) struct Member {
    pub(crate) key: String,
    /// Where the key begins.
    start: usize,
    pub(crate) value: Node,
}

impl Node {
    /// The value of a key; of several the last, as the agents take it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let Kind::Object(members) = &self.kind else { return None };
        members.iter().rev().find(|member| member.key == key).map(|member| &member.value)
    }

    /// How often an object has a key.
    pub(crate) fn times(&self, key: &str) -> usize {
        let Kind::Object(members) = &self.kind else { return 0 };
        members.iter().filter(|member| member.key == key).count()
    }

    /// The elements of an array.
    pub(crate) fn elements(&self) -> &[Node] {
        match &self.kind {
            Kind::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The text of a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// What a person calls it.
    pub(crate) fn what(&self) -> &'static str {
        match self.kind {
            Kind::Object(_) => "an object",
            Kind::Array(_) => "an array",
            Kind::String(_) => "a string",
            Kind::True | Kind::False => "a boolean",
            Kind::Other => "a number or null",
        }
    }

    /// Where its parts stand, each with its key.
    fn parts(&self) -> Vec<Range<usize>> {
        match &self.kind {
            Kind::Object(members) => members.iter().map(|member| member.start..member.value.span.end).collect(),
            Kind::Array(elements) => elements.iter().map(|element| element.span.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts().is_empty()
    }

    /// What stands between its braces or brackets.
    pub(crate) fn inner(&self) -> Range<usize> {
        self.span.start + 1..self.span.end - 1
    }

    /// The place of a key among the parts.
    pub(crate) fn place(&self, key: &str) -> Option<usize> {
        let Kind::Object(members) = &self.kind else { return None };
        members.iter().position(|member| member.key == key)
    }
}

impl Document {
    /// Reads a text; the error says what is wrong and where.
    pub(crate) fn parse(text: String, comments: bool) -> Result<Document, String> {
        let (blank, commented) = without_comments(&text);
        if commented && !comments {
            return Err("it contains comments, which are not JSON".into());
        }
        // What this accepts is also known not to be nested without end.
        serde_json::from_str::<Value>(&blank).map_err(|error| error.to_string())?;
        let mut scanner = Scanner { text: &blank, at: 0 };
        let root = scanner.value();
        Ok(Document { blank, root, text })
    }

    /// What a part of the text says.
    pub(crate) fn value(&self, node: &Node) -> Option<Value> {
        serde_json::from_str(&self.blank[node.span.clone()]).ok()
    }

    /// The text with another part at the end of a container: an element, or a member when there is a key.
    pub(crate) fn with(&self, container: &Node, depth: usize, key: Option<&str>, value: &Value) -> String {
        let style = self.style();
        let item = style.rendered(key, value, depth + 1);
        match container.parts().last() {
            Some(last) => {
                let between = style.line(depth + 1, " ");
                replaced(&self.text, last.end..last.end, &format!(",{between}{item}"))
            }
            None => {
                let inner = container.inner();
                let kept = self.text[inner.clone()].trim_end();
                let (before, after) = (style.line(depth + 1, ""), style.line(depth, ""));
                replaced(&self.text, inner, &format!("{kept}{before}{item}{after}"))
            }
        }
    }

    /// The text without one part of a container, and of what stood between the parts only what has to go. A container that
    /// loses its last part keeps its comments, or gets back what stood in it when that is known (`empty`).
    pub(crate) fn without(&self, container: &Node, place: usize, empty: Option<&str>) -> String {
        let parts = container.parts();
        let part = parts[place].clone();
        if parts.len() == 1 {
            let inner = container.inner();
            let left = format!("{}{}", &self.text[inner.start..part.start], &self.text[part.end..inner.end]);
            let left = if left.trim().is_empty() { "" } else { &left };
            let left = empty.filter(|empty| empty.trim() == left.trim()).unwrap_or(left);
            return replaced(&self.text, inner, left);
        }
        let gap = if place > 0 { parts[place - 1].end..part.start } else { part.end..parts[1].start };
        if self.text[gap.clone()] == self.blank[gap.clone()] {
            let range = if place > 0 { gap.start..part.end } else { part.start..gap.end };
            return replaced(&self.text, range, "");
        }
        // A comment stays where it is, with the end of its line.
        let comma = gap.start + self.blank[gap].find(',').unwrap_or_default();
        let (first, second) = if comma < part.start { (comma..comma + 1, part) } else { (part, comma..comma + 1) };
        replaced(&replaced(&self.text, second, ""), first, "")
    }

    /// How the file is written.
    fn style(&self) -> Style<'_> {
        let newline = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let body = &self.text[self.root.span.clone()];
        let one_line = !self.root.is_empty() && !body.contains('\n');
        let first = self.root.parts().first().map(|part| &self.text[..part.start]);
        let indent = first.map(|before| &before[before.trim_end_matches([' ', '\t']).len()..]);
        let own_line = first.is_some_and(|before| before.trim_end_matches([' ', '\t']).ends_with('\n'));
        let indent = indent.filter(|indent| own_line && !indent.is_empty()).unwrap_or("  ");
        Style { newline, indent, one_line }
    }
}

/// How a file is written.
struct Style<'a> {
    newline: &'a str,
    indent: &'a str,
    one_line: bool,
}

impl Style<'_> {
    /// The beginning of a line at this depth; `or` where there are no lines.
    fn line(&self, depth: usize, or: &str) -> String {
        if self.one_line { or.to_string() } else { format!("{}{}", self.newline, self.indent.repeat(depth)) }
    }

    fn rendered(&self, key: Option<&str>, value: &Value, depth: usize) -> String {
        let key = key.map(|key| format!("{}: ", Value::from(key))).unwrap_or_default();
        if self.one_line {
            return format!("{key}{value}");
        }
        let mut out = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.indent.as_bytes());
        // Writing JSON into memory does not fail.
        let _ = serde::Serialize::serialize(value, &mut Serializer::with_formatter(&mut out, formatter));
        let text = String::from_utf8_lossy(&out).replace('\n', &self.line(depth, ""));
        format!("{key}{text}")
    }
}

fn replaced(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

/// The text with blanks in place of comments, and whether there were any.
fn without_comments(text: &str) -> (String, bool) {
    let bytes = text.as_bytes();
    let (mut out, mut at, mut found) = (bytes.to_vec(), 0, false);
    while at < bytes.len() {
        let end = match &bytes[at..] {
            [b'"', ..] => {
                at = string_end(bytes, at);
                continue;
            }
            [b'/', b'/', rest @ ..] => at + 2 + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', rest @ ..] => {
                at + 2 + rest.windows(2).position(|two| two == b"*/").map_or(rest.len(), |place| place + 2)
            }
            _ => {
                at += 1;
                continue;
            }
        };
        found = true;
        out[at..end].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        at = end;
    }
    // Whole comments were blanked, and a character never reaches beyond its comment.
    (String::from_utf8(out).unwrap_or_default(), found)
}

/// Where a string ends that begins here.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Finds the places in a text that is known to be JSON.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn next(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }

    /// Whether the container goes on; its comma or its end is behind us then.
    fn goes_on(&mut self) -> bool {
        self.blanks();
        let goes_on = self.next() == b',';
        self.at += 1;
        self.blanks();
        goes_on
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at = string_end(self.text.as_bytes(), start);
        serde_json::from_str(&self.text[start..self.at]).unwrap_or_default()
    }

    fn value(&mut self) -> Node {
        self.blanks();
        let start = self.at;
        let kind = match self.next() {
            b'{' => Kind::Object(self.container(b'}', |scanner| {
                let start = scanner.at;
                let key = scanner.string();
                scanner.blanks();
                scanner.at += 1;
                Member { key, start, value: scanner.value() }
            })),
            b'[' => Kind::Array(self.container(b']', Scanner::value)),
            b'"' => Kind::String(self.string()),
            first => {
                let rest = &self.text[self.at..];
                self.at += rest.find([',', '}', ']', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
                match first {
                    b't' => Kind::True,
                    b'f' => Kind::False,
                    _ => Kind::Other,
                }
            }
        };
        Node { span: start..self.at, kind }
    }

    fn container<T>(&mut self, close: u8, part: impl Fn(&mut Self) -> T) -> Vec<T> {
        self.at += 1;
        self.blanks();
        let mut parts = Vec::new();
        if self.next() == close {
            self.at += 1;
            return parts;
        }
        loop {
            parts.push(part(self));
            self.blanks();
            if self.next() == close {
                self.at += 1;
                return parts;
            }
            if !self.goes_on() {
                return parts;
            }
        }
    }
}
