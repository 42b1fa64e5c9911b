//! One question to the project's daemon.

use fmail_api::{AgentName, Context, Request, Response, Result};
use fmail_host::Project;
use fmail_transports::{ANSWER, Conversation, Endpoint, Failure, response};

use super::{context, explained, make_sure, with_our_id};
use crate::session::Place;

/// A connection over which something may be asked.
pub(super) struct Attempt {
    conversation: Conversation,
    context: Context,
    project: Project,
    /// The daemon has been asked who it is.
    known: bool,
}

impl Attempt {
    /// Connects; nothing when nobody is there, or somebody who is not this project's daemon.
    pub(super) fn open(place: &Place, agent: &AgentName, endpoint: &Endpoint) -> Result<Option<Attempt>> {
        let Some(conversation) = Conversation::open(endpoint) else { return Ok(None) };
        let project = place.project.clone();
        let context = context(&project, &place.settings.mail.store, agent)?;
        Ok(match endpoint {
            // The socket lies in the very directory that it serves: there is nothing to make sure of first.
            Endpoint::Unix(_) => Some(Attempt { conversation, context, project, known: false }),
            Endpoint::Tcp(_) => make_sure(&project, conversation, &context, place.settings.route())
                .map(|conversation| Attempt { conversation, context, project, known: true }),
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(mut self, request: &Request) -> Result<Response, Failure> {
        self.answered(request).map_err(|failure| match failure {
            Failure::Refused(error) => Failure::Refused(with_our_id(error, &self.project)),
            lost => lost,
        })
    }

    fn answered(&mut self, request: &Request) -> Result<Response, Failure> {
        let answer = if self.known {
            self.conversation.wait(ANSWER)?;
            let asked = self.conversation.ask(&self.context, request);
            asked.map_err(|failure| match failure {
                Failure::Refused(error) => Failure::Refused(explained(error, self.conversation.daemon())),
                lost => lost,
            })?
        } else {
            let (hello, answer) = self.conversation.hello_and_ask(&self.context, request)?;
            answer.map_err(|error| Failure::Refused(explained(error, hello.as_ref())))?
        };
        response(&self.context, request, answer).map_err(Failure::Lost)
    }
}
