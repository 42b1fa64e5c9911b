//! Directories, environments and git repositories for tests.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_host::{Environment, Project};
use tempfile::TempDir;

/// A directory of its own for each test, without links in its path, so that roots can be compared.
pub struct Place {
    _dir: TempDir,
    root: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        Place { _dir: dir, root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// An environment in which `cwd` is current, `home` is the home and `etc` the system's directory.
    pub fn environment(&self, cwd: &str, vars: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::new(
            self.dir(cwd),
            vars.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        );
        environment.system_dir = self.path("etc");
        environment.vars.entry("HOME".into()).or_insert(self.path("home").display().to_string());
        environment
    }

    pub fn project(&self, cwd: &str, vars: &[(&str, &str)]) -> fmail_api::Result<Project> {
        Project::discover(&self.environment(cwd, vars))
    }
}

/// Runs git with a known user and no settings of the machine.
#[track_caller]
pub fn git(dir: &Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "protocol.file.allow=always"])
        .args(["-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_DIR")
        .output()
        .expect("git is needed by these tests");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with one commit.
pub fn repository(place: &Place, name: &str) -> PathBuf {
    let dir = place.dir(name);
    git(&dir, &["init", "-q"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "first"]);
    dir
}
