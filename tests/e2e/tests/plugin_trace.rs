//! `FMAIL_PLUGIN_TRACE`: every verb, in both directions, as lines of JSON.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fmail_e2e::web_socket::WebSocket;
use fmail_e2e::{Daemon, Sandbox};
use serde_json::{Value, json};

fn lines(trace: &Path) -> Vec<Value> {
    let text = fs::read_to_string(trace).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The first line to this side that has all of these fields.
#[track_caller]
fn find<'a>(lines: &'a [Value], to: &str, fields: &Value) -> &'a Value {
    let fields = fields.as_object().unwrap();
    let fits = |line: &&Value| line["to"] == to && fields.iter().all(|(name, value)| line[name] == *value);
    lines.iter().find(fits).unwrap_or_else(|| panic!("no {fields:?} to {to} in {lines:#?}"))
}

/// Runs a daemon on a store, with a trace, and one message through it.
fn traced(store: &str, section: &str) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("store = {store:?}"), section);
    let trace = sandbox.outside().join("trace.jsonl");
    let daemon = Daemon::start_with(&sandbox, |command| command.env("FMAIL_PLUGIN_TRACE", &trace));
    sandbox.send("alice", "task", "in the trace");
    daemon.stop();
    (sandbox, trace)
}

#[test]
fn every_verb_of_a_store_is_there_in_both_directions() {
    let apart = |store: &str| format!("[mail.plugin.{store}]\nisolation = \"process\"");
    let cases = [
        ("example-python", String::new()),
        ("example-c", String::new()),
        ("example-rust", apart("example-rust")),
        ("sqlite", String::new()),
    ];
    for (store, section) in cases {
        let (_sandbox, trace) = traced(store, &section);
        let lines = lines(&trace);
        for line in &lines {
            assert!(line["time"].is_string() && line["plugin"] == store, "{line}");
        }
        let create = lines.iter().find(|line| line.get("create").is_some()).expect("an instance was made");
        assert_eq!((&create["to"], &create["envelope"]["role"]), (&json!("plugin"), &json!("store")));
        find(&lines, "host", &json!({"done": create["create"]}));
        let holds = |line: &&Value| line["method"] == "append" && line["request"].to_string().contains("in the trace");
        let append = lines.iter().find(holds).expect("the message was appended");
        assert_eq!(append["to"], "plugin");
        let at = |wanted: &Value| lines.iter().position(|line| line == wanted);
        let done = find(&lines, "host", &json!({"done": append["call"]}));
        assert!(at(append) < at(done), "{store}: what is asked stands before what is answered");
        let destroy = lines.iter().find(|line| line.get("destroy").is_some()).expect("the instance was let go of");
        find(&lines, "host", &json!({"done": destroy["destroy"]}));
    }
}

#[test]
fn what_a_plugin_asks_of_the_host_is_there_too() {
    let sandbox = Sandbox::new();
    let section = "[mail.plugin.ws.config]\naddress = \"127.0.0.1:0\"";
    sandbox.configure("transports = [\"unix\", \"ws\"]", section);
    let trace = sandbox.outside().join("trace.jsonl");
    let mut daemon = Daemon::start_with(&sandbox, |command| command.env("FMAIL_PLUGIN_TRACE", &trace));
    let address = daemon.address("ws");
    let mut socket = WebSocket::connect(&address);
    let request = json!({"cmd": "send", "agent": "page", "to": "task", "body": "x"});
    let id = socket.ask(&request)["id"].clone();
    daemon.stop();
    let lines = lines(&trace);
    let serve = find(&lines, "plugin", &json!({"method": "serve"}));
    assert_eq!(find(&lines, "host", &json!({"item": serve["call"]}))["body"]["endpoint"], format!("ws://{address}"));
    find(&lines, "plugin", &json!({"pull": serve["call"]}));
    find(&lines, "host", &json!({"method": "request", "request": request}));
    let answered = |line: &&Value| line["to"] == "plugin" && line["body"]["id"] == id;
    assert!(lines.iter().any(|line| answered(&line)), "{lines:#?}");
    find(&lines, "plugin", &json!({"method": "shutdown"}));
}

#[test]
fn a_trace_is_the_users_own_and_grows() {
    let (sandbox, trace) = traced("sqlite", "");
    assert_eq!(fs::metadata(&trace).unwrap().permissions().mode() & 0o777, 0o600);
    let before = lines(&trace).len();
    // A command of its own opens the store itself.
    sandbox.agent("alice").env("FMAIL_PLUGIN_TRACE", &trace).args(["send", "task", "more"]).ok();
    assert!(lines(&trace).len() > before);
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_by_name() {
    let sandbox = Sandbox::new();
    sandbox.configure("store = \"sqlite\"", "");
    let output = sandbox.agent("alice").env("FMAIL_PLUGIN_TRACE", "/nowhere/trace").args(["send", "task", "x"]).run();
    assert_ne!(output.code, 0);
    output.says(&["cannot write /nowhere/trace", "FMAIL_PLUGIN_TRACE", "name a file that can be written, or unset it"]);
}
