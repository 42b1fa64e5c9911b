//! A relay that is a plugin: `mirror` in a real daemon keeps two projects in step.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_e2e::{DEADLINE, Daemon, Fmail, Sandbox, Wire, eventually};
use serde_json::{Value, json};

/// Two projects with one user.
struct Two {
    sandbox: Sandbox,
    roots: [PathBuf; 2],
}

impl Two {
    fn new() -> Two {
        let sandbox = Sandbox::new();
        sandbox.configure("relays = [\"mirror\"]", "");
        let roots = [sandbox.path(), sandbox.outside().join("other")];
        fs::create_dir(&roots[1]).unwrap();
        let two = Two { sandbox, roots };
        for root in &two.roots {
            two.agent("nobody", root).arg("init").ok();
        }
        two
    }

    /// A daemon for both.
    fn serve(&self) -> Daemon {
        let mut daemon = Daemon::start_with(&self.sandbox, |command| command.args(&self.roots));
        daemon.await_log("relaying");
        daemon
    }

    fn agent(&self, name: &str, root: &Path) -> Fmail {
        self.sandbox.agent(name).cwd(root)
    }

    fn send(&self, root: &Path, to: &str, body: &str) -> String {
        self.agent("alice", root).args(["send", to, "--", body]).ok().stdout.trim_end().to_string()
    }

    /// What an agent can read in a project.
    fn log(&self, agent: &str, root: &Path) -> Vec<Value> {
        self.agent(agent, root).args(["log", "--json", "-n", "100000"]).ok().json_lines()
    }

    fn ids(&self, agent: &str, root: &Path) -> Vec<String> {
        self.log(agent, root).iter().map(|message| message["id"].as_str().unwrap().to_string()).collect()
    }

    /// Waits until both have these, and nothing else, and nothing twice.
    #[track_caller]
    fn both_have(&self, agent: &str, expected: &[String]) {
        let mut expected = expected.to_vec();
        expected.sort();
        for root in &self.roots {
            eventually(DEADLINE.as_secs(), "the same messages in both projects", || {
                let mut found = self.ids(agent, root);
                found.sort();
                let unique: BTreeSet<&String> = found.iter().collect();
                assert_eq!(unique.len(), found.len(), "a message is there twice: {found:?}");
                assert!(found.len() <= expected.len(), "{}: {found:?}, but sent were {expected:?}", root.display());
                (found == expected).then_some(())
            });
        }
    }

    /// Puts a message there as another program may.
    fn plant(&self, root: &Path, topic: &str, id: &str, body: &str) {
        let time = format!("{}-{}-{}T{}:{}:{}Z", &id[..4], &id[4..6], &id[6..8], &id[9..11], &id[11..13], &id[13..15]);
        let message = json!({"id": id, "from": "carol", "to": topic, "time": time, "body": body});
        let directory = root.join(".fmail/topics").join(topic);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{id}.json")), message.to_string()).unwrap();
    }
}

#[test]
fn what_is_sent_in_either_is_in_both_under_its_id() {
    let two = Two::new();
    let [a, b] = &two.roots;
    let mut sent = vec![two.send(a, "task", "before there was a daemon")];
    let daemon = two.serve();
    sent.push(two.send(a, "task", "in the first"));
    sent.push(two.send(b, "task", "in the second"));
    sent.push(two.send(b, "build", "another topic"));
    sent.push(two.send(a, "@bob", "for bob alone"));
    two.both_have("bob", &sent);
    let bodies: Vec<Vec<Value>> = two.roots.iter().map(|root| two.log("bob", root)).collect();
    // What was sent without a daemon gets its host on the way.
    let hosted = |message: &Value| {
        let mut message = message.clone();
        message["host"] = "the host".into();
        message.to_string()
    };
    let shown = |log: &[Value]| -> BTreeSet<String> { log.iter().map(hosted).collect() };
    assert_eq!(shown(&bodies[0]), shown(&bodies[1]), "the same messages, word for word");
    assert!(bodies[1].iter().all(|message| message["host"].is_string()), "{:?}", bodies[1]);
    assert_eq!(two.ids("carol", b).len(), 4, "what is for bob is for bob there too");
    let inbox = two.agent("bob", b).args(["inbox", "--json"]).ok();
    assert_eq!(inbox.json_lines().len(), 1, "{inbox}");
    daemon.stop();
    two.both_have("bob", &sent);
}

#[test]
fn nothing_runs_in_circles() {
    let two = Two::new();
    let daemon = two.serve();
    let mut sent: Vec<String> = (0..10).map(|number| two.send(&two.roots[number % 2], "task", "x")).collect();
    two.both_have("bob", &sent);
    // What is sent now arrives behind all that could have come back.
    sent.push(two.send(&two.roots[0], "task", "the last"));
    sent.push(two.send(&two.roots[1], "task", "the very last"));
    two.both_have("bob", &sent);
    daemon.stop();
}

#[test]
fn two_messages_with_one_id_are_both_kept() {
    let two = Two::new();
    let [a, b] = &two.roots;
    let id = "20260110-153000-0001";
    two.plant(a, "task", id, "in the first");
    two.plant(b, "task", id, "in the second");
    let daemon = two.serve();
    for (root, own, other) in [(a, "in the first", "in the second"), (b, "in the second", "in the first")] {
        let log =
            eventually(DEADLINE.as_secs(), "both messages", || Some(two.log("bob", root)).filter(|log| log.len() > 1));
        assert_eq!(log.len(), 2);
        let of = |body: &str| log.iter().find(|message| message["body"] == body).expect("it is there");
        assert_eq!((&of(own)["id"], of(own).get("origin_id")), (&json!(id), None));
        assert_ne!(of(other)["id"], id);
        assert_eq!(of(other)["origin_id"], id);
    }
    // It is recognised when it comes back, also by a mirror that begins anew.
    daemon.stop();
    fs::remove_dir_all(a.join(".fmail/plugins/mirror")).unwrap();
    let daemon = two.serve();
    let last = two.send(a, "task", "the last");
    eventually(DEADLINE.as_secs(), "the last message", || two.ids("bob", b).contains(&last).then_some(()));
    assert_eq!((two.ids("bob", a).len(), two.ids("bob", b).len()), (3, 3));
    daemon.stop();
}

#[test]
fn it_goes_on_where_it_was_after_a_restart() {
    let two = Two::new();
    let [a, b] = &two.roots;
    let daemon = two.serve();
    let mut sent = vec![two.send(a, "task", "one"), two.send(b, "task", "two")];
    two.both_have("bob", &sent);
    daemon.stop();
    assert!(a.join(".fmail/plugins/mirror/progress.json").exists(), "how far it is, is written down");
    sent.push(two.send(a, "task", "while nobody was there"));
    sent.push(two.send(b, "@bob", "here neither"));
    let daemon = two.serve();
    two.both_have("bob", &sent);
    daemon.stop();
}

#[test]
fn what_was_removed_does_not_come_back() {
    let two = Two::new();
    let [a, b] = &two.roots;
    let old = "20240110-153000-0001".to_string();
    two.plant(a, "task", &old, "two years old");
    let mut daemon = two.serve();
    let new = two.send(a, "task", "new");
    two.both_have("bob", &[old.clone(), new.clone()]);
    daemon.await_log("link");
    daemon.stop();
    two.agent("alice", a).args(["gc", "--days", "30"]).ok();
    assert_eq!(two.ids("bob", a), std::slice::from_ref(&new));
    let daemon = two.serve();
    // In both directions something arrives behind whatever could come back.
    let later = [two.send(a, "task", "from the first"), two.send(b, "task", "from the second")];
    for root in &two.roots {
        eventually(DEADLINE.as_secs(), "what was sent later", || {
            let ids = two.ids("bob", root);
            later.iter().all(|id| ids.contains(id)).then_some(())
        });
    }
    assert!(!two.ids("bob", a).contains(&old), "what was removed came back");
    assert!(two.ids("bob", b).contains(&old), "what one project removes stays in the other");
    daemon.stop();
}

#[test]
fn a_daemon_that_is_killed_loses_nothing() {
    let two = Two::new();
    let mut sent = Vec::new();
    let mut number = 0;
    for _ in 0..3 {
        let daemon = two.serve();
        let mut wires: Vec<Wire> =
            two.roots.iter().map(|root| Wire::connect(&root.join(".fmail/forged.sock")).unwrap()).collect();
        for wire in (0..60).map(|turn| turn % 2) {
            number += 1;
            let request = json!({"cmd": "send", "agent": "alice", "to": "task", "body": number});
            let answer = wires[wire].ask(&request).expect("the daemon runs");
            sent.push(answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_string());
        }
        // In the middle of bringing them over.
        daemon.kill();
    }
    let daemon = two.serve();
    let mut origins: Vec<String> = Vec::new();
    for root in &two.roots {
        // Two projects give ids each for itself: where two are alike, one is moved and says where it comes from.
        let log = eventually(DEADLINE.as_secs(), "all messages", || {
            Some(two.log("bob", root)).filter(|log| log.len() >= sent.len())
        });
        let mut bodies: Vec<u64> = log.iter().map(|message| message["body"].as_u64().unwrap()).collect();
        bodies.sort();
        assert_eq!(bodies, (1..=sent.len() as u64).collect::<Vec<_>>(), "each once, in {}", root.display());
        let origin = |message: &Value| message.get("origin_id").unwrap_or(&message["id"]).to_string();
        let mut found: Vec<String> = log.iter().map(origin).collect();
        found.sort();
        if origins.is_empty() {
            origins = found;
        } else {
            assert_eq!(found, origins, "both have the same ones");
        }
    }
    daemon.stop();
}

/// The host waited for the relay's own stream of statuses, for as long as it may take to end.
#[test]
fn a_daemon_with_a_relay_ends_at_once() {
    let two = Two::new();
    let mut daemon = two.serve();
    daemon.await_log("connected=true");
    let began = Instant::now();
    daemon.stop();
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
}

#[test]
fn one_project_alone_is_told_so() {
    let two = Two::new();
    let mut daemon = Daemon::start(&two.sandbox);
    let line = daemon.await_log("nothing to keep in step");
    assert!(line.contains("mirror"), "{line}");
    // The project is served all the same.
    assert_eq!(two.agent("alice", &two.roots[0]).args(["send", "task", "x"]).ok().code, 0);
    daemon.stop();
}

#[test]
fn a_project_that_is_not_served_is_named() {
    let two = Two::new();
    two.sandbox.configure("relays = [\"mirror\"]", "[mail.plugin.mirror.config]\nprojects = [\"proj-nowhere\"]");
    let mut daemon = Daemon::start_with(&two.sandbox, |command| command.args(&two.roots));
    daemon.await_log("the project `proj-nowhere` is not served by this daemon");
    daemon.stop();
}

/// A relay that asks all that hosts ask each other, of the project that it finds, and tells what it heard.
const CURIOUS: &str = r#"#!/usr/bin/env python3
import json, sys
asks = {1: {"cmd": "digest"}, 2: {"cmd": "records", "list": list(range(64))}, 3: {"cmd": "fetch", "stretches": [{}]},
        4: {"cmd": "relay_status"}, 5: {"cmd": "hello"}}
run, heard = None, {}

def say(**verb):
    print(json.dumps(verb), flush=True)

for verb in map(json.loads, sys.stdin.buffer):
    match verb:
        case {"hello": _}: say(hello={"name": "curious", "version": "1.0.0", "kind": "relay"})
        case {"create": number} | {"destroy": number}: say(done=number)
        case {"call": number, "method": "run"}:
            run = number
            say(call=100, method="projects", context={}, request={})
        case {"call": number, "method": "shutdown"}:
            say(done=number, body={})
            say(done=run, status=1)
        case {"done": 100, "body": body}:
            for number, request in asks.items():
                say(call=number, method="request", context={"project": body["projects"][0]},
                    request=request | {"agent": "curious"})
                say(pull=number, n=64)
        case {"item": number, "body": body}: heard.setdefault(number, []).append(body)
        case {"done": number} if number in asks:
            heard.setdefault(number, []).append({"status": verb.get("status", 0), "body": verb.get("body")})
            say(log={"level": "info", "target": "curious", "message": f"heard {number} {json.dumps(heard[number])}"})
"#;

#[test]
fn a_relay_that_is_a_plugin_can_ask_all_that_hosts_ask_each_other() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    sandbox.fmail().arg("init").ok();
    let program = sandbox.home().join("fmail-plugin-curious");
    fs::write(&program, CURIOUS).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let section = format!("[mail.plugin.curious]\nfile = {:?}\n", program.display().to_string());
    let directory = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.toml"), format!("[mail]\nrelays = [\"curious\"]\n{section}")).unwrap();
    sandbox.send("alice", "task", "what a relay fetches");
    let mut daemon = Daemon::start(&sandbox);
    for (number, part) in [(1, "answers"), (2, "held"), (3, "what a relay fetches"), (4, "relays"), (5, "relay_status")]
    {
        let line = daemon.await_log(&format!("heard {number} "));
        let fine = line.replace('\\', "").contains("\"status\": 0") || line.contains("status\\\": 1");
        assert!(line.contains(part) || (number == 1 && fine), "{number}: {line}");
        assert!(!line.contains("\"status\\\": -"), "{number}: {line}");
    }
    daemon.stop();
}
