//! Requests, answers, streams and errors.

use std::collections::BTreeMap;

use fmail_e2e::web_socket::Frame;
use serde_json::{Value, json};

use crate::Served;

fn send(body: &str, req_id: u64) -> Value {
    json!({"cmd": "send", "agent": "page", "to": "task", "body": body, "req_id": req_id})
}

#[test]
fn a_request_is_answered_with_its_own_name() {
    let served = Served::start();
    let mut socket = served.connect();
    let sent = socket.ask(&send("from a page", 7));
    assert_eq!((&sent["ok"], &sent["req_id"]), (&json!(true), &json!(7)));
    let named = socket.ask(&json!({"cmd": "topics", "agent": "page", "req_id": "a text"}));
    assert_eq!((&named["topics"][0]["name"], &named["req_id"]), (&json!("task"), &json!("a text")));
    let nameless = socket.ask(&json!({"cmd": "count", "agent": "page"}));
    assert!(nameless["ok"] == true && nameless.get("req_id").is_none(), "{nameless}");
    let stored = served.sandbox.log("bob", &["task"]);
    assert_eq!((&stored[0]["id"], &stored[0]["body"]), (&sent["id"], &json!("from a page")));
}

#[test]
fn a_stream_that_ends_says_so() {
    let served = Served::start();
    for body in ["one", "two", "three"] {
        served.sandbox.send("alice", "task", body);
    }
    let mut socket = served.connect();
    let head = socket.ask(&json!({"cmd": "log", "agent": "page", "topic": "task", "limit": 2, "req_id": 1}));
    assert_eq!((&head["ok"], &head["req_id"]), (&json!(true), &json!(1)));
    for body in ["two", "three"] {
        let message = socket.object();
        assert_eq!((&message["msg"]["body"], &message["req_id"]), (&json!(body), &json!(1)));
    }
    assert_eq!(socket.object(), json!({"event": "end", "req_id": 1}));
    assert_eq!(socket.ask(&send("the connection goes on", 2))["req_id"], 2);
}

#[test]
fn several_requests_run_at_once_beside_a_watch() {
    let served = Served::start();
    let mut socket = served.connect();
    let watching = socket.ask(&json!({"cmd": "watch", "agent": "page", "topic": "task", "req_id": "watch"}));
    assert_eq!((&watching["ok"], &watching["req_id"]), (&json!(true), &json!("watch")));
    for number in 0..20 {
        socket.send(&send(&format!("body {number}"), number));
    }
    let (mut answers, mut shown) = (BTreeMap::new(), Vec::new());
    while answers.len() < 20 || shown.len() < 20 {
        let object = socket.object();
        match object["req_id"].as_u64() {
            Some(number) => drop(answers.insert(number, object["id"].to_string())),
            None if object.get("msg").is_some() => shown.push(object["msg"]["id"].to_string()),
            None => assert_eq!(object["event"], "progress", "{object}"),
        }
    }
    let mut sent: Vec<String> = answers.into_values().collect();
    sent.sort();
    shown.sort();
    assert_eq!(shown, sent, "the watch has shown each once");
}

#[test]
fn a_watch_shows_what_a_command_sends() {
    let served = Served::start();
    let mut socket = served.connect();
    assert_eq!(socket.ask(&json!({"cmd": "watch", "agent": "page", "req_id": 1}))["ok"], true);
    let id = served.sandbox.send("alice", "@page", "for you");
    let message = loop {
        let object = socket.object();
        if object.get("msg").is_some() {
            break object;
        }
    };
    assert_eq!((&message["msg"]["id"], &message["msg"]["from"]), (&json!(id), &json!("alice")));
    let who = served.sandbox.agent("alice").args(["who", "--json"]).ok();
    let page = who.json().as_array().and_then(|agents| agents.iter().find(|agent| agent["name"] == "page").cloned());
    assert_eq!(page.expect("who watches is there")["state"], "active");
}

#[test]
fn what_is_wrong_has_its_code_and_its_name() {
    let served = Served::start();
    let mut socket = served.connect();
    let cases = [
        (json!({"cmd": "dance", "agent": "page", "req_id": 1}), "invalid_request"),
        (json!({"cmd": "send", "agent": "page", "to": "task", "req_id": 2}), "invalid_request"),
        (json!({"cmd": "send", "agent": "a b", "to": "task", "body": "x", "req_id": 3}), "invalid_agent"),
        (json!({"cmd": "send", "agent": "page", "to": "a/b", "body": "x", "req_id": 4}), "invalid_topic"),
        (json!({"cmd": "receipt", "agent": "page", "id": "20260110-153000-0001", "req_id": 5}), "not_found"),
        (json!({"cmd": "topics", "agent": "page", "project_id": "proj-other", "req_id": 6}), "invalid_project"),
        (json!({"cmd": "topics", "agent": "page", "store": "elsewhere", "req_id": 7}), "invalid_config"),
        (json!({"cmd": "watch", "agent": "page", "since": "never", "req_id": 8}), "invalid_request"),
    ];
    for (request, code) in cases {
        let answer = socket.ask(&request);
        assert_eq!(answer["ok"], false, "{request}: {answer}");
        assert_eq!((&answer["error"]["code"], &answer["req_id"]), (&json!(code), &request["req_id"]), "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
    for text in ["", "no json", "[1]", "{\"cmd\":", "{\"cmd\":\"topics\",\"agent\":\"page\",\"req_id\":{}}"] {
        socket.frame(true, fmail_e2e::web_socket::opcode::TEXT, text.as_bytes());
        assert_eq!(socket.object()["error"]["code"], "invalid_request", "{text}");
    }
    assert_eq!(socket.ask(&send("it goes on", 9))["ok"], true);
}

#[test]
fn one_request_too_many_is_told_so_and_not_queued() {
    let served = Served::configured("requests = 1");
    let mut socket = served.connect();
    assert_eq!(socket.ask(&json!({"cmd": "watch", "agent": "page", "req_id": 1}))["ok"], true);
    let refused = socket.ask(&send("one too many", 2));
    assert_eq!((&refused["error"]["code"], &refused["req_id"]), (&json!("backpressure"), &json!(2)));
    assert_eq!(served.connect().ask(&send("on another connection", 3))["ok"], true);
}

#[test]
fn the_end_of_the_daemon_is_told_after_what_is_owed() {
    let served = Served::start();
    let mut socket = served.connect();
    assert_eq!(socket.ask(&json!({"cmd": "watch", "agent": "page", "topic": "none", "req_id": 1}))["ok"], true);
    let mut busy = served.connect();
    for number in 0..10 {
        busy.send(&send("owed", number));
    }
    // One answer: the daemon has read what was sent in one go.
    assert_eq!(busy.object()["ok"], true);
    served.daemon.stop();
    let mut answered = 1;
    let code = loop {
        match busy.read() {
            Frame::Text(object) if object["ok"] == true => answered += 1,
            Frame::Close(code) => break code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, 1001);
    assert_eq!(served.sandbox.log("bob", &["task"]).len(), answered, "what is stored was answered");
    let code = loop {
        match socket.read() {
            Frame::Close(code) => break code,
            Frame::Text(object) => assert!(object.get("event").is_some() || object["ok"] == false, "{object}"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, 1001);
}
