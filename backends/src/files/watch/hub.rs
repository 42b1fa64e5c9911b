//! The thread that waits for the kernel and wakes the watches.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, MessageId, Notice, NoticeKind, Result, Scope, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use super::Hub;
use crate::files::census::IN_THE_MAKING;
use crate::files::fs::{Dir, Kind};
use crate::files::index::Index;
use crate::files::layout;
use crate::files::session::Session;

/// How long a file may be linked before its entry is in the index: our own writers need less.
const LINK_TO_INDEX: Duration = Duration::from_millis(2);
/// How long to wait when another process holds the lock.
const LOCK_BUSY: Duration = Duration::from_millis(10);
/// How long a file that does not parse is waited for before it is told as broken.
const GIVE_UP_AFTER: Duration = Duration::from_nanos(IN_THE_MAKING + 100_000_000);
/// What disappears may be the first of a whole project that is being deleted. It is looked at when this time is over:
/// `rm -rf .fmail` would otherwise find a new lock or a new index in its way.
const AT_REST: Duration = Duration::from_millis(100);
/// File systems on which other hosts' changes cause no events: NFS, SMB, CIFS, SMB2, 9P, FUSE.
const REMOTE: [u64; 6] = [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x6573_5546];

/// Starts the thread.
pub fn start(session: Arc<Session>, hub: Arc<Hub>) -> Result<()> {
    let spawned = std::thread::Builder::new().name("fmail-watch".into()).spawn(move || run(&session, &hub));
    spawned.map(drop).map_err(|error| Error::io("no thread for watching", &error))
}

fn run(session: &Arc<Session>, hub: &Hub) {
    let reason = if !session.options.events {
        None
    } else if is_remote(session) {
        Some("the project is on a network file system".to_string())
    } else {
        match Events::new(session, hub) {
            Ok(mut events) => match events.run() {
                Ok(()) => return,
                Err(error) => Some(format!("the kernel's events cannot be used ({error})")),
            },
            Err(error) => Some(format!("the kernel's events cannot be used ({error})")),
        }
    };
    let interval = session.options.poll_interval;
    if let Some(reason) = reason {
        let text = format!("{reason}; polling every {} ms", interval.as_millis());
        (session.options.reporter)(Notice::new(NoticeKind::Polling, text));
    }
    while !stopped(hub, interval) {
        if let Ok(Some(top)) = session.top() {
            // What cannot be looked at now is looked at the next time.
            if let Ok(looked) = session.look(&top, &Scope::All, &[], Duration::ZERO) {
                hub.tell(looked.notices);
            }
        }
        hub.wake_all();
    }
}

/// Waits, and says whether the thread should end.
fn stopped(hub: &Hub, wait: Duration) -> bool {
    let mut fds = [PollFd::new(&hub.stop, PollFlags::IN)];
    matches!(poll(&mut fds, timespec(Some(wait)).as_ref()), Ok(count) if count > 0)
}

fn timespec(wait: Option<Duration>) -> Option<Timespec> {
    wait.map(|wait| Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() })
}

/// Whether the project is on a file system of another machine, or of a program.
pub fn is_remote(session: &Session) -> bool {
    rustix::fs::statfs(&session.options.root).is_ok_and(|stat| REMOTE.contains(&(stat.f_type as u64)))
}

/// What a watch descriptor stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Watched {
    /// The directory that holds, or will hold, `.fmail`.
    Root,
    /// `.fmail` itself.
    Top,
    /// The index.
    Index,
    /// `topics` or `dm`.
    Parent(&'static str),
    /// A topic or a mailbox.
    Mailbox(Target),
}

struct Events<'a> {
    session: &'a Arc<Session>,
    hub: &'a Hub,
    inotify: OwnedFd,
    watched: HashMap<i32, Watched>,
    /// Messages that appeared and are not known to be in the index.
    suspects: BTreeSet<(Target, MessageId)>,
    /// Directories to look at, whatever appeared in them.
    changed: BTreeSet<Target>,
    due: Option<Instant>,
    /// Since when there is no index, or no lock.
    missing: Option<Instant>,
    /// Files that are not whole yet, and from when on each is broken and no longer in the making.
    unfinished: BTreeMap<(Target, MessageId), Instant>,
}

impl<'a> Events<'a> {
    fn new(session: &'a Arc<Session>, hub: &'a Hub) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Events {
            session,
            hub,
            inotify,
            watched: HashMap::new(),
            suspects: BTreeSet::new(),
            changed: BTreeSet::new(),
            due: None,
            missing: None,
            unfinished: BTreeMap::new(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        self.watch_everything()?;
        loop {
            let next = self.due.into_iter().chain(self.unfinished.values().copied()).min();
            let wait = next.map(|next| next.saturating_duration_since(Instant::now()));
            let mut fds = [PollFd::new(&self.hub.stop, PollFlags::IN), PollFd::new(&self.inotify, PollFlags::IN)];
            match poll(&mut fds, timespec(wait).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if fds[0].revents().contains(PollFlags::IN) {
                return Ok(());
            }
            if fds[1].revents().contains(PollFlags::IN) {
                self.read_events()?;
            }
            self.give_up();
            if self.due.is_some_and(|due| due <= Instant::now()) {
                self.look();
            }
        }
    }

    /// Sets all watches, then looks at everything: what came before a watch was set causes no event.
    fn watch_everything(&mut self) -> io::Result<()> {
        self.watched.clear();
        let creation = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::MOVED_FROM;
        let root = self.session.options.root.clone();
        let root_watch = inotify::add_watch(&self.inotify, &root, creation | WatchFlags::ONLYDIR)?;
        self.watched.insert(root_watch, Watched::Root);
        let Ok(Some(top)) = self.session.top() else {
            self.hub.wake_all();
            return Ok(());
        };
        self.add(&top, Watched::Top, creation)?;
        self.watch_index(&top)?;
        for parent in [layout::TOPICS, layout::DIRECT] {
            self.watch_parent(&top, parent)?;
        }
        if self.session.lacks(&top, layout::INDEX) {
            self.look_soon(AT_REST);
        } else {
            let _ = self.session.look(&top, &Scope::All, &[], Duration::ZERO);
            self.watch_index(&top)?;
        }
        self.hub.wake_all();
        Ok(())
    }

    fn add(&mut self, dir: &Dir, watched: Watched, flags: WatchFlags) -> io::Result<()> {
        let watch = inotify::add_watch(&self.inotify, dir.proc_path(), flags | WatchFlags::ONLYDIR)?;
        self.watched.insert(watch, watched);
        Ok(())
    }

    fn watch_index(&mut self, top: &Dir) -> io::Result<()> {
        let path = format!("{}/{}", top.proc_path(), layout::INDEX);
        match inotify::add_watch(&self.inotify, path, WatchFlags::MODIFY | WatchFlags::DONT_FOLLOW) {
            Ok(watch) => {
                self.watched.insert(watch, Watched::Index);
                Ok(())
            }
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn watch_parent(&mut self, top: &Dir, parent: &'static str) -> io::Result<()> {
        let fs = self.session.fs();
        // Missing, not a directory, or another user's: there is nothing to be told of it.
        let Ok(dir) = fs.open_dir(top, parent) else { return Ok(()) };
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::MOVED_FROM;
        self.add(&dir, Watched::Parent(parent), flags)?;
        let mut targets = Vec::new();
        fs.list(&dir, &mut |name, kind| {
            targets.extend(layout::target_of(parent, name).filter(|_| kind == Kind::Directory));
            true
        })?;
        targets.into_iter().try_for_each(|target| self.watch_mailbox(&dir, target))
    }

    /// Watches a mailbox, and has it looked at: its first message may have come before the watch.
    fn watch_mailbox(&mut self, parent: &Dir, target: Target) -> io::Result<()> {
        let (_, name, _) = layout::target_dir(&target);
        let Ok(dir) = self.session.fs().open_dir(parent, name) else { return Ok(()) };
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM;
        self.changed.insert(target.clone());
        self.look_soon(LINK_TO_INDEX);
        self.add(&dir, Watched::Mailbox(target), flags)
    }

    /// Has the mailboxes looked at whose files have been unfinished for too long.
    fn give_up(&mut self) {
        let now = Instant::now();
        let over: Vec<_> = self.unfinished.extract_if(.., |_, until| *until <= now).collect();
        if !over.is_empty() {
            self.changed.extend(over.into_iter().map(|((target, _), _)| target));
            self.look_soon(Duration::ZERO);
        }
    }

    fn look_soon(&mut self, wait: Duration) {
        let due = Instant::now() + wait;
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    fn read_events(&mut self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut seen: Vec<(i32, ReadFlags, String)> = Vec::new();
        let mut reader = inotify::Reader::new(self.inotify.as_fd(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                    seen.push((event.wd(), event.events(), name));
                    // One read at a time: a flood must not keep the watches waiting.
                    if reader.is_buffer_empty() {
                        break;
                    }
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut again = false;
        let mut wake = false;
        for (watch, flags, name) in seen {
            let gone = flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
            again |= flags.contains(ReadFlags::QUEUE_OVERFLOW);
            match self.watched.get(&watch).cloned() {
                Some(Watched::Index) => wake = true,
                Some(Watched::Root) => again |= name == layout::TOP,
                Some(Watched::Top) => match name.as_str() {
                    layout::INDEX => {
                        wake = true;
                        if let Ok(Some(top)) = self.session.top() {
                            self.watch_index(&top)?;
                            if self.session.lacks(&top, layout::INDEX) {
                                self.look_soon(AT_REST);
                            }
                        }
                    }
                    layout::TOPICS | layout::DIRECT if gone => self.look_soon(AT_REST),
                    layout::TOPICS | layout::DIRECT => again = true,
                    _ => {}
                },
                Some(Watched::Parent(parent)) if gone => {
                    self.changed.extend(layout::target_of(parent, &name));
                    self.look_soon(AT_REST);
                }
                Some(Watched::Parent(parent)) => self.mailbox_came(parent, &name)?,
                Some(Watched::Mailbox(target)) if gone => {
                    self.changed.insert(target);
                    self.look_soon(AT_REST);
                }
                Some(Watched::Mailbox(target)) => self.file_came(target, &name),
                None => {}
            }
        }
        if again {
            self.watch_everything()?;
        } else if wake {
            self.hub.wake_all();
        }
        Ok(())
    }

    fn mailbox_came(&mut self, parent: &'static str, name: &str) -> io::Result<()> {
        let Some(target) = layout::target_of(parent, name) else { return Ok(()) };
        let Ok(Some(top)) = self.session.top() else { return Ok(()) };
        match self.session.fs().open_dir(&top, parent) {
            Ok(dir) => {
                self.changed.insert(target.clone());
                self.look_soon(LINK_TO_INDEX);
                self.watch_mailbox(&dir, target)
            }
            Err(_) => Ok(()),
        }
    }

    fn file_came(&mut self, target: Target, name: &str) {
        match layout::id_of(name) {
            Some(id) => drop(self.suspects.insert((target, id))),
            None => drop(self.changed.insert(target)),
        }
        self.look_soon(LINK_TO_INDEX);
    }

    /// Finds out whether what appeared is in the index, and has the directories listed where it is not.
    fn look(&mut self) {
        self.due = None;
        let Ok(Some(top)) = self.session.top() else { return };
        if !self.session.lacks(&top, layout::INDEX) && !self.session.lacks(&top, layout::LOCK) {
            self.missing = None;
        } else if self.missing.get_or_insert_with(Instant::now).elapsed() < AT_REST {
            return self.look_soon(AT_REST);
        }
        let Ok(index) = self.session.index(&top) else { return self.look_soon(LOCK_BUSY) };
        let foreign = with_unindexed(&index, &self.suspects);
        let mut busy = false;
        for target in self.changed.iter().chain(&foreign) {
            let force: &[Target] = if foreign.contains(target) { std::slice::from_ref(target) } else { &[] };
            match self.session.look(&top, &Scope::Target(target.clone()), force, Duration::ZERO) {
                Ok(looked) => self.hub.tell(looked.notices),
                Err(error) => busy |= error.kind() == ErrorKind::Backpressure,
            }
        }
        if busy {
            self.look_soon(LOCK_BUSY);
        } else {
            self.changed.clear();
            self.await_the_rest(&top, &foreign);
        }
        self.hub.wake_all();
    }

    /// What is still not in the index after a look is no message yet. It is looked at once more, when it can no longer
    /// be in the making: a file that stays broken is told, and costs one wake-up.
    fn await_the_rest(&mut self, top: &Dir, foreign: &BTreeSet<Target>) {
        let suspects = std::mem::take(&mut self.suspects);
        let Ok(index) = self.session.index(top) else { return };
        let until = Instant::now() + GIVE_UP_AFTER;
        for (target, id) in suspects.into_iter().filter(|(target, _)| foreign.contains(target)) {
            if !is_indexed(&index, &target, id) {
                self.unfinished.insert((target, id), until);
            }
        }
    }
}

/// The mailboxes in which something appeared that is not in the index. Nearly everything that appears is our own, and in order:
/// it is looked up together, each near the one before.
fn with_unindexed(index: &Index, suspects: &BTreeSet<(Target, MessageId)>) -> BTreeSet<Target> {
    let ids: BTreeSet<MessageId> = suspects.iter().map(|(_, id)| *id).collect();
    let find = || -> Result<HashSet<(u32, MessageId)>> {
        let found = index.find_all(&index.state()?, &ids)?;
        Ok(found.into_iter().map(|(_, entry)| (entry.row, entry.id)).collect())
    };
    let found = find().unwrap_or_default();
    let mut rows: HashMap<&Target, Option<u32>> = HashMap::new();
    let mut foreign: BTreeSet<Target> = BTreeSet::new();
    for (target, id) in suspects {
        let row = *rows.entry(target).or_insert_with(|| {
            let row = index.state().and_then(|state| index.find_row(&state, target));
            row.ok().flatten().map(|(number, _)| number)
        });
        let known = row.is_some_and(|row| found.contains(&(row, *id)));
        if !known && !foreign.contains(target) && !is_indexed(index, target, *id) {
            foreign.insert(target.clone());
        }
    }
    foreign
}

fn is_indexed(index: &Index, target: &Target, id: MessageId) -> bool {
    let find = || -> Result<bool> {
        let state = index.state()?;
        let row = index.find_row(&state, target)?;
        let found = index.find(&state, id)?;
        Ok(row.is_some_and(|(number, _)| found.iter().any(|(_, entry)| entry.row == number)))
    };
    find().unwrap_or(false)
}
