//! A transport that is a plugin: `http` in a real daemon, spoken to with raw bytes by a client that knows nothing of its code.

mod ending;
mod fuzz;
mod idle;
mod letting_in;
mod limits;
mod messages;
mod operations;
mod outage;
mod places;
mod slow;
mod streams;

use serde_json::{Value, json};

/// A request that every server answers.
fn ping(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "ping"})
}
