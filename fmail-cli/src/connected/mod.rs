//! Through forged, when it is there.
//!
//! PROTOCOL.md's rules: the project's socket first, then TCP, then the files. An error that the daemon answers is the
//! answer. A connection that is lost before an answer leads to the files, and an idempotency key keeps the message from
//! being stored twice, whatever the daemon still does with it.

mod attempt;
mod daemon;
mod nudge;
mod search;
mod send;
mod standing;
mod watch;

pub(crate) use nudge::nudge;
pub(crate) use send::{read_back, send};
pub(crate) use watch::watch;

use fmail_api::{AgentName, Context, Error, ErrorKind, Hello, Principal, Result};
use fmail_host::Project;
use fmail_transports::{Conversation, Endpoint, GREETING};

use crate::session::{Place, host};

/// Where a daemon of this project may be, in the order in which to look.
fn endpoints(place: &Place) -> Vec<Endpoint> {
    let directory = place.project.fmail_dir();
    let named = place.settings.mail.transports.iter().map(String::as_str);
    let trusted = !place.settings.untrusted().contains(&"mail.tcp.address");
    named
        .filter_map(|name| match name {
            "unix" => Some(Endpoint::Unix(directory.clone())),
            // An address that came with a clone is not dialled.
            "tcp" if trusted => Some(Endpoint::Tcp(place.settings.mail.tcp.address)),
            _ => None,
        })
        .collect()
}

/// Without `.fmail/` there can be no daemon: it creates that before it listens.
fn may_be_served(project: &Project) -> bool {
    project.fmail_dir().exists()
}

/// On whose behalf a daemon is asked. Looked up only when somebody listens: finding out the project's id costs more than
/// finding nobody, and a project file that cannot be read concerns nobody then.
fn context(project: &Project, agent: &AgentName) -> Result<Context> {
    let project = Some(project.id()?.0);
    Ok(Context { host: host(), project, principal: Principal::Anonymous, ..Context::local(agent.clone()) })
}

/// Whether a daemon on a TCP port keeps its messages in this very directory. Anything else is not this project's daemon:
/// another project, a clone of this one, a stranger.
fn is_ours(project: &Project, hello: Option<&Hello>) -> bool {
    let ours = project.store_id().ok().flatten();
    ours.is_some() && ours.as_deref() == hello.map(|hello| hello.store_id.as_str())
}

/// Makes sure of a daemon on a TCP port before anything is entrusted to it.
fn make_sure(project: &Project, mut conversation: Conversation, context: &Context) -> Option<Conversation> {
    conversation.wait(GREETING).ok()?;
    let hello = conversation.hello(context).ok()?;
    is_ours(project, hello.as_ref()).then_some(conversation)
}

/// Says which side is the older one when a daemon does not know what it was asked.
fn explained(error: Error, hello: Option<&Hello>) -> Error {
    match hello {
        Some(hello) if error.kind() == ErrorKind::InvalidRequest && hello.version != env!("CARGO_PKG_VERSION") => {
            let ours = env!("CARGO_PKG_VERSION");
            let text = format!("{} (forged has version {}, fmail has {ours})", error.message(), hello.version);
            Error::new(error.kind(), text).help("upgrade the older of the two")
        }
        _ => error,
    }
}
