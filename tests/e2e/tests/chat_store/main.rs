//! Chat files with the whole command line: the `chat` store, the archive, and the bridge to a project.

mod archive;
mod bridge;
mod crowd;
mod lines;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use fmail_e2e::Sandbox;
use serde_json::Value;

/// A project whose store is its chat file.
fn chat_project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure("store = \"chat\"", "");
    sandbox
}

fn chat_file(sandbox: &Sandbox) -> PathBuf {
    let directory = sandbox.path().join(".workplace");
    fs::create_dir_all(&directory).unwrap();
    directory.join("chat.md")
}

fn text(sandbox: &Sandbox) -> String {
    fs::read_to_string(chat_file(sandbox)).unwrap_or_default()
}

/// Appends as another program would.
fn by_hand(sandbox: &Sandbox, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(chat_file(sandbox)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["id"].as_str().unwrap().to_string()).collect()
}
