//! One message of JSON-RPC, and its answer.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use fmail_mcp::{Outcome, Peer};
use fmail_plugin::futures::StreamExt;
use fmail_plugin::serde_json::{self, Value, json};
use fmail_plugin::tokio::time::sleep;
use fmail_plugin::{Error, tokio};

use crate::config::{GRACE, PARTING};
use crate::connection::Link;
use crate::events::{self, Streaming};
use crate::flag::raised;
use crate::front::Front;
use crate::media::{self, Accepts};
use crate::refusal::{Form, Refusal, code, in_json};
use crate::standard_headers::{self, SESSION, STATELESS};
use crate::{body, sessions};

/// Serves a POST.
pub async fn serve(front: &Front, link: Link, request: Request) -> Response<Body> {
    answered(front, link, request).await.unwrap_or_else(|refusal| refusal.answer(Form::JsonRpc))
}

async fn answered(front: &Front, link: Link, request: Request) -> Result<Response<Body>, Refusal> {
    let (head, body) = request.into_parts();
    let bytes = body::read(&front.config, &head.headers, body).await?;
    let message = parsed(&bytes)?;
    let id = message.get("id").cloned().unwrap_or_default();
    let accepts = Accepts::of(&head.headers);
    let peer = peer(front, &head.headers, &message).map_err(|refusal| refusal.to(id.clone()))?;
    let begins = message["method"] == "initialize" && !id.is_null();
    let outcome = run(front, &peer, message, &id).await?;
    Ok(match outcome {
        Outcome::Accepted => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::ACCEPTED;
            response
        }
        Outcome::Answer(answer) => {
            let mut response = plain(&answer, &peer, accepts);
            if begins && let Some(session) = issued(&peer, &answer) {
                response.headers_mut().insert(SESSION, session);
            }
            response
        }
        Outcome::Stream(messages) if accepts.takes_events() => {
            let farewell = json!({"jsonrpc": "2.0", "id": id, "error": ending()});
            Streaming {
                texts: messages.map(|message| events::event(&message)).boxed(),
                keep_alive: (front.config.keep_alive, events::COMMENT),
                gone: link.gone,
                over: vec![front.ending.clone()],
                farewell: Some(events::event(&farewell)),
            }
            .answer(media::EVENTS)
        }
        Outcome::Stream(_) => {
            let error = Error::invalid("the answer to this request is a stream of events")
                .help("accept text/event-stream beside application/json");
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, code::INVALID_REQUEST, error).to(id));
        }
    })
}

/// The one message that a body is.
fn parsed(bytes: &[u8]) -> Result<Value, Refusal> {
    let broken = |error: &dyn std::fmt::Display| {
        let error = Error::invalid(format!("Parse error: the request is not JSON: {error}"));
        Refusal::new(StatusCode::BAD_REQUEST, code::PARSE_ERROR, error)
    };
    let message: Value = serde_json::from_slice(bytes).map_err(|error| broken(&error))?;
    let found = match &message {
        Value::Object(_) => return Ok(message),
        Value::Array(_) => "a list (batches are not served: send one message at a time)",
        Value::String(_) => "a text",
        Value::Number(_) => "a number",
        Value::Bool(_) | Value::Null => "no message",
    };
    Err(Refusal::invalid(format!("Invalid Request: expected one JSON-RPC message, an object, and found {found}")))
}

/// Who sends a message, as its headers tell.
fn peer(front: &Front, headers: &HeaderMap, message: &Value) -> Result<Peer, Refusal> {
    let protocol = standard_headers::protocol(headers, message)?;
    standard_headers::check(headers, message)?;
    let session = match sessions::named(headers)? {
        None if message["method"] == "initialize" => Some(sessions::fresh()),
        named => named,
    };
    Ok(Peer { principal: Some(front.principal()), session, protocol, deadline: Some(front.config.deadline) })
}

/// Runs a message within its time. What takes longer is given up, and said so.
async fn run(front: &Front, peer: &Peer, message: Value, id: &Value) -> Result<Outcome, Refusal> {
    let deadline = front.config.deadline;
    let mut ended = front.ending.clone();
    let ends = async {
        raised(&mut ended).await;
        sleep(GRACE).await;
    };
    tokio::select! {
        outcome = front.server.handle(peer, message) => Ok(outcome),
        // The operation has the same time, and its own answer says more.
        () = sleep(deadline + PARTING) => Ok(Outcome::Answer(json!({"jsonrpc": "2.0", "id": id, "error": {
            "code": code::TIMED_OUT,
            "message": format!(
                "Request timed out: no answer within {} s; whether it took effect is not known", deadline.as_secs()
            ),
        }}))),
        () = ends => Ok(Outcome::Answer(json!({"jsonrpc": "2.0", "id": id, "error": ending()}))),
    }
}

/// What those hear whom the end of the daemon cuts off.
fn ending() -> Value {
    json!({"code": code::REFUSED, "message": "the daemon is ending; ask again when it is back"})
}

/// One message as the answer.
fn plain(answer: &Value, peer: &Peer, accepts: Accepts) -> Response<Body> {
    let status = status(answer, peer.protocol.as_deref());
    if status == StatusCode::OK && accepts.only_events() {
        return events::single(answer);
    }
    in_json(status, answer)
}

/// The status of an answer. Clients before 2026-07-28 take every error from an answer that went well for HTTP.
fn status(answer: &Value, protocol: Option<&str>) -> StatusCode {
    let stateless = protocol.is_some_and(|version| version >= STATELESS);
    match answer["error"]["code"].as_i64() {
        Some(code::PARSE_ERROR | code::INVALID_REQUEST) => StatusCode::BAD_REQUEST,
        Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        Some(code::METHOD_NOT_FOUND) if stateless => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// The session that begins with this answer; from 2026-07-28 on there are none.
fn issued(peer: &Peer, answer: &Value) -> Option<HeaderValue> {
    let version = answer["result"]["protocolVersion"].as_str()?;
    let session = peer.session.as_ref().filter(|_| version < STATELESS)?;
    HeaderValue::from_str(session).ok()
}
