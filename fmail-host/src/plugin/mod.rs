//! Plugins: from a file to an instance that can be called.

mod failure;
mod instance;
mod ledger;
mod process;
mod stand_in;

pub use failure::failure;
pub use instance::{Carrier, Instance, Replies};
pub use process::{Listener, Process, Program};
pub use stand_in::Manifest;
