//! A client that sees every answer whole.

use std::sync::Arc;

use fmail_api::{Client as _, Context, Request};
use fmail_mcp::testing::LocalProjects;
use fmail_mcp::{Options, Outcome, Peer, Profile, Server};
use futures::executor::block_on;
use serde_json::{Value, json};

/// The contract's project.
pub const PROJECT: &str = "/data/projects/brenner_bot";

pub struct Client {
    pub server: Arc<Server>,
    pub projects: Arc<LocalProjects>,
    pub peer: Peer,
}

impl Client {
    pub fn new(projects: Arc<LocalProjects>, profile: Profile) -> Self {
        let server = Arc::new(Server::new(projects.clone(), Options { profile }));
        Client { server, projects, peer: Peer::default() }
    }

    pub fn in_memory() -> Self {
        Client::new(LocalProjects::in_memory(), Profile::Full)
    }

    /// One with the contract's project and its three agents.
    pub fn with_agents() -> Self {
        let client = Client::in_memory();
        client.introduce();
        client
    }

    /// Another client of the same server, in this session.
    pub fn in_session(&self, session: &str) -> Client {
        let peer = Peer { session: Some(session.into()), ..Peer::default() };
        Client { server: self.server.clone(), projects: self.projects.clone(), peer }
    }

    pub fn introduce(&self) {
        self.call("ensure_project", json!({"human_key": PROJECT}));
        for name in ["GreenDog", "BlueMountain", "RedForest"] {
            self.register(name);
        }
    }

    pub fn register(&self, name: &str) -> Value {
        let told = json!({"project_key": PROJECT, "name": name, "program": "claude-code", "model": "opus-4.5"});
        self.call("register_agent", told)
    }

    /// The whole answer to a message.
    pub fn handle(&self, message: Value) -> Outcome {
        block_on(self.server.handle(&self.peer, message))
    }

    /// The whole answer to a request.
    pub fn request(&self, method: &str, params: Value) -> Value {
        match self.handle(json!({"jsonrpc": "2.0", "id": "1f0e-uuid", "method": method, "params": params})) {
            Outcome::Answer(answer) => {
                assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("1f0e-uuid")));
                assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
                answer
            }
            _ => panic!("{method} has no answer"),
        }
    }

    /// The result of a call of a tool.
    pub fn result(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))["result"].take()
    }

    /// What a tool answers when all is well: the same as text and as an object.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut result = self.result(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {}", result["content"][0]["text"]);
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        let structured = result["structuredContent"].take();
        assert!(structured.is_object(), "{tool}: {structured}");
        assert!(text == structured || text == structured["result"], "{tool}: {text} and {structured}");
        structured
    }

    /// The rows of a tool that answers with a list.
    #[track_caller]
    pub fn rows(&self, tool: &str, arguments: Value) -> Vec<Value> {
        self.call(tool, arguments)["result"].as_array().unwrap().clone()
    }

    /// What a tool says when it fails, and its kind of failure.
    #[track_caller]
    pub fn fails(&self, tool: &str, arguments: Value) -> (String, String) {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let (text, error) = (result["content"][0]["text"].as_str().unwrap(), &result["structuredContent"]["error"]);
        assert_eq!(error["message"], text);
        assert!(error["recoverable"].is_boolean() && error["data"].is_object(), "{error}");
        (error["type"].as_str().unwrap().into(), text.into())
    }

    /// The content of a resource.
    #[track_caller]
    pub fn read(&self, uri: &str) -> Value {
        let answer = self.request("resources/read", json!({"uri": uri}));
        let contents = &answer["result"]["contents"][0];
        assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!(uri), &json!("application/json")), "{answer}");
        serde_json::from_str(contents["text"].as_str().unwrap()).unwrap()
    }

    /// The error of a resource that cannot be read.
    #[track_caller]
    pub fn unreadable(&self, uri: &str) -> Value {
        self.request("resources/read", json!({"uri": uri}))["error"].take()
    }

    /// Sends a message from GreenDog and gives its row.
    #[track_caller]
    pub fn send(&self, to: &[&str], subject: &str, body: &str, more: Value) -> Value {
        let mut arguments = json!({"project_key": PROJECT, "sender_name": "GreenDog", "to": to, "subject": subject,
            "body_md": body});
        arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.call("send_message", arguments)["deliveries"][0]["payload"].take()
    }

    /// The inbox of an agent, with bodies.
    #[track_caller]
    pub fn inbox(&self, agent: &str) -> Vec<Value> {
        self.rows("fetch_inbox", json!({"project_key": PROJECT, "agent_name": agent, "include_bodies": true}))
    }

    /// Runs an operation beside MCP, as a command line would.
    pub fn beside(&self, agent: &str, request: Request) -> fmail_api::Result<fmail_api::Reply> {
        let operations = self.projects.operations(PROJECT).unwrap();
        block_on(operations.call(&Context::local(agent.parse().unwrap()), request))
    }
}

/// The same test over every store.
pub fn on_each_store(test: impl Fn(&Client)) {
    test(&Client::in_memory());
    let directory = tempfile::tempdir().unwrap();
    test(&Client::new(LocalProjects::in_files(directory.path()), Profile::Full));
}

/// The values of a field in rows.
pub fn field<'a>(rows: &'a [Value], name: &str) -> Vec<&'a Value> {
    rows.iter().map(|row| &row[name]).collect()
}
