//! The independent checker finds each kind of damage when it is done by hand, and nothing where none was done.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fmail_relay_tests::{Ledger, judge};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Files of two hosts that never ran.
struct Bench {
    top: TempDir,
    ledger: Ledger,
}

impl Bench {
    /// Both hold a question in a topic, its reply, and a direct message that was acknowledged. On the second host the question
    /// has got another id.
    fn new() -> Bench {
        let top = tempfile::tempdir().unwrap();
        let bench = Bench { ledger: Ledger::create(&top.path().join("ledger")), top };
        for host in 0..2 {
            let question = if host == 0 { "20260110-153000-0001" } else { "20260110-153000-0002" };
            let mut asked = message(question, "task", json!({"marker": "question"}));
            if host == 1 {
                asked["origin_id"] = "20260110-153000-0001".into();
            }
            bench.write(host, "topics/task", &asked);
            let mut reply = message("20260110-153001-0001", "task", json!("reply re:question yes"));
            reply["reply_to"] = question.into();
            bench.write(host, "topics/task", &reply);
            bench.write(host, "dm/bob", &message("20260110-153002-0001", "@bob", json!({"marker": "private"})));
            let states = json!({"20260110-153002-0001": {"acknowledged": "2026-01-10T15:31:00Z"}});
            bench.put(host, "records/mailbox/bob/20260110.json", &states);
        }
        for (id, to, body) in [
            ("20260110-153000-0001", "task", json!({"marker": "question"})),
            ("20260110-153001-0001", "task", json!("reply re:question yes")),
            ("20260110-153002-0001", "@bob", json!({"marker": "private"})),
        ] {
            bench.ledger.sent(0, id, "alice", to, &body);
        }
        bench.ledger.marked("acked", 0, "bob", "private");
        bench
    }

    fn project(&self, host: usize) -> PathBuf {
        self.top.path().join(format!("h{host}"))
    }

    fn path(&self, host: usize, path: &str) -> PathBuf {
        self.project(host).join(".fmail").join(path)
    }

    fn put(&self, host: usize, path: &str, value: &Value) {
        let file = self.path(host, path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, value.to_string()).unwrap();
    }

    fn write(&self, host: usize, mailbox: &str, message: &Value) {
        let private = mailbox.starts_with("dm/");
        let directory = self.path(host, mailbox);
        fs::create_dir_all(directory.parent().unwrap()).unwrap();
        let mode = if private { 0o700 } else { 0o755 };
        fs::DirBuilder::new().recursive(true).mode(mode).create(&directory).unwrap();
        let file = directory.join(format!("{}.json", message["id"].as_str().unwrap()));
        fs::write(&file, message.to_string()).unwrap();
        let mode = if private { 0o600 } else { 0o644 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Changes a field of a message on the second host.
    fn change(&self, path: &str, field: &str, value: Value) {
        let file = self.path(1, path);
        let mut message: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        message[field] = value;
        fs::write(&file, message.to_string()).unwrap();
    }

    fn wrong(&self) -> Vec<String> {
        judge(self.ledger.path(), &[self.project(0), self.project(1)]).wrong
    }

    /// Requires that something is wrong, and that each sentence has one of these parts; each part is in some sentence.
    #[track_caller]
    fn finds(&self, parts: &[&str]) {
        let wrong = self.wrong();
        for part in parts {
            assert!(wrong.iter().any(|line| line.contains(part)), "not found: {part}\n{wrong:#?}");
        }
        let unexpected: Vec<&String> =
            wrong.iter().filter(|line| !parts.iter().any(|part| line.contains(part))).collect();
        assert!(unexpected.is_empty(), "{unexpected:#?}");
    }
}

fn message(id: &str, to: &str, body: Value) -> Value {
    let time = format!("2026-01-10T15:30:{}Z", &id[13..15]);
    json!({"id": id, "from": "alice", "to": to, "time": time, "body": body})
}

const REPLY: &str = "topics/task/20260110-153001-0001.json";
const PRIVATE: &str = "dm/bob/20260110-153002-0001.json";

#[test]
fn nothing_is_wrong_where_no_damage_was_done() {
    let bench = Bench::new();
    let verdict = judge(bench.ledger.path(), &[bench.project(0), bench.project(1)]);
    assert_eq!(verdict.wrong, [""; 0]);
    assert_eq!(verdict.count("messages"), 3);
    assert_eq!((verdict.count("acknowledged"), verdict.count("relocated")), (3, 1));
    assert_eq!((verdict.count("replies"), verdict.count("receipts")), (2, 2));
}

#[test]
fn a_message_that_one_host_lacks_is_found() {
    let bench = Bench::new();
    fs::remove_file(bench.path(1, REPLY)).unwrap();
    bench.finds(&["missing: reply", "host 1 lacks 20260110-153001-0001"]);
}

#[test]
fn a_message_that_all_hosts_lack_is_found() {
    let bench = Bench::new();
    (0..2).for_each(|host| fs::remove_file(bench.path(host, REPLY)).unwrap());
    bench.finds(&["missing: reply"]);
}

#[test]
fn a_message_that_is_there_twice_under_two_ids_is_found() {
    let bench = Bench::new();
    let mut twice = message("20260110-153009-0001", "@bob", json!({"marker": "private"}));
    twice["time"] = "2026-01-10T15:30:02Z".into();
    twice["origin_id"] = "20260110-153002-0001".into();
    bench.write(1, "dm/bob", &twice);
    bench.finds(&["doubled: 20260110-153002-0001 is in @bob 2 times", "doubled: private", "does not know"]);
}

#[test]
fn another_body_is_found() {
    let bench = Bench::new();
    bench.change(PRIVATE, "body", json!({"marker": "private", "more": 1}));
    bench.finds(&["changed:", "host 0 lacks", "host 1 lacks"]);
}

#[test]
fn another_sender_or_id_of_birth_is_found() {
    let bench = Bench::new();
    bench.change(PRIVATE, "from", json!("mallory"));
    bench.finds(&["changed:", "host 0 lacks", "host 1 lacks"]);
    let bench = Bench::new();
    bench.change(PRIVATE, "origin_id", json!("20260110-153002-0009"));
    bench.finds(&["was born as", "host 0 lacks", "host 1 lacks"]);
}

#[test]
fn a_reply_that_points_to_another_message_or_to_none_is_found() {
    for (value, said) in [
        (
            json!("20260110-153002-0001"),
            "wrong reply_to: reply answers question, not 20260110-153002-0001 (['private'])",
        ),
        (json!("20260110-153000-0001"), "wrong reply_to: reply answers question, not 20260110-153000-0001 ([])"),
        (Value::Null, "says nothing of it"),
    ] {
        let bench = Bench::new();
        bench.change(REPLY, "reply_to", value);
        bench.finds(&[said]);
    }
}

#[test]
fn a_reply_that_waits_for_its_parent_under_the_id_of_another_is_found() {
    let bench = Bench::new();
    bench.change(REPLY, "reply_to", json!("20260110-153002-0001"));
    bench.change(REPLY, "reply_hash", json!("ab".repeat(16)));
    bench.finds(&["answers question, not 20260110-153002-0001", "and 20260110-153002-0001 is ['private']"]);
}

#[test]
fn a_reply_that_says_aside_what_it_answers_is_right_and_one_that_says_another_is_found() {
    let bench = Bench::new();
    bench.change(REPLY, "reply_to", Value::Null);
    bench.change(REPLY, "reply_hash", json!("ab".repeat(16)));
    bench.change(REPLY, "reply_origin", json!("20260110-153000-0001"));
    bench.finds(&[]);
    bench.change(REPLY, "reply_origin", json!("20260110-153002-0001"));
    bench.finds(&["answers question, not 20260110-153002-0001"]);
}

#[test]
fn a_direct_message_that_others_could_read_is_found() {
    let bench = Bench::new();
    fs::set_permissions(bench.path(1, PRIVATE), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(bench.path(0, "dm/bob"), fs::Permissions::from_mode(0o755)).unwrap();
    bench.finds(&["has 0644, not 0600", "has 0755, not 0700"]);
}

#[test]
fn what_is_left_in_tmp_and_what_is_no_message_is_found() {
    let bench = Bench::new();
    bench.put(0, "tmp/message", &json!({}));
    bench.put(1, "topics/task/half.tmp", &json!({}));
    bench.finds(&["left over: tmp/message", "half.tmp is no message"]);
}

#[test]
fn a_receipt_that_a_host_lacks_is_found() {
    let bench = Bench::new();
    bench.put(1, "records/mailbox/bob/20260110.json", &json!({}));
    bench.finds(&["host 1 does not know that bob has acked private"]);
}

#[test]
fn a_message_that_nobody_sent_is_found() {
    let bench = Bench::new();
    (0..2).for_each(|host| bench.write(host, "topics/x", &message("20260110-153003-0001", "x", json!("forged"))));
    bench.finds(&["nobody sent"]);
}

#[test]
fn what_was_deleted_has_to_be_gone() {
    let bench = Bench::new();
    bench.ledger.marked("deleted", 1, "bob", "private");
    bench.finds(&["resurrected: private was deleted"]);
    (0..2).for_each(|host| fs::remove_file(bench.path(host, PRIVATE)).unwrap());
    bench.finds(&[]);
}

/// A time in seconds between the second message and the third.
const BETWEEN: i64 = 1_768_059_002;

#[test]
fn what_was_swept_away_may_be_missing_is_counted_and_must_not_come_back() {
    let bench = Bench::new();
    bench.ledger.swept(1, BETWEEN);
    bench.finds(&["resurrected: question is older", "resurrected: reply is older"]);
    for file in ["topics/task/20260110-153000-0002.json", REPLY] {
        fs::remove_file(bench.path(1, file)).unwrap();
    }
    bench.finds(&[]);
    assert_eq!(judge(bench.ledger.path(), &[bench.project(0), bench.project(1)]).count("swept"), 2);
    fs::remove_file(bench.path(1, PRIVATE)).unwrap();
    bench.finds(&["missing: private", "host 1 lacks"]);
}

#[test]
fn a_disk_that_was_put_back_excuses_what_was_only_on_it_and_nothing_else() {
    let bench = Bench::new();
    let remove = |path: &str| (0..2).for_each(|host| fs::remove_file(bench.path(host, path)).unwrap());
    remove(PRIVATE);
    bench.ledger.restored(0, 0, &["private".into()]);
    bench.finds(&[]);
    remove(REPLY);
    bench.finds(&["missing: reply"]);
}

#[test]
fn the_checker_uses_nothing_but_the_standard_library() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("checker.py")).unwrap();
    let imported: Vec<&str> =
        text.lines().filter(|line| line.starts_with("import ") || line.starts_with("from ")).collect();
    let known = ["calendar", "json", "os", "re", "stat", "sys", "time"].map(|name| format!("import {name}"));
    assert!(
        imported.iter().all(|line| known.iter().any(|known| known == line) || line.starts_with("from collections "))
    );
}
