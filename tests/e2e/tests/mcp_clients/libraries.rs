//! The libraries for which there is a program that works through the contract.

use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Fmail, Sandbox, fmail_binary};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use xtask::clients::{Interpreter, Set};

use crate::{program, trial};

/// A library and what it can speak.
struct Library {
    name: &'static str,
    set: Set,
    program: &'static str,
    protocols: &'static [&'static str],
}

/// Until 2025-11-25 a client and a server agree on a version with `initialize`.
const WITH_A_HANDSHAKE: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Since then a request says its version itself. `auto` asks the server with `server/discover`, as these libraries do when
/// they are told nothing.
const ALL: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "auto"];
const NEWEST: &str = "2026-07-28";

const LIBRARIES: &[Library] = &[
    Library { name: "python_mcp_2", set: Set::Newest, program: "mcp_newest.py", protocols: ALL },
    Library { name: "python_mcp_1", set: Set::Previous, program: "mcp_previous.py", protocols: WITH_A_HANDSHAKE },
    Library { name: "fastmcp_4", set: Set::Newest, program: "fastmcp_newest.py", protocols: ALL },
    Library { name: "fastmcp_3", set: Set::Previous, program: "fastmcp_previous.py", protocols: WITH_A_HANDSHAKE },
    Library { name: "typescript_2", set: Set::Node, program: "sdk_newest.mjs", protocols: ALL },
    Library { name: "typescript_1", set: Set::Node, program: "sdk_previous.mjs", protocols: WITH_A_HANDSHAKE },
];

/// What each of them has to do, in every protocol: all tools of the contract, `whois`, and to hear of new mail.
const DONE: &[&str] = &[
    "tools/list",
    "health_check",
    "ensure_project",
    "register_agent",
    "whois",
    "file_reservation_paths",
    "renew_file_reservations",
    "send_message",
    "fetch_inbox",
    "reply_message",
    "mark_message_read",
    "acknowledge_message",
    "search_messages",
    "summarize_thread",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "macro_start_session",
    "macro_prepare_thread",
    "notifications/resources/updated",
    "wait_for_message",
    "errors",
    "release_file_reservations",
];

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789ab";

pub fn trials() -> Vec<Trial> {
    let of = |library: &'static Library| {
        let name = |way: &str| format!("{}::{way}", library.name);
        [
            trial(name("works_through_the_contract_in_every_protocol"), library.set, |it| over_http(library, &it)),
            trial(name("is_let_in_with_the_token_only"), library.set, |it| with_a_token(library, &it)),
            trial(name("works_through_the_contract_over_a_pipe"), library.set, |it| over_a_pipe(library, &it)),
        ]
    };
    LIBRARIES.iter().flat_map(of).collect()
}

fn over_http(library: &Library, interpreter: &Interpreter) {
    let server = MailServer::start();
    let argument = json!({"url": url(&server), "project": server.sandbox.path(), "protocols": library.protocols});
    let lines = program::lines(library.command(&server.sandbox, interpreter), &argument);
    check(library.protocols, &lines, &server.sandbox);
    server.daemon.stop();
}

fn with_a_token(library: &Library, interpreter: &Interpreter) {
    let server = MailServer::configured(&format!("token = {TOKEN:?}"));
    let protocols = library.few();
    let with = |more: Value| {
        let mut argument = json!({"url": url(&server), "project": server.sandbox.path(), "protocols": protocols});
        argument.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        program::lines(library.command(&server.sandbox, interpreter), &argument)
    };
    for wrong in [json!({"refused": true}), json!({"refused": true, "token": TOKEN.replace('0', "1")})] {
        for line in with(wrong) {
            // Some libraries pass on the status, some what the server says.
            let reason = line["refused"].as_str().unwrap_or_default().to_lowercase();
            assert!(["401", "unauthorized", "token"].iter().any(|word| reason.contains(word)), "{line}");
        }
    }
    check(&protocols, &with(json!({"token": TOKEN})), &server.sandbox);
    server.daemon.stop();
}

fn over_a_pipe(library: &Library, interpreter: &Interpreter) {
    let sandbox = Sandbox::new();
    sandbox.fmail().arg("init").ok();
    let command = [fmail_binary().to_str().expect("a path in UTF-8"), "mcp", "serve", "--stdio"];
    let protocols = library.few();
    let argument = json!({"command": command, "environment": {}, "project": sandbox.path(), "protocols": protocols});
    let lines = program::lines(library.command(&sandbox, interpreter), &argument);
    check(&protocols, &lines, &sandbox);
}

impl Library {
    fn command(&self, sandbox: &Sandbox, interpreter: &Interpreter) -> Fmail {
        match self.set {
            Set::Node => program::node(sandbox, interpreter, self.program),
            Set::Newest | Set::Previous => program::python(sandbox, interpreter, self.program),
        }
    }

    /// The newest version of each kind.
    fn few(&self) -> Vec<&'static str> {
        self.protocols.iter().copied().filter(|protocol| ["2025-11-25", "auto"].contains(protocol)).collect()
    }
}

fn url(server: &MailServer) -> String {
    format!("http://{}/mcp/", server.address)
}

/// Everything was done in every protocol that was asked for, and what was sent is in the project's files.
fn check(asked: &[&str], lines: &[Value], sandbox: &Sandbox) {
    assert_eq!(lines.len(), asked.len(), "{lines:?}");
    let stored = stored(sandbox);
    for (asked, line) in asked.iter().zip(lines) {
        let spoken = if *asked == "auto" { NEWEST } else { asked };
        assert_eq!((line["asked"].as_str(), line["protocol"].as_str()), (Some(*asked), Some(spoken)), "{line}");
        let did = |step: &&&str| line["did"].as_array().is_some_and(|did| did.iter().any(|done| done == **step));
        let missing: Vec<_> = DONE.iter().filter(|step| !did(step)).collect();
        assert!(missing.is_empty(), "not done: {missing:?} in {line}");
        let thread = line["thread"].as_str().expect("the name of a thread");
        let of_thread = stored.iter().filter(|message| message.to_string().contains(thread)).count();
        assert!(of_thread >= 2, "{thread} has {of_thread} messages in the files");
    }
}

/// Every message of the project, read from its files.
fn stored(sandbox: &Sandbox) -> Vec<Value> {
    let files = fmail_e2e::tree(&sandbox.store());
    let is_message = |path: &std::path::Path| path.extension().is_some_and(|kind| kind == "json");
    let messages = files.iter().filter(|(path, _)| path.starts_with("dm") && is_message(path));
    messages.map(|(path, text)| parsed(path, text)).collect()
}

/// A file of a tree: its kind and permissions stand before its contents.
fn parsed(path: &std::path::Path, text: &str) -> Value {
    let contents = text.splitn(3, ' ').nth(2).unwrap_or_default();
    serde_json::from_str(contents).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
