//! Names, tags, priorities, times and ids.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fmail_e2e::Sandbox;
use serde_json::json;

/// The exit codes of fmail-api's error table.
const INVALID_REQUEST: i32 = 2;
const INVALID_TOPIC: i32 = 3;
const INVALID_AGENT: i32 = 4;
const NOT_FOUND: i32 = 7;
const CONFLICT: i32 = 8;

/// Runs each in an empty directory and in a project; each must fail like this and change neither.
fn refused(cases: &[(&[&str], i32, &[&str])]) {
    let (empty, used) = (Sandbox::new(), Sandbox::new());
    used.send("me", "task", "before");
    for sandbox in [empty, used] {
        let before = sandbox.tree();
        for (args, code, says) in cases {
            sandbox.agent("me").args(*args).fails(*code).says(says);
            sandbox.assert_unchanged(&before);
        }
    }
}

#[test]
fn topic_names() {
    let long = "x".repeat(101);
    refused(&[
        (&["send", "two words", "x"], INVALID_TOPIC, &["two words", "' '", "[a-z0-9-]"]),
        (&["send", "a/b", "x"], INVALID_TOPIC, &["a/b", "'/'"]),
        (&["send", "../task", "x"], INVALID_TOPIC, &["'.'"]),
        (&["send", "a.b", "x"], INVALID_TOPIC, &["'.'"]),
        (&["send", "", "x"], INVALID_TOPIC, &["empty"]),
        (&["send", "tâche", "x"], INVALID_TOPIC, &["'â'"]),
        (&["send", "task\n", "x", "--strict", "-p", "none"], INVALID_REQUEST, &["none"]),
        (&["send", "ta\nsk", "x"], INVALID_TOPIC, &["\\n"]),
        (&["send", &long, "x"], INVALID_TOPIC, &["101", "100"]),
        (&["log", "a/b"], INVALID_TOPIC, &["a/b"]),
        (&["watch", "a.b"], INVALID_TOPIC, &["a.b"]),
    ]);
    let sandbox = Sandbox::new();
    sandbox.send("me", &"x".repeat(100), "as long as allowed");
}

#[test]
fn agent_names() {
    let long = format!("@{}", "x".repeat(101));
    refused(&[
        (&["send", "@two words", "x"], INVALID_AGENT, &["two words", "[a-z0-9-]"]),
        (&["send", "@", "x"], INVALID_AGENT, &["empty"]),
        (&["send", "@a/b", "x"], INVALID_AGENT, &["'/'"]),
        (&["send", "@..", "x"], INVALID_AGENT, &["'.'"]),
        (&["send", "@@bob", "x"], INVALID_AGENT, &["'@'"]),
        (&["send", "@böb", "x"], INVALID_AGENT, &["'ö'"]),
        (&["send", &long, "x"], INVALID_AGENT, &["101", "100"]),
        (&["log", "@a b"], INVALID_AGENT, &["a b"]),
        (&["watch", "@a b"], INVALID_AGENT, &["a b"]),
        (&["log", "--from", "a b"], INVALID_AGENT, &["a b"]),
        (&["register", "a b"], INVALID_AGENT, &["a b"]),
        (&["register", "../x"], INVALID_AGENT, &["'.'"]),
        (&["register", "anon-3"], INVALID_AGENT, &["`anon-3`", "agents without a name", "choose another one"]),
    ]);
}

#[test]
fn the_own_name() {
    let sandbox = Sandbox::new();
    for (name, says) in [("", "empty"), ("a b", "' '"), ("a/b", "'/'"), ("ünal", "'ü'"), (".", "'.'")] {
        for args in [&["send", "task", "x"][..], &["log"], &["status"], &["who"], &["whoami"], &["watch"]] {
            sandbox.agent(name).args(args).fails(INVALID_AGENT).says(&["FMAIL_AGENT", says]);
        }
    }
    let odd = sandbox.fmail().env("FMAIL_AGENT", OsStr::from_bytes(b"a\xff"));
    odd.args(["send", "task", "x"]).fails(14).says(&["FMAIL_AGENT", "UTF-8"]);
    assert!(!sandbox.store().exists());
}

#[test]
fn tags_and_priorities() {
    let eleven: Vec<String> = (1..=11).map(|number| format!("t{number}")).collect();
    let (long, eleven) = ("x".repeat(51), eleven.join(","));
    refused(&[
        (&["send", "task", "x", "--tag", "a b"], INVALID_REQUEST, &["a b", "tag"]),
        (&["send", "task", "x", "--tag", "a_b"], INVALID_REQUEST, &["'_'"]),
        (&["send", "task", "x", "--tag", ""], INVALID_REQUEST, &["empty"]),
        (&["send", "task", "x", "--tag", "a,,b"], INVALID_REQUEST, &["empty"]),
        (&["send", "task", "x", "--tag", &long], INVALID_REQUEST, &["51", "50"]),
        (&["send", "task", "x", "--tag", &eleven], INVALID_REQUEST, &["11", "10"]),
        (&["send", "task", "x", "--priority", "urgent"], INVALID_REQUEST, &["urgent", "low, normal or high"]),
        (&["send", "task", "x", "-p", ""], INVALID_REQUEST, &["priority"]),
    ]);
    let sandbox = Sandbox::new();
    let ten: Vec<String> = (1..=10).map(|number| format!("{}{number:02}", "x".repeat(48))).collect();
    sandbox.agent("me").args(["send", "task", "x", "-t", &ten.join(",")]).ok();
    assert_eq!(sandbox.log("me", &[])[0]["tags"], json!(ten), "ten tags of fifty characters are allowed");
}

#[test]
fn times_lengths_of_time_and_counts() {
    refused(&[
        (&["log", "--since", "yesterday"], INVALID_REQUEST, &["yesterday", "1h", "RFC 3339"]),
        (&["log", "--since", "2026-13-01"], INVALID_REQUEST, &["2026-13-01"]),
        (&["log", "--since", "2026-02-30T00:00:00Z"], INVALID_REQUEST, &["2026-02-30"]),
        (&["log", "--since", "5"], INVALID_REQUEST, &["`5`"]),
        (&["log", "--since=-1h"], INVALID_REQUEST, &["-1h"]),
        (&["log", "--since", ""], INVALID_REQUEST, &["point in time"]),
        (&["log", "--since", "20260230-000000-0001"], INVALID_REQUEST, &["20260230-000000-0001"]),
        (&["watch", "--since", "soon"], INVALID_REQUEST, &["soon"]),
        (&["watch", "--timeout", "5"], INVALID_REQUEST, &["`5`", "90s"]),
        (&["watch", "--timeout", "1x"], INVALID_REQUEST, &["1x"]),
        (&["watch", "--timeout", "1 h"], INVALID_REQUEST, &["1 h"]),
        (&["watch", "--count", "0"], INVALID_REQUEST, &["0"]),
        (&["watch", "--count", "-1"], INVALID_REQUEST, &["-1"]),
        (&["watch", "--count", "many"], INVALID_REQUEST, &["many"]),
        (&["log", "-n", "0"], INVALID_REQUEST, &["0"]),
        (&["log", "-n", "x"], INVALID_REQUEST, &["x"]),
        (&["log", "-n", "99999999999"], INVALID_REQUEST, &["99999999999"]),
        (&["search", "-n", "0", "x"], INVALID_REQUEST, &["0 is not in 1.."]),
        (&["inbox", "-n", "0"], INVALID_REQUEST, &["0 is not in 1.."]),
    ]);
}

#[test]
fn negative_values_of_options() {
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["log", "--since", "-1h"], INVALID_REQUEST, &["`-1h` is negative", "1h30m"]),
        (&["log", "-n", "-1"], INVALID_REQUEST, &["-1 is not in 1.."]),
        (&["inbox", "-n", "-1"], INVALID_REQUEST, &["-1 is not in 1.."]),
        (&["gc", "--days", "-1"], INVALID_REQUEST, &["-1 is not in 0.."]),
        (&["watch", "--timeout", "-5s"], INVALID_REQUEST, &["`-5s` is negative", "90s"]),
        (&["watch", "--timeout", "-5s", "--count", "-1"], INVALID_REQUEST, &["'-1' for '--count <N>'"]),
        (&["send", "@a", "x", "--expires", "-1h"], INVALID_REQUEST, &["`-1h` is negative", "1h"]),
        (&["log", "--since", "--json"], INVALID_REQUEST, &["a value is required for '--since <TIME|ID>'"]),
    ];
    refused(cases);
    for (args, ..) in cases {
        let told = Sandbox::new().agent("me").args(*args).fails(INVALID_REQUEST);
        assert!(!told.stderr.contains("'-- -"), "{told}");
    }
    Sandbox::new().agent("me").args(["send", "task", "-1"]).fails(INVALID_REQUEST).says(&["'-- -1'"]);
}

#[test]
fn empty_threads_and_titles() {
    refused(&[
        (&["send", "task", "x", "--thread", ""], INVALID_REQUEST, &["thread is empty", "--thread NAME"]),
        (&["send", "task", "x", "--thread", " "], INVALID_REQUEST, &["thread is empty"]),
    ]);
    let sandbox = Sandbox::new();
    let sent = sandbox.agent("me").args(["send", "task", "x", "-s", "", "--json"]).ok().json();
    assert_eq!(sent.get("subject"), None, "an empty title is none: {sent}");
    let id = sandbox.agent("me").args(["send", "task", "x", "-s", "Title"]).ok().stdout;
    let answer = sandbox.agent("you").args(["reply", id.trim_end(), "y", "-s", "", "--json"]).ok().json();
    assert_eq!(answer["subject"], "Re: Title");
}

#[test]
fn reply_to() {
    refused(&[
        (&["send", "task", "x", "--reply-to", "abc"], INVALID_REQUEST, &["abc", "YYYYMMDD-HHMMSS-NNNN"]),
        (&["send", "task", "x", "--reply-to", ""], INVALID_REQUEST, &["message id"]),
        (&["send", "task", "x", "--reply-to", "20261399-000000-0001"], INVALID_REQUEST, &["20261399-000000-0001"]),
        (&["send", "task", "x", "--reply-to", "00-99999"], NOT_FOUND, &["00-99999", "fmail log"]),
    ]);
}

#[test]
fn an_ambiguous_reply_to_lists_the_candidates() {
    let sandbox = Sandbox::new();
    for (topic, id) in [("task", "20260110-153000-0042"), ("build", "20260111-090000-0042")] {
        let message = json!({"id": id, "from": "lead", "to": topic, "time": "2026-01-10T15:30:00Z", "body": "x"});
        sandbox.write(format!(".fmail/topics/{topic}/{id}.json"), message.to_string());
    }
    sandbox.send("me", "lobby", "exists");
    let before = sandbox.tree();
    let output = sandbox.agent("me").args(["send", "task", "x", "--reply-to", "0042"]).fails(CONFLICT);
    output.says(&["0042", "20260110-153000-0042", "20260111-090000-0042", "write more"]);
    sandbox.assert_unchanged(&before);
    sandbox.agent("me").args(["send", "task", "x", "--reply-to", "153000-0042"]).ok();
}

#[test]
fn an_id_that_stands_in_two_places_is_ambiguous_too() {
    let sandbox = Sandbox::new();
    let id = "20260110-153000-0042";
    for topic in ["task", "build"] {
        let message = json!({"id": id, "from": "lead", "to": topic, "time": "2026-01-10T15:30:00Z", "body": topic});
        sandbox.write(format!(".fmail/topics/{topic}/{id}.json"), message.to_string());
    }
    let output = sandbox.agent("me").args(["send", "task", "x", "--reply-to", id]).fails(CONFLICT);
    output.says(&["-> task", "-> build"]);
    assert_eq!(sandbox.names(".fmail/topics/task").len(), 1);
}

#[test]
fn arguments_that_are_not_utf_8() {
    let sandbox = Sandbox::new();
    let bad = OsStr::from_bytes(b"caf\xe9");
    for (before, after) in [(&["send", "task"][..], &[][..]), (&["send"], &["x"]), (&["log"], &[]), (&["status"], &[])]
    {
        sandbox.agent("me").args(before).arg(bad).args(after).fails(INVALID_REQUEST).says(&["UTF-8"]);
    }
    assert!(!sandbox.store().exists());
}
