//! What is remembered of the projects that were found: a file for each, named after its slug.
//!
//! A file comes into being whole, and a name is given once, by a link that fails where one is: so two processes never give
//! one slug to two projects, nor two to one, and a process that is killed leaves the file or nothing. No lock is needed.
//! Nothing here is ever changed or removed; a slug that was given stays given.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use fmail_api::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::directory;
use super::slug::candidates;
use crate::file::{Links, read_small};
use crate::trust::sha256;

/// The longest slug that is a file's name as it stands.
const MAX_NAME: usize = 200;
const EXTENSION: &str = "json";

/// Where a project lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// In the directory that its path names.
    Directory,
    /// With the host: its path is only a name.
    Key,
}

/// What is remembered of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its slug.
    pub slug: String,
    /// The absolute path that means it.
    pub key: String,
    /// Where it lies.
    pub kind: Kind,
    /// When it was created; when it was found, where nothing else tells.
    pub created: Timestamp,
}

impl Known {
    fn is(&self, kind: Kind, key: &str) -> bool {
        self.kind == kind && self.key == key
    }
}

/// The directory of those files.
#[derive(Debug)]
pub struct KnownProjects {
    directory: PathBuf,
}

impl KnownProjects {
    pub fn new(directory: PathBuf) -> Self {
        KnownProjects { directory }
    }

    /// What is remembered of a project.
    pub fn get(&self, kind: Kind, key: &str) -> Result<Option<Known>> {
        for slug in candidates(key, &identity(kind, key)) {
            if let Some(known) = self.named(&slug)?.filter(|known| known.is(kind, key)) {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// What is remembered under a slug.
    pub fn named(&self, slug: &str) -> Result<Option<Known>> {
        self.read(&self.file(slug))
    }

    /// The file in which a project of this slug is remembered.
    pub fn file(&self, slug: &str) -> PathBuf {
        self.directory.join(format!("{}.{EXTENSION}", file_name(slug)))
    }

    /// What is remembered of a project, from now on if it was not; and whether that is new.
    pub fn get_or_note(&self, kind: Kind, key: &str, created: Timestamp) -> Result<(Known, bool)> {
        // All of them first: a name that became free must not give a project a second slug.
        if let Some(known) = self.get(kind, key)? {
            return Ok((known, false));
        }
        directory::make_private(&self.directory)?;
        for slug in candidates(key, &identity(kind, key)) {
            let wanted = Known { slug, key: key.to_string(), kind, created };
            if self.place(&wanted)? {
                return Ok((wanted, true));
            }
            if let Some(known) = self.named(&wanted.slug)?.filter(|known| known.is(kind, key)) {
                return Ok((known, false));
            }
        }
        Err(Error::internal(format!("every slug of {key} is another project's")))
    }

    /// Everything that is remembered, by slug; and why some of it cannot be read.
    pub fn all(&self) -> Result<(Vec<Known>, Vec<Error>)> {
        let listing = |error: io::Error| Error::io(format_args!("cannot list {}", self.directory.display()), &error);
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
            Err(error) => return Err(listing(error)),
        };
        let mut paths = BTreeSet::new();
        for entry in entries {
            let path = entry.map_err(listing)?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                paths.insert(path);
            }
        }
        let (mut all, mut broken) = (Vec::new(), Vec::new());
        for path in paths {
            match self.read(&path) {
                Ok(known) => all.extend(known),
                Err(error) => broken.push(error),
            }
        }
        all.sort_by(|a: &Known, b| a.slug.cmp(&b.slug));
        Ok((all, broken))
    }

    fn read(&self, path: &Path) -> Result<Option<Known>> {
        let Some(text) = read_small(path, Links::Refuse, ErrorKind::Corrupt)? else { return Ok(None) };
        let corrupt = |what: String| {
            Error::new(ErrorKind::Corrupt, what)
                .context("file", path.display())
                .help("remove the file: the project is remembered anew when it is found the next time")
        };
        let known: Known = serde_json::from_str(&text)
            .map_err(|error| corrupt(format!("what is remembered of a project cannot be read: {error}")))?;
        if path.file_stem().is_none_or(|stem| *stem != *file_name(&known.slug)) {
            return Err(corrupt(format!("this file says that it is the one of the slug {}", known.slug)));
        }
        Ok(Some(known))
    }

    /// Writes a file that was not there; false when one was.
    fn place(&self, known: &Known) -> Result<bool> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = file_name(&known.slug);
        let path = self.directory.join(format!("{name}.{EXTENSION}"));
        let temporary = self.directory.join(format!(".{}-{number}.tmp", std::process::id()));
        let text = serde_json::to_string_pretty(known)
            .map_err(|error| Error::internal(format!("what is remembered of a project has no JSON form: {error}")))?;
        let placed = write_new(&temporary, &text).and_then(|()| fs::hard_link(&temporary, &path));
        let _ = fs::remove_file(&temporary);
        match placed.and_then(|()| File::open(&self.directory)?.sync_all()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io(format_args!("cannot write {}", path.display()), &error)),
        }
    }
}

/// What makes a project itself. A directory and a key of the same path are two projects.
pub fn identity(kind: Kind, key: &str) -> String {
    match kind {
        Kind::Directory => format!("directory {key}"),
        Kind::Key => format!("key {key}"),
    }
}

/// The name of what belongs to a slug: the slug, or its hash behind a sign that no slug has, where it is too long.
pub fn file_name(slug: &str) -> String {
    if slug.len() <= MAX_NAME { slug.to_string() } else { format!("~{}", sha256(slug)) }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // A process with our number that was killed may have left it, and it may be the very file that it linked: never
    // written to, only removed.
    let _ = fs::remove_file(path);
    let mut file = File::create_new(path)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()
}
