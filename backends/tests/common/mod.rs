//! What the tests of the files store share: a file system that fails on request, a clock that is set by hand, and ways
//! to look at a project afterwards.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fmail_api::{Clock, Draft, Event, Message, MessageStream, NoticeKind, Order, Query, Result, Store, Timestamp};
use fmail_backends::files::fs::{Dir, Fs, Open, RealFs, Stat};
use fmail_backends::{FilesOptions, FilesStore};
use futures::StreamExt;
use futures::executor::block_on;

/// One operation that went through the seam.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name in [`Fs`].
    pub operation: &'static str,
    /// The name that it is about, where it has one.
    pub name: String,
    /// The file or directory that it is about, where it is known.
    pub inode: u64,
    /// The other one: where a link or a rename leads, or what an open gave.
    pub other: u64,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing; the operations are only counted.
    None,
    /// The operation with this number fails, before it does anything.
    Fail(usize, i32),
    /// Of the operations of each of these names the one with this number fails.
    FailEach(&'static [(&'static str, usize)], i32),
    /// The process ends in front of the first operation of this name.
    StopBefore(&'static str),
    /// The operation with this number fails; a write has by then written half of its bytes.
    Tear(usize, i32),
    /// The process ends in front of the operation with this number: nothing is done from there on.
    Stop(usize),
    /// The process ends within the operation with this number: a write has written half of its bytes.
    StopWithin(usize),
    /// The thread that does the operation with this number panics.
    Panic(usize),
}

/// Something that happens in front of the operation with this number.
type Meanwhile = (usize, Box<dyn FnOnce() + Send>);

/// The real file system, until the fault.
pub struct FaultFs {
    fault: Mutex<Fault>,
    steps: Mutex<Vec<Step>>,
    meanwhile: Mutex<Option<Meanwhile>>,
    /// How often the disk could not take what was written, and how much of that each directory's handle was told or need not be.
    unwritten: Mutex<(u64, BTreeMap<String, u64>)>,
}

impl FaultFs {
    /// A file system with this fault.
    pub fn new(fault: Fault) -> Arc<Self> {
        let (steps, meanwhile, unwritten) = Default::default();
        Arc::new(FaultFs { fault: Mutex::new(fault), steps, meanwhile, unwritten })
    }

    /// The disk does not take what was written, and somebody else's sync is told of it: Linux tells it then to each handle that was
    /// open at that time, with its next sync of everything, and to no later one.
    pub fn lose_what_was_written(&self) {
        self.unwritten.lock().unwrap().0 += 1;
    }

    /// From now on this fault, counted from the next operation.
    pub fn set(&self, fault: Fault) {
        self.steps.lock().unwrap().clear();
        *self.fault.lock().unwrap() = fault;
    }

    /// In front of the operation with this number, somebody else does this.
    pub fn meanwhile(&self, number: usize, act: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some((number, Box::new(act)));
    }

    /// What went through since the last [`FaultFs::set`].
    pub fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }

    /// Notes the operation. `Some` says that it must not happen; with `true`, that half of it does.
    fn enter(&self, operation: &'static str, name: &str, inode: u64) -> Option<(io::Error, bool)> {
        let mut steps = self.steps.lock().unwrap();
        let number = steps.len();
        let of_this_name = steps.iter().filter(|step| step.operation == operation).count();
        steps.push(Step { operation, name: name.into(), inode, other: 0 });
        let has_been = |operation| steps.iter().any(|step| step.operation == operation);
        let stopped = matches!(*self.fault.lock().unwrap(), Fault::StopBefore(operation) if has_been(operation));
        drop(steps);
        let due = self.meanwhile.lock().unwrap().take_if(|(at, _)| *at == number);
        if let Some((_, act)) = due {
            // As somebody else would: on another thread.
            std::thread::spawn(act).join().unwrap();
        }
        let error = |errno| io::Error::from_raw_os_error(errno);
        let fault = *self.fault.lock().unwrap();
        match fault {
            // A panic without the message that would drown the test's own.
            Fault::Panic(at) if at == number => std::panic::resume_unwind(Box::new("as the test wants it")),
            Fault::Fail(at, errno) if at == number => Some((error(errno), false)),
            Fault::FailEach(each, errno) if each.contains(&(operation, of_this_name)) => Some((error(errno), false)),
            Fault::StopBefore(_) if stopped => Some((error(EIO), false)),
            Fault::Tear(at, errno) if at == number => Some((error(errno), true)),
            Fault::Stop(at) if at <= number => Some((error(EIO), false)),
            Fault::StopWithin(at) if at <= number => Some((error(EIO), at == number)),
            _ => None,
        }
    }

    fn run<T>(
        &self,
        operation: &'static str,
        name: &str,
        inode: u64,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match self.enter(operation, name, inode) {
            Some((error, _)) => Err(error),
            None => act(),
        }
    }

    fn result(&self, other: u64) {
        if let Some(step) = self.steps.lock().unwrap().last_mut() {
            step.other = other;
        }
    }
}

/// Input/output error, as Linux numbers it.
pub const EIO: i32 = 5;
/// Too many open files.
pub const EMFILE: i32 = 24;
/// No space left on device.
pub const ENOSPC: i32 = 28;
/// Read-only file system.
pub const EROFS: i32 = 30;
/// The file system cannot do that.
pub const EOPNOTSUPP: i32 = 95;
/// The faults that every operation has to bear.
pub const ERRORS: [i32; 4] = [ENOSPC, EIO, EMFILE, EROFS];

fn dir_inode(dir: &Dir) -> u64 {
    RealFs.stat_dir(dir).map_or(0, |stat| stat.inode)
}

fn file_inode(file: &File) -> u64 {
    RealFs.stat_file(file).map_or(0, |stat| stat.inode)
}

impl Fs for FaultFs {
    fn open_top(&self, path: &Path, name: &str) -> io::Result<Dir> {
        let dir = self.run("open_top", name, 0, || RealFs.open_top(path, name))?;
        let mut unwritten = self.unwritten.lock().unwrap();
        let now = unwritten.0;
        unwritten.1.insert(dir.proc_path(), now);
        Ok(dir)
    }

    fn make_top(&self, path: &Path, name: &str) -> io::Result<()> {
        self.run("make_top", name, 0, || RealFs.make_top(path, name))
    }

    fn sync_top(&self, path: &Path) -> io::Result<()> {
        self.run("sync_top", "", 0, || RealFs.sync_top(path))
    }

    fn stat_top(&self, path: &Path, name: &str) -> io::Result<Stat> {
        self.run("stat_top", name, 0, || RealFs.stat_top(path, name))
    }

    fn open_dir(&self, at: &Dir, name: &str) -> io::Result<Dir> {
        self.run("open_dir", name, dir_inode(at), || RealFs.open_dir(at, name))
    }

    fn make_dir(&self, at: &Dir, name: &str, mode: u32) -> io::Result<()> {
        self.run("make_dir", name, dir_inode(at), || RealFs.make_dir(at, name, mode))
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(&str, fmail_backends::files::fs::Kind) -> bool) -> io::Result<()> {
        self.run("list", "", dir_inode(dir), || RealFs.list(dir, each))
    }

    fn stat_dir(&self, dir: &Dir) -> io::Result<Stat> {
        self.run("stat_dir", "", dir_inode(dir), || RealFs.stat_dir(dir))
    }

    fn stat(&self, at: &Dir, name: &str) -> io::Result<Stat> {
        self.run("stat", name, dir_inode(at), || RealFs.stat(at, name))
    }

    fn open(&self, at: &Dir, name: &str, how: Open) -> io::Result<File> {
        let operation = match how {
            Open::Read | Open::ReadWrite => "open",
            Open::CreateNew(_) => "create_new",
            Open::Create(_) => "create",
        };
        let file = self.run(operation, name, dir_inode(at), || RealFs.open(at, name, how))?;
        self.result(file_inode(&file));
        Ok(file)
    }

    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        self.run("stat_file", "", file_inode(file), || RealFs.stat_file(file))
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.run("read_at", "", file_inode(file), || RealFs.read_at(file, buffer, offset))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.enter("write_at", "", file_inode(file)) {
            None => RealFs.write_at(file, bytes, offset),
            Some((error, torn)) => {
                if torn {
                    RealFs.write_at(file, &bytes[..bytes.len() / 2], offset)?;
                }
                Err(error)
            }
        }
    }

    fn truncate(&self, file: &File, size: u64) -> io::Result<()> {
        self.run("truncate", "", file_inode(file), || RealFs.truncate(file, size))
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        self.run("sync_data", "", file_inode(file), || RealFs.sync_data(file))
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        self.run("sync_dir", "", dir_inode(dir), || RealFs.sync_dir(dir))
    }

    fn create_unnamed(&self, at: &Dir, mode: u32) -> io::Result<File> {
        let file = self.run("create_unnamed", "", dir_inode(at), || RealFs.create_unnamed(at, mode))?;
        self.result(file_inode(&file));
        Ok(file)
    }

    fn name(&self, file: &File, to: &Dir, new: &str) -> io::Result<()> {
        let done = self.run("name", new, file_inode(file), || RealFs.name(file, to, new));
        self.result(dir_inode(to));
        done
    }

    fn link(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        let inode = RealFs.stat(from, name).map_or(0, |stat| stat.inode);
        let done = self.run("link", new, inode, || RealFs.link(from, name, to, new));
        self.result(dir_inode(to));
        done
    }

    fn rename(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        let inode = RealFs.stat(from, name).map_or(0, |stat| stat.inode);
        let done = self.run("rename", new, inode, || RealFs.rename(from, name, to, new));
        self.result(dir_inode(to));
        done
    }

    fn rename_new(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        let inode = RealFs.stat(from, name).map_or(0, |stat| stat.inode);
        let done = self.run("rename_new", new, inode, || RealFs.rename_new(from, name, to, new));
        self.result(dir_inode(to));
        done
    }

    fn sync_all(&self, dir: &Dir) -> io::Result<()> {
        self.run("sync_all", "", dir_inode(dir), || {
            let mut unwritten = self.unwritten.lock().unwrap();
            let now = unwritten.0;
            if unwritten.1.insert(dir.proc_path(), now).is_some_and(|told| told < now) {
                return Err(io::Error::from_raw_os_error(EIO));
            }
            RealFs.sync_all(dir)
        })
    }

    fn unlink(&self, at: &Dir, name: &str) -> io::Result<()> {
        self.run("unlink", name, dir_inode(at), || RealFs.unlink(at, name))
    }

    fn lock(&self, file: &File, wait: bool) -> io::Result<()> {
        self.run("lock", "", file_inode(file), || RealFs.lock(file, wait))
    }

    fn boot(&self) -> [u8; 16] {
        RealFs.boot()
    }
}

/// A clock that stands still until it is moved. The time of day and the time since boot move apart when it is set.
pub struct HandClock {
    wall: AtomicI64,
    boot: AtomicU64,
}

impl HandClock {
    /// A clock that shows this time.
    pub fn at(time: &str) -> Arc<Self> {
        let time: Timestamp = time.parse().unwrap();
        Arc::new(HandClock { wall: AtomicI64::new(nanos(time)), boot: AtomicU64::new(3_600_000_000_000) })
    }

    /// Time passes.
    pub fn pass(&self, by: Duration) {
        self.wall.fetch_add(by.as_nanos() as i64, Ordering::Relaxed);
        self.boot.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Someone sets the clock back.
    pub fn step_back(&self, by: Duration) {
        self.wall.fetch_sub(by.as_nanos() as i64, Ordering::Relaxed);
    }
}

fn nanos(time: Timestamp) -> i64 {
    time.unix_seconds() * 1_000_000_000 + i64::from(time.subsec_nanos())
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        let nanos = self.wall.load(Ordering::Relaxed);
        Timestamp::from_unix(nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000) as u32)
    }

    fn since_boot(&self) -> Duration {
        Duration::from_nanos(self.boot.load(Ordering::Relaxed))
    }
}

/// A project in a directory of its own.
pub struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// An empty directory.
    pub fn new() -> Self {
        Project { dir: tempfile::tempdir().unwrap() }
    }

    /// An empty directory in memory, where a sync costs nothing: for tests that make the same project many times over.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Project { dir: dir.unwrap() }
    }

    /// The directory that holds `.fmail`.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A path below `.fmail`.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root().join(".fmail").join(below)
    }

    /// The usual options, with a short patience.
    pub fn options(&self) -> FilesOptions {
        FilesOptions { lock_timeout: Duration::from_secs(2), ..FilesOptions::new(self.root()) }
    }

    /// The store on the real file system.
    pub fn store(&self) -> FilesStore {
        FilesStore::open(self.options()).unwrap()
    }

    /// The store on this file system.
    pub fn store_on(&self, fs: Arc<FaultFs>) -> FilesStore {
        FilesStore::open(FilesOptions { fs, ..self.options() }).unwrap()
    }

    /// The store with this clock.
    pub fn store_at(&self, clock: Arc<dyn Clock>) -> FilesStore {
        FilesStore::open(FilesOptions { clock, lock_timeout: Duration::from_millis(100), ..self.options() }).unwrap()
    }

    /// Plants a file, as another program would.
    pub fn plant(&self, place: &str, content: &str) {
        let path = self.path(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// What stands in a directory below `.fmail`.
    pub fn names(&self, below: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(below)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Every message file, by its place, as the plain JSON that it is.
    pub fn files(&self) -> BTreeMap<String, serde_json::Value> {
        let mut files = BTreeMap::new();
        for parent in ["topics", "dm"] {
            for mailbox in self.names(parent) {
                for name in self.names(&format!("{parent}/{mailbox}")) {
                    let place = format!("{parent}/{mailbox}/{name}");
                    let bytes = std::fs::read(self.path(&place)).unwrap();
                    let value = serde_json::from_slice(&bytes)
                        .unwrap_or_else(|error| panic!("{place} is half written ({} bytes): {error}", bytes.len()));
                    files.insert(place, value);
                }
            }
        }
        files
    }
}

/// A message from alice.
pub fn draft(to: &str, body: &str) -> Draft {
    Draft::new("alice".parse().unwrap(), to.parse().unwrap(), body)
}

/// Sends, and has to succeed in full.
pub fn send(store: &dyn Store, to: &str, body: &str) -> Arc<Message> {
    let appended = block_on(store.append(draft(to, body))).unwrap_or_else(|error| panic!("{body}: {error:?}"));
    assert_eq!(appended.not_durable, None);
    appended.message
}

/// What a scan delivers, or its first error.
pub fn try_scan(store: &dyn Store, query: Query) -> Result<Vec<Arc<Message>>> {
    messages(block_on(store.scan(query))?.messages)
}

/// The messages of a stream to its end, or its first error.
pub fn messages(mut stream: MessageStream) -> Result<Vec<Arc<Message>>> {
    let mut messages = Vec::new();
    while let Some(event) = block_on(stream.next()) {
        match event? {
            Event::Message(delivery) => messages.push(delivery.message.clone()),
            Event::Notice(notice) if notice.kind == NoticeKind::Broken => panic!("{}", notice.text),
            _ => {}
        }
    }
    Ok(messages)
}

/// What a scan delivers.
pub fn scan(store: &dyn Store, query: Query) -> Vec<Arc<Message>> {
    try_scan(store, query).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Everything, by id.
pub fn all(store: &dyn Store) -> Vec<Arc<Message>> {
    scan(store, Query::default())
}

/// The bodies of messages, which these tests write as text.
pub fn bodies(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| message.body.as_str().unwrap_or_default().to_string()).collect()
}

/// Everything, in the order of arrival.
pub fn arrivals(store: &dyn Store) -> Vec<Arc<Message>> {
    scan(store, Query { order: Order::Arrival, ..Query::default() })
}

/// A small generator, so that a failure can be repeated from its seed.
pub struct Random(pub u64);

impl Random {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}
