//! From a JSON-RPC message to its answer.

use std::sync::Arc;
use std::time::Duration;

use fmail_api::Principal;
use futures::stream::BoxStream;
use serde_json::Value;

use crate::Backend;
use crate::methods;
use crate::rpc::{self, Incoming};
use crate::subscriptions::Sessions;
use crate::visit::Visit;

/// How the server behaves, from the configuration of its transport.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which tools are offered.
    pub profile: Profile,
}

/// A choice of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// What is needed to send, fetch and acknowledge.
    Minimal,
    /// The contract's tools, and what its clients call beside them.
    #[default]
    Standard,
    /// All.
    Full,
}

impl Profile {
    /// The word that chooses it.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Minimal => "minimal",
            Profile::Standard => "standard",
            Profile::Full => "full",
        }
    }
}

/// Who sent a message, as far as the transport knows.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// How the client proved who it is.
    pub principal: Option<Principal>,
    /// The session that the message belongs to: a header, or the one client of a pipe.
    pub session: Option<String>,
    /// The protocol version that the transport heard of: a header. The message may name another in its `_meta`.
    pub protocol: Option<String>,
    /// So long the client waits.
    pub deadline: Option<Duration>,
}

/// What a message leads to.
pub enum Outcome {
    /// One answer, to be sent back.
    Answer(Value),
    /// Nothing to say: it was a notification, or an answer.
    Accepted,
    /// Notifications, and at the end perhaps an answer. Dropping it ends the subscription.
    Stream(BoxStream<'static, Value>),
}

/// The server. One for all clients.
pub struct Server {
    backend: Arc<dyn Backend>,
    options: Options,
    sessions: Sessions,
}

impl Server {
    /// A server over these projects.
    pub fn new(backend: Arc<dyn Backend>, options: Options) -> Self {
        Server { backend, options, sessions: Sessions::default() }
    }

    /// Runs one JSON-RPC message: a request, a notification or an answer. A batch is no message.
    pub async fn handle(&self, peer: &Peer, message: Value) -> Outcome {
        let request = match Incoming::read(message) {
            Incoming::Request(request) => request,
            Incoming::Silent => return Outcome::Accepted,
            Incoming::Wrong(answer) => return Outcome::Answer(answer),
        };
        let visit = Visit { backend: self.backend.clone(), peer: peer.clone() };
        let id = request.id.clone();
        match methods::run(&visit, self.options.profile, &self.sessions, request).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Answer(rpc::refusal(&id, &error)),
        }
    }

    /// What the server tells a session by itself: changes of the resources that it has subscribed to. For the stream
    /// that a client of 2025-11-25 and before opens with GET, and for a pipe.
    ///
    /// A session has one such stream: a new one ends the one before, and goes on where that one stopped. Without a session
    /// there is nothing to tell. The stream ends when the projects are not served any more; a client then opens it again.
    pub fn notifications(&self, peer: &Peer) -> BoxStream<'static, Value> {
        match &peer.session {
            Some(session) => self.sessions.stream(session),
            None => Box::pin(futures::stream::pending()),
        }
    }

    /// Forgets a session that its client or its transport has ended.
    pub fn end_session(&self, session: &str) {
        self.sessions.end(session);
    }
}
