//! Which hosts this one was paired with, and what they prove to each other.
//!
//! One host makes an [`Invitation`], the other accepts it: then each has a [`Pairing`], a file of its own in the user's data
//! directory, which nobody else can read and which no project carries along. A pairing is for one project in one
//! directory. The files are looked at anew whenever somebody proves a key, so that what is made or revoked counts at
//! once, without a restart of anything.
//!
//! The secret of an invitation is good for one host: that host turns it, with a number of its own, into the key that is
//! proved from then on, and the inviting host forgets the secret when it first hears such a proof.

mod certificate;
mod files;
mod invitation;
mod record;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, NodeId, Result, Timestamp};
use fmail_transports::Token;
use fmail_transports::authentication::Nonce;
use fmail_transports::peer::HostPort;

use crate::hosting::user_data;
use crate::{CertificateFiles, Environment};

pub use invitation::Invitation;
pub use record::{Claimed, Pairing, Side};

/// What `fmail relay invite` is told.
pub struct Inviting {
    /// The project's id.
    pub project: String,
    /// The project's directory.
    pub root: PathBuf,
    /// Where the other host reaches this one.
    pub address: HostPort,
    /// Where this host listens for it.
    pub listen: SocketAddr,
    /// What to call the other host; without it, what it calls itself.
    pub name: Option<String>,
    /// What this host is called.
    pub host: String,
    /// Until when the invitation can be accepted.
    pub expires: Timestamp,
    /// The time.
    pub now: Timestamp,
}

/// The pairings of a user: a file for each.
#[derive(Debug, Clone)]
pub struct Pairings {
    directory: PathBuf,
}

/// What was found: the pairings, and the files that cannot be used.
#[derive(Debug, Default)]
pub struct Listed {
    /// By name.
    pub pairings: Vec<Pairing>,
    /// Why a file does not count.
    pub problems: Vec<Error>,
}

impl Pairings {
    /// The user's pairings: in `$XDG_DATA_HOME/fmail/relay`, or in `~/.local/share/fmail/relay`.
    pub fn of(environment: &Environment) -> Result<Pairings> {
        Ok(Pairings { directory: user_data(environment)?.join("relay") })
    }

    /// All of them.
    pub fn all(&self) -> Result<Listed> {
        let mut listed = Listed::default();
        for path in files::listed(&self.peers())? {
            match files::read(&path).and_then(|text| text.map(|text| Pairing::from_text(&text, &path)).transpose()) {
                Ok(found) => listed.pairings.extend(found),
                Err(error) => listed.problems.push(error),
            }
        }
        listed.pairings.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(listed)
    }

    /// What tells whether anything has changed: equal twice means that nothing has.
    pub fn state(&self) -> Vec<(String, u64, i64, i64)> {
        files::state(&self.peers())
    }

    /// Makes an invitation. What expired without being accepted goes on this occasion.
    pub fn invite(&self, inviting: Inviting) -> Result<(Pairing, Invitation)> {
        let _lock = files::lock(&self.directory)?;
        let fingerprint = certificate::fingerprint(&self.directory, &inviting.host)?;
        let known = self.without_expired(inviting.now)?;
        let id = random(20)?;
        let name = match inviting.name {
            Some(name) => record::free_name(name, &known)?,
            None => format!("invited-{}", &id[..6]),
        };
        let secret = random(64)?;
        let invitation = Invitation {
            address: inviting.address.clone(),
            project: inviting.project.clone(),
            id: id.clone(),
            secret: secret.clone(),
            fingerprint: Some(fingerprint),
            host: Some(inviting.host),
            expires: inviting.expires,
        };
        let side =
            Side::Invited { listen: inviting.listen, expires: inviting.expires, secret: Some(secret), accepted: None };
        let pairing = Pairing {
            id,
            name,
            project: inviting.project,
            root: canonical(&inviting.root)?,
            address: inviting.address,
            made: inviting.now,
            side,
        };
        self.write(&pairing)?;
        Ok((pairing, invitation))
    }

    /// Accepts an invitation for a project. Accepting it once more changes nothing.
    pub fn join(&self, invitation: &Invitation, root: &Path, name: Option<String>, now: Timestamp) -> Result<Pairing> {
        let _lock = files::lock(&self.directory)?;
        let known = self.without_expired(now)?;
        let root = canonical(root)?;
        if let Some(same) = known.iter().find(|pairing| pairing.id == invitation.id) {
            return match &same.side {
                Side::Joined { .. } if same.root == root => Ok(same.clone()),
                Side::Joined { .. } => Err(Error::new(
                    ErrorKind::Conflict,
                    format!("this invitation was accepted already, for {}", same.root.display()),
                )
                .help("make one for each directory")),
                Side::Invited { .. } => Err(Error::invalid("this invitation was made here; it is for another host")),
            };
        }
        let claim = random(32)?;
        let token = Token::claimed(&invitation.secret, &invitation.id, &claim);
        let wanted = name.unwrap_or_else(|| record::tame(invitation.host.as_deref().unwrap_or("peer")));
        let (key, fingerprint) = (token.reveal().to_string(), invitation.fingerprint);
        let side = Side::Joined { claim, key, fingerprint, confirmed: None };
        let pairing = Pairing {
            id: invitation.id.clone(),
            name: record::free_name(wanted, &known)?,
            project: invitation.project.clone(),
            root,
            address: invitation.address.clone(),
            made: now,
            side,
        };
        self.write(&pairing)?;
        Ok(pairing)
    }

    /// The token that a key means, for who serves a project in one of these directories; or why it opens nothing.
    pub fn token(&self, key: &str, project: &str, served: &[PathBuf], now: Timestamp) -> Result<Token> {
        let (id, claim) = record::parts(key)?;
        let pairing = self.invited(id)?;
        if pairing.project != project || !served.contains(&pairing.root) {
            return Err(denied("this pairing is for another project").help("each project needs a pairing of its own"));
        }
        pairing.token_for(claim, now)
    }

    /// Notes that a key was proved by a host that calls itself so and has this id; gives the name of the pairing. The first to
    /// prove one of an invitation is the only one that ever can.
    pub fn claim(&self, key: &str, host: Option<&str>, node: Option<NodeId>, now: Timestamp) -> Result<String> {
        let (id, claim) = record::parts(key)?;
        let mut pairing = self.invited(id)?;
        let is_known = |pairing: &Pairing| {
            let told = pairing.accepted_by().map(|(node, _)| node);
            pairing.is_accepted_by(claim) && (node.is_none() || node == told)
        };
        if is_known(&pairing) {
            return Ok(pairing.name);
        }
        let _lock = files::lock(&self.directory)?;
        // Somebody may have been faster: what counts is what stands there now.
        pairing = self.invited(id)?;
        let token = pairing.token_for(claim, now)?;
        if !pairing.is_accepted_by(claim) {
            let known = self.all()?.pairings;
            pairing.accept(claim, &token, host, node, now, &known)?;
            self.write(&pairing)?;
        } else if !is_known(&pairing)
            && let Side::Invited { accepted: Some(accepted), .. } = &mut pairing.side
        {
            accepted.node = node;
            self.write(&pairing)?;
        }
        Ok(pairing.name)
    }

    /// Notes that the host which invited has let this one in. What was noted before stays.
    pub fn confirm(&self, id: &str, now: Timestamp) -> Result<()> {
        let _lock = files::lock(&self.directory)?;
        let Some(mut pairing) = self.read(id)? else { return Ok(()) };
        match &mut pairing.side {
            Side::Joined { confirmed: confirmed @ None, .. } => *confirmed = Some(now),
            _ => return Ok(()),
        }
        self.write(&pairing)
    }

    /// Ends a pairing that was accepted here in favour of a later one with the same host, which gets its name where it has
    /// none of its own choice. Gives the later one as it is now.
    pub fn replace(&self, old: &Pairing, new: &Pairing, rename: bool) -> Result<Pairing> {
        let _lock = files::lock(&self.directory)?;
        let Some(mut kept) = self.read(&new.id)? else { return Ok(new.clone()) };
        files::remove(&self.file(&old.id))?;
        if rename {
            kept.name.clone_from(&old.name);
            self.write(&kept)?;
        }
        Ok(kept)
    }

    /// Whether a key opens anything, as far as it can be told without its secret.
    pub fn holds(&self, key: &str) -> bool {
        record::parts(key).and_then(|(id, claim)| Ok(self.invited(id)?.is_accepted_by(claim))).unwrap_or(false)
    }

    /// The pairing with this name, or with an id that begins so.
    pub fn find(&self, named: &str) -> Result<Pairing> {
        let known = self.all()?.pairings;
        if let Some(found) = known.iter().find(|pairing| pairing.name == named || pairing.id == named) {
            return Ok(found.clone());
        }
        let by_id: Vec<&Pairing> =
            known.iter().filter(|pairing| named.len() >= 4 && pairing.id.starts_with(named)).collect();
        match by_id[..] {
            [found] => Ok(found.clone()),
            [] => Err(Error::not_found(format!("there is no pairing called {named:?}"))
                .help(crate::near::suggestion(named, known.iter().map(|pairing| pairing.name.as_str())))),
            _ => Err(Error::new(ErrorKind::Conflict, format!("several pairings have an id that begins with {named}"))),
        }
    }

    /// Ends a pairing: its key opens nothing any more. Whether there was one.
    pub fn revoke(&self, id: &str) -> Result<bool> {
        let _lock = files::lock(&self.directory)?;
        files::remove(&self.file(id))
    }

    /// The certificate that this host shows to those that it has invited; none before it has invited anybody.
    pub fn certificate(&self) -> Result<Option<CertificateFiles>> {
        certificate::read(&self.directory)
    }

    fn read(&self, id: &str) -> Result<Option<Pairing>> {
        let path = self.file(id);
        files::read(&path)?.map(|text| Pairing::from_text(&text, &path)).transpose()
    }

    fn invited(&self, id: &str) -> Result<Pairing> {
        self.read(id)?.filter(|pairing| matches!(pairing.side, Side::Invited { .. })).ok_or_else(|| {
            denied("there is no such pairing here: it was revoked, or the invitation expired").help(AGAIN)
        })
    }

    /// Everything that is known, without invitations that nobody accepted in time.
    fn without_expired(&self, now: Timestamp) -> Result<Vec<Pairing>> {
        let (over, left): (Vec<_>, Vec<_>) = self.all()?.pairings.into_iter().partition(|one| one.has_expired(now));
        for pairing in over {
            files::remove(&self.file(&pairing.id))?;
        }
        Ok(left)
    }

    fn write(&self, pairing: &Pairing) -> Result<()> {
        files::write(&self.file(&pairing.id), &pairing.to_text()?)
    }

    fn peers(&self) -> PathBuf {
        self.directory.join(files::PEERS)
    }

    fn file(&self, id: &str) -> PathBuf {
        self.peers().join(format!("{id}.json"))
    }
}

/// What to do about a pairing that is no more.
const AGAIN: &str = "`fmail relay invite` on the one host and `fmail relay join` on the other make a new pairing";

fn denied(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Denied, what)
}

/// So many random hexadecimal digits, at most 64.
fn random(digits: usize) -> Result<String> {
    Ok(Nonce::fresh()?.to_string()[..digits].to_string())
}

fn canonical(root: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(root).map_err(|error| Error::io(format_args!("cannot use {}", root.display()), &error))
}

#[cfg(test)]
mod tests;
