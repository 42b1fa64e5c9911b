//! Nudging the sessions at a daemon.

use fmail_api::{AgentName, NudgeRequest, Request, Response, Result};
use fmail_host::Route;
use fmail_transports::Failure;

use super::attempt::Attempt;
use super::{endpoints, may_be_served};
use crate::output::note;
use crate::session::{Place, unexpected};

/// Nudges through the project's daemon; how many sessions of the agent got it, nothing when there is no daemon.
pub(crate) fn nudge(place: &Place, agent: &AgentName, request: &NudgeRequest) -> Result<Option<u64>> {
    if place.settings.route() != Route::Direct {
        return nudge_served(place, agent, request);
    }
    if !may_be_served(&place.project) {
        return Ok(None);
    }
    for endpoint in endpoints(place) {
        let Some(attempt) = Attempt::open(place, agent, &endpoint?)? else { continue };
        return match attempt.ask(&Request::Nudge(request.clone())) {
            Ok(Response::Nudged { sessions }) => Ok(Some(sessions)),
            Ok(_) => Err(unexpected()),
            Err(Failure::Refused(error)) => Err(error),
            // Not tried again: what is said twice is no better than what is not said.
            Err(Failure::Lost(error)) => {
                note(&format!("{error}; whether a session was reached is not known"));
                Ok(None)
            }
        };
    }
    Ok(None)
}

/// Nudges where the operations run: here that reaches nobody.
fn nudge_served(place: &Place, agent: &AgentName, request: &NudgeRequest) -> Result<Option<u64>> {
    let session = place.session(agent.clone())?;
    if !session.is_served() {
        return Ok(None);
    }
    match session.call(Request::Nudge(request.clone()))?.head {
        Response::Nudged { sessions } => Ok(Some(sessions)),
        _ => Err(unexpected()),
    }
}
