//! A client of `fmail mcp serve --stdio` that is nothing but a pipe and lines.

use std::collections::VecDeque;
use std::io::Write;
use std::process::ChildStdin;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Fmail, Output, Running, Sandbox};

/// A server that runs, and its client.
pub struct McpPipe {
    running: Running,
    input: Option<ChildStdin>,
    /// What came and was not asked for yet.
    waiting: VecDeque<Value>,
    last: u64,
}

impl McpPipe {
    /// A server in the sandbox's project.
    pub fn start(sandbox: &Sandbox) -> McpPipe {
        McpPipe::with(sandbox.fmail(), &[])
    }

    /// One made of this command, with further arguments.
    pub fn with(fmail: Fmail, args: &[&str]) -> McpPipe {
        let (running, input) = fmail.args(["mcp", "serve", "--stdio"]).args(args).spawn_with_input();
        McpPipe { running, input: Some(input), waiting: VecDeque::new(), last: 0 }
    }

    /// Writes bytes, whatever they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.bytes(format!("{message}\n").as_bytes());
    }

    /// Sends a request and does not wait; its id.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        self.last
    }

    /// Calls a tool and does not wait; the id of the request.
    pub fn begin_tool(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The next message that fits; what else comes is kept.
    #[track_caller]
    pub fn await_message(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.waiting.iter().position(&fits) {
            return self.waiting.remove(place).expect("it was found");
        }
        loop {
            let message = self.running.json();
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            if fits(&message) {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// The answer to a request.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        self.await_message(|message| message["id"] == id)
    }

    /// What has come and fits nothing that was waited for, and what comes within this time.
    pub fn other_messages(&mut self, time: Duration) -> Vec<Value> {
        while let Some(line) = self.running.line_within(time) {
            self.waiting.push_back(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
        }
        self.waiting.drain(..).collect()
    }

    /// Asks, and gives the result.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Calls a tool that succeeds, and gives what it says in JSON.
    #[track_caller]
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].take()
    }

    /// Calls a tool that fails, and gives what it says.
    #[track_caller]
    pub fn tool_error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{tool}: {result}")).to_string()
    }

    /// Reads a resource that is JSON.
    #[track_caller]
    pub fn read(&mut self, uri: &str) -> Value {
        let result = self.ask("resources/read", json!({"uri": uri}));
        let text = result["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{uri}: {result}"));
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{uri} is not JSON ({error}): {text}"))
    }

    /// The process.
    pub fn process(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Closes the server's input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes the server's input and waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Output {
        self.close_input();
        self.running.wait()
    }

    /// Waits for its end; the input stays open.
    #[track_caller]
    pub fn wait(self) -> Output {
        let output = self.running.wait();
        drop(self.input);
        output
    }
}
