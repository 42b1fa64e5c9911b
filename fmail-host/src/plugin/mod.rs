//! Plugins: which file a name means, whether that file is believed, what it says about itself, and its instances.
//!
//! A configuration can be checked, and plugins listed, without loading anything. From [`Plugin::load`] on the code of a
//! plugin runs; an [`Instance`] is what can be called, a store what the rest of fmail sees of it.

pub mod apart;
mod chosen;
mod cost;
mod elf;
mod embedded;
mod envelope;
mod failure;
mod file;
mod gate;
mod inspected;
mod instance;
mod json;
mod lane;
mod ledger;
mod library;
mod loaded;
mod log;
mod mailbox;
mod manifest;
mod moment;
mod name;
mod opened;
mod process;
mod relay;
mod rule;
mod schema;
mod search;
mod store;
mod sync;
mod trace;
mod transport;
mod upward;

pub use chosen::Chosen;
pub use cost::cost_of_calls;
pub use envelope::{Role, Surroundings};
pub use fmail_abi::{Service, Spawner, Work};

pub use failure::failure;
pub(crate) use file::sha256_of;
pub use file::{PluginFile, PluginForm, Refusal, check_file};
pub use gate::PATIENCE;
pub use inspected::{Abi, Inspection};
pub use instance::{Carrier, Instance, Replies, Upward};
pub use library::{Library, serve_library};
pub use loaded::Plugin;
pub use log::PluginLog;
pub use manifest::{Capability, Manifest, StoreProfile};
pub use name::PluginName;
pub use opened::{data_dir, found, open};
pub use process::{Listener, Process, Program};
pub use relay::PluginRelay;
pub use schema::{Mistake, Schema};
pub use search::{Candidate, PluginPlace, PluginSearch, Resolved};
pub use store::PluginStore;
pub use trace::VARIABLE as TRACE_VARIABLE;
pub use transport::{PluginTransport, connect};
pub use upward::HostService;
