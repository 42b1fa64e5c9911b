//! Waiting until there may be something to read.
//!
//! The kernel tells of changes of the file, of its name in its directory, and of the directories above that (which may be
//! links, or not be there yet). An event is a hint only: whoever is woken looks for himself. Where other hosts can write,
//! or the kernel has no watch left, the file is looked at from time to time instead.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// File systems on which other hosts' changes cause no events: NFS, SMB, CIFS, SMB2, 9P, FUSE.
const REMOTE: [u64; 6] = [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x6573_5546];
/// What tells that a directory is no longer where it was.
const ITSELF: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);
/// What tells that a name in a directory means something else now.
const NAMES: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::MOVED_FROM).union(WatchFlags::DELETE);

/// Ends a wait from another thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Stop>);

#[derive(Debug)]
struct Stop {
    stopped: AtomicBool,
    wake: OwnedFd,
}

impl Stopper {
    fn new() -> io::Result<Stopper> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stopper(Arc::new(Stop { stopped: AtomicBool::new(false), wake })))
    }

    /// Has every wait end, now and later.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        // A counter that cannot take one more is set already.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }

    /// Whether it was called, for who reads on and on and does not wait.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// There may be something to read.
    Look,
    /// The time is over.
    Time,
    /// [`Stopper::stop`] was called.
    Stopped,
}

/// Waits for changes of one file.
#[derive(Debug)]
pub struct Wake {
    path: PathBuf,
    stop: Stopper,
    interval: Duration,
    /// Nothing when the file has to be looked at from time to time.
    events: Option<Events>,
    /// Why that is, until it was told.
    reason: Option<String>,
}

#[derive(Debug)]
struct Events {
    inotify: OwnedFd,
    /// The names that matter in each directory.
    directories: HashMap<i32, Vec<OsString>>,
    file: Option<i32>,
    /// Names have changed, so that other directories may have to be watched, or another file.
    outdated: bool,
}

impl Wake {
    /// Waits for the file at this path: woken by the kernel if `events` says so, else at this interval.
    pub fn new(path: &Path, events: bool, interval: Duration) -> io::Result<Wake> {
        let mut wake = Wake { path: path.into(), stop: Stopper::new()?, interval, events: None, reason: None };
        if events {
            match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
                Ok(inotify) => {
                    let directories = HashMap::new();
                    wake.events = Some(Events { inotify, directories, file: None, outdated: true });
                }
                Err(error) => wake.poll_instead(format!("the kernel's events cannot be used ({error})")),
            }
        }
        Ok(wake)
    }

    /// What ends the waits.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Why the file is looked at from time to time, if that is so against the wish and was not told yet.
    pub fn take_reason(&mut self) -> Option<String> {
        self.reason.take()
    }

    fn poll_instead(&mut self, reason: String) {
        self.events = None;
        self.reason = Some(format!("{reason}; polling every {} ms", self.interval.as_millis()));
    }

    /// Waits. What happens between a look and the wait after it ends that wait at once.
    pub fn wait(&mut self, until: Option<Instant>) -> io::Result<Woken> {
        if let Some(events) = self.events.as_mut().filter(|events| events.outdated) {
            match events.watch(&self.path) {
                Ok(()) => {}
                Err(reason) => self.poll_instead(reason),
            }
            // What came before the watch was set causes no event.
            return Ok(Woken::Look);
        }
        let next_look = self.events.is_none().then(|| Instant::now() + self.interval);
        loop {
            let end = [until, next_look].into_iter().flatten().min();
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let timeout =
                left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            let mut watched = vec![PollFd::new(&self.stop.0.wake, PollFlags::IN)];
            watched.extend(self.events.iter().map(|events| PollFd::new(&events.inotify, PollFlags::IN)));
            match poll(&mut watched, timeout.as_ref()) {
                Ok(0) if next_look.is_some() && next_look == end => return Ok(Woken::Look),
                Ok(0) => return Ok(Woken::Time),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if watched[0].revents().contains(PollFlags::IN) {
                return Ok(Woken::Stopped);
            }
            if let Some(events) = &mut self.events
                && events.read()?
            {
                return Ok(Woken::Look);
            }
        }
    }
}

impl Events {
    /// Takes what the kernel has to tell; whether any of it matters.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(self.inotify.as_fd(), &mut buffer);
        let mut matters = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let gone =
                        ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::QUEUE_OVERFLOW;
                    let name = event.file_name().map(|name| name.to_bytes());
                    let renamed = name.is_some_and(|name| {
                        let names = self.directories.get(&event.wd());
                        names.is_some_and(|names| names.iter().any(|known| known.as_encoded_bytes() == name))
                    });
                    self.outdated |= renamed || event.events().intersects(gone);
                    matters |= self.outdated || Some(event.wd()) == self.file;
                    // One read at a time: a flood must not keep the reader waiting.
                    if reader.is_buffer_empty() {
                        return Ok(matters);
                    }
                }
                Err(Errno::AGAIN) => return Ok(matters),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Watches the file and everything whose change could give its name to another one. Says why not when that cannot be.
    fn watch(&mut self, path: &Path) -> Result<(), String> {
        let failed = |error: Errno| format!("the kernel's events cannot be used ({error})");
        let mut wanted: HashMap<i32, Vec<OsString>> = HashMap::new();
        let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
        // The name as it was given, and where links lead to.
        let mut names = vec![absolute.clone()];
        names.extend(real(&absolute).filter(|real| *real != absolute));
        for name in names {
            let mut nearest = true;
            for (directory, entry) in steps(&name) {
                // Everything above what is missing or may change is watched for itself only: it could be a busy place.
                let named = nearest || directory.join(entry).is_symlink();
                let flags = if named { ITSELF | NAMES } else { ITSELF };
                let flags = flags | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
                match inotify::add_watch(&self.inotify, directory, flags) {
                    Ok(watch) => {
                        if nearest && is_remote(directory) {
                            return Err("the chat file is on a network file system".into());
                        }
                        let names = wanted.entry(watch).or_default();
                        names.extend(named.then(|| entry.to_os_string()));
                        nearest = false;
                    }
                    Err(Errno::NOENT | Errno::NOTDIR) => {}
                    Err(Errno::ACCESS) if !named => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        match inotify::add_watch(&self.inotify, path, WatchFlags::MODIFY | ITSELF) {
            // One that was moved away is watched until there is another: its writers may not have noticed.
            Ok(watch) => self.replace_file(watch),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(error) => return Err(failed(error)),
        }
        for stale in self.directories.keys().filter(|watch| !wanted.contains_key(watch)) {
            // It may have ended by itself.
            let _ = inotify::remove_watch(&self.inotify, *stale);
        }
        self.directories = wanted;
        self.outdated = false;
        Ok(())
    }

    fn replace_file(&mut self, watch: i32) {
        if let Some(before) = self.file.replace(watch).filter(|before| *before != watch) {
            let _ = inotify::remove_watch(&self.inotify, before);
        }
    }
}

/// The directories above a path, the nearest first, each with the name in it that leads on to the path.
fn steps(path: &Path) -> impl Iterator<Item = (&Path, &OsStr)> {
    path.ancestors().filter_map(|below| Some((below.parent()?, below.file_name()?)))
}

/// Where the path leads, also when the file or directories above it are not there.
fn real(path: &Path) -> Option<PathBuf> {
    let (mut missing, mut here) = (Vec::new(), path.to_path_buf());
    let mut found = loop {
        // A link that leads nowhere yet is gone along for one step.
        let link = || Some(here.parent()?.join(here.read_link().ok()?));
        match here.canonicalize().ok().or_else(link) {
            Some(found) => break found,
            None => missing.push(here.file_name()?.to_os_string()),
        }
        here = here.parent()?.to_path_buf();
    };
    found.extend(missing.into_iter().rev());
    Some(found)
}

fn is_remote(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|stat| REMOTE.contains(&(stat.f_type as u64)))
}
