//! A found project that is open.

use std::path::Path;
use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Result, Store};
use fmail_host::Catalogue;
use fmail_host::hosting::create_project;
use futures::executor::block_on;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use super::Guarded;
use crate::client::Served;
use crate::lock::{RootLock, UseLock};
use crate::project;
use crate::relay::Others;

/// A found project that is open.
pub struct Open {
    pub client: Arc<Served>,
    pub guarded: Arc<Guarded>,
    store: Arc<dyn Store>,
    /// What is in it would be gone with it.
    lasts: bool,
    /// Its place among those that may be open.
    pub permit: Option<OwnedSemaphorePermit>,
    _held: Held,
}

/// What keeps others from the project while it is open.
enum Held {
    /// Nobody else may serve it: the store lives in this process.
    Alone { _lock: RootLock },
    /// Others may use it too.
    Shared { _lock: Option<UseLock> },
}

impl Open {
    /// Opens the project with this root.
    ///
    /// Another daemon may serve it already. That does not matter where the store is shared, as it does not to commands;
    /// where it is not, the error names the other.
    pub fn new(catalogue: &Catalogue, root: &Path) -> Result<Open> {
        let project = catalogue.project(root)?;
        let settings = catalogue.settings(&project)?;
        let directory = project.fmail_dir();
        let guarded = Arc::new(Guarded::new(&project)?);
        // Before the store is opened: one that is being copied is left alone.
        let used = UseLock::share(&directory)?;
        let store = project::store_of(&project, &settings)?;
        let capabilities = store.capabilities();
        let held = match capabilities.shared {
            true => Held::Shared { _lock: used },
            false => Held::Alone { _lock: RootLock::take(&directory)? },
        };
        match create_project(&project, &*store) {
            // Who may not write may still read.
            Err(error) if error.kind() != ErrorKind::Denied => return Err(error),
            _ => {}
        }
        let (client, store) = project::served(project, &settings, store, Others::none())?;
        let client = Arc::new(client.guarded_by(guarded.clone()));
        Ok(Open { client, guarded, store, lasts: capabilities.durable, permit: None, _held: held })
    }

    /// Whether it may be closed: nobody uses it, and nothing would be lost.
    pub fn is_idle(&self) -> bool {
        self.lasts && Arc::strong_count(&self.client) == 1 && !self.client.is_busy()
    }

    /// Closes it. What went wrong is told and no reason to keep it.
    pub async fn close(self) {
        let root = self.client.project.root.clone();
        let closed = spawn_blocking(move || block_on(self.store.close())).await;
        match closed.unwrap_or_else(|_| Err(Error::internal("closing ended unexpectedly"))) {
            Ok(()) => tracing::debug!(root = %root.display(), "closed"),
            Err(error) => tracing::warn!(root = %root.display(), %error, "the project was not closed well"),
        }
    }
}
