//! Nudging the sessions at a daemon.

use fmail_api::{AgentName, NudgeRequest, Request, Response, Result};
use fmail_host::{Route, unserved};
use fmail_transports::Failure;

use super::attempt::Attempt;
use super::{endpoints, may_be_served};
use crate::output::note;
use crate::session::{Place, unexpected};

/// Nudges through the project's daemon; how many sessions of the agent got it, nothing when there is no daemon.
pub(crate) fn nudge(place: &Place, agent: &AgentName, request: &NudgeRequest) -> Result<Option<u64>> {
    // Where the store lives in the daemon's process, none is a failure of its own, and not just nobody to reach.
    let nobody = || match place.settings.route() {
        Route::Daemon => Err(unserved(&place.project, &place.settings)),
        Route::Direct | Route::DaemonFirst => Ok(None),
    };
    if !may_be_served(&place.project) {
        return nobody();
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
    nobody()
}
