//! `fmail mcp serve --stdio`: a whole MCP server on a pipe, with no daemon and no set-up.

use std::path::Path;
use std::time::{Duration, Instant};

use fmail_e2e::mcp_pipe::McpPipe;
use fmail_e2e::{Daemon, Sandbox, fmail_binary};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A project's path, as the tools take it.
fn key(sandbox: &Sandbox) -> String {
    sandbox.path().canonicalize().unwrap().to_str().unwrap().to_string()
}

/// A server, its project, and these agents in it.
fn office(sandbox: &Sandbox, agents: &[&str]) -> (McpPipe, String) {
    let mut pipe = McpPipe::start(sandbox);
    let key = key(sandbox);
    pipe.tool("ensure_project", json!({"human_key": key}));
    for agent in agents {
        pipe.tool("register_agent", json!({"project_key": key, "name": agent, "program": "test", "model": "none"}));
    }
    (pipe, key)
}

fn letter(key: &str, from: &str, to: &str, subject: &str) -> Value {
    json!({"project_key": key, "sender_name": from, "to": [to], "subject": subject, "body_md": format!("body of {subject}")})
}

#[test]
fn a_client_can_begin_list_and_end() {
    let sandbox = Sandbox::new();
    let mut pipe = McpPipe::start(&sandbox);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = json!({"name": "test", "version": "1"});
        let begun =
            pipe.ask("initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}));
        assert_eq!(begun["protocolVersion"], version);
        assert_eq!(begun["serverInfo"]["name"], "fmail");
    }
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let tools = pipe.ask("tools/list", json!({}))["tools"].take();
    let names: Vec<&str> = tools.as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    for tool in ["health_check", "ensure_project", "register_agent", "send_message", "fetch_inbox", "wait_for_message"]
    {
        assert!(names.contains(&tool), "{names:?}");
    }
    assert_eq!(pipe.tool("health_check", json!({}))["status"], "ready");
    let output = pipe.end();
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
    assert!(!sandbox.store().exists(), "looking creates nothing");
    let mut few = McpPipe::with(sandbox.fmail(), &["--profile", "minimal"]);
    assert!(few.ask("tools/list", json!({}))["tools"].as_array().unwrap().len() < names.len());
    sandbox.fmail().args(["mcp", "serve"]).fails(2).says(&["--stdio"]);
}

#[test]
fn two_agents_with_a_server_each_write_to_each_other_and_to_the_command_line() {
    let sandbox = Sandbox::new();
    let (mut green, key) = office(&sandbox, &["GreenDog"]);
    let (mut blue, _) = office(&sandbox, &["BlueLake"]);
    let sent = green.tool("send_message", letter(&key, "GreenDog", "BlueLake", "Kickoff"));
    let id = sent["deliveries"][0]["payload"]["id"].clone();
    assert!(id.is_u64(), "{sent}");
    let inbox = blue.tool("fetch_inbox", json!({"project_key": key, "agent_name": "BlueLake", "include_bodies": true}));
    assert_eq!(inbox["result"][0]["id"], id);
    assert_eq!(inbox["result"][0]["body_md"], "body of Kickoff");
    blue.tool("acknowledge_message", json!({"project_key": key, "agent_name": "BlueLake", "message_id": id}));
    blue.tool(
        "reply_message",
        json!({"project_key": key, "sender_name": "BlueLake", "message_id": id, "body_md": "agreed"}),
    );
    let answered =
        green.tool("wait_for_message", json!({"project_key": key, "agent_name": "GreenDog", "timeout_seconds": 60}));
    assert_eq!(answered["messages"][0]["body_md"], "agreed", "{answered}");

    // One system: the command line sees their mail, and they see its.
    let names: Vec<Value> = sandbox.fmail().args(["who", "--json"]).ok().json_lines();
    let blue_name = names
        .iter()
        .flat_map(|line| line.as_array().cloned().unwrap_or(vec![line.clone()]))
        .filter_map(|agent| agent["name"].as_str().map(String::from))
        .find(|name| name.starts_with("bluelake"))
        .expect("BlueLake is an agent of the project");
    let log = sandbox.log(&blue_name, &[&format!("@{blue_name}")]);
    assert_eq!(log[0]["body"], "body of Kickoff");
    sandbox.send("carol", &format!("@{blue_name}"), "from the shell");
    let heard =
        blue.tool("wait_for_message", json!({"project_key": key, "agent_name": "BlueLake", "timeout_seconds": 60}));
    assert_eq!(
        (&heard["messages"][0]["body_md"], &heard["messages"][0]["from"]),
        (&json!("from the shell"), &json!("carol"))
    );
    let resource = format!("resource://inbox/BlueLake?project={}&include_bodies=true", key.replace('/', "%2F"));
    assert_eq!(blue.read(&resource)["count"], 2);
    for pipe in [green, blue] {
        let output = pipe.end();
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    }
}

#[test]
fn who_waits_holds_up_nobody_and_may_give_up() {
    let sandbox = Sandbox::new();
    let (mut pipe, key) = office(&sandbox, &["GreenDog", "BlueLake"]);
    let wait = |agent: &str| json!({"project_key": key, "agent_name": agent, "timeout_seconds": 600});
    let long = pipe.begin_tool("wait_for_message", wait("GreenDog"));
    let given_up = pipe.begin_tool("wait_for_message", wait("BlueLake"));
    assert_eq!(pipe.tool("health_check", json!({}))["status"], "ready", "the others are answered meanwhile");
    let twin = json!({"jsonrpc": "2.0", "id": long, "method": "ping"});
    pipe.send(&twin);
    let refused = pipe.await_message(|message| message["id"] == long);
    assert_eq!(refused["error"]["code"], -32600, "an id that is in use is refused: {refused}");
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": given_up, "reason": "no"}}));
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nobody's"}}));
    // The id is free again, which is how we know that the wait is over.
    let mut again = json!({"jsonrpc": "2.0", "id": given_up, "method": "ping"});
    loop {
        pipe.send(&again);
        let answer = pipe.await_message(|message| message["id"] == again["id"]);
        if answer.get("result").is_some() {
            break;
        }
        assert_eq!(answer["error"]["code"], -32600, "a request that was given up has no answer: {answer}");
        again["id"] = json!(given_up);
    }
    pipe.tool("send_message", letter(&key, "GreenDog", "BlueLake", "unheard"));
    pipe.tool("send_message", letter(&key, "BlueLake", "GreenDog", "heard"));
    let heard = pipe.answer(long);
    assert_eq!(heard["result"]["structuredContent"]["messages"][0]["subject"], "heard", "{heard}");
    assert_eq!(pipe.other_messages(Duration::ZERO), Vec::<Value>::new());
    assert_eq!(pipe.end().code, 0);
}

#[test]
fn broken_lines_are_told_and_the_next_is_read() {
    let sandbox = Sandbox::new();
    let mut pipe = McpPipe::start(&sandbox);
    let mut refused = |bytes: &[u8], code: i64| {
        pipe.bytes(bytes);
        let answer = pipe.await_message(|message| message.get("error").is_some());
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)), "{answer}");
    };
    refused(b"no JSON\n", -32700);
    refused(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \n", -32700);
    refused(b"\xff\xfe\n", -32700);
    refused("[".repeat(100_000).as_bytes().iter().chain(b"\n").copied().collect::<Vec<u8>>().as_slice(), -32700);
    refused(b"[{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}]\n", -32600);
    refused(b"\"text\"\n", -32600);
    let mut long = vec![b' '; 16 * 1024 * 1024 + 1];
    long.push(b'\n');
    refused(&long, -32700);
    pipe.bytes(b"\n  \r\n");
    pipe.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"split\",");
    pipe.bytes(b"\"method\":\"ping\"}\r\n");
    assert_eq!(pipe.await_message(|message| message["id"] == "split")["result"], json!({}));
    // The last line needs no end.
    pipe.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"ping\"}");
    pipe.close_input();
    assert_eq!(pipe.await_message(|message| message["id"] == "last")["result"], json!({}));
    assert_eq!(pipe.wait().code, 0);
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let sandbox = Sandbox::new();
    let (mut pipe, key) = office(&sandbox, &["GreenDog", "BlueLake"]);
    let ids: Vec<u64> = (0..50)
        .map(|number| pipe.begin_tool("send_message", letter(&key, "GreenDog", "BlueLake", &format!("n{number}"))))
        .collect();
    let wait = pipe
        .begin_tool("wait_for_message", json!({"project_key": key, "agent_name": "GreenDog", "timeout_seconds": 1}));
    pipe.close_input();
    for id in ids {
        let answer = pipe.answer(id);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    assert_eq!(pipe.answer(wait)["result"]["structuredContent"]["timed_out"], true);
    let output = pipe.wait();
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
    let (mut next, _) = office(&sandbox, &[]);
    let inbox = next.tool("fetch_inbox", json!({"project_key": key, "agent_name": "BlueLake", "limit": 1000}));
    assert_eq!(inbox["result"].as_array().map(Vec::len), Some(50), "what was answered is stored");
}

#[test]
fn a_signal_ends_it_cleanly_with_waits_under_way() {
    for signal in [Signal::TERM, Signal::INT] {
        let sandbox = Sandbox::new();
        let (mut pipe, key) = office(&sandbox, &["GreenDog"]);
        let wait = json!({"project_key": key, "agent_name": "GreenDog", "timeout_seconds": 600});
        let wait = pipe.begin_tool("wait_for_message", wait);
        assert_eq!(pipe.tool("health_check", json!({}))["status"], "ready");
        pipe.process().signal(signal);
        let start = Instant::now();
        let told = pipe.answer(wait);
        assert!(told["error"]["message"].as_str().is_some_and(|text| text.contains("ending")), "{told}");
        let output = pipe.wait();
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn a_killed_server_leaves_nothing_that_stops_the_next() {
    let sandbox = Sandbox::new();
    let (mut pipe, key) = office(&sandbox, &["GreenDog", "BlueLake"]);
    let mut answered = 0;
    for number in 0..200 {
        pipe.begin_tool("send_message", letter(&key, "GreenDog", "BlueLake", &format!("n{number}")));
    }
    while answered < 20 {
        let answer = pipe.await_message(|message| message["id"].is_u64());
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answered += 1;
    }
    pipe.process().signal(Signal::KILL);
    assert_eq!(pipe.wait().code, 137);
    let (mut next, _) = office(&sandbox, &[]);
    let inbox = next.tool("fetch_inbox", json!({"project_key": key, "agent_name": "BlueLake", "limit": 1000}));
    let stored = inbox["result"].as_array().unwrap().len();
    assert!(stored >= answered, "{stored} of at least {answered}");
    next.tool("send_message", letter(&key, "GreenDog", "BlueLake", "after"));
    assert_eq!(next.end().code, 0);
}

#[test]
fn a_file_of_requests_becomes_a_file_of_answers() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "in",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n",
    );
    sandbox.bash("bob", "fmail mcp serve --stdio < in > out").ok();
    let mut lines: Vec<String> =
        std::fs::read_to_string(sandbox.path().join("out")).unwrap().lines().map(String::from).collect();
    lines.sort();
    assert_eq!(lines, [1, 2].map(|id| json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string()));
}

#[test]
fn it_ends_when_nobody_reads_its_answers() {
    let sandbox = Sandbox::new();
    // The reader is gone at once; the writer stays.
    let script = format!("mkfifo in; (sleep 1000 > in) & {} mcp serve --stdio < in | true", fmail_binary().display());
    let output = sandbox.command(Path::new("bash")).args(["-c", &script]).run();
    assert_eq!(output.code, 0, "{output}");
}

#[test]
fn subscribers_are_told_of_changes_between_the_answers() {
    let sandbox = Sandbox::new();
    let (mut pipe, key) = office(&sandbox, &["GreenDog", "BlueLake"]);
    let uri = format!("resource://inbox/BlueLake?project={}", key.replace('/', "%2F"));
    pipe.ask("resources/subscribe", json!({"uri": uri}));
    pipe.tool("send_message", letter(&key, "GreenDog", "BlueLake", "news"));
    let told = pipe.await_message(|message| message["method"] == "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], uri);
    // From elsewhere too.
    let (mut other, _) = office(&sandbox, &[]);
    other.tool("send_message", letter(&key, "GreenDog", "BlueLake", "more news"));
    pipe.await_message(|message| message["method"] == "notifications/resources/updated");
    pipe.ask("resources/unsubscribe", json!({"uri": uri}));
    assert_eq!(pipe.end().code, 0, "a subscription does not keep it");
}

#[test]
fn a_path_elsewhere_is_a_key_and_makes_no_directory_there() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let below_home = sandbox.home().join("work/app");
    std::fs::create_dir_all(&below_home).unwrap();
    let mut pipe = McpPipe::start(&sandbox);
    for path in [elsewhere.to_str().unwrap(), "/no/such/place"] {
        let project = pipe.tool("ensure_project", json!({"human_key": path}));
        assert_eq!(project["human_key"], path);
        pipe.tool("register_agent", json!({"project_key": path, "name": "GreenDog", "program": "p", "model": "m"}));
        pipe.tool("send_message", letter(path, "GreenDog", "GreenDog", "to myself"));
    }
    assert!(std::fs::read_dir(&elsewhere).unwrap().next().is_none(), "nothing is made outside of the allowed roots");
    pipe.tool("ensure_project", json!({"human_key": below_home}));
    assert!(below_home.join(".fmail").is_dir(), "below the home it is the directory's own");
    pipe.tool("ensure_project", json!({"human_key": key(&sandbox)}));
    assert!(sandbox.store().is_dir(), "and so it is where the server was started");
    assert!(pipe.tool_error("ensure_project", json!({"human_key": "relative"})).contains("absolute"));
    // Started in the root of all files, it may not write everywhere.
    let mut at_root = McpPipe::with(sandbox.fmail().cwd("/"), &[]);
    at_root.tool("ensure_project", json!({"human_key": elsewhere}));
    assert!(std::fs::read_dir(&elsewhere).unwrap().next().is_none());
    assert_eq!((at_root.end().code, pipe.end().code), (0, 0));
}

/// The contract's workflow over a server on this sandbox's store.
fn workflow(sandbox: &Sandbox) {
    let (mut pipe, key) = office(sandbox, &["GreenDog", "BlueLake"]);
    let wait = pipe
        .begin_tool("wait_for_message", json!({"project_key": key, "agent_name": "BlueLake", "timeout_seconds": 600}));
    let sent = pipe.tool("send_message", letter(&key, "GreenDog", "BlueLake", "Kickoff"));
    let id = sent["deliveries"][0]["payload"]["id"].clone();
    assert_eq!(pipe.answer(wait)["result"]["structuredContent"]["messages"][0]["id"], id);
    let inbox = pipe.tool("fetch_inbox", json!({"project_key": key, "agent_name": "BlueLake"}));
    assert_eq!(inbox["result"][0]["id"], id);
    let reserved =
        pipe.tool("file_reservation_paths", json!({"project_key": key, "agent_name": "BlueLake", "paths": ["src/**"]}));
    assert_eq!(reserved["granted"].as_array().map(Vec::len), Some(1), "{reserved}");
    let acknowledged =
        pipe.tool("acknowledge_message", json!({"project_key": key, "agent_name": "BlueLake", "message_id": id}));
    assert_eq!(acknowledged["acknowledged"], true);
    let released = pipe.tool("release_file_reservations", json!({"project_key": key, "agent_name": "BlueLake"}));
    assert_eq!(released["released"], 1);
    assert_eq!(pipe.end().code, 0);
}

#[test]
fn it_works_on_every_way_to_a_store() {
    // Without a daemon, and beside one.
    let files = Sandbox::new();
    workflow(&files);
    let _daemon = Daemon::start(&files);
    workflow(&files);

    // A store that is a plugin: opened here, or through the daemon that has it.
    let sqlite = Sandbox::new();
    sqlite.configure("store = \"sqlite\"", "");
    workflow(&sqlite);
    let daemon = Daemon::start(&sqlite);
    workflow(&sqlite);
    daemon.stop();

    // A store that lives in the daemon's process.
    let memory = Sandbox::new();
    memory.configure("store = \"memory\"", "");
    let daemon = Daemon::start(&memory);
    workflow(&memory);
    let (mut pipe, key) = office(&memory, &["GreenDog"]);
    let refused = pipe.tool_error("search_messages", json!({"project_key": key, "query": "Kickoff"}));
    assert!(refused.contains("every mailbox"), "what cannot be seen is not left out silently: {refused}");
    daemon.stop();
    let refused = pipe.tool_error("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog"}));
    assert!(refused.contains("forged"), "an outage is no empty inbox: {refused}");
    assert_eq!(pipe.end().code, 0);
}

#[test]
fn a_changed_configuration_or_directory_is_seen() {
    let sandbox = Sandbox::new();
    let (mut pipe, key) = office(&sandbox, &["GreenDog"]);
    pipe.tool("send_message", letter(&key, "GreenDog", "GreenDog", "in the files"));
    sandbox.fmail().args(["--set", "mail.store=files", "whoami"]).ok();
    sandbox.configure("store = \"sqlite\"", "");
    sandbox.fmail().args(["store", "copy", "--from", "files", "--to", "sqlite"]).ok();
    pipe.tool("send_message", letter(&key, "GreenDog", "GreenDog", "in the database"));
    let inbox = pipe.tool("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog"}));
    let subjects: Vec<&str> =
        inbox["result"].as_array().unwrap().iter().filter_map(|row| row["subject"].as_str()).collect();
    assert_eq!(subjects, ["in the database", "in the files"]);
    sandbox.configure("", "");
    std::fs::remove_dir_all(sandbox.store()).unwrap();
    let refused = pipe.tool_error("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog"}));
    assert!(refused.contains("not found"), "a project that is gone is no empty inbox: {refused}");
    pipe.tool("ensure_project", json!({"human_key": key}));
    let refused = pipe.tool_error("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog"}));
    assert!(refused.contains("GreenDog"), "the new one has its own agents: {refused}");
    assert_eq!(pipe.end().code, 0);
}
