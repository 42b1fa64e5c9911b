//! Where a file stands in the project.

use std::path::{Path, PathBuf};

use fmail_api::Result;

use super::{Project, git, tidy};

impl Project {
    /// The place of a file, relative to the project's root; nothing when it is outside. The path must be absolute and
    /// without `..`; the file need not exist.
    ///
    /// The linked worktrees of a repository are copies of the same files, and their agents share one project. So a file in
    /// one of them has the place of its counterpart in the main worktree, unless the worktree has a project of its own.
    pub fn place_of(&self, path: &Path) -> Result<Option<PathBuf>> {
        let root = tidy(&self.root);
        let main = main_counterpart(path, &root)?;
        let inside = |path: &Path| path.strip_prefix(&root).ok().map(Path::to_path_buf);
        Ok(main.as_deref().and_then(inside).or_else(|| inside(path)))
    }
}

fn main_counterpart(path: &Path, root: &Path) -> Result<Option<PathBuf>> {
    let Some(repository) = git::find(path)? else { return Ok(None) };
    if root.starts_with(&repository.worktree) {
        return Ok(None);
    }
    let Some(main) = repository.main_worktree()? else { return Ok(None) };
    Ok(path.strip_prefix(&repository.worktree).ok().map(|inner| main.join(inner)))
}
