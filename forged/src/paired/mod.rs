//! The hosts that this one was paired with, as a running daemon sees them.
//!
//! The user's pairings are looked at every second, so that `fmail relay invite`, `join` and `revoke` count without a restart:
//! `dialled` tells whom to dial, `listening` keeps the addresses where invited hosts are served, and a host whose
//! pairing is gone is cut.

mod dialled;
mod listening;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Authentication, Clock, Error, LinkStatus, NodeId, Result, Shutdown, Timestamp};
use fmail_host::pairing::{Listed, Pairing, Pairings, Side};
use fmail_host::{Environment, SystemClock};
use fmail_transports::{Keyring, Token};
use tokio::sync::watch;
use tokio::time::interval;

/// How often to look whether a pairing was made or revoked.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// The user's pairings, and what has become of them meanwhile.
pub struct Paired {
    pairings: Pairings,
    /// The directories that this daemon serves.
    roots: Vec<PathBuf>,
    known: watch::Sender<Arc<Listed>>,
    /// Why an address is not listened on.
    deaf: Mutex<Vec<String>>,
    /// The state of the files that was looked at last. Held by whoever looks.
    looked: tokio::sync::Mutex<Option<State>>,
    began: Timestamp,
}

/// What tells whether a file has changed.
type State = Vec<(String, u64, i64, i64)>;

impl Paired {
    /// The pairings of the user for the projects in these directories. None where the user has no directory of their own.
    pub fn of(environment: &Environment, roots: Vec<PathBuf>) -> Option<Arc<Paired>> {
        let pairings = Pairings::of(environment).ok()?;
        let roots = roots.into_iter().map(|root| std::fs::canonicalize(&root).unwrap_or(root)).collect();
        let known = watch::Sender::new(Arc::new(listed(&pairings)));
        let (deaf, looked) = (Mutex::default(), tokio::sync::Mutex::default());
        Some(Arc::new(Paired { pairings, roots, known, deaf, looked, began: SystemClock.now() }))
    }

    /// Looks for changes until the shutdown.
    pub async fn look(self: Arc<Self>, shutdown: Shutdown) {
        let mut look = interval(LOOK_AFTER);
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                _ = look.tick() => self.look_now().await,
            }
        }
    }

    /// Looks whether anything has changed.
    pub async fn look_now(&self) {
        let mut looked = self.looked.lock().await;
        let (pairings, before) = (self.pairings.clone(), looked.clone());
        let look = move || {
            // The state first: what changes in between is seen the next time.
            let state = Some(pairings.state());
            let found = (state != before).then(|| listed(&pairings));
            (state, found)
        };
        let Ok((state, found)) = tokio::task::spawn_blocking(look).await else { return };
        *looked = state;
        if let Some(found) = found {
            found.problems.iter().for_each(|error| tracing::warn!(%error, "a pairing does not count"));
            self.known.send_replace(Arc::new(found));
        }
    }

    /// The hosts that are paired for a project and of which no link tells anything yet. A host that was paired several times
    /// is there once, by its last pairing.
    pub fn awaited(&self, (project, root): &(String, PathBuf), links: &[LinkStatus]) -> Vec<LinkStatus> {
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let known = self.known.borrow().clone();
        let of_project = || known.pairings.iter().filter(|pairing| pairing.project == *project && pairing.root == root);
        let is_told = |node: NodeId| links.iter().any(|link| link.node.as_ref().is_some_and(|other| other.id == node));
        let is_shown_otherwise = |pairing: &Pairing| match pairing.accepted_by() {
            Some((node, at)) => {
                let later = |(other, since): (NodeId, Timestamp)| other == node && since > at;
                is_told(node) || of_project().filter_map(Pairing::accepted_by).any(later)
            }
            None => false,
        };
        let link = |pairing: &Pairing| {
            let (incoming, encrypted, problem) = match &pairing.side {
                Side::Joined { fingerprint, .. } => (false, fingerprint.is_some(), "paired, and not dialled yet"),
                Side::Invited { accepted: Some(_), .. } => (true, true, "it has not connected since this forged began"),
                // Nobody has accepted the invitation: there is no host yet.
                Side::Invited { accepted: None, .. } => return None,
            };
            let is_told = links.iter().any(|link| link.peer == pairing.name && link.incoming == incoming);
            if is_told || is_shown_otherwise(pairing) {
                return None;
            }
            let mut link = LinkStatus::new(pairing.name.clone(), self.began.max(pairing.made));
            link.project = Some(project.clone());
            (link.authentication, link.encrypted) = (Some(Authentication::Paired), encrypted);
            (link.incoming, link.problem) = (incoming, Some(problem.into()));
            Some(link)
        };
        of_project().filter_map(link).collect()
    }

    /// Notes that the host of this pairing, whose invitation was accepted here, has let us in.
    pub async fn let_in(&self, name: &str) {
        let unconfirmed = |pairing: &&Pairing| pairing.name == name && !pairing.is_confirmed();
        let id = self.known.borrow().pairings.iter().find(unconfirmed).map(|pairing| pairing.id.clone());
        if let Some(id) = id {
            let pairings = self.pairings.clone();
            if let Err(error) = on_a_thread(move || pairings.confirm(&id, SystemClock.now())).await {
                tracing::warn!(%error, peer = name, "that the host has answered could not be noted");
            }
        }
    }

    /// What an operator should know of the pairings: files that cannot be used, addresses that are taken.
    pub fn notes(&self) -> Vec<String> {
        let problems: Vec<String> = self.known.borrow().problems.iter().map(Error::to_string).collect();
        let deaf = self.deaf.lock().unwrap_or_else(PoisonError::into_inner).clone();
        problems.into_iter().chain(deaf).collect()
    }

    /// Whether a pairing has this name.
    pub fn knows(&self, name: &str) -> bool {
        self.known.borrow().pairings.iter().any(|pairing| pairing.name == name)
    }

    /// The pairings for the projects of this daemon.
    fn served<'a>(&'a self, listed: &'a Listed) -> impl Iterator<Item = &'a Pairing> {
        listed.pairings.iter().filter(|pairing| self.roots.contains(&pairing.root))
    }
}

fn listed(pairings: &Pairings) -> Listed {
    pairings.all().unwrap_or_else(|error| Listed { pairings: Vec::new(), problems: vec![error] })
}

#[async_trait]
impl Keyring for Paired {
    async fn token(&self, key: &str, project: &str) -> Result<Token> {
        let (pairings, roots) = (self.pairings.clone(), self.roots.clone());
        let (key, project) = (key.to_string(), project.to_string());
        on_a_thread(move || pairings.token(&key, &project, &roots, SystemClock.now())).await
    }

    async fn proved(&self, key: &str, host: Option<&str>, node: Option<NodeId>) -> Result<String> {
        let (pairings, key, host) = (self.pairings.clone(), key.to_string(), host.map(str::to_string));
        on_a_thread(move || pairings.claim(&key, host.as_deref(), node, SystemClock.now())).await
    }

    async fn ended(&self, key: &str) {
        let mut known = self.known.subscribe();
        loop {
            let (pairings, key) = (self.pairings.clone(), key.to_string());
            let holds = on_a_thread(move || Ok(pairings.holds(&key))).await;
            if !holds.unwrap_or(true) || known.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Runs what looks at files.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::internal("looking at the pairings ended unexpectedly"))?
}
