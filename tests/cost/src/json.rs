//! The rivals of the boundary: the same work in process, with the same text written and read on both sides.

use std::sync::{Arc, Mutex, PoisonError};

use fmail_api::verbs::{self, AppendAnswer, GetAnswer, GetVerb, ScanHead};
use fmail_api::{Draft, Query, Record, RecordKey, Result, Store};
use futures::StreamExt;

/// A store in process whose requests and answers pass through their JSON, as they do at the boundary.
pub struct JsonStore(pub Arc<dyn Store>);

impl JsonStore {
    /// Reads a record.
    pub async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        let request = verbs::encode(&GetVerb { key: key.clone() });
        let GetVerb { key } = verbs::decode("the request", &request)?;
        let answer = verbs::encode(&GetAnswer { record: self.0.get(&key).await? });
        Ok(verbs::decode::<GetAnswer>("the answer", &answer)?.record)
    }

    /// Stores a message.
    pub async fn append(&self, draft: Draft) -> Result<AppendAnswer> {
        let request = verbs::encode(&draft);
        let done = self.0.append(verbs::decode("the request", &request)?).await?;
        let (message, duplicate, not_durable) = (done.message, done.duplicate, done.not_durable);
        verbs::decode("the answer", &verbs::encode(&AppendAnswer { message, duplicate, not_durable }))
    }

    /// Counts the messages of a scan.
    pub async fn scan(&self) -> Result<u32> {
        let request = verbs::encode(&Query::default());
        let scan = self.0.scan(verbs::decode("the request", &request)?).await?;
        let head = verbs::encode(&ScanHead { cursor: scan.cursor, more: scan.more });
        verbs::decode::<ScanHead>("the head", &head)?;
        let (mut messages, mut count) = (scan.messages, 0);
        while let Some(event) = messages.next().await {
            if let Some(json) = verbs::event_json(&event?) {
                verbs::event_from_json(json.as_bytes())?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// The log profile in process: what the examples in C and Rust do, asked and answered in the same lines.
#[derive(Default)]
pub struct TextLog(Mutex<Vec<(u64, String)>>);

impl TextLog {
    /// Appends an entry at the next position.
    pub fn append(&self, entry: &str) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = entries.len() as u64 + 1;
        entries.push((position, entry.into()));
    }

    /// Reads the entries behind a position, through the text of the request and that of the answer.
    pub fn read(&self, after: u64, limit: usize) -> Vec<(u64, String)> {
        let request = format!("{after} {limit} 1048576");
        let mut words = request.split(' ').map(|word| word.parse::<u64>().unwrap_or(0));
        let (after, limit) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = entries.partition_point(|(position, _)| *position <= after);
        let lines = entries[start..].iter().take(limit as usize).map(|(position, text)| format!("{position} {text}\n"));
        let answer: String = lines.collect();
        answer
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(position, text)| Some((position.parse().ok()?, text.into())))
            .collect()
    }
}
