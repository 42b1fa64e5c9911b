//! `fmail mcp tools|call|read` against servers that we did not write, on good days and on bad ones.

use std::fs;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fmail_e2e::fake_server::{FakeServer, Received, response};
use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Fmail, Sandbox};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};

const TOKEN: &str = "s3cret-t0ken-0042";

fn mcp(sandbox: &Sandbox, server: &FakeServer, args: &[&str]) -> Fmail {
    sandbox.fmail().env("AGENT_MAIL_BASE_URL", server.url()).arg("mcp").args(args)
}

fn answer(id: &Value, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn tool(structured: Value) -> Value {
    json!({"content": [{"type": "text", "text": structured.to_string()}], "structuredContent": structured, "isError": false})
}

#[test]
fn a_request_is_as_the_contract_has_it() {
    let sandbox = Sandbox::new();
    let server = FakeServer::answering(tool(json!({"status": "ready"})));
    let output = mcp(&sandbox, &server, &["call", "health_check", "--json", "{\"a\": [1.50, null]}"]).ok();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("{\"status\":\"ready\"}\n", ""));
    let request = server.request();
    assert_eq!(request.line, "POST /mcp/ HTTP/1.1");
    assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("mcp-session-id"), None, "nothing was initialised");
    let message = request.json();
    assert!(message["id"].is_string());
    let params = json!({"name": "health_check", "arguments": {"a": [1.5, null]}});
    assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!("tools/call")));
    assert_eq!(message["params"]["name"], params["name"]);
    assert!(request.body.contains("[1.50,null]"), "numbers go as they were written: {}", request.body);
    assert!(server.is_quiet(), "one request is all");
    assert!(!sandbox.store().exists(), "a client needs no project");

    mcp(&sandbox, &server, &["read", "resource://inbox/A?project=%2Fx%20y", "--path", "api"]).run();
    let request = server.request();
    assert_eq!(request.line, "POST /api/ HTTP/1.1", "a path begins and ends with a slash");
    assert_eq!(request.json()["params"], json!({"uri": "resource://inbox/A?project=%2Fx%20y"}));
    mcp(&sandbox, &server, &["call", "x"]).env("AGENT_MAIL_PATH", "/a/b").env("AGENT_MAIL_BEARER_TOKEN", TOKEN).ok();
    let request = server.request();
    assert_eq!(
        (request.line.as_str(), request.header("authorization")),
        ("POST /a/b/ HTTP/1.1", Some("Bearer s3cret-t0ken-0042"))
    );
    let file = sandbox.write("token", format!("{TOKEN}\n"));
    mcp(&sandbox, &server, &["call", "x", "--token-file"]).arg(file).ok();
    assert_eq!(server.request().header("authorization"), Some("Bearer s3cret-t0ken-0042"));
}

#[test]
fn the_configured_server_is_asked_with_its_token_and_no_other_gets_it() {
    const OWN: &str = "correct-horse-battery-staple-0042";
    let sandbox = Sandbox::new();
    let server = FakeServer::answering(tool(json!({})));
    let address = server.url().strip_prefix("http://").unwrap().trim_end_matches('/').to_string();
    let call = || sandbox.fmail().args(["mcp", "call", "x"]);
    MailServer::configure(&sandbox, &address, "", &format!("path = \"/mail/\"\ntoken = {OWN:?}"));
    call().ok();
    let request = server.request();
    let shown = format!("Bearer {OWN}");
    assert_eq!(
        (request.line.as_str(), request.header("authorization")),
        ("POST /mail/ HTTP/1.1", Some(shown.as_str()))
    );
    call().env("AGENT_MAIL_BEARER_TOKEN", TOKEN).ok();
    assert_eq!(server.request().header("authorization"), Some("Bearer s3cret-t0ken-0042"), "what is said counts");
    mcp(&sandbox, &server, &["call", "x"]).ok();
    let request = server.request();
    assert_eq!((request.line.as_str(), request.header("authorization")), ("POST /mcp/ HTTP/1.1", None));
    let file = sandbox.home().join("token");
    fs::write(&file, OWN).unwrap();
    MailServer::configure(&sandbox, &address, "", "token_file = \"~/token\"");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    call().run().says(&["token_file", "0640"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    call().ok();
    assert_eq!(server.request().header("authorization"), Some(shown.as_str()));
}

#[test]
fn a_failure_is_told_by_what_it_is() {
    let sandbox = Sandbox::new();
    let page = FakeServer::new(|_, stream| {
        let html = "<!DOCTYPE HTML>\n<html><body>Unsupported method ('POST')</body></html>";
        let _ = stream.write_all(&response("501 Not Implemented", "text/html", html));
    });
    let output = mcp(&sandbox, &page, &["call", "x"]).run();
    assert!(output.code == 12 && output.stderr.contains("HTTP 501") && !output.stderr.contains('<'), "{output}");
    let nobody = sandbox.fmail().args(["mcp", "tools", "--url", "http://no-such-host.invalid"]).run();
    assert!(nobody.code == 12 && !nobody.stderr.contains("was lost"), "{nobody}");
    let port = sandbox.fmail().args(["mcp", "tools", "--url", "http://127.0.0.1:99999"]).run();
    assert!(port.code == 14 && port.stderr.contains("65535"), "{port}");
}

#[test]
fn arguments_come_from_one_place_and_are_an_object() {
    let sandbox = Sandbox::new();
    let server = FakeServer::answering(tool(json!({})));
    let file = sandbox.write("arguments.json", "{\"from\": \"a file\"}\n");
    let file = file.to_str().unwrap();
    for (args, stdin, expect) in [
        (&["call", "t"][..], "", json!({})),
        (&["call", "t", "--json"], "", json!({})),
        (&["call", "t", "{\"a\": 1}"], "", json!({"a": 1})),
        (&["call", "t", "{\"a\": 1}", "--json"], "", json!({"a": 1})),
        (&["call", "t", "--json", "{\"a\": 1}"], "", json!({"a": 1})),
        (&["call", "t", "-"], "{\"a\": 2}\n", json!({"a": 2})),
        (&["call", "t", "--json", "-"], "{\"a\": 2}", json!({"a": 2})),
        (&["call", "t", "--file", "-"], "{\"a\": 2}", json!({"a": 2})),
        (&["call", "t", "--file", file], "", json!({"from": "a file"})),
        (&["call", "t", "--json", "--file", file], "", json!({"from": "a file"})),
    ] {
        mcp(&sandbox, &server, args).stdin(stdin).ok();
        assert_eq!(server.request().json()["params"]["arguments"], expect, "{args:?}");
    }
    for (args, says) in [
        (&["call", "t", "{\"a\": "][..], "not JSON"),
        (&["call", "t", "[1]"], "an array"),
        (&["call", "t", "--json", "null"], "null"),
        (&["call", "t", "{}", "--json", "{}"], "twice"),
        (&["call", "t", "{}", "--file", file], "twice"),
        (&["call", "t", "--file", "/no/such/file"], "/no/such/file"),
        (&["call", "--json", "t", "{}"], "write the tool first"),
    ] {
        let output = mcp(&sandbox, &server, args).stdin("").run();
        assert!(output.code != 0 && output.stdout.is_empty() && output.stderr.contains(says), "{args:?}: {output}");
    }
    assert!(server.is_quiet(), "what is wrong is not sent");
}

#[test]
fn results_are_printed_exactly_or_for_people() {
    let sandbox = Sandbox::new();
    let check = |result: Value, json: &str, people: &str| {
        let server = FakeServer::answering(result);
        assert_eq!(mcp(&sandbox, &server, &["call", "t", "--json"]).ok().stdout, json);
        assert_eq!(mcp(&sandbox, &server, &["call", "t"]).ok().stdout, people);
    };
    let exact: Value = serde_json::from_str(r#"{"z":1.50,"a":[12345678901234567890123],"result":null}"#).unwrap();
    check(tool(exact.clone()), &format!("{exact}\n"), &format!("{exact:#}\n"));
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    check(text("{\"only\": \"text\"}"), "{\"only\":\"text\"}\n", "{\n  \"only\": \"text\"\n}\n");
    check(text("plain words"), "[{\"type\":\"text\",\"text\":\"plain words\"}]\n", "plain words\n");
    check(json!({"content": []}), "[]\n", "\n");

    let contents = json!({"contents": [{"uri": "u", "mimeType": "application/json", "text": "{\"count\": 2}"}]});
    let server = FakeServer::answering(contents);
    assert_eq!(mcp(&sandbox, &server, &["read", "u", "--json"]).ok().stdout, "{\"count\":2}\n");
    assert_eq!(mcp(&sandbox, &server, &["read", "u"]).ok().stdout, "{\n  \"count\": 2\n}\n");
    let blob = json!({"contents": [{"uri": "u", "text": "words"}, {"uri": "v", "blob": "AAAA"}]});
    let server = FakeServer::answering(blob.clone());
    assert_eq!(mcp(&sandbox, &server, &["read", "u", "--json"]).ok().json(), blob["contents"]);
    assert_eq!(mcp(&sandbox, &server, &["read", "u"]).ok().stdout, "words\n{\"uri\":\"v\",\"blob\":\"AAAA\"}\n");
}

#[test]
fn all_pages_of_the_tools_are_listed() {
    let sandbox = Sandbox::new();
    let server = FakeServer::new(|request, stream| {
        let page = match request.json()["params"]["cursor"].as_str() {
            None => {
                json!({"tools": [{"name": "one", "description": "Does it. And more.\nMuch more"}], "nextCursor": "2"})
            }
            Some("2") => json!({"tools": [{"name": "two"}]}),
            Some(other) => panic!("{other}"),
        };
        let _ = stream.write_all(&response("200 OK", "application/json", &answer(&request.id(), page)));
    });
    let shown = mcp(&sandbox, &server, &["tools"]).ok().stdout;
    assert_eq!(shown, "TOOL         WHAT IT DOES\none          Does it\ntwo\n");
    let listed = mcp(&sandbox, &server, &["tools", "--json"]).ok().json();
    assert_eq!(listed, json!([{"name": "one", "description": "Does it. And more.\nMuch more"}, {"name": "two"}]));
    let endless = FakeServer::answering(json!({"tools": [], "nextCursor": "x"}));
    mcp(&sandbox, &endless, &["tools"]).fails(14).says(&["no end"]);
}

/// A stream of events, in chunks of HTTP that are cut after so many bytes.
fn stream(events: &str, size: usize) -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
    for piece in events.as_bytes().chunks(size) {
        bytes.extend(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend(piece);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// The events that carry an answer.
type Shape = fn(&str) -> String;

#[test]
fn a_stream_is_read_in_every_form_that_events_have() {
    let sandbox = Sandbox::new();
    let shapes: [(&str, Shape); 9] = [
        ("one event", |data| format!("event: message\ndata: {data}\n\n")),
        ("no blank behind the colon", |data| format!("data:{data}\n\n")),
        ("carriage returns", |data| format!("event: message\r\ndata: {data}\r\n\r\n")),
        ("several lines", |data| format!("id: 1\ndata: {}\n\n", data.replace(",\"", ",\ndata: \""))),
        ("comments and signs of life", |data| {
            format!(": ping\n\n:\nevent: ping\ndata: alive\n\nretry: 10\ndata: {data}\n\n")
        }),
        ("notifications and answers of others first", |data| {
            let other = json!({"jsonrpc": "2.0", "id": "other", "result": {"structuredContent": {"wrong": 1}}});
            let told = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hello"}});
            let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
            format!("data: {told}\n\ndata: {other}\n\ndata: {asked}\n\ndata: {data}\n\n")
        }),
        ("a mark of the byte order", |data| format!("\u{feff}data: {data}\n\n")),
        ("no empty line at the end", |data| format!("data: {data}\n")),
        ("more behind it", |data| format!("data: {data}\n\ndata: {{\"jsonrpc\"")),
    ];
    for (name, shape) in shapes {
        for size in [1, 7, 100_000] {
            let server = FakeServer::new(move |request, connection| {
                let data = answer(&request.id(), tool(json!({"said": "ünï yes", "shape": name})));
                let _ = connection.write_all(&stream(&shape(&data), size));
            });
            let output = mcp(&sandbox, &server, &["call", "t", "--json"]).ok();
            assert_eq!(output.json(), json!({"said": "ünï yes", "shape": name}), "{name}, {size}");
        }
    }
}

#[test]
fn the_answer_counts_when_it_is_there_and_not_when_the_stream_ends() {
    let sandbox = Sandbox::new();
    let server = FakeServer::new(|request, stream| {
        let data = answer(&request.id(), tool(json!({"ok": 1})));
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {data}\n\n");
        // The stream stays open until the client goes.
        let _ = std::io::Read::read(stream, &mut [0; 1]);
    });
    assert_eq!(mcp(&sandbox, &server, &["call", "t", "--json"]).ok().stdout, "{\"ok\":1}\n");
}

#[track_caller]
fn fails(server: &FakeServer, args: &[&str], code: i32, says: &[&str]) {
    let sandbox = Sandbox::new();
    let command = mcp(&sandbox, server, args).env("AGENT_MAIL_BEARER_TOKEN", TOKEN);
    let output = command.fails(code);
    output.says(says);
    assert!(!output.stderr.contains(TOKEN), "the token is told: {output}");
    assert!(output.stderr.starts_with("fmail: "), "{output}");
}

const CALL: &[&str] = &["call", "t"];
const UNKNOWN: &str = "whether the call took effect is not known";

#[test]
fn a_status_is_an_error_of_its_kind() {
    let check = |status: &str, body: &str, code, says: &[&str]| {
        fails(&FakeServer::saying(response(status, "application/json", body)), CALL, code, says);
    };
    let echo = format!("{{\"detail\":\"no: Bearer {TOKEN}\"}}");
    check("401 Unauthorized", &echo, 9, &["refuses the token", "(token)", "AGENT_MAIL_BEARER_TOKEN"]);
    check("403 Forbidden", "{\"detail\":\"Forbidden\"}", 9, &["HTTP 403", "Forbidden"]);
    check("404 Not Found", "{\"detail\":\"Not Found\"}", 14, &["no MCP endpoint", "AGENT_MAIL_PATH"]);
    check("405 Method Not Allowed", "", 14, &["no MCP endpoint"]);
    check(
        "400 Bad Request",
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32602,"message":"Validation error"}}"#,
        2,
        &["Validation error"],
    );
    check("413 Payload Too Large", "", 6, &["so large"]);
    check("429 Too Many Requests", "{\"detail\":\"Rate limit exceeded\"}", 11, &["Rate limit exceeded"]);
    check("500 Internal Server Error", "Traceback", 12, &["HTTP 500: Traceback", UNKNOWN]);
    check("502 Bad Gateway", "<html>nginx</html>", 12, &["nginx", UNKNOWN]);
    check("504 Gateway Timeout", "", 17, &["HTTP 504", UNKNOWN]);
    let sandbox = Sandbox::new();
    let server = FakeServer::saying(response("401 Unauthorized", "application/json", ""));
    mcp(&sandbox, &server, &["tools"]).fails(9).says(&["wants a token", "--token-file"]);
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    let target = FakeServer::answering(tool(json!({})));
    for status in
        ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let place = format!("{}/mcp", target.url());
        let head = format!("HTTP/1.1 {status}\r\nLocation: {place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        fails(&FakeServer::saying(head), CALL, 14, &["redirects to", &place, "not followed", "AGENT_MAIL_BASE_URL"]);
    }
    assert!(target.is_quiet(), "the token would have gone there");
}

#[test]
fn what_is_no_answer_is_no_result() {
    let check = |bytes: Vec<u8>, code, says: &[&str]| fails(&FakeServer::saying(bytes), CALL, code, says);
    let json = |body: &str| response("200 OK", "application/json", body);
    check(response("200 OK", "text/html", "<html>welcome</html>"), 14, &["does not answer as an MCP server", "<html>"]);
    check(json(""), 14, &["gave no answer"]);
    check(response("202 Accepted", "application/json", ""), 14, &["gave no answer (HTTP 202)"]);
    check(json("{\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}"), 14, &["not the answer"]);
    check(json("[]"), 14, &["not the answer"]);
    check(json("{\"jsonrpc\": \"2.0\", "), 14, &["not JSON"]);
    check(json("\"hello\""), 14, &["not the answer"]);
    // Broken off in the middle, in each of the ways in which a body can be told.
    let whole = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    check(format!("{whole}Content-Length: 1000\r\n\r\n{{\"jsonrpc\"").into(), 12, &["lost", UNKNOWN]);
    check(format!("{whole}Transfer-Encoding: chunked\r\n\r\n5\r\n{{\"jso").into(), 12, &[UNKNOWN]);
    check(format!("{whole}Transfer-Encoding: chunked\r\n\r\nnonsense\r\n").into(), 14, &["not understood"]);
    check(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"jsonrpc\":\"2.0\",".to_vec(),
        12,
        &["ended without an answer", UNKNOWN],
    );
    check(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ping\n\n".to_vec(),
        12,
        &["ended without an answer"],
    );
    // No HTTP at all.
    check(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), 14, &["does not answer as an MCP server"]);
    check(b"HTTP/1.1 200".to_vec(), 12, &[UNKNOWN]);
    check(Vec::new(), 12, &[UNKNOWN]);
    let headers: String = (0..10_000).map(|number| format!("X-{number}: {number}\r\n")).collect();
    check(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into(), 14, &["does not answer as an MCP server"]);
}

#[test]
fn an_error_of_the_protocol_or_of_the_tool_is_an_error_of_its_kind() {
    let refuses = |error: Value, args: &'static [&'static str], code, says: &[&str]| {
        let server = FakeServer::new(move |request, stream| {
            let answer = json!({"jsonrpc": "2.0", "id": request.id(), "error": error}).to_string();
            let _ = stream.write_all(&response("200 OK", "application/json", &answer));
        });
        fails(&server, args, code, says);
    };
    refuses(json!({"code": -32601, "message": "Method not found"}), CALL, 10, &["Method not found"]);
    refuses(
        json!({"code": -32602, "message": "Invalid request parameters", "data": ""}),
        CALL,
        2,
        &["Invalid request parameters\n"],
    );
    refuses(
        json!({"code": 0, "message": "Unknown resource: 'resource://nope/x'"}),
        &["read", "resource://nope/x"],
        7,
        &["Unknown resource"],
    );
    refuses(json!({"code": -32001, "message": "Request timed out: no answer within 120 s"}), CALL, 17, &["120 s"]);
    refuses(json!({"code": -32000, "message": "the daemon is ending"}), CALL, 12, &["ending"]);
    refuses(json!({"code": -32002, "message": "Resource gone"}), &["read", "resource://x/y"], 7, &["Resource gone"]);
    refuses(
        json!({"code": -32603, "message": format!("oops {TOKEN}"), "data": {"at": 1}}),
        CALL,
        12,
        &["oops (token)", "{\"at\":1}"],
    );
    let tells = |result: Value, code, says: &[&str]| fails(&FakeServer::answering(result), CALL, code, says);
    let failed = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": true});
    tells(
        failed("Error calling tool 'x': Agent 'GreenDogg' not found in project '/p'. Did you mean: 'GreenDog'?"),
        7,
        &["Did you mean: 'GreenDog'?"],
    );
    tells(failed("Unknown tool: no_such_tool"), 7, &["no_such_tool"]);
    tells(failed("limit must be at least 1, got 0."), 2, &["at least 1"]);
    tells(failed(&format!("leaked {TOKEN}")), 2, &["leaked (token)"]);
    tells(failed("\u{1b}[2J\u{202e}evil"), 2, &["\\u{1b}[2J\\u{202e}evil"]);
    let conflict = json!({"granted": [], "conflicts": [{"path": "src/**"}], "error": {"type": "FILE_RESERVATION_CONFLICT", "message": "held"}});
    let result = json!({"content": [{"type": "text", "text": "src/** is held by BlueLake"}], "structuredContent": conflict, "isError": true});
    tells(result, 8, &["held by BlueLake"]);
    tells(json!("no object"), 14, &["not an object"]);
}

#[test]
fn answers_without_end_are_given_up() {
    let endless = |head: &'static str, piece: &'static [u8]| {
        FakeServer::new(move |_, stream| {
            let _ = stream.write_all(head.as_bytes());
            let piece = piece.repeat(64 * 1024 / piece.len());
            // The client goes when it has had enough.
            while stream.write_all(&piece).is_ok() {}
        })
    };
    let plain = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    fails(&endless(plain, b"[1,"), CALL, 6, &["larger than 33554432 bytes"]);
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    fails(&endless(events, b"data: x\n\n"), CALL, 6, &["larger than 33554432 bytes"]);
    fails(&endless(events, b"data: no end of the line "), CALL, 6, &["larger than 33554432 bytes"]);
    let head = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\n";
    fails(&endless(head, b"much "), CALL, 12, &["much much", "bytes more"]);
    fails(&endless("HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n"), CALL, 14, &["does not answer as an MCP server"]);
}

#[test]
fn patience_has_an_end() {
    let silent = || FakeServer::over(|mut stream, _| drop(std::io::Read::read_to_end(&mut stream, &mut Vec::new())));
    let dripping = |head: &'static str, drop_of: &'static [u8]| {
        FakeServer::new(move |_, stream: &mut TcpStream| {
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(drop_of).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    for server in [silent(), dripping("HTTP/1.1 200 OK\r\nX-Slow: ", b"x"), dripping(events, b": still here\n\n")] {
        let start = Instant::now();
        fails(&server, &["call", "t", "--timeout", "1s"], 17, &["within 1s", UNKNOWN, "--timeout"]);
        assert!(start.elapsed() >= Duration::from_secs(1) && start.elapsed() < Duration::from_secs(30));
        let sandbox = Sandbox::new();
        let reading = mcp(&sandbox, &server, &["tools", "--timeout", "1s"]).fails(17);
        assert!(!reading.stderr.contains(UNKNOWN), "what changes nothing has no effect: {reading}");
    }
}

#[test]
fn nobody_there_is_unavailable_and_says_what_to_start() {
    let sandbox = Sandbox::new();
    // Bound, so that nobody else gets the port, and nobody listens.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let free = SocketAddrV4::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let call = |url: &str| sandbox.fmail().args(["mcp", "call", "t", "--url", url]);
    let output = call(&format!("http://{free}")).fails(12);
    output.says(&["nobody listens", "start forged", "http"]);
    assert!(!output.stderr.contains(UNKNOWN), "{output}");
    call("http://no-such-host.invalid").fails(12).says(&["no-such-host.invalid"]);
    for wrong in ["127.0.0.1:8765", "ftp://x", "http://me:pw@x"] {
        let output = call(wrong).fails(14);
        output.says(&["--url"]);
        assert!(!output.stderr.contains("pw@"), "{output}");
    }
    call("http://127.0.0.1").env("AGENT_MAIL_BEARER_TOKEN", "two words").fails(14).says(&["cannot be a token"]);
}

#[test]
fn no_proxy_stands_between_a_machine_and_itself() {
    let sandbox = Sandbox::new();
    let server = FakeServer::answering(tool(json!({"ok": 1})));
    let proxy = FakeServer::saying(response("200 OK", "text/html", "proxy"));
    let call = mcp(&sandbox, &server, &["call", "t", "--json"]);
    call.env("HTTP_PROXY", proxy.url()).env("http_proxy", proxy.url()).env("ALL_PROXY", proxy.url()).ok();
    assert!(proxy.is_quiet());
}

/// A server that answers nothing without a session, in the words of those that there are.
fn insisting(refusal: &'static str, refuse: fn(&Received) -> Vec<u8>, streams: bool) -> FakeServer {
    assert!(!refusal.is_empty());
    let ready = Arc::new(AtomicBool::new(false));
    FakeServer::new(move |request, stream| {
        let say = |stream: &mut TcpStream, extra: &str, body: &str| {
            let (kind, body) = match streams {
                true => ("text/event-stream", format!("event: message\ndata: {body}\n\n")),
                false => ("application/json", body.to_string()),
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{extra}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        };
        let session = request.header("mcp-session-id");
        if request.line.starts_with("DELETE ") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            return;
        }
        match (request.json()["method"].as_str(), session) {
            (Some("initialize"), None) => {
                let result = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}});
                say(stream, "Mcp-Session-Id: 5e55-10n\r\n", &answer(&request.id(), result));
            }
            (Some("notifications/initialized"), Some("5e55-10n")) => {
                ready.store(true, Ordering::SeqCst);
                let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
            (Some(_), Some("5e55-10n")) if ready.load(Ordering::SeqCst) => {
                assert_eq!(request.header("mcp-protocol-version"), Some("2025-03-26"));
                say(stream, "", &answer(&request.id(), tool(json!({"ok": 1}))));
            }
            _ => drop(stream.write_all(&refuse(request))),
        }
    })
}

/// How a server says that it wants a session first.
type Refusal = fn(&Received) -> Vec<u8>;

#[test]
fn a_server_that_insists_on_a_session_gets_one() {
    let sandbox = Sandbox::new();
    fn error(status: &str, message: &str) -> Vec<u8> {
        let body = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": message}, "id": null});
        response(status, "application/json", &body.to_string())
    }
    let refusals: [(&str, Refusal); 5] = [
        ("TypeScript", |_| error("400 Bad Request", "Bad Request: Server not initialized")),
        ("Python", |_| error("400 Bad Request", "Bad Request: Missing session ID")),
        ("lost", |_| error("404 Not Found", "Session not found")),
        ("Rust", |_| {
            response("422 Unprocessable Entity", "text/plain", "Unexpected message, expect initialize request")
        }),
        ("JSON", |_| error("200 OK", "Received request before initialization was complete")),
    ];
    for (name, refuse) in refusals {
        for streams in [false, true] {
            let server = insisting(name, refuse, streams);
            let output = mcp(&sandbox, &server, &["call", "t", "--json"]).env("AGENT_MAIL_BEARER_TOKEN", TOKEN).ok();
            assert_eq!(output.stdout, "{\"ok\":1}\n", "{name}");
            let methods: Vec<Value> = (0..4)
                .map(|_| server.request())
                .map(|request| {
                    assert_eq!(request.header("authorization"), Some("Bearer s3cret-t0ken-0042"), "{name}");
                    request.json()["method"].clone()
                })
                .collect();
            assert_eq!(methods, ["tools/call", "initialize", "notifications/initialized", "tools/call"], "{name}");
            assert!(server.request().line.starts_with("DELETE /mcp/ "), "{name}: the session is given back");
        }
    }
    // One that is never content is not asked for ever.
    let never = FakeServer::saying(error("400 Bad Request", "Bad Request: No valid session ID provided"));
    mcp(&sandbox, &never, &["call", "t"]).fails(2).says(&["No valid session ID"]);
}

/// A server over TLS, whose certificate this authority has signed.
fn tls_server(sandbox: &Sandbox) -> (FakeServer, std::path::PathBuf) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let signed_by_itself = authority.self_signed(&authority_key).unwrap();
    let file = sandbox.home().join("authority.pem");
    std::fs::write(&file, signed_by_itself.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let certificate = CertificateParams::new(vec!["localhost".to_string(), "127.0.0.1".to_string()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let server = FakeServer::over(move |socket, note| {
        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut reader = BufReader::new(rustls::StreamOwned::new(connection, socket));
        let Some(request) = Received::read(&mut reader) else { return };
        note(request.clone());
        let mut stream = reader.into_inner();
        let _ = stream.write_all(&response(
            "200 OK",
            "application/json",
            &answer(&request.id(), tool(json!({"safe": true}))),
        ));
        stream.conn.send_close_notify();
        let _ = stream.flush();
    });
    (server, file)
}

#[test]
fn https_is_spoken_with_whom_the_system_trusts_and_nobody_else() {
    let sandbox = Sandbox::new();
    let (server, authority) = tls_server(&sandbox);
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{}", server.port());
        let call = || {
            sandbox.fmail().args(["mcp", "call", "t", "--json", "--url", &url]).env("AGENT_MAIL_BEARER_TOKEN", TOKEN)
        };
        assert_eq!(call().env("SSL_CERT_FILE", &authority).ok().stdout, "{\"safe\":true}\n");
        assert_eq!(server.request().header("authorization"), Some("Bearer s3cret-t0ken-0042"));
        let other = Sandbox::new();
        let (_, stranger) = tls_server(&other);
        call().env("SSL_CERT_FILE", stranger).fails(12).says(&["no encrypted connection", "SSL_CERT_FILE"]);
        call().env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/no/such").fails(14).says(&["no certificates"]);
    }
    assert!(server.is_quiet(), "who is not trusted is shown no token");
    let plain = FakeServer::over(|mut stream, _| {
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
        let _ = stream.write_all(&response("400 Bad Request", "text/plain", "speak HTTP"));
    });
    let url = format!("https://127.0.0.1:{}", plain.port());
    let tools = sandbox.fmail().args(["mcp", "tools", "--url", &url]).env("SSL_CERT_FILE", authority);
    tools.fails(12).says(&["no encrypted connection", "https"]);
}
