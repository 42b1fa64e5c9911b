//! A store into a file.

use std::io::Write;

use fmail_api::{Clock, Error, Order, Query, RecordKey, Result, Store};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::copy::next_record;
use super::inventory::STEP;
use super::lines::{End, Entry, Header, Line, VERSION, hex};
use super::{Progress, Tell, next_message};

/// What an export holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// So many messages, direct ones included.
    pub messages: u64,
    /// So many records.
    pub records: u64,
    /// The sum of everything before the last line.
    pub sha256: String,
}

/// Writes everything that a store holds, one JSON object a line, messages in the order in which they came.
///
/// Messages that come while it is written are not in it.
pub async fn export(store: &dyn Store, clock: &dyn Clock, to: &mut dyn Write, tell: Tell<'_>) -> Result<Exported> {
    super::marker::check_whole(store).await?;
    let project = store.get(&RecordKey::project()).await?;
    let mut messages = store.scan(Query { order: Order::Arrival, ..Query::default() }).await?.messages;
    // Asked for before anything is written: what comes first tells whether there is to be an export at all.
    let mut next = next_message(&mut messages, tell).await?;
    let mut file = File { to, sum: Sha256::new() };
    file.line(&Header {
        fmail_export: VERSION,
        project: project.map_or(Value::Null, |record| record.value),
        exported: clock.now().whole_seconds(),
    })?;
    let mut exported = Exported::default();
    while let Some(delivery) = next {
        file.line(&Line::Message(&*delivery.message))?;
        exported.messages += 1;
        if exported.messages.is_multiple_of(STEP) {
            tell(Progress::Messages(exported.messages));
        }
        next = next_message(&mut messages, tell).await?;
    }
    let mut records = store.list("").await?;
    while let Some(record) = next_record(&mut records).await? {
        file.line(&Line::<()>::Record(Entry { key: record.key, value: record.value }))?;
        exported.records += 1;
    }
    exported.sha256 = hex(file.sum.clone());
    let Exported { messages, records, sha256 } = exported.clone();
    file.line(&Line::<()>::End(End { messages, records, sha256 }))?;
    file.to.flush().map_err(unwritten)?;
    Ok(exported)
}

struct File<'a> {
    to: &'a mut dyn Write,
    sum: Sha256,
}

impl File<'_> {
    fn line(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line)
            .map_err(|error| Error::internal(format!("a line of the export has no JSON form: {error}")))?;
        text.push('\n');
        self.sum.update(text.as_bytes());
        self.to.write_all(text.as_bytes()).map_err(unwritten)
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::io("cannot write the export", &error)
}
