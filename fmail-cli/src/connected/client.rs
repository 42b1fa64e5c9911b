//! The project's daemon as the place where operations run.

use async_trait::async_trait;
use fmail_api::{AgentName, Client, Context, Error, ErrorKind, Reply, Request, Result};
use fmail_host::unserved;
use fmail_transports::Failure;

use super::daemons::{Daemons, Found, Greeted};
use crate::session::Place;

/// The operations of a project that its daemon serves. Each call has a connection of its own.
///
/// Like the files store it does its work where it is polled. There is nothing to fall back on here: what the daemon does
/// not answer fails, and a call that may have taken effect says so.
pub(crate) struct Daemon {
    daemons: Daemons,
    /// What to say when there is none.
    missing: Error,
}

impl Daemon {
    /// The daemon without which there is no store. Nothing is connected yet.
    pub(crate) fn only(place: &Place, agent: &AgentName) -> Daemon {
        Daemon { daemons: Daemons::of(place, agent), missing: unserved(&place.project, &place.settings) }
    }

    /// The daemon, if one answers now.
    pub(crate) fn answering(place: &Place, agent: &AgentName) -> Result<Option<Daemon>> {
        let daemon = Daemon::only(place, agent);
        match daemon.daemons.greet()? {
            Found::There(_) => Ok(Some(daemon)),
            Found::Silent | Found::Nobody => Ok(None),
        }
    }

    /// A daemon that can be asked.
    pub(super) fn greeted(&self) -> Result<Greeted> {
        match self.daemons.greet()? {
            Found::There(greeted) => Ok(greeted),
            Found::Silent => Err(silent()),
            Found::Nobody => Err(self.missing.clone()),
        }
    }
}

#[async_trait]
impl Client for Daemon {
    async fn call(&self, _: &Context, request: Request) -> Result<Reply> {
        self.greeted()?.ask_at_length(&request).map_err(|failure| match failure {
            Failure::Refused(error) => error,
            Failure::Lost(error) if changes_nothing(&request) => error,
            Failure::Lost(error) => {
                Error::new(error.kind(), format!("{error}; whether it did what was asked is not known"))
            }
        })
    }
}

/// A daemon that takes connections and does not answer.
pub(super) fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "forged took the connection and did not answer in time")
        .help("`forged status` tells which process it is; end it with `forged stop` and start it again")
}

/// Whether it does not matter if the operation took effect.
fn changes_nothing(request: &Request) -> bool {
    matches!(
        request,
        Request::Hello(_)
            | Request::Watch(_)
            | Request::Log(_)
            | Request::Topics
            | Request::Who(_)
            | Request::Count
            | Request::Thread(_)
            | Request::Receipt(_)
            | Request::Search(_)
            | Request::Reservations(_)
    )
}
