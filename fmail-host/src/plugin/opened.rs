//! From the name of a plugin to an open store.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fmail_api::{Clock, Error, ErrorKind, Expect, RecordKey, Result, Store};
use fmail_backends::SystemClock;
use fmail_core::{LayerOptions, LogStore, layered};
use futures::executor::block_on;

use super::log::PluginLog;
use super::store::PluginStore;
use super::{Plugin, Role, StoreProfile, Surroundings};
use crate::registry::PluginKind;
use crate::{PluginSettings, Project, Settings};

/// Opens the store that a plugin provides: a directory of its own below `.fmail/`, an instance, and around it what every
/// store gets.
pub fn open(project: &Project, settings: &Settings, plugin: &PluginSettings) -> Result<Arc<dyn Store>> {
    let loaded = Plugin::load(plugin, PluginKind::Store)?;
    let data_dir = data_dir(project, loaded.name())?;
    let (id, _) = project.id()?;
    let limit = settings.mail.max_message_bytes;
    let surroundings = Surroundings {
        role: Role::Store,
        project: Some((id, project.root.clone())),
        node: node(),
        data_dir,
        max_message_bytes: Some(limit),
    };
    let instance = Arc::new(block_on(loaded.instance(&surroundings, None))?);
    let store: Arc<dyn Store> = match loaded.manifest().profile {
        StoreProfile::Store => Arc::new(PluginStore::new(instance, limit)),
        StoreProfile::Log => {
            let log = Arc::new(PluginLog::new(instance, limit));
            Arc::new(LogStore::new(log, Arc::new(SystemClock)).poll_interval(settings.mail.watch.poll_interval))
        }
    };
    Ok(layered(store, &LayerOptions { deadline: Some(plugin.timeout), ..LayerOptions::default() }))
}

/// Writes the project's record where there is none yet, as the files store does with its first message.
pub fn found(project: &Project, store: &dyn Store) -> Result<()> {
    let key = RecordKey::project();
    if block_on(store.get(&key))?.is_some() {
        return Ok(());
    }
    let record = project.new_record(SystemClock.now())?;
    let value = serde_json::to_value(&record)
        .map_err(|error| Error::internal(format!("the project's record has no JSON form: {error}")))?;
    match block_on(store.put(&key, Expect::Absent, value, true)) {
        // Another process was first, which is just as well.
        Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
        _ => Ok(()),
    }
}

/// The name of this machine.
pub(super) fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The directory that is the plugin's own. What it keeps there is no text that git could merge, so git leaves it alone.
pub fn data_dir(project: &Project, name: &str) -> Result<PathBuf> {
    let all = project.fmail_dir().join("plugins");
    let own = all.join(name);
    for directory in [&project.fmail_dir(), &all, &own] {
        make(directory)?;
    }
    let ignored = all.join(".gitignore");
    if !ignored.exists() {
        fs::write(&ignored, "*\n")
            .map_err(|error| Error::io(format_args!("cannot write {}", ignored.display()), &error))?;
    }
    Ok(own)
}

fn make(directory: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::io(format_args!("cannot create {}", directory.display()), &error))
        }
        _ => Ok(()),
    }
}
