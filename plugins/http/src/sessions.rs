//! Sessions: what clients before 2026-07-28 tie their requests and their stream together with.
//!
//! A session is a name and nothing else, and gives no right. So a name that is not known, because the daemon was started
//! again or the client made it up, is as good as any.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, HeaderValue};
use axum::http::{HeaderMap, Response, StatusCode};
use fmail_mcp::Peer;
use fmail_plugin::Error;
use fmail_plugin::futures::StreamExt;
use fmail_plugin::serde_json::Value;

use crate::connection::Link;
use crate::events::{self, Streaming};
use crate::front::{Front, not_allowed};
use crate::media::{self, Accepts};
use crate::refusal::{Form, Refusal, code};
use crate::standard_headers::{SESSION, STATELESS, protocol, single};

/// A session's name has at most so many characters.
const LENGTH: usize = 128;

/// A name that nobody has.
pub fn fresh() -> String {
    let mut bytes = [0; 16];
    // Without a source of chance the kernel has not started; then one session is all that there can be.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The session that a request names.
pub fn named(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(session) = single(headers, &SESSION)? else { return Ok(None) };
    let plain = !session.is_empty() && session.len() <= LENGTH && session.bytes().all(|byte| byte.is_ascii_graphic());
    if plain {
        return Ok(Some(session.to_string()));
    }
    Err(Refusal::invalid(format!(
        "the header Mcp-Session-Id has {} characters; a session has 1 to {LENGTH} visible ones",
        session.chars().count()
    )))
}

/// Opens the stream of a session: what the server says by itself.
pub fn listen(front: &Front, link: Link, request: &Request) -> Response<Body> {
    if !Accepts::of(request.headers()).events {
        let error = Error::invalid("a GET here opens a stream of events, and the request does not accept one")
            .help("send `Accept: text/event-stream`, or POST a message of MCP");
        // As the specification has it for a GET that is given no stream.
        return Refusal::new(StatusCode::METHOD_NOT_ALLOWED, code::REFUSED, error)
            .header(ALLOW, HeaderValue::from_static("GET, POST, DELETE"))
            .answer(Form::JsonRpc);
    }
    let (session, protocol) = match (named(request.headers()), protocol(request.headers(), &Value::Null)) {
        (Ok(session), Ok(protocol)) => (session, protocol),
        (Err(refusal), _) | (_, Err(refusal)) => return refusal.answer(Form::JsonRpc),
    };
    if protocol.as_deref().is_some_and(|version| version >= STATELESS) {
        return not_allowed(request.method(), "POST").answer(Form::JsonRpc);
    }
    let peer = Peer { principal: Some(front.principal()), session, protocol, deadline: None };
    Streaming {
        texts: front.server.notifications(&peer).map(|message| events::event(&message)).boxed(),
        keep_alive: (front.config.keep_alive, events::COMMENT),
        gone: link.gone,
        ending: front.ending.clone(),
        rest: Duration::ZERO,
        farewell: None,
    }
    .answer(media::EVENTS)
}

/// Ends a session.
pub fn end(front: &Front, request: &Request) -> Response<Body> {
    let session = match named(request.headers()) {
        Ok(Some(session)) => session,
        Ok(None) => {
            let error = Error::invalid("DELETE ends a session, and none is named").help("name it in Mcp-Session-Id");
            return Refusal::new(StatusCode::BAD_REQUEST, crate::refusal::code::INVALID_REQUEST, error)
                .answer(Form::JsonRpc);
        }
        Err(refusal) => return refusal.answer(Form::JsonRpc),
    };
    front.server.end_session(&session);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
