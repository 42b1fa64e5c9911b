//! What was acknowledged and what was done, outside of all hosts: a line of JSON for each, in the order of their ends.
//!
//! The checker reads it. Its lines are described in `checker.py`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// A list that only grows.
pub struct Ledger {
    path: PathBuf,
    file: Mutex<(File, usize)>,
}

impl Ledger {
    /// A new one.
    pub fn create(path: &Path) -> Ledger {
        Ledger { path: path.into(), file: Mutex::new((File::create(path).expect("own directory"), 0)) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes something.
    pub fn note(&self, entry: &Value) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.0.write_all(format!("{entry}\n").as_bytes()).expect("own file");
        file.1 += 1;
    }

    /// How many entries there are.
    pub fn length(&self) -> usize {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Notes a message that a host acknowledged.
    pub fn sent(&self, host: usize, id: &str, from: &str, to: &str, body: &Value) {
        self.note(&json!({"op": "sent", "host": host, "id": id, "from": from, "to": to, "body": body}));
    }

    /// Notes a message of which nobody knows whether it was stored.
    pub fn perhaps(&self, host: usize, from: &str, to: &str, body: &Value) {
        self.note(&json!({"op": "perhaps", "host": host, "from": from, "to": to, "body": body}));
    }

    /// Notes that an agent has acknowledged, read or deleted a message on a host.
    pub fn marked(&self, what: &str, host: usize, agent: &str, marker: &str) {
        self.note(&json!({"op": what, "host": host, "agent": agent, "marker": marker}));
    }

    /// Notes that everything before this time (seconds since 1970) was removed on a host.
    pub fn swept(&self, host: usize, before: i64) {
        self.note(&json!({"op": "swept", "host": host, "before": before}));
    }

    /// Notes that a host got back a disk from when the ledger was so long, and which messages went with the one that it had.
    pub fn restored(&self, host: usize, length: usize, lost: &[String]) {
        self.note(&json!({"op": "restored", "host": host, "length": length, "lost": lost}));
    }

    /// All entries.
    pub fn entries(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.path).expect("own file");
        text.lines().map(|line| serde_json::from_str(line).expect("own line")).collect()
    }
}
