//! The streams of sessions, and what they carry.

use fmail_e2e::http::{Events, Http};
use fmail_e2e::mcp::{MailServer, Mcp};
use serde_json::{Value, json};

use crate::ping;

fn listen(server: &MailServer, session: &str) -> Events {
    let headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", session)];
    server.connect().stream("GET", "/mcp/", &headers, b"")
}

fn begun(http: &mut Http) -> String {
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
    let answer = http.post("/mcp/", &[], &message);
    answer.header("mcp-session-id").unwrap_or_else(|| panic!("{answer:?}")).to_string()
}

#[test]
fn a_session_has_a_stream_with_signs_of_life_until_it_ends() {
    let server = MailServer::configured("keep_alive_seconds = 1");
    let mut http = server.connect();
    let session = begun(&mut http);
    let (mut stream, mut other) = (listen(&server, &session), listen(&server, "another"));
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.head.header("cache-control"), Some("no-cache, no-transform"));
    assert!(stream.comment().is_some() && stream.comment().is_some());
    assert_eq!(http.request("DELETE", "/mcp/", &[], b"").status(), 400, "which one?");
    let ended = http.request("DELETE", "/mcp/", &[("Mcp-Session-Id", &session)], b"");
    assert_eq!((ended.status(), ended.body.len()), (204, 0));
    while stream.comment().is_some() {}
    assert!(other.comment().is_some(), "the other session goes on");
    // It is no error to end it again, nor to go on with it.
    assert_eq!(http.request("DELETE", "/mcp", &[("Mcp-Session-Id", &session)], b"").status(), 204);
    assert_eq!(http.post("/mcp/", &[("Mcp-Session-Id", &session)], &ping(1)).status(), 200);
    assert!(listen(&server, &session).comment().is_some());
}

#[test]
fn a_stream_without_a_session_stays_open_and_silent() {
    let server = MailServer::configured("keep_alive_seconds = 1");
    let mut stream = server.connect().stream("GET", "/mcp/", &[("Accept", "text/event-stream")], b"");
    assert!(stream.comment().is_some());
}

#[test]
fn a_connection_that_was_a_stream_is_a_connection_again() {
    let server = MailServer::start();
    let mut stream = listen(&server, "one");
    assert_eq!(server.connect().request("DELETE", "/mcp/", &[("Mcp-Session-Id", "one")], b"").status(), 204);
    assert_eq!(stream.event(), None::<Value>);
    assert_eq!(stream.connection().post("/mcp/", &[], &ping("on the same")).json()["id"], "on the same");
}

/// The project of a server, ready for two agents.
fn with_agents(server: &MailServer) -> (Mcp, String) {
    let mut client = server.client();
    let key = std::fs::canonicalize(server.sandbox.path()).unwrap().display().to_string();
    client.tool("ensure_project", json!({"human_key": key}));
    for name in ["GreenDog", "BlueMountain"] {
        let agent = json!({"project_key": key, "name": name, "program": "test", "model": "none"});
        client.tool("register_agent", agent);
    }
    (client, key)
}

fn send(client: &mut Mcp, key: &str, subject: &str) {
    let sent = client.tool(
        "send_message",
        json!({"project_key": key, "sender_name": "GreenDog",
        "to": ["BlueMountain"], "subject": subject, "body_md": "x"}),
    );
    assert_eq!(sent["count"], 1, "{sent}");
}

fn inbox(key: &str) -> String {
    format!("resource://inbox/BlueMountain?project={}", key.replace('/', "%2F"))
}

#[test]
fn a_session_hears_of_changes_also_of_those_while_it_was_away() {
    let server = MailServer::start();
    let (mut client, key) = with_agents(&server);
    let session = begun(&mut server.connect());
    let mut mine = server.client().header("Mcp-Session-Id", &session);
    mine.result("resources/subscribe", json!({"uri": inbox(&key)}));
    let mut stream = listen(&server, &session);
    let updated =
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": inbox(&key)}});
    send(&mut client, &key, "while it listens");
    assert_eq!(stream.event(), Some(updated.clone()));
    drop(stream);
    send(&mut client, &key, "while it is away");
    let mut stream = listen(&server, &session);
    assert_eq!(stream.event(), Some(updated.clone()));
    // A command of fmail is no different.
    let name = client.read(&inbox(&key))["messages"][0]["to"].clone();
    assert!(!name.is_null() || client.read(&inbox(&key))["count"] == 2);
    mine.result("resources/unsubscribe", json!({"uri": inbox(&key)}));
    send(&mut client, &key, "to nobody who listens");
    assert_eq!(server.connect().request("DELETE", "/mcp/", &[("Mcp-Session-Id", &session)], b"").status(), 204);
    assert_eq!(stream.event(), None, "nothing was told of what is not subscribed to");
}

#[test]
fn a_request_that_listens_is_answered_by_a_stream() {
    let server = MailServer::configured("keep_alive_seconds = 1");
    let (mut client, key) = with_agents(&server);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let message = json!({"jsonrpc": "2.0", "id": "listen-1", "method": "subscriptions/listen",
        "params": {"notifications": {"resourceSubscriptions": [inbox(&key)]}, "_meta": meta}});
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let both = [version, ("Accept", "application/json, text/event-stream")];
    let mut stream = server.connect().stream("POST", "/mcp/", &both, message.to_string().as_bytes());
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
    let first = stream.event().expect("it is acknowledged");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    send(&mut client, &key, "for who listens");
    let told = stream.event().expect("it is told");
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(inbox(&key)))
    );
    assert!(stream.comment().is_some(), "it goes on, with signs of life");
    // Who takes no events is told so, and not sent any.
    let json_only = [version, ("Accept", "application/json")];
    let refused = server.connect().post("/mcp/", &json_only, &message);
    assert_eq!((refused.status(), &refused.json()["id"]), (406, &json!("listen-1")));
    server.daemon.stop();
    let last = std::iter::from_fn(|| stream.event()).last().expect("the end is told");
    assert_eq!((&last["id"], last["error"]["message"].is_string()), (&json!("listen-1"), true), "{last}");
}

#[test]
fn who_waits_for_mail_is_woken_by_it() {
    let server = MailServer::start();
    let (mut client, key) = with_agents(&server);
    let wait = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait_for_message",
        "arguments": {"project_key": key, "agent_name": "BlueMountain", "timeout_seconds": 50}}});
    let mut http = server.connect();
    http.send("POST", "/mcp/", &[], wait.to_string().as_bytes());
    send(&mut client, &key, "wake up");
    let answer = http.answer("POST").json();
    let told = &answer["result"]["structuredContent"];
    assert_eq!((&told["count"], &told["messages"][0]["subject"]), (&json!(1), &json!("wake up")), "{answer}");
    // The daemon does not wait for who waits.
    http.send("POST", "/mcp/", &[], wait.to_string().as_bytes());
    let began = std::time::Instant::now();
    server.daemon.stop();
    assert!(began.elapsed().as_secs() < 9, "{:?}", began.elapsed());
    let answer = http.answer("POST").json();
    assert!(answer.to_string().contains("ending"), "{answer}");
}
