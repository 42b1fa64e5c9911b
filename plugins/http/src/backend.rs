//! The daemon, as MCP and the operations ask it.

use std::path::Path;
use std::sync::Arc;

use fmail_plugin::futures::StreamExt;
use fmail_plugin::futures::stream::BoxStream;
use fmail_plugin::serde_json::{self, Value};
use fmail_plugin::{Caller, Error, Host, HostedProject, Reply, Result, async_trait};

/// What is asked of the daemon. There is one, behind the boundary; a test has others.
#[async_trait]
pub trait Daemon: Send + Sync + 'static {
    /// The ids of the projects that are served.
    async fn projects(&self) -> Result<Vec<String>>;
    /// Every project that can be found.
    async fn hosted(&self) -> Result<Vec<HostedProject>>;
    /// The project that an absolute path means.
    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject>;
    /// Runs one operation.
    async fn request(&self, caller: &Caller, request: &str) -> Result<Reply>;
    /// Runs one operation, and gives every object that goes back to the peer.
    fn exchange(&self, caller: &Caller, request: &str) -> BoxStream<'static, String>;
}

#[async_trait]
impl Daemon for Host {
    async fn projects(&self) -> Result<Vec<String>> {
        Host::projects(self).await
    }

    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        Host::hosted(self).await
    }

    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        Host::find(self, path, create).await
    }

    async fn request(&self, caller: &Caller, request: &str) -> Result<Reply> {
        Host::request(self, caller, request).await
    }

    fn exchange(&self, caller: &Caller, request: &str) -> BoxStream<'static, String> {
        Host::exchange(self, caller, request)
    }
}

/// The daemon as MCP sees it.
pub struct Backend(pub Arc<dyn Daemon>);

#[async_trait]
impl fmail_mcp::Backend for Backend {
    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        self.0.find(path, create).await
    }

    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        self.0.hosted().await
    }

    async fn request(&self, caller: &fmail_mcp::Caller, request: Value) -> Result<fmail_mcp::Reply> {
        let root = caller.root.to_str().ok_or_else(|| {
            Error::invalid(format!("the project's directory is not UTF-8: {}", caller.root.display()))
        })?;
        let caller = Caller {
            root: Some(root.to_string()),
            principal: caller.principal.clone(),
            session: caller.session.clone(),
            deadline_ms: caller.deadline.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            overview: caller.overview,
            ..Caller::default()
        };
        let reply = self.0.request(&caller, &request.to_string()).await?;
        let events = reply.events.map(|events| events.map(|event| parsed(&event?)).boxed());
        Ok(fmail_mcp::Reply { head: parsed(&reply.head)?, events })
    }
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::internal(format!("the daemon's answer is not JSON: {error}")))
}
