//! What is served where, and by which method.

use fmail_e2e::mcp::MailServer;
use serde_json::json;

fn ping(id: &str) -> serde_json::Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

#[test]
fn mcp_is_served_at_every_path_that_its_clients_know_without_a_redirect() {
    let server = MailServer::start();
    let mut http = server.connect();
    for path in ["/mcp", "/mcp/", "/api", "/api/"] {
        let answer = http.post(path, &[], &ping(path));
        assert_eq!((answer.status(), &answer.json()["id"]), (200, &json!(path)), "{answer:?}");
    }
}

#[test]
fn it_lives_and_is_ready() {
    let server = MailServer::start();
    let mut http = server.connect();
    let lives = http.request("GET", "/health/liveness", &[], b"");
    assert_eq!((lives.status(), lives.json()), (200, json!({"status": "alive"})));
    let ready = http.request("GET", "/health/readiness", &[], b"");
    assert_eq!((ready.status(), ready.json()), (200, json!({"status": "ready"})));
    server.daemon.stop();
}
