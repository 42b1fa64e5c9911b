//! Directories of the host's own: for nobody else to look into.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};

use crate::Environment;

/// Where the user's data of fmail lies: `$XDG_DATA_HOME/fmail`, or `~/.local/share/fmail`.
pub fn user_data(environment: &Environment) -> Result<PathBuf> {
    let data = environment.absolute("XDG_DATA_HOME");
    let data = data.or_else(|| environment.home().map(|home| home.join(".local/share")));
    data.map(|data| data.join("fmail")).ok_or_else(|| {
        Error::new(ErrorKind::InvalidConfig, "neither XDG_DATA_HOME nor HOME names a directory")
            .help("set HOME; which projects were found is remembered below it")
    })
}

/// Creates a directory, and what is missing above it, for its owner alone. One that others can write is refused.
pub fn make_private(directory: &Path) -> Result<()> {
    let wrong = |error: std::io::Error| Error::io(format_args!("cannot create {}", directory.display()), &error);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(wrong)?;
    let metadata = fs::metadata(directory).map_err(wrong)?;
    let user = rustix::process::geteuid().as_raw();
    let mode = metadata.mode() & 0o777;
    if metadata.uid() == user && mode & 0o022 == 0 {
        return Ok(());
    }
    let what = format!(
        "{} is not fmail's own: expected user {user} and no permission for others to write, got user {} and mode \
         {mode:04o}",
        directory.display(),
        metadata.uid()
    );
    Err(Error::new(ErrorKind::Denied, what).help(format!("if it is yours: chmod go-w {}", directory.display())))
}
