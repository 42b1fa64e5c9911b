//! A directory as data, so that "nothing was written" can be compared.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Every path below a directory, with its kind, permissions and contents.
pub type Tree = BTreeMap<PathBuf, String>;

/// The whole tree below `directory`; symlinks are named, not followed, and FIFOs are not opened.
///
/// What `.fmail/lock` and `.fmail/index` contain is left out: who held the lock last and a cache that readers keep in
/// step are no data.
pub fn tree(directory: &Path) -> Tree {
    let mut found = Tree::new();
    collect(directory, directory, &mut found);
    found
}

fn collect(root: &Path, directory: &Path, found: &mut Tree) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let mode = metadata.permissions().mode() & 0o7777;
        let name = path.strip_prefix(root).expect("below the root").to_path_buf();
        let described = if metadata.is_symlink() {
            format!("-> {}", std::fs::read_link(&path).unwrap_or_default().display())
        } else if metadata.is_dir() {
            collect(root, &path, found);
            format!("directory {mode:o}")
        } else if metadata.is_file() && [".fmail/lock", ".fmail/index"].iter().any(|cache| path.ends_with(cache)) {
            format!("cache {mode:o}")
        } else if metadata.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            format!("file {mode:o} {}", String::from_utf8_lossy(&bytes))
        } else {
            format!("special {mode:o}")
        };
        found.insert(name, described);
    }
}

/// Requires that nothing was added, removed or changed, and shows only what was.
#[track_caller]
pub fn assert_same(before: &Tree, after: &Tree) {
    let gone = before.iter().filter(|(path, was)| after.get(*path) != Some(was)).map(|entry| ("before", entry));
    let came = after.iter().filter(|(path, is)| before.get(*path) != Some(is)).map(|entry| ("after", entry));
    let changes: Vec<_> = gone.chain(came).collect();
    assert!(changes.is_empty(), "the directory was changed:\n{changes:#?}");
}
