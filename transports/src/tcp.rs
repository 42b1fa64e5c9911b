//! TCP: many projects behind one address, told apart by `project_id`.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{Client, Error, ErrorKind, Host, Listening, Principal, ProjectRef, Result, Shutdown, Transport};
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::connection::{Limits, Route};
use crate::conversation::Endpoint;
use crate::listener::{Accepted, run};
use crate::remote::connected;

/// Where PROTOCOL.md looks for a daemon.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7463);

/// Serves many projects on an address.
pub struct TcpTransport {
    address: SocketAddr,
    limits: Limits,
}

impl TcpTransport {
    /// A transport for this address.
    pub fn new(address: SocketAddr) -> Self {
        TcpTransport { address, limits: Limits::default() }
    }

    /// With other limits.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// The project that a request names.
struct ByName(Arc<dyn Host>);

#[async_trait]
impl Route for ByName {
    async fn client(&self, named: Option<&str>) -> Result<Arc<dyn Client>> {
        let id = named.ok_or_else(|| Error::invalid("missing project_id"))?;
        self.0.open(ProjectRef::Id(id.to_string())).await
    }
}

#[async_trait]
impl Transport for TcpTransport {
    fn name(&self) -> &str {
        "tcp"
    }

    async fn serve(&self, host: Arc<dyn Host>, shutdown: Shutdown) -> Result<Listening> {
        let listener = TcpListener::bind(self.address).await.map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::AddrInUse => ErrorKind::Conflict,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, format!("cannot listen on {}: {error}", self.address))
                .help("another program may use the address; choose one with --tcp ADDRESS")
        })?;
        let address = listener.local_addr().unwrap_or(self.address);
        let listener = Arc::new(listener);
        let accept = move || {
            let listener = listener.clone();
            async move { accept(&listener).await }
        };
        let finished = run(accept, Arc::new(ByName(host)), self.limits, shutdown).boxed();
        Ok(Listening { endpoint: format!("tcp://{address}"), finished })
    }

    async fn connect(&self, project: ProjectRef) -> Result<Arc<dyn Client>> {
        match project {
            ProjectRef::Id(id) => connected(Endpoint::Tcp(self.address), Some(id)),
            ProjectRef::Root(_) => Err(Error::invalid("over TCP a project is named by its id")),
        }
    }
}

async fn accept(listener: &TcpListener) -> std::io::Result<Option<Accepted<OwnedReadHalf, OwnedWriteHalf>>> {
    let (stream, _) = listener.accept().await?;
    // Answers are short, and each is awaited by somebody.
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok(Some(Accepted { reader, writer, principal: Principal::Anonymous }))
}
