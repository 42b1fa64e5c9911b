//! A line as a list of fields, so that it can be put together wrong: a JSON object would not hold a field twice.

use serde_json::{Map, Value};

use crate::{Dice, corpus, values};

/// The fields of a line in their order, each with the JSON of its value.
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Takes a line apart, if it is an object.
    pub fn of(line: &[u8]) -> Option<Self> {
        let object: Map<String, Value> = serde_json::from_slice(line).ok()?;
        Some(Fields(object.into_iter().map(|(name, value)| (name, value.to_string())).collect()))
    }

    /// Puts the line together.
    pub fn line(&self) -> Vec<u8> {
        let field = |(name, value): &(String, String)| format!("{}:{value}", Value::from(name.as_str()));
        format!("{{{}}}", self.0.iter().map(field).collect::<Vec<_>>().join(",")).into()
    }

    /// Gives a field another value.
    pub fn replace(&mut self, dice: &mut Dice, value: String) {
        let place = dice.roll(self.0.len());
        if let Some((_, old)) = self.0.get_mut(place) {
            *old = value;
        }
    }

    /// Says a field twice, with the same value or another one.
    pub fn repeat(&mut self, dice: &mut Dice) {
        let Some((name, mut value)) = self.0.get(dice.roll(self.0.len())).cloned() else { return };
        if dice.roll(2) == 0 {
            value = values::value(dice);
        }
        self.0.insert(dice.roll(self.0.len() + 1), (name, value));
    }

    /// Leaves a field out.
    pub fn remove(&mut self, dice: &mut Dice) {
        if !self.0.is_empty() {
            self.0.remove(dice.roll(self.0.len()));
        }
    }

    /// Gives a field another name: one that is nearly the same, or that of another field.
    pub fn rename(&mut self, dice: &mut Dice) {
        let other = self.0.get(dice.roll(self.0.len())).map(|(name, _)| name.clone()).unwrap_or_default();
        let place = dice.roll(self.0.len());
        if let Some((name, _)) = self.0.get_mut(place) {
            *name = match dice.roll(4) {
                0 => name.to_uppercase(),
                1 => format!("{name}\0"),
                2 => String::new(),
                _ => other,
            };
        }
    }

    /// Takes fields over from another line of the corpus.
    pub fn borrow(&mut self, dice: &mut Dice) {
        let lines = [corpus::requests(), corpus::answers()].concat();
        let other = Fields::of(dice.pick(&lines).as_bytes()).map(|fields| fields.0).unwrap_or_default();
        for _ in 0..=dice.roll(3) {
            if let Some(field) = other.get(dice.roll(other.len())) {
                self.0.insert(dice.roll(self.0.len() + 1), field.clone());
            }
        }
    }

    /// Puts the fields in another order.
    pub fn shuffle(&mut self, dice: &mut Dice) {
        for place in (1..self.0.len()).rev() {
            self.0.swap(place, dice.roll(place + 1));
        }
    }
}
