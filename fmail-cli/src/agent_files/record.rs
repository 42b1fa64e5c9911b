//! What an installation made, noted outside of the project: without it a removal still takes away exactly our entries, but
//! cannot tell an empty list that was there from one that was made for them.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fmail_api::{ContentHash, Error, Result};
use fmail_host::{Environment, path_text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::state;

/// What was made for our entries in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record<T> {
    /// The file.
    #[serde(with = "path_text")]
    pub(crate) file: PathBuf,
    /// It was not there.
    pub(crate) created_file: bool,
    /// Nor were these directories, the lowest first.
    #[serde(with = "path_text::list")]
    pub(crate) created_directories: Vec<PathBuf>,
    /// What was made in it.
    pub(crate) traces: T,
}

/// Where the record of a file is.
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    /// The place for what was made of this kind in this file, under this name if there can be several.
    pub(crate) fn of(environment: &Environment, kind: &str, file: &Path, name: Option<&str>) -> Result<Place> {
        let directory = state::directory(environment, kind).ok_or_else(|| {
            Error::invalid("neither XDG_STATE_HOME nor HOME is set, so that nothing could be noted for the removal")
                .help("set HOME")
        })?;
        let parts: Vec<&[u8]> = [file.as_os_str().as_bytes()].into_iter().chain(name.map(str::as_bytes)).collect();
        let name = ContentHash::of(&parts);
        Ok(Place { path: directory.join(format!("{name}.json")) })
    }

    /// The record, if there is one that can be understood and is about this file.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self, file: &Path) -> Option<Record<T>> {
        let record: Record<T> = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        Some(record).filter(|record| record.file == file)
    }

    /// Writes it, before anything is changed: what is noted and not there does no harm.
    pub(crate) fn write(&self, record: &Record<impl Serialize>) -> Result<()> {
        let text = serde_json::to_vec_pretty(record)
            .map_err(|error| Error::internal(format!("a record has no JSON form: {error}")))?;
        let new = self.path.with_extension(format!("new-{}", std::process::id()));
        let write = || {
            state::create(self.path.parent().unwrap_or(Path::new("/")))?;
            fs::write(&new, text)?;
            fs::rename(&new, &self.path)
        };
        write().map_err(|error| Error::io(format_args!("cannot note the change in {}", self.path.display()), &error))
    }

    /// Forgets it.
    pub(crate) fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format_args!("cannot remove {}", self.path.display()), &error))
            }
            _ => Ok(()),
        }
    }
}
