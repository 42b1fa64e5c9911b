//! Other hosts: whom the configuration names, who may ask for what, and what can be seen of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fmail_api::{
    Context, Error, ErrorKind, LinkStatus, Node, Principal, RecordsRequest, Relay, RelayView, Request, Result,
    RunningRelay, Shutdown,
};
use fmail_host::{Environment, Settings, SystemClock, this_node};
use fmail_transports::peer::{Believed, Neighbours, Pace, PeerAddress, PeerRelay, PeerSettings};
use fmail_transports::{Callers, Token};
use futures::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::host::Projects;
use crate::paired::Paired;
use crate::project::Opened;

/// What the configuration of a project says about other hosts.
pub struct Configured {
    /// Whether hosts are served and dialled at all.
    pub enabled: bool,
    peers: Vec<PeerAddress>,
    dial_timeout: Duration,
    reconnect_interval: Duration,
    line_bytes: usize,
    notes: Vec<String>,
}

impl Configured {
    /// What the user or the system says. What only the project's own file says counts when it is trusted; otherwise it is
    /// told to whoever asks, and nobody is dialled.
    pub fn from(settings: &Settings, environment: &Environment) -> Result<Configured> {
        let (relay, default, tcp) = (&settings.mail.relay, Settings::default().mail.relay, &settings.mail.tcp);
        let untrusted = settings.untrusted();
        let trusts = |key: &str| !untrusted.contains(&key);
        let enabled = relay.enabled && trusts("mail.relay.enabled");
        let mut notes = Vec::new();
        if relay.enabled && !enabled {
            notes.push(not_trusted("mail.relay.enabled", "this project is not relayed"));
        }
        if !relay.peers.is_empty() && !trusts("mail.relay.peers") {
            notes.push(not_trusted("mail.relay.peers", &format!("{} is not dialled", relay.peers.join(", "))));
        }
        let dials = enabled && trusts("mail.relay.peers");
        let (token, tls) = match dials {
            true => {
                (tcp.shared_token(environment)?.map(Token::new), tcp.authority(environment)?.map(Believed::Authority))
            }
            false => (None, None),
        };
        let peer = |address: &String| -> Result<PeerAddress> {
            Ok(PeerAddress { token: token.clone(), tls: tls.clone(), ..PeerAddress::plain(address.parse()?) })
        };
        let peers = if dials { relay.peers.iter().map(peer).collect::<Result<_>>()? } else { Vec::new() };
        let time = |key, found, default| if trusts(key) { found } else { default };
        Ok(Configured {
            enabled,
            peers,
            dial_timeout: time("mail.relay.dial_timeout", relay.dial_timeout, default.dial_timeout),
            reconnect_interval: time(
                "mail.relay.reconnect_interval",
                relay.reconnect_interval,
                default.reconnect_interval,
            ),
            line_bytes: 3 * settings.mail.max_message_bytes + 64 * 1024,
            notes,
        })
    }
}

fn not_trusted(key: &str, what: &str) -> String {
    format!(
        "`{key}` stands in the project's own file, which is not trusted, so {what}; set it in your own file, or read the \
         project's file and run `fmail trust`"
    )
}

/// Which host this is, and who calls it: the same for all projects of a daemon.
pub struct ThisHost {
    node: OnceLock<Node>,
    /// Who calls where other machines can.
    pub callers: Arc<Callers>,
}

impl Default for ThisHost {
    fn default() -> Self {
        ThisHost { node: OnceLock::new(), callers: Callers::new(Arc::new(SystemClock)) }
    }
}

impl ThisHost {
    /// The host, the same for all projects of this daemon.
    pub fn node(&self, environment: &Environment) -> Result<Node> {
        if let Some(node) = self.node.get() {
            return Ok(node.clone());
        }
        let node = this_node(environment)?;
        Ok(self.node.get_or_init(|| node).clone())
    }
}

/// What a project needs to have to do with other hosts.
pub struct Others {
    /// Which host this is; none for a project that has nothing to do with others, and cannot have.
    pub node: Option<Node>,
    /// Whether also hosts are served that were not paired with this one.
    pub enabled: bool,
    /// Who calls where other machines can.
    pub callers: Arc<Callers>,
}

impl Others {
    /// Nothing to do with others.
    pub fn none() -> Others {
        Others { node: None, enabled: false, callers: Callers::new(Arc::new(SystemClock)) }
    }
}

/// What a project has to do with other hosts.
pub struct Relaying {
    /// Which host this is; none for a project that has nothing to do with others, and cannot have.
    pub node: Option<Node>,
    /// Whether also hosts are served that were not paired with this one.
    enabled: bool,
    callers: Arc<Callers>,
    /// Those who have dialled us.
    pub neighbours: Arc<Neighbours>,
    peer: OnceLock<Arc<PeerRelay>>,
    paired: OnceLock<Arc<Paired>>,
    /// The project's id and directory, where pairings may name it.
    served: OnceLock<(String, PathBuf)>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The links of relays that are plugins, by the relay's name.
    plugins: BTreeMap<String, Vec<LinkStatus>>,
    notes: Vec<String>,
}

impl Relaying {
    /// A project that can be relayed when a node is given: to paired hosts, and to others where that is enabled.
    pub fn new(project: &str, others: Others) -> Self {
        let Others { node, enabled, callers } = others;
        let neighbours = Neighbours::new(project, node.clone(), Arc::new(SystemClock), callers.clone());
        let (peer, paired, served, seen) = (OnceLock::new(), OnceLock::new(), OnceLock::new(), Mutex::default());
        Relaying { node, enabled, callers, neighbours: Arc::new(neighbours), peer, paired, served, seen }
    }

    /// Who may ask what is for relays only.
    ///
    /// - A relay that runs in this process is in the configuration, which is all the leave that it needs.
    /// - A paired host was let in for this project, by a key that can be revoked; it needs nothing else.
    /// - Everybody else needs `mail.relay.enabled` here.
    /// - Reading (`relay`, `digest`, `fetch`) is then for everyone who may connect: over TCP who has proved the token, and,
    ///   where none is configured, whoever reaches the address. That is PROTOCOL.md's and SPEC.md's trust.
    /// - Writing (`import`, merging records) is for hosts: for who has proved a token or a peer's secret, and, where none is
    ///   configured, for whoever reaches the address, since SPEC.md's peers are trusted. A connection is `Anonymous` only
    ///   where no token is wanted: with one, nobody who has not proved it is heard at all.
    /// - Users of this machine, on the Unix socket, do not write in other agents' names.
    pub fn check(&self, context: &Context, request: &Request) -> Result<()> {
        if !request.is_for_relays() || matches!(context.principal, Principal::Local | Principal::Peer(_)) {
            return Ok(());
        }
        if !self.enabled {
            return Err(Error::new(ErrorKind::Denied, "relaying is not enabled here").help(
                "set mail.relay.enabled = true in the user's or the system's configuration of the daemon; or pair the \
                 hosts: `fmail relay invite`",
            ));
        }
        let writes =
            matches!(request, Request::Import(_) | Request::ImportMany(_) | Request::Records(RecordsRequest::Merge(_)));
        if writes && matches!(context.principal, Principal::User(_)) {
            return Err(Error::new(ErrorKind::Denied, "messages of other hosts are taken from relays only")
                .help("configure a relay; or bring messages in with `fmail store import`"));
        }
        Ok(())
    }

    /// What a relay that is a plugin says of its links.
    pub fn note_links(&self, relay: &str, links: Vec<LinkStatus>) {
        self.seen().plugins.insert(relay.into(), links);
    }

    fn note(&self, text: String) {
        tracing::warn!("{text}");
        self.seen().notes.push(text);
    }

    /// Looks whether hosts were paired a moment ago, for who asks right behind it.
    pub async fn look(&self) {
        if let Some(paired) = self.paired.get() {
            paired.look_now().await;
        }
    }

    /// Everything that can be seen.
    pub fn view(&self) -> RelayView {
        let seen = self.seen();
        let plugins =
            seen.plugins.iter().map(|(name, links)| RunningRelay { name: name.clone(), links: links.clone() });
        let mut links = self.peer.get().map(|peer| peer.dialled()).unwrap_or_default();
        let paired = self.paired.get();
        let mut incoming = self.neighbours.links_of(|name| paired.is_none_or(|paired| paired.knows(name)));
        // Of two hosts that dial each other one link ends, and of a host that was paired twice one pairing; what ended is no
        // outage: the other one carries both ways.
        let all: Vec<LinkStatus> = links.iter().chain(&incoming).cloned().collect();
        incoming.retain(|link| link.connected || !is_reached(&all, link));
        links.extend(incoming);
        if let Some((paired, project)) = paired.zip(self.served.get()) {
            links.extend(paired.awaited(project, &links));
        }
        let relays = self.enabled || !links.is_empty();
        let own = relays.then(|| RunningRelay { name: "peer".into(), links });
        let relays: Vec<RunningRelay> = own.into_iter().chain(plugins).collect();
        let paired = paired.map(|paired| paired.notes()).unwrap_or_default();
        let node = self.node.clone().filter(|_| !relays.is_empty());
        let notes = seen.notes.iter().cloned().chain(paired).collect();
        // Who calls where nothing is relayed has nothing to do with it.
        let strangers = self.callers.strangers().filter(|_| !relays.is_empty());
        RelayView { node, relays, notes, strangers }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the host at the other end of a link is connected by one of these.
fn is_reached(links: &[LinkStatus], other: &LinkStatus) -> bool {
    let node = |link: &LinkStatus| link.node.as_ref().map(|node| node.id);
    node(other).is_some_and(|id| links.iter().any(|link| link.connected && node(link) == Some(id)))
}

/// Starts the relay of every project that has one.
pub fn start_all(
    projects: &[Opened],
    paired: Option<&Arc<Paired>>,
    shutdown: &(dyn Fn() -> Shutdown + Send + Sync),
    running: &mut JoinSet<Result<()>>,
) {
    let mut ids: Vec<&str> = Vec::new();
    for project in projects {
        let (relaying, configured) = (&project.client.relaying, &project.relay);
        configured.notes.iter().for_each(|note| relaying.note(note.clone()));
        let Some(node) = relaying.node.clone() else { continue };
        if ids.contains(&project.id.as_str()) {
            // Nothing that anybody has to know before somebody relays it.
            if !relaying.enabled {
                continue;
            }
            relaying.note(format!(
                "another clone of the project {} is served by this daemon; only that one is relayed",
                project.id
            ));
            continue;
        }
        ids.push(&project.id);
        let peers = match paired {
            Some(paired) => {
                let _ = relaying.paired.set(paired.clone());
                let _ = relaying.served.set((project.id.clone(), project.root.clone()));
                paired.dialled(&project.id, &project.root, configured.peers.clone(), shutdown())
            }
            None => watch::channel(configured.peers.clone().into()).1,
        };
        let settings = PeerSettings {
            node,
            project: project.id.clone(),
            peers,
            dial_timeout: configured.dial_timeout,
            reconnect_interval: configured.reconnect_interval,
            line_bytes: configured.line_bytes,
            pace: Pace::default(),
        };
        let relay = Arc::new(PeerRelay::new(settings, Arc::new(SystemClock), relaying.neighbours.clone()));
        let _ = relaying.peer.set(relay.clone());
        let mut host = Projects::default();
        // The only one, so nothing has its id already.
        let _ = host.add(project.root.clone(), project.client.clone());
        tell(&relay, paired.cloned(), shutdown(), running);
        let ends = shutdown();
        running.spawn(async move { relay.run(Arc::new(host), ends).await });
    }
}

/// Tells in the log when a link comes or goes, and notes in the pairing of a host that it has let us in.
fn tell(relay: &Arc<PeerRelay>, paired: Option<Arc<Paired>>, shutdown: Shutdown, running: &mut JoinSet<Result<()>>) {
    let mut statuses = relay.status().take_until(shutdown);
    let mut told: BTreeMap<(String, bool), (bool, Option<String>)> = BTreeMap::new();
    let mut log = move |link: &LinkStatus| {
        let state = (link.connected, link.problem.clone());
        let problem = link.problem.as_deref().unwrap_or_default();
        let new = told.insert((link.peer.clone(), link.incoming), state.clone()) != Some(state);
        if new {
            let (peer, incoming, connected) = (&link.peer, link.incoming, link.connected);
            tracing::info!(relay = "peer", peer, incoming, connected, problem, "link");
        }
        new
    };
    let task = async move {
        while let Some(status) = statuses.next().await {
            for link in &status.links {
                let new = log(link);
                if let Some(paired) = paired.as_ref().filter(|_| new && link.connected && !link.incoming) {
                    paired.let_in(&link.peer).await;
                }
            }
        }
        Ok(())
    };
    drop(running.spawn(task));
}

#[cfg(test)]
mod tests {
    use fmail_api::{NodeId, Timestamp};

    use super::*;

    #[test]
    fn a_link_that_ended_is_no_outage_while_another_reaches_the_same_host() {
        let link = |id: u128, connected: bool| {
            let mut link = LinkStatus::new("host-b", Timestamp::from_unix(0, 0));
            link.node = Some(Node { id: NodeId::new(id), run: NodeId::new(9), host: "host-b".into() });
            link.connected = connected;
            link
        };
        assert!(is_reached(&[link(1, true)], &link(1, false)));
        assert!(!is_reached(&[link(1, false), link(2, true)], &link(1, false)));
        let unknown = LinkStatus::new("somebody", Timestamp::from_unix(0, 0));
        assert!(!is_reached(&[LinkStatus { connected: true, ..unknown.clone() }], &unknown));
    }
}
