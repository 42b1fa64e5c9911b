//! Handles that a daemon keeps from one group of messages to the next.
//!
//! Opening and closing the same dozen of files for each group costs about as much as storing a message. Whether a name still
//! stands for what is open is asked each time: somebody may have moved a mailbox or put another project in place.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use super::fs::{Dir, Identity, Kind, Stat};
use super::index::Index;
use super::layout;
use super::session::{Session, relock};

/// The most directories that are kept open.
const MOST: usize = 32;

/// The name of the directory that one is in, and its own.
type Name = (&'static str, String);

/// What is kept.
#[derive(Default)]
pub struct Handles {
    dirs: Mutex<HashMap<Name, (Identity, Dir)>>,
    /// The index, for writing.
    pub index: Mutex<Option<Arc<Index>>>,
    /// `project.json` as it was when it was last found good.
    pub project: Mutex<Option<Stat>>,
    /// Whether files can be named after they were written, once that was tried on the file system that is open.
    pub names_later: Mutex<Option<bool>>,
}

impl Session {
    /// Opens a directory that is called `name` in the one at `above`, or takes the handle of last time.
    pub fn open_again(&self, above: &'static str, at: &Dir, name: &str) -> io::Result<Dir> {
        if !self.options.journal.writes {
            return self.fs().open_dir(at, name);
        }
        let found = self.fs().identity(at, name)?;
        let mut dirs = relock(&self.handles.dirs);
        let key = (above, name.to_string());
        if let Some((kept, dir)) = dirs.get(&key)
            && kept.is_same(&found)
        {
            return Ok(dir.clone());
        }
        let dir = self.fs().open_dir(at, name)?;
        if dirs.len() >= MOST {
            dirs.clear();
        }
        dirs.insert(key, (self.fs().stat_dir(&dir)?.identity(), dir.clone()));
        Ok(dir)
    }

    /// A mailbox's directory.
    pub fn open_mailbox(&self, top: &Dir, parent: &'static str, name: &str) -> io::Result<Dir> {
        let above = self.open_again("", top, parent)?;
        self.open_again(parent, &above, name)
    }

    /// The index that was written last, if it is still the project's.
    pub fn index_again(&self, top: &Dir) -> Option<Arc<Index>> {
        let kept = relock(&self.handles.index).clone()?;
        let found = self.fs().identity(top, layout::INDEX).ok()?;
        (found.kind == Kind::File && (found.device, found.inode) == (kept.device, kept.inode)).then_some(kept)
    }

    /// Whether `project.json` is as it was when it was last found good.
    pub fn is_project_known(&self, top: &Dir) -> bool {
        let known = *relock(&self.handles.project);
        known.is_some_and(|known| self.fs().stat(top, layout::PROJECT).is_ok_and(|found| found == known))
    }
}
