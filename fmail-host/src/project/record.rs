//! The project's record in `.fmail/project.json`, for a store that keeps its messages elsewhere.
//!
//! The files store writes the file itself. With any other store it is ours: the id in it has to be known before a store is
//! opened or a daemon is asked.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use fmail_api::{Error, ErrorKind, ProjectRecord, Result};

use super::Project;
use crate::file::{Links, read_small};

impl Project {
    /// Whether there is such a file, whatever it says.
    pub fn has_record(&self) -> bool {
        fs::symlink_metadata(self.project_file()).is_ok()
    }

    /// Whether a topic among the project's files holds something: what another store does not have unless it was copied.
    pub fn has_topic_files(&self) -> bool {
        let held = |topic: fs::DirEntry| fs::read_dir(topic.path()).is_ok_and(|mut files| files.next().is_some());
        fs::read_dir(self.fmail_dir().join("topics")).is_ok_and(|topics| topics.flatten().any(held))
    }

    /// What the file says; nothing when there is none.
    pub fn record(&self) -> Result<Option<ProjectRecord>> {
        let path = self.project_file();
        let Some(text) = read_small(&path, Links::Refuse, ErrorKind::Corrupt)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("this is not a project record: {error}"))
                .context("file", path.display())
                .help("repair the file, or delete it to have the id derived again")
        })
    }

    /// Writes the file, with `.fmail/` around it. A file that is there already is a `conflict`, unless it is to be
    /// replaced.
    pub fn write_record(&self, record: &ProjectRecord, replace: bool) -> Result<()> {
        let path = self.project_file();
        let wrong = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::new(ErrorKind::Conflict, format!("{} is there already", path.display()))
            }
            _ => Error::io(format_args!("cannot write {}", path.display()), &error),
        };
        let text = serde_json::to_string_pretty(record)
            .map_err(|error| Error::internal(format!("the project's record has no JSON form: {error}")))?;
        create_directory(&self.fmail_dir()).map_err(wrong)?;
        // A name of this process: whoever finds the file finds all of it, and who comes second finds it taken.
        let temporary = self.fmail_dir().join(format!(".project-{}.tmp", std::process::id()));
        let placed = write_new(&temporary, &text).and_then(|()| match replace {
            true => fs::rename(&temporary, &path),
            false => fs::hard_link(&temporary, &path),
        });
        // After a rename there is nothing to remove.
        let _ = fs::remove_file(&temporary);
        placed.map_err(wrong)
    }
}

fn create_directory(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // What a process with our number left behind when it was killed is nobody's.
    let _ = fs::remove_file(path);
    let mut file = fs::File::create_new(path)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()
}
