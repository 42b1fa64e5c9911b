//! Projects that clients name by their paths: found, opened when they are first used, and closed when nobody uses them.

mod guarded;
mod open;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fmail_api::{Client, Error, ErrorKind, HostedProject, Result};
use fmail_core::Operations;
use fmail_host::Catalogue;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

pub use guarded::Guarded;
use open::Open;

use crate::client::Served;
use crate::presence::Presence;

/// A project that nobody has asked for so long is closed.
const IDLE_AFTER: Duration = Duration::from_secs(300);

/// The projects that are found by their paths.
pub struct Found {
    /// Where they are; or why this daemon cannot remember any.
    catalogue: Result<Arc<Catalogue>>,
    /// What the daemon was started for is open already.
    served: HashMap<PathBuf, Arc<Served>>,
    /// One for each project that was opened. It is locked while that is opened or closed, which nobody else waits for.
    slots: Mutex<HashMap<PathBuf, Arc<Slot>>>,
    /// How many may be open.
    room: Arc<Semaphore>,
    limit: usize,
}

struct Slot {
    open: Arc<tokio::sync::Mutex<Option<Open>>>,
    used: Mutex<Instant>,
}

impl Found {
    /// The projects of a catalogue beside those that are served anyway; at most `limit` of them are open at a time.
    pub fn new(catalogue: Result<Catalogue>, served: HashMap<PathBuf, Arc<Served>>, limit: usize) -> Self {
        Found {
            catalogue: catalogue.map(Arc::new),
            served,
            slots: Mutex::default(),
            room: Arc::new(Semaphore::new(limit)),
            limit,
        }
    }

    /// The project that a path means.
    pub async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        let (catalogue, path) = (self.catalogue.clone()?, path.to_path_buf());
        let found = blocking(move || catalogue.find(&path, create)).await?;
        Ok(self.named_as_served(found))
    }

    /// Every project that is served or was found.
    pub async fn hosted(&self) -> Result<Vec<HostedProject>> {
        let catalogue = self.catalogue.clone()?;
        let served: Vec<PathBuf> = self.served.keys().cloned().collect();
        let all = blocking(move || {
            for root in served {
                catalogue.find(&root, false)?;
            }
            catalogue.hosted()
        });
        Ok(all.await?.into_iter().map(|one| self.named_as_served(one)).collect())
    }

    /// FMAIL_PROJECT may have given what is served another id.
    fn named_as_served(&self, mut project: HostedProject) -> HostedProject {
        if let Some(served) = self.served.get(&project.root) {
            project.id.clone_from(&served.project_id);
        }
        project
    }

    /// The operations of the project with this root, which is opened if it is not.
    ///
    /// However many ask at the same time, it is opened once; and one who goes away meanwhile leaves nothing half done.
    pub async fn open(self: &Arc<Self>, root: &Path) -> Result<Arc<dyn Client>> {
        if let Some(served) = self.served.get(root) {
            return Ok(served.clone());
        }
        let known = relock(&self.slots).get(root).cloned();
        if let Some(slot) = known
            && let Some(client) = slot.client(&*slot.open.lock().await)
        {
            return Ok(client);
        }
        let (found, root) = (self.clone(), root.to_path_buf());
        let opening = tokio::spawn(async move { found.opened(root).await });
        let client = opening.await.map_err(|_| Error::internal("opening the project ended unexpectedly"))??;
        Ok(client)
    }

    async fn opened(&self, root: PathBuf) -> Result<Arc<Served>> {
        let catalogue = self.catalogue.clone()?;
        let (asked, looked_up) = (root.clone(), catalogue.clone());
        // Roots that are no project's must not fill the table.
        blocking(move || looked_up.project(&asked)).await?;
        let slot = relock(&self.slots).entry(root.clone()).or_insert_with(|| Arc::new(Slot::new())).clone();
        let mut place = slot.open.clone().lock_owned().await;
        if let Some(client) = slot.client(&place) {
            return Ok(client);
        }
        let lost = place.take();
        let was_lost = lost.is_some();
        if let Some(lost) = lost {
            lost.close().await;
        }
        let permit = self.permit()?;
        let shown = root.clone();
        let mut open = blocking(move || Open::new(&catalogue, &root)).await?;
        open.permit = Some(permit);
        let how = if was_lost { "serving again what was gone" } else { "serving, found by its path" };
        tracing::info!(root = %shown.display(), project = open.client.project_id, "{how}");
        Ok(place.insert(open).client.clone())
    }

    /// Room for one more: where there is none, the project that nobody has used for the longest time makes it.
    fn permit(&self) -> Result<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = self.room.clone().try_acquire_owned() {
                return Ok(permit);
            }
            let Some(oldest) = self.idle(Duration::ZERO).into_iter().next() else {
                return Err(Error::new(
                    ErrorKind::Backpressure,
                    format!("{} projects are open, and each of them is in use", self.limit),
                )
                .help("try again; more may be open when mail.projects.open says so"));
            };
            close(oldest);
        }
    }

    /// The projects that nobody has used for at least this long, the longest unused first; nobody gets at one meanwhile.
    fn idle(&self, least: Duration) -> Vec<OwnedMutexGuard<Option<Open>>> {
        let mut idle: Vec<(Instant, OwnedMutexGuard<Option<Open>>)> = Vec::new();
        for slot in relock(&self.slots).values() {
            let used = *relock(&slot.used);
            if used.elapsed() >= least
                && let Ok(place) = slot.open.clone().try_lock_owned()
                && place.as_ref().is_some_and(Open::is_idle)
            {
                idle.push((used, place));
            }
        }
        idle.sort_by_key(|(used, _)| *used);
        idle.into_iter().map(|(_, place)| place).collect()
    }

    /// Closes what nobody has used for long, and looks whether the others are still where they were.
    pub fn tidy(&self) {
        self.close_idle(IDLE_AFTER);
        let guards = self.each_open(|open| open.guarded.clone());
        drop(spawn_blocking(move || {
            for guarded in guards {
                // Who uses it hears of it, and so does the log.
                let _ = guarded.check();
            }
        }));
    }

    fn close_idle(&self, least: Duration) {
        self.idle(least).into_iter().for_each(close);
        let unused =
            |slot: &Arc<Slot>| Arc::strong_count(slot) == 1 && slot.open.try_lock().is_ok_and(|open| open.is_none());
        relock(&self.slots).retain(|_, slot| !unused(slot));
    }

    /// Who is there in the projects that are open, and the operations that note it.
    pub fn present(&self) -> Vec<(Arc<Presence>, Arc<Operations>)> {
        self.each_open(|open| (open.client.presence.clone(), open.client.operations.clone()))
    }

    /// Something of every project that is open. The client itself is for those who use the project: it would look busy.
    fn each_open<T>(&self, of: impl Fn(&Open) -> T) -> Vec<T> {
        let of = |slot: &Arc<Slot>| slot.open.try_lock().ok()?.as_ref().map(&of);
        relock(&self.slots).values().filter_map(of).collect()
    }

    /// Closes everything, when the daemon ends.
    pub async fn close_all(&self) {
        let slots: Vec<Arc<Slot>> = relock(&self.slots).drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            if let Some(open) = slot.open.lock().await.take() {
                open.close().await;
            }
        }
    }
}

impl Slot {
    fn new() -> Self {
        Slot { open: Arc::default(), used: Mutex::new(Instant::now()) }
    }

    /// The client to give out, if the project is open and its directory not known to be gone.
    fn client(&self, open: &Option<Open>) -> Option<Arc<Served>> {
        *relock(&self.used) = Instant::now();
        open.as_ref().filter(|open| !open.guarded.is_lost()).map(|open| open.client.clone())
    }
}

/// Closes a project. Its room is free at once, and nobody waits for the rest but who wants to open it again.
fn close(mut place: OwnedMutexGuard<Option<Open>>) {
    if let Some(mut open) = place.take() {
        drop(open.permit.take());
        drop(tokio::spawn(async move {
            open.close().await;
            drop(place);
        }));
    }
}

/// Runs what may wait for a disk where that holds up nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|_| Error::internal("looking for the project ended unexpectedly"))?
}

fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
