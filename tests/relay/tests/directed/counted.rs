//! What the exchange costs: each message crosses each link once, and coming back costs what was missed.

use std::time::Instant;

use fmail_e2e::eventually;
use fmail_relay_tests::{Direction, Host, Network, Topology};
use serde_json::{Value, json};

use crate::{counted, links, send};

/// What has crossed a link in both directions.
fn bytes(network: &Network, from: usize, to: usize) -> u64 {
    let link = network.link(from, to);
    link.bytes(Direction::Forth) + link.bytes(Direction::Back)
}

/// How many message files a host has.
fn held(host: &Host) -> usize {
    let below = |directory| std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mailboxes = ["topics", "dm"].map(|kind| below(host.store().join(kind)).collect::<Vec<_>>()).concat();
    mailboxes.into_iter().map(|mailbox| below(mailbox).count()).sum()
}

/// All links of a host are up.
fn connected(host: &Host) {
    eventually(60, "a link that works", || {
        let links = links(host);
        (!links.is_empty() && links.iter().all(|link| link["connected"] == true)).then_some(())
    });
}

#[test]
fn each_message_crosses_each_link_of_a_hub_once() {
    const EACH: usize = 100;
    let network = Network::new(4, Topology::Hub);
    network.start();
    network.hosts.iter().for_each(connected);
    let before: Vec<u64> = (1..4).map(|spoke| bytes(&network, spoke, 0)).collect();
    for number in 0..EACH {
        for host in 0..4 {
            let body = json!({"marker": format!("m-{host}-{number}"), "text": "x".repeat(300)});
            send(&network, host, "alice", "task", body);
        }
    }
    network.converge();
    let all = 4 * EACH as u64;
    for spoke in 1..4 {
        let host = &network.hosts[spoke];
        assert_eq!(counted(host, "duplicates"), 0, "{:?}", links(host));
        assert_eq!(counted(host, "received"), all - EACH as u64, "{:?}", links(host));
        assert_eq!(counted(host, "sent"), EACH as u64, "{:?}", links(host));
        let each = (bytes(&network, spoke, 0) - before[spoke - 1]) / all;
        println!("spoke {spoke}: {each} bytes for each of {all} messages");
        // A message is some 450 bytes; a second crossing of each would show.
        assert!(each < 900, "{each} bytes for each message");
    }
    assert_eq!(counted(&network.hosts[0], "duplicates"), 0, "{:?}", links(&network.hosts[0]));
}

/// Fills a stopped host's project with so many messages, as files.
fn fill(network: &Network, host: usize, messages: usize) {
    let project = network.hosts[host].project();
    xtask::fixture::copy(messages, &project).unwrap();
}

#[test]
fn a_host_that_missed_ten_thousand_messages_gets_them_for_little_more_than_what_they_are() {
    const MISSED: usize = 10_000;
    let network = Network::new(2, Topology::Chain);
    fill(&network, 1, MISSED);
    let size: u64 = size_of_messages(&network.hosts[1]);
    network.hosts[1].start();
    let start = Instant::now();
    network.hosts[0].start();
    eventually(240, "everything has come", || (held(&network.hosts[0]) == MISSED).then_some(()));
    let taken = start.elapsed();
    let passed = bytes(&network, 0, 1);
    println!("{MISSED} messages of {size} bytes came in {taken:?} with {passed} bytes");
    // Beside the message there is the frame of its line, and the name of the host where it was born.
    assert!(passed < size + 100 * MISSED as u64, "{passed} bytes for {size}: {:?}", links(&network.hosts[0]));
    assert_eq!(counted(&network.hosts[0], "duplicates"), 0);
}

/// The bytes of all messages as lines.
fn size_of_messages(host: &Host) -> u64 {
    let below = |directory| std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mailboxes = ["topics", "dm"].map(|kind| below(host.store().join(kind)).collect::<Vec<_>>()).concat();
    let files = mailboxes.into_iter().flat_map(|mailbox| below(mailbox).collect::<Vec<_>>());
    let line = |file| serde_json::from_slice::<Value>(&std::fs::read(file).unwrap()).unwrap().to_string().len() as u64;
    files.map(line).sum()
}

#[test]
fn hosts_that_hold_a_hundred_thousand_and_missed_nothing_say_little() {
    const HELD: usize = 100_000;
    let network = Network::new(2, Topology::Chain);
    fill(&network, 0, HELD);
    fill(&network, 1, HELD);
    network.hosts[1].start();
    network.hosts[0].start();
    connected(&network.hosts[0]);
    settled(&network);
    // Both have compared once. Now they part, and meet again.
    let before = bytes(&network, 0, 1);
    let connections = network.link(0, 1).connections();
    network.link(0, 1).cut();
    eventually(60, "a new connection", || (network.link(0, 1).connections() > connections).then_some(()));
    settled(&network);
    let passed = bytes(&network, 0, 1) - before;
    println!("reconnecting with {HELD} messages held and none missed took {passed} bytes");
    assert!(passed < 16 * 1024, "{passed} bytes");
    assert_eq!((counted(&network.hosts[0], "received"), counted(&network.hosts[0], "sent")), (0, 0));
}

/// The hosts have compared what they hold: a message that is sent after it arrives, and a further answer has come.
fn settled(network: &Network) {
    let answered = |host: &Host| links(host).first().and_then(|link| link["answered"].as_str().map(String::from));
    connected(&network.hosts[0]);
    let first = answered(&network.hosts[0]);
    eventually(60, "a further round trip", || {
        let links = links(&network.hosts[0]);
        let idle = links.iter().all(|link| link["connected"] == true && link["queued"] == 0);
        (idle && answered(&network.hosts[0]) > first).then_some(())
    });
}
