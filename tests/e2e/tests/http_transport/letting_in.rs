//! Who may come in.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use fmail_e2e::http::Http;
use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Daemon, Sandbox, forged_binary};
use serde_json::json;

use crate::ping;

const TOKEN: &str = "correct-horse-battery-staple-0042";
const OTHER: &str = "correct-horse-battery-staple-0043";
/// The exit code of `denied`.
const DENIED: i32 = 9;

#[test]
fn where_there_is_a_token_it_is_needed() {
    let server = MailServer::configured(&format!("token = {TOKEN:?}"));
    let mut http = server.connect();
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let shown = format!("{scheme} {TOKEN}");
        assert_eq!(http.post("/mcp/", &[("Authorization", &shown)], &ping(1)).status(), 200, "{scheme}");
    }
    let nothing = http.post("/mcp/", &[], &ping(1));
    assert_eq!((nothing.status(), nothing.header("www-authenticate")), (401, Some("Bearer realm=\"fmail\"")));
    assert!(nothing.json()["error"]["message"].as_str().is_some_and(|text| text.contains("a token is needed")));
    let own = format!("Bearer {TOKEN}");
    for wrong in ["", "Bearer", "Bearer ", TOKEN, &format!("Bearer {OTHER}"), &format!("{own}x"), "Basic eDp5"] {
        let answer = http.post("/mcp/", &[("Authorization", wrong)], &ping(1));
        assert_eq!(answer.status(), 401, "{wrong}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"fmail\", error=\"invalid_token\""));
        assert!(!answer.text().contains(TOKEN), "{}", answer.text());
    }
    assert_eq!(http.post("/mcp/", &[("Authorization", &own), ("Authorization", &own)], &ping(1)).status(), 401);
    let basic = http.post("/mcp/", &[("Authorization", "Basic eDp5")], &ping(1)).text();
    assert!(basic.contains("not `Bearer` and a token"), "{basic}");
    for (method, path) in [("GET", "/mcp/"), ("DELETE", "/mcp"), ("POST", "/fmail/"), ("POST", "/api"), ("GET", "/x")] {
        let answer = http.request(method, path, &[("Accept", "text/event-stream")], b"");
        assert_eq!(answer.status(), 401, "{method} {path}");
    }
    let refused = http.post("/fmail/", &[], &json!({"cmd": "topics", "agent": "alice"}));
    assert_eq!(refused.json()["error"]["code"], "denied", "{refused:?}");
    for path in ["/health/liveness", "/health/readiness"] {
        assert_eq!(http.request("GET", path, &[], b"").status(), 200, "{path} needs none");
    }
}

#[test]
fn a_token_in_a_file_counts_when_nobody_else_can_read_it() {
    let sandbox = Sandbox::new();
    let file = sandbox.home().join("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let mode = |bits: u32| fs::set_permissions(&file, fs::Permissions::from_mode(bits)).unwrap();
    let refused = |lines: &str, says: &[&str]| {
        MailServer::configure(&sandbox, "127.0.0.1:0", "", lines);
        let output = sandbox.command(forged_binary()).run();
        assert_ne!(output.code, 0, "{output}");
        output.says(says);
    };
    mode(0o644);
    refused("token_file = \"~/token\"", &["token_file", "0644", "chmod 600"]);
    mode(0o600);
    refused(&format!("token_file = \"~/token\"\ntoken = {TOKEN:?}"), &["both set"]);
    fs::write(&file, "short").unwrap();
    refused("token_file = \"~/token\"", &["32 bytes or more"]);
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let server = MailServer::in_sandbox(sandbox, "", "token_file = \"~/token\"");
    let mut http = server.connect();
    assert_eq!(http.post("/mcp/", &[], &ping(1)).status(), 401);
    assert_eq!(http.post("/mcp/", &[("Authorization", &format!("Bearer {TOKEN}"))], &ping(1)).status(), 200);
}

#[test]
fn a_request_for_another_host_is_refused() {
    let server = MailServer::configured("hosts = [\"mail.example.org\", \"proxy.example.org:8443\"]");
    let port = server.address.rsplit(':').next().unwrap().to_string();
    let mut http = server.connect();
    for host in [
        &server.address,
        "localhost",
        &format!("localhost:{port}"),
        "LOCALHOST:1",
        "127.0.0.1",
        "[::1]:8765",
        "mail.example.org",
        "Mail.Example.Org:9",
        "proxy.example.org:8443",
    ] {
        assert_eq!(http.post("/mcp/", &[("Host", host)], &ping(1)).status(), 200, "{host}");
    }
    for host in [
        "evil.example",
        &format!("evil.example:{port}"),
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "proxy.example.org",
        "proxy.example.org:8444",
        "10.0.0.1",
        "x@localhost",
        "",
    ] {
        for path in ["/mcp/", "/fmail/", "/health/liveness"] {
            let answer = http.post(path, &[("Host", host)], &ping(1));
            assert_eq!(answer.status(), 403, "{host} {path}: {answer:?}");
            assert!(answer.text().contains("`hosts`"), "{}", answer.text());
        }
    }
    // A whole URL counts beside the header, and a header that comes twice or not at all is none.
    let length = ping(1).to_string().len();
    for (line, hosts, status) in [
        ("POST http://evil.example/mcp/ HTTP/1.1", "Host: localhost\r\n", 403),
        ("POST http://localhost/mcp/ HTTP/1.1", "Host: localhost\r\n", 200),
        ("POST /mcp/ HTTP/1.1", "", 400),
        ("POST /mcp/ HTTP/1.1", "Host: localhost\r\nHost: localhost\r\n", 400),
        ("POST /mcp/ HTTP/1.1", "Host: localhost\r\nHost: evil.example\r\n", 400),
    ] {
        let mut http = server.connect();
        http.write(format!("{line}\r\n{hosts}Content-Length: {length}\r\n\r\n{}", ping(1)));
        assert_eq!(http.answer("POST").status(), status, "{line} {hosts}");
    }
}

#[test]
fn a_page_may_ask_only_if_its_origin_is_configured() {
    let server = MailServer::configured("origins = [\"http://localhost:3000\"]");
    let mut http = server.connect();
    let page = http.post("/mcp/", &[("Origin", "http://localhost:3000")], &ping(1));
    assert_eq!((page.status(), page.header("access-control-allow-origin")), (200, Some("http://localhost:3000")));
    assert_eq!(page.header("vary"), Some("origin"));
    assert!(page.header("access-control-expose-headers").is_some_and(|names| names.contains("mcp-session-id")));
    let program = http.post("/mcp/", &[], &ping(1));
    assert_eq!((program.status(), program.header("access-control-allow-origin")), (200, None));
    for origin in [
        "http://localhost:3001",
        "https://localhost:3000",
        "http://localhost",
        "http://localhost:3000.evil.example",
        "null",
        "",
        "*",
    ] {
        let answer = http.post("/mcp/", &[("Origin", origin)], &ping(1));
        assert_eq!((answer.status(), answer.header("access-control-allow-origin")), (403, None), "{origin}");
        assert!(answer.json()["error"]["message"].as_str().is_some_and(|text| text.contains("`origins`")));
    }
    // Even what comes from this very address is a page, and pages are not let in by themselves.
    let plain = MailServer::start();
    for origin in [format!("http://{}", plain.address), "http://localhost".into(), "http://127.0.0.1:3000".into()] {
        assert_eq!(plain.connect().post("/mcp/", &[("Origin", &origin)], &ping(1)).status(), 403, "{origin}");
    }
}

#[test]
fn a_page_that_asks_whether_it_may_is_answered_without_a_token() {
    let server =
        MailServer::configured(&format!("origins = [\"http://localhost:3000\", \"app://mail\"]\ntoken = {TOKEN:?}"));
    let mut http = server.connect();
    let asking = |origin| [("Origin", origin), ("Access-Control-Request-Method", "POST")];
    for origin in ["http://localhost:3000", "app://mail"] {
        let answer = http.request("OPTIONS", "/mcp/", &asking(origin), b"");
        assert_eq!((answer.status(), answer.header("access-control-allow-origin")), (204, Some(origin)));
        assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
        let headers = answer.header("access-control-allow-headers").unwrap_or_default();
        for name in ["authorization", "content-type", "mcp-session-id", "mcp-protocol-version"] {
            assert!(headers.contains(name), "{headers}");
        }
        assert_eq!(answer.header("access-control-max-age"), Some("600"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    // A page that may ask can read why it was refused.
    let refused = http.post("/mcp/", &[("Origin", "app://mail")], &ping(1));
    assert_eq!((refused.status(), refused.header("access-control-allow-origin")), (401, Some("app://mail")));
    let other = http.request("OPTIONS", "/mcp/", &asking("http://evil.example"), b"");
    assert_eq!((other.status(), other.header("access-control-allow-origin")), (403, None));
    // Where no page is configured, there is no CORS.
    let plain = MailServer::start();
    let answer = plain.connect().request("OPTIONS", "/mcp/", &asking("http://localhost:3000"), b"");
    assert_eq!((answer.status(), answer.header("access-control-allow-methods")), (403, None));
}

#[test]
fn beyond_this_machine_nothing_is_served_without_a_token() {
    let sandbox = Sandbox::new();
    MailServer::configure(&sandbox, "0.0.0.0:0", "", "");
    let output = sandbox.command(forged_binary()).run();
    assert_eq!(output.code, DENIED, "{output}");
    output.says(&["0.0.0.0:0 can be reached from other machines, and no token is configured", "set `token`"]);
    MailServer::configure(&sandbox, "0.0.0.0:0", "", &format!("token = {TOKEN:?}"));
    let mut daemon = Daemon::start(&sandbox);
    let address = MailServer::address_of(&mut daemon).replace("0.0.0.0", "127.0.0.1");
    let answer = Http::connect(&address).post("/mcp/", &[("Authorization", &format!("Bearer {TOKEN}"))], &ping(1));
    assert_eq!(answer.status(), 200);
    assert_eq!(Http::connect(&address).post("/mcp/", &[], &ping(1)).status(), 401);
    daemon.stop();
}

#[test]
fn a_short_token_is_refused_and_no_token_is_printed() {
    let sandbox = Sandbox::new();
    MailServer::configure(&sandbox, "127.0.0.1:0", "", "token = \"tooshort\"");
    let output = sandbox.command(forged_binary()).run();
    assert_ne!(output.code, 0, "{output}");
    output.says(&["mail.plugin.http.config.token", "32"]);
    assert!(!output.stderr.contains("tooshort"), "{output}");
    MailServer::configure(&sandbox, "127.0.0.1:0", "", &format!("token = {TOKEN:?}"));
    let shown = sandbox.fmail().args(["config", "show"]).ok();
    assert!(!shown.stdout.contains(TOKEN), "{shown}");
}

#[test]
fn a_project_that_nobody_trusts_lets_nobody_in() {
    for line in [
        "origins = [\"http://evil.example\"]",
        "hosts = [\"evil.example\"]",
        "address = \"127.0.0.1:1\"",
        "token = \"known-to-everybody-who-wrote-this-file\"",
    ] {
        let sandbox = Sandbox::new();
        MailServer::configure(&sandbox, "127.0.0.1:0", "", "");
        sandbox.write(".fmail/config.toml", format!("[mail.plugin.http.config]\n{line}\n"));
        let output = sandbox.command(forged_binary()).run();
        assert_ne!(output.code, 0, "{line}: {output}");
        output.says(&["in a project's file", "fmail trust"]);
    }
}

#[test]
fn an_address_that_is_taken_is_named_with_who_may_have_it() {
    let refused = |address: &str| {
        let sandbox = Sandbox::new();
        MailServer::configure(&sandbox, address, "", "");
        let output = sandbox.command(forged_binary()).run();
        assert_ne!(output.code, 0, "{output}");
        output.says(&[&format!("cannot listen on {address}"), "set another `address`"]);
        output
    };
    let server = MailServer::start();
    refused(&server.address).says(&[
        "another forged serves `http` there",
        "it serves all your projects",
        "leave `http` out",
    ]);
    server.daemon.stop();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    refused(&address.to_string()).says(&["another program is there", &format!("sport = :{}", address.port())]);
    let answering = std::thread::spawn(move || {
        // The connection of the attempt above is still in the queue.
        for stream in taken.incoming().flatten().take(2) {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-length: 0\r\n\r\n");
        }
    });
    refused(&address.to_string()).says(&["calls itself \"uvicorn\"", "perhaps another Agent Mail server"]);
    answering.join().unwrap();
}
