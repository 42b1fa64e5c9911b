//! What a JSON-RPC message of a server means.

use fmail_api::{Error, ErrorKind, Result};
use serde_json::Value;

/// The most characters of a server's text that an error repeats.
const SHOWN: usize = 2_000;

/// The error of a JSON-RPC answer.
pub(super) struct Refusal {
    code: i64,
    pub(super) message: String,
}

/// What a message is to who waits for the answer to one request.
pub(super) enum Meant {
    /// The answer.
    Result(Value),
    /// The answer: no.
    Refused(Refusal),
    /// Something else: a notification, or the answer to somebody else.
    Other,
}

impl Meant {
    /// What this message is to who has sent the request `id`.
    pub(super) fn of(mut message: Value, id: &str) -> Meant {
        if message.get("method").is_some() {
            return Meant::Other;
        }
        // A server that could not read the request does not know its id, and gives none, or one of its own.
        if let Some(refusal) = Refusal::of(&message) {
            return Meant::Refused(refusal);
        }
        match message.get_mut("result").map(Value::take) {
            Some(result) if message["id"] == id => Meant::Result(result),
            _ => Meant::Other,
        }
    }
}

impl Refusal {
    /// The error in a message, if it has one that says something.
    pub(super) fn of(message: &Value) -> Option<Refusal> {
        let error = message.get("error").filter(|error| error.is_object())?;
        let mut text = error["message"].as_str().unwrap_or("an error without a message").to_string();
        match &error["data"] {
            Value::Null => {}
            Value::String(more) if more.is_empty() => {}
            Value::String(more) => text.push_str(&format!(" ({more})")),
            // It says the same once more, for programs.
            more if more["error"]["message"] == error["message"] => {}
            more => text.push_str(&format!(" ({more})")),
        }
        Some(Refusal { code: error["code"].as_i64().unwrap_or_default(), message: text })
    }

    /// The error that it is here.
    pub(super) fn into_error(self) -> Error {
        let kind = match self.code {
            // The specification's code for a resource that is not there.
            -32002 => ErrorKind::NotFound,
            -32601 => ErrorKind::Unsupported,
            -32603 => told_kind(&self.message).unwrap_or(ErrorKind::Unavailable),
            _ => told_kind(&self.message).unwrap_or(ErrorKind::InvalidRequest),
        };
        Error::new(kind, shortened(&self.message))
    }

    /// Whether it is refused only because nothing was initialised before.
    pub(super) fn wants_session(&self) -> bool {
        wants_session(&self.message)
    }
}

/// Whether a text complains of a missing session.
pub(super) fn wants_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("session") || text.contains("initializ") || text.contains("initialis")
}

/// The kind that the words of an error tell.
fn told_kind(text: &str) -> Option<ErrorKind> {
    const WORDS: [(&str, ErrorKind); 7] = [
        ("FILE_RESERVATION_CONFLICT", ErrorKind::Conflict),
        ("not found", ErrorKind::NotFound),
        ("not registered", ErrorKind::NotFound),
        ("Unknown tool", ErrorKind::NotFound),
        ("Unknown resource", ErrorKind::NotFound),
        ("Request timed out", ErrorKind::Timeout),
        ("is ending", ErrorKind::Unavailable),
    ];
    WORDS.into_iter().find(|(words, _)| text.contains(words)).map(|(_, kind)| kind)
}

/// The result of a tool; an error when the tool has failed, which it tells in its result.
pub(super) fn tool_result(result: Value) -> Result<Value> {
    if result["isError"] != true {
        return Ok(result);
    }
    let structured = &result["structuredContent"]["error"];
    let texts: Vec<&str> =
        result["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect();
    let text = match (texts.join("\n"), structured["message"].as_str()) {
        (text, _) if !text.trim().is_empty() => text,
        (_, Some(message)) => message.to_string(),
        _ => "the tool failed and does not say why".to_string(),
    };
    let kind = structured["type"].as_str().and_then(typed_kind).or_else(|| told_kind(&text));
    Err(Error::new(kind.unwrap_or(ErrorKind::InvalidRequest), shortened(&text)))
}

/// The kind of an error that a server names: by our word, or by upstream's.
fn typed_kind(name: &str) -> Option<ErrorKind> {
    let own = ErrorKind::from_code(&name.to_ascii_lowercase());
    own.or(match name {
        "FILE_RESERVATION_CONFLICT" => Some(ErrorKind::Conflict),
        "INVALID_PROJECT_KEY" => Some(ErrorKind::InvalidProject),
        "UNKNOWN_RESOURCE" => Some(ErrorKind::NotFound),
        name if name.ends_with("NOT_FOUND") => Some(ErrorKind::NotFound),
        _ => None,
    })
}

/// The text, or its beginning and how much is left out.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_string(),
        Some((end, _)) => format!("{} [{} bytes more]", &text[..end], text.len() - end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn meant(message: Value) -> String {
        match Meant::of(message, "7") {
            Meant::Result(result) => format!("result {result}"),
            Meant::Refused(refusal) => format!("refused {}", refusal.message),
            Meant::Other => "other".into(),
        }
    }

    #[test]
    fn only_the_answer_to_the_request_is_its_answer() {
        assert_eq!(meant(json!({"jsonrpc": "2.0", "id": "7", "result": {"a": 1}})), "result {\"a\":1}");
        assert_eq!(meant(json!({"id": "7", "result": 1, "error": null})), "result 1");
        assert_eq!(meant(json!({"id": "8", "result": 1})), "other");
        assert_eq!(meant(json!({"id": 7, "result": 1})), "other");
        assert_eq!(meant(json!({"method": "notifications/progress", "id": "7"})), "other");
        assert_eq!(meant(json!([{"id": "7", "result": 1}])), "other");
        assert_eq!(meant(json!("ok")), "other");
        assert_eq!(meant(json!({"id": "server-error", "error": {"code": -32600, "message": "no"}})), "refused no");
        assert_eq!(
            meant(json!({"id": null, "error": {"code": 0, "message": "no", "data": "why"}})),
            "refused no (why)"
        );
        assert_eq!(meant(json!({"id": "7", "error": {"code": 0, "message": "no", "data": ""}})), "refused no");
        let repeated = json!({"code": 0, "message": "no", "data": {"uri": "x", "error": {"message": "no"}}});
        assert_eq!(meant(json!({"id": "7", "error": repeated})), "refused no");
    }

    #[track_caller]
    fn check(result: Value, kind: ErrorKind, text: &str) {
        let error = tool_result(result).unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, text));
    }

    #[test]
    fn a_tool_that_failed_is_a_failure_of_the_kind_that_it_tells() {
        let failed = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": true});
        let text = "Agent 'X' not found in project '/p'. Did you mean: 'Y'?";
        check(failed(text), ErrorKind::NotFound, text);
        check(failed("FILE_RESERVATION_CONFLICT: a"), ErrorKind::Conflict, "FILE_RESERVATION_CONFLICT: a");
        check(failed("Unknown tool: x"), ErrorKind::NotFound, "Unknown tool: x");
        check(failed("limit must be at least 1"), ErrorKind::InvalidRequest, "limit must be at least 1");
        check(json!({"isError": true}), ErrorKind::InvalidRequest, "the tool failed and does not say why");
        let typed = |kind: &str| {
            let error = json!({"error": {"type": kind, "message": "m"}});
            json!({"content": [], "structuredContent": error, "isError": true})
        };
        check(typed("FILE_RESERVATION_CONFLICT"), ErrorKind::Conflict, "m");
        check(typed("NOT_FOUND"), ErrorKind::NotFound, "m");
        check(typed("AGENT_NOT_FOUND"), ErrorKind::NotFound, "m");
        check(typed("INVALID_PROJECT_KEY"), ErrorKind::InvalidProject, "m");
        check(typed("UNAVAILABLE"), ErrorKind::Unavailable, "m");
        check(typed("denied"), ErrorKind::Denied, "m");
        check(typed("SOMETHING_ELSE"), ErrorKind::InvalidRequest, "m");
        assert!(tool_result(json!({"isError": false})).is_ok() && tool_result(json!({})).is_ok());
    }
}
