//! A project's directory that may go while it is open.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};
use fmail_host::Project;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// Which directory was opened, and whether it is still the one.
#[derive(Debug)]
pub struct Guarded {
    directory: PathBuf,
    place: (u64, u64),
    lost: watch::Sender<bool>,
}

impl Guarded {
    /// Guards the project's directory as it is now.
    pub fn new(project: &Project) -> Result<Guarded> {
        let directory = project.fmail_dir();
        let place = place(&directory)
            .map_err(|error| Error::io(format_args!("cannot look at {}", directory.display()), &error))?;
        Ok(Guarded { directory, place, lost: watch::Sender::new(false) })
    }

    /// Looks. The store would go on with what is gone, or begin anew where it was, and neither is what anybody asked for.
    pub fn check(&self) -> Result<()> {
        if place(&self.directory).is_ok_and(|now| now == self.place) {
            return Ok(());
        }
        let error = gone(&self.directory);
        // Said once: it is looked at every few seconds, and stays gone.
        if !self.lost.send_replace(true) {
            tracing::warn!(%error, "a project is gone");
        }
        Err(error)
    }

    /// Whether a look has shown that it is gone.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Resolves when a look shows that it is gone.
    pub fn loss(&self) -> BoxFuture<'static, Error> {
        let (mut lost, directory) = (self.lost.subscribe(), self.directory.clone());
        async move {
            let seen = lost.wait_for(|lost| *lost).await.is_ok();
            if !seen {
                // The project was closed, which ends what is under way by itself.
                std::future::pending::<()>().await;
            }
            gone(&directory)
        }
        .boxed()
    }
}

fn gone(directory: &Path) -> Error {
    let text = format!("{} was removed or replaced while it was open", directory.display());
    Error::new(ErrorKind::InvalidProject, text).help("ask again: the project is opened anew, if there is one")
}

fn place(directory: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(directory).map(|metadata| (metadata.dev(), metadata.ino()))
}
