//! A hung request that stops the server: here it stops itself only.

use std::fs::File;
use std::thread;

use fmail_e2e::http::Http;
use fmail_e2e::mcp::Mcp;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::office::Office;

/// More than the operations of a project that run at a time.
const STUCK: usize = 100;

fn other_project(office: &mut Office) -> std::path::PathBuf {
    let other = office.server.sandbox.home().join("other");
    std::fs::create_dir(&other).unwrap();
    office.mcp.tool("ensure_project", json!({"human_key": other}));
    office.mcp.tool("register_agent", json!({"project_key": other, "name": "GreenDog"}));
    other
}

fn message(project: &std::path::Path, body: &str) -> Value {
    json!({"project_key": project, "sender_name": "GreenDog", "to": ["GreenDog"], "subject": "s", "body_md": body})
}

#[test]
fn a_project_whose_store_is_stuck_stops_no_other() {
    let mut office = Office::configured("lock_timeout = \"5m\"", &["GreenDog"]);
    let other = other_project(&mut office);
    office.send("GreenDog", "GreenDog", "before");
    let lock = File::open(office.path.join(".fmail/lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let stuck: Vec<_> = (0..STUCK)
        .map(|number| {
            let (mut client, path) = (office.server.client(), office.path.clone());
            thread::spawn(move || client.tool("send_message", message(&path, &format!("stuck {number}"))))
        })
        .collect();
    for round in 0..10 {
        let mut client = office.server.client();
        assert_eq!(client.tool("health_check", json!({}))["status"], "ready");
        client.tool("send_message", message(&other, "on time"));
        let inbox = client.tool("fetch_inbox", json!({"project_key": other, "agent_name": "GreenDog"}));
        assert_eq!(inbox["result"].as_array().map(Vec::len), Some(round + 1));
    }
    assert!(stuck.iter().all(|one| !one.is_finished()), "nothing was sent past the lock");
    drop(lock);
    for one in stuck {
        one.join().unwrap();
    }
    let inbox = office.tool("fetch_inbox", json!({"agent_name": "GreenDog", "limit": 1000}));
    assert_eq!(inbox["result"].as_array().map(Vec::len), Some(STUCK + 1));
}

#[test]
fn clients_that_say_half_a_request_or_read_no_answer_stop_nobody() {
    let mut office = Office::with(&["GreenDog"]);
    for number in 0..20 {
        office.send("GreenDog", "GreenDog", &format!("{number} {}", "x".repeat(100_000)));
    }
    let fetch = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fetch_inbox",
        "arguments": {"project_key": office.path, "agent_name": "GreenDog", "include_bodies": true}}});
    let held: Vec<Http> = (0..100)
        .map(|number| {
            let mut connection = office.server.connect();
            match number % 2 {
                0 => connection.write("POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"),
                _ => connection.send("POST", "/mcp/", &[("Content-Type", "application/json"), ("Accept", "application/json")], fetch.to_string().as_bytes()),
            }
            connection
        })
        .collect();
    let mut client: Mcp = office.server.client();
    for _ in 0..10 {
        client.tool("send_message", message(&office.path, "on time"));
        assert_eq!(client.tool("health_check", json!({}))["status"], "ready");
    }
    drop(held);
}

#[test]
fn a_wait_that_nobody_ends_holds_up_nobody() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    let waiting: Vec<_> = (0..STUCK)
        .map(|_| {
            let (mut client, path) = (office.server.client(), office.path.clone());
            let arguments = json!({"project_key": path, "agent_name": "BlueLake", "timeout_seconds": 60});
            thread::spawn(move || client.tool("wait_for_message", arguments))
        })
        .collect();
    for _ in 0..10 {
        office.send("GreenDog", "GreenDog", "on time");
    }
    assert_eq!(office.inbox("GreenDog").len(), 10);
    office.send("GreenDog", "BlueLake", "the end of the wait");
    // Whoever asks when the mail was told to another already waits for the next; so it is sent again until all are back.
    let mut sent = 1;
    while waiting.iter().any(|one| !one.is_finished()) {
        office.send("GreenDog", "BlueLake", "once more");
        sent += 1;
        assert!(sent < 2000, "the waits do not end");
    }
    for one in waiting {
        assert_eq!(one.join().unwrap()["timed_out"], false);
    }
}
