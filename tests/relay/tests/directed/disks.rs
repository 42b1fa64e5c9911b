//! Disks that are old, full, copied, or came through git.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use fmail_e2e::eventually;
use fmail_relay_tests::{Ground, Mix, Network, Topology};
use serde_json::json;

use crate::{let_it_work, links, send, send_standalone, under_load};

/// What the others have got from a host comes back to it; and a delete that it has forgotten holds.
#[test]
fn a_host_whose_old_disk_is_put_back_gets_back_what_the_others_hold() {
    let network = Network::new(3, Topology::Mesh);
    network.start();
    for number in 0..20 {
        send(&network, 0, "alice", "task", json!({"marker": format!("before-{number}")}));
    }
    network.converge();
    network.hosts[0].stop();
    let image = network.hosts[0].image();
    network.hosts[0].start();
    for number in 0..20 {
        send(&network, 0, "alice", "@bob", json!({"marker": format!("after-{number}")}));
    }
    // Everything is on the other hosts now, so the checker is told of no loss.
    network.converge();
    network.hosts[0].kill();
    network.hosts[0].restore(&image);
    network.hosts[0].start();
    send(&network, 0, "alice", "task", json!({"marker": "afterwards"}));
    network.converge();
}

#[test]
fn what_was_deleted_or_swept_away_is_not_brought_back_by_an_old_disk() {
    let network = Network::new(3, Topology::Mesh);
    network.start();
    let mut ids = Vec::new();
    for number in 0..6 {
        ids.push(send(&network, 0, "alice", "@bob", json!({"marker": format!("mail-{number}")})));
    }
    fmail_relay_tests::plant(&network, 0, "task", "20260101-120000-0001", &json!({"marker": "ancient"}), None);
    network.converge();
    network.hosts[2].stop();
    let image = network.hosts[2].image();
    network.hosts[2].start();
    network.hosts[1].run("bob", &["delete", &ids[0], &ids[3]]);
    network.ledger.marked("deleted", 1, "bob", "mail-0");
    network.ledger.marked("deleted", 1, "bob", "mail-3");
    network.hosts[0].run("sweeper", &["gc", "--days", "7"]);
    network.ledger.swept(0, 1_767_700_000);
    network.converge();
    network.hosts[2].kill();
    network.hosts[2].restore(&image);
    network.hosts[2].start();
    // A message from there shows that the link works, so that what must not come has had its chance.
    send(&network, 2, "carol", "task", json!({"marker": "from the old disk"}));
    let verdict = network.converge();
    assert_eq!((verdict.count("deleted"), verdict.count("swept")), (2, 1));
}

#[test]
fn a_full_disk_holds_up_nobody_else_and_gets_what_it_missed_when_it_has_room() {
    let network = Network::new(3, Topology::Hub);
    if network.ground() == Ground::Loopback {
        eprintln!("SKIPPED: a small disk cannot be mounted here");
        return;
    }
    network.hosts[2].small_disk(4 << 20).unwrap();
    network.start();
    under_load(&network, 6, Mix { deletes: false, ..Mix::default() }, || {
        let_it_work(500);
        network.hosts[2].fill_disk();
        let_it_work(1_000);
        // The others go on: what one sends reaches the other past the full one.
        send(&network, 0, "alice", "news", json!({"marker": "beside"}));
        let topic = network.hosts[1].store().join("topics/news");
        eventually(60, "the message on another host", || fs::read_dir(&topic).ok()?.next().map(drop));
        network.hosts[2].empty_disk();
    });
    network.converge();
}

/// A project's `.fmail` that was committed: the other host has cloned it, and both have gone on.
#[test]
fn messages_that_reached_both_hosts_through_git_are_there_once() {
    let network = Network::new(2, Topology::Mesh);
    let [first, second] = [&network.hosts[0], &network.hosts[1]];
    for number in 0..10 {
        send_standalone(&network, 0, "task", &format!("committed-{number}"));
    }
    let git = |directory: &Path, arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(directory).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&first.project(), &["init", "--quiet"]);
    git(&first.project(), &["add", "."]);
    git(&first.project(), &["commit", "--quiet", "-m", "mail"]);
    fs::remove_dir(second.project()).unwrap();
    git(network.directory(), &["clone", "--quiet", "h0/project", "h1/project"]);
    assert_eq!(fs::read_dir(second.store().join("topics/task")).unwrap().count(), 10);
    send_standalone(&network, 0, "task", "here");
    send_standalone(&network, 1, "task", "there");
    network.start();
    send(&network, 1, "carol", "@bob", json!({"marker": "private"}));
    let verdict = network.converge();
    assert_eq!((verdict.count("messages"), verdict.count("acknowledged")), (13, 13));
}

/// The whole disk, with the id of the host that is kept outside of the project.
#[test]
fn a_host_that_was_made_from_another_ones_disk_is_a_host_of_its_own() {
    let network = Network::new(3, Topology::Mesh);
    network.hosts[0].start();
    for number in 0..10 {
        send(&network, 0, "alice", "task", json!({"marker": format!("copied-{number}")}));
    }
    network.hosts[0].stop();
    let image = network.hosts[0].image();
    network.hosts[1].restore(&image);
    network.start();
    under_load(&network, 7, Mix::default(), || let_it_work(1_500));
    network.converge();
    let connected = links(&network.hosts[0]).iter().filter(|link| link["connected"] == true).count();
    assert!(connected >= 2, "the copy is no stranger to the original: {:?}", links(&network.hosts[0]));
}

#[test]
fn direct_messages_are_private_on_every_host_that_they_reach() {
    let network = Network::new(3, Topology::Chain);
    network.start();
    send(&network, 0, "alice", "@bob", json!({"marker": "secret"}));
    network.converge();
    for host in &network.hosts {
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let mailbox = host.store().join("dm/bob");
        assert_eq!(mode(&mailbox), 0o700);
        let files: Vec<_> = fs::read_dir(&mailbox).unwrap().flatten().collect();
        assert_eq!((files.len(), mode(&files[0].path())), (1, 0o600));
    }
}
