//! A plugin that panics in every place where its own code runs: when it is made if its configuration says so, at once in a
//! call, later in a call, while it ends, and while it is dropped.
use fmail_plugin::{Envelope, Health, Log, LogEntry, LogFacts, Result, async_trait};

fmail_plugin::log_store! {
    name: "panicking",
    open: open,
    config_schema: r#"{"type":"object","properties":{"open":{"type":"boolean"}}}"#,
}

struct Panicking;

async fn open(envelope: Envelope) -> Result<Panicking> {
    assert_ne!(envelope.config["open"], true, "in open");
    Ok(Panicking)
}

#[async_trait]
impl Log for Panicking {
    fn facts(&self) -> LogFacts {
        LogFacts { name: "panicking".into(), shared: false, durable: false, max_message_bytes: 1 << 20 }
    }

    async fn append(&self, _at: u64, _text: String) -> Result<()> {
        panic!("at once")
    }

    async fn read(&self, _after: u64, _limit: usize) -> Result<Vec<LogEntry>> {
        fmail_plugin::tokio::task::yield_now().await;
        panic!("later, on another thread")
    }

    async fn discard(&self, positions: &[u64]) -> Result<()> {
        let none = [0; 0];
        assert_eq!(none[positions.len()], 1);
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        std::panic::panic_any(7)
    }

    async fn close(&self) -> Result<()> {
        panic!("in close")
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        panic!("while it is dropped")
    }
}
