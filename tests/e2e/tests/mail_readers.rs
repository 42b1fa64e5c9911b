//! Several at one mailbox, as processes: readers that share the work, readers that die, senders at the same moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fmail_e2e::{Running, Sandbox};
use rustix::process::Signal;
use serde_json::{Value, json};

fn full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}

/// Puts messages into bob's mailbox, as another implementation would write them: a thousand sends would take longer than
/// what is tested.
fn fill(sandbox: &Sandbox, count: usize) -> BTreeSet<String> {
    let id = |number: usize| format!("20260110-15{:02}00-{:04}", number / 100, number % 100);
    for number in 0..count {
        let message = json!({"from": "alice", "to": "@bob", "time": "2026-01-10T15:00:00Z", "body": number});
        sandbox.write(format!(".fmail/dm/bob/{}.json", id(number)), message.to_string());
    }
    (0..count).map(id).collect()
}

fn claim(sandbox: &Sandbox, time: &str, count: usize) -> Vec<Value> {
    sandbox.agent("bob").args(["inbox", "--json", "--claim", time, "-n", &count.to_string()]).ok().json_lines()
}

/// The ids of claimed messages and the token of the claim.
fn parts(claimed: &[Value]) -> (Vec<String>, String) {
    let ids = claimed.iter().map(|message| message["id"].as_str().unwrap().to_string()).collect();
    (ids, claimed[0]["mail"]["claim"]["token"].as_str().unwrap().to_string())
}

fn finish(sandbox: &Sandbox, claimed: &[Value]) -> Vec<String> {
    let (ids, token) = parts(claimed);
    sandbox.agent("bob").args(["ack", "--token", &token]).args(&ids).ok();
    ids
}

#[test]
fn four_readers_drain_a_thousand_messages_and_each_comes_once() {
    const READERS: usize = 4;
    let sandbox = Arc::new(Sandbox::new());
    let sent = fill(&sandbox, 1_000);
    let got: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let started = Instant::now();
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (sandbox, got) = (sandbox.clone(), got.clone());
            std::thread::spawn(move || {
                // One at a time where there is time for it; otherwise each reader takes another number at a time.
                let batch = if full() { 1 } else { 10 + 3 * reader };
                let mut rounds = 0;
                loop {
                    let claimed = claim(&sandbox, "10m", batch);
                    if claimed.is_empty() {
                        return rounds;
                    }
                    for id in finish(&sandbox, &claimed) {
                        *got.lock().unwrap().entry(id).or_default() += 1;
                    }
                    rounds += 1;
                }
            })
        })
        .collect();
    let rounds: Vec<usize> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    println!("{rounds:?} rounds in {:?}", started.elapsed());
    let got = got.lock().unwrap();
    assert_eq!(got.keys().cloned().collect::<BTreeSet<_>>(), sent, "each message");
    assert!(got.values().all(|times| *times == 1), "once");
    assert!(rounds.iter().all(|rounds| *rounds > 1), "all of them worked: {rounds:?}");
    let count = sandbox.agent("bob").args(["count", "--json"]).ok().json();
    assert_eq!((&count["total"], &count["unread"]), (&1_000.into(), &0.into()));
}

#[test]
fn what_a_killed_reader_had_claimed_is_given_out_again_once() {
    let sandbox = Sandbox::new();
    let sent = fill(&sandbox, 6);
    // A reader that claims two, and is killed before it has finished them.
    let script = "fmail inbox --claim 2s -n 2 --json | tail -n 1; sleep 600; fmail ack --all";
    let mut reader = sandbox.bash("bob", script).spawn();
    reader.json();
    reader.signal_all(Signal::KILL);
    assert_eq!(reader.wait().code, 128 + 9);
    let others = claim(&sandbox, "10m", 10);
    let others: BTreeSet<String> = finish(&sandbox, &others).into_iter().collect();
    assert_eq!(others.len(), 4, "the lease of the dead reader still runs");
    let again = fmail_e2e::eventually(30, "the lease ends", || {
        Some(claim(&sandbox, "10m", 10)).filter(|mail| !mail.is_empty())
    });
    assert!(claim(&sandbox, "10m", 10).is_empty(), "given out again once");
    assert!(again.iter().all(|message| message["mail"]["claim"]["attempts"] == 2), "{again:?}");
    let again: BTreeSet<String> = finish(&sandbox, &again).into_iter().collect();
    assert_eq!(again.union(&others).cloned().collect::<BTreeSet<_>>(), sent);
    assert!(again.is_disjoint(&others));
    sandbox.agent("bob").arg("check").fails(1);
}

#[test]
fn a_hundred_senders_at_once_are_all_in_the_inbox() {
    let sandbox = Sandbox::new();
    sandbox.agent("bob").args(["register", "bob"]).ok();
    let senders: Vec<Running> = (0..100)
        .map(|number| {
            sandbox.agent(&format!("sender-{number}")).args(["send", "@bob", &format!("body {number}")]).spawn()
        })
        .collect();
    // Bob looks while they send, and misses nothing by it.
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let inbox = sandbox.agent("bob").args(["inbox", "-n", "1000", "--json"]).ok().json_lines();
        let ids: BTreeSet<String> = inbox.iter().map(|message| message["id"].as_str().unwrap().to_string()).collect();
        assert!(seen.is_subset(&ids), "what was there is there");
        seen = ids;
    }
    let ids: BTreeSet<String> = senders.into_iter().map(|sender| sender.wait().stdout.trim_end().to_string()).collect();
    assert_eq!(ids.len(), 100);
    let inbox = sandbox.agent("bob").args(["inbox", "-n", "1000", "--json"]).ok().json_lines();
    let got: Vec<&str> = inbox.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert!(got.is_sorted() && got.len() == 100, "the oldest first");
    assert_eq!(got.into_iter().map(String::from).collect::<BTreeSet<_>>(), ids);
    assert_eq!(sandbox.agent("bob").arg("count").ok().stdout, "100 total, 100 unread for @bob\n");
}
