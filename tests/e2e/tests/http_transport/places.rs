//! What is served where, and by which method.

use fmail_e2e::mcp::MailServer;
use serde_json::json;

use crate::ping;

#[test]
fn mcp_is_served_at_every_path_that_its_clients_know_without_a_redirect() {
    let server = MailServer::start();
    let mut http = server.connect();
    for path in ["/mcp", "/mcp/", "/api", "/api/"] {
        let answer = http.post(path, &[], &ping(path));
        assert_eq!((answer.status(), &answer.json()["id"]), (200, &json!(path)), "{answer:?}");
        assert_eq!(answer.json()["result"], json!({}), "{answer:?}");
    }
    for path in ["/", "/mcp//", "/mcp/foo", "//mcp", "/MCP/", "/mcp/../api/", "/sse", "/messages"] {
        let answer = http.post(path, &[], &ping(1));
        assert_eq!(answer.status(), 404, "{path}: {answer:?}");
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_string();
        assert!(detail.contains("Not Found") && detail.contains("MCP is served at /mcp/"), "{path}: {detail}");
    }
}

#[test]
fn another_path_is_served_beside_the_usual_ones() {
    let server = MailServer::configured("path = \"/agent-mail\"");
    let mut http = server.connect();
    for path in ["/agent-mail", "/agent-mail/", "/mcp/", "/api"] {
        assert_eq!(http.post(path, &[], &ping(1)).status(), 200, "{path}");
    }
    let sandbox = fmail_e2e::Sandbox::new();
    for (path, why) in [("mcp", "does not begin with a slash"), ("/a b/", "no plain name"), ("/health/", "already")] {
        MailServer::configure(&sandbox, "127.0.0.1:0", "", &format!("path = {path:?}"));
        let output = sandbox.command(fmail_e2e::forged_binary()).run();
        assert_ne!(output.code, 0, "{output}");
        output.says(&["`path` is", why]);
    }
}

#[test]
fn it_lives_and_is_ready() {
    let server = MailServer::start();
    let mut http = server.connect();
    for (path, word) in [("/health/liveness", "alive"), ("/health/readiness", "ready")] {
        let answer = http.request("GET", path, &[], b"");
        assert_eq!((answer.status(), answer.json()), (200, json!({"status": word})));
        let head = http.request("HEAD", path, &[], b"");
        assert_eq!((head.status(), head.body.len()), (200, 0));
        let posted = http.request("POST", path, &[], b"");
        assert_eq!((posted.status(), posted.header("allow")), (405, Some("GET, HEAD")));
    }
    for path in ["/health", "/healthz", "/health/", "/health/else"] {
        assert_eq!(http.request("GET", path, &[], b"").status(), 404, "{path}");
    }
    server.daemon.stop();
}

#[test]
fn who_looks_for_oauth_is_told_in_json_that_there_is_none() {
    let server = MailServer::configured("token = \"correct-horse-battery-staple-0042\"");
    let mut http = server.connect();
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/oauth-protected-resource/mcp/",
        "/.well-known/openid-configuration",
    ] {
        let answer = http.request("GET", path, &[], b"");
        assert_eq!((answer.status(), &answer.json()["mcp_oauth"]), (404, &json!(false)), "{path}");
    }
}

#[test]
fn other_methods_are_refused_with_those_that_there_are() {
    let server = MailServer::start();
    let mut http = server.connect();
    for method in ["PUT", "HEAD", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let answer = http.request(method, "/mcp/", &[], b"");
        assert_eq!((answer.status(), answer.header("allow")), (405, Some("GET, POST, DELETE")), "{method}");
        if method != "HEAD" {
            assert_eq!(answer.json()["error"]["code"], -32000, "{method}");
        }
    }
    // A GET that takes no events would wait for nothing.
    for accept in [&[][..], &[("Accept", "application/json")], &[("Accept", "*/*")]] {
        let answer = http.request("GET", "/mcp/", accept, b"");
        assert_eq!((answer.status(), answer.header("allow")), (405, Some("GET, POST, DELETE")), "{accept:?}");
        assert!(answer.text().contains("Accept: text/event-stream"), "{}", answer.text());
    }
    for method in ["GET", "DELETE", "PUT"] {
        let answer = http.request(method, "/fmail/", &[], b"");
        assert_eq!((answer.status(), answer.header("allow")), (405, Some("POST")), "{method}");
    }
}
