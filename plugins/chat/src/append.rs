//! Writing a line.
//!
//! Under the sidecar's lock: bring it in step, note what is about to be written, write the line, bring it in step again.
//! The second look finds the line like any other and knows it by the note. Killed before the line, nothing was sent;
//! killed behind it, the next who looks finds the line and the note, and stores the message with all its fields and its
//! key, so that a sender who tries again gets that one.

use std::sync::Arc;

use fmail_api::{Appended, Draft, Error, ErrorKind, MessageId, Result, Timestamp, check_size};
use fmail_chat_file::{Appender, ChatLine, Locked, Options};
use futures::executor::block_on;

use crate::line;
use crate::sidecar::{MARK, plain};
use crate::state::{Pending, State};
use crate::store::Inner;

impl Inner {
    /// Refuses what cannot be stored; gives the line of what can.
    pub(crate) fn check(&self, draft: &Draft) -> Result<ChatLine> {
        if draft.extra.contains_key(MARK) {
            return Err(Error::invalid(format!("the field `{MARK}` is the chat store's own")).help("use another name"));
        }
        let message = draft.clone().into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
        check_size(&message, self.options.max_message_bytes)?;
        Ok(line::written(draft)?.0)
    }

    /// Writes the line of a draft that was checked.
    pub(crate) fn append(&self, draft: Draft, line: &ChatLine) -> Result<Appended> {
        let lock = self.sidecar.lock()?;
        self.append_locked(&lock, draft, line)
    }

    /// The same for who holds the sidecar's lock.
    pub(crate) fn append_locked(&self, lock: &Locked, draft: Draft, line: &ChatLine) -> Result<Appended> {
        self.sync_locked(lock)?;
        if let Some(key) = &draft.key
            && let Some(first) = self.sidecar.with_key(key)?
        {
            return Ok(Appended { message: Arc::new(plain(&first)), duplicate: true, not_durable: None });
        }
        let mark = line::fingerprint(line);
        let before = block_on(self.sidecar.state())?.unwrap_or_default();
        self.sidecar.put_state(&State { busy: true, pending: Some(Pending::new(&draft, mark)?), ..before.clone() })?;
        let options = Options { timeout: self.options.patience, ..Options::default() };
        let not_durable = match Appender::new(&self.options.file, options).append(line) {
            Ok(_) => None,
            // The line is there, and everyone can read it.
            Err(error) if error.kind() == ErrorKind::DurabilityUnknown => Some(error.to_string()),
            Err(error) => {
                self.sidecar.put_state(&before)?;
                return Err(error);
            }
        };
        // What was noted is no sign of a death here, so that the file is read on from where it was.
        let noted = block_on(self.sidecar.state())?.unwrap_or_default();
        self.sidecar.put_state(&State { busy: before.busy, ..noted })?;
        let stored = self.sync_locked(lock)?.ok_or_else(|| {
            Error::new(ErrorKind::Conflict, format!("{}: the line is gone as soon as it was written", self.shown()))
                .help("something empties or replaces the file; send again when that is done")
        })?;
        Ok(Appended { not_durable: not_durable.or(stored.not_durable), ..stored })
    }
}
