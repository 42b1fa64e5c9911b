//! Hosts that differ in name or clock, or do not differ where they should.

use std::fs;

use fmail_relay_tests::{Mix, Network, Topology, marker_of, plant};
use serde_json::{Value, json};

use crate::{let_it_work, send, send_reply, send_standalone, under_load};

#[test]
fn clocks_that_are_hours_apart_part_no_hosts() {
    let network = Network::new(3, Topology::Mesh);
    network.hosts[1].skew(5 * 3_600);
    network.hosts[2].skew(-7 * 3_600);
    network.start();
    under_load(&network, 8, Mix::default(), || let_it_work(2_000));
    let verdict = network.converge();
    assert!(verdict.count("replies") > 0 && verdict.count("receipts") > 0, "{}", verdict.counts);
}

#[test]
fn a_clock_that_is_set_while_the_daemon_is_down_doubles_nothing() {
    let network = Network::new(2, Topology::Mesh);
    network.start();
    under_load(&network, 9, Mix::default(), || {
        for hours in [3, -3, 0] {
            let_it_work(400);
            network.hosts[1].kill();
            network.hosts[1].skew(hours * 3_600);
            network.hosts[1].start();
        }
    });
    network.converge();
}

#[test]
fn a_host_that_gets_another_name_stays_the_host_that_it_was() {
    let network = Network::new(3, Topology::Hub);
    network.start();
    under_load(&network, 10, Mix::default(), || {
        for name in ["other", "another", "host-0"] {
            let_it_work(300);
            network.hosts[1].kill();
            network.hosts[1].rename(name);
            network.hosts[1].start();
        }
    });
    network.converge();
}

#[test]
fn hosts_with_one_name_are_told_apart() {
    let network = Network::new(3, Topology::Mesh);
    network.hosts.iter().for_each(|host| host.rename("twin"));
    network.start();
    under_load(&network, 11, Mix::default(), || let_it_work(1_500));
    network.converge();
}

#[test]
fn a_host_that_joins_late_gives_its_past_and_gets_that_of_the_others() {
    let network = Network::new(4, Topology::Chain);
    for number in 0..40 {
        send_standalone(&network, 3, "task", &format!("alone-{number}"));
        send_standalone(&network, 3, "@worker-0", &format!("alone-private-{number}"));
    }
    network.hosts[..3].iter().for_each(fmail_relay_tests::Host::start);
    under_load(&network, 12, Mix::default(), || {
        let_it_work(1_000);
        network.hosts[3].start();
        let_it_work(500);
    });
    network.converge();
}

/// The same ids in the same mailboxes on two hosts, with different bodies; each host has a reply to its own, and its own was
/// acknowledged. Nothing of that may be taken for the other's.
#[test]
fn messages_with_one_id_stay_two_and_replies_and_receipts_are_those_of_the_right_one() {
    let network = Network::new(3, Topology::Mesh);
    let ids: Vec<String> = (1..=20).map(|number| format!("20261001-120000-{number:04}")).collect();
    for host in 0..2 {
        for (number, id) in ids.iter().enumerate() {
            plant(&network, host, "task", id, &json!({"marker": format!("task-{host}-{number}")}), None);
            plant(&network, host, "@bob", &private(id), &json!({"marker": format!("mail-{host}-{number}")}), None);
        }
    }
    network.hosts[..2].iter().for_each(fmail_relay_tests::Host::start_alone);
    for host in 0..2 {
        for (number, id) in ids.iter().enumerate() {
            let body = json!({"marker": format!("reply-{host}-{number}"), "re": format!("task-{host}-{number}")});
            send_reply(&network, host, "carol", "task", body, Some(id));
            // One host's mail is acknowledged, the other's is not.
            if number % 2 == host {
                let answer =
                    network.hosts[host].ask(&json!({"cmd": "ack", "agent": "bob", "id": private(id)})).unwrap();
                assert_eq!(answer["ok"], true, "{answer}");
                network.ledger.marked("acked", host, "bob", &format!("mail-{host}-{number}"));
            }
        }
    }
    network.hosts[..2].iter().for_each(fmail_relay_tests::Host::stop);
    network.start();
    let verdict = network.converge();
    assert_eq!(verdict.count("messages"), 6 * 20);
    // Of each two with one id, one has another id on each of the three hosts.
    assert!(verdict.count("relocated") >= 2 * 20 * 3, "{}", verdict.counts);
    // A reply that came before its parent says which one it means, where another message has that id.
    let later = |form: &str| verdict.counts[form].as_u64().unwrap_or(0);
    assert_eq!(verdict.count("replies") + later("replies unresolved") + later("replies aside"), 40 * 3);
    for host in &network.hosts {
        only_acknowledged_are_acknowledged(host);
        threads_hold_what_belongs_to_them(host);
    }
}

fn private(id: &str) -> String {
    id.replace("-12", "-13")
}

/// What was not acknowledged on any host is not on this one.
fn only_acknowledged_are_acknowledged(host: &fmail_relay_tests::Host) {
    let listed = host.run("bob", &["inbox", "--all", "--json", "-n", "100"]);
    let mut seen = 0;
    for line in listed.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let message = line.get("msg").unwrap_or(&line);
        let marker = marker_of(&message["body"]).unwrap();
        let parts: Vec<usize> = marker.split('-').skip(1).map(|part| part.parse().unwrap()).collect();
        let acknowledged = parts[1] % 2 == parts[0];
        let standing = line["mail"]["standing"].as_str().unwrap();
        assert_eq!(standing == "acknowledged", acknowledged, "host {}: {marker} is {standing}", host.number());
        seen += 1;
    }
    assert_eq!(seen, 40, "{listed}");
}

/// `fmail thread` of each message shows it and its reply, and no other.
fn threads_hold_what_belongs_to_them(host: &fmail_relay_tests::Host) {
    for entry in fs::read_dir(host.store().join("topics/task")).unwrap().flatten().step_by(5) {
        let message: Value = serde_json::from_str(&fs::read_to_string(entry.path()).unwrap()).unwrap();
        let marker = marker_of(&message["body"]).unwrap();
        let Some(which) = marker.strip_prefix("task-") else { continue };
        let listed = host.run("carol", &["thread", message["id"].as_str().unwrap(), "--json"]);
        let mut markers: Vec<String> = listed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|line| marker_of(&line.get("msg").unwrap_or(&line)["body"]).unwrap())
            .collect();
        markers.sort();
        assert_eq!(markers, [format!("reply-{which}"), format!("task-{which}")], "host {}", host.number());
    }
}

#[test]
fn every_relayed_message_says_where_it_was_born() {
    let network = Network::new(2, Topology::Chain);
    network.start();
    send(&network, 0, "alice", "task", json!({"marker": "m"}));
    network.converge();
    let files = fs::read_dir(network.hosts[1].store().join("topics/task")).unwrap().flatten();
    for file in files {
        let message: Value = serde_json::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap();
        let host = message["host"].as_str().unwrap_or_else(|| panic!("no host: {message}"));
        assert!(host == "host-0" || network.ground() == fmail_relay_tests::Ground::Loopback, "{message}");
    }
}
