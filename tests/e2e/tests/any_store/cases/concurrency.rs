//! Many commands at the same time.

use std::collections::BTreeSet;

use fmail_e2e::Running;
use serde_json::json;

use super::cases;
use crate::stage::{Stage, bodies};

cases![
    twenty_senders_lose_nothing_and_no_id_is_given_twice,
    twenty_senders_with_one_key_store_one_message,
    of_twenty_who_want_one_name_or_path_one_gets_it,
    every_message_is_claimed_by_one_reader,
    a_watcher_sees_what_twenty_senders_send_once_each,
];

const MANY: usize = 20;

/// Starts a command for each number, then waits for all; the exit codes and what was printed.
fn at_once(start: impl Fn(usize) -> Running) -> Vec<fmail_e2e::Output> {
    let running: Vec<Running> = (0..MANY).map(start).collect();
    running.into_iter().map(Running::wait).collect()
}

fn twenty_senders_lose_nothing_and_no_id_is_given_twice(stage: &Stage) {
    let sent =
        at_once(|number| stage.start(&format!("agent-{number}"), &["send", "task", &format!("number {number}")]));
    let ids: BTreeSet<&str> = sent.iter().map(|sent| sent.stdout.trim_end()).collect();
    assert!(sent.iter().all(|sent| sent.code == 0) && ids.len() == MANY, "{sent:?}");
    let stored = stage.command("reader", &["log", "task", "-n", "100", "--json"]).ok().json_lines();
    assert_eq!(stored.iter().map(|message| message["id"].as_str().expect("an id")).collect::<BTreeSet<_>>(), ids);
    assert_eq!(bodies(&stored).into_iter().collect::<BTreeSet<_>>().len(), MANY);
    assert_eq!(stage.command("reader", &["who", "--json"]).ok().json().as_array().map(Vec::len), Some(MANY));
}

fn twenty_senders_with_one_key_store_one_message(stage: &Stage) {
    let sent = at_once(|number| stage.start("alice", &["send", "task", &format!("number {number}"), "--key", "one"]));
    let ids: BTreeSet<&str> = sent.iter().map(|sent| sent.stdout.trim_end()).collect();
    assert!(sent.iter().all(|sent| sent.code == 0) && ids.len() == 1, "{sent:?}");
    assert_eq!(stage.command("reader", &["log", "task", "--json"]).ok().json_lines().len(), 1);
}

fn of_twenty_who_want_one_name_or_path_one_gets_it(stage: &Stage) {
    let registered = at_once(|number| stage.start(&format!("agent-{number}"), &["register", "the-one"]));
    assert_eq!(registered.iter().filter(|one| one.code == 0).count(), 1, "{registered:?}");
    assert!(registered.iter().all(|one| one.code == 0 || one.code == 8), "{registered:?}");
    let reserved = at_once(|number| stage.start(&format!("agent-{number}"), &["reserve", "src/**", "--exclusive"]));
    assert_eq!(reserved.iter().filter(|one| one.code == 0).count(), 1, "{reserved:?}");
    assert!(reserved.iter().all(|one| one.code == 0 || one.code == 8), "{reserved:?}");
}

fn every_message_is_claimed_by_one_reader(stage: &Stage) {
    for number in 0..MANY {
        stage.command("alice", &["send", "@bob", &format!("number {number}")]).ok();
    }
    let claimed = at_once(|_| stage.start("bob", &["inbox", "--claim", "5m", "-n", "2", "--json"]));
    assert!(claimed.iter().all(|one| one.code == 0), "{claimed:?}");
    let mut all: Vec<String> = claimed.iter().flat_map(|one| bodies(&one.json_lines())).collect();
    all.sort();
    let once: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), once.len(), "nothing is given to two: {all:?}");
    assert_eq!(once.len(), MANY);
}

fn a_watcher_sees_what_twenty_senders_send_once_each(stage: &Stage) {
    let count = MANY.to_string();
    let watch = stage.start("bob", &["watch", "task", "--since", "1h", "--count", &count, "--json"]);
    at_once(|number| stage.start("alice", &["send", "task", &format!("number {number}")]));
    let seen: BTreeSet<String> = bodies(&watch.wait().json_lines()).into_iter().collect();
    assert_eq!(seen.len(), MANY);
    assert_eq!(
        stage.command("bob", &["count", "--json"]).ok().json(),
        json!({"agent": "bob", "unread": 0, "total": 0})
    );
}
