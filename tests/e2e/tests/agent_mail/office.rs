//! A daemon without a project of its own, a directory below its home, and agents in it.

use std::fs;
use std::path::{Path, PathBuf};

use fmail_e2e::mcp::{MailServer, Mcp};
use fmail_e2e::{Fmail, Sandbox};
use serde_json::{Value, json};

/// `forged --no-project` that serves MCP, and a directory in the user's home.
pub struct Office {
    pub server: MailServer,
    pub mcp: Mcp,
    /// The directory that clients name.
    pub path: PathBuf,
}

impl Office {
    /// With a project in the directory `app`, and these agents in it.
    pub fn with(agents: &[&str]) -> Office {
        Office::configured("", agents)
    }

    /// The same, with further lines of the section `mail`.
    pub fn configured(mail: &str, agents: &[&str]) -> Office {
        Office::on(MailServer::without_project(Sandbox::new(), mail), agents)
    }

    fn on(server: MailServer, agents: &[&str]) -> Office {
        let path = server.sandbox.home().join("app");
        fs::create_dir_all(&path).expect("own directory");
        let mut office = Office { mcp: server.client(), server, path };
        office.mcp.tool("ensure_project", json!({"human_key": office.path}));
        for agent in agents {
            office.register(agent);
        }
        office
    }

    /// Starts the daemon again; the clients connect anew.
    pub fn restart(self) -> Office {
        let server = self.server.restart();
        Office { mcp: server.client(), server, path: self.path }
    }

    /// Kills the daemon and starts it again.
    pub fn revive(self) -> Office {
        let server = self.server.revive();
        Office { mcp: server.client(), server, path: self.path }
    }

    /// The same with this argument for the project.
    fn here(&self, mut arguments: Value) -> Value {
        if arguments.get("project_key").is_none() {
            arguments["project_key"] = json!(self.path);
        }
        arguments
    }

    /// Calls a tool in the project; it succeeds.
    #[track_caller]
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let arguments = self.here(arguments);
        self.mcp.tool(tool, arguments)
    }

    /// Calls a tool in the project; it fails, and says this.
    #[track_caller]
    pub fn error(&mut self, tool: &str, arguments: Value) -> String {
        let arguments = self.here(arguments);
        self.mcp.tool_error(tool, arguments)
    }

    /// Registers an agent.
    #[track_caller]
    pub fn register(&mut self, name: &str) -> Value {
        self.tool("register_agent", json!({"name": name, "program": "claude-code", "model": "opus-4.5"}))
    }

    /// Sends a message and gives its number.
    #[track_caller]
    pub fn send(&mut self, from: &str, to: &str, body: &str) -> u64 {
        let message = json!({"sender_name": from, "to": [to], "subject": "about", "body_md": body});
        let answer = self.tool("send_message", message);
        answer["deliveries"][0]["payload"]["id"].as_u64().unwrap_or_else(|| panic!("no number: {answer}"))
    }

    /// An agent's mail with the texts, the newest first.
    #[track_caller]
    pub fn inbox(&mut self, agent: &str) -> Vec<Value> {
        let mut answer = self.tool("fetch_inbox", json!({"agent_name": agent, "include_bodies": true}));
        serde_json::from_value(answer["result"].take()).expect("a list")
    }

    /// The texts of an agent's mail, the newest first.
    #[track_caller]
    pub fn bodies(&mut self, agent: &str) -> Vec<String> {
        self.inbox(agent).iter().map(|row| row["body_md"].as_str().expect("a text").to_string()).collect()
    }

    /// `fmail` in the directory, as this agent.
    pub fn fmail(&self, agent: &str) -> Fmail {
        self.fmail_in(&self.path, agent)
    }

    /// `fmail` in another directory.
    pub fn fmail_in(&self, directory: &Path, agent: &str) -> Fmail {
        self.server.sandbox.agent(agent).cwd(directory)
    }

    /// The messages that `fmail log` shows an agent.
    #[track_caller]
    pub fn log(&self, agent: &str, target: &str) -> Vec<Value> {
        self.fmail(agent).args(["log", target, "--json", "-n", "1000"]).ok().json_lines()
    }

    /// Every message in the project's files.
    pub fn stored(&self) -> usize {
        let mailboxes = fs::read_dir(self.path.join(".fmail/dm")).expect("own directory");
        mailboxes.map(|mailbox| fs::read_dir(mailbox.unwrap().path()).unwrap().count()).sum()
    }
}
