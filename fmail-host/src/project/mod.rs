//! Which project is meant: its directory and its id.
//!
//! Nothing here runs git. The few files that say where a repository is and what its remote is are read directly; that
//! costs microseconds, where a subprocess would cost more than the rest of a `send`.

mod git;
mod git_config;
pub(crate) mod id;
mod identity;
mod path;
mod record;
mod remote;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};

use crate::Environment;

/// The name of the directory that holds a project's messages.
const FMAIL_DIR: &str = ".fmail";

/// A project: the directory that contains `.fmail`, whether or not that exists yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The directory that contains `.fmail`.
    pub root: PathBuf,
    /// Why it is this directory.
    pub reason: RootReason,
    /// What FMAIL_PROJECT says, kept from discovery so that the id does not depend on a later state of the process.
    id_variable: Option<String>,
    /// The id that it gets when it is created, where neither a remote nor a directory's name should give it one.
    id_of_key: Option<String>,
}

/// Why a directory is the root of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RootReason {
    /// FMAIL_ROOT names it.
    Variable,
    /// It contains `.fmail`.
    Fmail,
    /// It is the root of a git repository.
    Git,
    /// It is the main worktree of the repository that a linked worktree belongs to: all worktrees share one project.
    MainWorktree,
    /// Nothing else was found.
    CurrentDirectory,
    /// The project of a key, in the host's own directory.
    Key,
}

impl fmt::Display for RootReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RootReason::Variable => "FMAIL_ROOT",
            RootReason::Fmail => ".fmail found",
            RootReason::Git => "git root",
            RootReason::MainWorktree => "main worktree of a linked git worktree",
            RootReason::CurrentDirectory => "current directory",
            RootReason::Key => "kept for a key",
        })
    }
}

impl Project {
    /// Finds the project: FMAIL_ROOT; else the nearest `.fmail` walking upward, even past a nearer `.git`, as SPEC.md
    /// orders it; else the nearest `.git`; else the current directory. Creates nothing.
    pub fn discover(environment: &Environment) -> Result<Project> {
        let (root, reason) = find_root(environment)?;
        let id_variable = environment.var("FMAIL_PROJECT").map(str::to_string);
        Ok(Project { root, reason, id_variable, id_of_key: None })
    }

    /// The project of a key, which lies in a directory of the host's own. Nothing around that directory decides its id.
    pub(crate) fn of_key(root: PathBuf, id: String) -> Project {
        Project { root, reason: RootReason::Key, id_variable: None, id_of_key: Some(id) }
    }

    /// The directory that holds the project's messages. It need not exist.
    pub fn fmail_dir(&self) -> PathBuf {
        self.root.join(FMAIL_DIR)
    }
}

fn find_root(environment: &Environment) -> Result<(PathBuf, RootReason)> {
    if let Some(named) = environment.var("FMAIL_ROOT") {
        return Ok((root_from_variable(environment, named)?, RootReason::Variable));
    }
    if let Some(root) = find_fmail(&environment.cwd)? {
        return Ok((root, RootReason::Fmail));
    }
    let Some(repository) = git::find(&environment.cwd)? else {
        return Ok((environment.cwd.clone(), RootReason::CurrentDirectory));
    };
    match repository.main_worktree()? {
        // From the main worktree itself the search would go on upward, so it does from a linked one too: otherwise the
        // worktrees of one repository would be in different projects.
        Some(main) => Ok((find_fmail(&main)?.unwrap_or(main), RootReason::MainWorktree)),
        None => Ok((repository.worktree, RootReason::Git)),
    }
}

fn root_from_variable(environment: &Environment, named: &str) -> Result<PathBuf> {
    let wrong = |what: String, help: &str| {
        Err(Error::new(ErrorKind::InvalidProject, what).context("variable", "FMAIL_ROOT").help(help))
    };
    let root = environment.cwd.join(named);
    let help = "set FMAIL_ROOT to an existing directory, or unset it to find the project from the current directory";
    if named.is_empty() {
        return wrong("the value is empty, it must be the project's directory".into(), help);
    }
    match fs::metadata(&root) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return wrong(format!("`{}` is not a directory", root.display()), help),
        Err(error) => return wrong(format!("`{}` cannot be used: {error}", root.display()), help),
    }
    if root.file_name().is_some_and(|name| name == FMAIL_DIR) {
        return wrong(
            format!("`{}` is the message directory itself", root.display()),
            "set FMAIL_ROOT to the directory that contains .fmail",
        );
    }
    has_fmail(&root)?;
    Ok(root)
}

/// The nearest directory, from `start` upward, that contains `.fmail`.
fn find_fmail(start: &Path) -> Result<Option<PathBuf>> {
    for directory in start.ancestors() {
        if has_fmail(directory)? {
            return Ok(Some(directory.to_path_buf()));
        }
    }
    Ok(None)
}

/// Whether the directory contains `.fmail`. One that is no directory is an error and not a reason to go on: messages
/// would end up in a place that nobody looks at. A link is not followed, because a clone could bring it along and point
/// it anywhere.
fn has_fmail(directory: &Path) -> Result<bool> {
    let path = directory.join(FMAIL_DIR);
    let Some(metadata) = look(&path, fs::symlink_metadata(&path))? else { return Ok(false) };
    let found = if metadata.is_dir() {
        return Ok(true);
    } else if metadata.is_symlink() {
        "a symbolic link, which is not followed"
    } else {
        "not a directory"
    };
    Err(Error::new(ErrorKind::InvalidProject, format!("`{}` is {found}", path.display()))
        .help("remove it, or set FMAIL_ROOT to the directory that contains the real .fmail directory"))
}

/// What stands at a path, nothing when it does not exist.
///
/// A directory above us that may not be searched cannot be our project, so it counts as empty; containers and shared
/// machines have such directories on the way to the root. A name that is too long for the file system does not exist.
fn look(path: &Path, result: io::Result<fs::Metadata>) -> Result<Option<fs::Metadata>> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound, PermissionDenied};
    match result {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied | InvalidFilename) => Ok(None),
        Err(error) => Err(Error::io(format_args!("cannot look at {}", path.display()), &error)),
    }
}

/// Resolves `..`, so that a root is shown and compared without detours. Asks the file system, because `..` behind a
/// symbolic link is not the name before it; a path that does not exist stays as it is.
fn tidy(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}
