//! kill -9 in the middle of `archive`, `ack`, `read` and their kin: what inbox and count answer afterwards is what the
//! records say, and what was confirmed is so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fmail_e2e::{Random, Sandbox, eventually, full, report, seed};
use rustix::process::Signal;
use serde_json::{Value, json};

const MESSAGES: usize = 600;

fn id(number: usize) -> String {
    format!("20260110-1530{:02}-{:04}", number / 100, number % 100)
}

fn fill(sandbox: &Sandbox) {
    for number in 0..MESSAGES {
        let message = json!({"from": "alice", "to": "@bob", "time": "2026-01-10T15:00:00Z", "body": number});
        sandbox.write(format!(".fmail/dm/bob/{}.json", id(number)), message.to_string());
    }
}

/// What the records say, read as plain JSON: a half written one fails here. Where a record was split, the record with the
/// longer name says what is newer.
fn states(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    let mut states = BTreeMap::new();
    let directory = ".fmail/records/mailbox/bob";
    let mut names: Vec<String> = sandbox.names(directory).into_iter().filter(|name| name.starts_with("20")).collect();
    names.sort_by_key(String::len);
    for name in names {
        let bytes = std::fs::read(sandbox.path().join(directory).join(&name)).unwrap();
        let record: BTreeMap<String, Value> =
            serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{name} is torn: {error}"));
        states.extend(record.into_iter().filter(|(id, _)| id != "split"));
    }
    states
}

fn listed(sandbox: &Sandbox, folder: &[&str]) -> BTreeSet<String> {
    let lines = sandbox.agent("bob").args(["inbox", "--json", "-n", "100000"]).args(folder).ok().json_lines();
    let ids: BTreeSet<String> = lines.iter().map(|message| message["id"].as_str().unwrap().to_string()).collect();
    assert_eq!(ids.len(), lines.len(), "nothing is listed twice");
    ids
}

/// Requires that all answers are what the records and the message files say.
fn check(sandbox: &Sandbox, what: &str) {
    let states = states(sandbox);
    let stored: Vec<String> =
        sandbox.names(".fmail/dm/bob").iter().map(|name| name.trim_end_matches(".json").to_string()).collect();
    let is = |id: &String, flag: &str| states.get(id).is_some_and(|state| state[flag]["set"] == true);
    let deleted = |id: &String| states.get(id).is_some_and(|state| state["deleted"].is_string());
    let open: BTreeSet<String> = stored.iter().filter(|id| !is(id, "archived") && !deleted(id)).cloned().collect();
    let unread: BTreeSet<String> = open.iter().filter(|id| !is(id, "read")).cloned().collect();
    let archived = stored.iter().filter(|id| is(id, "archived") && !deleted(id)).cloned().collect();
    let count = sandbox.agent("bob").args(["count", "--json"]).ok().json();
    let counted = (count["total"].as_u64().unwrap(), count["unread"].as_u64().unwrap());
    assert_eq!(counted, (open.len() as u64, unread.len() as u64), "{what}: count");
    assert_eq!(listed(sandbox, &[]), unread, "{what}: inbox");
    assert_eq!(listed(sandbox, &["--all"]), open, "{what}: inbox --all");
    assert_eq!(listed(sandbox, &["--archived"]), archived, "{what}: inbox --archived");
    assert_eq!(sandbox.agent("bob").arg("check").run().code, i32::from(unread.is_empty()), "{what}: check");
}

/// A command that changes bob's mail, and its words.
fn command(random: &mut Random) -> Vec<String> {
    let some = |random: &mut Random| id(random.below(MESSAGES as u64) as usize);
    let words: &[&str] = match random.below(8) {
        0 => &["archive", "--all"],
        1 => &["unarchive", "--all"],
        2 => &["mark-unread", "--all"],
        3 => &["ack", "--all"],
        4 => return vec!["read".into(), some(random), some(random)],
        5 => return vec!["archive".into(), some(random)],
        6 => return vec!["ack".into(), some(random)],
        _ => return vec!["mark-read".into(), some(random), some(random), some(random)],
    };
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn a_change_may_be_killed_at_any_moment() {
    let seed = seed(0x3a11_b0c5);
    let kills = if full() { 300 } else { 30 };
    let mut random = Random::new(seed);
    let sandbox = Sandbox::new();
    fill(&sandbox);
    sandbox.agent("bob").arg("count").ok();
    let (mut killed, mut faster) = (0, 0);
    let mut usual: BTreeMap<String, Duration> = BTreeMap::new();
    for number in 0..kills * 20 {
        if killed == kills {
            break;
        }
        let words = command(&mut random);
        let kind =
            format!("{} {}", words[0], words.get(1).filter(|word| word.starts_with("--")).map_or("", |word| word));
        let Some(bound) = usual.get(&kind).copied() else {
            // The first of a kind runs to its end, so that the kills fall into it on a fast and on a busy machine alike.
            let started = Instant::now();
            sandbox.agent("bob").args(&words).ok();
            usual.insert(kind, started.elapsed());
            continue;
        };
        let delay = bound.mul_f64(random.below(1_200) as f64 / 1_000.0);
        let started = Instant::now();
        let running = sandbox.agent("bob").args(&words).spawn();
        while started.elapsed() < delay {
            std::hint::spin_loop();
        }
        running.signal(Signal::KILL);
        let output = running.wait();
        let what = format!("seed {seed}, number {number}, {words:?} killed after {delay:?}");
        match output.code {
            137 => killed += 1,
            0 => faster += 1,
            code => panic!("{what}: exit {code}\n{output}"),
        }
        if output.code != 0 {
            check(&sandbox, &what);
        }
    }
    println!("{killed} killed, {faster} were faster");
    assert_eq!(killed, kills, "the kills came too late");
    // What is confirmed is so, whatever was left behind by the dead.
    let id = id(7);
    sandbox.agent("bob").args(["unarchive", &id]).ok();
    sandbox.agent("bob").args(["mark-unread", &id]).ok();
    assert!(listed(&sandbox, &[]).contains(&id));
    sandbox.agent("bob").args(["archive", "--all"]).ok();
    check(&sandbox, "at the end");
    assert_eq!(sandbox.agent("bob").arg("count").ok().stdout, "0 total, 0 unread for @bob\n");
    assert_eq!(sandbox.names(".fmail/dm/bob").len(), MESSAGES, "no message was lost");
    eventually(60, "nothing is left behind", || (sandbox.names(".fmail/tmp").is_empty()).then_some(()));
    report("kills", "mail", seed, &[("kills", killed)]);
}
