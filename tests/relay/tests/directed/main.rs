//! One fault at a time, by its name: what it does to hosts that relay, and what they hold when it is over.

mod counted;
mod disks;
mod faults;
mod identities;

use std::time::Duration;

use fmail_relay_tests::{Host, Load, Mix, Network};
use serde_json::{Value, json};

/// Sends a message through the daemon and notes it; gives its id.
#[track_caller]
fn send(network: &Network, host: usize, from: &str, to: &str, body: Value) -> String {
    send_reply(network, host, from, to, body, None)
}

/// The same as a reply.
#[track_caller]
fn send_reply(network: &Network, host: usize, from: &str, to: &str, body: Value, reply_to: Option<&str>) -> String {
    let mut request = json!({"cmd": "send", "agent": from, "to": to, "body": body});
    if let Some(parent) = reply_to {
        request["reply_to"] = parent.into();
    }
    let answer = network.hosts[host].ask(&request).expect("the daemon runs");
    let id = answer["id"].as_str().unwrap_or_else(|| panic!("refused: {answer}")).to_string();
    network.ledger.sent(host, &id, from, to, &body);
    id
}

/// Sends without a daemon and notes it.
fn send_standalone(network: &Network, host: usize, to: &str, marker: &str) -> String {
    let body = json!({"marker": marker});
    let id = network.hosts[host].send_standalone("early", to, &body);
    network.ledger.sent(host, &id, "early", to, &body);
    id
}

/// Runs this under load from all hosts, and gives the number of messages that were acknowledged.
fn under_load(network: &Network, seed: u64, mix: Mix, work: impl FnOnce()) -> u64 {
    std::thread::scope(|scope| {
        let load = Load::start(scope, network, seed, mix);
        work();
        load.end()
    })
}

/// Time for the load to do something. Nothing is waited for.
fn let_it_work(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// The links of a host as `fmail relay status` has them.
fn links(host: &Host) -> Vec<Value> {
    let status = host.relay_status().unwrap_or_else(|| panic!("host {} tells nothing of its relay", host.number()));
    let relays = status["relays"].as_array().cloned().unwrap_or_default();
    relays.iter().flat_map(|relay| relay["links"].as_array().cloned().unwrap_or_default()).collect()
}

/// A count of all links of a host together.
fn counted(host: &Host, what: &str) -> u64 {
    links(host).iter().map(|link| link["counts"][what].as_u64().unwrap_or(0)).sum()
}
