//! JSON-RPC: what a message is, and the form of an answer.
//!
//! Messages are read here and not by `rmcp`'s types: an id that is no whole number, `params: null`, a missing `jsonrpc` and
//! a field with an explicit `null` are refused by those, and real clients send them.

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Map, Value, json};

/// A message from a client.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Wants an answer.
    Request(Request),
    /// Wants none: a notification, or an answer to something that we would have asked.
    Silent,
    /// Cannot be understood.
    Wrong(Value),
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    /// The client's own name for it, as it came.
    pub(crate) id: Value,
    /// What is asked for.
    pub(crate) method: String,
    /// The details.
    pub(crate) params: Map<String, Value>,
}

impl Incoming {
    /// Understands a message.
    pub(crate) fn read(message: Value) -> Incoming {
        let Value::Object(mut message) = message else {
            return wrong(Value::Null, ErrorCode::INVALID_REQUEST, "a message is a JSON object");
        };
        let id = match message.remove("id") {
            None | Some(Value::Null) => return Incoming::Silent,
            Some(id @ (Value::String(_) | Value::Number(_))) => id,
            Some(_) => return wrong(Value::Null, ErrorCode::INVALID_REQUEST, "an id is a text or a number"),
        };
        if message.get("jsonrpc").is_some_and(|version| version != "2.0") {
            return wrong(id, ErrorCode::INVALID_REQUEST, "only JSON-RPC 2.0 is spoken here");
        }
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            None if message.contains_key("result") || message.contains_key("error") => return Incoming::Silent,
            _ => return wrong(id, ErrorCode::INVALID_REQUEST, "a request has a method, which is a text"),
        };
        match message.remove("params") {
            None | Some(Value::Null) => Incoming::Request(Request { id, method, params: Map::new() }),
            Some(Value::Object(params)) => Incoming::Request(Request { id, method, params }),
            Some(_) => wrong(id, ErrorCode::INVALID_PARAMS, "params is an object"),
        }
    }
}

fn wrong(id: Value, code: ErrorCode, message: &'static str) -> Incoming {
    Incoming::Wrong(refusal(&id, &ErrorData::new(code, message, None)))
}

/// The answer with a result.
pub(crate) fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// The answer that refuses.
pub(crate) fn refusal(id: &Value, error: &ErrorData) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// A message of our own that wants no answer.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_kind_come_back_and_nulls_count_as_absent() {
        for id in [json!("8d0f-uuid"), json!(7), json!(1.5), json!(""), json!(-3)] {
            match Incoming::read(json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": null})) {
                Incoming::Request(request) => assert_eq!((request.id, request.params.len()), (id, 0)),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(Incoming::read(json!({"id": 1, "method": "ping"})), Incoming::Request(_)));
    }

    #[test]
    fn what_wants_no_answer_gets_none() {
        for silent in [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
            json!({}),
        ] {
            assert!(matches!(Incoming::read(silent.clone()), Incoming::Silent), "{silent}");
        }
    }

    #[test]
    fn what_is_no_message_is_told_with_its_code() {
        for (message, code) in [
            (json!([]), -32600),
            (json!("x"), -32600),
            (json!({"id": {}, "method": "ping"}), -32600),
            (json!({"id": 1}), -32600),
            (json!({"id": 1, "method": 7}), -32600),
            (json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}), -32600),
            (json!({"id": 1, "method": "ping", "params": [1]}), -32602),
        ] {
            match Incoming::read(message.clone()) {
                Incoming::Wrong(answer) => assert_eq!(answer["error"]["code"], code, "{message}"),
                other => panic!("{message}: {other:?}"),
            }
        }
    }
}
