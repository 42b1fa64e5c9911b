//! The conformance suite: what every store of fmail promises, one case or more for each numbered rule of
//! [`fmail_api::Store`], [`fmail_api::Mailbox`] and [`fmail_api::Log`], and the cases of mail, which run the operations of fmail-core over the store.
//!
//! A backend runs it in a test of its own, without the standard harness (`harness = false`), so that every case is one
//! named test:
//!
//! ```no_run
//! use std::sync::Arc;
//! use fmail_api::{Result, Store};
//! use fmail_backends::{MemoryStore, SystemClock};
//! use fmail_conformance::{Subject, trials};
//!
//! /// One project of the store under test.
//! struct InMemory(Arc<MemoryStore>);
//!
//! impl Subject for InMemory {
//!     fn open(&self) -> Result<Arc<dyn Store>> {
//!         Ok(self.0.clone())
//!     }
//! }
//!
//! let fresh = || {
//!     let store = MemoryStore::new(1_048_576, Arc::new(SystemClock));
//!     Ok(Box::new(InMemory(Arc::new(store))) as Box<dyn Subject>)
//! };
//! let arguments = libtest_mimic::Arguments::from_args();
//! libtest_mimic::run(&arguments, trials("memory", fresh)).exit();
//! ```
//!
//! * Each case gets a fresh, empty [`Subject`] from the factory.
//! * A case that needs what the store does not claim in its capabilities is skipped, and the reason is told.
//! * The suite needs no runtime: it blocks threads on the store's futures. A store that needs one brings its own.
//! * A case that does not come back within its deadline has failed.
//! * A store that claims `durable` offers a [`Subject::writer`], a process that [`write_until_killed`] runs in.

mod case;
mod cases;
mod crash;
mod kit;
mod log;
mod mail;
mod run;

pub use case::{Bench, Case, Factory, Failure, Need, Subject, Verdict};
pub use cases::cases;
pub use crash::{Work, write_until_killed};
pub use log::{LogCase, LogFactory, LogNeed, LogSubject, log_cases, log_trials, run_log};
pub use mail::mail_cases;
pub use run::{DEADLINE, Outcome, guarded, run, trials};
