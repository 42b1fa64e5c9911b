//! Some hosts and the links between them, for one test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fmail_e2e::{DEADLINE, eventually};
use serde_json::Value;

use crate::ground::{Ground, Land};
use crate::host::Host;
use crate::janitor::{self, Janitor};
use crate::ledger::Ledger;
use crate::link::{Direction, Link, Links, Way};
use crate::verdict::{Verdict, judge};

/// Who dials whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Everyone dials everyone.
    Mesh,
    /// Everyone dials the first.
    Hub,
    /// Each dials the next.
    Chain,
}

impl Topology {
    /// Whom a host dials.
    pub fn dialled(self, host: usize, hosts: usize) -> Vec<usize> {
        match self {
            Topology::Mesh => (0..hosts).filter(|other| *other != host).collect(),
            Topology::Hub => (host > 0).then_some(0).into_iter().collect(),
            Topology::Chain => (host + 1 < hosts).then_some(host + 1).into_iter().collect(),
        }
    }
}

/// A partition between two hosts. What the first sends to the second is lost, or the other way, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// What the first sends.
    Forth,
    /// What the second sends.
    Back,
    /// Everything.
    Both,
}

/// Hosts, links, the ledger of what was acknowledged; cleared away when dropped.
///
/// One at a time in a process: the hosts of two tests would take each other's processors, and deadlines would mean nothing.
pub struct Network {
    // In this order: the daemons' processes are collected before the janitor looks for what is left.
    /// The hosts. They are not started.
    pub hosts: Vec<Host>,
    links: BTreeMap<(usize, usize), Link>,
    _links: Links,
    land: Land,
    blocked: Mutex<BTreeSet<(usize, usize)>>,
    /// What was acknowledged, and what was done.
    pub ledger: Ledger,
    directory: PathBuf,
    _janitor: Janitor,
    _turn: MutexGuard<'static, ()>,
}

impl Network {
    /// A network of so many hosts in which each dials its peers through links.
    pub fn new(hosts: usize, topology: Topology) -> Network {
        Network::on(Ground::here(), hosts, topology)
    }

    /// The same on this ground.
    pub fn on(ground: Ground, hosts: usize, topology: Topology) -> Network {
        static TURN: Mutex<()> = Mutex::new(());
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NUMBER.fetch_add(1, Relaxed);
        if number == 0 {
            janitor::clear_leftovers(&janitor::networks());
        }
        let name = format!("{}-{}-{number}", janitor::PREFIX, std::process::id());
        let directory = janitor::networks().join(&name);
        let janitor = Janitor::start(&name, &directory).expect("`setsid` and `sh` are there");
        fs::create_dir(&directory).expect("a name of our own");
        let land = Land::make(ground, &name, hosts);
        let threads = Links::start(land.links_namespace()).expect("a thread for the links");
        let mut links = BTreeMap::new();
        for from in 0..hosts {
            for to in topology.dialled(from, hosts) {
                let (listen, source) = (land.link_listener(from, to), land.link_address(from, to));
                let link = threads.open(listen, land.address(to), source);
                links.insert((from, to), link.unwrap_or_else(|error| panic!("no link {from} to {to}: {error}")));
            }
        }
        let ledger = Ledger::create(&directory.join("ledger"));
        let hosts = (0..hosts)
            .map(|number| {
                let peers = links.iter().filter(|((from, _), _)| *from == number);
                let peers = peers.map(|(_, link): (_, &Link)| link.address().to_string()).collect();
                Host::new(&name, &directory, &land, number, peers)
            })
            .collect();
        Network {
            hosts,
            links,
            _links: threads,
            land,
            blocked: Mutex::default(),
            ledger,
            directory,
            _janitor: janitor,
            _turn: turn,
        }
    }

    /// What it stands on.
    pub fn ground(&self) -> Ground {
        self.land.ground
    }

    /// The directory of everything; things that belong to no host may be put here.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The name by which its processes and namespaces are known.
    pub fn name(&self) -> String {
        self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The link that a host dials to reach another.
    #[track_caller]
    pub fn link(&self, from: usize, to: usize) -> &Link {
        self.links.get(&(from, to)).unwrap_or_else(|| panic!("host {from} does not dial host {to}"))
    }

    /// All links, with who dials whom.
    pub fn links(&self) -> impl Iterator<Item = ((usize, usize), &Link)> {
        self.links.iter().map(|(ends, link)| (*ends, link))
    }

    /// Where a host can be reached without a link between: partitions hold there too.
    pub fn address(&self, host: usize) -> std::net::SocketAddr {
        self.land.address(host)
    }

    /// Starts all hosts.
    pub fn start(&self) {
        self.hosts.iter().for_each(Host::start);
    }

    /// Nothing that is lost reaches its end any more, until [`Network::heal`]. Nobody is told: packets vanish.
    pub fn partition(&self, one: usize, other: usize, loss: Loss) {
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if loss != Loss::Back {
            blocked.insert((one, other));
        }
        if loss != Loss::Forth {
            blocked.insert((other, one));
        }
        self.apply(&blocked);
    }

    /// Two hosts reach each other again.
    pub fn rejoin(&self, one: usize, other: usize) {
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.retain(|ways| *ways != (one, other) && *ways != (other, one));
        self.apply(&blocked);
    }

    /// Ends all partitions and all faults of links.
    pub fn heal(&self) {
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.clear();
        self.apply(&blocked);
        self.links.values().for_each(Link::heal);
    }

    fn apply(&self, blocked: &BTreeSet<(usize, usize)>) {
        match self.land.ground {
            Ground::Namespaces => (0..self.hosts.len()).for_each(|host| self.apply_rules(host, blocked)),
            Ground::Loopback => self.apply_stalls(blocked),
        }
    }

    /// A host drops what it sends into a lost direction. What the other end sends is that host's to drop: one end is enough, and
    /// the sender's keeps the packets off the network.
    fn apply_rules(&self, host: usize, blocked: &BTreeSet<(usize, usize)>) {
        let others = |ways: fn(&(usize, usize)) -> (usize, usize)| {
            let lost = blocked.iter().map(ways).filter(|(own, _)| *own == host);
            lost.flat_map(|(_, other)| self.land.addresses_between(host, other)).collect::<BTreeSet<_>>()
        };
        // A link's two ends are connections of their own, and the proxy between them would acknowledge on behalf of the
        // other side; so both hosts drop, at the end where the direction passes.
        self.land.block(host, &others(|ways| *ways), &others(|(from, to)| (*to, *from)));
    }

    fn apply_stalls(&self, blocked: &BTreeSet<(usize, usize)>) {
        for ((from, to), link) in &self.links {
            let way = |lost: bool| Way { stalled: lost, ..Way::default() };
            link.set(Direction::Forth, way(blocked.contains(&(*from, *to))));
            link.set(Direction::Back, way(blocked.contains(&(*to, *from))));
        }
    }

    /// What the independent checker says of all hosts now.
    pub fn judge(&self) -> Verdict {
        judge(self.ledger.path(), &self.hosts.iter().map(Host::project).collect::<Vec<_>>())
    }

    /// Waits until the checker finds nothing wrong, and gives its counts. What is still wrong at the deadline fails the
    /// test, with what the hosts said.
    #[track_caller]
    pub fn converge(&self) -> Verdict {
        crate::verdict::await_verdict(|| self.judge(), || self.account())
    }

    /// Waits until every link that works has proved a further round trip: what is still under way then has had its time.
    pub fn await_round_trips(&self) {
        let answers = |host: &Host| -> BTreeMap<String, Value> {
            let status = host.relay_status().unwrap_or_default();
            let links = status["relays"].as_array().into_iter().flatten().filter_map(|relay| relay["links"].as_array());
            let proved = links.flatten().filter(|link| link["connected"] == true && link["answered"].is_string());
            proved.map(|link| (link["peer"].to_string(), link["answered"].clone())).collect()
        };
        let before: Vec<_> = self.hosts.iter().map(answers).collect();
        eventually(DEADLINE.as_secs(), "a further round trip on every link", || {
            let renewed = |(host, before): (&Host, &BTreeMap<String, Value>)| {
                let now = answers(host);
                before.iter().all(|(peer, earlier)| now.get(peer) != Some(earlier))
            };
            self.hosts.iter().zip(&before).all(renewed).then_some(())
        });
    }

    /// Ends all daemons in order; fails when one panicked or does not end well.
    #[track_caller]
    pub fn stop(&self) {
        self.hosts.iter().for_each(Host::stop);
    }

    /// The ends of the hosts' logs and the state of their links, for whoever looks into a failure.
    pub fn account(&self) -> String {
        self.hosts.iter().map(Host::account).collect()
    }
}

impl Drop for Network {
    /// Keeps the files of a test that fails, where `FMAIL_RELAY_KEEP` says so. The rest is done by the fields in their order.
    fn drop(&mut self) {
        let Some(keep) = std::env::var_os("FMAIL_RELAY_KEEP").filter(|_| std::thread::panicking()) else { return };
        let kept = Path::new(&keep).join(self.name());
        let copied = fs::create_dir_all(&kept).is_ok()
            && Command::new("cp").arg("-a").arg(self.directory.join(".")).arg(&kept).status().is_ok();
        if copied {
            eprintln!("the files of all hosts are kept in {}", kept.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_reached_in_every_topology() {
        assert_eq!(Topology::Mesh.dialled(1, 3), [0, 2]);
        assert_eq!([0, 1, 2].map(|host| Topology::Hub.dialled(host, 3)), [vec![], vec![0], vec![0]]);
        assert_eq!([0, 1, 2].map(|host| Topology::Chain.dialled(host, 3)), [vec![1], vec![2], vec![]]);
    }
}
