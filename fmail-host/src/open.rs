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
    let store = open(project, settings, name, reporter, serving).map_err(blamed)?;
    if serving == Serving::Cli && !store.capabilities().shared {
        return Err(unserved(project, settings));
    }
    if serving == Serving::Cli && !PluginKind::Store.has(name) {
        plugin::found(project, &*store)?;
    }
    Ok(store)
}

/// Opens a store by its name, whatever it can do: one that is built in, or a plugin.
pub fn open_named(project: &Project, settings: &Settings, name: &str, reporter: Reporter) -> Result<Arc<dyn Store>> {
    open(project, settings, name, reporter, Serving::Cli)
}

fn open(
    project: &Project,
    settings: &Settings,
    name: &str,
    reporter: Reporter,
    serving: Serving,
) -> Result<Arc<dyn Store>> {
    Ok(match name {
        "memory" => Arc::new(MemoryStore::new(settings.mail.max_message_bytes, Arc::new(SystemClock))),
        "files" => Arc::new(FilesStore::open(files_options(project, settings, reporter, serving))?),
        _ => plugin::open(project, settings, &plugin_named(settings, name)?)?,
    })
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

/// What a command says when its store lives in the daemon's process, and no daemon answers.
pub fn unserved(project: &Project, settings: &Settings) -> Error {
    let name = settings.mail.store.as_str();
    let (what, help) = if settings.mail.transports.is_empty() {
        let what = "mail.transports names no way to a forged that could hold it";
        (what, "name `unix` in mail.transports, or use mail.store = \"files\"".to_string())
    } else {
        let help = format!("start `forged` in {}, or use mail.store = \"files\"", project.root.display());
        ("no forged answers that could hold it", help)
    };
    Error::new(
        ErrorKind::InvalidConfig,
        format!(
            "the store `{name}` lives in one process, and {what}: a command on its own would say \"stored\" and lose the \
             message"
        ),
    )
    .context("origin", format_args!("mail.store ({})", settings.origin("mail.store")))
    .help(help)
}

fn files_options(project: &Project, settings: &Settings, reporter: Reporter, serving: Serving) -> FilesOptions {
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
    // A command that sends one message and ends would only pay for it.
    options.journal.writes = serving == Serving::Daemon;
    options.lock_timeout = mail.lock_timeout;
    options.events = mail.watch.events;
    options.poll_interval = mail.watch.poll_interval;
    options.reporter = reporter;
    options.clock = clock;
    options
}
