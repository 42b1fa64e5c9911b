//! What a script has written, as one value of JSON: tolerant in form, strict in meaning.

use fmail_api::{ErrorKind, Result};
use serde_json::Value;

use crate::script::{Call, excerpt_of};

/// How much of an output an error shows.
const SHOWN: usize = 200;

/// The one value that the output is; nothing when it is blank. Line ends of any kind around it do not count.
pub(crate) fn value(call: &Call<'_>, output: &[u8]) -> Result<Option<Value>> {
    let text = output.trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let shown = || excerpt_of(&String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]), SHOWN);
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    let first = match values.next() {
        Some(Ok(first)) => first,
        Some(Err(error)) => {
            let what = format!("answers with what is not JSON ({error}): {}", shown());
            return Err(call
                .error(ErrorKind::Corrupt, what)
                .help("what a script tells its operator belongs to standard error"));
        }
        None => return Ok(None),
    };
    let rest = text[values.byte_offset()..].trim_ascii();
    if !rest.is_empty() {
        let behind = excerpt_of(&String::from_utf8_lossy(&rest[..rest.len().min(4 * SHOWN)]), SHOWN);
        let what = format!("answers with more than one value; behind the first stands: {behind}");
        return Err(call.error(ErrorKind::Corrupt, what).help("an answer is one JSON value; a list is one array"));
    }
    Ok(Some(first))
}

/// What kind of value it is, for an error.
pub(crate) fn word_for(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text \"{}\"", excerpt_of(text, 60)),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}
