//! The lock of a chat file: an flock on the file itself.
//!
//! Everyone of us who changes the file holds it. `echo >>` does not, so it protects us from each other only; what protects
//! us from everyone is that a line is one write at the end of the file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, OFlags, flock};

/// Which file it is: its device and its number there. Another file in its place has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    /// The identity that this metadata shows.
    pub fn of(metadata: &std::fs::Metadata) -> Identity {
        Identity { device: metadata.dev(), number: metadata.ino() }
    }
}

/// A chat file, opened for reading and appending, and locked until this is dropped.
#[derive(Debug)]
pub struct Locked {
    file: File,
    identity: Identity,
    created: bool,
}

impl Locked {
    /// Opens the file and takes its lock, waiting for at most `timeout`. With `create`, a missing file is made, and the
    /// directories above it.
    ///
    /// The lock is always that of the file that has the name now: one that was moved away while we waited is let go.
    pub fn open(path: &Path, create: bool, timeout: Duration) -> Result<Locked> {
        let end = Instant::now() + timeout;
        loop {
            let (file, created) = open(path, create)?;
            let file = wait(path, file, timeout, end.saturating_duration_since(Instant::now()))?;
            let failed = |error: io::Error| Error::io(format!("{} cannot be looked at", path.display()), &error);
            let identity = Identity::of(&file.metadata().map_err(failed)?);
            match path.metadata() {
                Ok(now) if Identity::of(&now) == identity => return Ok(Locked { file, identity, created }),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
            if Instant::now() >= end {
                return Err(busy(path, timeout));
            }
        }
    }

    /// The file, opened for reading and for appending.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Which file it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether the file was not there before.
    pub fn is_new(&self) -> bool {
        self.created
    }
}

/// Opens the file, and says whether it was made now.
fn open(path: &Path, create: bool) -> Result<(File, bool)> {
    let failed = |error: &io::Error| Error::io(format!("{} cannot be opened for appending", path.display()), error);
    let mut options = OpenOptions::new();
    // Non-blocking: a pipe in the file's place must be refused and not waited for.
    options.read(true).append(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let opened = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let made = DirBuilder::new().recursive(true).create(parent);
                made.map_err(|error| Error::io(format!("{} cannot be created", parent.display()), &error))?;
            }
            match options.clone().create_new(true).open(path) {
                Ok(file) => Ok((file, true)),
                // Somebody was quicker.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    options.open(path).map(|file| (file, false))
                }
                Err(error) => Err(error),
            }
        }
        other => other.map(|file| (file, false)),
    };
    let (file, created) = opened.map_err(|error| failed(&error))?;
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        let text = format!("{} is not a regular file; a chat file is one", path.display());
        return Err(Error::invalid(text));
    }
    Ok((file, created))
}

/// Takes the lock. An flock has no timeout, so a contended one is waited for in the kernel's queue by a thread; when we
/// give up, that thread gets the lock at some time, finds nobody to hand it to, and lets it go.
fn wait(path: &Path, file: File, timeout: Duration, left: Duration) -> Result<File> {
    let failed = |error: &io::Error| Error::io(format!("{} cannot be locked", path.display()), error);
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) if left.is_zero() => return Err(busy(path, timeout)),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(error) => return Err(failed(&error.into())),
    }
    let (sender, receiver) = sync_channel(1);
    let waiting = move || {
        let locked = loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        // Nobody waits any more: dropping the file frees the lock.
        let _ = sender.send(locked.map(|()| file));
    };
    let spawned = std::thread::Builder::new().name("chat-lock".into()).spawn(waiting);
    spawned.map_err(|error| Error::io("no thread to wait for the chat file's lock", &error))?;
    match receiver.recv_timeout(left) {
        Ok(locked) => locked.map_err(|error| failed(&error.into())),
        Err(_) => Err(busy(path, timeout)),
    }
}

fn busy(path: &Path, timeout: Duration) -> Error {
    let text = format!(
        "{} is locked by another process for more than {:.1} s; nothing was written",
        path.display(),
        timeout.as_secs_f64()
    );
    Error::new(ErrorKind::Backpressure, text)
        .help("try again; `lslocks` shows who holds it, and the lock is free as soon as that process ends")
}
