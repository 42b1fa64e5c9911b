//! One daemon for one project: a lock that the kernel frees when its holder dies, however it dies.
//!
//! Whoever changes a project in a way that a daemon must not see half done holds it too.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

/// The lock's name in `.fmail/`.
pub const LOCK: &str = "forged.lock";
/// What stands before the number of a holder that is no daemon, so that nobody takes it for one.
const NO_DAEMON: &str = "fmail ";

/// The lock of a project, held as long as this lives.
pub struct RootLock {
    file: File,
    path: PathBuf,
    /// Keeps away those who share the project, too.
    alone: Option<UseLock>,
}

impl RootLock {
    /// Takes the lock for a daemon, or tells who has it.
    pub fn take(directory: &Path) -> Result<RootLock> {
        RootLock::take_as(directory, "")
    }

    /// Takes the lock to keep daemons away for a while, or tells who has it.
    pub fn keep_daemons_away(directory: &Path) -> Result<RootLock> {
        let mut lock = RootLock::take_as(directory, NO_DAEMON)?;
        lock.alone = UseLock::take(directory, FlockOperation::NonBlockingLockExclusive)?;
        Ok(lock)
    }

    fn take_as(directory: &Path, before: &str) -> Result<RootLock> {
        let path = directory.join(LOCK);
        let wrong = |error: io::Error| Error::io(format_args!("cannot lock {}", path.display()), &error);
        let mut file = open(&path, OFlags::CREATE | OFlags::RDWR).map_err(wrong)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(taken(directory, &shown(&mut file)));
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(wrong)?;
        writeln!(file, "{before}{}", std::process::id()).map_err(wrong)?;
        Ok(RootLock { file, path, alone: None })
    }

    /// Whether the lock is still the one that others would find: somebody may have removed the whole directory.
    pub fn is_in_place(&self) -> bool {
        let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        match (self.file.metadata(), std::fs::symlink_metadata(&self.path)) {
            (Ok(held), Ok(found)) => place(held) == place(found),
            _ => false,
        }
    }
}

/// That a daemon uses a project which it does not serve alone: another one may, and so do commands. Held as long as this
/// lives; `fmail store copy` waits for nobody and is refused meanwhile.
///
/// It is a lock on `.fmail/` itself, since the file of the other lock says who serves the project.
#[derive(Debug)]
pub struct UseLock {
    _directory: File,
}

impl UseLock {
    /// Takes the lock, or tells that a store is being copied.
    pub fn share(directory: &Path) -> Result<Option<UseLock>> {
        UseLock::take(directory, FlockOperation::NonBlockingLockShared)
    }

    /// Nothing where the file system cannot lock a directory: there the other lock has to do.
    fn take(directory: &Path, how: FlockOperation) -> Result<Option<UseLock>> {
        let wrong = |error: io::Error| Error::io(format_args!("cannot lock {}", directory.display()), &error);
        let file = open(directory, OFlags::RDONLY | OFlags::DIRECTORY).map_err(wrong)?;
        match flock(&file, how) {
            Ok(()) => Ok(Some(UseLock { _directory: file })),
            Err(Errno::WOULDBLOCK) if how == FlockOperation::NonBlockingLockExclusive => {
                let text = format!("{} is in use by a forged that found it by its path", directory.display());
                Err(Error::new(ErrorKind::Conflict, text)
                    .help("it lets go when nobody has asked for the project for a while; `forged stop` ends it"))
            }
            Err(Errno::WOULDBLOCK) => {
                let text = format!("a store of {} is being copied by `fmail store copy`", directory.display());
                Err(Error::new(ErrorKind::Conflict, text).help("wait for its end"))
            }
            Err(_) => Ok(None),
        }
    }
}

fn taken(directory: &Path, holder: &str) -> Error {
    let directory = directory.display();
    match holder.strip_prefix(NO_DAEMON) {
        Some(process) => {
            let text = format!("a store of {directory} is being copied by `fmail store copy`, process {process}");
            Error::new(ErrorKind::Conflict, text).help("wait for its end")
        }
        None => {
            let text = format!("{directory} is served by a forged, process {holder}");
            Error::new(ErrorKind::Conflict, text).help("`forged stop` ends it")
        }
    }
}

/// The daemon that holds the lock, by its process; nothing when nobody does.
pub fn holder(directory: &Path) -> Result<Option<u32>> {
    let path = directory.join(LOCK);
    let mut file = match open(&path, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io(format_args!("cannot read {}", path.display()), &error)),
    };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let text = shown(&mut file);
    if text.starts_with(NO_DAEMON) {
        return Err(taken(directory, &text));
    }
    // Its holder writes its number right behind the lock; for that moment there is none.
    text.parse().map(Some).map_err(|_| {
        Error::new(ErrorKind::Unavailable, format!("{} is held by a process that is just starting", path.display()))
            .help("try again in a moment")
    })
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(File::from(rustix::fs::open(path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?))
}

fn shown(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind();
    let _ = file.take(32).read_to_string(&mut text);
    text.trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_the_other_is_told_who() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(holder(directory.path()).unwrap(), None);
        let lock = RootLock::take(directory.path()).unwrap();
        assert_eq!(holder(directory.path()).unwrap(), Some(std::process::id()));
        let error = RootLock::take(directory.path()).err().unwrap();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        assert!(lock.is_in_place());
        std::fs::remove_file(directory.path().join(LOCK)).unwrap();
        assert!(!lock.is_in_place());
        drop(lock);
        assert_eq!(holder(directory.path()).unwrap(), None);
    }

    #[test]
    fn users_share_a_project_with_its_daemon_but_not_with_a_copy() {
        let directory = tempfile::tempdir().unwrap();
        let daemon = RootLock::take(directory.path()).unwrap();
        let users = [UseLock::share(directory.path()).unwrap(), UseLock::share(directory.path()).unwrap()];
        assert!(users.iter().all(Option::is_some));
        drop(daemon);
        let error = RootLock::keep_daemons_away(directory.path()).err().unwrap();
        assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("by its path"), "{error}");
        assert_eq!(holder(directory.path()).unwrap(), None, "nothing is left of the attempt");
        drop(users);
        let _copy = RootLock::keep_daemons_away(directory.path()).unwrap();
        let error = UseLock::share(directory.path()).unwrap_err();
        assert!(error.kind() == ErrorKind::Conflict && error.to_string().contains("store copy"), "{error}");
    }

    #[test]
    fn who_is_no_daemon_is_not_taken_for_one() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = RootLock::keep_daemons_away(directory.path()).unwrap();
        for error in [RootLock::take(directory.path()).err().unwrap(), holder(directory.path()).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.to_string().contains("fmail store copy"), "{error}");
        }
    }
}
