//! The values of a plugin's own section. What they may be is said by the plugin's manifest, which is read much later; so
//! every part keeps where it stands.

use std::path::Path;

use serde_json::{Map, Value};

use super::document::{Found, Node};
use super::source::{ConfigFile, Origin};

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    pub value: Written,
    pub origin: Origin,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// A value of a file: nothing, true or false, a number, a text.
    Scalar(Value),
    /// The text of a variable or a flag; the schema decides what it is to be.
    Text(String),
    /// Something that JSON has no form for, as an error shows it.
    Unusable(String),
    List(Vec<Located>),
    /// In the order of the file.
    Map(Vec<(String, Located)>),
}

impl Located {
    /// A value of a file.
    pub fn from_node(node: &Node, file: ConfigFile, path: &Path) -> Located {
        let inner = |node: &Node| Located::from_node(node, file, path);
        let value = match &node.value {
            Found::Nothing => Written::Scalar(Value::Null),
            Found::Bool(value) => Written::Scalar(Value::Bool(*value)),
            Found::Text(text) => Written::Scalar(Value::String(text.clone())),
            Found::Integer(number) => number_of(&number.to_string()),
            Found::Other("number", text) => number_of(text),
            // JSON has no dates; as a text it is what was written.
            Found::Other(_, text) => Written::Scalar(Value::String(text.clone())),
            Found::List(items) => Written::List(items.iter().map(inner).collect()),
            Found::Map(entries) => {
                Written::Map(entries.iter().map(|(name, node)| (name.clone(), inner(node))).collect())
            }
        };
        Located { value, origin: Origin::File { file, path: path.to_path_buf(), line: node.line } }
    }

    /// The text of a variable or a flag, below these names.
    pub fn from_text(names: &[&str], text: &str, origin: &Origin) -> Located {
        let inner = Located { value: Written::Text(text.to_string()), origin: origin.clone() };
        names.iter().rev().fold(inner, |inner, name| Located {
            value: Written::Map(vec![(name.to_string(), inner)]),
            origin: origin.clone(),
        })
    }

    /// Lays a later source over this one, key by key.
    pub fn merge(&mut self, later: Located) {
        match (&mut self.value, later.value) {
            (Written::Map(entries), Written::Map(new)) => {
                for (name, located) in new {
                    match entries.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => known.merge(located),
                        None => entries.push((name, located)),
                    }
                }
            }
            (_, value) => *self = Located { value, origin: later.origin },
        }
    }

    /// The value as JSON, as it was written.
    pub fn to_json(&self) -> Value {
        match &self.value {
            Written::Scalar(value) => value.clone(),
            Written::Text(text) | Written::Unusable(text) => Value::String(text.clone()),
            Written::List(items) => items.iter().map(Located::to_json).collect(),
            Written::Map(entries) => {
                let entry = |(name, located): &(String, Located)| (name.clone(), located.to_json());
                Value::Object(entries.iter().map(entry).collect::<Map<String, Value>>())
            }
        }
    }

    /// Every value that is no section, by its dotted name below `name`.
    pub fn leaves<'a>(&'a self, name: &str, into: &mut Vec<(String, &'a Located)>) {
        match &self.value {
            Written::Map(entries) if !entries.is_empty() => {
                entries.iter().for_each(|(part, inner)| inner.leaves(&format!("{name}.{part}"), into));
            }
            _ => into.push((name.to_string(), self)),
        }
    }
}

/// A number with all its digits, where JSON has such a number.
fn number_of(text: &str) -> Written {
    let plain = text.replace('_', "");
    let plain = plain.strip_prefix('+').unwrap_or(&plain);
    match serde_json::from_str::<Value>(plain) {
        Ok(number @ Value::Number(_)) => Written::Scalar(number),
        _ => Written::Unusable(format!("the number {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::Format;
    use super::*;

    fn file(text: &str) -> Located {
        Located::from_node(&Format::Toml.parse(text).unwrap(), ConfigFile::User, Path::new("/c.toml"))
    }

    #[test]
    fn later_sources_win_key_by_key_and_keep_their_places() {
        let mut merged = file("a = 1\nb.c = 'x'\nb.d = [1, 2]\n");
        merged.merge(file("\n\nb.d = [3]\n"));
        merged.merge(Located::from_text(&["b", "c"], "7", &Origin::Flag));
        assert_eq!(merged.to_json(), serde_json::json!({"a": 1, "b": {"c": "7", "d": [3]}}));
        let mut leaves = Vec::new();
        merged.leaves("config", &mut leaves);
        let shown: Vec<String> = leaves.iter().map(|(name, leaf)| format!("{name} {}", leaf.origin)).collect();
        assert_eq!(shown, ["config.a /c.toml:1", "config.b.c flag", "config.b.d /c.toml:3"]);
    }

    #[test]
    fn numbers_keep_their_digits_and_what_json_lacks_is_not_invented() {
        let tree = file("a = 1.50\nb = +2\nc = 0xff\nd = inf\ne = 2026-01-02\n");
        assert_eq!(tree.to_json().to_string(), r#"{"a":1.50,"b":2,"c":255,"d":"the number inf","e":"2026-01-02"}"#);
        let Written::Map(entries) = &tree.value else { panic!("{tree:?}") };
        assert!(matches!(&entries[3].1.value, Written::Unusable(_)));
    }
}
