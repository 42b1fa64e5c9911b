//! The pre-commit hook as a file: ours, somebody else's, or both one behind the other.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};

/// The hook.
const SCRIPT: &str = include_str!("pre-commit.sh");

/// How it begins, by which it is known even when somebody changed the rest.
const MARK: &str = "#!/bin/sh\n# fmail guard";

/// The pre-commit hook of a repository.
pub(super) struct Hook {
    /// Where git looks for it.
    pub(super) path: PathBuf,
    /// Where the hook is kept that was there before.
    pub(super) before: PathBuf,
}

/// What stands where git looks for the hook.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// Nothing.
    Absent,
    /// The guard.
    Guard,
    /// The guard, which git ignores because it is not executable.
    Disabled,
    /// The guard with changes by somebody.
    Changed,
    /// Another hook.
    Other,
}

/// What an installation did.
pub(super) enum Installed {
    /// Nothing: the guard was there.
    Already,
    /// The guard is the only hook.
    Alone,
    /// The guard runs after the hook that was there.
    Before,
}

/// What a removal did.
pub(super) enum Uninstalled {
    /// The hook that was there before is back.
    Restored,
    /// There is no hook any more.
    Removed,
    /// Nothing: the guard was not there.
    NotThere,
}

impl Hook {
    /// The hook in a directory of hooks.
    pub(super) fn in_directory(directory: PathBuf) -> Self {
        Hook { path: directory.join("pre-commit"), before: directory.join("pre-commit.before-fmail") }
    }

    /// What is there.
    pub(super) fn state(&self) -> Result<State> {
        let Some(metadata) = look(&self.path)? else { return Ok(State::Absent) };
        if !metadata.is_file() {
            return Ok(State::Other);
        }
        let content = fs::read(&self.path).map_err(|error| failed("read", &self.path, &error))?;
        Ok(if content == SCRIPT.as_bytes() {
            if metadata.permissions().mode() & 0o111 == 0 { State::Disabled } else { State::Guard }
        } else if content.starts_with(MARK.as_bytes()) {
            State::Changed
        } else {
            State::Other
        })
    }

    /// Puts the guard there. At no moment is the hook that was there without effect.
    pub(super) fn install(&self) -> Result<Installed> {
        match self.state()? {
            State::Guard => Ok(Installed::Already),
            State::Changed => Err(self.changed()),
            State::Disabled => {
                let executable = Permissions::from_mode(0o755);
                fs::set_permissions(&self.path, executable).map_err(|error| failed("change", &self.path, &error))?;
                Ok(Installed::Alone)
            }
            State::Absent => {
                if look(&self.before)?.is_some() {
                    return Err(self.left_over());
                }
                // A link does not replace what somebody else has put there meanwhile.
                self.written(|new| fs::hard_link(new, &self.path))?;
                Ok(Installed::Alone)
            }
            State::Other => {
                self.keep()?;
                self.written(|new| fs::rename(new, &self.path))?;
                Ok(Installed::Before)
            }
        }
    }

    /// Takes the guard away.
    pub(super) fn uninstall(&self) -> Result<Uninstalled> {
        match self.state()? {
            State::Absent | State::Other => Ok(Uninstalled::NotThere),
            State::Changed => Err(self.changed()),
            State::Guard | State::Disabled if look(&self.before)?.is_some() => {
                fs::rename(&self.before, &self.path).map_err(|error| failed("put back", &self.path, &error))?;
                Ok(Uninstalled::Restored)
            }
            State::Guard | State::Disabled => {
                fs::remove_file(&self.path).map_err(|error| failed("remove", &self.path, &error))?;
                Ok(Uninstalled::Removed)
            }
        }
    }

    /// Gives the hook that is there its second name. An installation that was interrupted has done so already.
    fn keep(&self) -> Result<()> {
        let same = |one: &Metadata, other: &Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        match (look(&self.path)?, look(&self.before)?) {
            (Some(hook), Some(kept)) if same(&hook, &kept) => Ok(()),
            (_, Some(_)) => Err(self.left_over()),
            (_, None) => fs::hard_link(&self.path, &self.before).map_err(|error| failed("keep", &self.path, &error)),
        }
    }

    /// Writes the guard to a file beside the hook, whole, and lets `place` bring it to its place.
    fn written(&self, place: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
        let new = self.path.with_file_name(format!("pre-commit.fmail-{}", std::process::id()));
        let write = || {
            fs::create_dir_all(new.parent().unwrap_or(Path::new(".")))?;
            let mut file = File::create_new(&new)?;
            file.write_all(SCRIPT.as_bytes())?;
            file.set_permissions(Permissions::from_mode(0o755))?;
            place(&new)
        };
        let done = write().map_err(|error| failed("write", &self.path, &error));
        // Gone after a rename; a second name after a link, and half a file after a failure.
        let _ = fs::remove_file(&new);
        done
    }

    fn changed(&self) -> Error {
        let path = self.path.display();
        Error::new(ErrorKind::Conflict, format!("`{path}` is the guard's hook, and somebody has changed it"))
            .help("save what is yours in it, delete it, and run this again")
    }

    fn left_over(&self) -> Error {
        let (path, before) = (self.path.display(), self.before.display());
        Error::new(ErrorKind::Conflict, format!("`{before}` is there, but `{path}` is not the guard that runs it"))
            .help(format!("delete `{before}`, or move it to `{path}` if it is the hook that you want"))
    }
}

fn look(path: &Path) -> Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("look at", path, &error)),
    }
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("cannot {doing} {}", path.display()), error)
}
