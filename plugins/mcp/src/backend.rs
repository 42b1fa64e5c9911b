//! What the server asks of fmail.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{HostedProject, Principal, Result};
use futures::stream::BoxStream;
use serde_json::Value;

/// Finds projects and runs operations in them.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The project that an absolute path means, by rules H1 to H4 of [`fmail_api::Host::find`].
    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject>;
    /// Every project that can be found.
    async fn hosted(&self) -> Result<Vec<HostedProject>>;
    /// Runs one operation: `request` is an object of docs/protocol.md with its `cmd` and `agent`. An operation that failed
    /// is an error. Dropping the future, or the events, gives the operation up.
    async fn request(&self, caller: &Caller, request: Value) -> Result<Reply>;
}

/// On whose behalf an operation runs, and where.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The root of the project, from [`HostedProject::root`].
    pub root: PathBuf,
    /// How the client proved who it is.
    pub principal: Option<Principal>,
    /// Which session this is; presence is kept per session.
    pub session: Option<String>,
    /// So long the client waits.
    pub deadline: Option<Duration>,
    /// The operation is the server's own, for all the agents of the project: it may see every mailbox.
    pub overview: bool,
}

/// The answer to an operation, and what follows it.
pub struct Reply {
    /// The answer.
    pub head: Value,
    /// The events that follow, for operations that stream; without the line that ends them. An error is the last item.
    pub events: Option<BoxStream<'static, Result<Value>>>,
}
