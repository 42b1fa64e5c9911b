//! A daemon that is reached through a transport that is a plugin.
//!
//! Loading a plugin costs more than asking a socket, so it is done only for a command that cannot do without a daemon, or would
//! have to load a store instead, and only when no transport before it in `mail.transports` has led to one. A command on the files
//! never does.

use std::future::Future;
use std::sync::Arc;
use std::thread;

use fmail_api::{
    Client, Context, Error, ErrorKind, Hello, HelloRequest, PROTOCOL_VERSION, ProjectRef, Reply, Request, Response,
    Result,
};
use fmail_host::plugin::{Plugin, connect, data_dir};
use fmail_host::{PluginKind, PluginName, PluginSettings, Project};
use fmail_transports::Failure;
use futures::executor::block_on;

use super::explained;
use crate::session::{Place, unexpected};

/// A way to the daemon. Nothing of it is loaded yet.
#[derive(Clone)]
pub(super) struct Through {
    settings: PluginSettings,
    project: Project,
}

/// The daemon at the end of it, which has said hello.
pub(super) struct Reached {
    client: Arc<dyn Client>,
    hello: Box<Hello>,
}

impl Through {
    /// The plugin that a name in `mail.transports` means.
    pub(super) fn named(place: &Place, name: &str) -> Result<Through> {
        let settings = place.settings.plugin(&name.parse::<PluginName>()?);
        Ok(Through { settings, project: place.project.clone() })
    }

    /// Loads the plugin, and has the daemon say hello through it.
    pub(super) fn greet(&self, context: &Context) -> Result<Reached, Failure> {
        let plugin = Plugin::load(&self.settings, PluginKind::Transport).map_err(Failure::Refused)?;
        let greeting = async {
            let own = data_dir(&self.project, plugin.name())?;
            let project = ProjectRef::Id(self.project.id()?.0);
            let client = connect(&plugin, own, project).await?;
            let version = Some(env!("CARGO_PKG_VERSION").to_string());
            let hello =
                Request::Hello(HelloRequest { version, protocol: Some(PROTOCOL_VERSION), ..HelloRequest::default() });
            match client.call(context, hello).await?.head {
                Response::Hello(hello) => Ok(Reached { client, hello }),
                _ => Err(unexpected()),
            }
        };
        waited_for(greeting).map_err(failure)
    }
}

impl Reached {
    /// What it said of itself.
    pub(super) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks, and waits for as long as the plugin may take for one call.
    pub(super) fn ask(self, context: &Context, request: &Request) -> Result<Reply, Failure> {
        waited_for(self.client.call(context, request.clone()))
            .map_err(|error| failure(explained(error, Some(&self.hello))))
    }
}

/// Whether an error is the daemon's answer, or there was none.
fn failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Cancelled => Failure::Lost(error),
        _ => Failure::Refused(error),
    }
}

/// What a future comes to. On a thread of its own: whoever waits here may be polled by an executor, inside which no other runs.
fn waited_for<T: Send>(future: impl Future<Output = T> + Send) -> T {
    thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(future));
        waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
