//! One process for each request: the operation as its last argument, the request on its standard input.

use fmail_api::{ErrorKind, Result};
use serde_json::{Map, Value};

use super::Request;
use crate::output;
use crate::script::{Call, Script};

/// The number of a request: the only one of its process.
const ID: u64 = 1;

/// Asks, and gives the answer. How the process ends counts only where there is no answer.
pub(super) async fn exchange(script: &Script, call: &Call<'_>, request: &Request<'_>) -> Result<Map<String, Value>> {
    let mut input = request.envelope(script, ID).to_string();
    input.push('\n');
    let ended = script.run(call, &[request.op], Some(input.into_bytes())).await?;
    let value = match output::value(call, &ended.output) {
        Err(_) if !ended.status.success() => return Err(call.ended_badly(ended.status, &ended.said)),
        value => value?,
    };
    match value {
        Some(Value::Object(answer)) if !ended.status.success() && !answer.contains_key("error") => {
            Err(call.ended_badly(ended.status, &ended.said))
        }
        Some(Value::Object(answer)) => check_id(call, answer),
        None if !ended.status.success() => Err(call.ended_badly(ended.status, &ended.said)),
        None => Err(call.failed(ErrorKind::Corrupt, "says that it has succeeded, but has not answered", &ended.said)),
        Some(other) => {
            let what = format!("answers with {} where an object is expected", output::word_for(&other));
            Err(call.failed(ErrorKind::Corrupt, &what, &ended.said))
        }
    }
}

/// An answer that says which request it is for has to mean this one.
fn check_id(call: &Call<'_>, answer: Map<String, Value>) -> Result<Map<String, Value>> {
    match answer.get("id") {
        None | Some(Value::Null) => Ok(answer),
        Some(Value::String(id)) if *id == ID.to_string() => Ok(answer),
        Some(other) => {
            let what = format!("answers the request {}, it was asked \"{ID}\"", output::word_for(other));
            Err(call.failed(ErrorKind::Corrupt, &what, "").help("repeat the request's `id` in the answer, as a text"))
        }
    }
}
