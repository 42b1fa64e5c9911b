//! A client of MCP that is nothing but a connection and JSON, and a daemon for it.

use serde_json::{Value, json};

use crate::http::{Answer, Http};
use crate::{Daemon, Sandbox};

/// A daemon that serves MCP on a free port.
pub struct MailServer {
    /// The daemon.
    pub daemon: Daemon,
    /// Where it listens: `host:port`.
    pub address: String,
    /// Its project.
    pub sandbox: Sandbox,
}

impl Default for MailServer {
    fn default() -> Self {
        MailServer::start()
    }
}

impl MailServer {
    /// Starts one in a new sandbox.
    pub fn start() -> MailServer {
        MailServer::configured("")
    }

    /// With further lines of the plugin's own section.
    pub fn configured(lines: &str) -> MailServer {
        MailServer::in_sandbox(Sandbox::new(), "", lines)
    }

    /// In this sandbox, with further lines of the section `mail` and of the plugin's own section.
    pub fn in_sandbox(sandbox: Sandbox, mail: &str, lines: &str) -> MailServer {
        MailServer::configure(&sandbox, "127.0.0.1:0", mail, lines);
        let mut daemon = Daemon::start(&sandbox);
        let address = MailServer::address_of(&mut daemon);
        MailServer { daemon, address, sandbox }
    }

    /// Writes the configuration of such a daemon.
    pub fn configure(sandbox: &Sandbox, address: &str, mail: &str, lines: &str) {
        let section = format!("[mail.plugin.http.config]\naddress = {address:?}\n{lines}");
        sandbox.configure(&format!("transports = [\"unix\", \"http\"]\n{mail}"), &section);
    }

    /// Where a daemon serves MCP: `host:port`.
    pub fn address_of(daemon: &mut Daemon) -> String {
        let endpoint = daemon.address("http");
        endpoint.split('/').next().unwrap_or_default().to_string()
    }

    /// A connection.
    pub fn connect(&self) -> Http {
        Http::connect(&self.address)
    }

    /// A client that says nothing but its requests.
    pub fn client(&self) -> Mcp {
        Mcp::new(&self.address)
    }

    /// Starts the daemon again, on another port.
    pub fn restart(self) -> MailServer {
        self.daemon.stop();
        let mut daemon = Daemon::start(&self.sandbox);
        let address = MailServer::address_of(&mut daemon);
        MailServer { daemon, address, sandbox: self.sandbox }
    }
}

/// A client. It says no `initialize`, and names no session and no version unless it was told to.
pub struct Mcp {
    address: String,
    /// Where MCP is served.
    pub path: String,
    /// Headers beside those that HTTP needs.
    pub headers: Vec<(String, String)>,
    connection: Option<Http>,
    last: u64,
}

impl Mcp {
    /// A client of the daemon at `host:port`.
    pub fn new(address: &str) -> Mcp {
        Mcp { address: address.into(), path: "/mcp/".into(), headers: Vec::new(), connection: None, last: 0 }
    }

    /// Adds a header to all that it asks.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Mcp {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Posts a message, and gives the answer of HTTP.
    #[track_caller]
    pub fn post(&mut self, message: &Value) -> Answer {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let connection = self.connection.get_or_insert_with(|| Http::connect(&self.address));
        let answer = connection.post(&self.path, &headers, message);
        if answer.header("connection") == Some("close") {
            self.connection = None;
        }
        answer
    }

    /// Asks, and gives the JSON-RPC answer, which has to be to this very request.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = format!("request-{}", self.last);
        let answer = self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let body = answer.json();
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(id)), "{method}: {answer:?}");
        body
    }

    /// The result of a request.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let mut body = self.ask(method, params);
        assert!(body.get("error").is_none(), "{method}: {body}");
        body["result"].take()
    }

    /// Calls a tool, and gives its result, good or bad.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool that succeeds, and gives what it says in JSON.
    #[track_caller]
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].take()
    }

    /// Calls a tool that fails, and gives what it says.
    #[track_caller]
    pub fn tool_error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{tool}: {result}")).to_string()
    }

    /// Reads a resource that is JSON.
    #[track_caller]
    pub fn read(&mut self, uri: &str) -> Value {
        let result = self.result("resources/read", json!({"uri": uri}));
        let text = result["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{uri}: {result}"));
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{uri} is not JSON ({error}): {text}"))
    }
}
