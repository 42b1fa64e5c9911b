//! The links that other hosts have dialled, as the host that serves them sees them.
//!
//! Such a link is driven by the other host. That its answers arrive, and what became of the messages that were streamed
//! to it, only the other host knows; it tells so in its `hello` ([`LinkReport`]).

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use fmail_api::{
    Authentication, Clock, Context, Event, EventStream, HelloRequest, Imported, LinkReport, LinkStatus, MessageId,
    Node, NodeId, Principal, RelayRequest, Result,
};
use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::status::{LinkState, UnderWay, Way};
use crate::callers::Callers;

/// So many are remembered at most; those that are gone are forgotten first.
const MOST: usize = 256;
/// A neighbour that asks nothing for so long is not there any more, whatever its connection looks like.
const QUIET: Duration = Duration::from_secs(12);
/// So many messages are counted one by one that were streamed and not dealt with. The kernel holds fewer.
const MOST_UNDER_WAY: usize = 20_000;

/// Who has dialled us about one project.
pub struct Neighbours {
    project: String,
    /// Which host this is.
    node: Option<Node>,
    clock: Arc<dyn Clock>,
    callers: Arc<Callers>,
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
    /// It says who it is, and how the link does.
    told: bool,
    /// The name of the pairing by which it is let in; a host may have been paired twice.
    paired: Mutex<Option<String>>,
    reading: Mutex<Reading>,
}

/// How far a neighbour has read what is streamed to it.
#[derive(Default)]
struct Reading {
    /// The connection over which it reads.
    session: Option<String>,
    /// How many streams it has asked for there.
    stream: u64,
    /// How many messages were written to the last of them.
    written: u64,
    /// How many of them it has dealt with, as far as it has told.
    dealt: u64,
    /// The others, each with its time; none before it has told anything, since one that never tells has them all.
    under_way: VecDeque<UnderWay>,
    tells: bool,
}

impl Neighbour {
    fn heard(&self) {
        *locked(&self.heard) = Instant::now();
    }

    fn is_there(&self) -> bool {
        let lately = locked(&self.heard).elapsed() < QUIET;
        self.streams.load(Ordering::Acquire) > 0 && (lately || !self.told)
    }

    /// It reads a stream. Whether that is the first over a new connection.
    fn reads(&self, session: Option<&String>) -> bool {
        let mut reading = locked(&self.reading);
        let anew = reading.stream == 0 || reading.session.as_ref() != session;
        let stream = if anew { 1 } else { reading.stream + 1 };
        // What it did not take from the stream before waits for it, until both have compared.
        let under_way = std::mem::take(&mut reading.under_way);
        *reading = Reading { session: session.cloned(), stream, ..Reading::default() };
        drop(reading);
        drop(under_way);
        anew
    }

    /// A message was written to its stream.
    fn wrote(&self, id: MessageId) {
        if !self.told {
            return self.state.written(id);
        }
        let mut reading = locked(&self.reading);
        reading.written += 1;
        if reading.tells {
            reading.under_way.push_back(self.state.departs());
            if reading.under_way.len() > MOST_UNDER_WAY {
                reading.deals_with_one();
            }
        }
    }

    /// It has told how the link does.
    fn reported(&self, report: &LinkReport, remark: Option<String>) {
        self.state.reported(report, remark);
        let mut reading = locked(&self.reading);
        if reading.stream != report.stream {
            return;
        }
        if !std::mem::replace(&mut reading.tells, true) {
            reading.dealt = report.dealt.min(reading.written);
            let missed = (reading.written - reading.dealt).min(MOST_UNDER_WAY as u64);
            reading.under_way = (0..missed).map(|_| self.state.departs()).collect();
        }
        while reading.dealt < report.dealt && !reading.under_way.is_empty() {
            reading.deals_with_one();
        }
    }

    /// All its streams have ended.
    fn is_gone(&self) {
        let under_way = std::mem::take(&mut locked(&self.reading).under_way);
        drop(under_way);
        self.state.lost("it has closed its connection".into());
    }
}

impl Reading {
    fn deals_with_one(&mut self) {
        if let Some(one) = self.under_way.pop_front() {
            self.dealt += 1;
            one.arrived();
        }
    }
}

impl Neighbours {
    /// Nobody has dialled yet. `node` is this host, and `callers` knows over which connections others call.
    pub fn new(project: impl Into<String>, node: Option<Node>, clock: Arc<dyn Clock>, callers: Arc<Callers>) -> Self {
        let (project, changed) = (project.into(), watch::Sender::new(0));
        Neighbours { project, node, clock, callers, known: Mutex::default(), introduced: Mutex::default(), changed }
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
        let neighbour = self.known().get(&Key::Run(node.run)).cloned();
        if let Some(neighbour) = neighbour {
            neighbour.state.introduced(Some(node.clone()), hello.version.clone());
            neighbour.heard();
            if let Some(report) = hello.link.as_ref().filter(|_| neighbour.is_there()) {
                neighbour.reported(report, self.remark(node));
            }
        }
    }

    /// What an operator should know of a host, although the link works.
    fn remark(&self, other: &Node) -> Option<String> {
        self.node.as_ref().filter(|node| node.id == other.id).map(copied)
    }

    /// What to say of a caller that tells no more of itself than a name, and that is ours.
    fn namesake(&self, context: &Context) -> Option<String> {
        let own = self.node.as_ref().filter(|node| context.host.as_ref() == Some(&node.host))?;
        Some(format!("it calls itself `{}`, as this host does, and nothing proves which host it is", own.host))
    }

    /// The stream that a neighbour has asked for. As long as it lives, the neighbour is there.
    pub fn during(self: &Arc<Self>, context: &Context, request: &RelayRequest, events: EventStream) -> EventStream {
        let neighbour = self.neighbour(context, request.to);
        let streams = neighbour.streams.fetch_add(1, Ordering::AcqRel);
        neighbour.heard();
        if neighbour.reads(context.session.as_ref()) || streams == 0 {
            let caller = context.session.as_ref().and_then(|session| self.callers.caller(session));
            let remark = match neighbour.state.view().node {
                Some(node) => self.remark(&node),
                None => self.namesake(context),
            };
            let authentication = match &context.principal {
                Principal::Peer(name) => {
                    neighbour.state.named(name);
                    *locked(&neighbour.paired) = Some(name.clone());
                    Some(Authentication::Paired)
                }
                Principal::Token(_) => Some(Authentication::Token),
                Principal::Local | Principal::User(_) | Principal::Anonymous => None,
            };
            // Paired hosts are served over TLS only.
            let paired = authentication == Some(Authentication::Paired);
            let encrypted = caller.as_ref().is_some_and(|caller| caller.is_encrypted()) || paired;
            neighbour.state.protected(authentication, encrypted);
            neighbour.state.proved(!matches!(context.principal, Principal::Anonymous));
            neighbour.state.begins(caller.map(|caller| caller.traffic.clone()), remark);
        }
        self.changed.send_modify(|number| *number += 1);
        Streaming { events, neighbour, neighbours: self.clone() }.boxed()
    }

    /// What became of a message that a neighbour has brought, or somebody who has not said who it is.
    pub fn imported(&self, context: &Context, from: Option<NodeId>, id: MessageId, imported: &Result<Imported>) {
        let Some(neighbour) = from.and_then(|run| self.known().get(&Key::Run(run)).cloned()) else {
            let caller = context.session.as_ref().and_then(|session| self.callers.caller(session));
            match (caller, imported) {
                (Some(caller), Ok(Imported::Refused(reason))) => {
                    caller.turned_away(&format!("its message {id} was refused: {reason:?}"));
                }
                (Some(caller), Err(error)) => caller.turned_away(error.message()),
                _ => {}
            }
            return;
        };
        neighbour.heard();
        match imported {
            Ok(imported) => neighbour.state.imported(Way::Inward, id, imported),
            Err(_) => neighbour.state.refused(Way::Inward, 1),
        }
    }

    /// What became of records that were brought over a connection.
    pub fn merged(&self, context: &Context, changed: u64, refused: u64) {
        let over = |neighbour: &&Arc<Neighbour>| {
            context.session.is_some() && locked(&neighbour.reading).session == context.session
        };
        if let Some(neighbour) = self.known().values().find(over) {
            neighbour.state.merged(changed);
            neighbour.state.refused(Way::Inward, refused);
        }
    }

    /// Whether a host has dialled us and works on that link.
    pub fn serves(&self, run: NodeId) -> bool {
        self.known().get(&Key::Run(run)).is_some_and(|neighbour| neighbour.is_there())
    }

    /// Whether a host that would come again is not there now.
    pub fn miss_one(&self) -> bool {
        self.known().values().any(|neighbour| neighbour.told && !neighbour.is_there())
    }

    /// A message has arrived here that hosts which are not there now lack.
    pub fn waits(&self) {
        let gone = |neighbour: &&Arc<Neighbour>| neighbour.told && !neighbour.is_there();
        self.known().values().filter(gone).for_each(|neighbour| neighbour.state.waits());
    }

    /// Tells when a neighbour comes or goes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The links, as they are now.
    pub fn links(&self) -> Vec<LinkStatus> {
        self.links_of(|_| true)
    }

    /// The same, without hosts that are gone and whose pairing does not hold any more: nobody awaits them.
    pub fn links_of(&self, holds: impl Fn(&str) -> bool) -> Vec<LinkStatus> {
        let view = |neighbour: &Arc<Neighbour>| {
            let mut status = neighbour.state.view();
            if status.connected && !neighbour.is_there() {
                status.connected = false;
                status.problem = Some(format!("it has asked nothing for {} s", QUIET.as_secs()));
            }
            let awaited = locked(&neighbour.paired).as_ref().is_none_or(|name| holds(name));
            (status.connected || awaited).then_some(status)
        };
        self.known().values().filter_map(view).collect()
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
        let (name, paired) = match &context.principal {
            Principal::Peer(name) => (name.clone(), Some(name.clone())),
            _ => (context.host.clone().unwrap_or_else(|| context.agent.to_string()), None),
        };
        let introduced = run.and_then(|run| locked(&self.introduced).get(&run).cloned());
        let node = introduced.as_ref().map(|(node, _)| node.clone());
        // An earlier run of the same host, whichever of its pairings it comes by: what was counted, and what waits for it, goes
        // on. Names are not enough, since two hosts may have one.
        let is_it = |old: &Neighbour| {
            let of = old.state.view().node.map(|node| node.id);
            old.told
                && !old.is_there()
                && locked(&old.paired).is_some() == paired.is_some()
                && of.is_some()
                && of == node.as_ref().map(|node| node.id)
        };
        let before = known.iter().find(|(_, old)| is_it(old)).map(|(key, _)| key.clone());
        let before = before.and_then(|key| known.remove(&key)).filter(|_| run.is_some());
        let state = match before {
            Some(old) => old.state.clone(),
            None => {
                let state = LinkState::new(name, self.project.clone(), self.clock.clone());
                Arc::new(state.incoming(run.is_none()))
            }
        };
        if let Some((node, version)) = introduced {
            state.introduced(Some(node), version);
        }
        let neighbour = Arc::new(Neighbour {
            state,
            streams: AtomicUsize::new(0),
            heard: Mutex::new(Instant::now()),
            told: run.is_some(),
            paired: Mutex::new(paired),
            reading: Mutex::default(),
        });
        while known.len() >= MOST {
            let gone = known.iter().find(|(_, old)| !old.is_there()).map(|(key, _)| key.clone());
            let Some(gone) = gone.or_else(|| known.keys().next().cloned()) else { break };
            known.remove(&gone);
        }
        known.insert(key, neighbour.clone());
        neighbour
    }

    /// A neighbour has no stream any more. One that does not say who it is may never come again, and could not be recognised
    /// if it did: nothing is left of it.
    fn left(&self, neighbour: &Arc<Neighbour>) {
        neighbour.is_gone();
        if !neighbour.told {
            self.known().retain(|_, known| !Arc::ptr_eq(known, neighbour));
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Neighbour>>> {
        locked(&self.known)
    }
}

/// What to say of a host that has our own id.
pub(super) fn copied(node: &Node) -> String {
    format!(
        "the peer has the node id of this host, {}: one of the two is a copy; remove the file `node` from its user's data \
         directory of fmail and start its daemon again",
        node.id
    )
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
            self.neighbour.wrote(delivery.message.id);
        }
        Poll::Ready(next)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if self.neighbour.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.neighbours.left(&self.neighbour);
        }
        self.neighbours.changed.send_modify(|number| *number += 1);
    }
}
