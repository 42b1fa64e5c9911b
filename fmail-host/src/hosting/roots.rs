//! Below which directories a path means the directory itself.

use std::fs;
use std::io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
use std::path::{Path, PathBuf};

use fmail_api::{Error, Result};

use super::key::ProjectKey;
use crate::config::under_home;
use crate::{Environment, Settings};

/// The directories that the operator allowed.
#[derive(Debug, Clone)]
pub struct AllowedRoots {
    configured: Vec<PathBuf>,
    served: Vec<PathBuf>,
}

impl AllowedRoots {
    /// What `mail.projects.roots` says, and what is served anyway.
    ///
    /// A home that is the root of all files is none: system users have such a one, and everything would be below it.
    pub fn new(environment: &Environment, settings: &Settings, served: &[PathBuf]) -> Self {
        let home = environment.home().filter(|home| home.parent().is_some());
        let configured = settings.mail.projects.roots.iter().map(|root| under_home(root, home.as_ref()));
        AllowedRoots { configured: configured.filter(|root| root.is_absolute()).collect(), served: served.to_vec() }
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.configured.iter().chain(&self.served)
    }

    /// Whether a directory, named without links, is one that the configuration names. What is served is a project already,
    /// or the directory in which somebody started us.
    pub fn is_one(&self, directory: &Path) -> bool {
        self.configured.iter().filter_map(|root| fs::canonicalize(root).ok()).any(|root| directory == root)
    }

    /// The directory that the path is, without links, if it is one at or below an allowed root. A link that leads out of
    /// them leads nowhere.
    ///
    /// What cannot be looked at although it is below one is an error: it may be a project.
    pub fn directory(&self, key: &ProjectKey) -> Result<Option<PathBuf>> {
        let path = key.to_path();
        match fs::canonicalize(&path) {
            Ok(directory) if directory.is_dir() && self.allow(&directory) => Ok(Some(directory)),
            Ok(_) => Ok(None),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(None),
            Err(_) if !self.all().any(|root| path.starts_with(root)) => Ok(None),
            Err(error) => Err(Error::io(format_args!("cannot look at {key}"), &error)),
        }
    }

    /// Whether a directory, named without links, is at or below one of them. They are looked at anew each time: one may be
    /// mounted or replaced while a daemon runs.
    pub fn allow(&self, directory: &Path) -> bool {
        self.all().filter_map(|root| fs::canonicalize(root).ok()).any(|root| directory.starts_with(root))
    }

    /// The directories, for a sentence.
    pub fn shown(&self) -> String {
        let all: Vec<String> = self.all().map(|root| root.display().to_string()).collect();
        if all.is_empty() { "none".into() } else { all.join(", ") }
    }
}
