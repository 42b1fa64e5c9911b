//! A log in memory, for tests: the smallest that keeps the rules.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fmail_api::{DEFAULT_MAX_MESSAGE_BYTES, Error, ErrorKind, Health, Log, LogEntry, LogFacts, Result};

/// Entries in memory. `shared` only says so: every store over the same instance sees the same entries, and finds them
/// again after it was closed, which is as durable as a test can ask for without a kill.
pub struct MemoryLog {
    shared: bool,
    entries: Mutex<BTreeMap<u64, String>>,
}

impl MemoryLog {
    pub fn new(shared: bool) -> Self {
        MemoryLog { shared, entries: Mutex::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Log for MemoryLog {
    fn facts(&self) -> LogFacts {
        LogFacts {
            name: "memory-log".into(),
            shared: self.shared,
            durable: self.shared,
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
        }
    }

    async fn append(&self, at: u64, entry: String) -> Result<()> {
        let mut entries = self.lock();
        let next = entries.last_key_value().map_or(1, |(last, _)| last + 1);
        if at != next {
            return Err(Error::new(ErrorKind::Conflict, format!("the next position is {next}, not {at}")));
        }
        entries.insert(at, entry);
        Ok(())
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let entries = self.lock();
        let behind = entries.range(after + 1..).take(limit);
        Ok(behind.map(|(position, text)| LogEntry { position: *position, text: text.clone() }).collect())
    }

    async fn discard(&self, positions: &[u64]) -> Result<()> {
        let mut entries = self.lock();
        for position in positions {
            entries.remove(position);
        }
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health { writable: true, detail: "in the memory of this process".into() })
    }
}
