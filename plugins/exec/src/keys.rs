//! Idempotency keys, for scripts that know none.
//!
//! The message that a key led to is kept in a record; whoever sends with the key again gets it back, and the script is not
//! run. Two who send with the same key at once wait for each other, also between processes.
//!
//! What this cannot do: when a run of the script ended without an answer - killed at the deadline, or with this process -
//! nobody knows whether it has sent, and the key leads to nothing. Who sends again then sends a second time if the first
//! has got through. Only a script that knows keys itself can close that gap.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use fmail_api::{ContentHash, Error, ErrorKind, Expect, Message, RecordKey, Result};
use futures_timer::Delay;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::store::Inner;

/// How often a lock is tried.
const PAUSE: Duration = Duration::from_millis(10);

/// Keeps others from sending with the same key meanwhile. The kernel lets go of it when the process dies.
pub(crate) struct KeyLock {
    _file: File,
}

impl Inner {
    /// Waits for others who send with the key.
    pub(crate) async fn lock_key(&self, key: &str) -> Result<KeyLock> {
        let directory = self.options.data_dir.join("locks");
        let doing = |error: std::io::Error| Error::io(format_args!("locking a key in {}", directory.display()), &error);
        std::fs::create_dir_all(&directory).map_err(doing)?;
        // Some keys share a lock: there are as many files as there are, however many keys.
        let name = format!("key-{:02x}", ContentHash::of(&[key.as_bytes()]).as_bytes()[0]);
        let path = directory.join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(doing)?;
        let begun = Instant::now();
        let patience = 2 * self.options.timeout;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(KeyLock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < patience => Delay::new(PAUSE).await,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let what =
                        format!("somebody else has been sending with the same key for {patience:?}; nothing was sent");
                    return Err(Error::new(ErrorKind::Backpressure, what).help("try again"));
                }
                Err(error) => return Err(doing(error.into())),
            }
        }
    }

    /// The message that a key has led to.
    pub(crate) async fn sent_with(&self, key: &str) -> Result<Option<Message>> {
        let Some(record) = self.records.get(&record_of(key)?).await? else { return Ok(None) };
        let message = record.value.get("message").cloned().unwrap_or_default();
        Message::from_value(message, None, None).map(Some)
    }

    /// Remembers the message that a key has led to.
    pub(crate) async fn remember(&self, key: &str, message: &Message) -> Result<()> {
        self.records.put(&record_of(key)?, Expect::Anything, json!({"message": message}), true).await.map(drop)
    }
}

fn record_of(key: &str) -> Result<RecordKey> {
    format!("sidecar/keys/{}", ContentHash::of(&[key.as_bytes()])).parse()
}
