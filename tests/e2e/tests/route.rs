//! A store that lives in forged's process: every command goes there, and none goes anywhere else.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use fmail_e2e::{Daemon, Fmail, Sandbox};
use rustix::process::Signal;
use serde_json::{Value, json};

const INVALID_CONFIG: i32 = 14;
const UNAVAILABLE: i32 = 12;
const UNSUPPORTED: i32 = 10;

/// A project whose store is in memory.
fn in_memory() -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, "memory");
    sandbox
}

fn configure(sandbox: &Sandbox, store: &str) {
    let directory = sandbox.home().join(".config/fmail");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), format!("[mail]\nstore = \"{store}\"\n")).unwrap();
}

fn alice(sandbox: &Sandbox, args: &[&str]) -> Fmail {
    sandbox.agent("alice").args(args)
}

#[test]
fn without_forged_every_command_says_which_store_it_is_from_where_and_what_to_start() {
    let sandbox = in_memory();
    let id = "20260110-153000-0001";
    for args in [
        &["send", "task", "x"][..],
        &["send", "task", "x", "--json"],
        &["log"],
        &["log", "--follow"],
        &["watch", "--count", "1"],
        &["watch", "--timeout", "1m"],
        &["topics"],
        &["who"],
        &["status", "busy"],
        &["register"],
        &["gc"],
        &["inbox"],
        &["check"],
        &["count"],
        &["read", id],
        &["peek", id],
        &["mark-read", id],
        &["mark-unread", id],
        &["ack", id],
        &["archive", id],
        &["unarchive", id],
        &["delete", id],
        &["reply", id, "x"],
        &["thread", id],
        &["receipt", id],
        &["search", "x"],
        &["reserve", "src"],
        &["release", "src"],
        &["renew", "src"],
        &["reservations"],
        &["nudge", "bob", "x"],
    ] {
        let refused = alice(&sandbox, args).fails(INVALID_CONFIG);
        refused.says(&["`memory`", "config.toml", "lose the message", "start `forged` in"]);
    }
    assert!(!sandbox.store().exists(), "nothing is created by that");
    let none = alice(&sandbox, &["send", "task", "x"]).env("FMAIL_TRANSPORTS", "").fails(INVALID_CONFIG);
    none.says(&["mail.transports names no way"]);
}

#[test]
fn a_socket_that_a_dead_daemon_left_is_no_daemon() {
    let sandbox = in_memory();
    Daemon::start(&sandbox).kill();
    assert!(sandbox.store().join("forged.sock").exists());
    alice(&sandbox, &["send", "task", "x"]).fails(INVALID_CONFIG).says(&["start `forged`"]);
    alice(&sandbox, &["watch", "--count", "1"]).fails(INVALID_CONFIG).says(&["start `forged`"]);
}

#[test]
fn what_is_stored_is_there_for_everybody_as_long_as_forged_lives() {
    let sandbox = in_memory();
    let daemon = Daemon::start(&sandbox);
    sandbox.send("alice", "task", "one");
    assert_eq!(sandbox.bodies("bob", &[]), ["one"]);
    assert!(sandbox.names(".fmail/topics").is_empty(), "nothing of it is in files");
    daemon.stop();
    let _daemon = Daemon::start(&sandbox);
    assert_eq!(sandbox.bodies("bob", &[]), [] as [&str; 0]);
}

#[test]
fn over_tcp_alone_everything_works_too() {
    let sandbox = in_memory();
    let mut daemon = sandbox.forged(&["--tcp=127.0.0.1:0"]);
    let address = loop {
        if let Some((_, address)) = daemon.stderr_line().split_once("tcp://") {
            break address.trim_matches('"').split(['"', ' ']).next().unwrap().to_string();
        }
    };
    let over_tcp =
        |args: &[&str]| alice(&sandbox, args).env("FMAIL_TRANSPORTS", "tcp").env("FMAIL_TCP__ADDRESS", &address);
    let id = over_tcp(&["send", "@alice", "one"]).ok().stdout;
    assert_eq!(over_tcp(&["inbox", "--json"]).ok().json()["body"], "one");
    assert_eq!(over_tcp(&["watch", "--since", "1h", "--count", "1", "--json"]).ok().json()["body"], "one");
    over_tcp(&["ack", id.trim_end()]).ok();
    over_tcp(&["check"]).fails(1);
}

#[test]
fn a_watch_and_a_followed_log_wait_for_forged_and_go_on_when_it_is_back() {
    let sandbox = in_memory();
    let daemon = Daemon::start(&sandbox);
    sandbox.send("alice", "task", "one");
    let following = [&["watch", "task", "--since", "1h", "--json"][..], &["log", "task", "--follow", "--json"]];
    let mut following = following.map(|args| sandbox.agent("bob").args(args).spawn());
    for one in &mut following {
        assert_eq!(one.json()["body"], "one");
    }
    daemon.kill();
    for one in &mut following {
        assert!(one.stderr_line().contains("waiting for forged"));
    }
    let _daemon = Daemon::start(&sandbox);
    sandbox.send("alice", "task", "two");
    for one in &mut following {
        assert_eq!(one.json()["body"], "two");
        assert!(one.stderr_line().contains("watching through forged again"));
        one.signal(Signal::INT);
    }
    for one in following {
        assert_eq!(one.wait().code, 0);
    }
}

#[test]
fn nobody_sends_into_one_store_and_reads_from_another() {
    let sandbox = in_memory();
    let daemon = Daemon::start(&sandbox);
    for args in [&["send", "task", "x"][..], &["send", "task", "x", "--json"], &["watch", "--count", "1"]] {
        let refused = alice(&sandbox, args).env("FMAIL_STORE", "files").fails(INVALID_CONFIG);
        refused
            .says(&["forged serves the store `memory` here, and the request is for the store `files`", "mail.store"]);
    }
    assert_eq!(sandbox.bodies("bob", &[]), [] as [&str; 0]);
    assert!(sandbox.names(".fmail/topics").is_empty());
    daemon.stop();
    configure(&sandbox, "files");
    let _daemon = Daemon::start(&sandbox);
    sandbox.send("alice", "task", "in files");
    for args in [&["log"][..], &["send", "task", "x"], &["watch", "--count", "1"]] {
        let refused = alice(&sandbox, args).env("FMAIL_STORE", "memory").fails(INVALID_CONFIG);
        refused.says(&["the store `files` here", "for the store `memory`"]);
    }
    assert_eq!(sandbox.bodies("bob", &[]), ["in files"]);
}

#[test]
fn another_agents_mailbox_needs_a_store_that_the_command_can_open() {
    let sandbox = in_memory();
    let _daemon = Daemon::start(&sandbox);
    sandbox.send("alice", "@carol", "hers");
    for command in ["log", "watch"] {
        let refused = sandbox.agent("bob").args([command, "@carol", "--allow-other-dm"]).fails(UNSUPPORTED);
        refused.says(&["@carol", "the store `memory` lives in forged's process"]);
    }
    let own = ["watch", "@carol", "--allow-other-dm", "--since", "1h", "--count", "1", "--json"];
    assert_eq!(sandbox.agent("carol").args(own).ok().json()["body"], "hers");
}

#[test]
fn a_nudge_reaches_a_watch() {
    let sandbox = in_memory();
    let _daemon = Daemon::start(&sandbox);
    sandbox.send("alice", "task", "one");
    let mut watch = sandbox.agent("bob").args(["watch", "--since", "1h", "--json"]).spawn();
    watch.line();
    let reached = alice(&sandbox, &["nudge", "bob", "your review", "--json"]).ok().json();
    assert_eq!(reached, json!({"agent": "bob", "sessions": 1, "command": null}));
    assert!(watch.line().contains("your review"));
}

#[test]
fn the_project_has_its_id_on_every_store() {
    let sandbox = in_memory();
    alice(&sandbox, &["init", "--project", "proj-chosen"]).ok().says(&["created the project proj-chosen"]);
    let daemon = Daemon::start(&sandbox);
    sandbox.send("alice", "task", "in memory");
    assert_eq!(alice(&sandbox, &["whoami", "--json"]).ok().json()["project"], "proj-chosen");
    daemon.stop();
    configure(&sandbox, "files");
    sandbox.send("alice", "task", "in files");
    assert_eq!(alice(&sandbox, &["whoami", "--json"]).ok().json()["project"], "proj-chosen");
    assert_eq!(sandbox.bodies("bob", &[]), ["in files"]);
}

/// A daemon that does as it is told by a test.
struct Played {
    stream: UnixStream,
    lines: Lines<BufReader<UnixStream>>,
}

impl Played {
    fn accept(listener: &UnixListener) -> Played {
        let stream = listener.accept().unwrap().0;
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut played = Played { stream, lines };
        played.greet();
        played
    }

    /// Answers a hello.
    fn greet(&mut self) {
        let asked = self.asked();
        let project = json!({"id": "p", "created": "2026-01-10T15:00:00Z"});
        let hello = json!({"version": "0.1.0", "protocol": 1, "operations": [], "project": project, "store_id": ""});
        self.say(&json!({"ok": true, "hello": hello, "req_id": asked["req_id"]}));
    }

    fn asked(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn say(&mut self, line: &Value) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// A project in memory with a socket on which a test listens.
fn played() -> (Sandbox, UnixListener) {
    let sandbox = in_memory();
    std::fs::create_dir(sandbox.store()).unwrap();
    let listener = UnixListener::bind(sandbox.store().join("forged.sock")).unwrap();
    (sandbox, listener)
}

#[test]
fn a_send_that_loses_forged_asks_again_with_the_same_key() {
    let (sandbox, listener) = played();
    let daemon = std::thread::spawn(move || {
        let lost = Played::accept(&listener).asked();
        let mut second = Played::accept(&listener);
        let again = second.asked();
        second.say(&json!({"ok": true, "id": "20260110-153000-0001", "req_id": "1"}));
        (lost, again)
    });
    let sent = alice(&sandbox, &["send", "task", "x"]).ok();
    assert_eq!((sent.stdout.as_str(), sent.stderr.as_str()), ("20260110-153000-0001\n", ""));
    let (lost, again) = daemon.join().unwrap();
    assert!(lost["key"].is_string() && lost == again, "{lost} {again}");
    assert_eq!(lost["store"], "memory");
}

#[test]
fn a_send_whose_fate_is_not_known_says_so_and_names_its_key() {
    let (sandbox, listener) = played();
    let daemon = std::thread::spawn(move || Played::accept(&listener).asked()["key"].clone());
    let lost = alice(&sandbox, &["send", "task", "x"]).fails(UNAVAILABLE);
    let key = daemon.join().unwrap();
    lost.says(&["whether the message is stored is not known", &format!("--key {}", key.as_str().unwrap())]);
}

#[test]
fn a_change_whose_fate_is_not_known_says_so() {
    let (sandbox, listener) = played();
    let daemon = std::thread::spawn(move || drop(Played::accept(&listener).asked()));
    let lost = alice(&sandbox, &["reserve", "src"]).fails(UNAVAILABLE);
    lost.says(&["the connection to forged was lost", "whether it did what was asked is not known"]);
    daemon.join().unwrap();
}

#[test]
fn a_slow_answer_is_not_a_lost_one() {
    let (sandbox, listener) = played();
    let daemon = std::thread::spawn(move || {
        let mut slow = Played::accept(&listener);
        assert_eq!(slow.asked()["cmd"], "topics");
        // Asked whether it is there, it says so; then it has the answer.
        slow.greet();
        slow.say(&json!({"ok": true, "topics": [], "req_id": "1"}));
    });
    assert_eq!(alice(&sandbox, &["topics", "--json"]).ok().json(), json!([]));
    daemon.join().unwrap();
}
