//! A project that is open in this process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use fmail_api::{Error, Result};
use fmail_core::{Blocking, Fanout, Operations};
use fmail_host::daemon_lock::UseLock;
use fmail_host::{Project, Serving, Settings, SystemClock, open_store};

use crate::output::reporter;

/// Its operations, and what they were opened by.
pub(super) struct Opened {
    pub(super) operations: Arc<Operations>,
    settings: Settings,
    /// Which directory it was: another one may come in its place.
    place: (u64, u64),
}

impl Opened {
    /// Opens the project's store. Its watches share one watch of it.
    pub(super) fn new(project: &Project, settings: &Settings) -> Result<Opened> {
        let place = place(&project.fmail_dir())?;
        let store = open_store(project, settings, reporter(), Serving::Cli)?;
        let blocking: Blocking = Arc::new(|work| drop(tokio::task::spawn_blocking(work)));
        let operations = Operations::new(Arc::new(Fanout::new(store, blocking)), Arc::new(SystemClock));
        Ok(Opened { operations: Arc::new(operations), settings: settings.clone(), place })
    }

    /// Whether opening it again would lead to the same. A server lives for long: meanwhile somebody may have chosen
    /// another store, or put another directory there.
    pub(super) fn is_current(&self, project: &Project, settings: &Settings) -> bool {
        self.settings == *settings && place(&project.fmail_dir()).is_ok_and(|place| place == self.place)
    }
}

/// Keeps `fmail store copy` away for as long as this lives, or tells that it is at work.
pub(super) fn in_use(project: &Project) -> Result<Option<UseLock>> {
    UseLock::share(&project.fmail_dir())
}

fn place(directory: &Path) -> Result<(u64, u64)> {
    let found = fs::symlink_metadata(directory);
    found
        .map(|metadata| (metadata.dev(), metadata.ino()))
        .map_err(|error| Error::io(format_args!("cannot look at {}", directory.display()), &error))
}
