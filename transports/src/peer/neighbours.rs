//! The links that other hosts have dialled, as the host that serves them sees them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use fmail_api::{
    Clock, Context, Event, EventStream, HelloRequest, Imported, LinkStatus, MessageId, Node, NodeId, Principal,
    RelayRequest, Result,
};
use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::status::{LinkState, Way};

/// So many are remembered at most; those that are gone are forgotten first.
const MOST: usize = 256;
/// A neighbour that asks nothing for so long is not there any more, whatever its connection looks like.
const QUIET: Duration = Duration::from_secs(12);

/// Who has dialled us about one project.
pub struct Neighbours {
    project: String,
    clock: Arc<dyn Clock>,
    known: Mutex<BTreeMap<Key, Arc<Neighbour>>>,
    /// Who has said hello, with its version; whether it will dial more is not known yet.
    introduced: Mutex<BTreeMap<NodeId, (Node, Option<String>)>>,
    /// Moves when a neighbour comes or goes.
    changed: watch::Sender<u64>,
}

/// By what a neighbour is recognised: by its run, or, where it does not tell, by its connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Run(NodeId),
    Session(String),
}

/// A host that has dialled us.
pub struct Neighbour {
    state: Arc<LinkState>,
    /// How many of our streams it reads.
    streams: AtomicUsize,
    heard: Mutex<Instant>,
    told: bool,
}

impl Neighbour {
    fn heard(&self) {
        *locked(&self.heard) = Instant::now();
    }

    fn is_there(&self) -> bool {
        let lately = locked(&self.heard).elapsed() < QUIET;
        self.streams.load(Ordering::Acquire) > 0 && (lately || !self.told)
    }
}

impl Neighbours {
    /// Nobody has dialled yet.
    pub fn new(project: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        let changed = watch::Sender::new(0);
        Neighbours { project: project.into(), clock, known: Mutex::default(), introduced: Mutex::default(), changed }
    }

    /// A host has said hello. It is shown once it reads our stream: one that stands by has a link of ours that works.
    pub fn greeted(&self, hello: &HelloRequest) {
        let Some(node) = &hello.node else { return };
        let mut introduced = locked(&self.introduced);
        if introduced.len() >= MOST && !introduced.contains_key(&node.run) {
            introduced.clear();
        }
        introduced.insert(node.run, (node.clone(), hello.version.clone()));
        drop(introduced);
        if let Some(neighbour) = self.known().get(&Key::Run(node.run)) {
            neighbour.state.introduced(Some(node.clone()), hello.version.clone());
            neighbour.heard();
        }
    }

    /// The stream that a neighbour has asked for. As long as it lives, the neighbour is there.
    pub fn during(self: &Arc<Self>, context: &Context, request: &RelayRequest, events: EventStream) -> EventStream {
        let neighbour = self.neighbour(context, request.to);
        neighbour.streams.fetch_add(1, Ordering::AcqRel);
        neighbour.heard();
        neighbour.state.connected(None);
        self.changed.send_modify(|number| *number += 1);
        Streaming { events, neighbour, neighbours: self.clone() }.boxed()
    }

    /// What became of a message that a neighbour has brought.
    pub fn imported(&self, from: Option<NodeId>, id: MessageId, imported: &Result<Imported>) {
        let Some(neighbour) = from.and_then(|run| self.known().get(&Key::Run(run)).cloned()) else { return };
        neighbour.heard();
        match imported {
            Ok(imported) => neighbour.state.imported(Way::Inward, id, imported),
            Err(_) => neighbour.state.refused(Way::Inward, 1),
        }
    }

    /// Whether a host has dialled us and works on that link.
    pub fn serves(&self, run: NodeId) -> bool {
        self.known().get(&Key::Run(run)).is_some_and(|neighbour| neighbour.is_there())
    }

    /// Tells when a neighbour comes or goes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The links, as they are now.
    pub fn links(&self) -> Vec<LinkStatus> {
        let view = |neighbour: &Arc<Neighbour>| {
            let mut status = neighbour.state.view();
            if status.connected && !neighbour.is_there() {
                status.connected = false;
                status.problem = Some(format!("it has asked nothing for {} s", QUIET.as_secs()));
            }
            status
        };
        self.known().values().map(view).collect()
    }

    fn neighbour(&self, context: &Context, run: Option<NodeId>) -> Arc<Neighbour> {
        let key = match (run, &context.session) {
            (Some(run), _) => Key::Run(run),
            (None, Some(session)) => Key::Session(session.clone()),
            (None, None) => Key::Session(context.agent.to_string()),
        };
        let mut known = self.known();
        if let Some(neighbour) = known.get(&key) {
            return neighbour.clone();
        }
        let authenticated = !matches!(context.principal, Principal::Anonymous);
        let name = context.host.clone().unwrap_or_else(|| context.agent.to_string());
        let state = LinkState::new(name.clone(), self.project.clone(), self.clock.clone());
        let state = Arc::new(state.incoming(run.is_none(), authenticated));
        let introduced = run.and_then(|run| locked(&self.introduced).get(&run).cloned());
        if let Some((node, version)) = introduced {
            state.introduced(Some(node), version);
        }
        let heard = Mutex::new(Instant::now());
        let neighbour = Arc::new(Neighbour { state, streams: AtomicUsize::new(0), heard, told: run.is_some() });
        // What is left of an earlier run of the same host, and of connections that are long gone, is of no interest.
        known.retain(|_, old| old.is_there() || old.state.peer() != name);
        while known.len() >= MOST {
            let gone = known.iter().find(|(_, old)| !old.is_there()).map(|(key, _)| key.clone());
            let Some(gone) = gone.or_else(|| known.keys().next().cloned()) else { break };
            known.remove(&gone);
        }
        known.insert(key, neighbour.clone());
        neighbour
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Neighbour>>> {
        locked(&self.known)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a neighbour reads.
struct Streaming {
    events: EventStream,
    neighbour: Arc<Neighbour>,
    neighbours: Arc<Neighbours>,
}

impl Stream for Streaming {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.events.poll_next_unpin(task));
        if let Some(Ok(Event::Message(delivery))) = &next {
            self.neighbour.state.imported(Way::Outward, delivery.message.id, &Imported::New);
        }
        Poll::Ready(next)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if self.neighbour.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.neighbour.state.lost("it has closed its connection".into());
        }
        self.neighbours.changed.send_modify(|number| *number += 1);
    }
}
