//! From the name of a store to an open one.

use std::sync::Arc;

use fmail_api::{Clock, Error, ErrorKind, Reporter, Result, Store};
use fmail_backends::{FilesOptions, FilesStore, MemoryStore, SystemClock};

use crate::plugin::{self, PluginName};
use crate::registry::PluginKind;
use crate::{Durability, PluginSettings, Project, Settings};

/// Who uses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// A command that opens the store, does one thing and ends.
    Cli,
    /// A daemon, whose clients share the one store that it holds.
    Daemon,
}

/// Opens the store that the settings name.
///
/// A store that other processes cannot see is refused for a command: each `send` would say "stored" and lose the message
/// when the process ends.
pub fn open_store(
    project: &Project,
    settings: &Settings,
    reporter: Reporter,
    serving: Serving,
) -> Result<Arc<dyn Store>> {
    let name = settings.mail.store.as_str();
    let blamed = |error: Error| error.context("origin", format_args!("mail.store ({})", settings.origin("mail.store")));
    let store: Arc<dyn Store> = match name {
        "memory" => Arc::new(MemoryStore::new(settings.mail.max_message_bytes, Arc::new(SystemClock))),
        "files" => Arc::new(FilesStore::open(files_options(project, settings, reporter))?),
        _ => {
            let plugin = plugin_named(settings, name).map_err(blamed)?;
            plugin::open(project, settings, &plugin, serving, reporter).map_err(blamed)?
        }
    };
    if serving == Serving::Cli && !store.capabilities().shared {
        return Err(blamed(
            Error::new(
                ErrorKind::InvalidConfig,
                format!(
                    "the store `{name}` lives in one process, and this command ends with its process: it would say \
                     \"stored\" and lose the message"
                ),
            )
            .help("use mail.store = \"files\", or let a daemon serve this store"),
        ));
    }
    Ok(store)
}

/// The settings of the plugin that a name means. That it means one was found out when they were loaded; settings that were
/// made by hand may name anything.
fn plugin_named(settings: &Settings, name: &str) -> Result<PluginSettings> {
    let plugin = settings.plugin(&name.parse::<PluginName>()?);
    if plugin.file.is_some() || plugin.command.is_some() || plugin.found.is_some() {
        return Ok(plugin);
    }
    let built_in = PluginKind::Store.built_in().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(Error::new(ErrorKind::InvalidConfig, format!("there is no store named `{name}`"))
        .help(format!("built in are {built_in}; `fmail plugin list` shows the plugins that are found")))
}

fn files_options(project: &Project, settings: &Settings, reporter: Reporter) -> FilesOptions {
    let clock = Arc::new(SystemClock);
    let mail = &settings.mail;
    let mut options = FilesOptions::new(&project.root);
    let (creating, now) = (project.clone(), Arc::clone(&clock));
    options.project = Box::new(move || creating.new_record(now.now()));
    options.max_message_bytes = mail.max_message_bytes;
    options.durability = match mail.durability {
        Durability::Disk => fmail_backends::Durability::Disk,
        Durability::Os => fmail_backends::Durability::Os,
    };
    options.lock_timeout = mail.lock_timeout;
    options.events = mail.watch.events;
    options.poll_interval = mail.watch.poll_interval;
    options.reporter = reporter;
    options.clock = clock;
    options
}
