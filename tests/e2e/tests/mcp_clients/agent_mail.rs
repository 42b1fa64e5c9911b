//! A client that behaves as Brenner Bot's does.

use fmail_e2e::mcp::MailServer;
use libtest_mimic::Trial;
use serde_json::json;
use xtask::clients::{Interpreter, Set};

use crate::{program, trial};

pub fn trials() -> Vec<Trial> {
    let cases: [(&str, &str, Option<&str>); 3] = [
        ("works_as_it_is", "/mcp/", None),
        ("works_with_another_path_and_without_a_slash", "/api", None),
        ("works_with_a_token", "/mcp/", Some("0123456789abcdef0123456789abcdef0123456789ab")),
    ];
    let of = |(name, path, token)| {
        trial(format!("agent_mail::{name}"), Set::Node, move |interpreter| works(&interpreter, path, token))
    };
    cases.into_iter().map(of).collect()
}

fn works(interpreter: &Interpreter, path: &str, token: Option<&str>) {
    let server = MailServer::configured(&token.map(|token| format!("token = {token:?}")).unwrap_or_default());
    let base = format!("http://{}", server.address);
    let argument = json!({"base": base, "path": path, "token": token, "project": server.sandbox.path()});
    let lines = program::lines(program::node(&server.sandbox, interpreter, "agent_mail.mjs"), &argument);
    let did = lines[0]["did"].as_array().expect("a list of what it did");
    for step in ["GET /health/readiness", "whois", "register_agent", "send_message", "fetch_inbox", "reply_message"] {
        assert!(did.iter().any(|done| done == step), "{step}: {lines:?}");
    }
    server.daemon.stop();
}
