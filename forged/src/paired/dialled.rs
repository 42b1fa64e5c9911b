//! Whom to dial: the peers of the configuration, and the hosts whose invitation was accepted here.

use std::path::Path;
use std::sync::Arc;

use fmail_api::Shutdown;
use fmail_host::pairing::Pairing;
use fmail_transports::peer::{PeerAddress, Peers};
use tokio::sync::watch;

use super::Paired;

impl Paired {
    /// The peers of a project, now and whenever that changes, until the shutdown. `configured` are there always.
    pub fn dialled(&self, project: &str, root: &Path, configured: Vec<PeerAddress>, shutdown: Shutdown) -> Peers {
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        let project = project.to_string();
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
