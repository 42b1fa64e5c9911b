//! The methods of a store of the log profile: text, not JSON.

use std::fmt::Write;
use std::sync::Arc;

use fmail_abi::{Service, Work};
use fmail_api::verbs::{self, method};
use fmail_api::{Error, Log, LogEntry, Result};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{answering, refused, unknown};
use crate::instance::{Making, Opened};
use crate::{Host, Manifest};

/// Opens a store plugin of the log profile.
#[doc(hidden)]
pub fn log<L: Log + 'static>(
    manifest: Manifest,
    _: Host,
    opening: impl Future<Output = Result<L>> + Send + 'static,
) -> Making {
    async move {
        let log = opening.await?;
        let facts = log.facts();
        agree(&manifest, &[("shared", facts.shared), ("durable", facts.durable)], "Log::facts")?;
        Ok(Arc::new(Served(Arc::new(log))) as Arc<dyn Opened>)
    }
    .boxed()
}

/// Whether the code can do what the manifest claims, and claims what it can do.
pub(super) fn agree(manifest: &Manifest, can: &[(&str, bool)], code: &str) -> Result<()> {
    for (capability, can) in can {
        let claimed = manifest.claims(capability);
        if claimed != *can {
            let says = if claimed { "claims" } else { "does not claim" };
            let message = format!("the manifest of {:?} {says} {capability:?}, but {code} says {can}", manifest.name);
            return Err(Error::internal(message).help("make both say the same, and build the plugin again"));
        }
    }
    Ok(())
}

struct Served(Arc<dyn Log>);

impl Opened for Served {
    fn close(&self) -> BoxFuture<'static, Result<()>> {
        let log = self.0.clone();
        async move { log.close().await }.boxed()
    }
}

impl Service for Served {
    fn call(&self, method: &str, _context: &[u8], request: &[u8]) -> Work {
        begin(self.0.clone(), method, request).unwrap_or_else(refused)
    }
}

fn begin(log: Arc<dyn Log>, method: &str, request: &[u8]) -> Result<Work> {
    let text = std::str::from_utf8(request)
        .map_err(|error| Error::invalid(format!("the request of {method} is not UTF-8: {error}")))?;
    Ok(match method {
        method::APPEND => {
            let (at, entry) = text.split_once(' ').unwrap_or((text, ""));
            let (at, entry) = (number(method, at)?, entry.to_owned());
            answering(async move { log.append(at, entry).await.map(|()| Vec::new()) })
        }
        method::READ => {
            let numbers = text.split(' ').map(|part| number(method, part)).collect::<Result<Vec<u64>>>()?;
            let [after, limit, max_bytes] = numbers[..] else {
                let message =
                    format!("the request of read is {text:?}; three numbers are expected: after, limit, bytes");
                return Err(Error::invalid(message));
            };
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            answering(async move { lines(&log.read(after, limit).await?, max_bytes) })
        }
        method::DROP => {
            let positions =
                text.split_ascii_whitespace().map(|part| number(method, part)).collect::<Result<Vec<_>>>()?;
            answering(async move { log.discard(&positions).await.map(|()| Vec::new()) })
        }
        method::HEALTH => answering(async move { Ok(verbs::encode(&log.health().await?)) }),
        _ => unknown("a log", method),
    })
}

/// `<position> <entry>`, one line each, about as many bytes as asked for and at least one entry.
fn lines(entries: &[LogEntry], max_bytes: u64) -> Result<Vec<u8>> {
    let mut body = String::new();
    for LogEntry { position, text } in entries {
        if text.contains('\n') {
            return Err(Error::internal(format!("the entry {position} has a line break; none was appended with one")));
        }
        if !body.is_empty() && (body.len() + text.len()) as u64 >= max_bytes {
            break;
        }
        // Writing into a string does not fail.
        let _ = writeln!(body, "{position} {text}");
    }
    Ok(body.into_bytes())
}

fn number(method: &str, text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::invalid(format!("the request of {method} has {text:?} where a number is expected")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stop_at_the_size_but_never_before_the_first() {
        let entries: Vec<LogEntry> = (1..=3).map(|position| LogEntry { position, text: "x".repeat(10) }).collect();
        let count = |bytes| lines(&entries, bytes).unwrap().iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((count(0), count(20), count(30), count(1000)), (1, 1, 2, 3));
        assert_eq!(lines(&entries[..1], 9).unwrap(), b"1 xxxxxxxxxx\n");
        assert!(lines(&[], 9).unwrap().is_empty());
    }
}
