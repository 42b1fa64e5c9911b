//! Plugins: which file a name means, whether that file is believed, what it says about itself, and its instances.
//!
//! A configuration can be checked, and plugins listed, without loading anything. From [`Library::load`] on the code of a
//! plugin runs; an [`Instance`] is what can be called.

mod elf;
mod envelope;
mod failure;
mod file;
mod gate;
mod instance;
mod json;
mod lane;
mod ledger;
mod library;
mod manifest;
mod name;
mod process;
mod rule;
mod schema;
mod search;
mod sync;

use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Reporter, Result, Store};

pub use envelope::{Role, Surroundings};
pub use failure::failure;
pub(crate) use file::sha256_of;
pub use file::{PluginFile, PluginForm, Refusal, check_file};
pub use instance::{Carrier, Instance, Replies, Upward};
pub use library::{Library, serve_library};
pub use manifest::{Capability, Manifest, StoreProfile};
pub use name::PluginName;
pub use process::{Listener, Process, Program};
pub use schema::{Mistake, Schema};
pub use search::{Candidate, PluginPlace, PluginSearch, Resolved};

use crate::{PluginSettings, Project, Serving, Settings};

/// Opens the store that a plugin provides.
pub fn open(
    _project: &Project,
    _settings: &Settings,
    plugin: &PluginSettings,
    _serving: Serving,
    _reporter: Reporter,
) -> Result<Arc<dyn Store>> {
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("this build of fmail loads no plugins, and `{}` is one", plugin.name),
    )
    .help("use mail.store = \"files\", which keeps the messages in .fmail/"))
}
