//! Sessions: what clients before 2026-07-28 tie their requests and their stream together with.
//!
//! A session is a name and nothing else, and gives no right. So a name that is not known, because the daemon was started
//! again or the client made it up, is as good as any. What is kept is only what is open.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode};
use fmail_mcp::Peer;
use fmail_plugin::Error;
use fmail_plugin::futures::StreamExt;
use fmail_plugin::tokio::sync::watch;

use crate::connection::Link;
use crate::events::{self, Streaming};
use crate::flag::Flag;
use crate::front::{Front, not_allowed};
use crate::media::{self, Accepts};
use crate::refusal::{Form, Refusal};
use crate::standard_headers::{SESSION, single};

/// A session's name has at most so many characters.
const LENGTH: usize = 128;

/// The sessions that have a stream open.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, watch::Sender<bool>>>);

impl Sessions {
    /// Goes up when the session ends.
    fn ended(&self, session: &str) -> Flag {
        let mut open = self.lock();
        // Those whose streams are gone go with the next one that comes.
        open.retain(|_, end| end.receiver_count() > 0);
        open.entry(session.to_string()).or_insert_with(|| watch::channel(false).0).subscribe()
    }

    fn end(&self, session: &str) {
        if let Some(end) = self.lock().remove(session) {
            end.send_replace(true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        return not_allowed(request.method(), "GET, POST, DELETE").answer(Form::JsonRpc);
    }
    let session = match named(request.headers()) {
        Ok(session) => session,
        Err(refusal) => return refusal.answer(Form::JsonRpc),
    };
    let mut over = vec![front.ending.clone()];
    over.extend(session.as_ref().map(|session| front.sessions.ended(session)));
    let peer = Peer { principal: Some(front.principal()), session, protocol: None, deadline: None };
    Streaming {
        texts: front.server.notifications(&peer).map(|message| events::event(&message)).boxed(),
        keep_alive: (front.config.keep_alive, events::COMMENT),
        gone: link.gone,
        over,
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
    front.sessions.end(&session);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
