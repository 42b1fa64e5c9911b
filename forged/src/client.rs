//! The operations of a served project, as its clients get them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{
    AgentState, Client, Context, Error, ErrorKind, EventStream, MessageId, NodeId, Operation, Principal, Records,
    RelayRequest, Reply, Request, Response, Result,
};
use fmail_core::{Operations, waiting};
use fmail_host::Project;
use futures::StreamExt;
use futures::executor::block_on;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{block_in_place, spawn_blocking};

use crate::found::Guarded;
use crate::presence::Presence;
use crate::relay::Relaying;
use crate::sends::Sends;
use crate::underway::Underway;

/// How many operations of a project run at a time. More would only wait for the same disk; and where that hangs, the other
/// projects must not wait for it too.
pub const AT_A_TIME: usize = 64;
/// How many of them may be other hosts': whatever these ask for, the users of this machine get their turn.
const FOR_RELAYS: usize = 24;
/// How many of those a batch of messages takes: it keeps the disk busy for as long as many requests.
const FOR_A_BATCH: u32 = 8;

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
    /// What it has to do with other hosts.
    pub relaying: Relaying,
    relay_turns: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    /// Where sends are put together, as long as the store gains by it.
    sends: Arc<Sends>,
    /// Held by every operation and every stream that is under way.
    busy: Arc<()>,
    /// The directory that was opened, for a project whose loss does not end the daemon.
    guarded: Option<Arc<Guarded>>,
}

impl Served {
    /// The operations of a project.
    pub fn new(operations: Operations, project: Project, id: String, store: String, relaying: Relaying) -> Self {
        let operations = Arc::new(operations);
        Served {
            sends: Sends::new(&operations),
            operations,
            presence: Arc::new(Presence::default()),
            project,
            project_id: id,
            store,
            relaying,
            relay_turns: Arc::new(Semaphore::new(FOR_RELAYS)),
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
        self.relaying.check(context, request)
    }

    /// What an operation has to wait for before it runs.
    async fn turn(&self, request: &Request) -> Result<Turn> {
        let ended = |_| Error::internal("the project takes no operations any more");
        let relay = match request.is_for_relays() {
            true => {
                let turns = if matches!(request, Request::ImportMany(_)) { FOR_A_BATCH } else { 1 };
                Some(self.relay_turns.clone().acquire_many_owned(turns).await.map_err(ended)?)
            }
            false => None,
        };
        Ok((relay, self.turns.clone().acquire_owned().await.map_err(ended)?))
    }

    /// What is to be seen of other hosts, beside the answer.
    fn seen(&self, context: &Context, about: About, reply: &mut Result<Reply>) {
        let neighbours = &self.relaying.neighbours;
        match (about, reply) {
            (About::Hello, Ok(Reply { head: Response::Hello(hello), .. })) => {
                hello.operations.push(Operation::RelayStatus);
            }
            (About::Import(from, id), reply) if context.principal != Principal::Local => match reply {
                Ok(Reply { head: Response::Imported(imported), .. }) => {
                    neighbours.imported(context, from, id, &Ok(imported.clone()));
                }
                Ok(_) => {}
                Err(error) => neighbours.imported(context, from, id, &Err(error.clone())),
            },
            (About::Records, Ok(Reply { head: Response::Records(Records::Merged { changed, refused }), .. })) => {
                neighbours.merged(context, *changed, *refused);
            }
            (About::ImportMany(from, ids), reply) if context.principal != Principal::Local => match reply {
                Ok(Reply { head: Response::ImportedMany(verdicts), .. }) => {
                    for (id, verdict) in ids.into_iter().zip(verdicts.iter()) {
                        neighbours.imported(context, from, id, &verdict.clone().into());
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    ids.into_iter().for_each(|id| neighbours.imported(context, from, id, &Err(error.clone())))
                }
            },
            (About::Relay(request), Ok(reply)) if context.principal != Principal::Local => {
                let during = |events: EventStream| neighbours.during(context, &request, events);
                reply.events = reply.events.take().map(during);
            }
            _ => {}
        }
    }
}

/// Held while an operation runs.
type Turn = (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

/// What of a request is worth seeing, when it is about other hosts.
enum About {
    Hello,
    Import(Option<NodeId>, MessageId),
    ImportMany(Option<NodeId>, Vec<MessageId>),
    Relay(RelayRequest),
    Records,
    Nothing,
}

impl About {
    fn of(request: &Request) -> About {
        match request {
            Request::Hello(_) => About::Hello,
            Request::Import(import) => About::Import(import.from, import.message.id),
            Request::ImportMany(import) => {
                About::ImportMany(import.from, import.messages.iter().map(|message| message.id).collect())
            }
            Request::Relay(relay) => About::Relay(relay.clone()),
            Request::Records(_) => About::Records,
            _ => About::Nothing,
        }
    }
}

#[async_trait]
impl Client for Served {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        self.check(context, &request)?;
        if let Request::RelayStatus = request {
            self.relaying.look().await;
            let mut view = self.relaying.view();
            view.notes.extend(self.operations.remarks());
            return Ok(Reply::new(Response::RelayStatus(Box::new(view))));
        }
        if let Request::Hello(hello) = &request {
            self.relaying.neighbours.greeted(hello);
        }
        let request = match request {
            Request::Send(send) if self.sends.are_put_together() => {
                let (context, busy) = (context.clone(), self.busy.clone());
                let sent = self.sends.send(context, *send, busy, self.guarded.as_ref()).await?;
                return Ok(Reply::new(Response::Sent(Box::new(sent))));
            }
            request => request,
        };
        let about = About::of(&request);
        // What the daemon does for all agents makes none of them present.
        let watches = matches!(request, Request::Watch(_)) && !context.overview;
        let (operations, caller, busy) = (self.operations.clone(), context.clone(), self.busy.clone());
        let turn = self.turn(&request).await?;
        // One step onto a thread for the whole operation. It is finished even when the client goes meanwhile.
        let guarded = self.guarded.clone();
        let work = move || {
            let in_place = guarded.map_or(Ok(()), |guarded| guarded.check());
            let reply = in_place.and_then(|()| waiting(|| block_on(operations.call(&caller, request))));
            drop((turn, busy));
            reply
        };
        let ended = |_| Error::internal("an operation ended unexpectedly; the daemon's log says why");
        let mut reply = match about {
            // A message that comes alone is stored on the thread that it came to, as sends are: waking another one for it, and
            // being woken by it, takes longer than storing it. Several at once are worth a thread of their own.
            About::Import(..) if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread => {
                block_in_place(|| catch_unwind(AssertUnwindSafe(work))).map_err(ended)?
            }
            _ => spawn_blocking(work).await.map_err(|error| ended(Box::new(error)))?,
        };
        self.seen(context, about, &mut reply);
        let mut reply = reply?;
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
