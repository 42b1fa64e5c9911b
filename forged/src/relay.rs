//! Other hosts: whom the configuration names, who may ask for what, and what can be seen of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fmail_api::{
    Context, Error, ErrorKind, LinkStatus, Node, Principal, RecordsRequest, Relay, RelayView, Request, Result,
    RunningRelay, Shutdown,
};
use fmail_host::{Environment, Settings, SystemClock, this_node};
use fmail_transports::peer::{Neighbours, Pace, Peer, PeerAddress, PeerRelay, PeerSettings};
use fmail_transports::{TlsClient, Token};
use futures::StreamExt;
use tokio::task::JoinSet;

use crate::host::Projects;
use crate::project::Opened;

/// What the configuration of a project says about other hosts.
pub struct Configured {
    /// Whether hosts are served and dialled at all.
    pub enabled: bool,
    peers: Vec<Peer>,
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
            true => (
                tcp.shared_token(environment)?.map(Token::new),
                tcp.authority(environment)?.map(|pem| TlsClient::trusting(&pem)).transpose()?,
            ),
            false => (None, None),
        };
        let peer = |address: &String| Peer {
            name: address.clone(),
            address: PeerAddress { address: address.clone(), token: token.clone(), tls: tls.clone() },
        };
        let peers = if dials { relay.peers.iter().map(peer).collect() } else { Vec::new() };
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

/// Which host this is, once it is known that somebody asks.
#[derive(Default)]
pub struct ThisHost(OnceLock<Node>);

impl ThisHost {
    /// The host, the same for all projects of this daemon.
    pub fn node(&self, environment: &Environment) -> Result<Node> {
        if let Some(node) = self.0.get() {
            return Ok(node.clone());
        }
        let node = this_node(environment)?;
        Ok(self.0.get_or_init(|| node).clone())
    }
}

/// What a project has to do with other hosts.
pub struct Relaying {
    /// Which host this is, where the project is relayed.
    pub node: Option<Node>,
    /// Those who have dialled us.
    pub neighbours: Arc<Neighbours>,
    peer: OnceLock<Arc<PeerRelay>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The links of relays that are plugins, by the relay's name.
    plugins: BTreeMap<String, Vec<LinkStatus>>,
    notes: Vec<String>,
}

impl Relaying {
    /// A project that is relayed when a node is given.
    pub fn new(project: &str, node: Option<Node>) -> Self {
        let neighbours = Arc::new(Neighbours::new(project, Arc::new(SystemClock)));
        Relaying { node, neighbours, peer: OnceLock::new(), seen: Mutex::default() }
    }

    /// Who may ask what is for relays only.
    ///
    /// - A relay that runs in this process is in the configuration, which is all the leave that it needs.
    /// - Everybody else needs `mail.relay.enabled` here.
    /// - Reading (`relay`, `digest`, `fetch`) is then for everyone who may connect: over TCP who has proved the token, and,
    ///   where none is configured, whoever reaches the address. That is PROTOCOL.md's and SPEC.md's trust.
    /// - Writing (`import`, merging records) is for hosts: for who has proved a token or a peer's secret, and, where none is
    ///   configured, for whoever reaches the address, since SPEC.md's peers are trusted. A connection is `Anonymous` only
    ///   where no token is wanted: with one, nobody who has not proved it is heard at all.
    /// - Users of this machine, on the Unix socket, do not write in other agents' names.
    pub fn check(&self, context: &Context, request: &Request) -> Result<()> {
        if !request.is_for_relays() || context.principal == Principal::Local {
            return Ok(());
        }
        if self.node.is_none() {
            return Err(Error::new(ErrorKind::Denied, "relaying is not enabled here")
                .help("set mail.relay.enabled = true in the user's or the system's configuration of the daemon"));
        }
        let writes = matches!(request, Request::Import(_) | Request::Records(RecordsRequest::Merge(_)));
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

    /// Everything that can be seen.
    pub fn view(&self) -> RelayView {
        let seen = self.seen();
        let plugins =
            seen.plugins.iter().map(|(name, links)| RunningRelay { name: name.clone(), links: links.clone() });
        let links = match self.peer.get() {
            Some(peer) => peer.links(),
            None => self.neighbours.links(),
        };
        let own = self.node.is_some().then(|| RunningRelay { name: "peer".into(), links });
        RelayView {
            node: self.node.clone(),
            relays: own.into_iter().chain(plugins).collect(),
            notes: seen.notes.clone(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the relay of every project that has one.
pub fn start_all(
    projects: &[Opened],
    shutdown: &(dyn Fn() -> Shutdown + Send + Sync),
    running: &mut JoinSet<Result<()>>,
) {
    let mut ids: Vec<&str> = Vec::new();
    for project in projects {
        let (relaying, configured) = (&project.client.relaying, &project.relay);
        configured.notes.iter().for_each(|note| relaying.note(note.clone()));
        let Some(node) = relaying.node.clone() else { continue };
        if ids.contains(&project.id.as_str()) {
            relaying.note(format!(
                "another clone of the project {} is served by this daemon; only that one is relayed",
                project.id
            ));
            continue;
        }
        ids.push(&project.id);
        let settings = PeerSettings {
            node,
            project: project.id.clone(),
            peers: configured.peers.clone(),
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
        tell(&relay, shutdown(), running);
        let ends = shutdown();
        running.spawn(async move { relay.run(Arc::new(host), ends).await });
    }
}

/// Tells in the log when a link comes or goes.
fn tell(relay: &Arc<PeerRelay>, shutdown: Shutdown, running: &mut JoinSet<Result<()>>) {
    let mut statuses = relay.status().take_until(shutdown);
    let mut told: BTreeMap<(String, bool), (bool, Option<String>)> = BTreeMap::new();
    let mut log = move |link: &LinkStatus| {
        let state = (link.connected, link.problem.clone());
        let problem = link.problem.as_deref().unwrap_or_default();
        if told.insert((link.peer.clone(), link.incoming), state.clone()) != Some(state) {
            let (peer, incoming, connected) = (&link.peer, link.incoming, link.connected);
            tracing::info!(relay = "peer", peer, incoming, connected, problem, "link");
        }
    };
    let task = async move {
        while let Some(status) = statuses.next().await {
            status.links.iter().for_each(&mut log);
        }
        Ok(())
    };
    drop(running.spawn(task));
}
