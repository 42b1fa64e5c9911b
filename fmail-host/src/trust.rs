//! Which projects' files the user has trusted.
//!
//! A project's file may have come with a clone. What it would make fmail run, load or dial counts only after the user has
//! said so, with `fmail trust`. That is noted outside of the project, with the hash of the file, so that a file that changes
//! is a stranger again.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fmail_api::{Clock, Error, ErrorKind, Result, Timestamp};
use fmail_backends::SystemClock;
use serde::{Deserialize, Serialize};

use crate::file::{Links, read_small};
use crate::plugin::sha256_of;
use crate::{Environment, path_text};

/// What the user has said about a project's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is trusted as it stands.
    Trusted,
    /// It was trusted, and has changed since.
    Changed,
    /// Nobody has trusted it.
    Never,
}

/// A project whose file is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The project's directory, without links.
    #[serde(with = "path_text")]
    pub root: PathBuf,
    /// Its configuration file.
    #[serde(with = "path_text")]
    pub file: PathBuf,
    /// The SHA-256 of that file.
    pub sha256: String,
    /// When it was trusted.
    pub at: Timestamp,
}

impl Trusted {
    /// Whether the file is still the one that was trusted. An error when it cannot be read.
    pub fn current(&self) -> Result<bool> {
        match read_small(&self.file, Links::Refuse, ErrorKind::InvalidConfig)? {
            Some(text) => Ok(sha256(&text) == self.sha256),
            None => Err(Error::not_found(format!("{} is not there any more", self.file.display()))),
        }
    }
}

/// The notes about trusted projects: a file for each, in a directory of the user's.
#[derive(Debug, Clone)]
pub struct TrustNotes {
    directory: Option<PathBuf>,
}

impl TrustNotes {
    /// The user's notes: in `$XDG_STATE_HOME/fmail/trust`, or in `~/.local/state/fmail/trust`.
    pub fn of(environment: &Environment) -> TrustNotes {
        let state = environment.absolute("XDG_STATE_HOME");
        let state = state.or_else(|| environment.home().map(|home| home.join(".local/state")));
        TrustNotes { directory: state.map(|state| state.join("fmail/trust")) }
    }

    /// What the user has said about this text of the file of the project in `root`.
    ///
    /// An error when there is a note that others could have written: it is not believed.
    pub fn standing(&self, root: &Path, text: &str) -> Result<Standing> {
        let Some(noted) = self.noted(root)? else { return Ok(Standing::Never) };
        Ok(if noted.sha256 == sha256(text) { Standing::Trusted } else { Standing::Changed })
    }

    /// The note about a project.
    pub fn noted(&self, root: &Path) -> Result<Option<Trusted>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let root = canonical(root)?;
        let noted = read_note(&directory.join(file_name(&root)))?;
        // A name is a hash; that two roots share one is not to be expected, and not to be believed.
        Ok(noted.filter(|noted| noted.root == root))
    }

    /// Notes that this text of the project's file is trusted.
    pub fn trust(&self, root: &Path, file: &Path, text: &str) -> Result<Trusted> {
        let directory = self.writable()?;
        let root = canonical(root)?;
        let noted = Trusted { file: file.to_path_buf(), sha256: sha256(text), at: SystemClock.now(), root };
        let json = serde_json::to_string_pretty(&noted)
            .map_err(|error| Error::internal(format!("a note has no JSON form: {error}")))?;
        let path = directory.join(file_name(&noted.root));
        replace(&path, &json).map_err(|error| Error::io(format_args!("cannot write {}", path.display()), &error))?;
        Ok(noted)
    }

    /// Forgets a project; whether it was noted.
    pub fn revoke(&self, root: &Path) -> Result<bool> {
        let Some(directory) = &self.directory else { return Ok(false) };
        let path = directory.join(file_name(&canonical(root)?));
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(format_args!("cannot remove {}", path.display()), &error)),
        }
    }

    /// Every project that is noted, by its directory.
    pub fn all(&self) -> Result<Vec<Trusted>> {
        let Some(directory) = &self.directory else { return Ok(Vec::new()) };
        let listing = |error: io::Error| Error::io(format_args!("cannot list {}", directory.display()), &error);
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(listing(error)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(listing)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                all.extend(read_note(&path)?);
            }
        }
        all.sort_by(|a, b| a.root.cmp(&b.root));
        Ok(all)
    }

    /// The directory, created for its owner alone.
    fn writable(&self) -> Result<&Path> {
        let Some(directory) = &self.directory else {
            return Err(Error::new(ErrorKind::InvalidConfig, "neither XDG_STATE_HOME nor HOME names a directory")
                .help("set HOME; what is trusted is remembered below it"));
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| Error::io(format_args!("cannot create {}", directory.display()), &error))?;
        believed(directory)?;
        Ok(directory)
    }
}

/// The SHA-256 of a text, in hexadecimal digits.
pub fn sha256(text: &str) -> String {
    // Reading from memory does not fail.
    sha256_of(&mut text.as_bytes()).unwrap_or_default()
}

/// Refuses a configuration file that others could change between the user's look and the note.
pub fn check_writers(path: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(path)
        .map_err(|error| Error::io(format_args!("cannot look at {}", path.display()), &error))?;
    let user = rustix::process::geteuid().as_raw();
    let refused = |what: String, help: String| {
        Err(Error::new(ErrorKind::Denied, what).context("file", path.display()).help(help))
    };
    if metadata.uid() != user && metadata.uid() != 0 {
        let what = format!("this file belongs to user {}, who can change it; it is not trusted", metadata.uid());
        return refused(what, format!("make it yours (user {user}) first"));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o022 != 0 {
        let what = format!("others can write this file (mode {mode:04o}); it is not trusted");
        return refused(what, format!("chmod go-w {}", path.display()));
    }
    Ok(())
}

fn canonical(root: &Path) -> Result<PathBuf> {
    fs::canonicalize(root).map_err(|error| Error::io(format_args!("cannot use {}", root.display()), &error))
}

/// The name of the note about a project.
fn file_name(root: &Path) -> String {
    let hash = sha256_of(&mut root.as_os_str().as_encoded_bytes()).unwrap_or_default();
    format!("{}.json", &hash[..hash.len().min(32)])
}

/// A note; none when there is no such file.
fn read_note(path: &Path) -> Result<Option<Trusted>> {
    let Some(text) = read_small(path, Links::Refuse, ErrorKind::InvalidConfig)? else { return Ok(None) };
    path.parent().map_or(Ok(()), believed)?;
    believed(path)?;
    serde_json::from_str(&text).map(Some).map_err(|error| {
        Error::new(ErrorKind::InvalidConfig, format!("this note about a trusted project cannot be read: {error}"))
            .context("file", path.display())
            .help("remove it, and run `fmail trust` in the project again")
    })
}

/// A note counts only where nobody but the user could have written it.
fn believed(path: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(path)
        .map_err(|error| Error::io(format_args!("cannot look at {}", path.display()), &error))?;
    let user = rustix::process::geteuid().as_raw();
    let mode = metadata.mode() & 0o777;
    if metadata.uid() == user && mode & 0o077 == 0 {
        return Ok(());
    }
    let what = format!(
        "what is trusted is noted here, and is not believed: expected user {user} and no permission for others, got \
         user {} and mode {mode:04o}",
        metadata.uid()
    );
    Err(Error::new(ErrorKind::InvalidConfig, what)
        .context("file", path.display())
        .help(format!("if nobody else has written it: chmod go-rwx {}", path.display())))
}

/// Writes a file whole or not at all.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let write = || {
        let mut file: File =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        // What is left of a failure is of no use to anybody.
        let _ = fs::remove_file(&temporary);
    })
}
