//! A plugin of the log profile, as a log.
//!
//! Its bodies are lines of text: numbers, and entries as they are. An entry is one line, since fmail writes compact JSON.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::verbs::{decode, method};
use fmail_api::{Error, ErrorKind, Health, Log, LogEntry, LogFacts, Result};

use super::manifest::Capability;
use super::{Instance, store};

/// How long calls under way may take when the log is closed, and the instance to end after that.
const GRACE: Duration = Duration::from_secs(5);
/// How many bytes one answer to `read` should have.
const READ_BYTES: usize = 1024 * 1024;

/// A log that is a plugin.
pub struct PluginLog {
    instance: Arc<Instance>,
    facts: LogFacts,
    context: Vec<u8>,
}

impl PluginLog {
    /// The log behind an instance. Messages are limited to `max_message_bytes`, and to what the plugin says if that is
    /// less.
    pub fn new(instance: Arc<Instance>, max_message_bytes: usize) -> Self {
        let manifest = instance.manifest();
        let facts = LogFacts {
            name: instance.name().into(),
            shared: manifest.has(Capability::Shared),
            durable: manifest.has(Capability::Durable),
            max_message_bytes: manifest.max_message_bytes.unwrap_or(usize::MAX).min(max_message_bytes),
        };
        let context = store::context(&instance);
        PluginLog { instance, facts, context }
    }

    async fn ask(&self, method: &'static str, request: &str) -> Result<Vec<u8>> {
        self.instance.call(method, &self.context, request.as_bytes()).await
    }

    fn blamed(&self, method: &str, what: String) -> Error {
        Error::internal(what)
            .context("plugin", format_args!("the plugin `{}`, `{method}`", self.instance.name()))
            .help("this is a defect of the plugin; `fmail plugin check` says which rule it breaks")
    }

    /// The entries of an answer to `read`.
    fn entries(&self, after: u64, limit: usize, body: &[u8]) -> Result<Vec<LogEntry>> {
        let blamed = |what| self.blamed(method::READ, what);
        let text = std::str::from_utf8(body).map_err(|error| blamed(format!("the answer is not UTF-8: {error}")))?;
        let mut last = after;
        let mut entries = Vec::new();
        for line in text.lines() {
            let entry = entry(line).ok_or_else(|| {
                let shown: String = line.chars().take(80).collect();
                blamed(format!("expected `<position> <entry>`, got {shown:?}"))
            })?;
            if entry.position <= last {
                return Err(blamed(format!("expected a position above {last}, got {}", entry.position)));
            }
            last = entry.position;
            entries.push(entry);
        }
        if entries.len() > limit {
            return Err(blamed(format!("expected at most {limit} entries, got {}", entries.len())));
        }
        Ok(entries)
    }
}

fn entry(line: &str) -> Option<LogEntry> {
    let (position, text) = line.split_once(' ')?;
    Some(LogEntry { position: position.parse().ok()?, text: text.into() })
}

#[async_trait]
impl Log for PluginLog {
    fn facts(&self) -> LogFacts {
        self.facts.clone()
    }

    async fn append(&self, at: u64, entry: String) -> Result<()> {
        if entry.contains(['\n', '\r']) {
            return Err(Error::internal("an entry of a log is one line, and this one has several"));
        }
        self.ask(method::APPEND, &format!("{at} {entry}")).await.map(drop)
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let body = self.ask(method::READ, &format!("{after} {limit} {READ_BYTES}")).await?;
        self.entries(after, limit, &body)
    }

    async fn discard(&self, positions: &[u64]) -> Result<()> {
        let mut request = String::new();
        for position in positions {
            let space = if request.is_empty() { "" } else { " " };
            // Writing to a text does not fail.
            let _ = write!(request, "{space}{position}");
        }
        self.ask(method::DROP, &request).await.map(drop)
    }

    async fn health(&self) -> Result<Health> {
        match self.ask(method::HEALTH, "").await {
            Ok(body) if body.is_empty() => Ok(Health { writable: true, detail: String::new() }),
            Ok(body) => decode("the answer", &body).map_err(|error| self.blamed(method::HEALTH, error.to_string())),
            // A log need not say how it is: that it answers is enough.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Ok(Health { writable: true, detail: String::new() })
            }
            Err(error) => Err(error),
        }
    }

    async fn close(&self) -> Result<()> {
        self.instance.close(GRACE).await.map(drop)
    }
}
