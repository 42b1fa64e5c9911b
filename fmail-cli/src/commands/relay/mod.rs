//! `fmail relay`

mod invite;
mod join;
mod peers;
mod revoke;
mod status;
mod table;

use clap::{Args, Subcommand};
use fmail_api::Result;
use fmail_host::daemon_lock::holder;

use crate::examples::{Example, example, help};
use crate::output::{Outcome, advise, note};
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail relay invite --address host-a:7465", "on the one host: prints an invitation for another one"),
    example("fmail relay join < invitation", "on the other host, in the same project: accepts it"),
    example("fmail relay status", "exit 0 when every link is up, 1 when one is not"),
    example("fmail relay revoke host-b", "end a pairing; its links are cut within seconds"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Relay {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make an invitation for another host
    ///
    /// Prints one line with a secret: give it to the other host, for `fmail relay join` there. It is good for one host, for
    /// this project, and until it expires; what comes of it lasts until it is revoked. forged listens for the other host from
    /// now on, encrypted, and serves nobody else there.
    Invite(invite::Invite),
    /// Accept the invitation of another host
    ///
    /// Without an argument the invitation is read from standard input, so that its secret does not stand in the shell's
    /// history. The other host is asked at once; when it refuses, nothing is kept. forged dials it from now on.
    Join(join::Join),
    /// List the hosts that this one was paired with, and the peers of the configuration
    Peers(peers::Peers),
    /// End a pairing
    ///
    /// Its key opens nothing any more, and its links are cut within seconds.
    Revoke(revoke::Revoke),
    /// Show the links to other hosts; exit 0 when all are up, 1 when one is not or there is none
    Status(status::Status),
}

impl Relay {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        match self.action {
            Action::Invite(command) => command.run(place),
            Action::Join(command) => command.run(place),
            Action::Peers(command) => command.run(place),
            Action::Revoke(command) => command.run(place),
            Action::Status(command) => command.run(place),
        }
    }
}

/// Whether a daemon serves the project: it sees by itself what changes.
fn is_served(place: &Place) -> Result<bool> {
    match place.project.fmail_dir().exists() {
        true => Ok(holder(&place.project.fmail_dir())?.is_some()),
        false => Ok(false),
    }
}

/// Says that a daemon is needed, where there is none.
fn note_unserved(place: &Place, served: bool) {
    if !served {
        note("no forged serves this project yet, and only forged relays");
        advise(&format!("start `forged` in {}", place.project.root.display()));
    }
}
