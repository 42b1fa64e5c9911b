//! The operations of a served project, as its clients get them.

use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{AgentState, Client, Context, Error, ErrorKind, Principal, Reply, Request, Response, Result};
use fmail_core::Operations;
use fmail_host::Project;
use futures::StreamExt;
use futures::executor::block_on;
use tokio::sync::Semaphore;

use crate::found::Guarded;
use crate::presence::Presence;
use crate::underway::Underway;

/// How many operations of a project run at a time. More would only wait for the same disk; and where that hangs, the other
/// projects must not wait for it too.
pub const AT_A_TIME: usize = 64;

/// Runs operations on threads that may wait for the disk, and knows who is there.
pub struct Served {
    pub operations: Arc<Operations>,
    pub presence: Arc<Presence>,
    /// The project, which knows when its id has changed.
    pub project: Project,
    /// The id that it had when the daemon started.
    pub project_id: String,
    /// The name of the store in the daemon's configuration.
    pub store: String,
    /// Whether peers may ask for everything.
    pub relay: bool,
    turns: Arc<Semaphore>,
    /// Held by every operation and every stream that is under way.
    busy: Arc<()>,
    /// The directory that was opened, for a project whose loss does not end the daemon.
    guarded: Option<Arc<Guarded>>,
}

impl Served {
    /// The operations of a project.
    pub fn new(operations: Operations, project: Project, id: String, store: String, relay: bool) -> Self {
        Served {
            operations: Arc::new(operations),
            presence: Arc::new(Presence::default()),
            project,
            project_id: id,
            store,
            relay,
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
            busy: Arc::new(()),
            guarded: None,
        }
    }

    /// Whether an operation or a stream is under way.
    pub fn is_busy(&self) -> bool {
        Arc::strong_count(&self.busy) > 1
    }

    /// How many operations may begin at once.
    #[cfg(test)]
    pub fn turns_left(&self) -> usize {
        self.turns.available_permits()
    }

    /// The same, which looks before each operation whether the directory is still the one that was opened.
    #[must_use]
    pub fn guarded_by(mut self, guarded: Arc<Guarded>) -> Self {
        self.guarded = Some(guarded);
        self
    }

    fn check(&self, context: &Context, request: &Request) -> Result<()> {
        if let Some(named) = &context.project
            && *named != self.project_id
            && self.project.id()?.0 != *named
        {
            return Err(Error::new(
                ErrorKind::InvalidProject,
                format!("this is the project {}, not the one that the request names", self.project_id),
            ));
        }
        if let Some(named) = &context.store
            && *named != self.store
        {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("forged serves the store `{}` here, and the request is for the store `{named}`", self.store),
            )
            .help("give both the same mail.store; a forged that runs keeps the one that it was started with"));
        }
        if let Request::Import(_) = request
            && !matches!(context.principal, Principal::Local | Principal::Peer(_))
        {
            return Err(Error::new(ErrorKind::Denied, "messages of other hosts are taken from relays only")
                .help("configure a relay; or bring messages in with `fmail store import`"));
        }
        // A relay that runs in this process is in the configuration, and a paired host has its pairing: that is all the leave
        // that they need.
        if matches!(request, Request::Relay(_))
            && !self.relay
            && !matches!(context.principal, Principal::Local | Principal::Peer(_))
        {
            return Err(Error::new(ErrorKind::Denied, "relaying is not enabled here")
                .help("set mail.relay.enabled = true in the user's or the system's configuration of the daemon"));
        }
        Ok(())
    }
}

#[async_trait]
impl Client for Served {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        self.check(context, &request)?;
        // What the daemon does for all agents makes none of them present.
        let watches = matches!(request, Request::Watch(_)) && !context.overview;
        let (operations, caller, busy) = (self.operations.clone(), context.clone(), self.busy.clone());
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|_| Error::internal("the project takes no operations any more"))?;
        // One step onto a thread for the whole operation. It is finished even when the client goes meanwhile.
        let guarded = self.guarded.clone();
        let work = move || {
            let in_place = guarded.map_or(Ok(()), |guarded| guarded.check());
            let reply = in_place.and_then(|()| block_on(operations.call(&caller, request)));
            drop((turn, busy));
            reply
        };
        let mut reply = tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| Error::internal("an operation ended unexpectedly; the daemon's log says why"))??;
        if let Response::Agents { agents, .. } = &mut reply.head {
            for agent in agents.iter_mut().filter(|agent| self.presence.has(&agent.name)) {
                agent.state = AgentState::Active;
            }
        }
        if watches {
            reply.events = reply.events.map(|events| self.presence.during(context, events));
        }
        reply.events = reply.events.map(|events| {
            let loss = self.guarded.as_ref().map(|guarded| guarded.loss());
            Underway::new(events, self.busy.clone(), loss).boxed()
        });
        Ok(reply)
    }
}
