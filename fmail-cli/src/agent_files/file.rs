//! A settings file: read whole, replaced whole, and never more than that.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};

/// A settings file as it was read.
pub(crate) struct SettingsFile {
    /// Where it is named.
    pub(crate) path: PathBuf,
    /// Where it really is: a link is written through.
    real: PathBuf,
    found: Option<(String, Metadata)>,
}

impl SettingsFile {
    /// Reads it; one that is not there is not an error.
    pub(crate) fn read(path: PathBuf) -> Result<SettingsFile> {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let real = real_directory(&path)?;
                return Ok(SettingsFile { real, path, found: None });
            }
            Err(error) => return Err(failed("look at", &path, &error)),
            Ok(_) => {}
        }
        let real = path.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                refused(&path, "is a link to nothing").help("remove it, or create what it means")
            }
            _ => failed("follow", &path, &error),
        })?;
        let metadata = fs::metadata(&real).map_err(|error| failed("look at", &real, &error))?;
        if !metadata.is_file() {
            return Err(refused(&path, "is not a file"));
        }
        let bytes = fs::read(&real).map_err(|error| failed("read", &real, &error))?;
        let text = String::from_utf8(bytes).map_err(|_| refused(&path, "is not UTF-8 text"))?;
        Ok(SettingsFile { path, real, found: Some((text, metadata)) })
    }

    /// What is in it.
    pub(crate) fn text(&self) -> Option<&str> {
        self.found.as_ref().map(|(text, _)| text.as_str())
    }

    /// Its one name, whatever links lead to it.
    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    /// The directories above it that do not exist, the lowest first.
    pub(crate) fn missing_directories(&self) -> Vec<PathBuf> {
        self.real.ancestors().skip(1).take_while(|directory| !directory.exists()).map(Path::to_path_buf).collect()
    }

    /// Refuses what must not be replaced.
    pub(crate) fn check_replaceable(&self) -> Result<()> {
        let Some((_, metadata)) = &self.found else { return Ok(()) };
        if metadata.permissions().mode() & 0o222 == 0 {
            return Err(refused(&self.path, "is write-protected").help("`chmod u+w` it if that is not on purpose"));
        }
        if metadata.nlink() > 1 {
            return Err(refused(&self.path, "has further names (hard links), and replacing it would part them")
                .help("make it a file of its own, or a symbolic link"));
        }
        Ok(())
    }

    /// Puts another text in its place, at one moment, with its mode and owner.
    pub(crate) fn replace(&self, text: &str) -> Result<()> {
        self.check_replaceable()?;
        let directory = self.real.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(|error| failed("create", directory, &error))?;
        let name = self.real.file_name().unwrap_or_default().to_string_lossy();
        let new = directory.join(format!(".{name}.fmail-{}", std::process::id()));
        let write = || {
            let mut file = File::create_new(&new)?;
            if let Some((_, metadata)) = &self.found {
                let made = file.metadata()?;
                if (made.uid(), made.gid()) != (metadata.uid(), metadata.gid()) {
                    fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
                }
                file.set_permissions(metadata.permissions())?;
            }
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        let placed = write().map_err(|error| failed("write", &self.real, &error)).and_then(|()| {
            self.check_unchanged()?;
            match self.found {
                Some(_) => fs::rename(&new, &self.real),
                // A link does not replace what somebody else has put there meanwhile.
                None => fs::hard_link(&new, &self.real),
            }
            .map_err(|error| failed("write", &self.real, &error))
        });
        // Gone after a rename; a second name after a link, and half a file after a failure.
        let _ = fs::remove_file(&new);
        placed
    }

    /// Removes it.
    pub(crate) fn remove(&self) -> Result<()> {
        self.check_replaceable()?;
        self.check_unchanged()?;
        fs::remove_file(&self.real).map_err(|error| failed("remove", &self.real, &error))
    }

    /// Whether it still is what was read: agents write their settings too.
    fn check_unchanged(&self) -> Result<()> {
        let now = match fs::read(&self.real) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", &self.real, &error)),
        };
        if now.as_deref() == self.text().map(str::as_bytes) {
            return Ok(());
        }
        let what = format!("{} has just been changed by somebody else", self.path.display());
        Err(Error::new(ErrorKind::Conflict, what).help("nothing was written; run this again"))
    }
}

/// The path behind the links in its directories, as far as those exist.
fn real_directory(path: &Path) -> Result<PathBuf> {
    let existing = path.ancestors().skip(1).find(|directory| directory.exists()).unwrap_or(Path::new("/"));
    let real = existing.canonicalize().map_err(|error| failed("follow", existing, &error))?;
    if !real.is_dir() {
        return Err(refused(existing, "is not a directory"));
    }
    Ok(real.join(path.strip_prefix(existing).unwrap_or(path)))
}

/// The error about a file that is left as it is.
fn refused(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("{} {why}; nothing was changed", path.display()))
}

/// The error with the file that it is about.
pub(crate) fn in_file(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{} cannot be used: {}; nothing was changed", path.display(), error.message()))
        .help(error.help_text().unwrap_or("repair the file; its agent could not use it either"))
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("cannot {doing} {}", path.display()), error)
}
