//! The command line of the MCP inspector: one process for each request.

use fmail_e2e::mcp::MailServer;
use fmail_e2e::{Fmail, fmail_binary};
use libtest_mimic::Trial;
use serde_json::Value;
use xtask::clients::{Interpreter, Set};

use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("inspector::works_through_the_typical_workflow", Set::Node, |it| workflow(&it)),
        trial("inspector::is_let_in_with_the_token_only", Set::Node, |it| token(&it)),
        trial("inspector::lists_the_tools_over_a_pipe", Set::Node, |it| pipe(&it)),
    ]
}

struct Inspector<'a> {
    server: &'a MailServer,
    interpreter: &'a Interpreter,
}

impl Inspector<'_> {
    fn command(&self, target: &[&str], arguments: &[&str]) -> Fmail {
        let program = self.interpreter.packages.join("@modelcontextprotocol/inspector/cli/build/cli.js");
        let command = self.server.sandbox.command(&self.interpreter.program);
        command.arg(program).arg("--cli").args(target).args(arguments)
    }

    /// A request over HTTP.
    fn ask(&self, arguments: &[&str]) -> Fmail {
        let url = format!("http://{}/mcp/", self.server.address);
        self.command(&[&url, "--transport", "http"], arguments)
    }

    /// Calls a tool; its answer as an object.
    #[track_caller]
    fn call(&self, tool: &str, given: &[(&str, &str)]) -> Value {
        let pairs = given.iter().map(|(name, value)| format!("{name}={value}"));
        let given: Vec<String> = pairs.flat_map(|pair| ["--tool-arg".to_string(), pair]).collect();
        let mut result = self.ask(&["--method", "tools/call", "--tool-name", tool]).args(given).ok().json();
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].take()
    }

    /// Reads a resource, which is JSON.
    #[track_caller]
    fn read(&self, uri: &str) -> Value {
        let result = self.ask(&["--method", "resources/read", "--uri", uri]).ok().json();
        let text = result["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{uri}: {result}"));
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{uri}: {error}: {text}"))
    }
}

fn names(listed: &Value, list: &str, field: &str) -> Vec<String> {
    let all = listed[list].as_array().unwrap_or_else(|| panic!("no {list}: {listed}"));
    all.iter().map(|one| one[field].as_str().unwrap_or_else(|| panic!("no {field}: {one}")).to_string()).collect()
}

fn workflow(interpreter: &Interpreter) {
    let server = MailServer::start();
    let inspector = Inspector { server: &server, interpreter };
    let tools = names(&inspector.ask(&["--method", "tools/list"]).ok().json(), "tools", "name");
    assert!(tools.iter().any(|tool| tool == "send_message") && tools.len() >= 16, "{tools:?}");

    let path = server.sandbox.path();
    let project = path.to_str().expect("a path in UTF-8");
    let here = ("project_key", project);
    assert_eq!(inspector.call("health_check", &[])["status"], "ready");
    let ensured = inspector.call("ensure_project", &[("human_key", project)]);
    let slug = ensured["slug"].as_str().expect("a slug");
    for name in ["GreenDog", "BlueMountain"] {
        let given = [here, ("name", name), ("program", "claude-code"), ("model", "opus-4.5")];
        assert_eq!(inspector.call("register_agent", &given)["name"], name);
    }
    let source = [here, ("agent_name", "GreenDog"), ("paths", r#"["apps/web/src/**"]"#)];
    let terms = [("ttl_seconds", "3600"), ("exclusive", "true")];
    let held = inspector.call("file_reservation_paths", &[source.as_slice(), &terms].concat());
    assert_eq!(held["granted"][0]["path_pattern"], "apps/web/src/**", "{held}");
    let letter = [
        here,
        ("sender_name", "GreenDog"),
        ("to", r#"["BlueMountain"]"#),
        ("subject", "KICKOFF: Cell fate investigation"),
        ("body_md", "# Research Session"),
        ("thread_id", "RS-20251230-cell-fate"),
        ("ack_required", "true"),
    ];
    let number = inspector.call("send_message", &letter)["deliveries"][0]["payload"]["id"].to_string();
    let inbox = inspector.call("fetch_inbox", &[here, ("agent_name", "BlueMountain"), ("limit", "20")]);
    assert_eq!(inbox["result"][0]["id"].to_string(), number, "{inbox}");
    let given = [here, ("agent_name", "BlueMountain"), ("message_id", &number)];
    assert_eq!(inspector.call("acknowledge_message", &given)["acknowledged"], true);
    assert_eq!(inspector.call("release_file_reservations", &source)["released"], 1);

    let listed = inspector.ask(&["--method", "resources/list"]).ok().json();
    let templates = inspector.ask(&["--method", "resources/templates/list"]).ok().json();
    let mut uris = names(&listed, "resources", "uri");
    uris.extend(names(&templates, "resourceTemplates", "uriTemplate"));
    for kind in ["agents", "inbox", "thread"] {
        assert!(uris.iter().any(|uri| uri.starts_with(&format!("resource://{kind}/"))), "{kind}: {uris:?}");
    }
    let encoded = project.replace('/', "%2F");
    let agents = inspector.read(&format!("resource://agents/{slug}"));
    assert_eq!(agents["agents"].as_array().map(Vec::len), Some(2), "{agents}");
    let inbox = inspector.read(&format!("resource://inbox/BlueMountain?project={encoded}&limit=20"));
    assert_eq!((inbox["count"].clone(), inbox["messages"][0]["id"].to_string()), (1.into(), number.clone()), "{inbox}");
    let thread = inspector.read(&format!("resource://thread/RS-20251230-cell-fate?project={encoded}"));
    assert_eq!(thread["messages"][0]["id"].to_string(), number, "{thread}");
    server.daemon.stop();
}

fn token(interpreter: &Interpreter) {
    let token = "0123456789abcdef0123456789abcdef0123456789ab";
    let server = MailServer::configured(&format!("token = {token:?}"));
    let inspector = Inspector { server: &server, interpreter };
    inspector.ask(&["--method", "tools/list"]).fails(1);
    let header = format!("Authorization: Bearer {token}");
    let tools = inspector.ask(&["--method", "tools/list", "--header", &header]).ok().json();
    assert!(names(&tools, "tools", "name").iter().any(|tool| tool == "send_message"), "{tools}");
    server.daemon.stop();
}

fn pipe(interpreter: &Interpreter) {
    let server = MailServer::start();
    let inspector = Inspector { server: &server, interpreter };
    let fmail = fmail_binary().to_str().expect("a path in UTF-8");
    // The inspector takes the options of the server for its own, unless they come after its own.
    let tools = inspector.command(&[fmail, "mcp", "serve", "--stdio"], &["--method", "tools/list"]).ok().json();
    assert!(names(&tools, "tools", "name").iter().any(|tool| tool == "send_message"), "{tools}");
}
