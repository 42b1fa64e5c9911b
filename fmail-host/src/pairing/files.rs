//! Files that nobody but the user can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};

use crate::file::{Links, read_small};

/// The directory of the pairings.
pub const PEERS: &str = "peers";

/// Keeps other processes from changing anything, as long as it lives. Creates the directories when they are missing.
pub fn lock(directory: &Path) -> Result<File> {
    let wrong = |error: io::Error| Error::io(format_args!("cannot use {}", directory.display()), &error);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory.join(PEERS)).map_err(wrong)?;
    check(directory)?;
    check(&directory.join(PEERS))?;
    let options = || OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).clone();
    let file = options().open(directory.join("lock")).map_err(wrong)?;
    // Everybody holds it for a few system calls only.
    flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
    Ok(file)
}

/// The text of a file; nothing when there is none. One that others may read or could have written is refused.
pub fn read(path: &Path) -> Result<Option<String>> {
    let text = read_small(path, Links::Refuse, ErrorKind::InvalidConfig)?;
    if text.is_some() {
        path.parent().map_or(Ok(()), check)?;
        check(path)?;
    }
    Ok(text)
}

/// Writes a file whole or not at all, for its owner alone.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        // What is left of a failure is of no use to anybody.
        let _ = fs::remove_file(&temporary);
        Error::io(format_args!("cannot write {}", path.display()), &error)
    })
}

/// Removes a file; whether it was there.
pub fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(format_args!("cannot remove {}", path.display()), &error)),
    }
}

/// The files of pairings in a directory.
pub fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let wrong = |error: io::Error| Error::io(format_args!("cannot list {}", directory.display()), &error);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Names, and what changes when a file is replaced. What cannot be looked at is left out: who reads it will say why.
pub fn state(directory: &Path) -> Vec<(String, u64, i64, i64)> {
    let mut state: Vec<_> = listed(directory)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|path| {
            let metadata = fs::symlink_metadata(&path).ok()?;
            let name = path.file_name()?.to_string_lossy().into_owned();
            // The time of the last change of any kind: of permissions too.
            Some((name, metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
        })
        .collect();
    state.sort();
    state
}

/// Secrets count only where nobody but the user could have read or written them.
fn check(path: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(path)
        .map_err(|error| Error::io(format_args!("cannot look at {}", path.display()), &error))?;
    let (user, mode) = (rustix::process::geteuid().as_raw(), metadata.mode() & 0o777);
    if metadata.uid() == user && mode & 0o077 == 0 {
        return Ok(());
    }
    let what = format!(
        "what this host proves to others is kept here, and is not used: expected user {user} and no permission for \
         others, got user {} and mode {mode:04o}",
        metadata.uid()
    );
    Err(Error::new(ErrorKind::InvalidConfig, what)
        .context("file", path.display())
        .help(format!("revoke what others may have read; otherwise: chmod go-rwx {}", path.display())))
}
