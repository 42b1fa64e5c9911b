//! From one project to another.

use std::sync::Arc;
use std::time::Duration;

use fmail_plugin::futures::StreamExt;
use fmail_plugin::serde_json::{self, Value, json};
use fmail_plugin::tokio::sync::watch;
use fmail_plugin::tokio::time::{sleep, timeout};
use fmail_plugin::{Caller, Error, ErrorKind, Host, Imported, LinkStatus, RelayStatus, Result, Timestamp, tracing};

use crate::progress::Progress;

/// The beginning: everything is later.
const BEGINNING: &str = "1970-01-01T00:00:00Z";
/// How long to wait after a failure; doubled each time.
const AGAIN: Duration = Duration::from_millis(100);
/// The longest such wait.
const LONGEST: Duration = Duration::from_secs(30);
/// After so many messages it is written down how far the link is, and after so long a silence.
const WRITE_AFTER: u64 = 256;
const WRITE_WITHIN: Duration = Duration::from_millis(500);

/// Follows one project, and imports what arrives into another.
pub struct Link {
    from: String,
    to: String,
    host: Host,
    progress: Arc<Progress>,
    status: watch::Sender<RelayStatus>,
}

impl Link {
    /// A link that has not begun.
    pub fn new(from: &str, to: &str, host: Host, progress: Arc<Progress>, status: watch::Sender<RelayStatus>) -> Link {
        Link { from: from.into(), to: to.into(), host, progress, status }
    }

    /// Runs until it is dropped: whatever fails is tried again.
    pub async fn run(&self) {
        let mut wait = AGAIN;
        loop {
            let failed = match self.follow(&mut wait).await {
                Ok(()) => Error::new(ErrorKind::Unavailable, "the stream ended"),
                Err(error) => error,
            };
            if failed.kind() == ErrorKind::Expired {
                // What cannot be taken up again is gone through from the beginning; most of it is there.
                self.progress.reached(&self.pair(), None);
            }
            tracing::warn!(from = self.from, to = self.to, error = %failed, "the link is interrupted");
            self.change(|link| {
                link.connected = false;
                link.problem = Some(failed.to_string());
            });
            sleep(wait).await;
            wait = (2 * wait).min(LONGEST);
        }
    }

    async fn follow(&self, wait: &mut Duration) -> Result<()> {
        let since = self.progress.of(&self.pair()).unwrap_or_else(|| BEGINNING.into());
        let request = json!({"cmd": "relay", "agent": "mirror", "since": since});
        let reply = self.host.request(&Caller::in_project(&self.from), &request.to_string()).await?;
        let mut events = reply.events.ok_or_else(|| Error::internal("`relay` was answered without a stream"))?;
        self.change(|link| {
            link.connected = true;
            link.problem = None;
        });
        let (mut brought, mut written) = (0, true);
        loop {
            let patience = if written { Duration::MAX } else { WRITE_WITHIN };
            let event = match timeout(patience, events.next()).await {
                Ok(Some(event)) => event?,
                Ok(None) => return Ok(()),
                Err(_) => {
                    self.progress.write()?;
                    (brought, written) = (0, true);
                    continue;
                }
            };
            let event: Value = serde_json::from_str(&event)
                .map_err(|error| Error::internal(format!("an event of `relay` is not JSON: {error}")))?;
            if let Some(message) = event.get("msg") {
                self.import(message).await?;
                (brought, *wait) = (brought + 1, AGAIN);
            }
            if let Some(cursor) = event["cursor"].as_str() {
                self.progress.reached(&self.pair(), Some(cursor));
                written = false;
            }
            if brought >= WRITE_AFTER {
                self.progress.write()?;
                (brought, written) = (0, true);
            }
        }
    }

    async fn import(&self, message: &Value) -> Result<()> {
        let request = json!({"cmd": "import", "agent": "mirror", "msg": message});
        let reply = self.host.request(&Caller::in_project(&self.to), &request.to_string()).await?;
        let mut answer: Value = serde_json::from_str(&reply.head)
            .map_err(|error| Error::internal(format!("the answer to `import` is not JSON: {error}")))?;
        let imported: Imported = serde_json::from_value(answer["imported"].take())
            .map_err(|error| Error::internal(format!("the answer to `import` cannot be understood: {error}")))?;
        match imported {
            Imported::New => self.change(|link| link.counts.received += 1),
            Imported::Duplicate => self.change(|link| link.counts.duplicates += 1),
            Imported::Relocated(_) => self.change(|link| link.counts.relocated += 1),
            Imported::Refused(reason) => {
                tracing::warn!(from = self.from, to = self.to, id = %message["id"], ?reason, "a message was refused");
                self.change(|link| link.counts.refused += 1);
            }
        }
        Ok(())
    }

    fn pair(&self) -> String {
        format!("{} -> {}", self.from, self.to)
    }

    fn change(&self, change: impl FnOnce(&mut LinkStatus)) {
        let pair = self.pair();
        self.status.send_modify(|status| {
            let known = status.links.iter().position(|link| link.peer == pair);
            let place = known.unwrap_or_else(|| {
                status.links.push(LinkStatus { authenticated: true, ..LinkStatus::new(pair, now()) });
                status.links.len() - 1
            });
            let link = &mut status.links[place];
            let was = link.connected;
            change(link);
            if link.connected != was {
                link.since = now();
            }
        });
    }
}

fn now() -> Timestamp {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::from_unix(since.as_secs().try_into().unwrap_or(i64::MAX), 0)
}
