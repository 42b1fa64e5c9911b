//! A host that relays: a place, its daemon, and what it holds.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::common::{DEADLINE, Daemon, Place, Raw};

/// A host with a home and a project of its own.
pub struct Relaying {
    pub place: Place,
}

/// An address on which nobody listens now.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

impl Relaying {
    /// A host with the project `project`.
    pub fn new() -> Relaying {
        Relaying { place: Place::new() }
    }

    /// A host whose project has this id.
    pub fn named(id: &str) -> Relaying {
        let host = Relaying::new();
        let directory = host.place.root().join(".fmail");
        std::fs::create_dir_all(&directory).unwrap();
        let record = format!(r#"{{"id":"{id}","created":"2026-01-10T15:30:00Z","source":"explicit"}}"#);
        std::fs::write(directory.join("project.json"), record).unwrap();
        host
    }

    /// Writes the user's configuration.
    pub fn configure(&self, yaml: &str) {
        let directory = self.place.top.path().join("home/.config/fmail");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.yaml"), yaml).unwrap();
    }

    /// Starts a daemon that relays with these peers.
    pub fn start(&self, peers: &[&str]) -> Daemon {
        self.start_at("127.0.0.1:0", peers)
    }

    /// The same on this address.
    pub fn start_at(&self, address: &str, peers: &[&str]) -> Daemon {
        self.configure_peers(peers);
        self.place.start(&[&format!("--tcp={address}")])
    }

    /// Relaying with these peers, in the user's file.
    pub fn configure_peers(&self, peers: &[&str]) {
        let list: String = peers.iter().map(|peer| format!("\n      - \"{peer}\"")).collect();
        let list = if peers.is_empty() { " []".to_string() } else { list };
        self.configure(&format!(
            "mail:\n  relay:\n    enabled: true\n    reconnect_interval: 100ms\n    peers:{list}\n"
        ));
    }

    /// Sends to the topic `task`.
    #[track_caller]
    pub fn send(&self, body: &str) {
        let answer =
            self.place.connect().ask(&format!(r#"{{"cmd":"send","agent":"alice","to":"task","body":"{body}"}}"#));
        assert_eq!(answer["ok"], true, "{answer}");
    }

    /// A watch of everything that arrives from now on.
    pub fn watch(&self) -> Raw {
        let mut raw = self.place.connect();
        assert_eq!(raw.ask(r#"{"cmd":"watch","agent":"watcher","topic":"task"}"#)["ok"], true);
        raw
    }

    /// The bodies in the topic `task`, sorted.
    pub fn bodies(&self) -> Vec<String> {
        let mut bodies: Vec<String> =
            self.place.stored("task").iter().map(|message| message["body"].as_str().unwrap().to_string()).collect();
        bodies.sort();
        bodies
    }

    /// Waits until the topic holds exactly these, sorted.
    #[track_caller]
    pub fn holds(&self, bodies: &[&str]) {
        let end = Instant::now() + DEADLINE;
        while self.bodies() != bodies {
            assert!(Instant::now() < end, "{:?} instead of {bodies:?}\n{}", self.bodies(), self.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The answer to `relay_status`.
    #[track_caller]
    pub fn status(&self) -> Value {
        let answer = self.place.connect().ask(r#"{"cmd":"relay_status","agent":"operator"}"#);
        assert_eq!(answer["ok"], true, "{answer}");
        answer["relay"].clone()
    }

    /// The project's id.
    pub fn project(&self) -> String {
        let hello = self.place.connect().ask(r#"{"cmd":"hello","agent":"operator"}"#);
        hello["hello"]["project"]["id"].as_str().unwrap().to_string()
    }

    /// The link to a peer, once it is as expected.
    #[track_caller]
    pub fn link(&self, peer: &str, expected: impl Fn(&Value) -> bool) -> Value {
        self.wait_for(|link| link["peer"] == peer && link["incoming"] != true && expected(link))
    }

    /// A link that another host has dialled, once it is as expected.
    #[track_caller]
    pub fn incoming(&self, expected: impl Fn(&Value) -> bool) -> Value {
        self.wait_for(|link| link["incoming"] == true && expected(link))
    }

    #[track_caller]
    fn wait_for(&self, expected: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + DEADLINE;
        loop {
            let status = self.status();
            let links = status["relays"][0]["links"].as_array().cloned().unwrap_or_default();
            if let Some(link) = links.into_iter().find(&expected) {
                return link;
            }
            assert!(Instant::now() < end, "{status}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
