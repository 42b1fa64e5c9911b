//! A plugin as a program, for `tests/program.rs`.

use std::process::ExitCode;
use std::sync::Mutex;

use fmail_plugin::{Error, ErrorKind, Health, Log, LogEntry, LogFacts, Result, async_trait, tracing};

fmail_plugin::log_store! { name: "program", open: |_| async { Ok(Memory::default()) } }

fn main() -> ExitCode {
    fmail_plugin::run_as_program::<FmailPlugin>()
}

#[derive(Default)]
struct Memory(Mutex<Vec<LogEntry>>);

#[async_trait]
impl Log for Memory {
    fn facts(&self) -> LogFacts {
        LogFacts { name: "program".into(), shared: false, durable: false, max_message_bytes: 1 << 20 }
    }
    async fn append(&self, at: u64, text: String) -> Result<()> {
        let mut entries = self.0.lock().unwrap();
        let next = entries.len() as u64 + 1;
        if at != next {
            return Err(Error::new(ErrorKind::Conflict, format!("the next position is {next}, not {at}")));
        }
        entries.push(LogEntry { position: at, text });
        Ok(())
    }
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let entries = self.0.lock().unwrap();
        Ok(entries.iter().filter(|entry| entry.position > after).take(limit).cloned().collect())
    }
    async fn discard(&self, _: &[u64]) -> Result<()> {
        panic!("keeps everything")
    }
    async fn health(&self) -> Result<Health> {
        tracing::info!(entries = self.0.lock().unwrap().len(), "asked for its health");
        Ok(Health { writable: true, detail: "in memory".into() })
    }
    async fn close(&self) -> Result<()> {
        eprintln!("closed");
        Ok(())
    }
}
