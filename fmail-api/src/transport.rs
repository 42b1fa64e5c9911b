//! Carrying the vocabulary between a client and a daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{AgentName, Error, ErrorKind, EventStream, Message, Request, Response, Result, Timestamp};

/// Runs operations: in this process, or at the other end of a transport. The caller cannot tell.
///
/// - **C1** `call` answers once; a stream belongs to exactly one call and ends with it.
/// - **C2** An error answer means that the operation did not take effect, unless its kind says otherwise
///   (`durability_unknown`).
/// - **C3** Dropping the returned future or stream cancels what can be cancelled and breaks nothing.
#[async_trait]
pub trait Client: Send + Sync {
    /// Runs one operation.
    async fn call(&self, context: &Context, request: Request) -> Result<Reply>;
}

/// The answer to an operation.
pub struct Reply {
    /// The answer itself, or what precedes the stream.
    pub head: Response,
    /// What follows, for the operations that stream.
    pub events: Option<EventStream>,
}

impl Reply {
    /// An answer without a stream.
    pub fn new(head: Response) -> Self {
        Reply { head, events: None }
    }

    /// An answer that a stream follows.
    pub fn streaming(head: Response, events: EventStream) -> Self {
        Reply { head, events: Some(events) }
    }
}

/// On whose behalf an operation runs.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who acts.
    pub agent: AgentName,
    /// The host that the agent is on.
    pub host: Option<String>,
    /// The project that the caller means; the serving side checks it.
    pub project: Option<String>,
    /// The name of the store that the caller is configured for; the serving side checks it, so that nobody sends into one
    /// store and reads from another.
    pub store: Option<String>,
    /// How the caller proved who it is.
    pub principal: Principal,
    /// Which session of the agent this is; presence is kept per session.
    pub session: Option<String>,
    /// After this the caller no longer waits.
    pub deadline: Option<Instant>,
    /// The caller may see every mailbox: a program that the operator has put into the daemon and that acts for all the
    /// agents of a project. Never what a connection says of itself.
    pub overview: bool,
}

impl Context {
    /// The context of a command that runs in its own process.
    pub fn local(agent: AgentName) -> Self {
        Context {
            agent,
            host: None,
            project: None,
            store: None,
            principal: Principal::Local,
            session: None,
            deadline: None,
            overview: false,
        }
    }

    /// Whether the caller may read a message.
    pub fn may_read(&self, message: &Message) -> bool {
        self.overview || message.readable_by(&self.agent)
    }
}

/// How a caller proved who it is. It authenticates a user or a peer, never an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// Runs in our own process.
    Local,
    /// A user of this machine, known by the kernel.
    User(u32),
    /// Knows a configured token.
    Token(String),
    /// A relay peer.
    Peer(String),
    /// Nobody in particular.
    Anonymous,
}

/// Which project is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProjectRef {
    /// By its id.
    Id(String),
    /// By its directory.
    Root(PathBuf),
}

/// What a transport or a relay may ask of the program that it runs in.
#[async_trait]
pub trait Host: Send + Sync {
    /// The ids of the projects that are served.
    async fn projects(&self) -> Result<Vec<String>>;
    /// The operations of a project. By root only under the roots that the operator allowed.
    async fn open(&self, project: ProjectRef) -> Result<Arc<dyn Client>>;

    /// The project that an absolute path means, as [`HostedProject`] tells it; its root then serves to
    /// [`open`](Host::open) it.
    ///
    /// - **H1** A directory that exists below an allowed root means the project that the command line finds from there.
    ///   Any other path is a key: its project lies in the host's own directory. Nothing is ever created elsewhere.
    /// - **H2** Two keys are two projects, however alike they look, and no two projects have one slug.
    /// - **H3** Without `create`, a path whose project does not exist is `invalid_project`, and nothing is created.
    /// - **H4** The answer is the same after the host was started again, [`new`](HostedProject::new) apart.
    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        let _ = create;
        Err(Error::new(ErrorKind::Unsupported, format!("this host finds no projects by path: {}", path.display())))
    }

    /// Every project that can be found: what is served, and what was found before.
    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        Ok(Vec::new())
    }
}

/// A project as a host knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedProject {
    /// Its id.
    pub id: String,
    /// The directory that holds its `.fmail/`.
    pub root: PathBuf,
    /// The absolute path that means it: its root, or the key that was asked for.
    pub key: String,
    /// A name of `[a-z0-9-]`, made from the key, that no other project of this host has.
    pub slug: String,
    /// When it was created.
    pub created: Timestamp,
    /// It was created to answer this very question.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new: bool,
}

/// Resolves when the program wants to end.
pub type Shutdown = BoxFuture<'static, ()>;

/// A transport that is listening.
pub struct Listening {
    /// Where, as clients would write it.
    pub endpoint: String,
    /// Resolves when the last connection is gone after the shutdown, or with the reason why serving ended early.
    pub finished: BoxFuture<'static, Result<()>>,
}

/// Carries the vocabulary. Either side may be missing.
///
/// - **T1** `serve` returns only when clients can connect.
/// - **T2** After the shutdown no new connection is taken, calls under way are answered, then `finished` resolves.
/// - **T3** One client's garbage, silence or death disturbs no other.
/// - **T4** `connect` fails within the deadline when nobody listens, and says so with `unavailable`.
/// - **T5** What goes in on one side comes out on the other: requests, answers, errors with their kind, streams in order.
#[async_trait]
pub trait Transport: Send + Sync {
    /// The name by which the configuration chooses it.
    fn name(&self) -> &str;
    /// Serves the host's projects until the shutdown.
    async fn serve(&self, host: Arc<dyn Host>, shutdown: Shutdown) -> Result<Listening>;
    /// Connects to a project's daemon.
    async fn connect(&self, project: ProjectRef) -> Result<Arc<dyn Client>>;
}
