//! A watch tells the senders what it printed: `retrieved` in their receipts.

use fmail_e2e::{DEADLINE, Running, Sandbox, eventually};
use serde_json::Value;

fn recipients(sandbox: &Sandbox, sender: &str, id: &str) -> Vec<Value> {
    let receipt = sandbox.agent(sender).args(["receipt", id, "--json"]).ok().json();
    receipt["recipients"].as_array().expect("a list").clone()
}

fn waits_for_retrieved(sandbox: &Sandbox, watch: &mut Running) {
    let args = ["send", "@bob", "hello", "--wait-for", "retrieved", "--timeout", "30s"];
    let sent = sandbox.agent("alice").args(args).ok();
    sent.says(&["retrieved by @bob"]);
    assert_eq!(watch.json()["body"], "hello");
    let receipt = &recipients(sandbox, "alice", sent.stdout.trim())[0];
    assert!(receipt["retrieved"].is_string() && receipt["read"].is_null(), "{receipt}");
    assert_eq!(receipt["standing"], "unread", "who has got it has not read it");
}

#[test]
fn a_sender_can_wait_for_a_watch_to_get_it() {
    let sandbox = Sandbox::new();
    sandbox.send("bob", "task", "I am here");
    let mut watch = sandbox.agent("bob").args(["watch", "--json", "--count", "1"]).spawn();
    watch.await_watching();
    waits_for_retrieved(&sandbox, &mut watch);
    let end = watch.wait();
    assert_eq!((end.code, end.stderr.as_str()), (0, ""));
}

#[test]
fn a_sender_can_wait_for_a_watch_through_the_daemon_to_get_it() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.forged(&[]);
    let mut watch = sandbox.agent("bob").args(["watch", "--json", "--count", "1"]).spawn();
    let mut looks = 0;
    eventually(DEADLINE.as_secs(), "a watch at the daemon", || {
        looks = if sandbox.connections() == 1 { looks + 1 } else { 0 };
        (looks == 10).then_some(())
    });
    waits_for_retrieved(&sandbox, &mut watch);
    assert_eq!(watch.wait().code, 0);
}

#[test]
fn everything_that_was_printed_is_noted_before_the_watch_ends() {
    let sandbox = Sandbox::new();
    sandbox.bash("alice", "for i in $(seq 60); do fmail send @bob \"number $i\" >/dev/null 2>&1; done").ok();
    let seen = sandbox.agent("bob").args(["watch", "@bob", "--since", "1h", "--count", "50", "--json"]).ok();
    let ids = |lines: &[Value]| -> Vec<String> {
        lines.iter().map(|message| message["id"].as_str().expect("an id").to_string()).collect()
    };
    let printed = ids(&seen.json_lines());
    let all = ids(&sandbox.log("bob", &["@bob"]));
    let peeked = sandbox.agent("bob").args(["peek", "--json"]).args(&all).ok().json_lines();
    let noted: Vec<Value> = peeked.into_iter().filter(|message| message["mail"]["retrieved"].is_string()).collect();
    assert_eq!((printed.len(), all.len()), (50, 60));
    assert_eq!(ids(&noted), printed, "what was not printed is not noted");
}

#[test]
fn a_running_watch_notes_without_ending() {
    let sandbox = Sandbox::new();
    sandbox.send("bob", "task", "I am here");
    let mut watch = sandbox.agent("bob").args(["watch", "--since", "1h", "--json"]).spawn();
    assert_eq!(watch.json()["body"], "I am here");
    let id = sandbox.send("alice", "@carol,@bob", "both");
    assert_eq!(watch.json()["body"], "both");
    eventually(DEADLINE.as_secs(), "a note of what was printed", || {
        let of = |name: &str| recipients(&sandbox, "alice", &id).into_iter().find(|one| one["agent"] == name);
        assert!(of("carol").is_some_and(|carol| carol["retrieved"].is_null()), "carol has seen nothing");
        of("bob").is_some_and(|bob| bob["retrieved"].is_string()).then_some(())
    });
}

#[test]
fn topics_other_mailboxes_and_made_up_names_are_not_noted() {
    let sandbox = Sandbox::new();
    let topic = sandbox.send("alice", "task", "for all");
    let direct = sandbox.send("alice", "@carol", "hers");
    let watch = |args: &[&str]| {
        let common = ["--since", "1h", "--count", "1"];
        sandbox.agent("bob").args(["watch"]).args(args).args(common).ok();
        sandbox.fmail().args(["watch"]).args(args).args(common).ok();
    };
    watch(&["task"]);
    watch(&["@carol", "--allow-other-dm"]);
    assert!(recipients(&sandbox, "alice", &topic).is_empty());
    assert!(recipients(&sandbox, "alice", &direct)[0]["retrieved"].is_null());
    assert!(!sandbox.store().join("records/mailbox/bob").exists());
}

#[test]
fn where_nothing_can_be_written_the_watch_goes_on_in_silence() {
    let sandbox = Sandbox::new();
    for body in ["one", "two"] {
        sandbox.send("alice", "@bob", body);
    }
    foreign(&sandbox, true);
    let before = sandbox.tree();
    let seen = sandbox.agent("bob").args(["watch", "@bob", "--since", "1h", "--count", "2", "--json"]).ok();
    assert_eq!((seen.json_lines().len(), seen.stderr.as_str()), (2, ""));
    sandbox.assert_unchanged(&before);
    foreign(&sandbox, false);
}

/// Makes the project one that we can read and not write: as root, another user's; otherwise read-only.
fn foreign(sandbox: &Sandbox, on: bool) {
    use std::os::unix::fs::{PermissionsExt, chown};
    if rustix::process::geteuid().is_root() {
        return chown(sandbox.store(), Some(if on { 65534 } else { 0 }), None).expect("own directory");
    }
    let mut directories = vec![sandbox.store()];
    while let Some(directory) = directories.pop() {
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(if on { 0o500 } else { 0o700 })).expect("own");
        let entries = std::fs::read_dir(&directory).expect("own directory").flatten();
        directories.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()));
    }
}
