//! Through forged, when it is there.
//!
//! PROTOCOL.md's rules: the project's socket first, then TCP, then the files. An error that the daemon answers is the
//! answer. A connection that is lost before an answer leads to the files, and an idempotency key keeps the message from
//! being stored twice, whatever the daemon still does with it.
//!
//! A transport that is a plugin is tried in its place too, but not by a command that has the files at hand ([`mod@through`]).
//!
//! Where the store lives in the daemon's process there are no files to go on with ([`fmail_host::Route`]): then every command
//! runs at the [`Daemon`], and without one it fails.

mod attempt;
mod client;
mod daemons;
mod id;
mod nudge;
mod search;
mod send;
mod standing;
mod through;
mod version;
mod watch;

use daemons::Way;
use id::with_our_id;
use through::Through;
use version::{explained, speaks_ours};

pub(crate) use client::Daemon;
pub(crate) use nudge::nudge;
pub(crate) use send::{read_back, send};
pub(crate) use watch::watch;

use std::sync::Once;
use std::time::Duration;

use fmail_api::{AgentName, Context, Error, ErrorKind, Hello, Principal, Result};
use fmail_host::{PluginKind, Project, Route};
use fmail_transports::{ANSWER, Conversation, Endpoint, Failure, GREETING, TcpEndpoint, TlsClient, Token};

use crate::output::note;
use crate::session::{Place, host};

/// Where a daemon of this project may be, in the order in which to look. What has to be proved over TCP is read when that
/// is tried: the project's socket needs none of it.
fn endpoints(place: &Place) -> impl Iterator<Item = Result<Endpoint>> {
    place.settings.mail.transports.iter().filter_map(|name| endpoint(place, name))
}

/// The endpoint that the name of a transport which is built in means.
fn endpoint(place: &Place, name: &str) -> Option<Result<Endpoint>> {
    match name {
        "unix" => Some(Ok(Endpoint::Unix(place.project.fmail_dir()))),
        // An address that came with a clone is not dialled.
        "tcp" if !place.settings.untrusted().contains(&"mail.tcp.address") => {
            Some(tcp_endpoint(place).map(Endpoint::Tcp))
        }
        _ => None,
    }
}

/// The same, with the transports that are plugins where they may be used: loading one takes longer than opening the files, so
/// who has them at hand does that instead.
fn ways(place: &Place) -> impl Iterator<Item = Result<Way>> {
    let named = |name: &String| !PluginKind::Transport.has(name) && place.settings.route() != Route::Direct;
    place.settings.mail.transports.iter().filter_map(move |name| {
        if named(name) {
            return Some(Through::named(place, name).map(|through| Way::Plugin(Box::new(through))));
        }
        endpoint(place, name).map(|endpoint| endpoint.map(Way::BuiltIn))
    })
}

/// Without `.fmail/` there can be no daemon: it creates that before it listens.
fn may_be_served(project: &Project) -> bool {
    project.fmail_dir().exists()
}

/// The address, with what a daemon there has to prove.
fn tcp_endpoint(place: &Place) -> Result<TcpEndpoint> {
    let tcp = &place.settings.mail.tcp;
    let authority = tcp.authority(&place.environment)?;
    Ok(TcpEndpoint {
        token: tcp.shared_token(&place.environment)?.map(Token::new),
        tls: authority.map(|pem| TlsClient::trusting(&pem)).transpose()?,
        ..TcpEndpoint::from(tcp.address)
    })
}

/// On whose behalf a daemon is asked. Looked up only when somebody listens: finding out the project's id costs more than
/// finding nobody, and a project file that cannot be read concerns nobody then.
fn context(project: &Project, store: &str, agent: &AgentName) -> Result<Context> {
    let (project, store) = (Some(project.id()?.0), Some(store.to_string()));
    Ok(Context { host: host(), project, store, principal: Principal::Anonymous, ..Context::local(agent.clone()) })
}

/// Whether a daemon on a TCP port keeps its messages in this very directory. Anything else is not this project's daemon:
/// another project, a clone of this one, a stranger.
fn is_ours(project: &Project, hello: Option<&Hello>) -> bool {
    let ours = project.store_id().ok().flatten();
    ours.is_some() && ours.as_deref() == hello.map(|hello| hello.store_id.as_str())
}

/// How long a daemon may take to say hello. Only who has the files at hand gives it up on a busy machine.
fn patience(route: Route) -> Duration {
    if route == Route::Direct { GREETING } else { ANSWER }
}

/// Makes sure of a daemon on a TCP port before anything is entrusted to it.
///
/// One that wants a token which we do not have, or does not prove ours, counts as not this project's daemon: it was told
/// nothing but a hello and has stored nothing, so we do without it, with a warning.
fn make_sure(
    project: &Project,
    mut conversation: Conversation,
    context: &Context,
    route: Route,
) -> Option<Conversation> {
    conversation.wait(patience(route)).ok()?;
    let wants_proof = conversation.wants_proof();
    match conversation.hello(context) {
        Ok(hello) if !is_ours(project, hello.as_ref()) => None,
        Ok(hello) => match hello.as_ref().map_or(Ok(()), speaks_ours) {
            Ok(()) => Some(conversation),
            Err(error) => without(&error, route),
        },
        Err(Failure::Refused(error)) if error.kind() == ErrorKind::Denied => without(&error, route),
        Err(Failure::Lost(error)) if wants_proof => without(&error, route),
        Err(_) => None,
    }
}

/// Does without a daemon, and says why.
fn without(error: &Error, route: Route) -> Option<Conversation> {
    warn(error, route);
    None
}

/// Says once why a daemon is not used. A watch that looks for its daemon again and again would repeat it.
fn warn(error: &Error, route: Route) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        let help = error.help_text().map(|help| format!(" ({help})")).unwrap_or_default();
        let instead = match route {
            Route::Direct => "the files are used",
            Route::Daemon => "there is nothing else to use",
            Route::DaemonFirst => "the store is opened without it",
        };
        note(&format!("{error}{help}; it was told nothing but hello, and {instead}"));
    });
}
