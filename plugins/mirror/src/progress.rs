//! How far each pair of projects is.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fmail_plugin::{Error, Result, serde_json, tracing};

/// The cursor behind which each pair goes on, kept in a file. Losing it costs time, not messages.
pub struct Progress {
    file: PathBuf,
    cursors: Mutex<BTreeMap<String, String>>,
}

impl Progress {
    /// Reads what was written last time.
    pub fn read(directory: &Path) -> Result<Progress> {
        let file = directory.join("progress.json");
        let cursors = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(file = %file.display(), %error, "how far the mirror was cannot be read; it begins anew");
                BTreeMap::new()
            }),
            Err(error) if error.kind() == Io::NotFound => BTreeMap::new(),
            Err(error) => return Err(Error::io(format_args!("cannot read {}", file.display()), &error)),
        };
        Ok(Progress { file, cursors: Mutex::new(cursors) })
    }

    /// Where a pair goes on.
    pub fn of(&self, pair: &str) -> Option<String> {
        self.cursors().get(pair).cloned()
    }

    /// A pair has got so far; nothing means that it begins anew.
    pub fn reached(&self, pair: &str, cursor: Option<&str>) {
        match cursor {
            Some(cursor) => drop(self.cursors().insert(pair.into(), cursor.into())),
            None => drop(self.cursors().remove(pair)),
        }
    }

    /// Writes it down: beside the old one, then in its place.
    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_vec(&*self.cursors())
            .map_err(|error| Error::internal(format!("how far the mirror is has no JSON form: {error}")))?;
        let next = self.file.with_extension("next");
        fs::write(&next, text)
            .and_then(|()| fs::rename(&next, &self.file))
            .map_err(|error| Error::io(format_args!("cannot write {}", self.file.display()), &error))
    }

    fn cursors(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
