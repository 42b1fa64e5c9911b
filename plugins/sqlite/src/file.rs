//! The database file: made for its owner alone, never followed through a symlink, and known again when it was replaced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind as Io};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};
use rustix::fs::{Access, access};

/// The smallest database: one page of the smallest size.
const SMALLEST: u64 = 512;

/// By what the kernel knows a file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

/// A database file that is there.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseFile {
    /// Its path, in which no component is a symlink.
    pub(crate) path: PathBuf,
    pub(crate) id: FileId,
}

impl DatabaseFile {
    /// The file at this path; it is made, with its directory, if it is missing.
    ///
    /// A file that exists is not opened here: closing it again would drop the locks that SQLite holds on it in this
    /// process.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Error::new(ErrorKind::InvalidConfig, format!("{}: this is no path of a file", path.display())));
        };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let failed = |error: io::Error| {
            Error::io(format!("{}: the database's directory cannot be used", parent.display()), &error)
        };
        make_directory(parent).map_err(failed)?;
        let path = fs::canonicalize(parent).map_err(failed)?.join(name);
        make_file(&path).map_err(|error| Error::io(format!("{}: cannot be made", path.display()), &error))?;
        let id = identify(&path)?;
        Ok(DatabaseFile { path, id })
    }

    /// Whether we may write the file and make others beside it, as SQLite has to.
    pub(crate) fn is_writable(&self) -> bool {
        let writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
        writable(&self.path) && self.path.parent().is_some_and(writable)
    }

    /// How large the log beside the file is.
    pub(crate) fn log_bytes(&self) -> u64 {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        fs::metadata(PathBuf::from(log)).map_or(0, |log| log.len())
    }

    /// Refuses to go on when the file was removed or replaced: what is written to it would be lost.
    pub(crate) fn check(&self) -> Result<()> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => Some(FileId { device: found.dev(), inode: found.ino() }),
            Err(error) if error.kind() == Io::NotFound => None,
            Err(error) => return Err(Error::io(format!("{}: cannot be seen", self.path.display()), &error)),
        };
        if found == Some(self.id) {
            return Ok(());
        }
        let what = if found.is_some() { "replaced by another file" } else { "removed" };
        Err(Error::new(ErrorKind::Unavailable, format!("{}: the database was {what} while open", self.path.display()))
            .help("nothing was stored; put the file back or start again (a daemon has to be restarted)"))
    }
}

/// Makes the missing directories, for their owner alone, and sees to it that their names survive a power cut.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
    {
        make_directory(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != Io::AlreadyExists || !path.is_dir() => Err(error),
        _ => sync_parent(path),
    }
}

/// Makes an empty file, for its owner alone; SQLite gives the files beside it the same mode.
fn make_file(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        // SQLite syncs the names of the files that it makes, but not the database's own.
        Ok(file) => file.sync_all().and_then(|()| sync_parent(path)),
        Err(error) if error.kind() == Io::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn identify(path: &Path) -> Result<FileId> {
    let found =
        fs::symlink_metadata(path).map_err(|error| Error::io(format!("{}: cannot be seen", path.display()), &error))?;
    let refused = |what: &str| {
        Error::new(ErrorKind::InvalidProject, format!("{}: the database is {what}", path.display()))
            .help("name the file itself: its companions (-wal, -shm) have to lie beside it")
    };
    if found.is_symlink() {
        return Err(refused("a symlink"));
    }
    if !found.is_file() {
        return Err(refused("not a regular file"));
    }
    // SQLite would take so short a file for an empty one, and write over it.
    if (1..SMALLEST).contains(&found.len()) {
        let sentence = format!("{}: no SQLite database has {} bytes", path.display(), found.len());
        return Err(Error::new(ErrorKind::Corrupt, sentence).help("it was left as it is; restore a backup, or move it"));
    }
    Ok(FileId { device: found.dev(), inode: found.ino() })
}
