//! Listening on TCP: where, for whom, and what that exposes.

use std::net::SocketAddr;
use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Host, Listening, Result, Shutdown, Transport};
use fmail_host::{Environment, Settings};
use fmail_transports::{Callers, Limits, TcpTransport, TlsServer, Token};

use crate::arguments::Serve;

/// What the configuration of a project says about TCP.
#[derive(Clone)]
pub struct Configured {
    /// Where to listen without being told so by a flag.
    listen: Option<SocketAddr>,
    /// Also where other machines can reach it, although nothing protects the connection.
    insecure: bool,
    protection: Protection,
}

/// What protects a connection.
#[derive(Clone, Default)]
struct Protection {
    token: Option<Token>,
    certificate: Option<TlsServer>,
}

/// An address to listen on.
pub struct Tcp {
    address: SocketAddr,
    insecure: bool,
    protection: Protection,
}

impl Configured {
    /// What the user or the system says. A project's own file has a say in this only when it is trusted. Relaying needs a
    /// listener.
    pub fn from(settings: &Settings, relay: bool, environment: &Environment) -> Result<Configured> {
        let untrusted = settings.untrusted();
        let (tcp, default) = (&settings.mail.tcp, Settings::default().mail.tcp);
        let trusts = |key: &str| !untrusted.contains(&key);
        let listen = relay || (tcp.listen && trusts("mail.tcp.listen"));
        let address = if trusts("mail.tcp.address") { tcp.address } else { default.address };
        let certificate = match tcp.certificate(environment)? {
            Some(files) => Some(TlsServer::new(&files.certificate, &files.key)?),
            None => None,
        };
        let protection = Protection { token: tcp.shared_token(environment)?.map(Token::new), certificate };
        Ok(Configured {
            listen: listen.then_some(address),
            insecure: tcp.insecure && trusts("mail.tcp.insecure"),
            protection,
        })
    }
}

/// Where to listen: what the flag says, else what the configuration of the projects says, each address once. What
/// protects a connection stands in the user's or the system's file, so it is the same for all of them.
pub fn listeners<'a>(projects: impl Iterator<Item = &'a Configured> + Clone, arguments: &Serve) -> Vec<Tcp> {
    let at = |address, configured: &Configured, insecure: bool| Tcp {
        address,
        insecure: insecure || configured.insecure,
        protection: configured.protection.clone(),
    };
    if let (Some(address), Some(first)) = (arguments.tcp, projects.clone().next()) {
        return vec![at(address, first, arguments.insecure)];
    }
    let mut listeners: Vec<Tcp> = Vec::new();
    for (address, configured) in projects.filter_map(|configured| Some((configured.listen?, configured))) {
        if !listeners.iter().any(|known| known.address == address) {
            listeners.push(at(address, configured, false));
        }
    }
    listeners
}

impl Tcp {
    /// Beyond this machine nothing is served that has no protection, unless the operator says so in so many words.
    pub fn check_address(&self) -> Result<()> {
        let protected = self.protection.token.is_some() || self.protection.certificate.is_some();
        if self.address.ip().is_loopback() || protected || self.insecure {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Denied,
            format!("{} can be reached from other machines, and nothing protects what is served there", self.address),
        )
        .help(
            "listening beyond loopback needs a token (mail.tcp.token_file), TLS (mail.tcp.tls.certificate and \
             mail.tcp.tls.key), or --insecure or mail.tcp.insecure = true where the network itself is protected; hosts \
             that are paired with `fmail relay invite` have a listener of their own and need none of this",
        ))
    }

    /// Listens, and says what that exposes and to whom.
    pub async fn listen(
        &self,
        limits: Limits,
        callers: Arc<Callers>,
        host: Arc<dyn Host>,
        shutdown: Shutdown,
    ) -> Result<Listening> {
        let Protection { token, certificate } = self.protection.clone();
        let (proved, encrypted) = (token.is_some(), certificate.is_some());
        let transport = TcpTransport::new(self.address).limited(limits).proving(token).showing(certificate);
        let one = transport.noting(callers).serve(host, shutdown).await?;
        let endpoint = one.endpoint.as_str();
        match (proved, encrypted) {
            (true, true) => tracing::info!(endpoint, "{WHO_KNOWS}; connections are encrypted"),
            (true, false) => tracing::warn!(endpoint, "{WHO_KNOWS}; connections are not encrypted"),
            (false, true) => tracing::warn!(
                endpoint,
                "{WHO_REACHES}; connections are encrypted, and TLS proves the daemon to its clients, not them to it"
            ),
            (false, false) => tracing::warn!(endpoint, "{WHO_REACHES}"),
        }
        Ok(one)
    }
}

const WHO_KNOWS: &str = "everyone who knows the token can read and send everything in the served projects";
const WHO_REACHES: &str = "everyone who can reach this address can read and send everything in the served projects";
