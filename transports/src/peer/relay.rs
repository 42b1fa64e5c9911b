//! The relay of a project: one link for each peer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{
    Client, Clock, Context, Event, Host, LinkStatus, Node, ProjectRef, Relay, RelayStatus, Result, Shutdown,
};
use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::address::{PeerAddress, Peers};
use super::dialler::{Dialler, Served};
use super::end::End;
use super::neighbours::Neighbours;
use super::pace::Pace;
use super::plain::LastSeen;
use super::session::locked;
use super::status::LinkState;

/// What a relay of one project is made of.
#[derive(Clone)]
pub struct PeerSettings {
    /// Which host this is.
    pub node: Node,
    /// The project's id.
    pub project: String,
    /// Whom to dial, now and whenever that changes.
    pub peers: Peers,
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
    links: Arc<Mutex<Vec<Dialled>>>,
    /// Moves when a link comes, goes or changes.
    changed: Arc<watch::Sender<u64>>,
}

/// A peer that is dialled, and how that goes.
#[derive(Clone)]
struct Dialled {
    peer: PeerAddress,
    state: Arc<LinkState>,
}

impl PeerRelay {
    /// A relay that dials these peers; `neighbours` are those who dial us.
    pub fn new(settings: PeerSettings, clock: Arc<dyn Clock>, neighbours: Arc<Neighbours>) -> Self {
        let relay = PeerRelay { settings, clock, neighbours, links: Arc::default(), changed: Arc::default() };
        let wanted = relay.settings.peers.borrow().clone();
        relay.want(&wanted);
        relay
    }

    /// Every link as it is now: those that we dial, and those that others have dialled.
    pub fn links(&self) -> Vec<LinkStatus> {
        views(&self.links, &self.neighbours)
    }

    /// The links that we dial.
    pub fn dialled(&self) -> Vec<LinkStatus> {
        locked(&self.links).iter().map(|link| link.state.view()).collect()
    }

    /// The links to these peers and no others. What is known of one that stays is kept.
    fn want(&self, wanted: &[PeerAddress]) -> Vec<Dialled> {
        let mut links = locked(&self.links);
        links.retain(|link| wanted.contains(&link.peer));
        for peer in wanted {
            if !links.iter().any(|link| link.peer == *peer) {
                let state = LinkState::new(peer.name.clone(), self.settings.project.clone(), self.clock.clone());
                state.protected(peer.authentication(), peer.tls.is_some());
                links.push(Dialled { peer: peer.clone(), state: Arc::new(state) });
            }
        }
        self.changed.send_modify(|number| *number += 1);
        links.clone()
    }

    fn dialler(&self, link: &Dialled, here: &Arc<dyn Client>, served: &Arc<Served>) -> Result<Dialler> {
        Ok(Dialler {
            settings: self.settings.clone(),
            peer: link.peer.clone(),
            here: here.clone(),
            context: context(&self.settings)?,
            clock: self.clock.clone(),
            neighbours: self.neighbours.clone(),
            state: link.state.clone(),
            served: served.clone(),
            seen: LastSeen::default(),
            run: None,
        })
    }
}

fn views(links: &Mutex<Vec<Dialled>>, neighbours: &Neighbours) -> Vec<LinkStatus> {
    locked(links).iter().map(|link| link.state.view()).chain(neighbours.links()).collect()
}

/// Passes on that a link has changed. Does not end.
async fn pass_on(mut changes: watch::Receiver<u64>, changed: Arc<watch::Sender<u64>>) {
    while changes.changed().await.is_ok() {
        changed.send_modify(|number| *number += 1);
    }
    std::future::pending().await
}

#[async_trait]
impl Relay for PeerRelay {
    fn name(&self) -> &str {
        "peer"
    }

    async fn run(&self, local: Arc<dyn Host>, shutdown: Shutdown) -> Result<()> {
        let here = local.open(ProjectRef::Id(self.settings.project.clone())).await?;
        let (mut diallers, served) = (JoinSet::new(), Arc::new(Served::default()));
        let end =
            End { client: here.clone(), context: context(&self.settings)?, run: self.settings.node.run, many: true };
        diallers.spawn(count_waiting(self.neighbours.clone(), end, self.settings.pace.again));
        let (mut peers, mut running) = (self.settings.peers.clone(), Vec::<(Dialled, AbortHandle)>::new());
        tokio::pin!(shutdown);
        loop {
            let wanted = peers.borrow_and_update().clone();
            running.retain(|(link, task)| {
                let stays = wanted.contains(&link.peer);
                if !stays {
                    task.abort();
                }
                stays
            });
            for link in self.want(&wanted) {
                if !running.iter().any(|(known, _)| known.peer == link.peer) {
                    let dialler = self.dialler(&link, &here, &served)?;
                    let changes = pass_on(link.state.changes(), self.changed.clone());
                    let task = diallers.spawn(async { futures::join!(dialler.keep(), changes).0 });
                    running.push((link, task));
                }
            }
            tokio::select! {
                () = &mut shutdown => break,
                Ok(()) = peers.changed() => {}
                // Those who are gone need no place.
                Some(_) = diallers.join_next(), if !diallers.is_empty() => {}
            }
        }
        diallers.shutdown().await;
        Ok(())
    }

    fn status(&self) -> BoxStream<'static, RelayStatus> {
        let (links, neighbours) = (self.links.clone(), self.neighbours.clone());
        let changed = [self.changed.subscribe(), self.neighbours.changes()].map(|receiver| {
            futures::stream::unfold(receiver, |mut receiver| async {
                receiver.changed().await.ok()?;
                Some(((), receiver))
            })
            .boxed()
        });
        let first = futures::stream::once(async {});
        first.chain(select_all(changed)).map(move |()| RelayStatus { links: views(&links, &neighbours) }).boxed()
    }
}

/// Counts what arrives here while hosts are away that dial us. Does not end.
async fn count_waiting(neighbours: Arc<Neighbours>, here: End, again: Duration) {
    let mut changes = neighbours.changes();
    loop {
        while !neighbours.miss_one() {
            if changes.changed().await.is_err() {
                return;
            }
        }
        let Ok(mut events) = here.relay(None, None).await else {
            sleep(again).await;
            continue;
        };
        while neighbours.miss_one() {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(Event::Message(_))) => neighbours.waits(),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                },
                _ = changes.changed() => {}
            }
        }
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
