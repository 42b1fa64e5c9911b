//! The operations of fmail over HTTP: one object in, lines out.

use fmail_e2e::http::Answer;
use fmail_e2e::mcp::MailServer;
use serde_json::{Value, json};

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status(), answer.header("content-type")), (200, Some("application/x-ndjson")), "{answer:?}");
    answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[test]
fn a_request_is_answered_with_its_own_name_and_streams_have_an_end() {
    let server = MailServer::start();
    let mut http = server.connect();
    for body in ["one", "two"] {
        let sent = http.post(
            "/fmail/",
            &[],
            &json!({"cmd": "send", "agent": "page", "to": "task", "body": body, "req_id": 7}),
        );
        let sent = lines(&sent);
        assert_eq!((sent.len(), &sent[0]["ok"], &sent[0]["req_id"]), (1, &json!(true), &json!(7)));
    }
    let log = lines(&http.post("/fmail", &[], &json!({"cmd": "log", "agent": "page", "topic": "task", "req_id": "l"})));
    let bodies: Vec<&Value> = log.iter().filter_map(|line| line["msg"].get("body")).collect();
    assert_eq!(bodies, ["one", "two"]);
    assert_eq!(log.last(), Some(&json!({"event": "end", "req_id": "l"})));
    assert_eq!(server.sandbox.bodies("bob", &["task"]), ["one", "two"]);
}

#[test]
fn a_watch_goes_on_until_the_client_goes() {
    let server = MailServer::configured("keep_alive_seconds = 1");
    let watch = json!({"cmd": "watch", "agent": "page"}).to_string();
    let mut stream = server.connect().stream("POST", "/fmail/", &[], watch.as_bytes());
    assert_eq!(stream.json_line().expect("an answer")["ok"], true);
    let id = server.sandbox.send("alice", "@page", "for you");
    let mut pings = 0;
    let shown = loop {
        let line = stream.json_line().expect("the message");
        match line.get("msg") {
            Some(message) => break message["id"].clone(),
            None => pings += usize::from(line["event"] == "ping"),
        }
    };
    assert_eq!(shown, json!(id));
    while pings == 0 {
        pings += usize::from(stream.json_line().expect("a sign of life")["event"] == "ping");
    }
    let state = || {
        let who = server.sandbox.agent("alice").args(["who", "--json"]).ok();
        who.json()
            .as_array()
            .and_then(|all| all.iter().find(|one| one["name"] == "page").cloned())
            .map(|one| one["watching"].clone())
    };
    assert!(state().is_some(), "who watches is there");
    let before = server.daemon.footprint();
    drop(stream);
    fmail_e2e::eventually(30, "the end of the watch", || {
        (server.daemon.footprint().descriptors < before.descriptors).then_some(())
    });
}

#[test]
fn what_is_wrong_has_its_code_and_its_name() {
    let server = MailServer::start();
    let mut http = server.connect();
    for (request, code) in [
        (json!({"cmd": "dance", "agent": "page", "req_id": 1}), "invalid_request"),
        (json!({"cmd": "send", "agent": "a b", "to": "task", "body": "x", "req_id": 3}), "invalid_agent"),
        (json!({"cmd": "send", "agent": "page", "to": "a/b", "body": "x", "req_id": 4}), "invalid_topic"),
        (json!({"cmd": "receipt", "agent": "page", "id": "20260110-153000-0001", "req_id": 5}), "not_found"),
        (json!({"cmd": "topics", "agent": "page", "project_id": "proj-other", "req_id": 6}), "invalid_project"),
        (json!({"cmd": "import", "agent": "page", "msg": {}, "req_id": 7}), "invalid_request"),
        (json!({"cmd": "relay", "agent": "page", "req_id": 8}), "denied"),
    ] {
        let answer = lines(&http.post("/fmail/", &[], &request));
        assert_eq!(answer.len(), 1, "{request}: {answer:?}");
        assert_eq!(answer[0]["ok"], false, "{request}: {answer:?}");
        assert_eq!(
            (&answer[0]["error"]["code"], &answer[0]["req_id"]),
            (&json!(code), &request["req_id"]),
            "{answer:?}"
        );
    }
    for body in ["", "no json", "[1]", "{\"cmd\":"] {
        let answer = lines(&http.request("POST", "/fmail/", &[], body.as_bytes()));
        assert_eq!(answer[0]["error"]["code"], "invalid_request", "{body}");
    }
    let other = http.request("POST", "/fmail/", &[("Content-Type", "text/plain")], b"{}");
    assert_eq!((other.status(), &other.json()["error"]["code"]), (415, &json!("invalid_request")));
}
