//! Requests that are broken in every way, in their heads and in their messages.

use std::collections::BTreeMap;

use fmail_e2e::Footprint;
use fmail_e2e::mcp::MailServer;
use fmail_fuzz::{Dice, Kind, fuzz, mutated, requests};

use crate::ping;

const MESSAGES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":null}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"health_check","arguments":{}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ensure_project","arguments":{"human_key":"relative"}}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"fetch_inbox","arguments":{"project_key":"/nowhere","agent_name":"GreenDog","limit":20}}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"resource://inbox/GreenDog?project=%2Fnowhere&limit=20"}}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"resources/subscribe","params":{"uri":"resource://agents/x"}}"#,
    r#"{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["resource://agents/x"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
];

const LINES: &[&str] = &[
    "POST /mcp/ HTTP/1.1",
    "POST /mcp/ HTTP/1.1",
    "POST /api HTTP/1.1",
    "POST /fmail/ HTTP/1.1",
    "POST /mcp/ HTTP/1.0",
    "GET /mcp/ HTTP/1.1",
    "DELETE /mcp HTTP/1.1",
    "GET /health/readiness HTTP/1.1",
    "OPTIONS /mcp/ HTTP/1.1",
    "OPTIONS * HTTP/1.1",
    "CONNECT localhost:80 HTTP/1.1",
    "POST http://localhost/mcp/?a=b HTTP/1.1",
];

const HEADERS: &[&str] = &[
    "Accept: application/json, text/event-stream",
    "Accept: text/event-stream",
    "Content-Type: application/json",
    "Content-Type: text/plain",
    "Mcp-Session-Id: 0123456789abcdef",
    "MCP-Protocol-Version: 2025-06-18",
    "MCP-Protocol-Version: 2026-07-28",
    "Mcp-Method: ping",
    "Mcp-Name: =?base64?aGVhbHRoX2NoZWNr?=",
    "Authorization: Bearer x",
    "Origin: http://localhost:3000",
    "Access-Control-Request-Method: POST",
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Content-Length: 5",
    "Connection: keep-alive, x",
    "Host: evil.example",
];

/// The ways in which a head is broken: those that need no JSON.
const BYTES: [Kind; 7] =
    [Kind::Truncated, Kind::Flipped, Kind::Stuttering, Kind::NotUtf8, Kind::Controls, Kind::Ends, Kind::Noise];

/// A request, whose message, headers and head are each broken now and then.
fn request(dice: &mut Dice) -> Vec<u8> {
    let line = dice.pick(LINES);
    let lines = if line.contains("/fmail/") { requests() } else { MESSAGES.to_vec() };
    // A watch of the daemon's own lines is as good as any other: it ends when we close.
    let body = if dice.roll(3) == 0 { dice.pick(&lines).as_bytes().to_vec() } else { mutated(dice, &lines) };
    let mut head = format!("{line}\r\nHost: localhost\r\n").into_bytes();
    for _ in 0..dice.roll(4) {
        let mut header = dice.pick(HEADERS).as_bytes().to_vec();
        if dice.roll(3) == 0 {
            dice.pick(&BYTES).apply(dice, &mut header);
        }
        head.extend(header);
        head.extend(b"\r\n");
    }
    if dice.roll(10) != 0 {
        head.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
    }
    head.extend(b"\r\n");
    if dice.roll(4) == 0 {
        dice.pick(&BYTES).apply(dice, &mut head);
    }
    head.extend(body);
    head
}

#[test]
fn whatever_is_sent_is_answered_as_http_and_breaks_nothing() {
    let server = MailServer::start();
    assert_eq!(server.connect().post("/mcp/", &[], &ping("before")).status(), 200);
    let before = Footprint::settled(|| server.daemon.footprint());
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    let mut count = 0;
    fuzz(|dice| {
        let sent = request(dice);
        let mut http = server.connect();
        http.write(&sent);
        http.half_close();
        let answer = http.rest();
        let shown = || format!("{}\n{}", sent.escape_ascii(), answer.escape_ascii());
        if !answer.is_empty() {
            // The version is the client's, 1.0 or 1.1.
            let rest = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "));
            let status = rest.and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok());
            let status: u16 = status.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{}", shown()));
            assert!(status < 500, "{}", shown());
            *statuses.entry(status).or_default() += 1;
        }
        count += 1;
        if count % 100 == 0 {
            assert_eq!(server.connect().post("/mcp/", &[], &ping("still")).status(), 200, "{}", shown());
        }
    });
    println!("{statuses:?}");
    assert!(statuses.contains_key(&200) && statuses.contains_key(&400), "both are met: {statuses:?}");
    let after = Footprint::settled(|| server.daemon.footprint());
    // A watch makes the daemon look at the files, it goes on with that, and behind some messages it has a journal; of tens of
    // thousands of connections none is left.
    assert!(after.descriptors <= before.descriptors + 16, "{before} {after}");
    server.daemon.stop();
}
