//! `fmail` with a daemon: through it when it is there, without it when it is not, and never twice.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use fmail_e2e::{Running, Sandbox, eventually, forged_binary};
use rustix::process::Signal;
use serde_json::Value;

/// Starts a daemon in the sandbox's project and waits until it answers.
fn forged(sandbox: &Sandbox, args: &[&str]) -> Running {
    let running = sandbox.command(forged_binary()).args(args).spawn();
    eventually(30, "a daemon that answers", || {
        let status = sandbox.command(forged_binary()).arg("status").run();
        (status.code == 0).then_some(())
    });
    running
}

/// A message that went through a daemon carries the host; one that did not, does not.
fn went_through(message: &Value) -> bool {
    message["host"].is_string() && message["key"].is_string()
}

#[test]
fn send_goes_through_the_daemon_and_the_answer_is_the_same() {
    let sandbox = Sandbox::new();
    let alone = sandbox.agent("alice").args(["send", "task", "alone", "--json"]).ok().json();
    assert!(!went_through(&alone), "{alone}");
    let _daemon = forged(&sandbox, &[]);
    let through = sandbox.agent("alice").args(["send", "task", "through", "--json"]).ok();
    assert!(through.stderr.is_empty(), "{through}");
    assert!(went_through(&through.json()), "{through}");
    let id = sandbox.send("alice", "task", "plain");
    let stored = sandbox.log("alice", &[]);
    assert_eq!(stored[1], through.json());
    assert_eq!(stored[2]["id"], id);
}

#[test]
fn what_the_daemon_refuses_is_the_answer() {
    let sandbox = Sandbox::new();
    let _daemon = forged(&sandbox, &[]);
    sandbox.agent("alice").args(["send", "task", "--tag", "no tag", "x"]).fails(2);
    sandbox.agent("alice").args(["send", "--strict", "@nobody", "x"]).fails(7).says(&["nobody in this project"]);
    let large = "x".repeat(1_048_500);
    sandbox.agent("alice").args(["send", "task"]).stdin(large).fails(6);
    let warned = sandbox.agent("alice").args(["send", "@nobody", "x"]).ok();
    warned.says(&["nobody in this project has used the name @nobody"]);
    assert_eq!(sandbox.names(".fmail/dm/nobody").len(), 1);
    assert!(sandbox.names(".fmail/topics/task").is_empty());
    let other = sandbox.agent("alice").env("FMAIL_PROJECT", "another").args(["send", "task", "x"]).fails(5);
    other.says(&["not the one that the request names"]);
}

#[test]
fn a_stale_socket_costs_nothing() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    drop(UnixListener::bind(sandbox.store().join("forged.sock")).unwrap());
    let sent = sandbox.agent("alice").args(["send", "task", "two"]).ok();
    assert!(sent.stderr.is_empty(), "{sent}");
    assert_eq!(sandbox.bodies("alice", &[]), ["one", "two"]);
}

#[test]
fn a_connection_that_is_lost_before_the_answer_leads_to_the_files_with_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    let listener = UnixListener::bind(sandbox.store().join("forged.sock")).unwrap();
    let rude = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        stream.write_all(b"{\"ok\":tr").unwrap();
        line
    });
    let sent = sandbox.agent("alice").args(["send", "task", "two"]).ok();
    sent.says(&["lost", "stored twice"]);
    assert!(rude.join().unwrap().contains("\"cmd\":\"hello\""));
    assert_eq!(sandbox.bodies("alice", &[]), ["one", "two"]);
}

#[test]
fn a_daemon_that_knows_only_the_document_is_understood() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    let listener = UnixListener::bind(sandbox.store().join("forged.sock")).unwrap();
    let plain = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        let hello = next();
        let refused = "{\"ok\":false,\"error\":{\"code\":\"invalid_request\",\"message\":\"unknown cmd\"},\"req_id\":\"hello\"}\n";
        stream.write_all(refused.as_bytes()).unwrap();
        let sent = next();
        stream.write_all(b"{\"ok\":true,\"id\":\"20260110-153000-0001\",\"req_id\":\"1\"}\n").unwrap();
        (hello, sent)
    });
    let sent = sandbox.agent("alice").args(["send", "task", "two"]).ok();
    assert_eq!(sent.stdout, "20260110-153000-0001\n");
    let (hello, sent) = plain.join().unwrap();
    assert_eq!((&hello["cmd"], &sent["cmd"], &sent["body"]), (&"hello".into(), &"send".into(), &"two".into()));
}

#[test]
fn a_stopped_daemon_leads_to_the_files_and_the_message_is_there_once() {
    let sandbox = Sandbox::new();
    let daemon = forged(&sandbox, &[]);
    sandbox.send("alice", "task", "before");
    daemon.signal(Signal::STOP);
    let sent = sandbox.agent("alice").args(["send", "task", "once"]).ok();
    sent.says(&["did not answer in time"]);
    daemon.signal(Signal::CONT);
    // The daemon goes on with what it was asked; when it answers this, it has done that.
    sandbox.send("alice", "task", "after");
    assert_eq!(sandbox.bodies("alice", &[]), ["before", "once", "after"]);
}

#[test]
fn a_port_of_another_daemon_is_not_ours() {
    let (ours, other) = (Sandbox::new(), Sandbox::new());
    ours.send("alice", "task", "one");
    let mut daemon = forged(&other, &["--tcp=127.0.0.1:0"]);
    let address = loop {
        let line = daemon.stderr_line();
        if let Some((_, address)) = line.split_once("tcp://") {
            break address.trim_matches('"').split(['"', ' ']).next().unwrap().to_string();
        }
    };
    let sent = ours.agent("alice").env("FMAIL_TCP__ADDRESS", &address).args(["send", "task", "two"]).ok();
    assert!(sent.stderr.is_empty(), "{sent}");
    assert_eq!(ours.bodies("alice", &[]), ["one", "two"]);
    assert!(other.names(".fmail/topics").is_empty());
    // Its own project is reached over that port too.
    let through = other.agent("alice").env("FMAIL_TRANSPORTS", "tcp").env("FMAIL_TCP__ADDRESS", &address);
    assert!(went_through(&through.args(["send", "task", "x", "--json"]).ok().json()));
}

#[test]
fn a_clone_with_the_same_id_never_sends_into_the_other_ones_files() {
    let (one, two) = (Sandbox::new(), Sandbox::new());
    for sandbox in [&one, &two] {
        sandbox.fmail().args(["init", "--project", "proj-clone"]).ok();
    }
    let mut daemon = forged(&one, &["--tcp=127.0.0.1:0"]);
    let address = loop {
        if let Some((_, address)) = daemon.stderr_line().split_once("tcp://") {
            break address.trim_matches('"').split(['"', ' ']).next().unwrap().to_string();
        }
    };
    two.agent("alice").env("FMAIL_TCP__ADDRESS", &address).args(["send", "task", "mine"]).ok();
    assert_eq!(two.bodies("alice", &[]), ["mine"]);
    assert!(one.names(".fmail/topics/task").is_empty());
}

#[test]
fn discovery_is_fast_when_nothing_listens() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    let start = Instant::now();
    sandbox.send("alice", "task", "two");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn a_watch_across_restarts_and_fallback_sees_each_message_once() {
    let sandbox = Sandbox::new();
    let first = forged(&sandbox, &[]);
    let mut watch = sandbox.agent("bob").args(["watch", "--json", "--count", "60"]).spawn();
    let present = || sandbox.agent("bob").arg("who").ok().stdout.contains("bob");
    eventually(30, "a watch that is known", || present().then_some(()));
    let send = |range: std::ops::Range<u32>| range.for_each(|n| drop(sandbox.send("alice", "task", &n.to_string())));
    send(0..15);
    // A restart: the watch finds the next daemon.
    first.signal(Signal::TERM);
    first.wait();
    let second = forged(&sandbox, &[]);
    send(15..30);
    // A kill, and nobody comes back: the watch goes on with the files.
    second.signal(Signal::KILL);
    send(30..45);
    drop(second);
    let _third = forged(&sandbox, &[]);
    send(45..60);
    let seen: Vec<u64> = (0..60).map(|_| watch.json()["body"].as_u64().unwrap()).collect();
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
    assert_eq!(watch.wait().code, 0);
}

#[test]
fn what_standalone_processes_write_reaches_the_daemons_watchers() {
    let sandbox = Sandbox::new();
    let _daemon = forged(&sandbox, &[]);
    let mut watch = sandbox.agent("bob").args(["watch", "task", "--json", "--count", "2", "--since", "1h"]).spawn();
    sandbox.agent("alice").env("FMAIL_TRANSPORTS", "").args(["send", "task", "beside"]).ok();
    assert_eq!(watch.json()["body"], "beside");
    sandbox.send("alice", "task", "through");
    assert_eq!(watch.json()["body"], "through");
    assert_eq!(watch.wait().code, 0);
}

#[test]
fn another_agents_mailbox_is_read_from_the_files() {
    let sandbox = Sandbox::new();
    let _daemon = forged(&sandbox, &[]);
    sandbox.send("alice", "@carol", "hers");
    let args = ["watch", "@carol", "--since", "1h", "--count", "1", "--json"];
    let seen = sandbox.agent("bob").args(args).arg("--allow-other-dm").ok();
    assert_eq!(seen.json()["body"], "hers");
    sandbox.agent("bob").args(args).fails(4);
}
