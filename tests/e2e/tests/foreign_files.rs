//! Messages that others write straight into `.fmail/`: by hand, with `jq`, with `mv`, by another implementation.

use std::fs;
use std::time::{Duration, Instant};

use fmail_e2e::{Running, Sandbox, eventually};
use rustix::process::Signal;
use serde_json::json;

fn text(id: &str, to: &str, body: &str) -> String {
    json!({"id": id, "from": "hand", "to": to, "time": "2026-01-10T15:30:00Z", "body": body}).to_string()
}

/// Writes a file below `.fmail` that nobody can take for one in the making.
fn write_old(sandbox: &Sandbox, place: &str, text: &str) {
    let path = sandbox.write(format!(".fmail/{place}"), text);
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(path).and_then(|file| file.set_modified(old)).expect("own file");
}

/// A project with one message of our own, and a watch on everything.
fn watched() -> (Sandbox, Running) {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "own");
    let mut watch = sandbox.agent("w").args(["watch", "--json"]).spawn();
    watch.await_watching();
    (sandbox, watch)
}

#[test]
fn cat_jq_and_mv_are_seen_by_log_and_by_a_running_watch() {
    let (sandbox, mut watch) = watched();
    let scripts = [
        (
            "cat",
            r#"cat > .fmail/topics/task/20260110-153000-0001.json <<'END'
{
  "id": "20260110-153000-0001",
  "from": "architect",
  "to": "task",
  "time": "2026-01-10T15:30:00Z",
  "body": "cat"
}
END"#,
        ),
        (
            "jq",
            r#"jq -n '{id: "20260110-153000-0002", from: "architect", to: "task", time: "2026-01-10T15:30:00Z", body: "jq"}' \
            > .fmail/topics/task/20260110-153000-0002.json"#,
        ),
        (
            "mv",
            r#"echo '{"id":"20260110-153000-0003","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":"mv"}' > draft
            mv draft .fmail/topics/task/20260110-153000-0003.json"#,
        ),
        (
            "ln",
            r#"echo '{"id":"20260110-153000-0004","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":"ln"}' > draft
            ln draft .fmail/topics/task/20260110-153000-0004.json"#,
        ),
        (
            "new",
            r#"mkdir .fmail/topics/fresh
            echo '{"id":"20260110-153000-0005","from":"a","to":"fresh","time":"2026-01-10T15:30:00Z","body":"new"}' \
            > .fmail/topics/fresh/20260110-153000-0005.json"#,
        ),
        (
            "moved",
            r#"mkdir -p elsewhere/moved
            echo '{"id":"20260110-153000-0006","from":"a","to":"moved","time":"2026-01-10T15:30:00Z","body":"moved"}' \
            > elsewhere/moved/20260110-153000-0006.json
            mv elsewhere/moved .fmail/topics/"#,
        ),
        (
            "direct",
            r#"mkdir -p .fmail/dm/w
            echo '{"id":"20260110-153000-0007","from":"a","to":"@w","time":"2026-01-10T15:30:00Z","body":"direct"}' \
            > .fmail/dm/w/20260110-153000-0007.json"#,
        ),
    ];
    let mut expected = Vec::new();
    for (body, script) in scripts {
        sandbox.bash("hand", script).ok();
        assert_eq!(watch.json()["body"], body);
        expected.push(body);
        assert_eq!(sandbox.bodies("w", &["--since", "2026-01-01", "--from", "a"]).last().is_some(), expected.len() > 2);
    }
    expected.push("own");
    assert_eq!(sandbox.bodies("w", &[]), expected);
}

#[test]
fn a_project_that_was_never_fmail_s_can_be_read() {
    let sandbox = Sandbox::new();
    let id = "20260110-153000-0001";
    sandbox.write(format!(".fmail/topics/task/{id}.json"), text(id, "task", "by hand"));
    assert_eq!(sandbox.bodies("me", &[]), ["by hand"]);
    assert_eq!(sandbox.agent("me").args(["topics", "--json"]).ok().json()[0]["messages"], 1);
    sandbox.send("me", "task", "ours");
    assert_eq!(sandbox.bodies("me", &["task"]), ["by hand", "ours"]);
}

#[test]
fn a_half_written_file_is_not_reported_at_once_and_appears_when_complete() {
    let (sandbox, mut watch) = watched();
    let id = "20260110-153000-0001";
    let whole = text(id, "task", "in two parts");
    let path = sandbox.store().join(format!("topics/task/{id}.json"));
    fs::write(&path, &whole[..40]).expect("own file");
    let log = sandbox.agent("me").args(["log", "--json"]).ok();
    assert_eq!((log.json_lines().len(), log.stderr.as_str()), (1, ""), "{log}");
    fs::write(&path, &whole).expect("own file");
    assert_eq!(watch.json()["body"], "in two parts");
    assert_eq!(watch.stderr_line_within(Duration::ZERO), None);
    assert_eq!(sandbox.bodies("me", &[]), ["in two parts", "own"]);
}

#[test]
fn an_empty_file_that_is_filled_later_is_delivered_once() {
    let (sandbox, mut watch) = watched();
    let id = "20260110-153000-0001";
    let path = sandbox.write(format!(".fmail/topics/task/{id}.json"), "");
    sandbox.send("me", "task", "between");
    assert_eq!(watch.json()["body"], "between");
    fs::write(path, text(id, "task", "late")).expect("own file");
    assert_eq!(watch.json()["body"], "late");
    sandbox.send("me", "task", "end");
    assert_eq!(watch.json()["body"], "end", "nothing comes twice");
}

#[test]
fn a_removed_file_disappears() {
    let (sandbox, mut watch) = watched();
    let id = sandbox.send("me", "task", "to be removed");
    assert_eq!(watch.json()["body"], "to be removed");
    fs::remove_file(sandbox.store().join(format!("topics/task/{id}.json"))).expect("own file");
    let log = sandbox.agent("me").args(["log", "task", "--json"]).ok();
    assert_eq!((log.json_lines().len(), log.stderr.as_str()), (1, ""), "{log}");
    eventually(5, "the count follows", || {
        let topics = sandbox.agent("me").args(["topics", "--json"]).ok().json();
        (topics[0]["messages"] == 1).then_some(())
    });
    fs::remove_dir_all(sandbox.store().join("topics/task")).expect("own directory");
    assert_eq!(sandbox.agent("me").args(["log"]).ok().stdout, "");
    assert_eq!(sandbox.agent("me").args(["topics", "--json"]).ok().stdout, "[]\n");
    sandbox.send("me", "task", "goes on");
    assert_eq!(watch.json()["body"], "goes on");
}

#[test]
fn broken_files_are_skipped_and_told_and_stop_nothing() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "whole");
    let broken = [
        ("20260110-153000-0001", "not json".to_string()),
        ("20260110-153000-0002", String::new()),
        ("20260110-153000-0003", "[]".to_string()),
        ("20260110-153000-0004", json!({"id": "20260110-153000-0004", "to": "task"}).to_string()),
        ("20260110-153000-0005", text("20260110-153000-0005", "task", "x").replace("hand", "not a name")),
        ("20260110-153000-0006", text("20260110-153000-0006", "task", "x").replace("2026-01-10T15:30:00Z", "noon")),
        ("20260110-153000-0007", "\u{0}\u{0}\u{0}".to_string()),
    ];
    for (id, text) in &broken {
        let path = sandbox.write(format!(".fmail/topics/task/{id}.json"), text);
        let old = std::time::SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(path).and_then(|file| file.set_modified(old)).expect("own file");
    }
    let log = sandbox.agent("me").args(["log", "--json"]).ok();
    assert_eq!(log.json_lines().len(), 1, "{log}");
    for (id, _) in &broken {
        log.says(&["skipped", &format!("topics/task/{id}.json"), "quarantine"]);
    }
    for args in [&["send", "task", "next"][..], &["topics"], &["who"], &["watch", "--timeout", "50ms"], &["gc"]] {
        sandbox.agent("me").args(args).ok();
    }
    let list = sandbox.agent("me").args(["quarantine", "list", "--json"]).ok().json();
    assert_eq!(list["broken"].as_array().map(Vec::len), Some(broken.len()));
    assert_eq!(sandbox.bodies("me", &[]), ["whole", "next"]);
}

#[test]
fn a_broken_file_does_not_stop_a_running_watch_and_is_told_once_where_it_belongs() {
    for events in ["true", "false"] {
        let sandbox = Sandbox::new();
        sandbox.send("me", "task", "own");
        let watch = |target: &str| {
            let args = ["watch", target, "--json", "--since", "1h"];
            sandbox.agent("w").args(args).env("FMAIL_WATCH__EVENTS", events).spawn()
        };
        let (mut here, mut elsewhere) = (watch("task"), watch("build"));
        assert_eq!(here.json()["body"], "own");
        sandbox.send("me", "build", "ready");
        assert_eq!(elsewhere.json()["body"], "ready");
        sandbox.write(".fmail/topics/task/20260110-153000-0001.json", "{ broken");
        sandbox.send("me", "task", "next");
        assert_eq!(here.json()["body"], "next");
        let said = here.stderr_line_within(Duration::from_secs(10)).expect("told");
        assert!(said.contains("skipped .fmail/topics/task/20260110-153000-0001.json"), "{said}");
        for topic in ["task", "build"] {
            sandbox.send("me", topic, "and on");
        }
        assert_eq!((here.json()["body"].take(), elsewhere.json()["body"].take()), (json!("and on"), json!("and on")));
        for watch in [here, elsewhere] {
            watch.signal(Signal::INT);
            assert_eq!(watch.wait().stderr, "", "once is enough, and only where it is watched");
        }
    }
}

#[test]
fn a_file_that_was_broken_before_the_watch_is_told_once() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "own");
    let path = sandbox.write(".fmail/topics/task/20260110-153000-0001.json", "{ broken");
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(path).and_then(|file| file.set_modified(old)).expect("own file");
    for events in ["true", "false"] {
        let args = ["watch", "task", "--since", "1h", "--timeout", "400ms"];
        let output = sandbox.agent("w").args(args).env("FMAIL_WATCH__EVENTS", events).ok();
        assert_eq!(output.stderr.matches("skipped").count(), 1, "{output}");
    }
}

#[test]
fn the_place_counts_where_the_file_says_otherwise_and_that_is_told() {
    let sandbox = Sandbox::new();
    let id = "20260110-153000-0001";
    sandbox.write(format!(".fmail/topics/task/{id}.json"), text("20260110-153000-0009", "build", "moved"));
    let log = sandbox.agent("me").args(["log", "task", "--json"]).ok();
    let message = &log.json_lines()[0];
    assert_eq!((&message["id"], &message["to"]), (&id.into(), &"task".into()));
    log.says(&[&format!("topics/task/{id}.json"), "20260110-153000-0009", "build", "its place counts"]);
    assert!(sandbox.bodies("me", &["build"]).is_empty());
}

#[test]
fn unknown_fields_and_odd_but_valid_forms_are_kept() {
    let sandbox = Sandbox::new();
    let id = "20260110-153000-0001";
    let message = json!({
        "id": id, "from": "hand", "to": "task", "time": "2026-01-10T16:30:00+01:00", "body": {"deep": [1, null]},
        "x-trace": "abc", "model": {"name": "m"}, "priority": "normal", "host": "far-away", "tags": ["b", "a"],
    });
    sandbox.write(format!(".fmail/topics/task/{id}.json"), serde_json::to_string_pretty(&message).expect("JSON"));
    let shown = &sandbox.log("me", &["task"])[0];
    for key in ["x-trace", "model", "body", "host", "tags"] {
        assert_eq!(shown[key], message[key], "{key}");
    }
    assert_eq!(shown["time"], "2026-01-10T15:30:00Z");
    let reply = sandbox.agent("me").args(["send", "task", "re", "--reply-to", "0001", "--json"]).ok().json();
    assert_eq!(reply["reply_to"], id);
}

#[test]
fn names_that_are_no_messages_are_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "own");
    for name in ["README.md", ".hidden.json", "20260110-153000-0001.json.tmp", ".20260110-153000-0002.json.swp"] {
        sandbox.write(format!(".fmail/topics/task/{name}"), "something");
    }
    sandbox.write(".fmail/topics/stray.txt", "something");
    let before = sandbox.tree();
    let log = sandbox.agent("me").args(["log"]).ok();
    assert_eq!((log.stdout.lines().count(), log.stderr.as_str()), (1, ""), "{log}");
    sandbox.assert_unchanged(&before);
    sandbox.agent("me").args(["gc", "--days", "1"]).ok();
    assert_eq!(sandbox.names(".fmail/topics/task").len(), 5);
    assert!(sandbox.store().join("topics/stray.txt").exists());
}

#[test]
fn an_id_far_ahead_does_not_drag_ours_along() {
    let sandbox = Sandbox::new();
    let id = "20990101-000000-0001";
    sandbox.write(format!(".fmail/topics/task/{id}.json"), text(id, "task", "from the future"));
    let ours = sandbox.send("me", "task", "now");
    assert!(ours.as_str() < "2099", "{ours}");
    assert_eq!(sandbox.bodies("me", &["task"]), ["now", "from the future"]);
}

#[test]
fn a_foreign_file_in_the_same_instant_as_our_own_sends_is_never_lost() {
    const EACH: usize = 200;
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "first");
    let mut watch = sandbox.agent("w").args(["watch", "task", "--json"]).spawn();
    watch.await_watching();
    let ours = r#"for n in $(seq 200); do fmail send task "own $n" > /dev/null; done"#;
    let theirs = r#"mkdir -p drafts
        for n in $(seq 200); do
            id=20260110-153000-$(printf %04d $n)
            echo '{"id":"'$id'","from":"hand","to":"task","time":"2026-01-10T15:30:00Z","body":"foreign '$n'"}' > drafts/$n
            if ((n % 2)); then ln drafts/$n .fmail/topics/task/$id.json; else mv drafts/$n .fmail/topics/task/$id.json; fi
        done"#;
    let writers = [sandbox.bash("me", ours).spawn(), sandbox.bash("hand", theirs).spawn()];
    for writer in writers {
        let output = writer.wait();
        assert_eq!(output.code, 0, "{output}");
    }
    let expected = 2 * EACH + 1;
    let seen = eventually(5, "a log with all of them", || {
        let bodies = sandbox.agent("me").args(["log", "task", "-n", "1000", "--json"]).ok().json_lines();
        (bodies.len() == expected).then_some(bodies)
    });
    assert_eq!(seen.iter().filter(|message| message["from"] == "hand").count(), EACH);
    // The watch has them too, each once.
    let end = Instant::now() + Duration::from_secs(5);
    let mut ids = std::collections::BTreeSet::new();
    while ids.len() < 2 * EACH {
        let left = end.saturating_duration_since(Instant::now());
        let line = watch.line_within(left).unwrap_or_else(|| panic!("only {} arrived", ids.len()));
        let message: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert!(ids.insert(message["id"].to_string()), "twice: {line}");
    }
}

#[test]
fn a_file_with_a_field_that_cannot_be_used_takes_no_slot_among_the_newest() {
    let sandbox = Sandbox::new();
    let own = sandbox.send("me", "task", "one");
    let fields = [
        ("priority", json!("urgent")),
        ("tags", json!(["Not A Tag"])),
        ("reply_to", json!("0001")),
        ("expires", json!("noon")),
        ("ack_required", json!("yes")),
    ];
    for (number, (field, value)) in fields.iter().enumerate() {
        let mut message = json!({"from": "eve", "body": "x"});
        message[field] = value.clone();
        // Newer than the own one.
        write_old(&sandbox, &format!("topics/task/20990101-000000-000{number}.json"), &message.to_string());
    }
    let log = sandbox.agent("me").args(["log", "task", "-n", "1", "--json"]).ok();
    assert_eq!(log.json_lines().len(), 1, "{log}");
    assert_eq!(log.json_lines()[0]["body"], "one");
    assert!(!log.stderr.contains("older messages") && !log.stderr.contains("no messages"), "{log}");
    for (number, (field, _)) in fields.iter().enumerate() {
        let place = format!("skipped .fmail/topics/task/20990101-000000-000{number}.json: ");
        let told = log.stderr.lines().find(|line| line.contains(&place)).unwrap_or_else(|| panic!("{field}: {log}"));
        assert!(told.contains(field.trim_end_matches('s')), "{told}");
    }
    let topics = sandbox.agent("me").args(["topics", "--json"]).ok().json();
    assert_eq!((&topics[0]["messages"], &topics[0]["last_id"]), (&json!(1), &json!(own)));
    // An index that is made anew says the same.
    fs::remove_file(sandbox.store().join("index")).expect("own file");
    assert_eq!(sandbox.agent("me").args(["log", "task", "-n", "1", "--json"]).ok().json_lines()[0]["body"], "one");
    assert_eq!(sandbox.agent("me").args(["topics", "--json"]).ok().json()[0]["messages"], 1);
}

#[test]
fn unreadable_mail_is_told_by_every_command_that_looks_into_the_mailbox() {
    for served in [false, true] {
        let sandbox = Sandbox::new();
        sandbox.agent("alice").args(["init"]).ok();
        let daemon = served.then(|| sandbox.forged(&[]));
        let unusable = json!({"from": "eve", "body": "IMPORTANT", "priority": "urgent"}).to_string();
        write_old(&sandbox, "dm/alice/20260110-153000-0001.json", &unusable);
        write_old(&sandbox, "dm/alice/20260110-153000-0002.json", "{\"from\":\"eve\",\"bo");
        tells_both(&sandbox, 1);
        // The same beside mail that can be read.
        sandbox.send("bob", "@alice", "fine");
        tells_both(&sandbox, 0);
        let inbox = sandbox.agent("alice").args(["inbox", "--json"]).ok().json_lines();
        assert_eq!((inbox.len(), &inbox[0]["body"]), (1, &json!("fine")));
        // And when the tally of the mailbox is kept already.
        sandbox.agent("alice").args(["mark-read", "--all"]).ok();
        tells_both(&sandbox, 1);
        drop(daemon);
    }
}

/// What alice's commands say about two files that cannot be read, each once; `check` ends with this code.
#[track_caller]
fn tells_both(sandbox: &Sandbox, code: i32) {
    let commands: [(&[&str], i32); 6] = [
        (&["check"], code),
        (&["check", "--json"], code),
        (&["count", "--json"], 0),
        (&["inbox", "--json"], 0),
        (&["inbox", "--all", "--json"], 0),
        (&["check", "--inject"], 0),
    ];
    for (args, code) in commands {
        let output = sandbox.agent("alice").args(args).run();
        assert_eq!(output.code, code, "{args:?} {output}");
        for number in [1, 2] {
            let told = format!("skipped .fmail/dm/alice/20260110-153000-000{number}.json");
            assert_eq!(output.stderr.matches(&told).count(), 1, "{args:?} {output}");
        }
    }
}
