//! Whom to dial: the peers of the configuration, and the hosts whose invitation was accepted here.

use std::path::PathBuf;
use std::sync::Arc;

use fmail_api::{Result, Shutdown};
use fmail_host::pairing::Pairing;
use fmail_host::{Environment, Settings};
use fmail_transports::Token;
use fmail_transports::peer::{Believed, HostPort, PeerAddress, Peers};
use tokio::sync::watch;

use super::Paired;

/// The peers of one project.
#[derive(Clone)]
pub struct Dialled {
    /// Those of the configuration, if it is trusted.
    configured: Vec<PeerAddress>,
    /// What an operator should know about the configuration.
    pub notes: Vec<String>,
}

impl Dialled {
    /// What the configuration says. What both sides prove and whom they believe over TCP holds between hosts too: then a peer
    /// has to know the token, and to show a certificate that is believed.
    pub fn configured(settings: &Settings, environment: &Environment) -> Result<Dialled> {
        let (relay, tcp, untrusted) = (&settings.mail.relay, &settings.mail.tcp, settings.untrusted());
        let mut notes: Vec<String> = Vec::new();
        for key in untrusted.iter().filter(|key| key.starts_with("mail.relay.")) {
            notes.push(format!(
                "{key} stands in the project's own file, which is not trusted, and does not count: set it in your own \
                 file, or read the project's file and run `fmail trust`"
            ));
        }
        let trusted = |key: &str| !untrusted.contains(&key);
        if !relay.enabled || !trusted("mail.relay.enabled") || !trusted("mail.relay.peers") {
            return Ok(Dialled { configured: Vec::new(), notes });
        }
        let token = tcp.shared_token(environment)?.map(Token::new);
        let tls = tcp.authority(environment)?.map(Believed::Authority);
        let peer =
            |address: HostPort| PeerAddress { token: token.clone(), tls: tls.clone(), ..PeerAddress::plain(address) };
        let configured = relay.peers.iter().map(|peer| peer.parse()).collect::<Result<Vec<HostPort>>>()?;
        Ok(Dialled { configured: configured.into_iter().map(peer).collect(), notes })
    }
}

impl Paired {
    /// The peers of a project, now and whenever that changes, until the shutdown.
    pub fn dialled(self: &Arc<Self>, project: &str, root: PathBuf, dialled: &Dialled, shutdown: Shutdown) -> Peers {
        let root = std::fs::canonicalize(&root).unwrap_or(root);
        let (project, configured) = (project.to_string(), dialled.configured.clone());
        let list = move |pairings: &[Pairing]| -> Arc<[PeerAddress]> {
            let own = pairings.iter().filter(|pairing| pairing.project == project && pairing.root == root);
            configured.iter().cloned().chain(own.filter_map(Pairing::peer_address)).collect()
        };
        let mut known = self.known.subscribe();
        let (sender, receiver) = watch::channel(list(&known.borrow_and_update().pairings));
        tokio::spawn(async move {
            tokio::pin!(shutdown);
            loop {
                tokio::select! {
                    () = &mut shutdown => return,
                    () = sender.closed() => return,
                    changed = known.changed() => if changed.is_err() { return },
                }
                let now = list(&known.borrow_and_update().pairings);
                sender.send_if_modified(|before| {
                    let modified = *before != now;
                    *before = now;
                    modified
                });
            }
        });
        receiver
    }
}

impl Dialled {
    /// The peers of the configuration alone, where the user has no directory for pairings.
    pub fn only_configured(&self) -> Peers {
        watch::channel(self.configured.clone().into()).1
    }
}
