//! The operations of fmail, over any [`fmail_api::Store`].
//!
//! A store keeps messages and records and nothing else. What agents do with them - send, follow, register, say what
//! they are doing - is written here once, for every store, and behind every front: the command line runs
//! [`Operations`] in its own process, the daemon runs the same for its clients.
//!
//! Each operation is a file under `ops/`. No operation knows which store it runs on, and none goes around the
//! [`fmail_api::Store`] trait.
//!
//! What any store gets, whatever it can do itself, are stores around a store: [`layered`] puts on those that it needs,
//! [`LogStore`] makes a store of a mere log, and [`Sidecar`] gives records to a store that has none.
//!
//! [`paths`] holds the patterns that paths are reserved by, [`transfer`] moves a project from store to store.

mod access;
mod conversation;
mod exchange;
mod fanout;
mod find;
mod layers;
mod leases;
mod log_profile;
mod mailbox;
mod near;
mod notices;
mod nudges;
mod operations;
mod ops;
mod overview;
pub mod paths;
mod presence;
mod recent;
mod search;
mod shown;
mod sidecar;
#[cfg(test)]
mod testing;
mod timer;
pub mod transfer;
mod waiting;

pub use access::check_readable;
pub use conversation::oldest_first;
pub use fanout::{Blocking, Fanout};
pub use layers::{Capable, Deadlines, Filtering, LayerOptions, Limits, Traced, layered};
pub use leases::lease_pattern;
pub use log_profile::LogStore;
pub use near::near_names;
pub use operations::Operations;
pub use paths::PathPattern;
pub use presence::RENEW_AFTER;
pub use search::{SearchColumn, SearchQuery};
pub use sidecar::{FOREIGN_ID, IdMap, Sidecar};
pub use waiting::waiting;
