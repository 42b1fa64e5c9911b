//! The hosts of a network are what they claim to be: apart, with names, clocks and disks of their own, and gone afterwards.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use fmail_e2e::eventually;
use fmail_relay_tests::{Ground, Loss, Network, Topology};
use serde_json::{Value, json};

/// What a host's daemon says to `hello` over TCP, asked on another host; nothing when it does not answer in a second.
fn reached(network: &Network, from: usize, to: usize) -> Option<Value> {
    let script = "import socket, sys\n\
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)\n\
        s.sendall(sys.argv[3].encode() + b'\\n')\n\
        print(s.makefile().readline())";
    let address = network.address(to);
    let hello = json!({"cmd": "hello", "agent": "prober", "project_id": fmail_relay_tests::PROJECT}).to_string();
    let mut command = network.hosts[from].command(Path::new("python3"));
    command.args(["-c", script, &address.ip().to_string(), &address.port().to_string(), &hello]);
    serde_json::from_slice(&command.output().unwrap().stdout).ok()
}

/// These need namespaces; elsewhere they have nothing to show, and say so.
fn namespaces() -> bool {
    let there = Ground::here() == Ground::Namespaces;
    if !there {
        eprintln!("SKIPPED: there are no network namespaces here");
    }
    there
}

#[test]
fn hosts_reach_each_other_and_a_partition_of_each_kind_ends_that_until_it_is_healed() {
    if !namespaces() {
        return;
    }
    let network = Network::new(3, Topology::Mesh);
    network.start();
    assert_eq!(reached(&network, 0, 1).unwrap()["ok"], true);
    for loss in [Loss::Forth, Loss::Back, Loss::Both] {
        network.partition(0, 1, loss);
        assert!(reached(&network, 0, 1).is_none(), "{loss:?}: nobody can connect when one direction is lost");
        assert!(
            reached(&network, 0, 2).is_some() && reached(&network, 2, 1).is_some(),
            "{loss:?}: others are not cut off"
        );
        network.rejoin(0, 1);
        assert!(reached(&network, 0, 1).is_some(), "{loss:?}: healed");
    }
}

#[test]
fn a_host_has_the_name_and_the_clock_that_it_was_given() {
    if !namespaces() {
        return;
    }
    let network = Network::new(2, Topology::Hub);
    let [first, second] = &network.hosts[..] else { unreachable!() };
    first.rename("a-name-of-its-own");
    second.skew(-7_200);
    let named = first.command(Path::new("hostname")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&named.stdout).trim(), "a-name-of-its-own");
    let early = second.send_standalone("alice", "task", &json!("m1"));
    let now = first.send_standalone("alice", "task", &json!("m2"));
    // The first two hours of a day belong to another day.
    let hours = |id: &str| -> i64 { id[6..8].parse::<i64>().unwrap() * 24 + id[9..11].parse::<i64>().unwrap() };
    let apart = hours(&now) - hours(&early);
    assert!((1..=3).contains(&apart) || early[..6] != now[..6], "{early} and {now}");
    second.start();
    let sent = second.ask(&json!({"cmd": "send", "agent": "bob", "to": "task", "body": "m3"})).unwrap();
    assert!(sent["id"].as_str().unwrap() < now.as_str(), "the daemon has the host's clock too: {sent}");
}

#[test]
fn a_small_disk_is_full_when_it_is_filled_and_takes_messages_again_when_it_is_emptied() {
    if !namespaces() {
        return;
    }
    let network = Network::new(1, Topology::Hub);
    let host = &network.hosts[0];
    host.small_disk(2 << 20).unwrap();
    host.start();
    let send = || host.ask(&json!({"cmd": "send", "agent": "bob", "to": "task", "body": "x".repeat(9_000)})).unwrap();
    assert_eq!(send()["ok"], true);
    host.fill_disk();
    assert_eq!(send()["ok"], false);
    host.empty_disk();
    assert_eq!(send()["ok"], true);
}

#[test]
fn a_disk_that_is_put_back_holds_what_it_held() {
    let network = Network::new(1, Topology::Hub);
    let host = &network.hosts[0];
    let before = host.send_standalone("alice", "task", &json!("m1"));
    let image = host.image();
    let after = host.send_standalone("alice", "task", &json!("m2"));
    host.restore(&image);
    let log = host.run("alice", &["log", "task"]);
    assert!(log.contains(&before) && !log.contains(&after), "{log}");
}

#[test]
fn a_network_leaves_nothing_behind() {
    let network = Network::new(2, Topology::Mesh);
    network.start();
    let (name, directory) = (network.name(), network.directory().to_path_buf());
    assert!(directory.exists());
    drop(network);
    assert_eq!(directory.metadata().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!namespaces_named(&name));
    assert_eq!(processes_of(&name), [0; 0]);
}

fn namespaces_named(name: &str) -> bool {
    let listed = Command::new("ip").args(["netns", "list"]).output();
    listed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&format!("{name}-")))
}

/// Run by the test below in a process of its own, which is killed.
#[test]
#[ignore = "is a part of the next test"]
fn a_network_that_waits_to_be_killed() {
    let network = Network::new(2, Topology::Mesh);
    network.start();
    println!("made {}", network.directory().display());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_test_that_is_killed_leaves_nothing_behind() {
    use std::io::{BufRead, BufReader};
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "a_network_that_waits_to_be_killed"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let made = lines.find_map(|line| line.unwrap().split_once("made ").map(|(_, path)| path.to_string())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let directory = Path::new(&made);
    let name = directory.file_name().unwrap().to_string_lossy();
    eventually(60, "everything is gone", || (!directory.exists() && !namespaces_named(&name)).then_some(()));
    eventually(60, "every process is gone", || processes_of(&name).is_empty().then_some(()));
}

/// The processes that have a network's mark in their environment.
fn processes_of(name: &str) -> Vec<u32> {
    let mark = format!("RELAY_TEST_NETWORK={name}");
    let marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(marked).collect()
}
