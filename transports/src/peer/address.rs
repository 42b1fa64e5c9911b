//! Where another host is, and how both sides make sure of each other.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;

use fmail_api::{Authentication, Error, Result};
use rustls::pki_types::ServerName;
use tokio::sync::watch;

use crate::authentication::Token;
use crate::tls::TlsClient;

/// The peers of a project that are to be dialled, now and whenever that changes: a pairing that was made or ended while the
/// daemon runs. Who holds the receiver compares the new list with the old one; what is equal in both goes on undisturbed.
pub type Peers = watch::Receiver<Arc<[PeerAddress]>>;

/// A peer to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress {
    /// What it is called in the status and in the log: the name of its pairing, or the address as the configuration has it.
    pub name: String,
    /// Where it is.
    pub address: HostPort,
    /// What both sides have to prove before anything else is said; a peer without it is a plain one. A token that has a
    /// [name](Token::name) is told by that in `hello`, since the other side knows several.
    pub token: Option<Token>,
    /// Whom we believe; without it, TLS is not spoken.
    pub tls: Option<Believed>,
}

impl PeerAddress {
    /// A peer of which nothing is known but where it is, as SPEC.md's `mail.relay.peers` names it.
    pub fn plain(address: HostPort) -> Self {
        PeerAddress { name: address.to_string(), address, token: None, tls: None }
    }

    /// By what the peer has to prove who it is.
    pub fn authentication(&self) -> Option<Authentication> {
        match (&self.token, &self.tls) {
            (Some(token), _) if token.name().is_some() => Some(Authentication::Paired),
            (Some(_), _) => Some(Authentication::Token),
            (None, Some(_)) => Some(Authentication::Tls),
            (None, None) => None,
        }
    }
}

/// Whom a peer is believed to be. Data and not [`TlsClient`], so that two lists of peers can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Believed {
    /// Who shows one of the certificates in this PEM, or one that they vouch for.
    Authority(Vec<u8>),
    /// Who shows the certificate with this fingerprint, whatever names and dates are in it.
    Pinned(Fingerprint),
}

impl Believed {
    /// A client that believes nobody else.
    pub fn client(&self) -> Result<TlsClient> {
        match self {
            Believed::Authority(pem) => TlsClient::trusting(pem),
            Believed::Pinned(fingerprint) => TlsClient::pinning(*fingerprint),
        }
    }
}

/// The SHA-256 of a certificate: 64 hexadecimal digits, in small letters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        crate::authentication::unhex(text)
            .map(Fingerprint)
            .ok_or_else(|| Error::invalid("a certificate's fingerprint is 64 hexadecimal digits, in small letters"))
    }
}

/// A host, by its name or its address, and a port. A name is looked up each time that the host is dialled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port; never 0.
    pub port: u16,
}

impl HostPort {
    /// The name that TLS asks for.
    pub fn server_name(&self) -> Result<ServerName<'static>> {
        ServerName::try_from(self.host.clone())
            .map_err(|_| Error::invalid(format!("{} is not a name that a certificate can have", self.host)))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for HostPort {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(format!("{text:?} is not the address of a host: {why}"))
                .help("write host:port, for example host-a:7463 or [2001:db8::1]:7463")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("the port is missing"))?;
        let good = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => {
                !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
            }
        };
        if !good {
            return Err(wrong("the host is not a name or an address"));
        }
        let port = match port.parse::<u16>() {
            Ok(port @ 1..) => port,
            _ => return Err(wrong("the port is not a number from 1 to 65535")),
        };
        Ok(HostPort { host: host.trim_start_matches('[').trim_end_matches(']').to_string(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_and_a_wrong_one_says_why() {
        for good in ["host-a:7463", "127.0.0.1:1", "[2001:db8::1]:7463", "a_b.example:65535"] {
            assert_eq!(good.parse::<HostPort>().unwrap().to_string(), good);
        }
        for (wrong, why) in
            [("host-a", "port is missing"), ("a:0", "1 to 65535"), (":1", "not a name"), ("::1:7", "not a name")]
        {
            let error = wrong.parse::<HostPort>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(wrong), "{error}");
        }
        assert_eq!("[::1]:7".parse::<HostPort>().unwrap().host, "::1");
        assert!("host-a:1".parse::<HostPort>().unwrap().server_name().is_ok());
    }

    #[test]
    fn a_fingerprint_reads_back() {
        let fingerprint = Fingerprint([0xa7; 32]);
        assert_eq!(fingerprint.to_string().parse::<Fingerprint>().unwrap(), fingerprint);
        assert!("a7".parse::<Fingerprint>().is_err());
    }
}
