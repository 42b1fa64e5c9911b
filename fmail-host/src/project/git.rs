//! Where a git repository is, from its files.

use std::fs;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};

use super::git_config::GitConfig;
use super::{look, tidy};
use crate::file::{Links, read_small};

/// A worktree and the directories that git keeps for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The directory that contains `.git`.
    pub worktree: PathBuf,
    /// The directory that all worktrees of the repository share; its `config` names the remotes.
    common_dir: PathBuf,
    /// Whether another worktree is, or may be, the main one.
    linked: bool,
}

/// The repository that `start` is in.
pub fn find(start: &Path) -> Result<Option<Repository>> {
    for directory in start.ancestors() {
        let path = directory.join(".git");
        // Git follows a link here, so we do.
        match look(&path, fs::metadata(&path))? {
            Some(metadata) if metadata.is_dir() => {
                return Ok(Some(Repository { worktree: directory.into(), common_dir: path, linked: false }));
            }
            Some(metadata) if metadata.is_file() => return from_file(directory, &path).map(Some),
            _ => {}
        }
    }
    Ok(None)
}

/// A `.git` that is a file names the real directory: a linked worktree's lies inside the main repository and says by
/// `commondir` where that is; a submodule's, and one made by `--separate-git-dir`, stands for itself.
///
/// When the named directory does not exist (a worktree mounted into a container without its repository), the worktree
/// is all there is and becomes the root.
fn from_file(worktree: &Path, path: &Path) -> Result<Repository> {
    let text = read_small(path, Links::Follow, ErrorKind::InvalidProject)?.unwrap_or_default();
    let Some(named) = text.strip_prefix("gitdir:").map(str::trim).filter(|named| !named.is_empty()) else {
        return Err(Error::new(
            ErrorKind::InvalidProject,
            format!("`{}` is a file but does not say `gitdir: <directory>`", path.display()),
        )
        .help("repair the worktree, or set FMAIL_ROOT to the project's directory"));
    };
    let git_dir = tidy(&worktree.join(named));
    let common = read_small(&git_dir.join("commondir"), Links::Follow, ErrorKind::InvalidProject)?;
    Ok(match common.as_deref().map(str::trim) {
        Some(common) if !common.is_empty() => {
            Repository { worktree: worktree.into(), common_dir: tidy(&git_dir.join(common)), linked: true }
        }
        _ => Repository { worktree: worktree.into(), common_dir: git_dir, linked: false },
    })
}

impl Repository {
    /// The root of the main worktree, when this is a linked one and there is a main one. A bare repository has none;
    /// then each worktree stands for itself.
    pub fn main_worktree(&self) -> Result<Option<PathBuf>> {
        if !self.linked {
            return Ok(None);
        }
        let mut config = self.config("config")?;
        if config.last("extensions.worktreeconfig").is_some_and(is_true) {
            // What concerns only the main worktree was moved here.
            config.extend(self.config("config.worktree")?);
        }
        let main = if config.last("core.bare").is_some_and(is_true) {
            None
        } else if let Some(worktree) = config.last("core.worktree") {
            Some(tidy(&self.common_dir.join(worktree)))
        } else if self.common_dir.file_name().is_some_and(|name| name == ".git") {
            self.common_dir.parent().map(Path::to_path_buf)
        } else {
            None
        };
        Ok(main.filter(|main| main.is_dir()))
    }

    /// The url of the remote `origin`.
    ///
    /// Rewrites (`insteadOf`) and included files are the user's own and may differ between clones, so they do not count.
    pub fn origin(&self) -> Result<Option<String>> {
        let config = self.config("config")?;
        Ok(config.first("remote.origin.url").map(str::to_string).filter(|url| !url.trim().is_empty()))
    }

    fn config(&self, name: &str) -> Result<GitConfig> {
        let text = read_small(&self.common_dir.join(name), Links::Follow, ErrorKind::InvalidProject)?;
        Ok(GitConfig::parse(&text.unwrap_or_default()))
    }
}

/// Git's words for yes; a key without a value is one of them.
fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1")
}
