//! `fmail search`: messages by what they say, from the files and through the daemon.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use fmail_e2e::Sandbox;
use serde_json::{Value, json};

fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.send("build-bot", "ci", "nightly build failed");
    sandbox.send("alice", "@bob", "the build is yours");
    sandbox.send("bob", "@carol", "a build between us");
    sandbox.send("bob", "@alice", "build nightly yourself");
    sandbox
}

fn found(sandbox: &Sandbox, agent: &str, args: &[&str]) -> Vec<String> {
    let lines = sandbox.agent(agent).args(["search", "--json"]).args(args).ok().json_lines();
    lines.iter().map(|message| message["body"].as_str().expect("a text").to_string()).collect()
}

#[test]
fn an_agent_finds_topics_its_mail_and_what_it_sent() {
    let sandbox = filled();
    let all = ["nightly build failed", "the build is yours", "build nightly yourself"];
    assert_eq!(found(&sandbox, "alice", &["build"]), all);
    assert_eq!(found(&sandbox, "dave", &["build"]), ["nightly build failed"]);
    let plain = sandbox.agent("alice").args(["search", "yours"]).ok();
    assert!(plain.stdout.ends_with(" alice -> @bob: the build is yours\n") && plain.stderr.is_empty(), "{plain}");
}

#[test]
fn several_arguments_are_one_query() {
    let sandbox = filled();
    assert_eq!(found(&sandbox, "alice", &["nightly", "build"]), found(&sandbox, "alice", &["nightly build"]));
    assert_eq!(found(&sandbox, "alice", &["\"nightly build\""]), ["nightly build failed"]);
    assert_eq!(found(&sandbox, "alice", &["failed", "OR", "yours"]), ["nightly build failed", "the build is yours"]);
    assert_eq!(found(&sandbox, "alice", &["from:build-bot"]), ["nightly build failed"]);
    // A query that begins with a hyphen stands behind `--`; this one finds the sender's name.
    assert_eq!(found(&sandbox, "alice", &["--", "-body:build"]), ["nightly build failed"]);
}

#[test]
fn the_newest_are_kept_and_older_ones_are_told() {
    let sandbox = filled();
    let some = sandbox.agent("alice").args(["search", "build", "-n", "2", "--json"]).ok();
    some.says(&["older messages match too", "newest 2"]);
    let bodies: Vec<Value> = some.json_lines().iter().map(|message| message["body"].clone()).collect();
    assert_eq!(bodies, ["the build is yours", "build nightly yourself"]);
    assert_eq!(sandbox.agent("alice").args(["search", "build", "-n", "3"]).ok().stderr, "");
    let first = sandbox.log("alice", &["ci"])[0]["id"].as_str().expect("an id").to_string();
    assert_eq!(found(&sandbox, "alice", &["nightly", "--since", &first]), ["build nightly yourself"]);
    assert!(found(&sandbox, "alice", &["nightly", "--since", "2100-01-01"]).is_empty());
}

#[test]
fn nothing_found_is_no_failure_and_says_nothing_to_a_script() {
    let sandbox = filled();
    let nothing = sandbox.agent("alice").args(["search", "zebra"]).ok();
    assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str()), ("", ""));
    let empty = Sandbox::new();
    assert_eq!(empty.agent("alice").args(["search", "zebra"]).ok().stdout, "");
    assert!(!empty.store().exists(), "a search creates no project");
}

#[test]
fn a_query_that_cannot_be_read_is_a_usage_error_with_its_place_and_a_hint() {
    let sandbox = filled();
    let refused = |query: &str| sandbox.agent("alice").args(["search", query]).fails(2);
    refused("it's").says(&["the search query", "`'` at character 3", "help: put text"]);
    refused("tag:ci").says(&["tag", "tags"]);
    refused("build (nightly)").says(&["the search query", "help: "]);
    refused("").says(&["empty", "help: "]);
    sandbox.agent("alice").arg("search").fails(2);
    sandbox.agent("alice").args(["search", "build", "--since", "yesterday"]).fails(2).says(&["yesterday"]);
}

#[test]
fn a_broken_file_is_told_and_hides_nothing() {
    let sandbox = filled();
    sandbox.write(".fmail/topics/ci/20200101-000000-0001.json", "{\"from\": ");
    let found = sandbox.agent("dave").args(["search", "build"]).ok();
    assert_eq!(found.stdout.lines().count(), 1, "{found}");
    // A file that was just written may be in the making; one with an old time is broken.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let path = sandbox.path().join(".fmail/topics/ci/20200101-000000-0001.json");
    std::fs::File::options().write(true).open(&path).expect("own file").set_modified(old).expect("own file");
    let found = sandbox.agent("dave").args(["search", "build"]).ok();
    found.says(&["20200101-000000-0001"]);
    assert_eq!(found.stdout.lines().count(), 1, "{found}");
}

#[test]
fn the_daemon_finds_the_same() {
    let sandbox = filled();
    let _daemon = sandbox.forged(&[]);
    let mut stream = UnixStream::connect(sandbox.store().join("forged.sock")).expect("a daemon listens");
    let search = json!({"cmd": "search", "agent": "alice", "query": "build", "limit": 2});
    writeln!(stream, "{search}").expect("a daemon reads");
    let lines = BufReader::new(stream).lines().map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"));
    let mut lines = lines.take_while(|line: &Value| line["event"] != "end");
    let head = lines.next().expect("an answer");
    assert_eq!((&head["ok"], &head["more"]), (&json!(true), &json!(true)), "{head}");
    let bodies: Vec<Value> = lines.map(|line| line["msg"]["body"].clone()).collect();
    assert_eq!(bodies, ["the build is yours", "build nightly yourself"]);
}
