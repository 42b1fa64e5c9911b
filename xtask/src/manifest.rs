//! The list of what an installation put where, so that it can be taken away again.
//!
//! Paths are relative to the prefix: an installation can be staged in one place and moved to another as a whole.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};

/// Where the list is kept, below the prefix.
pub const PATH: &str = "share/fmail/install-manifest.txt";

/// Files that were installed and directories that had to be created for them, relative to the prefix.
#[derive(Debug, Default, PartialEq)]
pub struct Manifest {
    /// Files, the list itself not among them.
    pub files: BTreeSet<PathBuf>,
    /// Directories; the empty path is the prefix itself. A parent sorts before its children.
    pub directories: BTreeSet<PathBuf>,
}

impl Manifest {
    /// Reads the list of the installation under `prefix`, if there is one.
    pub fn read(prefix: &Path) -> Result<Option<Self>> {
        let file = prefix.join(PATH);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(format_args!("reading {}", file.display()), &error)),
        };
        let mut manifest = Manifest::default();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            manifest.add(line).ok_or_else(|| {
                let place = format!("{}:{}", file.display(), number + 1);
                Error::new(ErrorKind::Corrupt, format!("{place}: `{line}` is not an entry of an installation"))
                    .help("entries are `file PATH` and `directory PATH`, with paths below the prefix")
            })?;
        }
        Ok(Some(manifest))
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let (kind, path) = line.split_once(' ')?;
        let path = Path::new(path);
        // A list that points out of the prefix was not written by us, and following it would delete others' files.
        let below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let entries = match kind {
            "file" if below => &mut self.files,
            "directory" if below => &mut self.directories,
            _ => return None,
        };
        entries.insert(path.components().filter(|part| matches!(part, Component::Normal(_))).collect());
        Some(())
    }

    /// The text of the list.
    pub fn text(&self) -> String {
        let mut text = String::from("# What `cargo xtask install` put here; `cargo xtask uninstall` removes it.\n");
        for directory in &self.directories {
            let shown = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            let _ = writeln!(text, "directory {}", shown.display());
        }
        for file in &self.files {
            let _ = writeln!(text, "file {}", file.display());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str) -> Result<Option<Manifest>> {
        let prefix = tempfile::tempdir().unwrap();
        fs::create_dir_all(prefix.path().join(PATH).parent().unwrap()).unwrap();
        fs::write(prefix.path().join(PATH), text).unwrap();
        Manifest::read(prefix.path())
    }

    #[test]
    fn what_is_written_reads_back() {
        let manifest = Manifest {
            files: ["bin/fmail", "share/doc/fmail/README.md"].map(PathBuf::from).into(),
            directories: ["", "bin", "share"].map(PathBuf::from).into(),
        };
        assert_eq!(reading(&manifest.text()).unwrap(), Some(manifest));
    }

    #[test]
    fn no_entry_leads_out_of_the_prefix() {
        for line in ["file ../victim", "file /etc/passwd", "directory bin/../../x", "link bin/fmail", "file"] {
            assert_eq!(reading(line).unwrap_err().kind(), ErrorKind::Corrupt, "{line}");
        }
    }
}
