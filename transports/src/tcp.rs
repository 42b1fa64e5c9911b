//! TCP: many projects behind one address, told apart by `project_id`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Client, Error, ErrorKind, Host, Listening, Principal, ProjectRef, Result, Shutdown, Transport};
use futures::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::admission::{Admission, Keyring};
use crate::authentication::Token;
use crate::callers::{Caller, Callers};
use crate::connection::{Limits, Route};
use crate::conversation::{Endpoint, TcpEndpoint};
use crate::listener::{Accepted, Rules, Streams, run};
use crate::peer::Counted;
use crate::remote::connected;
use crate::tls::{TlsClient, TlsServer};
use crate::wire::failure;

/// Where PROTOCOL.md looks for a daemon.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7463);

/// The first byte of a TLS handshake. No JSON object begins with it.
const HANDSHAKE: u8 = 0x16;

/// Serves many projects on an address.
pub struct TcpTransport {
    /// Where, and what a client proves and believes there.
    endpoint: TcpEndpoint,
    /// What the daemon shows.
    certificate: Option<TlsServer>,
    /// What paired hosts prove.
    keys: Option<Arc<dyn Keyring>>,
    /// Where it is noted who calls.
    callers: Option<Arc<Callers>>,
    limits: Limits,
}

impl TcpTransport {
    /// A transport for this address.
    pub fn new(address: SocketAddr) -> Self {
        TcpTransport {
            endpoint: address.into(),
            certificate: None,
            keys: None,
            callers: None,
            limits: Limits::default(),
        }
    }

    /// With other limits.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Both sides have to prove this token.
    #[must_use]
    pub fn proving(mut self, token: Option<Token>) -> Self {
        self.endpoint.token = token;
        self
    }

    /// Hosts that were paired with this one are served by these keys. Nobody is served who proves neither one of them nor
    /// the token.
    #[must_use]
    pub fn admitting(mut self, keys: Arc<dyn Keyring>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Who calls is noted there.
    #[must_use]
    pub fn noting(mut self, callers: Arc<Callers>) -> Self {
        self.callers = Some(callers);
        self
    }

    /// The daemon speaks TLS and shows this certificate.
    #[must_use]
    pub fn showing(mut self, certificate: Option<TlsServer>) -> Self {
        self.certificate = certificate;
        self
    }

    /// The client speaks TLS and believes these certificates.
    #[must_use]
    pub fn believing(mut self, authority: Option<TlsClient>) -> Self {
        self.endpoint.tls = authority;
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
        let asked = self.endpoint.address;
        let listener = TcpListener::bind(asked).await.map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::AddrInUse => ErrorKind::Conflict,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, format!("cannot listen on {asked}: {error}"))
                .help("another program may use the address; choose one with --tcp ADDRESS")
        })?;
        let address = listener.local_addr().unwrap_or(asked);
        let tls = self.certificate.as_ref().map(|certificate| TlsAcceptor::from(certificate.0.clone()));
        let admission = Admission { token: self.endpoint.token.clone(), keys: self.keys.clone() };
        // Without a token and TLS nothing is proved, and a peer may be silent for as long as it likes.
        let patience = (tls.is_some() || admission.wants_proof()).then_some(self.limits.opening);
        let (listener, callers) = (Arc::new(listener), self.callers.clone());
        let accept = move || {
            let (listener, tls, callers) = (listener.clone(), tls.clone(), callers.clone());
            async move { accept(&listener, tls, patience, callers.as_ref()).await }
        };
        let rules = Rules { route: Arc::new(ByName(host)), admission, limits: self.limits };
        Ok(Listening { endpoint: format!("tcp://{address}"), finished: run(accept, rules, shutdown).boxed() })
    }

    async fn connect(&self, project: ProjectRef) -> Result<Arc<dyn Client>> {
        match project {
            ProjectRef::Id(id) => connected(Endpoint::Tcp(self.endpoint.clone()), Some(id)),
            ProjectRef::Root(_) => Err(Error::invalid("over TCP a project is named by its id")),
        }
    }
}

async fn accept(
    listener: &TcpListener,
    tls: Option<TlsAcceptor>,
    patience: Option<Duration>,
    callers: Option<&Arc<Callers>>,
) -> io::Result<Option<Accepted>> {
    let (stream, address) = listener.accept().await?;
    // Answers are short, and each is awaited by somebody.
    stream.set_nodelay(true)?;
    let caller = callers.map(|callers| callers.calls(address));
    let calling = caller.clone();
    let opening = async move {
        let opened = open(stream, tls, calling.as_deref());
        match patience {
            Some(time) => timeout(time, opened).await.map_err(|_| io::ErrorKind::TimedOut)?,
            None => opened.await,
        }
    };
    Ok(Some(Accepted { principal: Principal::Anonymous, caller, opening: opening.boxed() }))
}

/// Shakes hands where TLS is spoken. A peer that speaks the other language is told so at once: neither side could make
/// anything of what the other one says, and both would wait.
async fn open(stream: TcpStream, tls: Option<TlsAcceptor>, caller: Option<&Caller>) -> io::Result<Option<Streams>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    let traffic = caller.map(|caller| caller.traffic.clone()).unwrap_or_default();
    match (tls, first == [HANDSHAKE]) {
        (Some(tls), true) => {
            let (reader, writer) = tokio::io::split(tls.accept(Counted::new(stream, traffic)).await?);
            if let Some(caller) = caller {
                caller.encrypted();
            }
            Ok(Some((Box::new(reader), Box::new(writer))))
        }
        (None, false) => {
            let (reader, writer) = stream.into_split();
            let (reader, writer) = (Counted::new(reader, traffic.clone()), Counted::new(writer, traffic));
            Ok(Some((Box::new(reader), Box::new(writer))))
        }
        (Some(_), false) => {
            let error = Error::new(ErrorKind::Denied, "this daemon speaks TLS only")
                .help("set mail.tcp.tls.authority to the daemon's certificate, or to the one that vouches for it");
            turn_away(stream, &error, caller).await.map(|()| None)
        }
        (None, true) => {
            turn_away(stream, &Error::invalid("this daemon does not speak TLS"), caller).await.map(|()| None)
        }
    }
}

/// Says why and hangs up. What the peer has said is read first: closing with something unread would take back our line.
async fn turn_away(mut stream: TcpStream, error: &Error, caller: Option<&Caller>) -> io::Result<()> {
    if let Some(caller) = caller {
        caller.turned_away(error.message());
    }
    stream.write_all(failure(error, None).as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 4096];
    let heard = async { while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(Duration::from_secs(1), heard).await;
    Ok(())
}
