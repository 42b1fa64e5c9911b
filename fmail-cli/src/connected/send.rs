//! Sending through a daemon.

use std::hash::{BuildHasher, Hasher, RandomState};

use fmail_api::{AgentName, Event, Message, MessageId, Query, Request, Response, Result, SendRequest, Sent};
use fmail_transports::{ANSWER, Conversation, Endpoint, Failure, response};
use futures::StreamExt;
use futures::executor::block_on;

use super::{context, endpoints, explained, make_sure, may_be_served};
use crate::output::note;
use crate::session::{Place, unexpected};

/// Sends through the project's daemon. Nothing when there is none, or when it was lost before it answered: then the
/// request has a key, and sending it again cannot store it twice.
pub(crate) fn send(place: &Place, agent: &AgentName, request: &mut SendRequest) -> Result<Option<Sent>> {
    if !may_be_served(&place.project) {
        return Ok(None);
    }
    for endpoint in endpoints(place) {
        let endpoint = endpoint?;
        let Some(attempt) = Attempt::open(place, agent, &endpoint)? else { continue };
        request.key.get_or_insert_with(fresh_key);
        match attempt.send(request) {
            Ok(sent) => return Ok(Some(sent)),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Lost(error)) => {
                note(&format!("{error}; storing the message without it (its key keeps it from being stored twice)"));
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// A connection over which a message may be sent.
struct Attempt {
    conversation: Conversation,
    context: fmail_api::Context,
    /// The daemon has been asked who it is.
    known: bool,
}

impl Attempt {
    fn open(place: &Place, agent: &AgentName, endpoint: &Endpoint) -> Result<Option<Attempt>> {
        let Some(conversation) = Conversation::open(endpoint) else { return Ok(None) };
        let context = context(&place.project, agent)?;
        Ok(match endpoint {
            // The socket lies in the very directory that it serves: there is nothing to make sure of first.
            Endpoint::Unix(_) => Some(Attempt { conversation, context, known: false }),
            Endpoint::Tcp(_) => make_sure(&place.project, conversation, &context).map(|conversation| Attempt {
                conversation,
                context,
                known: true,
            }),
        })
    }

    fn send(mut self, request: &SendRequest) -> Result<Sent, Failure> {
        let request = Request::Send(Box::new(request.clone()));
        let answer = if self.known {
            self.conversation.wait(ANSWER)?;
            let asked = self.conversation.ask(&self.context, &request);
            asked.map_err(|failure| match failure {
                Failure::Refused(error) => Failure::Refused(explained(error, self.conversation.daemon())),
                lost => lost,
            })?
        } else {
            let (hello, answer) = self.conversation.hello_and_ask(&self.context, &request)?;
            answer.map_err(|error| Failure::Refused(explained(error, hello.as_ref())))?
        };
        match response(&self.context, &request, answer).map_err(Failure::Lost)? {
            Response::Sent(sent) => Ok(*sent),
            _ => Err(Failure::Lost(unexpected())),
        }
    }
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
