//! Messages of JSON-RPC, right and wrong, and the headers that they come with.

use fmail_e2e::mcp::MailServer;
use serde_json::{Value, json};

use crate::ping;

#[test]
fn what_is_not_json_is_a_parse_error() {
    let server = MailServer::start();
    let mut http = server.connect();
    let deep = "[".repeat(100_000);
    for body in ["", " ", "no json", "{\"jsonrpc\":", "{\"a\":1}{\"b\":2}", "{'a':1}", "\u{feff}{}", &deep, "nul"] {
        let answer = http.request("POST", "/mcp/", &[("Content-Type", "application/json")], body.as_bytes());
        assert_eq!(answer.status(), 400, "{body:.20}: {answer:?}");
        let answer = answer.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &Value::Null), "{answer}");
        assert_eq!(answer["error"]["code"], -32700, "{body:.20}: {answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("Parse error")), "{answer}");
    }
    let answer = http.request("POST", "/mcp/", &[], b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}");
    assert_eq!((answer.status(), &answer.json()["error"]["code"]), (400, &json!(-32700)));
    assert_eq!(http.post("/mcp/", &[], &ping("it goes on")).status(), 200);
}

#[test]
fn batches_and_what_is_no_object_are_invalid_requests() {
    let server = MailServer::start();
    let mut http = server.connect();
    for body in [json!([]), json!([ping(1), ping(2)]), json!("text"), json!(7), json!(null), json!(true), json!([[]])] {
        let answer = http.post("/mcp/", &[], &body);
        assert_eq!((answer.status(), &answer.json()["error"]["code"]), (400, &json!(-32600)), "{body}");
    }
    let batch = http.post("/mcp/", &[], &json!([ping(1)])).json();
    assert!(batch["error"]["message"].as_str().is_some_and(|text| text.contains("one message at a time")), "{batch}");
}

#[test]
fn objects_that_are_no_requests_are_told_so_with_their_id() {
    let server = MailServer::start();
    let mut http = server.connect();
    for (message, id) in [
        (json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}), json!(1)),
        (json!({"jsonrpc": "2.0", "id": 2, "method": 7}), json!(2)),
        (json!({"jsonrpc": "2.0", "id": "three"}), json!("three")),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}), json!(null)),
        (json!({"jsonrpc": "2.0", "id": [1], "method": "ping"}), json!(null)),
    ] {
        let answer = http.post("/mcp/", &[], &message);
        assert_eq!(answer.status(), 400, "{message}");
        assert_eq!((&answer.json()["error"]["code"], &answer.json()["id"]), (&json!(-32600), &id), "{message}");
    }
}

#[test]
fn what_wants_no_answer_gets_an_empty_one() {
    let server = MailServer::start();
    let mut http = server.connect();
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/no-such-thing", "params": {}}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": -1, "message": "no"}}),
    ] {
        let answer = http.post("/mcp/", &[], &message);
        assert_eq!((answer.status(), answer.body.len()), (202, 0), "{message}: {answer:?}");
    }
}

#[test]
fn an_id_comes_back_as_it_came() {
    let server = MailServer::start();
    let mut http = server.connect();
    for id in
        ["1", "-7", "0", "9007199254740993", "12345678901234567890123", "1.5", "\"\"", "\"8d0f-uuid\"", "\"ü\\n\""]
    {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
        let answer = http.request("POST", "/mcp/", &[], body.as_bytes());
        assert_eq!(answer.status(), 200, "{id}");
        let expected: Value = serde_json::from_str(id).unwrap();
        assert_eq!(answer.json()["id"], expected);
        assert!(answer.text().contains(&format!("\"id\":{expected}")), "{id}: {}", answer.text());
    }
}

#[test]
fn the_type_of_a_body_is_json_or_not_said() {
    let server = MailServer::start();
    let mut http = server.connect();
    let body = ping(1).to_string();
    for kind in ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.mcp+json"]
    {
        assert_eq!(http.request("POST", "/mcp/", &[("Content-Type", kind)], body.as_bytes()).status(), 200, "{kind}");
    }
    assert_eq!(http.request("POST", "/mcp/", &[], body.as_bytes()).status(), 200);
    for kind in
        ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data", "x"]
    {
        let answer = http.request("POST", "/mcp/", &[("Content-Type", kind)], body.as_bytes());
        assert_eq!((answer.status(), &answer.json()["error"]["code"]), (415, &json!(-32600)), "{kind}");
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains(kind) && message.contains("application/json"), "{message}");
    }
    let zipped = http.request("POST", "/mcp/", &[("Content-Encoding", "gzip")], body.as_bytes());
    assert_eq!(zipped.status(), 415, "{zipped:?}");
}

#[test]
fn every_accept_header_works_and_events_go_to_who_takes_nothing_else() {
    let server = MailServer::start();
    let mut http = server.connect();
    for accept in
        ["application/json", "application/json, text/event-stream", "*/*", "text/html", "", "\u{7f}", "a;b;c,"]
    {
        let answer = http.post("/mcp/", &[("Accept", accept)], &ping(accept));
        if answer.status() == 400 && accept == "\u{7f}" {
            // No header may have this character, and that is found before us.
            http = server.connect();
            continue;
        }
        assert_eq!((answer.status(), &answer.json()["id"]), (200, &json!(accept)), "{accept}");
    }
    for accept in ["text/event-stream", "text/event-stream, application/json;q=0", "text/html, text/event-stream"] {
        let answer = http.post("/mcp/", &[("Accept", accept)], &ping(accept));
        assert_eq!((answer.status(), answer.events()[0]["id"].clone()), (200, json!(accept)));
        assert_eq!(answer.events().len(), 1, "{}", answer.text());
        assert!(answer.text().ends_with("\n\n"), "{:?}", answer.text());
    }
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(http.post("/mcp/", &[("Accept", "text/event-stream")], &notification).status(), 202);
    // An error of HTTP is JSON for everybody.
    let broken = http.request("POST", "/mcp/", &[("Accept", "text/event-stream")], b"{");
    assert_eq!((broken.status(), &broken.json()["error"]["code"]), (400, &json!(-32700)));
}

#[test]
fn known_versions_are_served_and_others_are_told_which_are() {
    let server = MailServer::start();
    let mut http = server.connect();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let answer = http.post("/mcp/", &[("MCP-Protocol-Version", version)], &ping(version));
        assert_eq!((answer.status(), &answer.json()["id"]), (200, &json!(version)), "{answer:?}");
    }
    for version in ["bogus", "2030-01-01", "", "2025-06-18, 2025-11-25"] {
        let answer = http.post("/mcp/", &[("MCP-Protocol-Version", version)], &ping(7));
        assert_eq!((answer.status(), &answer.json()["id"]), (400, &json!(7)), "{version}: {answer:?}");
        let error = &answer.json()["error"];
        assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!(version)), "{error}");
        assert!(error["data"]["supported"].as_array().is_some_and(|known| known.contains(&json!("2025-11-25"))));
        assert!(error["message"].as_str().is_some_and(|text| text.contains("2026-07-28")), "{error}");
    }
    let twice = [("MCP-Protocol-Version", "2025-06-18"), ("MCP-Protocol-Version", "2025-06-18")];
    assert_eq!(http.post("/mcp/", &twice, &ping(1)).json()["error"]["code"], -32020);
}

#[test]
fn headers_that_contradict_the_message_are_refused_and_missing_ones_are_not() {
    let server = MailServer::start();
    let mut http = server.connect();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                      "params": {"name": "health_check", "arguments": {}, "_meta": meta}});
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let good: [&[(&str, &str)]; 4] = [
        &[version],
        &[],
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "health_check")],
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?aGVhbHRoX2NoZWNr?=")],
    ];
    for headers in good {
        let answer = http.post("/mcp/", headers, &call);
        assert_eq!(answer.status(), 200, "{headers:?}: {answer:?}");
        assert_eq!(answer.json()["result"]["isError"], false, "{answer:?}");
    }
    let bad: [&[(&str, &str)]; 6] = [
        &[version, ("Mcp-Method", "tools/list")],
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "send_message")],
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?!?=")],
        &[version, ("Mcp-Method", "tools/call"), ("Mcp-Method", "tools/call")],
        &[("MCP-Protocol-Version", "2025-11-25")],
        &[version, ("Mcp-Name", "")],
    ];
    for headers in bad {
        let answer = http.post("/mcp/", headers, &call);
        assert_eq!((answer.status(), &answer.json()["error"]["code"]), (400, &json!(-32020)), "{headers:?}");
        assert_eq!(answer.json()["id"], 1, "{headers:?}");
    }
}

#[test]
fn a_method_that_is_not_there_has_the_status_of_its_version() {
    let server = MailServer::start();
    let mut http = server.connect();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "no/such/method"});
    for (headers, status) in [
        (&[][..], 200),
        (&[("MCP-Protocol-Version", "2025-11-25")], 200),
        (&[("MCP-Protocol-Version", "2026-07-28")], 404),
    ] {
        let answer = http.post("/mcp/", headers, &message);
        assert_eq!((answer.status(), &answer.json()["error"]["code"]), (status, &json!(-32601)), "{headers:?}");
    }
}

#[test]
fn initialize_is_answered_with_a_session_but_none_is_needed() {
    let server = MailServer::start();
    let mut http = server.connect();
    let initialize = |version: &str| {
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}})
    };
    let mut names = Vec::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01"] {
        let answer = http.post("/mcp/", &[], &initialize(version));
        assert_eq!(answer.status(), 200, "{answer:?}");
        let session = answer.header("mcp-session-id").unwrap_or_else(|| panic!("{answer:?}")).to_string();
        assert!(session.len() == 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit()), "{session}");
        assert_eq!(http.post("/mcp/", &[("Mcp-Session-Id", &session)], &ping(1)).status(), 200);
        names.push(session);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5, "each has its own");
    // One that the daemon has never heard of: it was started again, or the client made it up.
    let revived = http.post("/mcp/", &[("Mcp-Session-Id", "from-before-the-restart")], &ping(1));
    assert_eq!((revived.status(), revived.header("mcp-session-id")), (200, None));
    for wrong in ["", "a b", &"x".repeat(129)] {
        let answer = http.post("/mcp/", &[("Mcp-Session-Id", wrong)], &ping(1));
        assert_eq!((answer.status(), &answer.json()["error"]["code"]), (400, &json!(-32600)), "{wrong}");
    }
    // Those who speak the newest version have no sessions.
    let discover = http.post(
        "/mcp/",
        &[("MCP-Protocol-Version", "2026-07-28")],
        &json!({
        "jsonrpc": "2.0", "id": 1, "method": "server/discover",
        "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}),
    );
    assert_eq!((discover.status(), discover.header("mcp-session-id")), (200, None), "{discover:?}");
}
