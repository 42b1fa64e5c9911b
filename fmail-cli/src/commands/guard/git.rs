//! What git tells about the repository and the commit in the making.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fmail_api::{Error, ErrorKind, Result};

/// Where git looks for hooks: worktrees share them, and core.hooksPath moves them.
pub(super) fn hooks_directory(cwd: &Path) -> Result<PathBuf> {
    Ok(cwd.join(path(cwd, &["rev-parse", "--git-path", "hooks"])?))
}

/// Whether the hook is not this repository's alone.
pub(super) fn is_shared(cwd: &Path, hook: &Path) -> Result<bool> {
    let own = [path(cwd, &["rev-parse", "--git-common-dir"])?, path(cwd, &["rev-parse", "--show-toplevel"])?];
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    Ok(!own.iter().any(|own| real(hook).starts_with(real(&cwd.join(own)))))
}

/// The root of the worktree.
pub(super) fn worktree(cwd: &Path) -> Result<PathBuf> {
    path(cwd, &["rev-parse", "--show-toplevel"])
}

/// The paths that the commit would change, relative to the root of the worktree: new and changed ones, deleted ones, and
/// for a rename the old and the new. In a hook git says by its variables which commit is meant.
pub(super) fn staged(cwd: &Path) -> Result<Vec<PathBuf>> {
    // Settings of the user must not hide paths.
    let listed = [
        &["-c", "diff.relative=false", "diff", "--cached", "--name-only", "-z"][..],
        &["--no-renames", "--no-ext-diff", "--ignore-submodules=none"],
    ];
    let listed = run(cwd, &listed.concat())?;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect())
}

/// An answer that is a path.
fn path(cwd: &Path, args: &[&str]) -> Result<PathBuf> {
    let mut answer = run(cwd, args)?;
    if answer.last() == Some(&b'\n') {
        answer.pop();
    }
    Ok(PathBuf::from(OsString::from_vec(answer)))
}

fn run(cwd: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new("git").args(args).current_dir(cwd).stdin(Stdio::null()).output().map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("cannot start git: {error}")).help("the guard needs git on the PATH")
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().next().unwrap_or("it says nothing");
    Err(Error::new(ErrorKind::InvalidProject, format!("git does not answer `git {}`: {said}", args.join(" ")))
        .help("run this inside a git repository"))
}
