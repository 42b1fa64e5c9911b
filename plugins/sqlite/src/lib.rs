//! The `sqlite` store: a project's messages and records in one SQLite database, with full-text search.
//!
//! ```no_run
//! use fmail_api::{Draft, Store};
//! use fmail_sqlite::{SqliteOptions, SqliteStore};
//!
//! # async fn example() -> fmail_api::Result<()> {
//! let store = SqliteStore::open(SqliteOptions::new("project/mail.sqlite"))?;
//! store.append(Draft::new("alice".parse()?, "task".parse()?, "hello")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! * **One writer.** A thread owns the connection that writes. What waits for it at the same time is committed in one
//!   transaction with one sync, each with its own verdict (`writer`).
//! * **Readers hold nothing open.** Scans and watches read a page on a thread of the pool, let the transaction go and
//!   keep their place as a number, so that the write-ahead log can be reset however slow a reader is (`readers`).
//! * **Arrival is a column.** It counts up by one for each message, in the order of commits; a cursor is such a number
//!   together with the epoch of the database.
//! * **One set of connections for one file.** Stores of one process that open the same file share it (`database`).
//!
//! No runtime is needed: calls are answered through channels.

mod changes;
mod clock;
mod database;
mod errors;
mod file;
mod filter;
mod ids;
mod manifest;
mod messages;
mod options;
mod pages;
mod plugin;
mod readers;
mod records;
mod removal;
mod schema;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod walk;
mod watch;
mod writer;

pub use clock::SystemClock;
pub use manifest::{CAPABILITIES, CONFIG_SCHEMA};
pub use options::{Durability, SqliteOptions};
pub use plugin::FmailPlugin;
pub use schema::FORMAT;
pub use store::SqliteStore;
