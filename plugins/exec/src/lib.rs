//! The `exec` store: mail that a script keeps.
//!
//! ```no_run
//! use fmail_api::{Draft, Store};
//! use fmail_exec::{ExecOptions, open};
//!
//! # async fn example() -> fmail_api::Result<()> {
//! let store = open(ExecOptions::new(["/usr/local/bin/mail-script"], "data"))?;
//! store.append(Draft::new("alice".parse()?, "@bob".parse()?, "hello")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! * **Two protocols.** [`gc`] runs scripts of Gas City's contract as they are; [`native`] speaks an envelope of JSON with
//!   typed errors, once per call or as lines to one long-lived process. Both are a [`backend::Backend`].
//! * **One way to run.** [`process`] starts a script in a process group of its own, feeds it, reads it up to a cap and ends
//!   the whole group at the deadline. What came of it is always an answer or an error, never an empty list by accident.
//! * **The script's ids are names.** `translate` gives each message an id of fmail's through `IdMap`.
//! * **Arrival is ours.** A script has no order of arrival; `arrivals` notes in which order messages were first seen, and
//!   cursors are places in that list.
//!
//! No runtime is needed: each run of a script has a thread, which answers through a channel.

mod arrivals;
mod backend;
mod foreign;
mod gather;
mod gc;
mod keys;
mod mailbox;
mod manifest;
mod native;
mod options;
mod output;
mod plugin;
mod process;
mod script;
mod store;
mod translate;
mod watch;

pub use manifest::{CAPABILITIES, CONFIG_SCHEMA};
pub use options::{ExecOptions, Mode, Protocol};
pub use plugin::FmailPlugin;
pub use store::{ExecStore, open};
