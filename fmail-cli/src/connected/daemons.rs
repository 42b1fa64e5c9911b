//! Finding the project's daemon.

use fmail_api::{AgentName, Context, ErrorKind, Reply, Request, Result};
use fmail_host::{Project, Route};
use fmail_transports::unix::SOCKET;
use fmail_transports::{ANSWER, Answer, Conversation, Endpoint, Failure, reply};

use super::through::{Reached, Through};
use super::version::speaks_ours;
use super::{context, explained, is_ours, make_sure, may_be_served, patience, warn, ways, with_our_id};
use crate::session::Place;

/// The places where a daemon of this project may be.
#[derive(Clone)]
pub(super) struct Daemons {
    project: Project,
    /// The store that a daemon has to serve to be of use.
    store: String,
    /// What has to be proved at one may be unreadable; that concerns only who gets as far as there.
    ways: Vec<Result<Way>>,
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

/// A way to a daemon.
#[derive(Clone)]
pub(super) enum Way {
    /// One that is built in.
    BuiltIn(Endpoint),
    /// One that is a plugin.
    Plugin(Box<Through>),
}

/// A daemon that has said hello.
pub(super) struct Greeted {
    line: Line,
    context: Context,
}

/// What leads to it.
enum Line {
    Conversation(Box<Conversation>),
    Plugin(Reached),
}

impl Daemons {
    pub(super) fn of(place: &Place, agent: &AgentName) -> Daemons {
        Daemons {
            project: place.project.clone(),
            store: place.settings.mail.store.clone(),
            ways: ways(place).collect(),
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
            && self.ways.iter().any(|way| match way {
                Ok(Way::BuiltIn(Endpoint::Unix(directory))) => directory.join(SOCKET).exists(),
                _ => place == Where::Everywhere,
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
        for way in &self.ways {
            if place == Where::Socket && !matches!(way, Ok(Way::BuiltIn(Endpoint::Unix(_)))) {
                continue;
            }
            let greeted = match way.as_ref().map_err(Clone::clone)? {
                Way::BuiltIn(endpoint) => self.greet_at(endpoint)?,
                Way::Plugin(through) => self.greet_through(through)?,
            };
            let acted = match greeted {
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
                Some(conversation) => Ok(Found::There(Greeted::over(conversation, context))),
                None => Ok(Found::Nobody),
            },
            Endpoint::Unix(_) => {
                match conversation.wait(patience(self.route)).and_then(|()| conversation.hello(&context)) {
                    Ok(_) => Ok(Found::There(Greeted::over(conversation, context))),
                    Err(Failure::Refused(error)) => Err(with_our_id(error, &self.project)),
                    Err(Failure::Lost(_)) => Ok(Found::Silent),
                }
            }
        }
    }

    /// As over TCP, whoever answers has to prove that it keeps its messages in this very directory.
    fn greet_through(&self, through: &Through) -> Result<Found<Greeted>> {
        let context = context(&self.project, &self.store, &self.agent)?;
        match through.greet(&context) {
            Ok(reached) if !is_ours(&self.project, Some(reached.hello())) => Ok(Found::Nobody),
            Ok(reached) => match speaks_ours(reached.hello()) {
                Ok(()) => Ok(Found::There(Greeted { line: Line::Plugin(reached), context })),
                Err(error) => {
                    warn(&error, self.route);
                    Ok(Found::Nobody)
                }
            },
            Err(Failure::Refused(error)) if error.kind() == ErrorKind::Denied => {
                warn(&error, self.route);
                Ok(Found::Nobody)
            }
            // Another project's daemon.
            Err(Failure::Refused(error)) if error.kind() == ErrorKind::InvalidProject => Ok(Found::Nobody),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Lost(_)) => Ok(Found::Nobody),
        }
    }
}

impl Greeted {
    fn over(conversation: Conversation, context: Context) -> Greeted {
        Greeted { line: Line::Conversation(Box::new(conversation)), context }
    }

    /// Asks, and gives the daemon the time that a command has which can do without it.
    pub(super) fn ask(self, request: &Request) -> Result<Reply, Failure> {
        match self.line {
            Line::Conversation(mut conversation) => {
                let answer = conversation.wait(ANSWER).and_then(|()| conversation.ask(&self.context, request));
                understood(*conversation, &self.context, request, answer)
            }
            Line::Plugin(reached) => reached.ask(&self.context, request),
        }
    }

    /// Asks, and waits as long as the daemon shows that it is there.
    pub(super) fn ask_at_length(self, request: &Request) -> Result<Reply, Failure> {
        match self.line {
            Line::Conversation(mut conversation) => {
                let answer = conversation.ask_at_length(&self.context, request);
                understood(*conversation, &self.context, request, answer)
            }
            Line::Plugin(reached) => reached.ask(&self.context, request),
        }
    }
}

fn understood(
    conversation: Conversation,
    context: &Context,
    request: &Request,
    answer: Result<Answer, Failure>,
) -> Result<Reply, Failure> {
    let answer = answer.map_err(|failure| match failure {
        Failure::Refused(error) => Failure::Refused(explained(error, conversation.daemon())),
        lost => lost,
    })?;
    reply(conversation, context, request, answer).map_err(Failure::Lost)
}
