//! `fmail chat watch`: the built command beside a chat file that shells, editors and many processes write.

mod appending;
mod changes;
mod multiline;
mod output;
mod scale;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use fmail_e2e::{Running, Sandbox};
use serde_json::Value;

/// A project with a chat file.
struct Team {
    sandbox: Sandbox,
}

impl Team {
    /// Without a file, and without a directory for it.
    fn new() -> Team {
        Team { sandbox: Sandbox::new() }
    }

    fn with(text: impl AsRef<[u8]>) -> Team {
        let team = Team::new();
        team.sandbox.write(".workplace/chat.md", text);
        team
    }

    fn file(&self) -> PathBuf {
        self.sandbox.path().join(".workplace/chat.md")
    }

    /// Appends as a shell does: one write, no lock.
    fn append(&self, text: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.file()).expect("own file");
        file.write_all(text.as_ref()).expect("own file");
    }

    /// Starts a watch, and waits until it misses nothing.
    fn watch(&self, args: &[&str]) -> Running {
        let mut watch = self.sandbox.fmail().args(["chat", "watch"]).args(args).spawn();
        watch.await_watching();
        watch
    }

    /// Everything that a watch prints of the file as it is.
    fn read(&self, args: &[&str]) -> Vec<Value> {
        let args = ["chat", "watch", "--once"].iter().chain(args);
        let output = self.sandbox.fmail().args(args).ok();
        assert_eq!(output.stderr, "", "{output}");
        output.json_lines()
    }

    fn bash(&self, script: &str) {
        self.sandbox.bash("shell", script).cwd(self.sandbox.path().join(".workplace")).ok();
    }
}

/// The next message: its line and its text.
#[track_caller]
fn next(watch: &mut Running) -> (u64, String) {
    brief(&watch.json())
}

fn brief(message: &Value) -> (u64, String) {
    let number = message["line_number"].as_u64().unwrap_or_else(|| panic!("{message}"));
    (number, message["message"].as_str().unwrap_or_else(|| panic!("{message}")).to_string())
}

fn at(number: u64, text: &str) -> (u64, String) {
    (number, text.to_string())
}
