//! A configuration file as a tree in which every part knows its line.
//!
//! Figment keeps no lines, and its own TOML support would bring a second TOML parser that could disagree with the one
//! that finds the lines. So both formats are parsed once, into this tree; what is checked and merged is built from it.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it begins; lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub line: usize,
    pub value: Found,
}

/// What stands in a file, or in a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Bool(bool),
    Integer(i128),
    Text(String),
    /// A scalar that no key wants: a fraction, a date. What it is, and its text.
    Other(&'static str, String),
    List(Vec<Node>),
    /// Names in the order of the file; the line of a node is that of its name.
    Map(Vec<(String, Node)>),
}

impl fmt::Display for Found {
    /// As an error names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Nothing => f.write_str("empty"),
            Found::Bool(value) => write!(f, "{value}"),
            Found::Integer(value) => write!(f, "the number {value}"),
            Found::Text(text) => write!(f, "the text {}", shown(text)),
            Found::Other(what, text) => write!(f, "the {what} {text}"),
            Found::List(_) => f.write_str("a list"),
            Found::Map(_) => f.write_str("a section"),
        }
    }
}

/// A text in quotes, shortened, without control characters.
pub fn shown(text: &str) -> String {
    let start: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() { format!("\"{start}…\"") } else { format!("\"{start}\"") }
}

/// Why a file is not TOML or YAML.
#[derive(Debug, PartialEq)]
pub struct SyntaxError {
    pub line: Option<usize>,
    pub message: String,
}

/// The language of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Toml,
    Yaml,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Toml => "TOML",
            Format::Yaml => "YAML",
        }
    }

    pub fn parse(self, text: &str) -> Result<Node, SyntaxError> {
        match self {
            Format::Toml => parse_toml(text),
            Format::Yaml => parse_yaml(text),
        }
    }
}

fn parse_toml(text: &str) -> Result<Node, SyntaxError> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| SyntaxError {
        line: error.span().map(|span| lines.line_at(span.start)),
        message: error.message().to_string(),
    })?;
    Ok(Node { line: 1, value: from_table(table.get_ref(), &lines) })
}

fn from_table(table: &DeTable<'_>, lines: &Lines) -> Found {
    let mut entries: Vec<(String, Node)> = table
        .iter()
        .map(|(name, value)| {
            let line = lines.line_at(name.span().start);
            (name.get_ref().to_string(), Node { line, value: from_value(value.get_ref(), lines) })
        })
        .collect();
    // The table is sorted by name; the first error to report is the first in the file.
    entries.sort_by_key(|(_, node)| node.line);
    Found::Map(entries)
}

fn from_value(value: &DeValue<'_>, lines: &Lines) -> Found {
    match value {
        DeValue::String(text) => Found::Text(text.to_string()),
        DeValue::Boolean(value) => Found::Bool(*value),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            match i128::from_str_radix(&digits, number.radix()) {
                Ok(number) => Found::Integer(number),
                Err(_) => Found::Other("number", digits),
            }
        }
        DeValue::Float(number) => Found::Other("number", number.as_str().to_string()),
        DeValue::Datetime(time) => Found::Other("date", time.to_string()),
        DeValue::Array(items) => Found::List(
            items
                .iter()
                .map(|item| Node { line: lines.line_at(item.span().start), value: from_value(item.get_ref(), lines) })
                .collect(),
        ),
        DeValue::Table(table) => from_table(table, lines),
    }
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Lines(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).collect())
    }

    fn line_at(&self, byte: usize) -> usize {
        self.0.partition_point(|start| *start <= byte) + 1
    }
}

fn parse_yaml(text: &str) -> Result<Node, SyntaxError> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error: serde_saphyr::Error| SyntaxError {
        line: error.location().map(|location| location.line() as usize).filter(|line| *line > 0),
        message: error.to_string().lines().next().unwrap_or_default().to_string(),
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Found>::deserialize(deserializer)?;
        Ok(Node { line: spanned.referenced.line() as usize, value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Found {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FoundVisitor)
    }
}

struct FoundVisitor;

impl<'de> Visitor<'de> for FoundVisitor {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a setting")
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_none<E>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        Found::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Found, E> {
        Ok(Found::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Found, E> {
        Ok(Found::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Found, E> {
        Ok(Found::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Found, E> {
        Ok(Found::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Found, E> {
        Ok(i128::try_from(value).map_or_else(|_| Found::Other("number", value.to_string()), Found::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Found, E> {
        Ok(Found::Other("number", value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Found, E> {
        Ok(Found::Text(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Found, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Node>()? {
            list.push(item);
        }
        Ok(Found::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Found, A::Error> {
        let mut map: Vec<(String, Node)> = Vec::new();
        while let Some(name) = entries.next_key::<Spanned<String>>()? {
            let mut node: Node = entries.next_value()?;
            if name.referenced.line() > 0 {
                node.line = name.referenced.line() as usize;
            }
            if map.iter().any(|(known, _)| *known == name.value) {
                return Err(de::Error::custom(format!("`{}` stands twice in one section", name.value)));
            }
            map.push((name.value, node));
        }
        Ok(Found::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree with its lines, as `name@line=value`.
    fn outline(node: &Node) -> String {
        match &node.value {
            Found::Map(entries) => {
                let parts: Vec<String> =
                    entries.iter().map(|(name, node)| format!("{name}@{}={}", node.line, outline(node))).collect();
                format!("{{{}}}", parts.join(" "))
            }
            Found::List(items) => {
                let parts: Vec<String> = items.iter().map(|item| format!("@{}={}", item.line, outline(item))).collect();
                format!("[{}]", parts.join(" "))
            }
            other => other.to_string(),
        }
    }

    #[track_caller]
    fn check(format: Format, text: &str, expect: &str) {
        assert_eq!(outline(&format.parse(text).unwrap()), expect, "{text}");
    }

    #[track_caller]
    fn broken(format: Format, text: &str, line: usize) {
        let error = format.parse(text).unwrap_err();
        assert_eq!(error.line, Some(line), "{text}: {error:?}");
        assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
    }

    #[test]
    fn toml_parts_know_their_lines() {
        check(
            Format::Toml,
            "# comment\n[mail]\nstore = \"files\"\nmax = 1_000\n\n[mail.watch]\nevents = false\n",
            "{mail@2={store@3=the text \"files\" max@4=the number 1000 watch@6={events@7=false}}}",
        );
        check(Format::Toml, "a.b = 1.5\na.c = 0xff\n", "{a@1={b@1=the number 1.5 c@2=the number 255}}");
        check(Format::Toml, "p = [\n  'x',\n  'y',\n]\n", "{p@1=[@2=the text \"x\" @3=the text \"y\"]}");
        check(Format::Toml, "", "{}");
    }

    #[test]
    fn yaml_parts_know_their_lines() {
        check(
            Format::Yaml,
            "# comment\nmail:\n  store: files\n  max: 1000\n\n  watch:\n    events: false\n    also: yes please\n",
            "{mail@2={store@3=the text \"files\" max@4=the number 1000 \
             watch@6={events@7=false also@8=the text \"yes please\"}}}",
        );
        check(Format::Yaml, "p:\n  - x\n  - \"y\"\n", "{p@1=[@2=the text \"x\" @3=the text \"y\"]}");
        check(Format::Yaml, "mail:\n  # nothing yet\n", "{mail@1=empty}");
        check(
            Format::Yaml,
            "mail: {store: files,\n  days: -7}\n",
            "{mail@1={store@1=the text \"files\" days@2=the number -7}}",
        );
        check(Format::Yaml, "t: 2s\nn: null\nf: 1.5\n", "{t@1=the text \"2s\" n@2=empty f@3=the number 1.5}");
    }

    #[test]
    fn a_yaml_file_without_content_is_nothing() {
        for text in ["", "\n", "# all of it is a comment\n"] {
            assert_eq!(Format::Yaml.parse(text).unwrap().value, Found::Nothing, "{text:?}");
        }
    }

    #[test]
    fn syntax_errors_have_a_line() {
        broken(Format::Toml, "a = 1\nb = = 2\n", 2);
        broken(Format::Toml, "a = 1\na = 2\n", 2);
        broken(Format::Toml, "a = \"open\n", 1);
        broken(Format::Yaml, "a: 1\nb: [1, 2\n", 2);
        broken(Format::Yaml, "a: 1\nb: }\n", 2);
        broken(Format::Yaml, "a: 1\na: 2\n", 2);
    }
}
