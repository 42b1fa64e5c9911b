//! One POST and what comes back.

use std::io::Read;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind};
use serde_json::Value;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};

use super::address::Address;
use super::answer::{Meant, Refusal, wants_session};
use super::events::Events;
use super::failure::{Failed, not_mcp, status, transport};

/// The largest answer that is taken, as a bound on what a server can make us hold.
pub(super) const MOST: usize = 32 * 1024 * 1024;
/// So much of a refusal is read.
const REFUSAL: u64 = 16 * 1024;

/// The header that carries a session, in both directions.
const SESSION: &str = "mcp-session-id";
const PROTOCOL: &str = "mcp-protocol-version";

/// A session that a server has insisted on.
pub(super) struct Session {
    /// Its id; a server may do without.
    pub(super) id: Option<String>,
    /// The version that both sides know.
    pub(super) protocol: String,
}

/// The way to a server.
pub(super) struct Line<'a> {
    pub(super) agent: &'a Agent,
    pub(super) address: &'a Address,
    pub(super) session: Option<&'a Session>,
    /// When the patience of the caller ends.
    pub(super) deadline: Instant,
    /// How long that was at the beginning.
    pub(super) patience: Duration,
}

/// What came of a message.
pub(super) enum Outcome {
    /// The result, and the session that came with it.
    Result(Value, Option<String>),
    /// The server said no.
    Refused(Refusal),
    /// It was refused because there is no session, and nothing was done.
    WantsSession(Failed),
}

impl Line<'_> {
    /// Sends a request and gives its answer.
    pub(super) fn ask(&self, message: &Value, id: &str) -> Result<Outcome, Failed> {
        let mut response = self.post(message)?;
        let code = response.status().as_u16();
        if !(200..300).contains(&code) {
            return self.refused(response);
        }
        let session = header(response.headers(), SESSION).map(String::from);
        let kind = header(response.headers(), "content-type").unwrap_or_default().to_ascii_lowercase();
        let streams = kind.contains("text/event-stream");
        let mut body = response.body_mut().as_reader();
        let meant = if streams { self.streamed(&mut body, id)? } else { self.whole(&mut body, id, code)? };
        Ok(match meant {
            Meant::Result(result) => Outcome::Result(result, session),
            Meant::Refused(refusal) if self.session.is_none() && refusal.wants_session() => {
                Outcome::WantsSession(Failed::before(refusal.into_error()))
            }
            Meant::Refused(refusal) => Outcome::Refused(refusal),
            Meant::Other => return Err(Failed::midway(not_mcp(self.address, "it is not the answer to the request"))),
        })
    }

    /// Sends what has no answer.
    pub(super) fn tell(&self, message: &Value) -> Result<(), Failed> {
        let response = self.post(message)?;
        match response.status().as_u16() {
            200..300 => Ok(()),
            _ => self.refused(response).map(drop),
        }
    }

    /// Gives the session back. A server that does not want to know keeps it until it has grown old.
    pub(super) fn leave(&self) {
        let Some(id) = self.session.and_then(|session| session.id.as_deref()) else { return };
        let request = self.agent.delete(&self.address.url).header(SESSION, id);
        let request = match &self.address.token {
            Some(token) => request.header("authorization", token.header()),
            None => request,
        };
        let _ = request.config().timeout_global(Some(self.left().min(Duration::from_secs(1)))).build().call();
    }

    fn post(&self, message: &Value) -> Result<Response<Body>, Failed> {
        let mut request = self
            .agent
            .post(&self.address.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(token) = &self.address.token {
            request = request.header("authorization", token.header());
        }
        if let Some(session) = self.session {
            request = request.header(PROTOCOL, &session.protocol);
            if let Some(id) = &session.id {
                request = request.header(SESSION, id);
            }
        }
        let sent = request.config().timeout_global(Some(self.left())).build().send(message.to_string());
        sent.map_err(|error| self.failed(error))
    }

    /// The time that is left; never none, which would mean no limit.
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }

    fn failed(&self, error: ureq::Error) -> Failed {
        transport(self.address, error, self.patience)
    }

    fn refused(&self, mut response: Response<Body>) -> Result<Outcome, Failed> {
        let code = response.status().as_u16();
        let location = header(response.headers(), "location").map(String::from);
        let mut said = Vec::new();
        // What cannot be read of a refusal is left out of the message.
        let _ = response.body_mut().as_reader().take(REFUSAL).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let failed = status(self.address, code, location.as_deref(), &said);
        let insists = matches!(code, 400 | 404 | 422) && wants_session(&said);
        if insists && self.session.is_none() { Ok(Outcome::WantsSession(failed)) } else { Err(failed) }
    }

    /// An answer that is one JSON value.
    fn whole(&self, body: &mut impl Read, id: &str, code: u16) -> Result<Meant, Failed> {
        let mut bytes = Vec::new();
        body.take(MOST as u64 + 1).read_to_end(&mut bytes).map_err(|error| self.failed(error.into()))?;
        if bytes.len() > MOST {
            return Err(self.too_large());
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            let found = format!("it took the request and gave no answer (HTTP {code})");
            return Err(Failed::midway(not_mcp(self.address, &found)));
        }
        let message = serde_json::from_slice(&bytes).map_err(|_| {
            let beginning: String = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).chars().take(100).collect();
            Failed::midway(not_mcp(self.address, &format!("what came is not JSON: {}", beginning.trim())))
        })?;
        Ok(Meant::of(message, id))
    }

    /// An answer somewhere in a stream of events. Behind it the stream is of no interest.
    fn streamed(&self, body: &mut impl Read, id: &str) -> Result<Meant, Failed> {
        let mut events = Events::default();
        let (mut buffer, mut taken) = ([0; 8192], 0);
        loop {
            let count = body.read(&mut buffer).map_err(|error| self.failed(error.into()))?;
            if count == 0 {
                break;
            }
            taken += count;
            if taken > MOST {
                return Err(self.too_large());
            }
            for data in events.push(&buffer[..count]) {
                if let Some(meant) = answer_in(&data, id) {
                    return Ok(meant);
                }
            }
        }
        events.rest().and_then(|data| answer_in(&data, id)).ok_or_else(|| {
            let text = format!("the stream of {} ended without an answer", self.address.url);
            Failed::midway(Error::new(ErrorKind::Unavailable, text))
        })
    }

    fn too_large(&self) -> Failed {
        let text = format!("the answer of {} is larger than {MOST} bytes", self.address.url);
        Failed::midway(Error::new(ErrorKind::TooLarge, text).help("ask for less, for example with a smaller `limit`"))
    }
}

/// The answer, if the data of an event is that. What is no JSON is a sign of life or somebody else's.
fn answer_in(data: &str, id: &str) -> Option<Meant> {
    match Meant::of(serde_json::from_str(data).ok()?, id) {
        Meant::Other => None,
        meant => Some(meant),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
