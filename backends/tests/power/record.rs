//! The recorder: a file system that does everything on a real directory and writes down what was done, in order, with the
//! marks of what was begun and what was answered. It can leave out one kind of sync, and it can end a process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use fmail_backends::files::fs::{Dir, Fs, Kind, Open, RealFs, Stat};

use crate::common::EIO;
use crate::disk::Disk;
use crate::recording::{Action, Node, Recording};
use crate::sites::{Changed, Site, Surroundings};

/// The copies of the journal's header stand in front of this, its records behind.
const JOURNAL_HEADERS: u64 = 8192;
/// Records.
pub struct Recorder {
    tape: Mutex<Tape>,
    boot: u8,
    stop: Mutex<Stop>,
    stopped: Condvar,
}

/// Where a sync of what leaves the journal waits for something else to happen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// The next one is to wait.
    Wanted,
    Reached,
}

struct Tape {
    before: Disk,
    actions: Vec<Action>,
    from: usize,
    numbers: BTreeMap<(u64, u64), Node>,
    next: Node,
    places: HashMap<Node, String>,
    surroundings: Surroundings,
    left_out: Option<Site>,
    sites: BTreeSet<Site>,
    /// The header of the journal was written since its last sync.
    header: bool,
    /// The process that last wrote a message to the journal.
    journalist: usize,
    /// How many more changes this process makes before it ends.
    left: Option<usize>,
}

impl Recorder {
    /// Records what happens below `root`, where everything is safe so far. Syncs of one kind may be left out.
    pub fn new(root: &Path, boot: u8, left_out: Option<Site>) -> Arc<Recorder> {
        let (before, numbers) = Disk::found_at(root);
        let places = places_below(root, &numbers);
        let tape = Tape {
            before,
            actions: Vec::new(),
            from: 0,
            next: numbers.len(),
            numbers,
            places,
            surroundings: Surroundings::default(),
            left_out,
            sites: BTreeSet::new(),
            header: false,
            journalist: 0,
            left: None,
        };
        Arc::new(Recorder { tape: Mutex::new(tape), boot, stop: Mutex::new(Stop::No), stopped: Condvar::new() })
    }

    /// The next sync of what leaves the journal waits until [`Recorder::go_on`].
    pub fn stop_at_the_mailboxes(&self) {
        *self.stop.lock().unwrap() = Stop::Wanted;
    }

    /// Waits until a sync waits.
    pub fn wait_until_stopped(&self) {
        drop(self.stopped.wait_while(self.stop.lock().unwrap(), |stop| *stop != Stop::Reached).unwrap());
    }

    /// Lets it happen.
    pub fn go_on(&self) {
        *self.stop.lock().unwrap() = Stop::No;
        self.stopped.notify_all();
    }

    fn may_stop(&self) {
        let mut stop = self.stop.lock().unwrap();
        if *stop == Stop::Wanted {
            *stop = Stop::Reached;
            self.stopped.notify_all();
            drop(self.stopped.wait_while(stop, |stop| *stop == Stop::Reached).unwrap());
        }
    }

    /// Whether a file stands in a mailbox.
    fn is_in_a_mailbox(&self, file: &File) -> io::Result<bool> {
        let tape = self.tape();
        let place = tape.file(file)?.map(|node| tape.places[&node].as_str());
        Ok(place.is_some_and(|place| place.starts_with(".fmail/topics/") || place.starts_with(".fmail/dm/")))
    }

    /// What was recorded.
    pub fn recording(&self) -> Recording {
        let tape = self.tape();
        let (before, actions) = (tape.before.clone(), tape.actions.clone());
        Recording { before, actions, from: tape.from, sites: tape.sites.clone() }
    }

    /// Power cuts are of interest from here on.
    pub fn look_from_here(&self) {
        let mut tape = self.tape();
        tape.from = tape.actions.len();
    }

    /// Notes a mark.
    pub fn mark(&self, action: Action) {
        self.tape().actions.push(action);
    }

    /// Another process, which ends in front of its change with this number, or does not end.
    pub fn next_process(&self, ends_at: Option<usize>) {
        let mut tape = self.tape();
        tape.surroundings.process += 1;
        tape.left = ends_at;
    }

    /// Somebody has put something in place before everything begins.
    pub fn found_again(&self, root: &Path) {
        let mut tape = self.tape();
        assert!(tape.actions.is_empty(), "something was recorded already");
        let (before, numbers) = Disk::found_at(root);
        tape.places = places_below(root, &numbers);
        tape.next = numbers.len();
        (tape.before, tape.numbers) = (before, numbers);
        tape.surroundings.is_project();
    }

    /// Somebody removes a file by hand.
    pub fn forget(&self, path: &Path) {
        let mut tape = self.tape();
        let above = std::fs::metadata(path.parent().unwrap()).unwrap();
        let dir = tape.numbers[&(above.dev(), above.ino())];
        std::fs::remove_file(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        tape.actions.push(Action::Unlink { dir, name });
    }

    /// Whether this process has come to its end.
    pub fn has_ended(&self) -> bool {
        self.tape().left == Some(0)
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap()
    }

    /// For what changes nothing: only a process that has ended does not do it.
    fn look<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.tape().left == Some(0) { Err(io::Error::from_raw_os_error(EIO)) } else { act() }
    }
}

impl Tape {
    /// Whether the process lives to make this change.
    fn live(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => Err(io::Error::from_raw_os_error(EIO)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn new_node(&mut self, about: &std::fs::Metadata, place: String) -> Node {
        let node = self.next;
        self.next += 1;
        self.numbers.insert((about.dev(), about.ino()), node);
        self.places.insert(node, place);
        node
    }

    fn dir(&self, dir: &Dir) -> io::Result<Node> {
        let about = std::fs::metadata(dir.proc_path())?;
        Ok(self.numbers[&(about.dev(), about.ino())])
    }

    /// `None` for a file that is on no disk.
    fn file(&self, file: &File) -> io::Result<Option<Node>> {
        let about = file.metadata()?;
        Ok(self.numbers.get(&(about.dev(), about.ino())).copied())
    }

    fn named(&self, dir: &Dir, name: &str) -> io::Result<Node> {
        let about = std::fs::symlink_metadata(format!("{}/{name}", dir.proc_path()))?;
        Ok(self.numbers[&(about.dev(), about.ino())])
    }

    fn place(&self, dir: Node, name: &str) -> String {
        let above = &self.places[&dir];
        if above.is_empty() { name.to_string() } else { format!("{above}/{name}") }
    }

    fn changed(&mut self, dir: Node, changed: Changed, name: &str) {
        let place = self.places[&dir].clone();
        self.surroundings.changed(&place, changed, name);
    }

    /// Notes a sync, unless it is of the kind that is left out.
    fn sync(&mut self, site: Site, action: Action) {
        self.sites.insert(site);
        if self.left_out == Some(site) {
            return;
        }
        match &action {
            Action::SyncDir { node } => self.surroundings.synced(&self.places[node]),
            Action::SyncAll => self.surroundings.all_synced(),
            _ => {}
        }
        self.actions.push(action);
    }
}

fn places_below(root: &Path, numbers: &BTreeMap<(u64, u64), Node>) -> HashMap<Node, String> {
    let mut places = HashMap::new();
    let mut unseen = vec![(root.to_path_buf(), String::new())];
    while let Some((path, place)) = unseen.pop() {
        let about = std::fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            for entry in std::fs::read_dir(&path).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let below = if place.is_empty() { name.clone() } else { format!("{place}/{name}") };
                unseen.push((path.join(&name), below));
            }
        }
        places.insert(numbers[&(about.dev(), about.ino())], place);
    }
    places
}

impl Fs for Recorder {
    fn open_top(&self, path: &Path, name: &str) -> io::Result<Dir> {
        self.look(|| RealFs.open_top(path, name))
    }

    fn make_top(&self, path: &Path, name: &str) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        let known = path.join(name).exists();
        RealFs.make_top(path, name)?;
        if known {
            return Ok(());
        }
        let above = std::fs::metadata(path)?;
        let dir = tape.numbers[&(above.dev(), above.ino())];
        let node = tape.new_node(&std::fs::metadata(path.join(name))?, name.into());
        tape.actions.push(Action::MakeDir { dir, name: name.into(), node, mode: 0o755 });
        tape.changed(dir, Changed::Made, name);
        Ok(())
    }

    fn sync_top(&self, path: &Path) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        let about = std::fs::metadata(path)?;
        let node = tape.numbers[&(about.dev(), about.ino())];
        let site = tape.surroundings.site("");
        tape.sync(site, Action::SyncDir { node });
        Ok(())
    }

    fn stat_top(&self, path: &Path, name: &str) -> io::Result<Stat> {
        self.look(|| RealFs.stat_top(path, name))
    }

    fn open_dir(&self, at: &Dir, name: &str) -> io::Result<Dir> {
        self.look(|| RealFs.open_dir(at, name))
    }

    fn make_dir(&self, at: &Dir, name: &str, mode: u32) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.make_dir(at, name, mode)?;
        let dir = tape.dir(at)?;
        let place = tape.place(dir, name);
        let node = tape.new_node(&std::fs::metadata(format!("{}/{name}", at.proc_path()))?, place);
        tape.actions.push(Action::MakeDir { dir, name: name.into(), node, mode });
        tape.changed(dir, Changed::Made, name);
        Ok(())
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(&str, Kind) -> bool) -> io::Result<()> {
        self.look(|| RealFs.list(dir, each))
    }

    fn stat_dir(&self, dir: &Dir) -> io::Result<Stat> {
        self.look(|| RealFs.stat_dir(dir))
    }

    fn stat(&self, at: &Dir, name: &str) -> io::Result<Stat> {
        self.look(|| RealFs.stat(at, name))
    }

    fn open(&self, at: &Dir, name: &str, how: Open) -> io::Result<File> {
        let mode = match how {
            Open::Read | Open::ReadWrite => return self.look(|| RealFs.open(at, name, how)),
            Open::CreateNew(mode) | Open::Create(mode) => mode,
        };
        let mut tape = self.tape();
        let known = RealFs.stat(at, name).is_ok();
        if known {
            drop(tape);
            return self.look(|| RealFs.open(at, name, how));
        }
        tape.live()?;
        let file = RealFs.open(at, name, how)?;
        let dir = tape.dir(at)?;
        let place = tape.place(dir, name);
        let node = tape.new_node(&file.metadata()?, place);
        tape.actions.push(Action::Create { dir, name: name.into(), node, mode });
        tape.changed(dir, Changed::Created, name);
        Ok(file)
    }

    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        self.look(|| RealFs.stat_file(file))
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.look(|| RealFs.read_at(file, buffer, offset))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.write_at(file, bytes, offset)?;
        if let Some(node) = tape.file(file)? {
            let place = tape.places[&node].clone();
            let fills = place == ".fmail/tmp/journal" && bytes.iter().all(|byte| *byte == 0);
            if place == ".fmail/journal" {
                match offset < JOURNAL_HEADERS {
                    true => tape.header = true,
                    false => tape.journalist = tape.surroundings.process,
                }
            }
            if fills {
                tape.sites.insert(Site::Zeroes);
            }
            let action = match fills && tape.left_out == Some(Site::Zeroes) {
                true => Action::Truncate { node, size: offset + bytes.len() as u64 },
                false => Action::Write { node, offset, bytes: bytes.to_vec() },
            };
            tape.actions.push(action);
        }
        Ok(())
    }

    fn truncate(&self, file: &File, size: u64) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.truncate(file, size)?;
        if let Some(node) = tape.file(file)? {
            tape.actions.push(Action::Truncate { node, size });
        }
        Ok(())
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        if self.is_in_a_mailbox(file)? {
            self.may_stop();
        }
        let mut tape = self.tape();
        tape.live()?;
        if let Some(node) = tape.file(file)? {
            let of_another = tape.journalist != tape.surroundings.process;
            let site = match Site::of_file(&tape.places[&node]) {
                Site::Journal if std::mem::take(&mut tape.header) => Site::JournalClean,
                Site::Journal if of_another => Site::JournalOfAnother,
                Site::Safe if of_another => Site::SafeOfAnother,
                site => site,
            };
            tape.sync(site, Action::SyncData { node });
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        let node = tape.dir(dir)?;
        let site = match tape.surroundings.site(&tape.places[&node]) {
            Site::SafeName if tape.journalist != tape.surroundings.process => Site::SafeNameOfAnother,
            site => site,
        };
        tape.sync(site, Action::SyncDir { node });
        Ok(())
    }

    fn create_unnamed(&self, at: &Dir, mode: u32) -> io::Result<File> {
        let mut tape = self.tape();
        tape.live()?;
        let file = RealFs.create_unnamed(at, mode)?;
        let node = tape.new_node(&file.metadata()?, "without a name".into());
        tape.actions.push(Action::CreateUnnamed { node, mode });
        Ok(file)
    }

    fn name(&self, file: &File, to: &Dir, new: &str) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.name(file, to, new)?;
        let (node, dir) = (tape.named(to, new)?, tape.dir(to)?);
        let place = tape.place(dir, new);
        let changed = if tape.places[&dir] == ".fmail/tmp" { Changed::Created } else { Changed::Moved };
        tape.places.insert(node, place);
        tape.actions.push(Action::Link { node, dir, name: new.into() });
        tape.changed(dir, changed, new);
        Ok(())
    }

    fn link(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.link(from, name, to, new)?;
        let (node, dir) = (tape.named(to, new)?, tape.dir(to)?);
        let place = tape.place(dir, new);
        tape.places.insert(node, place);
        tape.actions.push(Action::Link { node, dir, name: new.into() });
        tape.changed(dir, Changed::Linked, new);
        Ok(())
    }

    fn rename(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.rename(from, name, to, new)?;
        let (node, from, dir) = (tape.named(to, new)?, tape.dir(from)?, tape.dir(to)?);
        tape.actions.push(Action::Rename { node, from, old: name.into(), dir, name: new.into() });
        tape.changed(dir, Changed::Renamed, new);
        Ok(())
    }

    fn rename_new(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.rename_new(from, name, to, new)?;
        let (node, from, dir) = (tape.named(to, new)?, tape.dir(from)?, tape.dir(to)?);
        let place = tape.place(dir, new);
        tape.places.insert(node, place);
        tape.actions.push(Action::Rename { node, from, old: name.into(), dir, name: new.into() });
        tape.changed(from, Changed::Unlinked, name);
        tape.changed(dir, Changed::Moved, new);
        Ok(())
    }

    fn sync_all(&self, _: &Dir) -> io::Result<()> {
        self.may_stop();
        let mut tape = self.tape();
        tape.live()?;
        tape.sync(Site::Everything, Action::SyncAll);
        Ok(())
    }

    fn unlink(&self, at: &Dir, name: &str) -> io::Result<()> {
        let mut tape = self.tape();
        tape.live()?;
        RealFs.unlink(at, name)?;
        let dir = tape.dir(at)?;
        tape.actions.push(Action::Unlink { dir, name: name.into() });
        tape.changed(dir, Changed::Unlinked, name);
        Ok(())
    }

    fn lock(&self, file: &File, wait: bool) -> io::Result<()> {
        self.look(|| RealFs.lock(file, wait))
    }

    fn boot(&self) -> [u8; 16] {
        [self.boot; 16]
    }
}
