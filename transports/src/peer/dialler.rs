//! Dialling a peer, working with it, and dialling it again.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fmail_api::{Client, Clock, Context, Error, ErrorKind, Event, Hello, Node, NodeId, Operation, Result};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use tokio::time::{Instant, sleep, timeout};

use super::address::PeerAddress;
use super::dial::{Dialled, Dialling, Sign};
use super::end::End;
use super::link::Link;
use super::neighbours::{Neighbours, copied};
use super::plain::{self, LastSeen};
use super::relay::PeerSettings;
use super::session::{Ended, Session, locked};
use super::status::LinkState;

/// What will not change soon is looked at again after so long.
const SLOWLY: Duration = Duration::from_secs(10);

/// Which hosts our own links serve, and over which of them: an address may be written in two ways.
#[derive(Default)]
pub struct Served(Mutex<HashMap<NodeId, String>>);

/// A host that one link serves, until this is dropped.
struct Serving {
    served: Arc<Served>,
    run: NodeId,
}

impl Served {
    /// Takes a host for a link; the error is the link that has it.
    fn take(self: &Arc<Self>, run: NodeId, peer: &str) -> Result<Serving, String> {
        let mut served = locked(&self.0);
        if let Some(other) = served.get(&run) {
            return Err(other.clone());
        }
        served.insert(run, peer.to_string());
        Ok(Serving { served: self.clone(), run })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        locked(&self.served.0).remove(&self.run);
    }
}

/// Keeps the link to one peer.
pub struct Dialler {
    pub settings: PeerSettings,
    pub peer: PeerAddress,
    pub here: Arc<dyn Client>,
    pub context: Context,
    pub clock: Arc<dyn Clock>,
    pub neighbours: Arc<Neighbours>,
    pub state: Arc<LinkState>,
    pub served: Arc<Served>,
    pub seen: LastSeen,
    /// Which run of the peer was there last.
    pub run: Option<NodeId>,
}

/// When to dial again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// At once: nothing was wrong.
    Now,
    /// After the usual time.
    Soon,
    /// Nothing will change soon.
    Slowly,
}

impl Dialler {
    /// Dials, works, and dials again, for as long as it is polled.
    pub async fn keep(mut self) {
        let mut again = Again::Now;
        loop {
            // Counted from here until somebody is there to take it, over as many attempts as that takes.
            let mut waiting = self.count_waiting();
            let dialled = loop {
                let attempt = async {
                    self.pause(again).await;
                    self.dial().await
                };
                let attempt = tokio::select! {
                    attempt = attempt => attempt,
                    () = &mut waiting => continue,
                };
                match attempt {
                    Ok(dialled) => break dialled,
                    Err(error) => again = self.failed(&error),
                }
            };
            drop(waiting);
            again = self.work(dialled).await;
        }
    }

    async fn pause(&self, again: Again) {
        let usual = self.settings.reconnect_interval;
        match again {
            Again::Now => {}
            Again::Soon => sleep(jittered(usual)).await,
            Again::Slowly => sleep(jittered(SLOWLY.max(5 * usual))).await,
        }
    }

    async fn dial(&self) -> Result<Dialled> {
        let dialling = Dialling {
            to: &self.peer,
            node: &self.settings.node,
            context: &self.context,
            time: self.settings.dial_timeout,
            line_bytes: self.settings.line_bytes,
            traffic: self.state.traffic(),
        };
        dialling.dial().await
    }

    /// Counts what arrives here while the peer is not there to take it. Does not end.
    fn count_waiting(&self) -> BoxFuture<'static, ()> {
        let (here, state) = (self.end_here(), self.state.clone());
        let (to, again) = (self.run, self.settings.pace.again);
        async move {
            loop {
                if let Ok(mut events) = here.relay(None, to).await {
                    while let Some(Ok(event)) = events.next().await {
                        if let Event::Message(_) = event {
                            state.waits();
                        }
                    }
                }
                sleep(again).await;
            }
        }
        .boxed()
    }

    fn failed(&self, error: &Error) -> Again {
        let problem = match error.kind() {
            ErrorKind::InvalidProject => {
                format!("the peer does not serve the project {}: {error}", self.settings.project)
            }
            _ => error.to_string(),
        };
        self.state.lost(problem);
        match error.kind() {
            ErrorKind::InvalidProject | ErrorKind::Denied => Again::Slowly,
            _ => Again::Soon,
        }
    }

    async fn work(&mut self, dialled: Dialled) -> Again {
        self.state.proved(self.peer.authentication().is_some());
        match dialled {
            Dialled::Plain(connection, sign) => {
                let (asked, since) = (Instant::now(), self.seen.since(&*self.clock));
                let events = plain::ask(connection, &self.context, since);
                let events = timeout(self.settings.pace.dead, events).await.unwrap_or_else(|_| Err(silent()));
                if sign == Sign::Closed && events.is_ok() {
                    // It closed a connection, and answers now: perhaps it had only been started, or cut off. A host that is
                    // taken for a plain peer gives its messages without what its replies mean.
                    match self.dial().await {
                        Ok(Dialled::Greeted(link, hello)) => return self.greeted(link, &hello).await,
                        Ok(Dialled::Plain(..)) => {}
                        Err(error) => return self.failed(&error),
                    }
                }
                self.state.introduced(None, None);
                self.take_in(asked, events).await
            }
            Dialled::Greeted(link, hello) => self.greeted(link, &hello).await,
        }
    }

    async fn greeted(&mut self, link: Arc<Link>, hello: &Hello) -> Again {
        self.state.introduced(hello.node.clone(), Some(hello.version.clone()));
        match hello.node.clone().filter(|_| knows_how(hello)) {
            Some(node) => self.exchange(link, node, hello.operations.contains(&Operation::ImportMany)).await,
            None => {
                let asked = Instant::now();
                let there = End { client: link, context: self.context.clone(), run: NodeId::new(0), many: false };
                let events = there.relay(Some(self.seen.since(&*self.clock)), None);
                let events = timeout(self.settings.pace.dead, events).await;
                self.take_in(asked, events.unwrap_or_else(|_| Err(silent()))).await
            }
        }
    }

    /// Takes in what a peer streams that knows no more than that.
    async fn take_in(&mut self, asked: Instant, events: Result<fmail_api::EventStream>) -> Again {
        let events = match events {
            Ok(events) => events,
            Err(error) => return self.failed(&error),
        };
        self.state.answered(asked.elapsed());
        self.state.connected(None);
        let (here, pace) = (self.end_here(), self.settings.pace);
        let error = plain::take_in(&here, events, &pace, &self.state, &mut self.seen).await;
        match error.kind() {
            // Only to hear whether it is still there.
            ErrorKind::Cancelled => Again::Now,
            _ => self.failed(&error),
        }
    }

    /// Exchanges with a host as long as it is there, unless another link does so. `many`: it takes many messages at a time.
    async fn exchange(&mut self, link: Arc<Link>, peer: Node, many: bool) -> Again {
        let node = self.settings.node.clone();
        if peer.run == node.run {
            self.state.lost("this address leads to this daemon itself: take it out of mail.relay.peers".into());
            return Again::Slowly;
        }
        self.run = Some(peer.run);
        let remark = (peer.id == node.id).then(|| copied(&node));
        let there = End { client: link.clone(), context: self.context.clone(), run: peer.run, many };
        loop {
            if let Some(serves) = self.other_link(&node, &peer) {
                match self.stand_by(&link, &there, &peer, &serves).await {
                    Some(error) => return self.failed(&error),
                    None => continue,
                }
            }
            let Ok(_serving) = self.served.take(peer.run, &self.peer.name) else { continue };
            let (here, pace, state) = (self.end_here(), self.settings.pace, self.state.clone());
            let session = Session::new(node.clone(), here, there.clone(), pace, state, remark.clone());
            tokio::select! {
                ended = session.run(link.ended()) => {
                    let Ended::Lost(error) = ended;
                    return self.failed(&error);
                }
                // Dialled anew to stand by: what was asked for on this connection would come on it as long as it is open.
                () = self.taken_over(&node, &peer) => return Again::Now,
            }
        }
    }

    /// What serves this host instead of our link. Of two hosts that have dialled each other, the one whose run has the
    /// lower number works; both see the same two numbers.
    fn other_link(&self, node: &Node, peer: &Node) -> Option<String> {
        if node.run > peer.run && self.neighbours.serves(peer.run) {
            return Some("stands by: the link that the peer has dialled serves both ways".into());
        }
        let other = locked(&self.served.0).get(&peer.run).cloned();
        other.map(|other| format!("stands by: the link to {other} leads to the same host"))
    }

    /// Resolves when the peer's own link has begun to work and ours has to give way.
    async fn taken_over(&self, node: &Node, peer: &Node) {
        if node.run < peer.run {
            return std::future::pending().await;
        }
        let mut changes = self.neighbours.changes();
        while !self.neighbours.serves(peer.run) {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Makes sure that the peer is there, until the other link is gone; the error is why the peer is not.
    async fn stand_by(&self, link: &Link, there: &End, peer: &Node, serves: &str) -> Option<Error> {
        let (node, pace) = (&self.settings.node, self.settings.pace);
        let mut changes = self.neighbours.changes();
        loop {
            let asked = Instant::now();
            match timeout(pace.dead, there.hello(node, None)).await {
                Ok(Ok(_)) => self.state.answered(asked.elapsed()),
                Ok(Err(error)) => return Some(error),
                Err(_) => return Some(silent()),
            }
            self.state.connected(Some(serves.into()));
            self.state.waits_no_more();
            tokio::select! {
                error = link.ended() => return Some(error),
                _ = changes.changed() => {}
                () = sleep(pace.ping) => {}
            }
            self.other_link(node, peer)?;
        }
    }

    fn end_here(&self) -> End {
        End { client: self.here.clone(), context: self.context.clone(), run: self.settings.node.run, many: true }
    }
}

/// Whether a peer can do more than stream.
fn knows_how(hello: &Hello) -> bool {
    let needed = [Operation::Relay, Operation::Digest, Operation::Fetch, Operation::Import];
    needed.iter().all(|operation| hello.operations.contains(operation))
}

fn silent() -> Error {
    Error::new(ErrorKind::Timeout, "the peer does not answer")
}

/// Not everybody at the same moment.
fn jittered(time: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1_000;
    time.mul_f64(0.8 + 0.4 * random as f64 / 1_000.0)
}
