//! Plugins: which file a name means, whether that file is believed, and what it says about itself.
//!
//! Nothing here runs a plugin, apart from [`open`]: a configuration can be checked, and plugins listed, without loading
//! anything.

mod elf;
mod embedded;
mod file;
mod json;
mod manifest;
mod name;
mod rule;
mod schema;
mod search;

use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Reporter, Result, Store};

pub(crate) use file::sha256_of;
pub use file::{PluginFile, PluginForm, Refusal, check_file};
pub use manifest::{Capability, Manifest, StoreProfile};
pub use name::PluginName;
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
