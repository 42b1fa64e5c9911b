//! Requests that are too large, have too many headers, or come on one connection too many.

use fmail_e2e::mcp::MailServer;
use serde_json::{Value, json};

use crate::ping;

/// Requires that others are served.
#[track_caller]
fn works(server: &MailServer) {
    assert_eq!(server.connect().post("/mcp/", &[], &ping("works")).status(), 200);
}

#[test]
fn what_is_too_large_is_refused_with_both_sizes() {
    let server = MailServer::configured("max_body_bytes = 4096");
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(5000)}});
    let length = large.to_string().len();
    for path in ["/mcp/", "/fmail/"] {
        let answer = server.connect().post(path, &[], &large);
        assert_eq!(answer.status(), 413, "{answer:?}");
        let text = answer.text();
        assert!(
            text.contains(&length.to_string()) && text.contains("4096") && text.contains("max_body_bytes"),
            "{text}"
        );
    }
    assert_eq!(server.connect().post("/fmail/", &[], &large).json()["error"]["code"], "too_large");
    // One that only says so, of which nothing comes; one that asks first; and one that does not say.
    let head = "POST /mcp/ HTTP/1.1\r\nHost: localhost\r\n";
    for announced in ["Content-Length: 99999999999", "Content-Length: 5000\r\nExpect: 100-continue"] {
        let mut http = server.connect();
        http.write(format!("{head}{announced}\r\n\r\n"));
        assert_eq!(http.answer("POST").status(), 413, "{announced}");
    }
    let mut http = server.connect();
    http.write(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
    for _ in 0..10 {
        http.write(format!("400\r\n{}\r\n", " ".repeat(1024)));
    }
    let answer = http.answer("POST");
    assert_eq!((answer.status(), answer.header("connection")), (413, Some("close")));
    works(&server);
}

#[test]
fn a_client_that_sends_far_too_much_still_reads_why() {
    let server = MailServer::configured("max_body_bytes = 4096");
    let mut http = server.connect();
    // More than the kernel holds for a connection: nobody reads all of this.
    let body = vec![b' '; 16 << 20];
    http.send("POST", "/mcp/", &[], &body);
    assert_eq!(http.answer("POST").status(), 413);
    assert!(http.is_closed());
    works(&server);
}

#[test]
fn a_body_right_at_the_limit_is_read() {
    let server = MailServer::configured("max_body_bytes = 4096");
    let message = |fill: usize| json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(fill)}});
    let fill = 4096 - message(0).to_string().len();
    let mut http = server.connect();
    assert_eq!(http.post("/mcp/", &[], &message(fill)).status(), 200);
    assert_eq!(http.post("/mcp/", &[], &message(fill + 1)).status(), 413);
}

#[test]
fn a_continuation_is_asked_for_and_sent() {
    let server = MailServer::start();
    let mut http = server.connect();
    let body = ping("after 100").to_string();
    http.write(format!(
        "POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    ));
    assert_eq!(http.head().expect("a head").status, 100);
    http.write(body);
    assert_eq!(http.answer("POST").json()["id"], "after 100");
}

#[test]
fn heads_that_are_too_large_are_refused() {
    let server = MailServer::start();
    let long = "x".repeat(100_000);
    let mut http = server.connect();
    assert_eq!(http.post("/mcp/", &[("X-Long", &long)], &ping(1)).status(), 431);
    let mut http = server.connect();
    let names: Vec<String> = (0..200).map(|number| format!("X-{number}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    assert_eq!(http.post("/mcp/", &headers, &ping(1)).status(), 431);
    let mut http = server.connect();
    http.write(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(70_000)));
    let status = http.head().expect("a head").status;
    assert!([414, 431].contains(&status), "{status}");
    works(&server);
}

#[test]
fn what_is_no_http_is_refused_or_closed_and_disturbs_nobody() {
    let server = MailServer::start();
    let body = ping(1).to_string();
    let length = body.len();
    let cases: &[(&str, String)] = &[
        ("no HTTP at all", "{\"cmd\":\"topics\"}\n\r\n\r\n".into()),
        ("an unknown version", "GET / HTTP/7.3\r\nHost: localhost\r\n\r\n".into()),
        ("no colon", "GET /mcp/ HTTP/1.1\r\nHost localhost\r\n\r\n".into()),
        ("a space in a name", "GET /mcp/ HTTP/1.1\r\nHo st: localhost\r\n\r\n".into()),
        ("a zero byte", "GET /mcp/ HTTP/1.1\r\nHost: local\0host\r\n\r\n".into()),
        ("a length that is none", format!("POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n{body}")),
        ("a negative length", format!("POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{body}")),
        (
            "two lengths",
            format!(
                "POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nContent-Length: 3\r\n\r\n{body}"
            ),
        ),
        (
            "a length and chunks",
            format!(
                "POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\n\r\n{body}"
            ),
        ),
        ("a broken chunk", "POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".into()),
        ("a handshake of TLS", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n\r\n".into()),
        ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into()),
    ];
    for (what, bytes) in cases {
        let mut http = server.connect();
        http.write(bytes);
        if let Some(head) = http.head() {
            assert_eq!(head.status, 400, "{what}: {head:?}");
        }
        works(&server);
    }
}

#[test]
fn of_two_lengths_in_one_request_none_is_believed() {
    // What one server takes for the body, another takes for the next request.
    let server = MailServer::start();
    let smuggled = "POST /fmail/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    let mut http = server.connect();
    http.write(format!(
        "POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        5 + smuggled.len()
    ));
    let first = http.answer("POST");
    assert_eq!(first.status(), 400, "{first:?}");
    works(&server);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = MailServer::configured("connections = 3");
    let mut held: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for http in &mut held {
        assert_eq!(http.post("/mcp/", &[], &ping(1)).status(), 200);
    }
    let mut one_more = server.connect();
    let answer = one_more.post("/mcp/", &[], &ping(1));
    assert_eq!((answer.status(), answer.header("retry-after")), (503, Some("1")));
    let told: Value = answer.json();
    assert!(told["detail"].as_str().is_some_and(|text| text.contains("too many connections")), "{told}");
    drop(held.pop());
    // Its place is free when the daemon has seen it go.
    fmail_e2e::eventually(30, "a free place", || {
        let answer = server.connect().post("/mcp/", &[], &ping(1));
        (answer.status() == 200).then_some(())
    });
}
