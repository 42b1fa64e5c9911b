//! `fmail mcp tools|call|read` against our own server: forged with the transport http.

use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Fmail, Output};
use serde_json::{Value, json};

fn mcp(server: &MailServer, args: &[&str]) -> Fmail {
    server.sandbox.fmail().env("AGENT_MAIL_BASE_URL", format!("http://{}", server.address)).arg("mcp").args(args)
}

fn call(server: &MailServer, tool: &str, arguments: &Value) -> Fmail {
    mcp(server, &["call", tool, "--json", &arguments.to_string()])
}

fn called(server: &MailServer, tool: &str, arguments: Value) -> Value {
    call(server, tool, &arguments).ok().json()
}

#[test]
fn the_contracts_workflow_runs_from_a_shell() {
    let server = MailServer::start();
    let key = server.sandbox.path().canonicalize().unwrap().to_str().unwrap().to_string();
    let listed = mcp(&server, &["tools"]).ok().stdout;
    assert!(listed.starts_with("TOOL ") && listed.contains("\nsend_message "), "{listed}");
    let tools = mcp(&server, &["tools", "--json"]).ok().json();
    assert!(tools.as_array().unwrap().iter().all(|tool| tool["inputSchema"].is_object()));
    assert_eq!(called(&server, "health_check", json!({}))["status"], "ready");
    let project = called(&server, "ensure_project", json!({"human_key": key}));
    let slug = project["slug"].as_str().unwrap().to_string();
    for agent in ["GreenDog", "BlueLake"] {
        let asked = json!({"project_key": key, "name": agent, "program": "shell", "model": "none"});
        assert_eq!(called(&server, "register_agent", asked)["name"], agent);
    }
    let reserve = json!({"project_key": key, "agent_name": "GreenDog", "paths": ["src/**"], "exclusive": true});
    assert_eq!(called(&server, "file_reservation_paths", reserve.clone())["granted"].as_array().unwrap().len(), 1);
    let theirs = json!({"project_key": key, "agent_name": "BlueLake", "paths": ["src/main.rs"], "exclusive": true});
    call(&server, "file_reservation_paths", &theirs).fails(8).says(&["GreenDog"]);
    let letter = json!({"project_key": key, "sender_name": "GreenDog", "to": ["BlueLake"], "subject": "KICKOFF: x", "body_md": "# Hello"});
    let id = called(&server, "send_message", letter)["deliveries"][0]["payload"]["id"].clone();
    assert!(id.is_u64());
    let inbox =
        called(&server, "fetch_inbox", json!({"project_key": key, "agent_name": "BlueLake", "include_bodies": true}));
    assert_eq!((&inbox["result"][0]["id"], &inbox["result"][0]["body_md"]), (&id, &json!("# Hello")));
    let acknowledge = json!({"project_key": key, "agent_name": "BlueLake", "message_id": id});
    assert_eq!(called(&server, "acknowledge_message", acknowledge)["acknowledged"], true);
    let release = json!({"project_key": key, "agent_name": "GreenDog"});
    assert_eq!(called(&server, "release_file_reservations", release)["released"], 1);

    let agents = mcp(&server, &["read", &format!("resource://agents/{slug}"), "--json"]).ok().json();
    assert_eq!(agents["agents"].as_array().unwrap().len(), 2);
    let encoded = key.replace('/', "%2F");
    let inbox = mcp(&server, &["read", &format!("resource://inbox/BlueLake?project={encoded}"), "--json"]).ok().json();
    assert_eq!(inbox["messages"][0]["id"], id);

    let fails = |tool: &str, arguments: Value, code: i32, says: &str| -> Output {
        let output = call(&server, tool, &arguments).fails(code);
        output.says(&[says]);
        output
    };
    fails("no_such_tool", json!({}), 7, "no_such_tool");
    fails("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDogg"}), 7, "GreenDog");
    fails("fetch_inbox", json!({"project_key": "/no/such/project", "agent_name": "GreenDog"}), 7, "ensure_project");
    fails("ensure_project", json!({"human_key": "relative"}), 5, "absolute");
    fails("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog", "limit": 0}), 2, "limit");
    mcp(&server, &["read", "resource://nope/x"]).fails(7).says(&["resource://nope/x"]);
    mcp(&server, &["tools", "--path", "/elsewhere/"]).fails(14).says(&["no MCP endpoint"]);
    server.daemon.stop();
}

#[test]
fn a_token_is_shown_and_a_wrong_one_is_denied() {
    let token = "correct-horse-battery-staple-0042";
    let server = MailServer::configured(&format!("token = {token:?}\n"));
    let asked = |token: &str| mcp(&server, &["call", "health_check"]).env("AGENT_MAIL_BEARER_TOKEN", token);
    asked(token).ok();
    let denied = asked("wrong-horse-battery-staple-00042").fails(9);
    denied.says(&["refuses the token"]);
    assert!(!denied.stderr.contains("wrong-horse"), "{denied}");
    mcp(&server, &["call", "health_check"]).fails(9).says(&["wants a token", "AGENT_MAIL_BEARER_TOKEN"]);
    let file = server.sandbox.write("token", token);
    mcp(&server, &["tools", "--token-file"]).arg(file).ok();
}
