//! Those who watch.

use std::sync::atomic::Ordering;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fmail_e2e::checker::{Message, Watched};
use fmail_e2e::{Footprint, Running, Watcher, until_the_end};
use serde_json::Value;

use crate::MORE_THAN_A_RING;
use crate::load::{Load, SLOW};
use crate::sites::{PATIENCE, Site};

/// The watches over sockets that always read: host, agent and target.
const BRISK: [(usize, &str, Option<&str>); 4] =
    [(0, "brisk", None), (0, "brisk", Some("task")), (0, "brisk", Some("@brisk")), (1, "brisk", None)];

/// The `fmail watch` processes: host, agent, and whether through the daemon when there is one or always without it.
const VIEWS: [(usize, &str, &str); 3] = [(0, "viewer", "unix"), (0, "alone", ""), (1, "viewer", "unix")];

/// Everybody who watches. Each gives what it saw when the last message has come.
pub struct Watches<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Watched>>,
    /// The processes among them.
    processes: Vec<(String, u32)>,
}

impl<'scope> Watches<'scope> {
    pub fn start(scope: &'scope Scope<'scope, '_>, load: &'scope Load) -> Watches<'scope> {
        let sites = load.sites.both();
        let mut watches = Watches { threads: Vec::new(), processes: Vec::new() };
        for (host, agent, target) in BRISK {
            watches.threads.push(scope.spawn(move || brisk(sites[host], agent, target)));
        }
        for number in 1..=SLOW {
            watches.threads.push(scope.spawn(move || load.slow(number)));
        }
        for (host, agent, transports) in VIEWS {
            let command = sites[host].sandbox.agent(agent).env("FMAIL_TRANSPORTS", transports);
            let running = command.args(["watch", "--json", "--since", "2020-01-01"]).spawn();
            watches.processes.push((format!("`fmail watch` of {agent} on host {host}"), running.pid()));
            watches.threads.push(scope.spawn(move || view(sites[host], agent, running)));
        }
        watches
    }

    /// What each process holds of the machine.
    pub fn footprints(&self) -> Vec<(String, Footprint)> {
        let look = |pid: u32| move || Footprint::of(pid).expect("it watches until the end");
        self.processes.iter().map(|(name, pid)| (name.clone(), Footprint::settled(look(*pid)))).collect()
    }

    /// What they have seen, when all have seen the last message.
    pub fn end(self) -> Vec<Watched> {
        self.threads.into_iter().map(|watch| watch.join().unwrap()).collect()
    }
}

fn brisk(site: &Site, agent: &str, target: Option<&str>) -> Watched {
    let mut watcher = Watcher::new(&site.serving, agent, target);
    let seen = until_the_end(site.host, target.unwrap_or("task"), || watcher.message());
    let name = format!("brisk watch of {} on host {}", target.unwrap_or("everything"), site.host);
    println!("{name}: {:?}", watcher.interruptions);
    watched(site, name, agent, target, seen)
}

/// A real `fmail watch`.
fn view(site: &Site, agent: &str, mut running: Running) -> Watched {
    let name = format!("`fmail watch` of {agent} on host {}", site.host);
    let mut last = "nothing".to_string();
    let seen = until_the_end(site.host, "task", || {
        // It may be quiet for as long as two hosts take to become the same.
        let line = running.line_within(Duration::from_secs(PATIENCE + 60));
        let line = line.unwrap_or_else(|| panic!("{name} showed nothing more after {last}"));
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        last = format!("{} in {}", message["id"], message["to"]);
        message
    });
    watched(site, name, agent, None, seen)
}

impl Load<'_> {
    /// Reads as the others do, but when it is told to, it stops until it must have been left behind. Then it reads what
    /// there is and goes on where that ends.
    fn slow(&self, number: u64) -> Watched {
        let site = &self.sites.near;
        let mut watcher = Watcher::new(&site.serving, "slow", None);
        let (mut held, mut left_behind) = (0, 0);
        let seen = until_the_end(site.host, "task", || {
            let holds = self.holds.load(Ordering::Relaxed);
            if held < holds {
                held = holds;
                self.bytes.reach(self.bytes.get() + MORE_THAN_A_RING);
            }
            let message = watcher.message();
            // A message behind `backpressure` came over the next connection: the watch has recovered.
            self.recovered.add(u64::from(watcher.interruptions.backpressure - left_behind));
            left_behind = watcher.interruptions.backpressure;
            message
        });
        let name = format!("slow watch {number}");
        println!("{name}: {:?}", watcher.interruptions);
        watched(site, name, "slow", None, seen)
    }
}

fn watched(site: &Site, name: String, agent: &str, target: Option<&str>, seen: Vec<Message>) -> Watched {
    Watched { host: site.host, name, agent: agent.into(), target: target.map(Into::into), seen }
}
