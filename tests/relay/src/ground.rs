//! What hosts stand on: network namespaces with links between them, or loopback where those cannot be had.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Which of the two a run uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Each host is a network namespace with an address of its own; they meet at a bridge in one more. The network is cut
    /// by rules of nft inside of the hosts.
    Namespaces,
    /// All hosts are on loopback, each with a port of its own; the links between them do what rules would do.
    Loopback,
}

impl std::fmt::Display for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ground::Namespaces => "network namespaces, cut by nft",
            Ground::Loopback => "loopback, cut by the links",
        })
    }
}

impl Ground {
    /// Namespaces where they can be made and cut, else loopback; `FMAIL_RELAY_GROUND=loopback` asks for that. The first time it
    /// says which, and why.
    pub fn here() -> Ground {
        static HERE: OnceLock<Ground> = OnceLock::new();
        *HERE.get_or_init(|| {
            let asked = std::env::var("FMAIL_RELAY_GROUND").is_ok_and(|asked| asked == "loopback");
            let tried = if asked { Err("FMAIL_RELAY_GROUND asks for it".to_string()) } else { try_namespaces() };
            match tried {
                Ok(()) => {
                    eprintln!("hosts are {}", Ground::Namespaces);
                    Ground::Namespaces
                }
                Err(why) => {
                    eprintln!("hosts are on {}: {why}", Ground::Loopback);
                    Ground::Loopback
                }
            }
        })
    }
}

/// Makes a namespace, gives it a rule and a host name, and takes it away again.
fn try_namespaces() -> Result<(), String> {
    let name = format!("{}-{}-try", crate::janitor::PREFIX, std::process::id());
    let run = |words: &[&str]| succeed(Command::new(words[0]).args(&words[1..]), None);
    run(&["ip", "netns", "add", &name])?;
    let tried = run(&["ip", "-n", &name, "link", "add", "near", "type", "veth", "peer", "name", "far"])
        .and_then(|()| run(&["ip", "netns", "exec", &name, "nft", "list", "ruleset"]))
        .and_then(|()| run(&["ip", "netns", "exec", &name, "unshare", "--uts", "hostname", "a-host"]));
    run(&["ip", "netns", "del", &name])?;
    tried
}

/// Runs a command with this input, and tells what went wrong.
pub fn succeed(command: &mut Command, input: Option<&str>) -> Result<(), String> {
    let shown = format!("{command:?}");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{shown}: {error}"))?;
    let mut pipe = child.stdin.take().expect("piped");
    let _ = pipe.write_all(input.unwrap_or_default().as_bytes());
    drop(pipe);
    let output = child.wait_with_output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The addresses and namespaces of a network. Hosts are numbered from 0.
pub struct Land {
    /// What it is made of.
    pub ground: Ground,
    name: String,
    hosts: usize,
    ports: Vec<u16>,
}

/// Where forged listens in a namespace.
const PORT: u16 = 7463;

impl Land {
    /// Makes the namespaces and the cables for so many hosts.
    pub fn make(ground: Ground, name: &str, hosts: usize) -> Land {
        assert!(hosts < 16, "a link's address has four bits for each host");
        let mut land = Land { ground, name: name.into(), hosts, ports: Vec::new() };
        match ground {
            Ground::Namespaces => land.lay_cables().unwrap_or_else(|why| panic!("no network: {why}")),
            Ground::Loopback => land.ports = (0..hosts).map(|_| free_port()).collect(),
        }
        land
    }

    fn lay_cables(&self) -> Result<(), String> {
        let switch = self.switch();
        let mut commands: Vec<(Option<String>, String)> = vec![
            (None, format!("netns add {switch}")),
            (Some(switch.clone()), "link add bridge type bridge".into()),
            (Some(switch.clone()), "link set bridge up".into()),
            (Some(switch.clone()), "link set lo up".into()),
            (Some(switch.clone()), "address add 10.77.255.254/16 dev bridge".into()),
        ];
        for from in 0..self.hosts {
            for to in (0..self.hosts).filter(|to| *to != from) {
                let address = self.link_address(from, to);
                commands.push((Some(switch.clone()), format!("address add {address}/16 dev bridge")));
            }
        }
        for host in 0..self.hosts {
            let space = self.space(host);
            commands.extend([
                (None, format!("netns add {space}")),
                (Some(switch.clone()), format!("link add port{host} type veth peer name eth0 netns {space}")),
                (Some(switch.clone()), format!("link set port{host} master bridge up")),
                (Some(space.clone()), format!("address add 10.77.0.{}/16 dev eth0", host + 1)),
                (Some(space.clone()), "link set eth0 up".into()),
                (Some(space), "link set lo up".into()),
            ]);
        }
        // One process for each namespace would be enough; but this takes some 50 ms, and says which command failed.
        commands.iter().try_for_each(|(space, words)| {
            let mut command = Command::new("ip");
            if let Some(space) = space {
                command.args(["-n", space]);
            }
            succeed(command.args(words.split(' ')), None)
        })
    }

    fn switch(&self) -> String {
        format!("{}-switch", self.name)
    }

    fn space(&self, host: usize) -> String {
        format!("{}-h{host}", self.name)
    }

    /// The namespace in which links run.
    pub fn links_namespace(&self) -> Option<PathBuf> {
        (self.ground == Ground::Namespaces).then(|| Path::new("/run/netns").join(self.switch()))
    }

    /// Where the daemon of a host listens.
    pub fn address(&self, host: usize) -> SocketAddr {
        match self.ground {
            Ground::Namespaces => (Ipv4Addr::new(10, 77, 0, host as u8 + 1), PORT).into(),
            Ground::Loopback => (Ipv4Addr::LOCALHOST, self.ports[host]).into(),
        }
    }

    /// The address of the link that one host dials to reach another: what both ends see of each other.
    pub fn link_address(&self, from: usize, to: usize) -> Ipv4Addr {
        match self.ground {
            Ground::Namespaces => Ipv4Addr::new(10, 77, 1, (from * 16 + to) as u8),
            Ground::Loopback => Ipv4Addr::LOCALHOST,
        }
    }

    /// Where such a link listens.
    pub fn link_listener(&self, from: usize, to: usize) -> SocketAddr {
        let port = if self.ground == Ground::Namespaces { PORT } else { 0 };
        (self.link_address(from, to), port).into()
    }

    /// Words that stand before a program and its arguments to run it on a host that has this name.
    pub fn prefix(&self, host: usize, host_name: &str) -> Vec<String> {
        if self.ground == Ground::Loopback {
            return Vec::new();
        }
        let script = "hostname \"$0\" && exec \"$@\"";
        ["ip", "netns", "exec", &self.space(host), "unshare", "--uts", "sh", "-c", script, host_name]
            .map(String::from)
            .to_vec()
    }

    /// Every address under which a host meets another: its own, and those of the links between them.
    pub fn addresses_between(&self, host: usize, other: usize) -> Vec<Ipv4Addr> {
        let own = Ipv4Addr::new(10, 77, 0, other as u8 + 1);
        vec![own, self.link_address(host, other), self.link_address(other, host)]
    }

    /// Lets a host drop what it sends to these addresses, and what comes from those. Replaces what was before.
    pub fn block(&self, host: usize, to: &BTreeSet<Ipv4Addr>, from: &BTreeSet<Ipv4Addr>) {
        let list =
            |addresses: &BTreeSet<Ipv4Addr>| addresses.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(", ");
        let rule = |words: &str, addresses: &BTreeSet<Ipv4Addr>| match addresses.is_empty() {
            true => String::new(),
            false => format!("{words} {{ {} }} drop", list(addresses)),
        };
        let rules = format!(
            "flush ruleset\n\
             table inet partition {{\n\
             chain out {{ type filter hook output priority 0;\n{}\n}}\n\
             chain in {{ type filter hook input priority 0;\n{}\n}}\n\
             }}\n",
            rule("ip daddr", to),
            rule("ip saddr", from)
        );
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(host), "nft", "-f", "-"]);
        succeed(&mut command, Some(&rules)).unwrap_or_else(|why| panic!("nft: {why}\n{rules}"));
    }
}

/// A port that nobody has now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has ports");
    listener.local_addr().expect("bound").port()
}
