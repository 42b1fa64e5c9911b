//! Sending through a daemon.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread::sleep;
use std::time::Duration;

use fmail_api::{
    AgentName, Error, Event, Message, MessageId, Query, Reply, Request, Response, Result, SendRequest, Sent,
};
use fmail_host::Route;
use fmail_transports::Failure;
use futures::StreamExt;
use futures::executor::block_on;

use super::attempt::Attempt;
use super::client::Daemon;
use super::{endpoints, may_be_served};
use crate::output::note;
use crate::session::{Place, unexpected};

/// How long to wait before each attempt to reach the daemon that has the store.
const AGAIN: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(300), Duration::from_millis(900)];

/// Sends through the project's daemon. Nothing when there is none, or when it was lost before it answered: then the
/// request has a key, and sending it again cannot store it twice.
pub(crate) fn send(place: &Place, agent: &AgentName, request: &mut SendRequest) -> Result<Option<Sent>> {
    match place.settings.route() {
        Route::Direct => {}
        Route::Daemon => return send_served(&Daemon::only(place, agent), request)?.or_unknown(request).map(Some),
        Route::DaemonFirst => {
            return match Daemon::answering(place, agent)? {
                Some(daemon) => match send_served(&daemon, request)? {
                    // Only the daemon could have opened it: there is nothing to fall back on.
                    lost @ Served::Lost(_) if place.store().is_err() => lost.or_unknown(request).map(Some),
                    served => Ok(served.or_without_it()),
                },
                None => Ok(None),
            };
        }
    }
    if !may_be_served(&place.project) {
        return Ok(None);
    }
    for endpoint in endpoints(place) {
        let endpoint = endpoint?;
        let Some(attempt) = Attempt::open(place, agent, &endpoint)? else { continue };
        request.key.get_or_insert_with(fresh_key);
        let lost = match attempt.ask(&Request::Send(Box::new(request.clone()))) {
            Ok(Response::Sent(sent)) => return Ok(Some(*sent)),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Lost(error)) => error,
            Ok(_) => unexpected(),
        };
        return Ok(Served::Lost(lost).or_without_it());
    }
    Ok(None)
}

/// What came of entrusting a message to a daemon.
enum Served {
    Sent(Box<Sent>),
    /// It was lost before it answered, and the message has a key.
    Lost(Error),
}

impl Served {
    /// Leaves a message whose daemon was lost to who can store it without.
    fn or_without_it(self) -> Option<Sent> {
        match self {
            Served::Sent(sent) => Some(*sent),
            Served::Lost(lost) => {
                note(&format!("{lost}; storing the message without it (its key keeps it from being stored twice)"));
                None
            }
        }
    }

    /// Fails where nobody else can store it.
    fn or_unknown(self, request: &SendRequest) -> Result<Sent> {
        match self {
            Served::Sent(sent) => Ok(*sent),
            Served::Lost(lost) => {
                let key = request.key.as_deref().unwrap_or_default();
                Err(Error::new(lost.kind(), format!("{lost}; whether the message is stored is not known")).help(
                    format!("send it again with --key {key}: then it is stored once, whatever forged did with it"),
                ))
            }
        }
    }
}

/// Sends to the daemon that has the store. One that was lost may be back in a moment, and the key keeps the message from
/// being stored twice.
fn send_served(daemon: &Daemon, request: &mut SendRequest) -> Result<Served> {
    request.key.get_or_insert_with(fresh_key);
    let request = Request::Send(Box::new(request.clone()));
    let mut lost: Option<Error> = None;
    for wait in AGAIN {
        sleep(wait);
        let greeted = match daemon.greeted() {
            Ok(greeted) => greeted,
            // Nobody was asked for anything.
            Err(error) if lost.is_none() => return Err(error),
            Err(_) => continue,
        };
        match greeted.ask_at_length(&request) {
            Ok(Reply { head: Response::Sent(sent), .. }) => return Ok(Served::Sent(sent)),
            Ok(_) => return Err(unexpected()),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Lost(error)) => lost = Some(error),
        }
    }
    Ok(Served::Lost(lost.unwrap_or_else(unexpected)))
}

/// The message as it is stored: an answer carries its id only.
pub(crate) fn read_back(place: &Place, id: MessageId) -> Option<Message> {
    let store = place.store().ok()?;
    let mut scan = block_on(store.scan(Query { ids: [id].into(), ..Query::default() })).ok()?;
    while let Some(event) = block_on(scan.messages.next()) {
        if let Ok(Event::Message(delivery)) = event {
            return Some(Message::clone(&delivery.message));
        }
    }
    None
}

/// A key that nobody else has: 128 bits from the system's random source, by way of the standard library.
fn fresh_key() -> String {
    let random = || RandomState::new().build_hasher().finish();
    // Each thread draws from the system once and counts from there; process and time keep two processes apart even if
    // they drew alike.
    let (process, time) = (std::process::id(), crate::session::now().unix_nanos());
    format!("{:016x}{:x}{:x}", random(), process, time)
}
