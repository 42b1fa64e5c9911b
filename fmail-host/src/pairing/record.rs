//! A pairing as it is kept.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, NodeId, Result, Timestamp};
use fmail_transports::Token;
use fmail_transports::peer::{Believed, Fingerprint, HostPort, PeerAddress};
use serde::{Deserialize, Serialize};

use super::{AGAIN, denied};
use crate::path_text;

/// Two hosts that were paired, seen from one of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairing {
    /// Its id: the same on both hosts, and no secret.
    pub id: String,
    /// What the other host is called here.
    pub name: String,
    /// The project that is exchanged.
    pub project: String,
    /// Its directory.
    #[serde(with = "path_text")]
    pub root: PathBuf,
    /// Where the host is reached that invited.
    #[serde(with = "text")]
    pub address: HostPort,
    /// When it was made.
    pub made: Timestamp,
    /// Which side this is.
    #[serde(flatten)]
    pub side: Side,
}

/// Which side of a pairing a host is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "side", rename_all = "lowercase")]
pub enum Side {
    /// It has invited, and listens.
    Invited {
        /// Where it listens.
        listen: SocketAddr,
        /// Until when the invitation can be accepted.
        expires: Timestamp,
        /// The secret of the invitation, until that is accepted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// Who has accepted it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accepted: Option<Claimed>,
    },
    /// It has accepted, and dials.
    Joined {
        /// Its part of the key's name.
        claim: String,
        /// The key.
        key: String,
        /// The certificate that the other host shows.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "maybe_text")]
        fingerprint: Option<Fingerprint>,
        /// When the other host has let this one in for the first time. Before that nobody knows whether it will.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirmed: Option<Timestamp>,
    },
}

/// Who has accepted an invitation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Its part of the key's name.
    pub claim: String,
    /// The key.
    pub key: String,
    /// What the host called itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The id of the host, as it said last. What a host says of itself proves nothing: by this pairings are shown, and nobody
    /// is let in or cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// When.
    pub at: Timestamp,
}

impl std::fmt::Debug for Pairing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its secrets are not shown.
        f.debug_struct("Pairing").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Pairing {
    pub(super) fn from_text(text: &str, path: &Path) -> Result<Pairing> {
        serde_json::from_str(text).map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, format!("this pairing cannot be read: {error}"))
                .context("file", path.display())
                .help("remove the file, and pair the hosts again")
        })
    }

    pub(super) fn to_text(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Error::internal(format!("a pairing has no JSON form: {error}")))
    }

    /// Whether nobody has accepted it in time.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        matches!(&self.side, Side::Invited { expires, accepted: None, .. } if *expires <= now)
    }

    /// Whom to dial; nobody where the other host dials.
    pub fn peer_address(&self) -> Option<PeerAddress> {
        let Side::Joined { claim, key, fingerprint, .. } = &self.side else { return None };
        Some(PeerAddress {
            name: self.name.clone(),
            address: self.address.clone(),
            token: Some(Token::named(format!("{}.{claim}", self.id), key.as_str())),
            tls: fingerprint.map(Believed::Pinned),
        })
    }

    /// Whether this host was let in by the other one, or lets it in.
    pub fn is_confirmed(&self) -> bool {
        match &self.side {
            Side::Invited { accepted, .. } => accepted.is_some(),
            Side::Joined { confirmed, .. } => confirmed.is_some(),
        }
    }

    /// The host that has accepted the invitation, as far as it has told its id, and when it has.
    pub fn accepted_by(&self) -> Option<(NodeId, Timestamp)> {
        match &self.side {
            Side::Invited { accepted: Some(Claimed { node: Some(node), at, .. }), .. } => Some((*node, *at)),
            _ => None,
        }
    }

    /// Whether an earlier pairing stands for the same thing as this one, which was accepted here: the same project with a host
    /// that shows the same certificate.
    pub fn is_with_the_host_of(&self, other: &Pairing) -> bool {
        let certificate = |pairing: &Pairing| match &pairing.side {
            Side::Joined { fingerprint, .. } => *fingerprint,
            Side::Invited { .. } => None,
        };
        self.id != other.id
            && (&self.project, &self.root) == (&other.project, &other.root)
            && certificate(self).is_some_and(|own| certificate(other) == Some(own))
    }

    pub(super) fn is_accepted_by(&self, claim: &str) -> bool {
        matches!(&self.side, Side::Invited { accepted: Some(accepted), .. } if accepted.claim == claim)
    }

    /// What a host with this claim has to prove.
    pub(super) fn token_for(&self, claim: &str, now: Timestamp) -> Result<Token> {
        let name = format!("{}.{claim}", self.id);
        match &self.side {
            Side::Invited { accepted: Some(accepted), .. } if accepted.claim == claim => {
                Ok(Token::named(name, accepted.key.as_str()))
            }
            Side::Invited { accepted: Some(accepted), .. } => {
                let by = accepted.host.as_deref().unwrap_or("another host");
                let what = format!("this invitation was accepted already, by {by} at {}", accepted.at.whole_seconds());
                Err(denied(what).help("an invitation is for one host: `fmail relay invite` makes another one"))
            }
            Side::Invited { expires, .. } if *expires <= now => {
                let what = format!("this invitation expired at {}", expires.whole_seconds());
                Err(denied(what).help("`fmail relay invite` makes a new one"))
            }
            Side::Invited { secret: Some(secret), .. } => Ok(Token::claimed(secret, &self.id, claim)),
            Side::Invited { .. } | Side::Joined { .. } => Err(denied("this pairing lets nobody in").help(AGAIN)),
        }
    }

    /// The invitation belongs to who has this claim from here on, and its secret is forgotten.
    pub(super) fn accept(
        &mut self,
        claim: &str,
        token: &Token,
        host: Option<&str>,
        node: Option<NodeId>,
        now: Timestamp,
        known: &[Pairing],
    ) -> Result<()> {
        let Side::Invited { secret, accepted, .. } = &mut self.side else { return Ok(()) };
        let host = host.map(tame);
        *secret = None;
        *accepted = Some(Claimed {
            claim: claim.to_string(),
            key: token.reveal().to_string(),
            host: host.clone(),
            node,
            at: now,
        });
        // Who invited without a name in mind calls the host what it calls itself.
        if let (Some(host), true) = (host, self.name.starts_with("invited-")) {
            self.name = free_name(host, known)?;
        }
        Ok(())
    }
}

/// The id and the claim in the name of a key. Both become part of a file's name or are compared with what stands there.
pub(super) fn parts(key: &str) -> Result<(&str, &str)> {
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match key.split_once('.') {
        Some((id, claim)) if digits(id, 20) && digits(claim, 32) => Ok((id, claim)),
        _ => Err(denied("this is not the name of a key that a pairing has").help(AGAIN)),
    }
}

/// The longest name of a pairing.
const LONGEST: usize = 60;

/// A name that can be shown and typed, made from what a host calls itself.
pub(super) fn tame(host: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    let name: String = host.chars().take(LONGEST).map(good).collect();
    if name.is_empty() { "peer".into() } else { name }
}

/// The name, or one with a number behind it that nobody has.
pub(super) fn free_name(wanted: String, known: &[Pairing]) -> Result<String> {
    if tame(&wanted) != wanted {
        return Err(Error::invalid(format!("{wanted:?} is not a name for a peer"))
            .help(format!("use up to {LONGEST} of the letters a to z, A to Z, 0 to 9, and . - _")));
    }
    let is_free = |name: &str| known.iter().all(|pairing| pairing.name != name);
    let numbered = (2..).map(|number: u32| format!("{wanted}-{number}"));
    let free = std::iter::once(wanted.clone()).chain(numbered).find(|name| is_free(name));
    free.ok_or_else(|| Error::internal("there are no names left"))
}

/// What is written as its text.
mod text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::HostPort;

    pub(super) fn serialize<S: Serializer>(value: &HostPort, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HostPort, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

mod maybe_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Fingerprint;

    pub(super) fn serialize<S: Serializer>(value: &Option<Fingerprint>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Fingerprint>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}
