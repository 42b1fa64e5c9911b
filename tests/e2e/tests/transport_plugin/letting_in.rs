//! Who may connect.

use fmail_e2e::web_socket::WebSocket;
use fmail_e2e::{Sandbox, forged_binary};
use serde_json::json;

use crate::{Served, configure};

const TOKEN: &str = "correct-horse-battery-staple-0042";
/// The exit code of `denied`.
const DENIED: i32 = 9;
const OTHER: &str = "correct-horse-battery-staple-0043";

/// Requires that a client is let in and answered.
#[track_caller]
fn enters(served: &Served, headers: &[(&str, &str)]) {
    let mut socket = WebSocket::connect_with(&served.address, headers).unwrap_or_else(|refused| panic!("{refused}"));
    assert_eq!(socket.ask(&json!({"cmd": "topics", "agent": "page"}))["ok"], true);
}

/// Requires that a client is refused, in these words.
#[track_caller]
fn refused(served: &Served, headers: &[(&str, &str)], parts: &[&str]) {
    let Err(answer) = WebSocket::connect_with(&served.address, headers) else { panic!("{headers:?} was let in") };
    for part in parts {
        assert!(answer.contains(part), "{part:?} is not in: {answer}");
    }
}

#[test]
fn a_page_is_let_in_only_if_its_origin_is_allowed() {
    let served = Served::configured("origins = [\"http://localhost:3000\"]");
    enters(&served, &[("Origin", "http://localhost:3000")]);
    enters(&served, &[]);
    for origin in ["http://localhost:3001", "https://localhost:3000", "http://localhost:3000.evil.example", "null", ""]
    {
        refused(&served, &[("Origin", origin)], &["HTTP/1.1 403 ", "its origin is not in `origins`"]);
    }
    refused(&Served::start(), &[("Origin", "http://localhost:3000")], &["HTTP/1.1 403 "]);
}

#[test]
fn where_there_is_a_token_it_is_needed() {
    let served = Served::configured(&format!("token = {TOKEN:?}"));
    enters(&served, &[("Authorization", &format!("Bearer {TOKEN}"))]);
    refused(&served, &[], &["HTTP/1.1 401 ", "a token is needed: Authorization: Bearer <token>"]);
    let wrong = ["", "Bearer", "Bearer ", TOKEN, &format!("Bearer {OTHER}"), &format!("Bearer {TOKEN}x")];
    for given in wrong {
        refused(&served, &[("Authorization", given)], &["HTTP/1.1 401 "]);
    }
    refused(
        &served,
        &[("Authorization", &format!("Bearer {OTHER}"))],
        &["the token is not the one that is configured"],
    );
}

#[test]
fn beyond_this_machine_nothing_is_served_without_a_token() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "0.0.0.0:0", "");
    let output = sandbox.command(forged_binary()).run();
    assert_eq!(output.code, DENIED, "{output}");
    output.says(&[
        "0.0.0.0:0 can be reached from other machines, and no token is configured",
        "set `token` in the section of this plugin, and put TLS before it; or listen on 127.0.0.1",
    ]);
    configure(&sandbox, "0.0.0.0:0", &format!("token = {TOKEN:?}"));
    let mut daemon = fmail_e2e::Daemon::start(&sandbox);
    let address = daemon.address("ws").replace("0.0.0.0", "127.0.0.1");
    assert!(WebSocket::connect_with(&address, &[("Authorization", &format!("Bearer {TOKEN}"))]).is_ok());
    daemon.stop();
}

#[test]
fn a_short_token_is_refused_and_not_printed() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "127.0.0.1:0", "token = \"tooshort\"");
    let output = sandbox.command(forged_binary()).run();
    assert_ne!(output.code, 0, "{output}");
    output.says(&["mail.plugin.ws.config.token", "32"]);
    assert!(!output.stderr.contains("tooshort"), "{output}");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let sandbox = Sandbox::new();
    configure(&sandbox, &address, "");
    let output = sandbox.command(forged_binary()).run();
    assert_ne!(output.code, 0, "{output}");
    output.says(&[&format!("cannot listen on {address}")]);
}
