//! The fields of a request, read together into the type of the request. What the type gains, the wire then has too.

use std::fmt;

use fmail_api::{Error, Result};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess};
use serde_json::Value;

use super::fields::{missing, unusable};

/// What the fields say together. An error names its field, which serde alone would not do; `null` counts as absent,
/// except as a `body`. Unknown fields are ignored.
pub fn decode<T: DeserializeOwned>(fields: Vec<(String, Value)>) -> Result<T> {
    let fields = NamedFields { rest: fields.into_iter(), current: None };
    T::deserialize(MapAccessDeserializer::new(fields)).map_err(|FieldError(error)| error)
}

struct NamedFields {
    rest: std::vec::IntoIter<(String, Value)>,
    current: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for NamedFields {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        let says_something = |(name, value): &(String, Value)| !value.is_null() || name == "body";
        let Some(current) = self.rest.by_ref().find(says_something) else { return Ok(None) };
        let (name, _) = self.current.insert(current);
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FieldError> {
        let (name, value) =
            self.current.take().ok_or_else(|| de::Error::custom("a value was read without its name"))?;
        seed.deserialize(value).map_err(|error| FieldError(unusable(&name, &error)))
    }
}

/// The error of a request, as serde passes it on.
#[derive(Debug)]
struct FieldError(Error);

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        FieldError(Error::invalid(message.to_string()))
    }

    fn missing_field(name: &'static str) -> Self {
        FieldError(missing(name))
    }
}
