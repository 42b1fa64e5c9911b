//! The relay of a project: one link for each peer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Clock, Context, Host, LinkStatus, Node, ProjectRef, Relay, RelayStatus, Result, Shutdown};
use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::dial::PeerAddress;
use super::dialler::{Dialler, Served};
use super::neighbours::Neighbours;
use super::pace::Pace;
use super::plain::LastSeen;
use super::status::LinkState;

/// A peer of the configuration.
#[derive(Clone)]
pub struct Peer {
    /// As the configuration names it.
    pub name: String,
    /// Where it is.
    pub address: PeerAddress,
}

/// What a relay of one project is made of.
#[derive(Clone)]
pub struct PeerSettings {
    /// Which host this is.
    pub node: Node,
    /// The project's id.
    pub project: String,
    /// Whom to dial.
    pub peers: Vec<Peer>,
    /// How long a peer may take to say hello.
    pub dial_timeout: Duration,
    /// How long to wait before a peer that is gone is dialled again.
    pub reconnect_interval: Duration,
    /// The longest line that is read from a peer.
    pub line_bytes: usize,
    /// The measures of sessions.
    pub pace: Pace,
}

/// Keeps a project in step with other hosts, over one link for each peer.
pub struct PeerRelay {
    settings: PeerSettings,
    clock: Arc<dyn Clock>,
    neighbours: Arc<Neighbours>,
    links: Vec<Arc<LinkState>>,
}

impl PeerRelay {
    /// A relay that dials these peers; `neighbours` are those who dial us.
    pub fn new(settings: PeerSettings, clock: Arc<dyn Clock>, neighbours: Arc<Neighbours>) -> Self {
        let link = |peer: &Peer| Arc::new(LinkState::new(peer.name.clone(), settings.project.clone(), clock.clone()));
        let links = settings.peers.iter().map(link).collect();
        PeerRelay { settings, clock, neighbours, links }
    }

    /// Every link as it is now: those that we dial, and those that others have dialled.
    pub fn links(&self) -> Vec<LinkStatus> {
        self.links.iter().map(|link| link.view()).chain(self.neighbours.links()).collect()
    }
}

#[async_trait]
impl Relay for PeerRelay {
    fn name(&self) -> &str {
        "peer"
    }

    async fn run(&self, local: Arc<dyn Host>, shutdown: Shutdown) -> Result<()> {
        let here = local.open(ProjectRef::Id(self.settings.project.clone())).await?;
        let (mut links, served) = (JoinSet::new(), Arc::new(Served::default()));
        for (peer, state) in self.settings.peers.iter().zip(&self.links) {
            let dialler = Dialler {
                settings: self.settings.clone(),
                peer: peer.clone(),
                here: here.clone(),
                context: context(&self.settings)?,
                clock: self.clock.clone(),
                neighbours: self.neighbours.clone(),
                state: state.clone(),
                served: served.clone(),
                seen: LastSeen::default(),
                run: None,
            };
            links.spawn(dialler.keep());
        }
        shutdown.await;
        links.shutdown().await;
        Ok(())
    }

    fn status(&self) -> BoxStream<'static, RelayStatus> {
        let changes: Vec<watch::Receiver<u64>> =
            self.links.iter().map(|link| link.changes()).chain([self.neighbours.changes()]).collect();
        let (links, neighbours) = (self.links.clone(), self.neighbours.clone());
        let view =
            move || RelayStatus { links: links.iter().map(|link| link.view()).chain(neighbours.links()).collect() };
        let changed = changes.into_iter().map(|receiver| {
            futures::stream::unfold(receiver, |mut receiver| async {
                receiver.changed().await.ok()?;
                Some(((), receiver))
            })
            .boxed()
        });
        let first = futures::stream::once(async {});
        first.chain(select_all(changed)).map(move |()| view()).boxed()
    }
}

/// On whose behalf this host asks others.
fn context(settings: &PeerSettings) -> Result<Context> {
    let host = &settings.node.host;
    let agent = format!("relay-{}", host.to_ascii_lowercase()).parse().or_else(|_| "relay".parse())?;
    let mut context = Context::local(agent);
    (context.host, context.project) = (Some(host.clone()), Some(settings.project.clone()));
    Ok(context)
}
