//! The log: the smallest thing that fmail can keep a project in.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Health, Result};

/// An append-only list of texts with positions 1, 2, 3 and so on.
///
/// A backend that is too small to be a [`Store`](crate::Store) can be a log: it keeps texts, in order, and looks into
/// none of them. `LogStore` of fmail-core makes a store of it: ids, filters, records, watching, import, removal and
/// summaries are its work. One rule carries all of that, also between processes: an append names the position that it
/// expects to get, and of several that name the same one exactly one succeeds.
///
/// One instance is one project. Methods may be called from any thread and at the same time. The rules below are what
/// callers rely on.
///
/// # Append
/// - **G1** The first entry has the position 1, and each next one the position behind the last, also when entries in
///   between were dropped.
/// - **G2** `append` succeeds only if `at` is the next position. Otherwise it is `conflict`, and nothing is stored. Of
///   several appends at one position exactly one succeeds, also between processes when the log is `shared`.
/// - **G3** When `append` returns, every later `read` delivers the entry, on every instance when the log is `shared`. A
///   log that claims `durable` still has it after the process is killed right behind the answer.
/// - **G4** An entry is one line of UTF-8 text without control characters below U+0020, as compact JSON is: quotes,
///   backslashes, any language, spaces at its ends, the empty text. It reads back byte for byte.
/// - **G5** An append that failed with anything but `conflict` may have stored its entry or not. The caller reads to
///   find out.
///
/// # Read
/// - **G6** `read` delivers entries with positions above `after`, in ascending order, at most `limit` of them, each with
///   its position, and leaves none out but dropped ones.
/// - **G7** It may deliver fewer than asked for. Only an empty answer says that there is nothing behind `after`.
///
/// # Drop
/// - **G8** What was dropped may be forgotten: a read leaves it out, or, in a log that forgets later or never, still
///   delivers it. Its position is not used again.
/// - **G9** Dropping what was dropped before succeeds. The caller never drops the last entry, so that the next position
///   can be told from what is kept.
///
/// # Life
/// - **G10** `health` changes nothing.
/// - **G11** `close` lets go of everything; the entries are there on the next open when `durable`.
#[async_trait]
pub trait Log: Send + Sync {
    /// What this log is. Constant for the life of the instance.
    fn facts(&self) -> LogFacts;

    /// Stores an entry at the position `at`, if that is the next one (G1 to G5).
    async fn append(&self, at: u64, entry: String) -> Result<()>;

    /// Delivers entries behind the position `after`; 0 is before the first (G6, G7).
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>>;

    /// Drops the entries at these positions (G8, G9). Called `drop` in the protocol; that name means something else in
    /// Rust.
    async fn discard(&self, positions: &[u64]) -> Result<()>;

    /// Whether the log can be used, without side effects (G10).
    async fn health(&self) -> Result<Health>;

    /// Lets go of everything (G11).
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// What a log says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFacts {
    /// The name by which the configuration chooses it.
    pub name: String,
    /// Other processes that open the same project see the same entries (G2, G3).
    pub shared: bool,
    /// An answered append survives a kill (G3).
    pub durable: bool,
    /// The largest message, in bytes of its compact JSON. Its entry is a few bytes longer. Entries of another kind than
    /// messages are small, but no limit is put on them.
    pub max_message_bytes: usize,
}

/// An entry of a log, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its position, from 1 on.
    pub position: u64,
    /// The text, as it was appended.
    pub text: String,
}
