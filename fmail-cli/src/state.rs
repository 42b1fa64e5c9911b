//! Where fmail keeps what it remembers for the user outside of projects.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fmail_host::Environment;

/// A directory of ours in `$XDG_STATE_HOME/fmail`, else in `~/.local/state/fmail`; nothing where neither is known.
pub(crate) fn directory(environment: &Environment, name: &str) -> Option<PathBuf> {
    let absolute = |name| environment.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("fmail").join(name))
}

/// Creates such a directory, for the user alone.
pub(crate) fn create(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}
