//! `fmail store`: a project moves between stores, into a file and back, as its users see it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use fmail_e2e::{Fmail, Random, Sandbox, pause, plugin_library};
use rustix::process::Signal;
use serde_json::{Value, json};

const CONFLICT: i32 = 8;

/// A project that can use the sqlite plugin; its messages are in files.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, "files");
    sandbox
}

fn configure(sandbox: &Sandbox, store: &str) {
    let directory = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&directory).unwrap();
    let library = plugin_library("fmail-sqlite");
    let text = format!("[mail]\nstore = \"{store}\"\n[mail.plugin.sqlite]\nfile = {:?}\n", library);
    fs::write(directory.join("config.toml"), text).unwrap();
}

fn copy(sandbox: &Sandbox, from: &str, to: &str) -> Fmail {
    sandbox.fmail().args(["store", "copy", "--json", "--from", from, "--to", to])
}

fn receipt(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.agent("alice").args(["receipt", "--json", id]).ok().json()
}

/// Everything that readers see.
fn seen(sandbox: &Sandbox) -> (Vec<Value>, Vec<Value>, String) {
    let mail = sandbox.agent("bob").args(["inbox", "--all", "--json"]).ok().json_lines();
    let reservations = sandbox.agent("bob").args(["reservations", "--json"]).ok().stdout;
    (sandbox.log("alice", &[]), mail, reservations)
}

#[test]
fn a_project_moves_to_sqlite_and_back_and_nobody_notices() {
    let sandbox = sandbox();
    let topic = sandbox.send("alice", "task", r#"{"n": 1.50, "deep": [[]]}"#);
    let read = sandbox.send("alice", "@bob", "read me");
    let unread = sandbox.send("alice", "@bob", "later");
    sandbox.agent("bob").args(["ack", &read]).ok();
    sandbox.agent("bob").args(["reserve", "src/**"]).ok();
    let (before, receipts) = (seen(&sandbox), [&read, &unread].map(|id| receipt(&sandbox, id)));

    let report = copy(&sandbox, "files", "sqlite").ok().json()["report"].clone();
    assert_eq!((&report["messages"]["written"], &report["verified"]), (&json!(3), &json!(true)), "{report}");
    configure(&sandbox, "sqlite");
    assert_eq!(seen(&sandbox), before);
    assert_eq!([&read, &unread].map(|id| receipt(&sandbox, id)), receipts);

    // It is used there, then goes back.
    let late = sandbox.send("bob", "task", "from sqlite");
    sandbox.agent("bob").args(["read", &unread]).ok();
    let (before, receipts) = (seen(&sandbox), [&read, &unread].map(|id| receipt(&sandbox, id)));
    let report = copy(&sandbox, "sqlite", "files").ok().json()["report"].clone();
    assert_eq!((&report["messages"]["written"], &report["verified"]), (&json!(1), &json!(true)), "{report}");
    configure(&sandbox, "files");
    assert_eq!(seen(&sandbox), before);
    assert_eq!([&read, &unread].map(|id| receipt(&sandbox, id)), receipts);
    let ids: Vec<String> = before.0.iter().filter_map(|message| message["id"].as_str().map(String::from)).collect();
    assert!(ids.contains(&topic) && ids.contains(&late), "{ids:?}");
}

#[test]
fn a_store_that_was_changed_without_a_copy_is_told_until_it_is_copied() {
    let sandbox = sandbox();
    sandbox.send("alice", "task", "in files");
    configure(&sandbox, "sqlite");
    for command in [&["log"][..], &["topics"], &["inbox"], &["count"]] {
        let said = sandbox.agent("alice").args(command).ok();
        said.says(&["is empty", ".fmail/topics", "fmail store copy --from files --to sqlite"]);
    }
    copy(&sandbox, "files", "sqlite").ok();
    let said = sandbox.agent("alice").args(["inbox"]).ok();
    assert!(!said.stderr.contains("is empty"), "{}", said.stderr);
    assert_eq!(sandbox.bodies("alice", &[]), ["in files"]);
}

#[test]
fn a_dry_run_tells_and_copies_nothing() {
    let sandbox = sandbox();
    sandbox.send("alice", "task", "x");
    let report = copy(&sandbox, "files", "sqlite").arg("--dry-run").ok().json()["report"].clone();
    assert_eq!((&report["messages"]["written"], &report["dry_run"]), (&json!(1), &json!(true)));
    let report = copy(&sandbox, "files", "sqlite").arg("--dry-run").ok().json()["report"].clone();
    assert_eq!(report["messages"]["written"], 1);
}

#[test]
fn what_cannot_be_copied_is_said_clearly() {
    let sandbox = sandbox();
    copy(&sandbox, "files", "sqlite").fails(7).says(&["no project"]);
    sandbox.send("alice", "task", "x");
    copy(&sandbox, "files", "files").fails(2).says(&["same store"]);
    copy(&sandbox, "files", "memory").fails(10).says(&["memory", "one process"]);
    copy(&sandbox, "files", "nowhere").fails(14).says(&["nowhere"]);
    let forged = sandbox.forged(&[]);
    copy(&sandbox, "files", "sqlite").fails(CONFLICT).says(&["served by a forged", "forged stop"]);
    forged.signal(Signal::TERM);
    forged.wait();
    copy(&sandbox, "files", "sqlite").ok();
}

#[test]
fn a_copy_that_is_killed_again_and_again_is_whole_in_the_end() {
    const MESSAGES: usize = 2_000;
    let sandbox = sandbox();
    sandbox.send("alice", "task", "first");
    let line = |number: usize| {
        let id = format!("20260110-1530{:02}-{:04}", number / 100, number % 100);
        json!({"id": id, "from": "alice", "to": "@bob", "time": "2026-01-10T15:30:00Z", "body": number}).to_string()
    };
    for number in 0..MESSAGES {
        let message: Value = serde_json::from_str(&line(number)).unwrap();
        sandbox.write(format!(".fmail/dm/bob/{}.json", message["id"].as_str().unwrap()), message.to_string());
    }
    sandbox.agent("bob").args(["mark-read", "--all"]).ok();
    let before = seen(&sandbox);
    let mut random = Random::new(7);
    let mut killed = 0;
    for _ in 0..12 {
        let mut running = copy(&sandbox, "files", "sqlite").spawn();
        pause(Duration::from_millis(30 + random.below(400)));
        if !running.has_ended() {
            running.signal(Signal::KILL);
            killed += 1;
        }
        running.wait();
    }
    assert!(killed > 0, "no copy was under way when it was to be killed");
    let report = copy(&sandbox, "files", "sqlite").ok().json()["report"].clone();
    assert_eq!((&report["messages"]["total"], &report["verified"]), (&json!(MESSAGES + 1), &json!(true)), "{report}");
    configure(&sandbox, "sqlite");
    assert_eq!(seen(&sandbox), before);
}

#[test]
fn an_export_is_for_its_owner_and_comes_back_as_it_was() {
    let sandbox = sandbox();
    sandbox.send("alice", "task", "one");
    let direct = sandbox.send("alice", "@bob", "two");
    sandbox.agent("bob").args(["read", &direct]).ok();
    let export = || sandbox.fmail().args(["store", "export", "backup.jsonl"]);
    export().ok().says(&["exported 2 messages"]);
    let path = sandbox.path().join("backup.jsonl");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    export().fails(CONFLICT).says(&["there already", "--force"]);
    export().arg("--force").ok();
    assert_eq!(sandbox.names("."), [".fmail", "backup.jsonl"]);

    let written = fs::read_to_string(&path).unwrap();
    let import = |file: &str| sandbox.fmail().args(["store", "import", "--store", "sqlite", "--json", file]);
    let whole: Vec<&str> = written.lines().collect();
    sandbox.write("cut.jsonl", format!("{}\n", whole[..whole.len() - 1].join("\n")));
    import("cut.jsonl").fails(2).says(&["cut off", "--partial"]);
    assert_eq!(import("backup.jsonl").arg("--dry-run").ok().json()["checked"]["messages"]["written"], 2);
    assert_eq!(import("-").stdin(written.clone()).ok().json()["imported"]["new"], 2);
    assert_eq!(import("backup.jsonl").ok().json()["imported"]["duplicate"], 2);

    let again = sandbox.fmail().args(["store", "export", "--store", "sqlite"]).ok().stdout;
    let messages = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("{\"message\"")).map(String::from).collect()
    };
    assert_eq!(messages(&again), messages(&written));
    sandbox.write("bad.jsonl", "{\"from\":\"x\"}\n");
    import("bad.jsonl").fails(2).says(&["bad.jsonl", "line 1", "no `id`"]);
}

#[test]
fn messages_of_a_log_can_be_imported() {
    let (one, two) = (sandbox(), sandbox());
    one.send("alice", "task", "one");
    let log = one.agent("alice").args(["log", "--json"]).ok().stdout;
    let said = two.fmail().args(["store", "import", "-"]).stdin(log).ok();
    assert!(said.stdout.starts_with("imported 1 message:"), "{}", said.stdout);
    assert_eq!(two.log("alice", &[]), one.log("alice", &[]));
}
