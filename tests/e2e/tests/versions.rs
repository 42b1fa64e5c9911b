//! `fmail` and a daemon of another age: they work together, or the older one is named.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

use fmail_e2e::{Sandbox, eventually, forged_binary};
use serde_json::Value;

const NOT_KNOWN: &str = r#"{"ok":false,"error":{"code":"invalid_request","message":"unknown cmd"},"req_id":"hello"}"#;

/// A daemon's hello.
fn hello(version: &str, protocol: u32, store_id: &str) -> String {
    format!(
        r#"{{"ok":true,"hello":{{"version":"{version}","protocol":{protocol},"operations":["hello","send","teleport"],"project":{{"id":"p","created":"2026-01-10T15:00:00Z"}},"store_id":"{store_id}","new":[1]}},"new":{{}},"req_id":"hello"}}"#
    )
}

/// Answers each line of one peer with the next of these lines; gives the lines of the peer.
fn answering<S: Read + Write>(stream: S, clone: impl Read, answers: Vec<String>) -> Vec<Value> {
    let (mut stream, mut lines) = (stream, BufReader::new(clone).lines());
    let mut heard = Vec::new();
    for answer in answers {
        let Some(Ok(line)) = lines.next() else { break };
        heard.push(serde_json::from_str(&line).unwrap());
        stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
    heard
}

/// A daemon on the project's socket that says just this.
fn daemon(sandbox: &Sandbox, answers: Vec<String>) -> JoinHandle<Vec<Value>> {
    let listener = UnixListener::bind(sandbox.store().join("forged.sock")).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let clone = stream.try_clone().unwrap();
        answering(stream, clone, answers)
    })
}

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "before");
    sandbox
}

#[test]
fn an_old_daemon_that_knows_only_the_document_can_be_watched() {
    let sandbox = project();
    let message =
        r#"{"msg":{"id":"20260110-153000-0001","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":"old"}}"#;
    let watching = format!("{{\"ok\":true,\"req_id\":\"1\"}}\n{message}");
    let old = daemon(&sandbox, vec![NOT_KNOWN.into(), watching]);
    let seen = sandbox.agent("bob").args(["watch", "task", "--count", "1", "--json"]).ok();
    assert_eq!(seen.json()["body"], "old", "{seen}");
    let heard = old.join().unwrap();
    assert_eq!((&heard[0]["cmd"], &heard[1]["cmd"]), (&"hello".into(), &"watch".into()));
}

#[test]
fn a_newer_daemon_with_operations_that_we_do_not_know_is_used() {
    let sandbox = project();
    let stored = r#"{"ok":true,"id":"20260110-153000-0001","new":true,"req_id":"1"}"#;
    let newer = daemon(&sandbox, vec![hello("9.0.0", 1, "x"), stored.into()]);
    let sent = sandbox.agent("alice").args(["send", "task", "through"]).ok();
    assert!(sent.stdout == "20260110-153000-0001\n" && sent.stderr.is_empty(), "{sent}");
    assert_eq!(newer.join().unwrap()[1]["body"], "through");
}

#[test]
fn when_a_request_is_not_understood_the_older_side_is_named() {
    let refusal = NOT_KNOWN.replace("hello", "1");
    for (version, protocol, advice) in
        [("9.0.0", 2, "upgrade fmail"), ("9.0.0", 1, "upgrade fmail"), ("0.0.1", 1, "upgrade forged")]
    {
        for command in [&["send", "task", "x"][..], &["watch", "task", "--count", "1"]] {
            let sandbox = project();
            let other = daemon(&sandbox, vec![hello(version, protocol, "x"), refusal.clone()]);
            let refused = sandbox.agent("alice").args(command).fails(2);
            refused.says(&[&format!("forged has version {version} and protocol {protocol}"), advice]);
            other.join().unwrap();
            // An error that a daemon answers is the answer: nothing was stored behind its back.
            std::fs::remove_file(sandbox.store().join("forged.sock")).unwrap();
            assert_eq!(sandbox.bodies("alice", &[]), ["before"]);
        }
    }
}

/// What a daemon says of the store in this project.
fn store_id(sandbox: &Sandbox) -> String {
    let running = sandbox.command(forged_binary()).spawn();
    let socket = sandbox.store().join("forged.sock");
    let stream = eventually(30, "a daemon that listens", || UnixStream::connect(&socket).ok());
    (&stream).write_all(b"{\"cmd\":\"hello\",\"agent\":\"a\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    sandbox.command(forged_binary()).arg("stop").ok();
    running.wait();
    serde_json::from_str::<Value>(&line).unwrap()["hello"]["store_id"].as_str().unwrap().to_string()
}

#[test]
fn a_protocol_that_we_do_not_know_is_not_spoken_over_tcp() {
    let sandbox = project();
    let newer = hello("9.0.0", 2, &store_id(&sandbox));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heard = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let clone = stream.try_clone().unwrap();
        answering(stream, clone, vec![newer, NOT_KNOWN.into()])
    });
    let send = sandbox.agent("alice").env("FMAIL_TRANSPORTS", "tcp").env("FMAIL_TCP__ADDRESS", &address);
    send.args(["send", "task", "after"]).ok().says(&["speaks protocol 2", "upgrade fmail", "the files are used"]);
    assert_eq!(heard.join().unwrap().len(), 1, "the hello and nothing else");
    assert_eq!(sandbox.bodies("alice", &[]), ["before", "after"]);
}
