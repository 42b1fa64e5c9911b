//! Making safe in the mailboxes what stands in the journal, so that its room can be used again.

use std::collections::{HashMap, HashSet};
use std::io;

use fmail_api::{Error, ErrorKind, Result, Target};

use super::Journal;
use super::format::Header;
use crate::files::fs::{Dir, Open, failure, if_there};
use crate::files::layout;
use crate::files::reader::unusable_dir;
use crate::files::session::{Session, Writing};

/// What is not safe yet.
pub(super) enum Unsafe {
    /// These files, and the directories that they stand in. A file may have several names here.
    Few(Vec<(Dir, String)>),
    /// Too much to name.
    Much,
}

impl Unsafe {
    /// These files. For many of them one sync of the whole file system costs less, although it waits for what other programs
    /// have written; for few of them it would be a burden on everybody else.
    pub fn of(files: Vec<(Dir, String)>, few: usize) -> Unsafe {
        if files.len() > few { Unsafe::Much } else { Unsafe::Few(files) }
    }
}

impl Session {
    /// Makes everything safe that stands in the journal: before something is removed, which a replay would bring back.
    pub fn checkpoint(&self, top: &Dir, writing: &Writing<'_>) -> Result<()> {
        if !writing.is_shared() {
            return Ok(());
        }
        let failed = |error: io::Error| failure(".fmail/journal cannot be used", &error);
        let Some(journal) = Journal::open(&self.options.fs, top).map_err(failed)? else { return Ok(()) };
        let Some(header) = journal.header().map_err(failed)? else { return Ok(()) };
        self.empty(top, &journal, &header, writing.index.state()?.journal)
    }

    /// Makes everything safe that stands in the journal before a position, and says so in its header. The caller holds the
    /// lock.
    pub fn empty(&self, top: &Dir, journal: &Journal, header: &Header, until: u64) -> Result<()> {
        if header.clean >= until {
            return Ok(());
        }
        self.make_all_safe(top, journal, header, until)?;
        journal.set_clean(header, until).map_err(unclean)
    }

    /// Makes everything safe that stands in the journal before a position. The caller holds the lock.
    pub(super) fn make_all_safe(&self, top: &Dir, journal: &Journal, header: &Header, until: u64) -> Result<()> {
        if header.suspect {
            return self.write_anew(top, journal, header, until);
        }
        let what = self.not_safe(top, journal, header, until)?;
        self.make_safe(top, journal, what)
    }

    /// Makes safe what was just restored from the journal. The caller holds the lock, and this header is the journal's.
    pub(super) fn make_restored_safe(
        &self,
        top: &Dir,
        journal: &Journal,
        header: &Header,
        files: Vec<(Dir, String)>,
    ) -> Result<()> {
        if header.suspect {
            return self.write_anew(top, journal, header, u64::MAX);
        }
        self.make_safe(top, journal, Unsafe::of(files, self.options.journal.few))
    }

    /// The same, without keeping the lock while the disk works.
    pub(in crate::files) fn empty_beside(&self) {
        match self.healing(|| self.try_empty_beside()) {
            // Others have the lock. There is room for a while.
            Err(error) if error.kind() == ErrorKind::Backpressure => self.empty_later(),
            Err(error) => self.give_up_journal(&error),
            Ok(()) => {}
        }
    }

    fn try_empty_beside(&self) -> Result<()> {
        let Some(top) = self.top()? else { return Ok(()) };
        let failed = |error: io::Error| failure(".fmail/journal cannot be used", &error);
        let (until, what, journal) = {
            let writing = self.writing_with(&top, self.lock_in_line(&top)?)?;
            let Some(journal) = Journal::open(&self.options.fs, &top).map_err(failed)? else { return Ok(()) };
            let Some(header) = journal.header().map_err(failed)? else { return Ok(()) };
            let until = writing.index.state()?.journal;
            if header.clean >= until || header.suspect {
                return self.empty(&top, &journal, &header, until);
            }
            (until, self.not_safe(&top, &journal, &header, until)?, journal)
        };
        if let Err(error) = self.sync_unsafe(&top, &journal, what) {
            // Who changes the header holds the lock. Where it cannot be had for so long, nobody changes anything.
            let _lock = self.lock_in_line(&top).ok();
            return Err(not_made_safe(&journal, &error));
        }
        let writing = self.writing_with(&top, self.lock_in_line(&top)?)?;
        let Some(header) = journal.header().map_err(failed)? else { return Ok(()) };
        // Somebody else may have emptied it meanwhile, or put another one in its place.
        if !journal.is_in_place(&top) || header.clean >= until || writing.index.state()?.journal < until {
            return Ok(());
        }
        if header.suspect {
            // Somebody else's sync has failed meanwhile, perhaps of the same files.
            return self.empty(&top, &journal, &header, until);
        }
        journal.set_clean(&header, until).map_err(unclean)
    }

    /// The files and mailboxes of what stands in the journal before a position.
    fn not_safe(&self, top: &Dir, journal: &Journal, header: &Header, until: u64) -> Result<Unsafe> {
        let mut files = Vec::new();
        let mut dirs: HashMap<Target, Option<Dir>> = HashMap::new();
        let mut reached = header.clean;
        for record in journal.records(header, header.clean) {
            let record = record.map_err(|error| failure(".fmail/journal cannot be read", &error))?;
            if record.head.position >= until {
                break;
            }
            reached = record.head.end();
            if files.len() > self.options.journal.few {
                break;
            }
            let Some(message) = record.message() else { continue };
            for target in message.targets() {
                if !dirs.contains_key(&target) {
                    let dir = self.mailbox_if_there(top, &target)?;
                    dirs.insert(target.clone(), dir);
                }
                let file = dirs[&target].clone().map(|dir| (dir, layout::file_name(message.id)));
                files.extend(file);
            }
        }
        if reached != until {
            // What the index knows is not all to be read here; so everything there is.
            return Ok(Unsafe::Much);
        }
        Ok(Unsafe::of(files, self.options.journal.few))
    }

    pub(super) fn mailbox_if_there(&self, top: &Dir, target: &Target) -> Result<Option<Dir>> {
        let (parent, name, _) = layout::target_dir(target);
        let opened = self.fs().open_dir(top, parent).and_then(|parent| self.fs().open_dir(&parent, name));
        if_there(opened).map_err(|error| unusable_dir(parent, name, &error))
    }

    /// Syncs it. A sync that has failed is not asked for again: whoever comes next writes the files anew. The caller holds the
    /// lock.
    fn make_safe(&self, top: &Dir, journal: &Journal, what: Unsafe) -> Result<()> {
        self.sync_unsafe(top, journal, what).map_err(|error| not_made_safe(journal, &error))
    }

    /// Syncs it. The file system tells a failure once to each handle that was open when it happened, and perhaps to nobody else:
    /// so all of it is synced through one from before the messages were written.
    fn sync_unsafe(&self, top: &Dir, journal: &Journal, what: Unsafe) -> io::Result<()> {
        match what {
            Unsafe::Much => self.fs().sync_all(self.journal.witness(journal).as_ref().unwrap_or(top)),
            Unsafe::Few(files) => self.sync_few(&files),
        }
    }

    fn sync_few(&self, files: &[(Dir, String)]) -> io::Result<()> {
        let fs = self.fs();
        let mut synced = HashSet::new();
        for (dir, name) in files {
            // Who removed it has left nothing to be made safe.
            let Some(file) = if_there(fs.open(dir, name, Open::Read))? else { continue };
            if synced.insert(fs.stat_file(&file)?.inode) {
                fs.sync_data(&file)?;
            }
        }
        for (dir, _) in files {
            if synced.insert(fs.stat_dir(dir)?.inode) {
                fs.sync_dir(dir)?;
            }
        }
        Ok(())
    }
}

fn not_made_safe(journal: &Journal, error: &io::Error) -> Error {
    let _ = journal.set_suspect();
    failure("messages in .fmail/journal cannot be made safe in their mailboxes", error)
}

fn unclean(error: io::Error) -> Error {
    failure(".fmail/journal cannot be written", &error)
}
