//! Finding the project's daemon for a watch.

use fmail_api::{AgentName, Context, Cursor, EventStream, Request, Response, Result, WatchRequest};
use fmail_host::Project;
use fmail_transports::unix::SOCKET;
use fmail_transports::{ANSWER, Conversation, Endpoint, Failure, GREETING, events, response};

use super::{context, endpoints, explained, make_sure, may_be_served};
use crate::session::{Place, unexpected};

/// The places where a daemon of this project may be.
#[derive(Clone)]
pub(super) struct Daemons {
    project: Project,
    /// What has to be proved at one may be unreadable; that concerns only who gets as far as there.
    endpoints: Vec<Result<Endpoint>>,
    agent: AgentName,
}

/// What came of looking for a daemon.
pub(super) enum Found {
    /// One watches for us; the cursor is where what is stored ended.
    Watching(Cursor, EventStream),
    /// One took the connection and said nothing.
    Silent,
    /// There is none.
    Nobody,
}

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// At the project's socket only.
    Socket,
    /// Everywhere.
    Everywhere,
}

impl Daemons {
    pub(super) fn of(place: &Place, agent: &AgentName) -> Daemons {
        Daemons { project: place.project.clone(), endpoints: endpoints(place).collect(), agent: agent.clone() }
    }

    /// Whether it is worth looking there: one look at a file, which costs next to nothing.
    pub(super) fn may_be(&self, place: Where) -> bool {
        may_be_served(&self.project)
            && self.endpoints.iter().any(|endpoint| match endpoint {
                Ok(Endpoint::Unix(directory)) => directory.join(SOCKET).exists(),
                Ok(Endpoint::Tcp(_)) | Err(_) => place == Where::Everywhere,
            })
    }

    /// Starts the watch at the first daemon of this project that answers. Waits for sockets, so not for the runtime's thread.
    pub(super) fn watch(&self, place: Where, request: &WatchRequest) -> Result<Found> {
        if !may_be_served(&self.project) {
            return Ok(Found::Nobody);
        }
        let mut found = Found::Nobody;
        for endpoint in &self.endpoints {
            if place == Where::Socket && !matches!(endpoint, Ok(Endpoint::Unix(_))) {
                continue;
            }
            let endpoint = endpoint.as_ref().map_err(Clone::clone)?;
            let Some(conversation) = Conversation::open(endpoint) else { continue };
            let context = context(&self.project, &self.agent)?;
            match self.watch_at(endpoint, conversation, &context, request)? {
                Found::Nobody => {}
                Found::Silent => found = Found::Silent,
                watching => return Ok(watching),
            }
        }
        Ok(found)
    }

    fn watch_at(
        &self,
        endpoint: &Endpoint,
        mut conversation: Conversation,
        context: &Context,
        request: &WatchRequest,
    ) -> Result<Found> {
        let mut hello = None;
        match endpoint {
            Endpoint::Tcp(_) => match make_sure(&self.project, conversation, context) {
                Some(ours) => conversation = ours,
                None => return Ok(Found::Nobody),
            },
            Endpoint::Unix(_) => match conversation.wait(GREETING).and_then(|()| conversation.hello(context)) {
                Ok(heard) => hello = heard,
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Lost(_)) => return Ok(Found::Silent),
            },
        }
        let request = Request::Watch(request.clone());
        let answer = match conversation.wait(ANSWER).and_then(|()| conversation.ask(context, &request)) {
            Ok(answer) => answer,
            Err(Failure::Refused(error)) => return Err(explained(error, hello.as_ref())),
            Err(Failure::Lost(_)) => return Ok(Found::Silent),
        };
        match response(context, &request, answer)? {
            Response::Watching(cursor) => Ok(Found::Watching(cursor, events(conversation)?)),
            _ => Err(unexpected()),
        }
    }
}
