//! Projects that the plugin keeps, for the suite.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fmail_api::{Error, Log, Result, Store};
use fmail_conformance::{LogSubject, Subject, Work};
use fmail_host::plugin::{self, Chosen, Plugin, PluginLog, Role, Surroundings};
use fmail_host::{Environment, PluginKind, Project};
use futures::executor::block_on;
use tempfile::TempDir;

use crate::which::Which;

/// A directory for one project, gone when this is dropped.
pub struct Place {
    pub root: TempDir,
    pub which: Which,
    pub chosen: Chosen,
}

impl Place {
    pub fn new(which: &Which) -> Result<Place> {
        let root = tempfile::tempdir().map_err(|error| Error::io("a directory for the case", &error))?;
        Ok(Place { root, which: which.clone(), chosen: which.chosen()? })
    }

    /// A directory for the plugin's own use, and what it is told about it.
    pub fn surroundings(&self, role: Role) -> Result<Surroundings> {
        let project = project_at(self.root.path())?;
        let data_dir = plugin::data_dir(&project, self.chosen.plugin.name.as_str())?;
        let of_project = (role == Role::Store).then(|| ("suite".to_string(), project.root.clone()));
        Ok(Surroundings { role, project: of_project, node: "suite".into(), data_dir, max_message_bytes: None })
    }
}

/// The project in this directory.
fn project_at(root: &Path) -> Result<Project> {
    let root = root.to_string_lossy().into_owned();
    let environment = Environment::new(root.clone(), [("FMAIL_ROOT".to_string(), root)].into_iter().collect());
    Project::discover(&environment)
}

/// Opens the store that the plugin keeps in this directory, as fmail would.
pub fn store_at(root: &Path, chosen: &Chosen) -> Result<Arc<dyn Store>> {
    plugin::open(&project_at(root)?, &chosen.settings, &chosen.plugin)
}

/// Which instance is given out when another is asked for.
enum Open<T: ?Sized> {
    /// A fresh one: instances share their data.
    Fresh,
    /// The one that lives, else a fresh one: what is kept outlives the instance.
    Living(Weak<T>),
    /// Always the same: it keeps its data in itself.
    Same(Arc<T>),
}

impl<T: ?Sized> Open<T> {
    fn of(first: &Arc<T>, shared: bool, durable: bool) -> Self {
        match (shared, durable) {
            (true, _) => Open::Fresh,
            (false, true) => Open::Living(Arc::downgrade(first)),
            (false, false) => Open::Same(first.clone()),
        }
    }

    fn there(&self) -> Option<Arc<T>> {
        match self {
            Open::Fresh => None,
            Open::Living(living) => living.upgrade(),
            Open::Same(same) => Some(same.clone()),
        }
    }
}

/// Gives out an instance: one that is there, or a fresh one.
fn opened<T: ?Sized>(
    open: &Mutex<Option<Open<T>>>,
    fresh: impl FnOnce() -> Result<Arc<T>>,
    claims: impl FnOnce(&T) -> (bool, bool),
) -> Result<Arc<T>> {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(there) = open.as_ref().and_then(Open::there) {
        return Ok(there);
    }
    let fresh = fresh()?;
    let (shared, durable) = claims(&fresh);
    *open = Some(Open::of(&fresh, shared, durable));
    Ok(fresh)
}

/// A project as a store.
pub struct StoreProject {
    place: Place,
    open: Mutex<Option<Open<dyn Store>>>,
}

impl StoreProject {
    pub fn new(which: &Which) -> Result<StoreProject> {
        Ok(StoreProject { place: Place::new(which)?, open: Mutex::default() })
    }
}

impl Subject for StoreProject {
    fn open(&self) -> Result<Arc<dyn Store>> {
        let fresh = || store_at(self.place.root.path(), &self.place.chosen);
        opened(&self.open, fresh, |store| (store.capabilities().shared, store.capabilities().durable))
    }

    fn writer(&self, work: Work) -> Option<Command> {
        let mut command = self.place.which.command("write").ok()?;
        command.arg(self.place.root.path()).arg(work.to_string());
        Some(command)
    }
}

/// A project as a bare log.
pub struct LogProject {
    place: Place,
    open: Mutex<Option<Open<dyn Log>>>,
}

impl LogProject {
    pub fn new(which: &Which) -> Result<LogProject> {
        Ok(LogProject { place: Place::new(which)?, open: Mutex::default() })
    }

    fn fresh(&self) -> Result<Arc<dyn Log>> {
        let plugin = Plugin::load(&self.place.chosen.plugin, PluginKind::Store)?;
        let instance = block_on(plugin.instance(&self.place.surroundings(Role::Store)?, None))?;
        Ok(Arc::new(PluginLog::new(Arc::new(instance), self.place.chosen.settings.mail.max_message_bytes)))
    }
}

impl LogSubject for LogProject {
    fn open(&self) -> Result<Arc<dyn Log>> {
        opened(&self.open, || self.fresh(), |log| (log.facts().shared, log.facts().durable))
    }
}
