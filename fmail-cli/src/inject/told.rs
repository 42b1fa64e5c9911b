//! What a session of an agent has been told of, so that it is told once.
//!
//! Kept in the user's state directory and not in the project's records: it is about a session on this machine and nobody
//! else's business, it works on every store and in a project that cannot be written, and an observer leaves no trace in the
//! mailbox. When it is lost, a notice comes a second time, and no mail is.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fmail_api::{AgentName, ContentHash, MailCount, MessageId};
use fmail_host::Environment;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::state;

/// What no session has touched for so long is forgotten.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a session has been told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    /// The unread messages that it knows of.
    pub(super) ids: BTreeSet<MessageId>,
    /// What stood in the way of telling, the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
    /// For whoever looks into the file.
    pub(super) project: PathBuf,
    pub(super) agent: String,
    pub(super) session: String,
}

impl Told {
    /// Whether exactly the unread messages are known. Where the store does not tell which they are, only that there are none
    /// can be known.
    pub(super) fn knows(&self, count: &MailCount) -> bool {
        match count.unread {
            0 => self.ids.is_empty(),
            _ => count.unread_set.is_some() && count.unread_set == MailCount::set_of(self.ids.iter().copied()),
        }
    }
}

/// Where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    path: PathBuf,
    empty: Told,
}

impl Memory {
    /// The memory of a session; nothing where the user has no directory for it.
    pub(super) fn of(environment: &Environment, root: &Path, agent: &AgentName, session: &str) -> Option<Memory> {
        let directory = state::directory(environment, "told")?;
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let name = ContentHash::of(&[root.as_os_str().as_bytes(), agent.as_str().as_bytes(), session.as_bytes()]);
        let empty = Told { project: root, agent: agent.to_string(), session: session.to_string(), ..Told::default() };
        Some(Memory { path: directory.join(format!("{name}.json")), empty })
    }

    /// What was told. What cannot be understood, because somebody writes it right now or died while writing, is nothing.
    pub(super) fn look(&self) -> Told {
        let told = fs::read(&self.path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        told.unwrap_or_else(|| self.empty.clone())
    }

    /// What was told, with the right to change it: of several hooks that run at once for one session, one tells.
    pub(super) fn lock(&self) -> io::Result<(Locked, Told)> {
        self.locked(FlockOperation::LockExclusive)
    }

    /// The same, unless somebody else has it.
    pub(super) fn try_lock(&self) -> io::Result<(Locked, Told)> {
        self.locked(FlockOperation::NonBlockingLockExclusive)
    }

    fn locked(&self, how: FlockOperation) -> io::Result<(Locked, Told)> {
        if let Some(directory) = self.path.parent() {
            state::create(directory)?;
            if !self.path.exists() {
                forget_old(directory);
            }
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        flock(&file, how)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let told = serde_json::from_slice(&bytes).unwrap_or_else(|_| self.empty.clone());
        Ok((Locked { file }, told))
    }
}

/// The right to change what was told, until it is dropped.
pub(super) struct Locked {
    file: File,
}

impl Locked {
    /// Notes what is told now. In place: who looks meanwhile and sees half of it comes here and waits.
    pub(super) fn note(&mut self, told: &Told) -> io::Result<()> {
        let text = serde_json::to_vec(told)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

/// Sessions end without a word, so their memory is swept by those who come new.
fn forget_old(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        if age.is_some_and(|age| age > KEPT) {
            // Somebody else may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sessions_agents_and_projects_have_memories_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let vars = BTreeMap::from([("XDG_STATE_HOME".to_string(), home.path().display().to_string())]);
        let environment = Environment::new("/", vars);
        let memory = |root: &str, agent: &str, session: &str| {
            Memory::of(&environment, Path::new(root), &agent.parse().unwrap(), session).unwrap()
        };
        let bob = memory("/p", "bob", "1");
        let (mut locked, told) = bob.lock().unwrap();
        let told = Told { ids: BTreeSet::from(["20260110-153000-0001".parse().unwrap()]), ..told };
        locked.note(&told).unwrap();
        drop(locked);
        assert_eq!(bob.look(), told);
        for other in [memory("/q", "bob", "1"), memory("/p", "carol", "1"), memory("/p", "bob", "2")] {
            assert_eq!(other.look().ids, BTreeSet::new());
        }
        fs::write(&bob.path, "{\"ids\":[").unwrap();
        assert_eq!(bob.look().ids, BTreeSet::new());
        assert_eq!(bob.lock().unwrap().1.ids, BTreeSet::new());
        assert!(
            Memory::of(&Environment::new("/", BTreeMap::new()), Path::new("/"), &"a".parse().unwrap(), "").is_none()
        );
    }

    #[test]
    fn the_memory_of_a_session_that_is_long_gone_is_swept() {
        let home = tempfile::tempdir().unwrap();
        let vars = BTreeMap::from([("XDG_STATE_HOME".to_string(), home.path().display().to_string())]);
        let environment = Environment::new("/", vars);
        let of = |session| Memory::of(&environment, Path::new("/p"), &"bob".parse().unwrap(), session).unwrap();
        let (old, recent) = (of("old"), of("recent"));
        drop(recent.lock().unwrap());
        let (locked, _) = old.lock().unwrap();
        locked.file.set_modified(SystemTime::now() - 2 * KEPT).unwrap();
        drop(of("new").lock().unwrap());
        assert!(!old.path.exists() && recent.path.exists());
    }
}
