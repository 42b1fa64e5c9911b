//! Moving a project's messages and records: from one store to another, into a file, and out of a file.
//!
//! What is moved is everything that a store keeps, with ids, times and unknown fields, except caches that are made again
//! and who is there right now ([`is_local`]). Nothing is moved so that an id means another message afterwards: states of
//! mail and answers name messages by their ids.
//!
//! | file | holds |
//! |---|---|
//! | `copy.rs` | one store into another: plan, messages, records, verification |
//! | `marker.rs` | the record in the target that says that a copy is not finished |
//! | `inventory.rs` | which messages a store holds, to compare |
//! | `settle.rs` | what a record has to become where the target has one of its own |
//! | `writing.rs` | storing records that were moved |
//! | `lines.rs` | the file: its header, its lines, its end |
//! | `export.rs`, `import.rs` | a store into a file and back |

mod copy;
mod export;
mod import;
mod inventory;
mod lines;
mod marker;
mod settle;
#[cfg(test)]
mod tests;
mod writing;

use fmail_api::{Delivery, Error, ErrorKind, Event, MessageStream, Notice, NoticeKind, RecordKey, Result};
use futures::StreamExt;
use serde::Serialize;

pub use copy::{Copy, CopyReport};
pub use export::{Exported, export};
pub use import::{Checked, Import, ImportReport};

/// How far a transfer is, for whoever waits for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// So many messages were looked at to find out what there is to do.
    Planned(u64),
    /// So many messages were stored or written.
    Messages(u64),
    /// So many records were looked at.
    Records(u64),
    /// So many messages were compared.
    Verified(u64),
    /// A store has something to say: a thing that is broken was passed over.
    Notice(Notice),
}

/// Who is told about the progress.
pub type Tell<'a> = &'a mut dyn FnMut(Progress);

/// How many of what was moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// There were so many.
    pub total: u64,
    /// Of them so many were written.
    pub written: u64,
    /// Of them so many were there already.
    pub present: u64,
}

/// Whether a record belongs to one store and one machine: a cache, who is there, a copy under way.
pub fn is_local(key: &RecordKey) -> bool {
    let segments: Vec<&str> = key.segments().collect();
    matches!(segments[..], ["presence", ..] | ["mailbox", _, "tally"] | [marker::KEY])
}

/// The next message of a scan; what else the stream says is passed on.
async fn next_message(messages: &mut MessageStream, tell: Tell<'_>) -> Result<Option<Delivery>> {
    while let Some(event) = messages.next().await {
        match event? {
            Event::Message(delivery) => return Ok(Some(delivery)),
            Event::Notice(notice) if notice.kind == NoticeKind::Hidden => return Err(partly_readable(&notice)),
            Event::Notice(notice) => tell(Progress::Notice(notice)),
            _ => {}
        }
    }
    Ok(None)
}

/// What this user may not read would be missing in the copy, and nobody would miss it until it is needed.
fn partly_readable(hidden: &Notice) -> Error {
    Error::new(ErrorKind::Denied, format!("only a part of the project could be moved: {}", hidden.text))
        .help("run fmail as that user")
}
