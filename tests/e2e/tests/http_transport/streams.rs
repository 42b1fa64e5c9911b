//! The streams of sessions, and what they carry.

use fmail_e2e::http::{Events, Http};
use fmail_e2e::mcp::MailServer;
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
