//! kill -9 at any moment: what was acknowledged is there and whole, the rest is whole or absent, and the next command
//! works.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fmail_e2e::{Random, Running, Sandbox, full, pause, report, seed};
use rustix::process::Signal;
use serde_json::Value;

/// Kills a command after a while; its exit code if it was faster.
fn kill_after(running: Running, delay: Duration) -> Option<i32> {
    pause(delay);
    running.signal(Signal::KILL);
    let output = running.wait();
    (output.code != 128 + 9).then_some(output.code)
}

/// Every message file, read as plain JSON: a half written one fails here.
fn files(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for parent in ["topics", "dm"] {
        for mailbox in sandbox.names(&format!(".fmail/{parent}")) {
            for name in sandbox.names(&format!(".fmail/{parent}/{mailbox}")) {
                let place = format!("{parent}/{mailbox}/{name}");
                let bytes = std::fs::read(sandbox.store().join(&place)).unwrap();
                let value = serde_json::from_slice(&bytes);
                found.insert(place.clone(), value.unwrap_or_else(|error| panic!("{place} is torn: {error}")));
            }
        }
    }
    found
}

fn check(sandbox: &Sandbox, acknowledged: &BTreeSet<String>, attempted: &BTreeSet<String>, what: &str) {
    let log = sandbox.log("reader", &["--allow-other-dm"]);
    let ids: BTreeSet<&str> = log.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), log.len(), "{what}: an id twice");
    let mut bodies: Vec<&str> = log.iter().map(|message| message["body"].as_str().unwrap()).collect();
    bodies.sort_unstable();
    let distinct: BTreeSet<&str> = bodies.iter().copied().collect();
    assert_eq!(distinct.len(), bodies.len(), "{what}: a message twice");
    let lost: Vec<_> = acknowledged.iter().filter(|body| !distinct.contains(body.as_str())).collect();
    assert!(lost.is_empty(), "{what}: acknowledged and lost: {lost:?}");
    assert!(distinct.iter().all(|body| attempted.contains(*body)), "{what}: a body that nobody sent");
    let places = files(sandbox);
    assert_eq!(places.len(), log.len(), "{what}: files and log differ: {:?}", places.keys());
}

#[test]
fn a_send_may_be_killed_at_any_moment() {
    let kills = if full() { 500 } else { 60 };
    let seed = seed(0x51d_beef);
    let mut random = Random::new(seed);
    let sandbox = Sandbox::new();
    let (mut acknowledged, mut attempted) = (BTreeSet::new(), BTreeSet::new());
    let first = "the project is there".to_string();
    // The watch is there from the first message on, so that everything that ever becomes visible passes it.
    let mut watch = sandbox.agent("watcher").args(["watch", "--json"]).spawn();
    watch.await_watching();
    sandbox.send("sender", "task", &first);
    acknowledged.insert(first.clone());
    attempted.insert(first);
    let (mut killed, mut stored) = (0, 0);
    // How long a send takes here, so that the kills fall into it on a fast and on a busy machine alike.
    let started = Instant::now();
    sandbox.send("sender", "task", "measured");
    let usual = started.elapsed();
    acknowledged.insert("measured".into());
    attempted.insert("measured".into());
    // A send may be faster than its kill; those do not count.
    for number in 0..kills * 6 {
        if killed == kills {
            break;
        }
        let body = format!("kill {number}");
        // A third to topics that do not exist yet: making a directory is part of the path.
        let topic = if number % 3 == 0 { format!("topic-{number}") } else { "task".into() };
        let delay = usual.mul_f64(random.below(1_200) as f64 / 1_000.0);
        let running = sandbox.agent("sender").args(["send", &topic, &body]).spawn();
        attempted.insert(body.clone());
        match kill_after(running, delay) {
            Some(0) => {
                acknowledged.insert(body);
                stored += 1;
            }
            Some(code) => panic!("kill {number} after {delay:?}: exit {code}"),
            None => killed += 1,
        }
        if number % 10 == 9 {
            check(&sandbox, &acknowledged, &attempted, &format!("kill {number} after {delay:?}"));
        }
    }
    println!("{killed} killed, {stored} were faster; a send takes {usual:?}");
    assert_eq!(killed, kills, "the kills came too late");
    let last = "after all kills".to_string();
    sandbox.send("sender", "task", &last);
    acknowledged.insert(last.clone());
    attempted.insert(last);
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0], "left behind after the next send");
    check(&sandbox, &acknowledged, &attempted, "at the end");
    sandbox.agent("reader").args(["topics", "--json"]).ok();
    sandbox.agent("reader").args(["who", "--json"]).ok();
    // The watch has seen everything that is there, once.
    let stored = files(&sandbox).len();
    let seen: Vec<Value> = (0..stored).map(|_| watch.json()).collect();
    let seen: BTreeSet<String> = seen.iter().map(|message| message["body"].as_str().unwrap().to_string()).collect();
    assert_eq!(seen.len(), stored, "the watch saw something twice");
    assert_eq!(watch.line_within(Duration::from_millis(300)), None);
    report("kills", "sends", seed, &[("kills", killed), ("messages", seen.len() as u64)]);
}

#[test]
fn a_removal_may_be_killed_at_any_moment() {
    let seed = seed(0x9c_0001);
    let mut random = Random::new(seed);
    let rounds = if full() { 60 } else { 10 };
    let sandbox = Sandbox::new();
    let (old, mut killed) = (300, 0);
    for round in 0..rounds {
        for number in 0..old {
            let place = format!(".fmail/topics/old/20200101-0000{:02}-{number:04}.json", round % 60);
            sandbox.write(
                &place,
                format!(r#"{{"from":"jq","to":"old","time":"2020-01-01T00:00:00Z","body":"{round}/{number}"}}"#),
            );
        }
        sandbox.send("sender", "task", &format!("kept {round}"));
        let delay = Duration::from_micros(random.below(12_000));
        let code = kill_after(sandbox.agent("sender").args(["gc"]).spawn(), delay);
        assert!(matches!(code, None | Some(0)), "round {round} after {delay:?}: {code:?}");
        killed += u64::from(code.is_none());
        let left = files(&sandbox).len();
        assert_eq!(sandbox.log("reader", &[]).len(), left, "round {round} after {delay:?}");
        sandbox.send("sender", "task", &format!("also kept {round}"));
    }
    sandbox.agent("sender").args(["gc"]).ok();
    assert_eq!(sandbox.log("reader", &[]).len(), 2 * rounds);
    assert_eq!(files(&sandbox).len(), 2 * rounds);
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0]);
    report("kills", "removals", seed, &[("kills", killed)]);
}

#[test]
fn a_rebuild_may_be_killed_at_any_moment() {
    let seed = seed(0x4eb_0001);
    let mut random = Random::new(seed);
    let rounds = if full() { 100 } else { 15 };
    let sandbox = Sandbox::new();
    for number in 0..1_000 {
        sandbox.write(
            format!(".fmail/topics/topic-{}/20260101-000000-{number:04}.json", number % 7),
            format!(r#"{{"from":"jq","time":"2026-01-01T00:00:00Z","body":"{number}"}}"#),
        );
    }
    let (mut expected, mut killed) = (1_000, 0);
    for round in 0..rounds {
        let _ = std::fs::remove_file(sandbox.store().join("index"));
        let delay = Duration::from_micros(random.below(30_000));
        let reads = round % 2 == 0;
        let command = sandbox.agent("sender");
        let command = if reads { command.args(["log", "-n", "1"]) } else { command.args(["send", "task", "sent"]) };
        let code = kill_after(command.spawn(), delay);
        assert!(matches!(code, None | Some(0)), "round {round} after {delay:?}: {code:?}");
        killed += u64::from(code.is_none());
        let on_disk = files(&sandbox).len();
        assert!(on_disk == expected || (!reads && on_disk == expected + 1), "round {round} after {delay:?}");
        assert!(code.is_none() || reads || on_disk == expected + 1, "round {round}: acknowledged and lost");
        assert_eq!(sandbox.log("reader", &[]).len(), on_disk, "round {round} after {delay:?}");
        expected = on_disk;
    }
    sandbox.send("sender", "task", "last");
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0]);
    assert_eq!(sandbox.log("reader", &[]).len(), expected + 1);
    report("kills", "rebuilds", seed, &[("kills", killed)]);
}
