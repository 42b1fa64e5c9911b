//! A store that keeps its project in memory: the whole plugin.
use fmail_plugin::{Error, ErrorKind, Health, Log, LogEntry, LogFacts, Result, async_trait};
use std::sync::Mutex;

fmail_plugin::log_store! { name: "example-rust", open: |_| async { Ok(Memory::default()) } }

/// The entries, in order. Nothing can panic while they are locked, so the lock is never poisoned.
#[derive(Default)]
struct Memory(Mutex<Vec<LogEntry>>);

#[async_trait]
impl Log for Memory {
    fn facts(&self) -> LogFacts {
        LogFacts { name: "example-rust".into(), shared: false, durable: false, max_message_bytes: 1 << 20 }
    }
    async fn append(&self, at: u64, text: String) -> Result<()> {
        let mut entries = self.0.lock().unwrap();
        let next = entries.last().map_or(1, |last| last.position + 1);
        if at != next {
            return Err(Error::new(ErrorKind::Conflict, format!("the next position is {next}, not {at}")));
        }
        entries.push(LogEntry { position: at, text });
        Ok(())
    }
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let entries = self.0.lock().unwrap();
        let start = entries.partition_point(|entry| entry.position <= after);
        Ok(entries[start..].iter().take(limit).cloned().collect())
    }
    async fn discard(&self, positions: &[u64]) -> Result<()> {
        self.0.lock().unwrap().retain(|entry| !positions.contains(&entry.position));
        Ok(())
    }
    async fn health(&self) -> Result<Health> {
        Ok(Health { writable: true, detail: "in memory".into() })
    }
}
