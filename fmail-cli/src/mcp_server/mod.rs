//! An MCP server on standard input and output, for clients that start their server themselves.
//!
//! `fmail-mcp` knows the protocol and the tools; here are its projects ([`projects`]), which are opened in this process or
//! reached through their daemon as every other command does it, and its lines: [`input`] and [`output`] are a thread each,
//! since a pipe may block, and [`conversation`] runs what comes in, several requests at a time.

mod conversation;
mod input;
mod opened;
mod output;
mod projects;

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Error, Principal};
use fmail_host::Environment;
use fmail_mcp::{Options, Peer, Server};

use crate::output::Outcome;
use conversation::Conversation;
use projects::Projects;

/// Threads of operations that wait for nothing are let go after this time: a server idles for most of its life.
const IDLE: Duration = Duration::from_secs(1);

/// Serves until the client has closed its side or a signal ends it.
pub(crate) fn serve(environment: &Environment, set: &[String], options: Options) -> Outcome {
    let projects = Arc::new(Projects::new(environment, set)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(IDLE)
        .build()
        .map_err(|error| Error::io("cannot prepare to serve", &error))?;
    let server = Arc::new(Server::new(projects, options));
    // One client at a pipe is one session.
    let session = Some(format!("stdio-{}", std::process::id()));
    let peer = Peer { principal: Some(Principal::Local), session, ..Peer::default() };
    let outcome = runtime.block_on(Conversation::new(server, peer).run());
    // What still runs belongs to requests that nobody waits for any more.
    runtime.shutdown_background();
    outcome
}
