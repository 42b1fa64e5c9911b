//! `fmail log`

use fmail_e2e::Sandbox;
use rustix::process::Signal;
use serde_json::json;

fn hand(sandbox: &Sandbox, id: &str, time: &str, from: &str) {
    let body = json!({"id": id, "from": from, "to": "task", "time": time, "body": format!("at {time}")});
    sandbox.write(format!(".fmail/topics/task/{id}.json"), body.to_string());
}

#[test]
fn the_limit_takes_the_newest_oldest_first_and_says_when_more_matched() {
    let sandbox = Sandbox::new();
    for number in 1..=25 {
        sandbox.send("me", "task", &number.to_string());
    }
    let bodies = |args: &[&str]| {
        let output = sandbox.agent("me").args(["log", "task", "--json"]).args(args).ok();
        let bodies: Vec<String> = output.json_lines().iter().map(|message| message["body"].to_string()).collect();
        (bodies, output.stderr)
    };
    let (twenty, note) = bodies(&[]);
    assert_eq!((twenty.len(), twenty[0].as_str(), twenty[19].as_str()), (20, "6", "25"));
    assert!(note.contains("newest 20") && note.contains("-n"), "{note}");
    let (three, note) = bodies(&["-n", "3"]);
    assert_eq!((three.join(" ").as_str(), note.contains("newest 3")), ("23 24 25", true));
    for all in [["-n", "25"], ["--limit", "100"]] {
        let (bodies, note) = bodies(&all);
        assert_eq!((bodies.len(), note.as_str()), (25, ""));
    }
}

#[test]
fn since_takes_every_form() {
    let sandbox = Sandbox::new();
    hand(&sandbox, "20260110-120000-0001", "2026-01-10T12:00:00Z", "a");
    hand(&sandbox, "20260111-120000-0001", "2026-01-11T12:00:00Z", "b");
    let id = sandbox.send("me", "task", "fresh");
    let count = |since: &str| sandbox.log("me", &["task", "--since", since]).len();
    for (since, expected) in [
        ("1h", 1),
        ("30m", 1),
        ("1h30m", 1),
        ("3650d", 3),
        ("2026-01-10", 3),
        ("2026-01-11", 2),
        ("2026-01-10T12:00:00Z", 3),
        ("2026-01-10T12:00:01Z", 2),
        ("2026-01-10T13:00:01+01:00", 2),
        ("2026-01-11T12:00:01", 1),
        ("2026-01-11T12:00:01.5Z", 1),
        ("20260110-120000-0001", 2),
        ("20260110-120000-0000", 3),
        ("2099-01-01", 0),
    ] {
        assert_eq!(count(since), expected, "--since {since}");
    }
    // Times count by the second, so a message of this very second still matches.
    assert!(count("now") <= 1);
    assert_eq!(count(&id), 0, "nothing came after the last");
}

#[test]
fn from_takes_a_sender_with_or_without_its_at() {
    let sandbox = Sandbox::new();
    for agent in ["alice", "bob", "alice"] {
        sandbox.send(agent, "task", &format!("by {agent}"));
    }
    sandbox.send("alice", "@me", "direct");
    assert_eq!(sandbox.bodies("me", &["task", "--from", "alice"]), ["by alice", "by alice"]);
    assert_eq!(sandbox.bodies("me", &["--from", "@alice"]), ["by alice", "by alice", "direct"]);
    assert_eq!(sandbox.bodies("me", &["--from", "nobody"]).len(), 0);
}

#[test]
fn without_a_target_it_shows_topics_and_the_own_mailbox_only() {
    let sandbox = Sandbox::new();
    sandbox.send("a", "task", "topic");
    sandbox.send("a", "@me", "mine");
    sandbox.send("a", "@other", "another's");
    assert_eq!(sandbox.bodies("me", &[]), ["topic", "mine"]);
    let anonymous = sandbox.fmail().args(["log"]).ok();
    assert!(anonymous.stdout.lines().count() == 1, "{anonymous}");
    anonymous.says(&["anon-", "FMAIL_AGENT"]);
}

#[test]
fn another_agent_s_mailbox_is_denied_unless_allowed() {
    let sandbox = Sandbox::new();
    sandbox.send("a", "@other", "secret");
    for command in ["log", "watch"] {
        let output = sandbox.agent("me").args([command, "@other"]).fails(9);
        output.says(&["@other", "`me`", "--allow-other-dm"]);
        assert!(!output.stderr.contains("secret"));
    }
    assert_eq!(sandbox.bodies("me", &["@other", "--allow-other-dm"]), ["secret"]);
    let watch = ["watch", "@other", "--allow-other-dm", "--since", "1h", "-c", "1"];
    assert!(sandbox.agent("me").args(watch).ok().stdout.ends_with(": secret\n"));
    // Looking is not consuming.
    assert_eq!(sandbox.bodies("other", &["@other"]), ["secret"]);
}

#[test]
fn follow_goes_on_with_what_arrives() {
    for flag in ["--follow", "-f"] {
        let sandbox = Sandbox::new();
        sandbox.send("me", "task", "before");
        let mut log = sandbox.agent("me").args(["log", "task", flag]).spawn();
        assert!(log.line().ends_with(": before"));
        log.await_watching();
        sandbox.send("me", "other", "elsewhere");
        sandbox.send("me", "task", "after");
        assert!(log.line().ends_with(": after"));
        log.signal(Signal::INT);
        assert_eq!(log.wait().code, 0);
    }
}

#[test]
fn follow_keeps_its_filters_and_starts_with_the_newest() {
    let sandbox = Sandbox::new();
    for number in 1..=4 {
        sandbox.send("bob", "task", &format!("old {number}"));
    }
    let mut log = sandbox.agent("me").args(["log", "-f", "-n", "2", "--from", "bob", "--json"]).spawn();
    assert_eq!((log.json()["body"].take(), log.json()["body"].take()), (json!("old 3"), json!("old 4")));
    log.await_watching();
    sandbox.send("alice", "task", "not bob");
    sandbox.send("bob", "@other", "not for me");
    sandbox.send("bob", "@me", "for me");
    assert_eq!(log.json()["body"], "for me");
    log.signal(Signal::TERM);
    let output = log.wait();
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
}

#[test]
fn the_alias_is_the_same_command() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "x");
    let text = |command: &str| sandbox.agent("me").args([command, "task"]).ok().stdout;
    assert_eq!(text("logs"), text("log"));
}

#[test]
fn an_empty_project_and_an_unknown_topic_give_nothing_and_succeed() {
    let sandbox = Sandbox::new();
    for args in [&["log"][..], &["log", "task"], &["log", "--json"], &["log", "@me"]] {
        assert_eq!(sandbox.agent("me").args(args).ok().stdout, "");
    }
    assert!(!sandbox.store().exists());
    sandbox.send("me", "task", "x");
    assert_eq!(sandbox.agent("me").args(["log", "other"]).ok().stdout, "");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let sandbox = Sandbox::new();
    let body = "x".repeat(60_000);
    for _ in 0..5 {
        sandbox.send("me", "task", &body);
    }
    let output = sandbox.bash("me", "fmail log task --json | head -c 10 > /dev/null").ok();
    assert_eq!(output.stderr, "");
}

#[test]
fn output_is_sorted_by_id_whatever_the_order_of_arrival() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "local");
    hand(&sandbox, "20260110-120000-0001", "2026-01-10T12:00:00Z", "a");
    let ids: Vec<String> = sandbox.log("me", &["task"]).iter().map(|message| message["id"].to_string()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.is_sorted(), "{ids:?}");
}

#[test]
fn nothing_but_plain_text_goes_into_a_pipe() {
    let sandbox = Sandbox::new();
    sandbox.agent("me").args(["send", "task", "x", "-p", "high"]).ok();
    for args in [&["log"][..], &["who"], &["topics"], &["help"], &["whoami"]] {
        assert!(!sandbox.agent("me").args(args).ok().stdout.contains('\x1b'), "{args:?}");
    }
}

#[test]
fn since_now_shows_nothing_that_is_stored() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    let output = sandbox.agent("me").args(["log", "--since", "now", "--json"]).ok();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    let mut follow = sandbox.agent("me").args(["log", "--since", "now", "--follow", "--json"]).spawn();
    follow.await_watching();
    sandbox.send("me", "task", "after");
    assert_eq!(follow.json()["body"], "after");
}

#[test]
fn a_topic_without_messages_is_told_with_near_names() {
    let sandbox = Sandbox::new();
    let output = sandbox.agent("me").args(["log", "tsk"]).ok();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", "fmail: no messages in `tsk`\n"));
    sandbox.send("me", "task", "x");
    sandbox.send("me", "build", "x");
    let output = sandbox.agent("me").args(["log", "tsk", "--json"]).ok();
    assert_eq!(output.stdout, "");
    assert_eq!(output.stderr, "fmail: no messages in `tsk`; did you mean task?\n");
    // Who filters expects that nothing may match, and an empty mailbox is nothing special.
    for args in [&["tsk", "--since", "1h"][..], &["task", "--from", "nobody"], &["@me"], &["task"]] {
        assert_eq!(sandbox.agent("me").arg("log").args(args).ok().stderr, "", "{args:?}");
    }
}
