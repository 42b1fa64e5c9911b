//! Writes a plugin of fmail in Rust: implement the trait, one macro, done.
//!
//! ```no_run
//! use std::sync::Mutex;
//!
//! use fmail_plugin::{Envelope, Error, ErrorKind, Health, Log, LogEntry, LogFacts, Result, async_trait};
//!
//! fmail_plugin::log_store! { name: "notes", open: Notes::open }
//!
//! struct Notes(Mutex<Vec<LogEntry>>);
//!
//! impl Notes {
//!     async fn open(_: Envelope) -> Result<Self> {
//!         Ok(Notes(Mutex::default()))
//!     }
//! }
//!
//! #[async_trait]
//! impl Log for Notes {
//!     fn facts(&self) -> LogFacts {
//!         LogFacts { name: "notes".into(), shared: false, durable: false, max_message_bytes: 1 << 20 }
//!     }
//!     async fn append(&self, at: u64, text: String) -> Result<()> {
//!         let mut notes = self.0.lock().unwrap();
//!         let next = notes.last().map_or(1, |last| last.position + 1);
//!         if at != next {
//!             return Err(Error::new(ErrorKind::Conflict, format!("the next position is {next}, not {at}")));
//!         }
//!         notes.push(LogEntry { position: at, text });
//!         Ok(())
//!     }
//!     async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
//!         let notes = self.0.lock().unwrap();
//!         Ok(notes.iter().filter(|note| note.position > after).take(limit).cloned().collect())
//!     }
//!     async fn discard(&self, positions: &[u64]) -> Result<()> {
//!         self.0.lock().unwrap().retain(|note| !positions.contains(&note.position));
//!         Ok(())
//!     }
//!     async fn health(&self) -> Result<Health> {
//!         Ok(Health { writable: true, detail: String::new() })
//!     }
//! }
//! ```
//!
//! The crate is a `cdylib`; the library goes to where fmail looks for plugins. There are four kinds of plugins, each with
//! its macro and its trait:
//!
//! | macro | trait | what it is |
//! |---|---|---|
//! | [`log_store!`] | [`Log`] | a store that keeps texts in order, the smallest one |
//! | [`store!`] | [`Store`] | a store that knows messages and records |
//! | [`transport!`] | [`Transport`] | carries operations between clients and the daemon |
//! | [`relay!`] | [`Relay`] | keeps hosts in step |
//!
//! What the crate takes care of:
//!
//! * **A runtime.** One tokio runtime for the library, made with its first instance and ended with its last, with one
//!   worker thread unless `runtime.threads` in the plugin's configuration says otherwise. The host lends nothing. What is
//!   ready when it is first polled is answered on the caller's own thread, without a hop.
//! * **Panics.** They end the call, not the host; the text is the answer. A profile with `panic = "abort"` is refused when
//!   the plugin is built.
//! * **The log.** `tracing` events and panics go to the host's log.
//! * **Cancellation.** A call that is given up is dropped: its future at the next `await`, its stream between two items.
//! * **The end.** Before an instance is gone every call was answered and [`Store::close`] and its like have run.
//!
//! Code of a plugin must not block in an `async fn`: use `tokio::task::spawn_blocking` or a thread. Standard output belongs
//! to the program that loads the plugin; use `tracing`.

mod envelope;
mod exchange;
mod host;
mod instance;
mod library;
mod logging;
mod macros;
mod manifest;
mod program;
mod relay;
mod runtime;
mod schema;
mod serve;
mod transport;

pub use async_trait::async_trait;
pub use envelope::{Envelope, Project, Role};
pub use exchange::refusal;
pub use fmail_api::{self, *};
pub use futures;
pub use host::{Caller, Host, Reply};
pub use manifest::{Kind, Manifest};
pub use program::run_as_program;
pub use relay::Relay;
pub use serde;
pub use serde_json;
pub use tokio;
pub use tracing;
pub use transport::Transport;

/// What the macros need; nobody else does.
#[doc(hidden)]
pub mod __macro {
    pub use crate::instance::{Making, Opened, Plugin};
    pub use crate::library::table;
    pub use crate::serve::{log, relay, store, transport};
    pub use fmail_abi::layout::FmPlugin;
}
