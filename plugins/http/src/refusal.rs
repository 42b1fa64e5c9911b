//! What a client is told when it gets nothing else: always JSON, in the form of the place that it asked at.

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};
use fmail_plugin::serde_json::{Value, json};
use fmail_plugin::{Error, ErrorKind};

use crate::config::{Config, OPERATIONS};
use crate::media;

/// Codes of JSON-RPC and of MCP.
pub mod code {
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INTERNAL: i64 = -32603;
    /// The server did not want to; nothing was done.
    pub const REFUSED: i64 = -32000;
    /// No answer in time.
    pub const TIMED_OUT: i64 = -32001;
    pub const HEADER_MISMATCH: i64 = -32020;
    pub const MISSING_CAPABILITY: i64 = -32021;
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// Which form an error has where it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A message of JSON-RPC.
    JsonRpc,
    /// An object of docs/protocol.md.
    Operation,
    /// An object with a sentence.
    Plain,
}

impl Form {
    /// The form at this path.
    pub fn of(config: &Config, path: &str) -> Form {
        let place = path.strip_suffix('/').unwrap_or(path);
        if place == OPERATIONS.trim_end_matches('/') {
            Form::Operation
        } else if config.places().contains(&place) {
            Form::JsonRpc
        } else {
            Form::Plain
        }
    }
}

/// Why a request is not served.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    code: i64,
    error: Error,
    id: Value,
    more: Option<Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// With this status; JSON-RPC has a code of its own.
    pub fn new(status: StatusCode, code: i64, error: Error) -> Refusal {
        Refusal { status, code, error, id: Value::Null, more: None, headers: Vec::new() }
    }

    /// A request that nobody can serve.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, Error::invalid(message))
    }

    /// A request that this client may not make.
    pub fn denied(status: StatusCode, message: &str, help: &str) -> Refusal {
        Refusal::new(status, code::REFUSED, Error::new(ErrorKind::Denied, message).help(help))
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Refusal {
        self.headers.push((name, value));
        self
    }

    /// With the end of the connection: what is left of the request is not read.
    #[must_use]
    pub fn closing(self) -> Refusal {
        self.header(CONNECTION, HeaderValue::from_static("close"))
    }

    /// To the request with this id.
    #[must_use]
    pub fn to(mut self, id: Value) -> Refusal {
        self.id = id;
        self
    }

    /// With `data` in the error of JSON-RPC.
    #[must_use]
    pub fn data(mut self, data: Value) -> Refusal {
        self.more = Some(data);
        self
    }

    /// The code of JSON-RPC.
    #[cfg(test)]
    pub fn code(&self) -> i64 {
        self.code
    }

    /// What goes into the log.
    pub fn reason(&self) -> &str {
        self.error.message()
    }

    /// As the answer at a place.
    pub fn answer(self, form: Form) -> Response<Body> {
        let body = match form {
            Form::JsonRpc => {
                let mut error = json!({"code": self.code, "message": sentence(&self.error)});
                if let Some(data) = self.more {
                    error["data"] = data;
                }
                json!({"jsonrpc": "2.0", "id": self.id, "error": error})
            }
            Form::Operation => json!({"ok": false, "error": self.error}),
            Form::Plain => json!({"detail": sentence(&self.error)}),
        };
        let mut response = in_json(self.status, &body);
        response.headers_mut().extend(self.headers);
        response
    }
}

/// A JSON answer.
pub fn in_json(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
    response
}

/// What went wrong and what to do, in one text: MCP has no place for the second.
pub fn sentence(error: &Error) -> String {
    match error.help_text() {
        Some(help) => format!("{}; {help}", error.message()),
        None => error.message().to_string(),
    }
}
