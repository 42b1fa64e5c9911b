//! Those who watch.

use std::sync::atomic::Ordering;
use std::thread::{Scope, ScopedJoinHandle};

use fmail_e2e::checker::{Message, Watched};
use fmail_e2e::{DEADLINE, Watcher, until_the_end};
use serde_json::Value;

use crate::MORE_THAN_A_RING;
use crate::load::{Load, SLOW};

/// The watches over sockets that always read: name, agent and target.
const BRISK: [(&str, &str, Option<&str>); 3] =
    [("brisk", "brisk", None), ("brisk of a topic", "brisk", Some("task")), ("brisk of mail", "brisk", Some("@brisk"))];

impl Load<'_> {
    fn brisk(&self, name: &str, agent: &str, target: Option<&str>) -> Watched {
        let mut watcher = Watcher::new(&self.serving, agent, target);
        let seen = until_the_end(target.unwrap_or("task"), || watcher.message());
        println!("{name}: {:?}", watcher.interruptions);
        watched(name, agent, target, seen)
    }

    /// Reads as the others do, but when it is told to, it stops until it must have been left behind. Then it reads what
    /// there is and goes on where that ends.
    fn slow(&self, name: &str) -> Watched {
        let mut watcher = Watcher::new(&self.serving, "slow", None);
        let (mut held, mut left_behind) = (0, 0);
        let seen = until_the_end("task", || {
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
        println!("{name}: {:?}", watcher.interruptions);
        watched(name, "slow", None, seen)
    }

    /// A real `fmail watch`, with the daemon when it is there or always without it.
    fn view(&self, agent: &str, transports: &str) -> Watched {
        let command = self.sandbox.agent(agent).env("FMAIL_TRANSPORTS", transports);
        let mut running = command.args(["watch", "--json", "--since", "2020-01-01"]).spawn();
        let mut last = "nothing".to_string();
        let seen = until_the_end("task", || {
            let line = running.line_within(DEADLINE);
            let line = line.unwrap_or_else(|| panic!("{agent} showed nothing for {DEADLINE:?}, after {last}"));
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            last = format!("{} in {}", message["id"], message["to"]);
            message
        });
        watched(agent, agent, None, seen)
    }
}

fn watched(name: &str, agent: &str, target: Option<&str>, seen: Vec<Message>) -> Watched {
    Watched { name: name.into(), agent: agent.into(), target: target.map(Into::into), seen }
}

/// Starts everybody who watches. Each gives what it saw when the last message has come.
pub fn start<'scope>(scope: &'scope Scope<'scope, '_>, load: &'scope Load) -> Vec<ScopedJoinHandle<'scope, Watched>> {
    let mut watches: Vec<_> =
        BRISK.into_iter().map(|(name, agent, target)| scope.spawn(move || load.brisk(name, agent, target))).collect();
    watches.extend((1..=SLOW).map(|number| scope.spawn(move || load.slow(&format!("slow-{number}")))));
    watches.push(scope.spawn(|| load.view("viewer", "unix")));
    watches.push(scope.spawn(|| load.view("alone", "")));
    watches
}
