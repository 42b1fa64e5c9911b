//! What an answer looks like, whatever it says: names, types and nesting.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Values of these types.
    Leaf(BTreeSet<String>),
    /// A list; of nothing when it was empty.
    List(Option<Box<Shape>>),
    /// An object; with whether each field is always there.
    Object(BTreeMap<String, (Shape, bool)>),
}

impl Shape {
    /// The shape of a value. A text that holds JSON counts as what it holds.
    pub fn of(value: &Value) -> Shape {
        match value {
            Value::Null => leaf("null"),
            Value::Bool(_) => leaf("boolean"),
            Value::Number(_) => leaf("number"),
            Value::String(_) => leaf("string"),
            Value::Array(items) => Shape::List(items.iter().map(Shape::of).reduce(Shape::merged).map(Box::new)),
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| {
                    let held =
                        value.as_str().filter(|_| name == "text").and_then(|text| serde_json::from_str(text).ok());
                    let held = held.filter(|held: &Value| held.is_object() || held.is_array());
                    (name.clone(), (held.as_ref().map_or_else(|| Shape::of(value), Shape::of), true))
                };
                Shape::Object(fields.iter().map(field).collect())
            }
        }
    }

    /// A shape as the samples spell it: types instead of values, `?` behind fields that may be missing.
    pub fn spelled(value: &Value) -> Shape {
        match value {
            Value::String(types) => Shape::Leaf(types.split('|').map(String::from).collect()),
            Value::Array(items) => Shape::List(items.first().map(|item| Box::new(Shape::spelled(item)))),
            Value::Object(fields) => Shape::Object(spelled_fields(fields)),
            other => panic!("{other} spells no shape"),
        }
    }

    fn merged(self, other: Shape) -> Shape {
        match (self, other) {
            (Shape::Leaf(one), Shape::Leaf(two)) => Shape::Leaf(one.union(&two).cloned().collect()),
            (Shape::List(one), Shape::List(two)) => Shape::List(match (one, two) {
                (Some(one), Some(two)) => Some(Box::new(one.merged(*two))),
                (one, two) => one.or(two),
            }),
            (Shape::Object(one), Shape::Object(mut two)) => {
                let mut fields = BTreeMap::new();
                for (name, (shape, always)) in one {
                    let field = match two.remove(&name) {
                        Some((other, too)) => (shape.merged(other), always && too),
                        None => (shape, false),
                    };
                    fields.insert(name, field);
                }
                fields.extend(two.into_iter().map(|(name, (shape, _))| (name, (shape, false))));
                Shape::Object(fields)
            }
            (one, two) => panic!("rows of one list differ: {one:?} and {two:?}"),
        }
    }

    /// How `ours` differs from this one. What only says that something is absent (`null`, an empty list) fits anything.
    pub fn differences(&self, ours: &Shape) -> BTreeSet<Difference> {
        let mut found = BTreeSet::new();
        self.compare(ours, "", &mut found);
        found
    }

    fn compare(&self, ours: &Shape, path: &str, found: &mut BTreeSet<Difference>) {
        match (self, ours) {
            (Shape::Object(theirs), Shape::Object(ours)) => {
                for (name, (shape, always)) in theirs {
                    let path = below(path, name);
                    match ours.get(name) {
                        Some((ours, _)) => shape.compare(ours, &path, found),
                        None if *always || shape.is_object() => drop(found.insert(Difference::Missing(path))),
                        None => {}
                    }
                }
                let added = ours.keys().filter(|name| !theirs.contains_key(*name));
                found.extend(added.map(|name| Difference::Added(below(path, name))));
            }
            (Shape::List(Some(theirs)), Shape::List(Some(ours))) => theirs.compare(ours, &format!("{path}[]"), found),
            (Shape::List(_), Shape::List(_)) => {}
            (Shape::Leaf(theirs), Shape::Leaf(ours))
                if ours.iter().all(|one| one == "null" || theirs.contains(one)) => {}
            _ => drop(found.insert(Difference::Type(path.into()))),
        }
    }

    fn is_object(&self) -> bool {
        matches!(self, Shape::Object(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    Missing(String),
    Added(String),
    Type(String),
}

fn leaf(name: &str) -> Shape {
    Shape::Leaf([name.to_string()].into())
}

fn spelled_fields(fields: &Map<String, Value>) -> BTreeMap<String, (Shape, bool)> {
    let field = |(name, value): (&String, &Value)| {
        (name.trim_end_matches('?').to_string(), (Shape::spelled(value), !name.ends_with('?')))
    };
    fields.iter().map(field).collect()
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.into() } else { format!("{path}.{name}") }
}
