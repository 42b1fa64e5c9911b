//! What every operation on the project starts from: the directory, the lock, the index.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fmail_api::{Error, ErrorKind, FORMAT_VERSION, Health, MessageId, Notice, NoticeKind, Result};
use rustix::fs::MemfdFlags;

use super::fs::{Dir, Fs, Kind, Open, ensure_dir, failure, read_file};
use super::handles::Handles;
use super::index::{Changes, Index, Rebuild, Unusable};
use super::journal::Keeper;
use super::lock::{Lock, Manner};
use super::queue::Queue;
use super::reader::unusable;
use super::watch::Hub;
use super::{FilesOptions, layout};

/// The largest `project.json` that is read.
const MAX_PROJECT: u64 = 1024 * 1024;
/// Ids of foreign files and imports further ahead than this do not move our counter.
const AHEAD: Duration = Duration::from_secs(10);

/// The project, as long as the store is open.
pub struct Session {
    pub options: FilesOptions,
    boot: OnceLock<[u8; 16]>,
    /// The index that was used last; looked at again by every operation.
    current: Mutex<Option<Arc<Index>>>,
    /// The index in memory, for a project that cannot be written.
    private: Mutex<Option<Arc<Index>>>,
    pub hub: Mutex<Option<Arc<Hub>>>,
    /// Appends that are under way.
    pub queue: Queue,
    /// The journal, where this process writes one.
    pub journal: Keeper,
    /// What a daemon keeps open.
    pub handles: Handles,
}

/// The right to change the index: the project's lock, or the only process that sees a private index.
pub struct Writing<'a> {
    pub index: Arc<Index>,
    /// The index has just been rebuilt: its old one was damaged or from before a power cut.
    pub rebuilt: bool,
    lock: Option<Lock>,
    _private: Option<MutexGuard<'a, Option<Arc<Index>>>>,
}

impl Writing<'_> {
    /// Begins a series of changes.
    pub fn changes(&self) -> Result<Changes<'_>> {
        Changes::begin(&self.index)
    }

    /// Whether other processes see the changes.
    pub fn is_shared(&self) -> bool {
        self.lock.is_some()
    }
}

pub fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves caches behind that every use checks again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    pub fn new(options: FilesOptions) -> Self {
        Session {
            options,
            boot: OnceLock::new(),
            current: Mutex::new(None),
            private: Mutex::new(None),
            hub: Mutex::new(None),
            queue: Queue::default(),
            journal: Keeper::default(),
            handles: Handles::default(),
        }
    }

    pub fn fs(&self) -> &dyn Fs {
        self.options.fs.as_ref()
    }

    /// The time, in nanoseconds since 1970.
    pub fn now(&self) -> u64 {
        let now = self.options.clock.now();
        u64::try_from(now.unix_seconds()).unwrap_or(0) * 1_000_000_000 + u64::from(now.subsec_nanos())
    }

    /// The highest id that may move our counter.
    pub fn latest(&self) -> MessageId {
        MessageId::at(self.options.clock.now().after(AHEAD))
    }

    /// Which start of the machine this is.
    pub fn boot(&self) -> [u8; 16] {
        *self.boot.get_or_init(|| self.fs().boot())
    }

    /// The project's directory, `None` while it does not exist.
    pub fn top(&self) -> Result<Option<Dir>> {
        match self.fs().open_top(&self.options.root, layout::TOP) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unusable_top(&error)),
        }
    }

    fn unusable_top(&self, error: &io::Error) -> Error {
        let path = self.options.root.join(layout::TOP);
        let path = path.display();
        match self.fs().stat_top(&self.options.root, layout::TOP).map(|stat| stat.kind) {
            Ok(Kind::Symlink) => Error::new(ErrorKind::InvalidProject, format!("{path} is a symbolic link"))
                .help("fmail does not follow it; set FMAIL_ROOT to the directory that holds the real .fmail"),
            Ok(Kind::File | Kind::Other) => Error::new(ErrorKind::InvalidProject, format!("{path} is not a directory"))
                .help("move it away, or set FMAIL_ROOT to another project"),
            _ => Error::io(path, error),
        }
    }

    /// The project's directory for a write, created when it does not exist.
    pub fn top_for_writing(&self) -> Result<Dir> {
        if let Some(top) = self.top()? {
            return Ok(top);
        }
        let path = self.options.root.join(layout::TOP);
        let failed = |error: io::Error| {
            Error::io(format!("{} cannot be created", path.display()), &error)
                .help("choose a project that can be written with FMAIL_ROOT")
        };
        self.fs().make_top(&self.options.root, layout::TOP).map_err(failed)?;
        let top = self.fs().open_top(&self.options.root, layout::TOP).map_err(|error| self.unusable_top(&error))?;
        (self.options.reporter)(Notice::new(NoticeKind::Other, format!("created {}", path.display())));
        Ok(top)
    }

    /// Takes the lock for a write: the project is ours, there, and of a format that we know.
    pub fn lock(&self, top: &Dir) -> Result<Lock> {
        self.lock_in(top, Manner::AtOnce)
    }

    /// Takes the lock for a write, behind all who wait for it.
    pub fn lock_in_line(&self, top: &Dir) -> Result<Lock> {
        self.lock_in(top, Manner::InLine)
    }

    fn lock_in(&self, top: &Dir, manner: Manner) -> Result<Lock> {
        self.check_owner(top)?;
        let lock = Lock::acquire(&self.options.fs, top, manner, self.options.lock_timeout).map_err(|error| {
            if error.kind() != ErrorKind::Denied {
                return error;
            }
            let root = self.options.root.display();
            Error::new(ErrorKind::Denied, format!("the project in {root} cannot be written: {}", error.message()))
                .help("one user writes a project, others may read its topics; set FMAIL_ROOT to use another")
        })?;
        self.check_project(top)?;
        Ok(lock)
    }

    /// Only the owner writes: files that we made would be ours, and the owner could not write the project any more.
    pub fn check_owner(&self, top: &Dir) -> Result<()> {
        let Some(owner) = self.other_owner(top)? else { return Ok(()) };
        let root = self.options.root.display();
        let text = format!("the project in {root} belongs to user {owner}, who alone may write it");
        Err(Error::new(ErrorKind::Denied, text)
            .help("others may read its topics; run fmail as that user, or set FMAIL_ROOT to use another project"))
    }

    /// Only the owner is sure to see everything.
    pub fn check_sees_all(&self, top: &Dir) -> Result<()> {
        let Some(owner) = self.other_owner(top)? else { return Ok(()) };
        let root = self.options.root.display();
        let text = format!("the project in {root} belongs to user {owner}, who alone may read all of it");
        Err(Error::new(ErrorKind::Denied, text)
            .help("others may read its topics; run fmail as that user, or set FMAIL_ROOT to use another project"))
    }

    /// The user who owns the project, when that is not us.
    fn other_owner(&self, top: &Dir) -> Result<Option<u32>> {
        let stat = self.fs().stat_dir(top).map_err(|error| Error::io(".fmail", &error))?;
        Ok(Some(stat.owner).filter(|owner| *owner != rustix::process::geteuid().as_raw()))
    }

    /// Reads `project.json`: a newer format is refused, a missing file is written.
    fn check_project(&self, top: &Dir) -> Result<()> {
        if self.is_project_known(top) {
            return Ok(());
        }
        // Looked at before it is read: whoever changes it meanwhile changes what is found the next time.
        let keeps = self.options.journal.writes;
        let seen = if keeps { self.fs().stat(top, layout::PROJECT).ok() } else { None };
        let bytes = match read_file(self.fs(), top, layout::PROJECT, MAX_PROJECT) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.create_project(top),
            Err(error) => return Err(failure(".fmail/project.json cannot be read", &error)),
        };
        let found: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!(".fmail/project.json is not JSON: {error}"))
                .help("repair it, or move it away: the next send writes a new one")
        })?;
        if found.get("id").and_then(serde_json::Value::as_str).is_none_or(|id| id.trim().is_empty()) {
            return Err(Error::new(ErrorKind::Corrupt, ".fmail/project.json has no `id`: a text that is not empty")
                .help("repair it, or move it away: the next send writes a new one"));
        }
        match found.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format > u64::from(FORMAT_VERSION) => Err(newer(format)),
            _ => {
                *relock(&self.handles.project) = seen;
                Ok(())
            }
        }
    }

    fn create_project(&self, top: &Dir) -> Result<()> {
        let mut project = (self.options.project)()?;
        project.format = Some(FORMAT_VERSION.into());
        let failed = |error: io::Error| failure("the project cannot be created", &error);
        // Whoever made `.fmail` may have died right behind that: as long as there is no project file, nobody knows that its
        // name is safe.
        self.fs().sync_top(&self.options.root).map_err(failed)?;
        for (name, mode) in [(layout::TOPICS, 0o755), (layout::DIRECT, 0o700), (layout::AGENTS, 0o755)] {
            ensure_dir(self.fs(), top, name, mode).map_err(|error| unusable(name, &error))?;
        }
        match self.fs().stat(top, layout::IGNORED) {
            // Whole or not at all, like the rest: nobody would write it again where a power cut left it empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.replace(top, layout::IGNORED, top, layout::GITIGNORE.as_bytes(), 0o644, true)?;
            }
            Err(error) => return Err(failed(error)),
            // Whoever put it there may have died before its name was safe, and nobody looks for it once there is a project file.
            Ok(_) => self.fs().sync_dir(top).map_err(failed)?,
        }
        let mut text = serde_json::to_string_pretty(&project).unwrap_or_default();
        text.push('\n');
        self.replace(top, layout::PROJECT, top, text.as_bytes(), 0o644, true)
    }

    /// Puts a file in place of another, whole or not at all. The caller holds the lock.
    pub fn replace(&self, top: &Dir, name: &str, dir: &Dir, bytes: &[u8], mode: u32, durable: bool) -> Result<()> {
        let fs = self.fs();
        let temporary =
            ensure_dir(fs, top, layout::TEMPORARY, 0o700).map_err(|error| unusable(layout::TEMPORARY, &error))?;
        let write = || -> io::Result<()> {
            match fs.unlink(&temporary, layout::UNFINISHED_RECORD) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = fs.open(&temporary, layout::UNFINISHED_RECORD, Open::CreateNew(mode))?;
            let written =
                fs.write_at(&file, bytes, 0).and_then(|()| if durable { fs.sync_data(&file) } else { Ok(()) });
            if let Err(error) = written.and_then(|()| fs.rename(&temporary, layout::UNFINISHED_RECORD, dir, name)) {
                let _ = fs.unlink(&temporary, layout::UNFINISHED_RECORD);
                return Err(error);
            }
            if durable { fs.sync_dir(dir) } else { Ok(()) }
        };
        write().map_err(|error| failure(format!(".fmail/{name} cannot be written"), &error))
    }

    /// The index for reading. Rebuilds it when it must; falls back to one in memory when the project cannot be written.
    pub fn index(&self, top: &Dir) -> Result<Arc<Index>> {
        if let Some(index) = relock(&self.private).clone() {
            return Ok(index);
        }
        match self.open_index(top, Open::Read) {
            Ok(index) if index.state().is_ok() => Ok(index),
            Ok(_) => Err(super::index::damaged()),
            Err(Unusable::Newer(format)) => Err(newer(u64::from(format))),
            Err(Unusable::Rebuild | Unusable::Io(_)) => Ok(self.writing(top, self.patience())?.index.clone()),
        }
    }

    /// Whether the index or the lock, which others and we share, is missing.
    pub fn lacks(&self, top: &Dir, name: &str) -> bool {
        let missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        relock(&self.private).is_none() && self.fs().stat(top, name).is_err_and(missing)
    }

    /// The right to change the index on behalf of a reader. Where the lock cannot be had, a private index is used.
    pub fn writing(&self, top: &Dir, patience: Duration) -> Result<Writing<'_>> {
        let private = relock(&self.private);
        if let Some(index) = private.clone() {
            return Ok(Writing { index, rebuilt: false, lock: None, _private: Some(private) });
        }
        drop(private);
        if self.other_owner(top)?.is_some() {
            return self.writing_privately(top);
        }
        match Lock::acquire(&self.options.fs, top, Manner::AtOnce, patience) {
            Ok(lock) => match self.writing_with(top, lock) {
                Err(error) if error.kind() == ErrorKind::Denied => self.writing_privately(top),
                other => other,
            },
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unavailable) => {
                self.writing_privately(top)
            }
            Err(error) if error.kind() == ErrorKind::Backpressure && !patience.is_zero() => {
                let text = format!("{}; reading the directories directly", error.message());
                (self.options.reporter)(Notice::new(NoticeKind::Other, text));
                // For this once: the next look may find the lock free.
                Ok(Writing { index: self.private_index(top)?, rebuilt: false, lock: None, _private: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The right to change the index, with the lock in hand.
    pub fn writing_with(&self, top: &Dir, lock: Lock) -> Result<Writing<'_>> {
        let writing = self.open_writing(top, lock)?;
        self.settle(top, &writing)?;
        Ok(writing)
    }

    fn open_writing(&self, top: &Dir, lock: Lock) -> Result<Writing<'_>> {
        match self.open_index(top, Open::ReadWrite) {
            Ok(index) if index.state().and_then(|state| index.is_settled(&state)).unwrap_or(false) => {
                return Ok(Writing { index, rebuilt: false, lock: Some(lock), _private: None });
            }
            Err(Unusable::Newer(format)) => return Err(newer(u64::from(format))),
            Err(Unusable::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::io(".fmail/index cannot be written", &error));
            }
            _ => {}
        }
        self.rebuild(top)?;
        match self.open_index(top, Open::ReadWrite) {
            Ok(index) => Ok(Writing { index, rebuilt: true, lock: Some(lock), _private: None }),
            Err(Unusable::Io(error)) => Err(Error::io(".fmail/index cannot be used", &error)),
            Err(_) => Err(super::index::damaged()),
        }
    }

    /// Opens the index on disk, or keeps the one in hand when it is still the same file.
    fn open_index(&self, top: &Dir, how: Open) -> Result<Arc<Index>, Unusable> {
        let keeps = how == Open::ReadWrite && self.options.journal.writes;
        if keeps && let Some(index) = self.index_again(top) {
            return Ok(index);
        }
        let index = Arc::new(Index::open(&self.options.fs, top, self.boot(), how)?);
        if keeps {
            *relock(&self.handles.index) = Some(index.clone());
        }
        if how == Open::Read {
            // A writer keeps its own handle; readers share one as long as the file is the same.
            let mut current = relock(&self.current);
            match current.as_ref().filter(|held| held.inode == index.inode && held.epoch == index.epoch) {
                Some(held) => return Ok(held.clone()),
                None => *current = Some(index.clone()),
            }
        }
        Ok(index)
    }

    /// Runs an operation; when it finds the index damaged, rebuilds that and runs the operation once more.
    pub fn healing<T>(&self, operation: impl Fn() -> Result<T>) -> Result<T> {
        match operation() {
            Err(error) if super::index::is_damage(&error) => self.heal()?,
            other => return other,
        }
        operation()
    }

    /// Rebuilds a damaged index, where that is ours to do.
    pub fn heal(&self) -> Result<()> {
        if let Some(top) = self.top()?
            && self.other_owner(&top)?.is_none()
        {
            let _lock = Lock::acquire(&self.options.fs, &top, Manner::AtOnce, self.options.lock_timeout)?;
            self.rebuild(&top)?;
        }
        Ok(())
    }

    /// Writes a new index and puts it in place. The caller holds the lock.
    pub fn rebuild(&self, top: &Dir) -> Result<()> {
        self.complete_names(top)?;
        // What was answered may stand in the journal only.
        let journal = self.replay(top)?;
        let fs = self.fs();
        let failed = |error: io::Error| failure("the index .fmail/index cannot be written", &error);
        let temporary =
            ensure_dir(fs, top, layout::TEMPORARY, 0o700).map_err(|error| unusable(layout::TEMPORARY, &error))?;
        match fs.unlink(&temporary, layout::INDEX) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let file = fs.open(&temporary, layout::INDEX, Open::CreateNew(0o600)).map_err(failed)?;
        let built = self.rebuild_into(top, &file, journal);
        if let Err(error) = built {
            let _ = fs.unlink(&temporary, layout::INDEX);
            return Err(error);
        }
        fs.rename(&temporary, layout::INDEX, top, layout::INDEX).map_err(failed)
    }

    fn rebuild_into(&self, top: &Dir, file: &std::fs::File, journal: u64) -> Result<u64> {
        Rebuild {
            fs: &self.options.fs,
            top,
            boot: self.boot(),
            latest: self.latest(),
            now: self.now(),
            journal,
            reporter: &self.options.reporter,
        }
        .write_to(file)
    }

    /// A project that cannot be written is read through an index in memory.
    fn writing_privately(&self, top: &Dir) -> Result<Writing<'_>> {
        let mut private = relock(&self.private);
        let index = match private.clone() {
            Some(index) => index,
            None => private.insert(self.private_index(top)?).clone(),
        };
        Ok(Writing { index, rebuilt: false, lock: None, _private: Some(private) })
    }

    fn private_index(&self, top: &Dir) -> Result<Arc<Index>> {
        let memory: OwnedFd = rustix::fs::memfd_create("fmail-index", MemfdFlags::CLOEXEC)
            .map_err(|error| Error::io("no memory for an index", &error.into()))?;
        let file = std::fs::File::from(memory);
        let epoch = self.rebuild_into(top, &file, 0)?;
        Ok(Arc::new(Index::in_memory(&self.options.fs, file, epoch)))
    }

    /// Whether messages can be stored, without side effects.
    pub fn health(&self) -> Result<Health> {
        let root = self.options.root.display();
        let Some(top) = self.top()? else {
            return Ok(Health { writable: true, detail: format!("{root} has no .fmail yet") });
        };
        let lock = self.fs().open(&top, layout::LOCK, Open::ReadWrite);
        let (writable, detail) = match lock {
            Ok(_) => (true, format!("{root}/.fmail")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (true, format!("{root}/.fmail")),
            Err(error) => (false, format!("{root}/.fmail cannot be written: {error}")),
        };
        Ok(Health { writable, detail })
    }
}

fn newer(format: u64) -> Error {
    Error::new(
        ErrorKind::InvalidProject,
        format!(".fmail has format {format}, this fmail knows formats up to {FORMAT_VERSION}; nothing was written"),
    )
    .help("upgrade fmail")
}
