//! The mailbox: `inbox`, `check`, `count`, `peek`, `read`, `ack`, `archive` and the way back, `delete`, `receipt`.

use fmail_e2e::{Output, Sandbox};
use serde_json::{Value, json};

/// A project in which alice has sent these to bob; their ids.
fn mailbox(bodies: &[&str]) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let ids = bodies.iter().map(|body| sandbox.send("alice", "@bob", body)).collect();
    (sandbox, ids)
}

fn bob(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.agent("bob").args(args).ok()
}

/// The bodies that a listing shows.
fn shown(sandbox: &Sandbox, args: &[&str]) -> Vec<String> {
    let lines = bob(sandbox, &[args, &["--json"]].concat()).json_lines();
    lines.iter().map(|message| message["body"].as_str().unwrap().to_string()).collect()
}

fn count(sandbox: &Sandbox) -> (u64, u64) {
    let count = bob(sandbox, &["count", "--json"]).json();
    (count["total"].as_u64().unwrap(), count["unread"].as_u64().unwrap())
}

#[test]
fn inbox_shows_what_is_neither_read_nor_archived() {
    let (sandbox, ids) = mailbox(&["unread", "read", "acknowledged", "archived", "deleted"]);
    for (command, id) in [("mark-read", &ids[1]), ("ack", &ids[2]), ("archive", &ids[3]), ("delete", &ids[4])] {
        assert_eq!(bob(&sandbox, &[command, id]).stdout, format!("{id}\n"), "{command}");
    }
    assert_eq!(shown(&sandbox, &["inbox"]), ["unread"]);
    assert_eq!(shown(&sandbox, &["inbox", "--all"]), ["unread", "read", "acknowledged"]);
    assert_eq!(shown(&sandbox, &["inbox", "--archived"]), ["archived"]);
    assert_eq!(count(&sandbox), (3, 1));
    let plain = bob(&sandbox, &["inbox", "--all"]).stdout;
    let marks: Vec<bool> = plain.lines().map(|line| line.contains('(')).collect();
    assert_eq!(marks, [false, true, true], "{plain}");
    assert!(plain.contains(" alice -> @bob (acknowledged): acknowledged\n"), "{plain}");
}

#[test]
fn check_and_peek_change_nothing_and_check_answers_by_its_exit_code() {
    let (sandbox, ids) = mailbox(&["one", "two"]);
    let before = sandbox.tree();
    assert_eq!(bob(&sandbox, &["check"]).stdout, "2 unread messages for @bob\n");
    assert_eq!(bob(&sandbox, &["check", "--json"]).json(), json!({"agent": "bob", "unread": 2, "total": 2}));
    assert_eq!(bob(&sandbox, &["count"]).stdout, "2 total, 2 unread for @bob\n");
    bob(&sandbox, &["peek", &ids[0]]);
    assert!(bob(&sandbox, &["peek", &ids[1][9..], "--json"]).json()["mail"]["standing"] == "unread");
    sandbox.assert_unchanged(&before);
    bob(&sandbox, &["mark-read", "--all"]);
    let none = sandbox.agent("bob").arg("check").fails(1);
    assert_eq!(none.stderr, "");
    let none = sandbox.agent("bob").args(["check", "--json"]).run();
    assert_eq!((none.code, none.json()["unread"].clone()), (1, 0.into()));
}

#[test]
fn reading_prints_the_message_and_only_then_is_it_read() {
    let (sandbox, ids) = mailbox(&["one", "two", "three"]);
    let read = bob(&sandbox, &["read", &ids[1][9..], &ids[0]]);
    let bodies: Vec<&str> = read.stdout.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(bodies, ["two", "one"], "in the order asked for");
    assert_eq!(shown(&sandbox, &["inbox"]), ["three"]);
    let full = format!("exec fmail read {} >/dev/full", ids[2]);
    let failed = sandbox.bash("bob", &full).run();
    assert_ne!(failed.code, 0);
    assert_eq!(shown(&sandbox, &["inbox"]), ["three"], "what could not be printed is unread");
    // Whoever looks again at what is read changes nothing.
    let again = bob(&sandbox, &["read", &ids[0], "--json"]).json();
    assert_eq!(again["mail"]["standing"], "read");
    let time = |message: &Value| message["mail"]["first_read"].clone();
    assert_eq!(time(&again), time(&bob(&sandbox, &["read", &ids[0], "--json"]).json()));
}

#[test]
fn archiving_twice_says_so_and_is_no_failure() {
    let (sandbox, ids) = mailbox(&["one"]);
    assert_eq!(bob(&sandbox, &["archive", &ids[0]]).stderr, "");
    let before = sandbox.tree();
    let again = bob(&sandbox, &["archive", &ids[0]]);
    again.says(&[&format!("{} is already archived", ids[0])]);
    assert_eq!(again.stdout, format!("{}\n", ids[0]));
    let again = bob(&sandbox, &["archive", &ids[0], "--json"]).json();
    assert_eq!(again, json!({"id": ids[0], "already": true}));
    sandbox.assert_unchanged(&before);
}

#[test]
fn archiving_is_not_deleting() {
    let (sandbox, ids) = mailbox(&["kept", "gone"]);
    bob(&sandbox, &["archive", &ids[0]]);
    bob(&sandbox, &["delete", &ids[1]]);
    assert_eq!(shown(&sandbox, &["inbox", "--archived"]), ["kept"]);
    assert_eq!(shown(&sandbox, &["log", "@bob"]), ["kept"]);
    assert_eq!(sandbox.names(".fmail/dm/bob"), [format!("{}.json", ids[0])]);
    assert!(bob(&sandbox, &["read", &ids[0]]).stdout.contains("(archived): kept"));
    sandbox.agent("bob").args(["read", &ids[1]]).fails(7);
    bob(&sandbox, &["unarchive", &ids[0]]);
    assert_eq!(shown(&sandbox, &["inbox", "--all"]), ["kept"]);
}

#[test]
fn what_was_closed_can_be_opened_again_and_the_two_are_independent() {
    let (sandbox, ids) = mailbox(&["one"]);
    for command in ["read", "archive", "mark-unread"] {
        bob(&sandbox, &[command, &ids[0]]);
    }
    assert_eq!(count(&sandbox), (0, 0), "marked unread, it stays archived");
    bob(&sandbox, &["unarchive", &ids[0]]);
    assert_eq!((count(&sandbox), shown(&sandbox, &["inbox"])), ((1, 1), vec!["one".to_string()]));
    for (command, word) in [("unarchive", "open"), ("mark-unread", "unread")] {
        bob(&sandbox, &[command, &ids[0]]).says(&[&format!("is already {word}")]);
    }
}

#[test]
fn bulk_changes_what_fits_and_tells_what_was_unread() {
    let (sandbox, ids) = mailbox(&["one", "two"]);
    let from_carol = sandbox.send("carol", "@bob", "three");
    let old = "20260101-000000-0001";
    let message = r#"{"from":"carol","to":"@bob","time":"2026-01-01T00:00:00Z","body":"old"}"#;
    sandbox.write(format!(".fmail/dm/bob/{old}.json"), message);
    bob(&sandbox, &["mark-read", &ids[0]]);
    let before = sandbox.tree();
    let told = bob(&sandbox, &["archive", "--from", "alice", "--dry-run"]);
    told.says(&["2 messages would be archived, 1 of them unread"]);
    assert_eq!(told.stdout, format!("{}\n{}\n", ids[0], ids[1]));
    sandbox.assert_unchanged(&before);
    assert_eq!(bob(&sandbox, &["archive", "--older-than", "1d"]).stdout, format!("{old}\n"));
    assert_eq!(bob(&sandbox, &["archive", "--from", "@carol"]).stdout, format!("{from_carol}\n"));
    let rest = bob(&sandbox, &["archive", "--all"]);
    rest.says(&["2 messages archived, 1 of them unread"]);
    assert_eq!(bob(&sandbox, &["archive", "--all"]).stdout, "", "nothing is left to archive");
    assert_eq!(bob(&sandbox, &["unarchive", "--older-than", "1d", "--from", "carol"]).stdout, format!("{old}\n"));
    assert_eq!(shown(&sandbox, &["inbox"]), ["old"]);
    assert_eq!(bob(&sandbox, &["delete", "--all"]).stdout.lines().count(), 4, "deleting means the archived as well");
    assert_eq!((count(&sandbox), sandbox.names(".fmail/dm/bob").len()), ((0, 0), 0));
}

#[test]
fn an_observer_s_look_never_changes_the_recipient_s_state() {
    let (sandbox, ids) = mailbox(&["one"]);
    let records = || sandbox.names(".fmail/records");
    assert_eq!(records(), [] as [&str; 0]);
    for (agent, args) in [
        ("alice", &["read", &ids[0]][..]),
        ("alice", &["peek", &ids[0]]),
        ("alice", &["thread", &ids[0]]),
        ("alice", &["receipt", &ids[0]]),
        ("alice", &["inbox"]),
        ("alice", &["log", "@bob", "--allow-other-dm"]),
        ("eve", &["inbox", "--all"]),
        ("eve", &["log", "@bob", "--allow-other-dm"]),
    ] {
        sandbox.agent(agent).args(args).ok();
        assert_eq!(records(), [] as [&str; 0], "{agent} {args:?}");
    }
    assert_eq!(shown(&sandbox, &["inbox"]), ["one"]);
}

#[test]
fn a_receipt_tells_what_each_recipient_has_done_and_no_more() {
    let sandbox = Sandbox::new();
    let id = sandbox.agent("alice").args(["send", "@bob,@dave", "x", "--cc", "@carol"]).ok().stdout;
    let id = id.trim_end();
    let standing = |agent: &str| -> Vec<String> {
        let receipt = sandbox.agent(agent).args(["receipt", id, "--json"]).ok().json();
        let all = receipt["recipients"].as_array().unwrap();
        all.iter().map(|one| one["standing"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(standing("alice"), ["unread", "unread", "unread"]);
    bob(&sandbox, &["inbox"]);
    let receipt = sandbox.agent("alice").args(["receipt", id, "--json"]).ok().json();
    assert!(receipt["recipients"][0]["retrieved"].is_string() && receipt["recipients"][0].get("read").is_none());
    bob(&sandbox, &["ack", id]);
    sandbox.agent("carol").args(["archive", id]).ok();
    assert_eq!(standing("alice"), ["acknowledged", "unread", "archived"]);
    let table = sandbox.agent("alice").args(["receipt", id]).ok().stdout;
    assert!(table.contains("@carol (cc)") && table.starts_with("RECIPIENT"), "{table}");
    sandbox.agent("eve").args(["receipt", id]).fails(7);
}

#[test]
fn an_expired_message_is_no_unread_mail_any_more() {
    let sandbox = Sandbox::new();
    sandbox.agent("alice").args(["send", "@bob", "in time", "--expires", "1h"]).ok();
    let expired = json!({"from": "alice", "to": "@bob", "time": "2026-01-01T00:00:00Z", "body": "too late",
        "expires": "2026-01-01T01:00:00Z"});
    sandbox.write(".fmail/dm/bob/20260101-000000-0001.json", expired.to_string());
    assert_eq!(shown(&sandbox, &["inbox"]), ["in time"]);
    assert_eq!(count(&sandbox), (2, 1));
    assert!(bob(&sandbox, &["inbox", "--all"]).stdout.contains("(expired): too late"));
}

#[test]
fn an_inbox_says_how_much_more_there_is() {
    let (sandbox, ids) = mailbox(&["one", "two", "three"]);
    let first = bob(&sandbox, &["inbox", "-n", "1"]);
    assert!(first.stdout.starts_with(&ids[0]) && first.stdout.lines().count() == 1, "the oldest\n{first}");
    first.says(&["2 more"]);
    assert_eq!(bob(&sandbox, &["inbox", "--from", "carol"]).stdout, "");
    assert_eq!(bob(&sandbox, &["inbox", "-n", "3"]).stderr, "");
}

#[test]
fn a_message_to_several_is_one_message_with_a_state_for_each() {
    let sandbox = Sandbox::new();
    let sent = sandbox.agent("alice").args(["send", "@bob,@carol,task", "x", "--cc", "@dave"]).ok();
    let id = sent.stdout.trim_end().to_string();
    for place in ["dm/bob", "dm/carol", "dm/dave", "topics/task"] {
        assert_eq!(sandbox.names(&format!(".fmail/{place}")), [format!("{id}.json")], "{place}");
    }
    sent.says(&["nobody in this project has used the name @bob", "@carol", "@dave"]);
    bob(&sandbox, &["archive", &id]);
    for agent in ["carol", "dave"] {
        assert_eq!(sandbox.agent(agent).args(["inbox", "--json"]).ok().json()["id"], id);
    }
    let strict = sandbox.agent("alice").args(["send", "--strict", "@bob,@alice", "y"]).fails(7);
    strict.says(&["@bob"]);
    assert_eq!(sandbox.names(".fmail/dm/bob").len(), 1, "refused for one, it is stored for none");
}

#[test]
fn the_same_over_a_daemon() {
    let (sandbox, ids) = mailbox(&["one", "two"]);
    let daemon = sandbox.forged(&[]);
    assert_eq!(shown(&sandbox, &["inbox"]), ["one", "two"]);
    bob(&sandbox, &["read", &ids[0]]);
    bob(&sandbox, &["archive", &ids[1]]);
    bob(&sandbox, &["archive", &ids[1]]).says(&["already archived"]);
    assert_eq!(count(&sandbox), (1, 0));
    sandbox.agent("bob").arg("check").fails(1);
    drop(daemon);
    assert_eq!(count(&sandbox), (1, 0));
}
