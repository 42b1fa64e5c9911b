//! `fmail` with a daemon: through it when it is there, without it when it is not, and never twice.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use fmail_e2e::{Sandbox, Wire};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A message that went through a daemon carries the host; one that did not, does not.
fn went_through(message: &Value) -> bool {
    message["host"].is_string() && message["key"].is_string()
}

#[test]
fn send_goes_through_the_daemon_and_the_answer_is_the_same() {
    let sandbox = Sandbox::new();
    let alone = sandbox.agent("alice").args(["send", "task", "alone", "--json"]).ok().json();
    assert!(!went_through(&alone), "{alone}");
    let _daemon = sandbox.forged(&[]);
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
    let _daemon = sandbox.forged(&[]);
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
fn an_id_that_the_daemon_refuses_is_told_with_where_it_comes_from() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.forged(&[]);
    for args in
        [&["send", "task", "hi"][..], &["watch", "--timeout", "1s"], &["nudge", "bob", "hi"], &["relay", "status"]]
    {
        let refused = sandbox.agent("alice").env("FMAIL_PROJECT", "zzz").args(args).fails(5);
        refused.says(&["this is the project proj-", "FMAIL_PROJECT names `zzz`", "help: unset FMAIL_PROJECT"]);
    }
}

#[test]
fn the_daemon_registers_no_name_that_is_given_to_agents_without_one() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.forged(&[]);
    sandbox.fmail().args(["register", "anon-3"]).fails(4).says(&["`anon-3`", "agents without a name"]);
    let mut wire = Wire::connect(&sandbox.store().join("forged.sock")).expect("it listens");
    let answer = wire.ask(&json!({"cmd": "register", "agent": "x", "name": "anon-3"})).expect("an answer");
    assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!("invalid_agent")), "{answer}");
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
fn a_message_that_was_stored_before_the_connection_was_lost_is_there_once() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.forged(&[]);
    let (socket, behind) = (sandbox.store().join("forged.sock"), sandbox.store().join("behind.sock"));
    std::fs::rename(&socket, &behind).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    // Passes on what is asked, keeps the answer to itself and hangs up.
    let between = std::thread::spawn(move || {
        let (client, mut daemon) = (listener.accept().unwrap().0, UnixStream::connect(&behind).unwrap());
        let mut asked = BufReader::new(client).lines();
        let mut answered = BufReader::new(daemon.try_clone().unwrap()).lines();
        for _ in ["hello", "send"] {
            daemon.write_all(format!("{}\n", asked.next().unwrap().unwrap()).as_bytes()).unwrap();
        }
        answered.nth(1).unwrap().unwrap()
    });
    let sent = sandbox.agent("alice").args(["send", "task", "once"]).ok();
    sent.says(&["lost", "stored twice"]);
    let answer: Value = serde_json::from_str(&between.join().unwrap()).unwrap();
    assert_eq!((answer["ok"].as_bool(), answer["id"].as_str()), (Some(true), Some(sent.stdout.trim_end())));
    assert_eq!(sandbox.bodies("alice", &[]), ["once"]);
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
    let daemon = sandbox.forged(&[]);
    sandbox.send("alice", "task", "before");
    daemon.signal(Signal::STOP);
    let time = taken(|| {
        let sent = sandbox.agent("alice").args(["send", "task", "once", "--json"]).ok();
        sent.says(&["did not answer in time"]);
        // A key, because it was entrusted to a daemon; no host, because the daemon did not store it.
        let message = sent.json();
        assert!(message["key"].is_string() && message["host"].is_null(), "{message}");
    });
    assert!(time < GIVEN_UP, "{time:?}");
    daemon.signal(Signal::CONT);
    // The daemon goes on with what it was asked; when it answers this, it has done that.
    sandbox.send("alice", "task", "after");
    assert_eq!(sandbox.bodies("alice", &[]), ["before", "once", "after"]);
}

#[test]
fn a_port_of_another_daemon_is_not_ours() {
    let (ours, other) = (Sandbox::new(), Sandbox::new());
    ours.send("alice", "task", "one");
    let mut daemon = other.forged(&["--tcp=127.0.0.1:0"]);
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
    let mut daemon = one.forged(&["--tcp=127.0.0.1:0"]);
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
    let times: Vec<Duration> = (0..5).map(|_| taken(|| drop(sandbox.send("alice", "task", "two")))).collect();
    let best = times.iter().min().unwrap();
    assert!(*best < Duration::from_millis(250), "{times:?}");
}

/// How long it takes.
fn taken(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Half a second is given to a greeting; the rest is for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(3);

#[test]
fn a_socket_that_takes_connections_and_never_answers_is_given_up_soon() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    let _silent = UnixListener::bind(sandbox.store().join("forged.sock")).unwrap();
    let time = taken(|| {
        let sent = sandbox.agent("alice").args(["send", "task", "two"]).ok();
        sent.says(&["did not answer in time", "stored twice"]);
    });
    assert!(time < GIVEN_UP, "{time:?}");
    assert_eq!(sandbox.bodies("alice", &[]), ["one", "two"]);
    // What is stored is shown also when the time is too short for a daemon that says nothing.
    let args = ["watch", "task", "--since", "1h", "--timeout", "300ms", "--json"];
    let seen = sandbox.agent("bob").args(args).ok();
    assert_eq!(seen.json_lines().len(), 2, "{seen}");
}

#[test]
fn a_socket_whose_queue_is_full_is_given_up_soon() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    let path = sandbox.store().join("forged.sock");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    // A queue of length 0 holds one; a further connection waits for ever.
    let _first = UnixStream::connect(&path).unwrap();
    let time = taken(|| drop(sandbox.send("alice", "task", "two")));
    assert!(time < GIVEN_UP, "{time:?}");
    assert_eq!(sandbox.bodies("alice", &[]), ["one", "two"]);
}

#[test]
fn a_stranger_on_the_port_who_never_answers_is_given_up_soon() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    let time = taken(|| {
        let send = sandbox.agent("alice").env("FMAIL_TCP__ADDRESS", &address).args(["send", "task", "two"]);
        let sent = send.ok();
        assert!(sent.stderr.is_empty(), "nothing was entrusted to it, so there is nothing to tell\n{sent}");
    });
    assert!(time < GIVEN_UP, "{time:?}");
    assert_eq!(sandbox.bodies("alice", &[]), ["one", "two"]);
}

#[test]
fn what_standalone_processes_write_reaches_the_daemons_watchers() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.forged(&[]);
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
    let _daemon = sandbox.forged(&[]);
    sandbox.send("alice", "@carol", "hers");
    let args = ["watch", "@carol", "--since", "1h", "--count", "1", "--json"];
    let seen = sandbox.agent("bob").args(args).arg("--allow-other-dm").ok();
    assert_eq!(seen.json()["body"], "hers");
    sandbox.agent("bob").args(args).fails(9);
}
