//! The network fails, or a daemon does.

use std::time::Duration;

use fmail_e2e::eventually;
use fmail_relay_tests::{Direction, Loss, Mix, Network, Topology, Way};
use serde_json::json;

use crate::{let_it_work, links, send, under_load};

#[test]
fn hosts_that_nothing_happens_to_hold_the_same_in_every_topology() {
    for topology in [Topology::Mesh, Topology::Hub, Topology::Chain] {
        let network = Network::new(4, topology);
        network.start();
        let sent = under_load(&network, 1, Mix::default(), || let_it_work(1_500));
        let verdict = network.converge();
        println!("{topology:?}: {sent} acknowledged, the same after {:?}: {}", verdict.after, verdict.counts);
        assert!(verdict.count("acknowledged") > 30, "{}", verdict.counts);
    }
}

#[test]
fn a_partition_of_each_kind_loses_nothing_and_a_send_does_not_wait_for_its_end() {
    for (number, loss) in [Loss::Forth, Loss::Back, Loss::Both].into_iter().enumerate() {
        let network = Network::new(3, Topology::Mesh);
        network.start();
        under_load(&network, 2, Mix::default(), || {
            let_it_work(500);
            network.partition(0, 1, loss);
            network.partition(0, 2, loss);
            let_it_work(1_500);
            let start = std::time::Instant::now();
            send(&network, 0, "alice", "task", json!(format!("cut-off-{number}")));
            assert!(start.elapsed() < Duration::from_secs(5), "{loss:?}: a send took {:?}", start.elapsed());
            network.heal();
        });
        network.converge();
    }
}

/// The peers are dialled at their own addresses: nothing is between the two hosts but the cable.
#[test]
fn a_partition_without_a_proxy_in_the_link_loses_nothing() {
    let network = Network::new(2, Topology::Mesh);
    network.hosts[0].dial(vec![network.address(1).to_string()]);
    network.hosts[1].dial(vec![]);
    network.start();
    under_load(&network, 3, Mix::default(), || {
        let_it_work(500);
        network.partition(0, 1, Loss::Both);
        let_it_work(1_500);
        network.heal();
    });
    network.converge();
    assert!(network.links().all(|(_, link)| link.connections() == 0), "the links were to be unused");
}

#[test]
fn a_link_that_is_slow_stands_still_loses_its_end_and_breaks_loses_nothing() {
    let network = Network::new(3, Topology::Chain);
    network.start();
    under_load(&network, 4, Mix::default(), || {
        let delay = Duration::from_millis(150);
        network.link(0, 1).set(Direction::Back, Way { delay, ..Way::default() });
        for round in 0..6 {
            let_it_work(200);
            network.link(1, 2).set(Direction::Forth, Way { stalled: round % 2 == 0, ..Way::default() });
            let after = 500 + 700 * round;
            let direction = if round % 2 == 0 { Direction::Back } else { Direction::Forth };
            network.link(0, 1).set(direction, Way { truncate_after: Some(after), ..Way::default() });
            let_it_work(200);
            network.link(1, 2).cut();
        }
        network.heal();
    });
    network.converge();
}

#[test]
fn daemons_that_are_killed_one_after_the_other_lose_nothing() {
    let network = Network::new(3, Topology::Mesh);
    network.start();
    under_load(&network, 5, Mix::default(), || {
        for round in 0..6 {
            let_it_work(300);
            network.hosts[round % 3].kill();
            let_it_work(200);
            network.hosts[round % 3].start();
        }
    });
    network.converge();
}

#[test]
fn a_lost_peer_is_shown_as_lost_with_the_reason_and_as_connected_when_it_is_back() {
    let network = Network::new(2, Topology::Chain);
    network.start();
    let connected = |wanted: bool| {
        eventually(60, "the link's state", || {
            links(&network.hosts[0]).into_iter().find(|link| link["connected"] == wanted)
        })
    };
    assert!(connected(true)["round_trip"].is_number(), "a connected link has proved a round trip");
    network.hosts[1].kill();
    let lost = connected(false);
    assert!(lost["problem"].is_string() && lost["since"].is_string(), "{lost}");
    network.hosts[1].start();
    connected(true);
}

/// As a proxy does before a daemon that is just being started: the connection is accepted, and closed.
#[test]
fn a_host_that_closed_a_connection_is_not_taken_for_a_plain_peer() {
    let network = Network::new(2, Topology::Chain);
    network.hosts[1].start();
    network.link(0, 1).refuse(1);
    network.hosts[0].start();
    let connected = |link: &serde_json::Value| link["connected"] == true;
    let link = eventually(60, "the link", || links(&network.hosts[0]).into_iter().find(connected));
    assert_eq!(link["plain"], serde_json::Value::Null, "{link}");
    assert!(link["node"]["host"].is_string(), "{link}");
    send(&network, 1, "alice", "task", json!({"marker": "m"}));
    network.converge();
}
