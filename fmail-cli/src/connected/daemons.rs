//! Finding the project's daemon.

use fmail_api::{AgentName, Context, Reply, Request, Result};
use fmail_host::{Project, Route};
use fmail_transports::unix::SOCKET;
use fmail_transports::{ANSWER, Answer, Conversation, Endpoint, Failure, reply};

use super::{context, endpoints, explained, make_sure, may_be_served, patience};
use crate::session::Place;

/// The places where a daemon of this project may be.
#[derive(Clone)]
pub(super) struct Daemons {
    project: Project,
    /// The store that a daemon has to serve to be of use.
    store: String,
    /// What has to be proved at one may be unreadable; that concerns only who gets as far as there.
    endpoints: Vec<Result<Endpoint>>,
    agent: AgentName,
    route: Route,
}

/// What came of looking for a daemon.
pub(super) enum Found<T> {
    /// This is what it gave us.
    There(T),
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

/// A daemon that has said hello.
pub(super) struct Greeted {
    conversation: Conversation,
    context: Context,
}

impl Daemons {
    pub(super) fn of(place: &Place, agent: &AgentName) -> Daemons {
        Daemons {
            project: place.project.clone(),
            store: place.settings.mail.store.clone(),
            endpoints: endpoints(place).collect(),
            agent: agent.clone(),
            route: place.settings.route(),
        }
    }

    /// Whether there is no store without them.
    pub(super) fn are_the_only_way(&self) -> bool {
        self.route == Route::Daemon
    }

    /// Whether it is worth looking there: one look at a file, which costs next to nothing.
    pub(super) fn may_be(&self, place: Where) -> bool {
        may_be_served(&self.project)
            && self.endpoints.iter().any(|endpoint| match endpoint {
                Ok(Endpoint::Unix(directory)) => directory.join(SOCKET).exists(),
                Ok(Endpoint::Tcp(_)) | Err(_) => place == Where::Everywhere,
            })
    }

    /// The first daemon of this project that says hello.
    pub(super) fn greet(&self) -> Result<Found<Greeted>> {
        self.first(Where::Everywhere, |greeted| Ok(Found::There(greeted)))
    }

    /// Starts a stream at the first daemon of this project that answers. Waits for sockets, so not for the runtime's
    /// thread.
    pub(super) fn stream(&self, place: Where, request: &Request) -> Result<Found<Reply>> {
        self.first(place, |greeted| match greeted.ask(request) {
            Ok(reply) => Ok(Found::There(reply)),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Lost(_)) => Ok(Found::Silent),
        })
    }

    /// What `act` makes of the first daemon with which it comes to something.
    fn first<T>(&self, place: Where, act: impl Fn(Greeted) -> Result<Found<T>>) -> Result<Found<T>> {
        let mut found = Found::Nobody;
        if !may_be_served(&self.project) {
            return Ok(found);
        }
        for endpoint in &self.endpoints {
            if place == Where::Socket && !matches!(endpoint, Ok(Endpoint::Unix(_))) {
                continue;
            }
            let acted = match self.greet_at(endpoint.as_ref().map_err(Clone::clone)?)? {
                Found::There(greeted) => act(greeted)?,
                Found::Silent => Found::Silent,
                Found::Nobody => Found::Nobody,
            };
            match acted {
                Found::Nobody => {}
                Found::Silent => found = Found::Silent,
                there => return Ok(there),
            }
        }
        Ok(found)
    }

    fn greet_at(&self, endpoint: &Endpoint) -> Result<Found<Greeted>> {
        let Some(mut conversation) = Conversation::open(endpoint) else { return Ok(Found::Nobody) };
        let context = context(&self.project, &self.store, &self.agent)?;
        match endpoint {
            Endpoint::Tcp(_) => match make_sure(&self.project, conversation, &context, self.route) {
                Some(conversation) => Ok(Found::There(Greeted { conversation, context })),
                None => Ok(Found::Nobody),
            },
            Endpoint::Unix(_) => {
                match conversation.wait(patience(self.route)).and_then(|()| conversation.hello(&context)) {
                    Ok(_) => Ok(Found::There(Greeted { conversation, context })),
                    Err(Failure::Refused(error)) => Err(error),
                    Err(Failure::Lost(_)) => Ok(Found::Silent),
                }
            }
        }
    }
}

impl Greeted {
    /// Asks, and gives the daemon the time that a command has which can do without it.
    pub(super) fn ask(mut self, request: &Request) -> Result<Reply, Failure> {
        let answer = self.conversation.wait(ANSWER).and_then(|()| self.conversation.ask(&self.context, request));
        self.understood(request, answer)
    }

    /// Asks, and waits as long as the daemon shows that it is there.
    pub(super) fn ask_at_length(mut self, request: &Request) -> Result<Reply, Failure> {
        let answer = self.conversation.ask_at_length(&self.context, request);
        self.understood(request, answer)
    }

    fn understood(self, request: &Request, answer: Result<Answer, Failure>) -> Result<Reply, Failure> {
        let answer = answer.map_err(|failure| match failure {
            Failure::Refused(error) => Failure::Refused(explained(error, self.conversation.daemon())),
            lost => lost,
        })?;
        reply(self.conversation, &self.context, request, answer).map_err(Failure::Lost)
    }
}
