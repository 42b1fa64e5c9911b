//! Finding files that others wrote or removed: by hand, by `jq`, by git, by another implementation.
//!
//! A directory's modification time tells whether anything in it changed. Our own writers record that time with every
//! change; when it differs, someone else was there, and the directory is listed. What is new gets its place in the
//! index under the lock; only then is it delivered.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, MessageId, Notice, Result, Scope, Target};

use super::fs::{Dir, Kind, if_there};
use super::head::Head;
use super::index::{Index, Row, Slot};
use super::reader::{broken, unusable};
use super::session::{Session, Writing};
use super::{SETTLED_AFTER, layout};

/// A file that does not parse may still be in the making for this long, in nanoseconds.
pub const IN_THE_MAKING: u64 = 2_000_000_000;

/// What should be told, and of which mailbox.
type Told = Vec<(Target, Notice)>;

/// What a look at the directories gave.
pub struct Looked {
    /// The index, with everything that was found in it.
    pub index: Arc<Index>,
    /// What should be told of it, and where it was found.
    pub notices: Told,
}

/// What a listing found.
struct Listing {
    ids: Vec<MessageId>,
    notices: Vec<Notice>,
    unsettled: bool,
    stamp: u64,
}

impl Session {
    /// Brings the index in step with the directories of a scope, and of `suspects` whatever their time says.
    pub fn look(&self, top: &Dir, scope: &Scope, suspects: &[Target], patience: Duration) -> Result<Looked> {
        let mut index = self.index(top)?;
        if !index.is_settled(&index.state()?)? && self.finish_for_the_dead(top)? {
            index = self.index(top)?;
        }
        let (mut stale, mut notices) = self.stale(top, &index, scope)?;
        stale.extend(suspects.iter().filter(|target| !stale.contains(target)).cloned().collect::<Vec<_>>());
        if stale.is_empty() {
            return Ok(Looked { index, notices });
        }
        let writing = self.writing(top, patience)?;
        for target in &stale {
            let told = self.census(top, &writing, target)?;
            notices.extend(told.into_iter().map(|notice| (target.clone(), notice)));
        }
        // Readers share one handle; the one that we wrote through is the same file.
        let index = if writing.is_shared() {
            drop(writing);
            self.index(top)?
        } else {
            writing.index.clone()
        };
        Ok(Looked { index, notices })
    }

    /// An index that is longer than it says is being written, or its writer died. Only in the second case is the lock
    /// free: then what was left is settled, so that readers do not have to wait for the next writer.
    fn finish_for_the_dead(&self, top: &Dir) -> Result<bool> {
        match self.writing(top, Duration::ZERO) {
            Ok(writing) => Ok(writing.is_shared()),
            Err(error) if error.kind() == ErrorKind::Backpressure => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How long a reader waits for the lock.
    pub fn patience(&self) -> Duration {
        self.options.lock_timeout.min(Duration::from_secs(1))
    }

    /// The targets of a scope whose directories are not as the index knows them, and what stands where one should be.
    fn stale(&self, top: &Dir, index: &Index, scope: &Scope) -> Result<(Vec<Target>, Told)> {
        let state = index.state()?;
        let mut notices = Vec::new();
        let mut stale = Vec::new();
        let mut check = |target: Target, modified: Option<u64>| -> Result<()> {
            let row = index.find_row(&state, &target)?.map(|(_, row)| row);
            if is_stale(row.as_ref(), modified, self.now()) {
                stale.push(target);
            }
            Ok(())
        };
        for parent in [layout::TOPICS, layout::DIRECT] {
            let dir = match self.fs().open_dir(top, parent) {
                Ok(dir) => dir,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // Another user reads the topics; the direct messages are not for them.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && parent == layout::DIRECT => continue,
                // A link where a directory was must not look as if all its messages were gone.
                Err(error) => return Err(unusable(parent, &error)),
            };
            for target in self.candidates(&dir, parent, scope, &mut notices)? {
                let (_, name, _) = layout::target_dir(&target);
                let stat = if_there(self.fs().stat(&dir, name)).map_err(|error| unlooked(name, &error))?;
                let there = stat.filter(|stat| stat.kind == Kind::Directory);
                check(target, there.map(|stat| stat.modified))?;
            }
        }
        if !matches!(scope, Scope::Target(_)) {
            // Directories that are gone altogether.
            for (_, row) in
                index.rows(&state)?.into_iter().filter(|(_, row)| row.live > 0 && scope.contains(&row.target))
            {
                let (parent, name, _) = layout::target_dir(&row.target);
                let stat = self.fs().open_dir(top, parent).and_then(|dir| self.fs().stat(&dir, name));
                let there = if_there(stat).map_err(|error| unlooked(name, &error))?;
                if there.is_none() && !stale.contains(&row.target) {
                    stale.push(row.target);
                }
            }
        }
        Ok((stale, notices))
    }

    /// The targets below `parent` that a scope asks for. What has such a name and is no directory is told.
    fn candidates(&self, dir: &Dir, parent: &str, scope: &Scope, notices: &mut Told) -> Result<Vec<Target>> {
        let single = match scope {
            Scope::Target(target) => Some(target.clone()),
            Scope::Visible(agent) if parent == layout::DIRECT => Some(Target::Agent(agent.clone())),
            _ => None,
        };
        if let Some(target) = single {
            return Ok(Some(target).filter(|target| layout::target_dir(target).0 == parent).into_iter().collect());
        }
        if *scope == Scope::Topics && parent == layout::DIRECT {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        let listed = self.fs().list(dir, &mut |name, kind| {
            match layout::target_of(parent, name) {
                Some(target) if kind == Kind::Directory => found.push(target),
                Some(target) => {
                    let reason = "it is not a directory, and a link is not followed";
                    notices.push((target, broken(&format!("{parent}/{name}"), reason)));
                }
                None => {}
            }
            true
        });
        listed.map_err(|error| Error::io(format!(".fmail/{parent} cannot be listed"), &error))?;
        Ok(found)
    }

    /// Lists a directory and tells the index what is new and what is gone.
    fn census(&self, top: &Dir, writing: &Writing<'_>, target: &Target) -> Result<Vec<Notice>> {
        let started = Instant::now();
        let (parent, name, _) = layout::target_dir(target);
        let opened = self.fs().open_dir(top, parent).and_then(|dir| self.fs().open_dir(&dir, name));
        let dir = if_there(opened).map_err(|error| unlooked(name, &error))?;
        let mut listing = match &dir {
            Some(dir) => self.list_messages(dir, target)?,
            None => Listing { ids: Vec::new(), notices: Vec::new(), unsettled: false, stamp: 0 },
        };
        let took = started.elapsed();
        let mut changes = writing.changes()?;
        let (number, row) = changes.ensure_row(target)?;
        let mut indexed = indexed_in(&writing.index, number)?;
        indexed.sort_unstable_by_key(|(id, _)| *id);
        let is_indexed = |id: &MessageId| indexed.binary_search_by_key(id, |(id, _)| *id).is_ok();
        let mut rows = [(number, row)];
        if let Some(dir) = &dir {
            for id in listing.ids.iter().copied().filter(|id| !is_indexed(id)) {
                match Head::read(self.fs(), dir, target, id) {
                    Ok(head) => changes.arrive(&[(head.arrival(id, self.latest()), &[0])], &mut rows)?,
                    Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                    Err(error) => {
                        listing.unsettled = true;
                        let modified = self.fs().stat(dir, &layout::file_name(id)).map_or(0, |stat| stat.modified);
                        if modified + IN_THE_MAKING < self.now() {
                            listing.notices.push(broken(&layout::place(target, id), error.message()));
                        }
                    }
                }
            }
        }
        let gone: Vec<u32> =
            indexed.iter().filter(|(id, _)| listing.ids.binary_search(id).is_err()).map(|(_, slot)| *slot).collect();
        let [(_, row)] = &mut rows;
        if !gone.is_empty() {
            // Whoever removed them does not want them back out of the journal.
            self.checkpoint(top, writing)?;
            changes.set_busy(true)?;
            let mut slots = writing.index.chain(&changes.state);
            for slot in gone {
                let entry = slots.entry(slot)?;
                changes.mark_removed(slot, entry)?;
                row.live = row.live.saturating_sub(1);
            }
            newest_left(&writing.index, &changes.state, row)?;
        }
        row.stamp = listing.stamp;
        row.unsettled = listing.unsettled;
        row.recheck = match self.now() {
            now if listing.stamp + SETTLED_AFTER > now => now + SETTLED_AFTER.max(took.as_nanos() as u64 * 100),
            _ => 0,
        };
        changes.set_row(number, row)?;
        changes.set_busy(false)?;
        Ok(listing.notices)
    }

    fn list_messages(&self, dir: &Dir, target: &Target) -> Result<Listing> {
        let (parent, name, _) = layout::target_dir(target);
        let failed = |error| Error::io(format!(".fmail/{parent}/{name} cannot be listed"), &error);
        let stamp = self.fs().stat_dir(dir).map_err(failed)?.modified;
        let mut listing = Listing { ids: Vec::new(), notices: Vec::new(), unsettled: false, stamp };
        let listed = self.fs().list(dir, &mut |file, kind| {
            match layout::id_of(file) {
                Some(id) if kind == Kind::File => listing.ids.push(id),
                None if !file.ends_with(".json") || file.starts_with('.') => {}
                found => {
                    let reason =
                        if found.is_some() { "it is not a regular file" } else { "its name is not a message id" };
                    listing.unsettled = true;
                    listing.notices.push(broken(&format!("{parent}/{name}/{file}"), reason));
                }
            }
            true
        });
        listed.map_err(failed)?;
        listing.ids.sort_unstable();
        Ok(listing)
    }
}

/// The error of a directory that cannot be looked at; it must not be taken for an empty one.
fn unlooked(name: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the directory `{name}` in .fmail cannot be read: {error}"))
}

fn is_stale(row: Option<&Row>, modified: Option<u64>, now: u64) -> bool {
    match (row, modified) {
        (None, modified) => modified.is_some(),
        (Some(row), None) => row.live > 0,
        (Some(row), Some(modified)) => {
            row.unsettled || row.stamp != modified || (row.recheck != 0 && row.recheck <= now)
        }
    }
}

/// The messages that the index has in a mailbox, with their slots.
fn indexed_in(index: &Index, row: u32) -> Result<Vec<(MessageId, u32)>> {
    let state = index.state()?;
    let mut slots = index.sweep(&state);
    let mut found = Vec::new();
    for number in 1..=state.committed {
        match slots.get(number)? {
            Slot::Entry(entry) if entry.row == row && !entry.removed => found.push((entry.id, number)),
            _ => {}
        }
    }
    Ok(found)
}

/// Finds the newest message of a mailbox again, after some were removed.
pub fn newest_left(index: &Index, state: &super::index::State, row: &mut Row) -> Result<()> {
    (row.last_id, row.last_time) = (0, 0);
    let mut slots = index.chain(state);
    let mut number = row.newest;
    while number != 0 {
        let entry = slots.entry(number)?;
        if !entry.removed && entry.id.ticks() >= row.last_id {
            (row.last_id, row.last_time) = (entry.id.ticks(), entry.time);
        }
        number = entry.previous;
    }
    Ok(())
}
