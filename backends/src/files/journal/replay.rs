//! Bringing what stands in the journal into its mailboxes: after a power cut, and after the end of a process that had
//! written to the journal and not come any further.
//!
//! What was answered stands in the journal, whatever has become of its files: after a power cut they may be missing, be
//! empty or have zeroes in them. So every file is compared by its content at each of its names. One that is whole and says
//! something else was written by somebody: it stays.

use std::collections::HashMap;
use std::io;

use fmail_api::{Error, ErrorKind, Message, Notice, NoticeKind, Result, Target};
use serde::de::IgnoredAny;

use super::format::Header;
use super::{Journal, Record};
use crate::files::fs::{Dir, ensure_dir, failure, is_about_name, read_file};
use crate::files::head::MAX_FILE;
use crate::files::index::damaged;
use crate::files::layout;
use crate::files::publish::{Mailbox, create};
use crate::files::reader::unusable;
use crate::files::session::{Session, Writing};

/// What stands at the name of a message.
#[derive(PartialEq, Eq)]
enum Standing {
    /// The message.
    Whole,
    /// Nothing.
    Missing,
    /// What a power cut left of it.
    Torn,
    /// Something of somebody else's.
    Foreign,
}

impl Session {
    /// Brings everything into its mailboxes, before an index is made from what is there. Returns the position with which
    /// the index begins. The caller holds the lock.
    pub fn replay(&self, top: &Dir) -> Result<u64> {
        let Some(journal) = Journal::open(&self.options.fs, top).map_err(unreadable)? else { return Ok(0) };
        let Some(header) = journal.header().map_err(unreadable)? else {
            self.discard_journal(top)?;
            return Ok(0);
        };
        self.keep_records(&journal)?;
        let mut restored = Vec::new();
        for record in journal.records(&header, header.clean) {
            let record = record.map_err(unreadable)?;
            let Some(message) = record.message() else { continue };
            let mailboxes = self.restore_record(top, &record, &message)?;
            restored.extend(mailboxes.into_iter().map(|mailbox| (mailbox.dir, layout::file_name(message.id))));
        }
        self.make_restored_safe(top, &journal, &header, restored)?;
        self.end_replay(&journal, &header)
    }

    /// Looks whether a process has ended between its write to the journal and the index, and finishes its work: before
    /// anybody gets a later id. One read tells that there is nothing.
    pub fn settle_journal(&self, top: &Dir, writing: &Writing<'_>) -> Result<()> {
        let Some(journal) = self.journal_again(top).map_err(unreadable)? else { return Ok(()) };
        let Some(header) = journal.header().map_err(unreadable)? else { return Err(damaged()) };
        let settled = writing.index.state()?.journal;
        if !header.covers(settled) {
            // The index knows another journal, or none.
            return Err(damaged());
        }
        let left = journal.records(&header, settled).collect::<io::Result<Vec<Record>>>().map_err(unreadable)?;
        if left.is_empty() {
            let stale = u64::try_from(self.options.journal.stale.as_nanos()).unwrap_or(u64::MAX);
            let is_stale = header.clean < settled && journal.modified.saturating_add(stale) < self.now();
            let forgotten = is_stale && !self.options.journal.writes;
            return if forgotten { self.empty(top, &journal, &header, settled) } else { Ok(()) };
        }
        self.keep_records(&journal)?;
        self.empty(top, &journal, &header, settled)?;
        let mut restored = Vec::new();
        for record in &left {
            let Some(message) = record.message() else { continue };
            let mailboxes = self.restore_record(top, record, &message)?;
            restored.extend(mailboxes.iter().map(|mailbox| (mailbox.dir.clone(), layout::file_name(message.id))));
            self.tell(writing, &message, mailboxes)?;
        }
        // Read again: emptying it has changed it.
        let Some(header) = journal.header().map_err(unreadable)? else { return Err(damaged()) };
        self.make_restored_safe(top, &journal, &header, restored)?;
        self.remove_temporaries(top)?;
        let mut changes = writing.changes()?;
        changes.state.journal = self.end_replay(&journal, &header)?;
        changes.commit()
    }

    /// Makes the records durable before anything is made of them: who wrote the last ones may have died before that, and a name
    /// could be left by a power cut without what stands behind it, here or there.
    fn keep_records(&self, journal: &Journal) -> Result<()> {
        journal.sync().map_err(|error| failure(".fmail/journal cannot be written", &error))
    }

    /// Says that nothing in the journal is needed any more. What comes next gets a position that nothing in it can claim:
    /// a part of a group that was not synced may still stand there.
    fn end_replay(&self, journal: &Journal, header: &Header) -> Result<u64> {
        let beyond = header.beyond();
        journal.set_clean(header, beyond).map_err(|error| failure(".fmail/journal cannot be written", &error))?;
        Ok(beyond)
    }

    /// Sees to it that a message stands in each of its mailboxes. That is made safe when all of them do: until then the
    /// journal is not said to be clean, and who is interrupted begins again.
    fn restore_record(&self, top: &Dir, record: &Record, message: &Message) -> Result<Vec<Mailbox>> {
        let (fs, name) = (self.fs(), layout::file_name(message.id));
        let failed = |error: io::Error| {
            Error::io(format!("the message {} cannot be restored from .fmail/journal", message.id), &error)
        };
        let (mut mailboxes, mut whole, mut lacking) = (Vec::new(), None, Vec::new());
        for target in message.targets() {
            let place = layout::place(&target, message.id);
            let mailbox = match self.mailbox(top, target) {
                // A link in place of a mailbox is somebody's doing, and not ours to follow.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    let text = format!(".fmail/{place} cannot be restored: {}", error.message());
                    (self.options.reporter)(Notice::new(NoticeKind::Broken, text));
                    continue;
                }
                other => other?,
            };
            match self.standing(&mailbox.dir, &name, &record.text).map_err(failed)? {
                Standing::Whole => whole = Some(mailbox.dir.clone()),
                Standing::Foreign => continue,
                torn => lacking.push((mailbox.dir.clone(), torn == Standing::Torn)),
            }
            mailboxes.push(mailbox);
        }
        let temporary = ensure_dir(fs, top, layout::TEMPORARY, 0o700).map_err(failed)?;
        let unfinished = layout::unfinished_name(0);
        let write = || -> io::Result<()> {
            if whole.is_none() && !lacking.is_empty() {
                let file = create(fs, &temporary, &unfinished, record.head.mode)?;
                fs.write_at(&file, &record.text, 0)?;
            }
            for (dir, torn) in &lacking {
                if *torn {
                    fs.unlink(dir, &name)?;
                }
                match &whole {
                    Some(from) => fs.link(from, &name, dir, &name)?,
                    None => fs.link(&temporary, &unfinished, dir, &name)?,
                }
            }
            if whole.is_none() && !lacking.is_empty() { fs.unlink(&temporary, &unfinished) } else { Ok(()) }
        };
        write().map_err(failed)?;
        Ok(mailboxes)
    }

    fn standing(&self, dir: &Dir, name: &str, text: &[u8]) -> io::Result<Standing> {
        match read_file(self.fs(), dir, name, MAX_FILE) {
            Ok(found) if found == text => Ok(Standing::Whole),
            Ok(found) if serde_json::from_slice::<IgnoredAny>(&found).is_ok() => Ok(Standing::Foreign),
            Ok(_) => Ok(Standing::Torn),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Standing::Missing),
            Err(error) if is_about_name(&error) => Ok(Standing::Foreign),
            Err(error) => Err(error),
        }
    }

    /// Announces a message that a dead process had only written to the journal, or only linked.
    fn tell(&self, writing: &Writing<'_>, message: &Message, mailboxes: Vec<Mailbox>) -> Result<()> {
        let mut changes = writing.changes()?;
        if mailboxes.is_empty() || !writing.index.find(&changes.state, message.id)?.is_empty() {
            return Ok(());
        }
        let mut places = Vec::new();
        for mailbox in mailboxes {
            let mut place = self.place(&mut changes, mailbox)?;
            place.in_step = false;
            places.push(place);
        }
        let all: Vec<usize> = (0..places.len()).collect();
        self.announce(&mut changes, &mut places, &[(message, &all)])
    }

    /// Writes the files of what stands in the journal anew: their sync has failed, and asked again it would say that all is
    /// well. The kernel forgets what it could not write, so that a file may read as zeroes by now. What is not there any more
    /// was removed.
    pub(super) fn write_anew(&self, top: &Dir, journal: &Journal, header: &Header, until: u64) -> Result<()> {
        let failed = |error: io::Error| failure("messages in .fmail/journal cannot be written anew", &error);
        let fs = self.fs();
        let temporary = ensure_dir(fs, top, layout::TEMPORARY, 0o700).map_err(failed)?;
        let unfinished = layout::unfinished_name(0);
        let mut dirs: HashMap<Target, Option<Dir>> = HashMap::new();
        for record in journal.records(header, header.clean) {
            let record = record.map_err(unreadable)?;
            if record.head.position >= until {
                break;
            }
            let Some(message) = record.message() else { continue };
            let name = layout::file_name(message.id);
            for target in message.targets() {
                if !dirs.contains_key(&target) {
                    let dir = self.mailbox_if_there(top, &target)?;
                    dirs.insert(target.clone(), dir);
                }
                let Some(dir) = &dirs[&target] else { continue };
                if let Standing::Whole | Standing::Torn = self.standing(dir, &name, &record.text).map_err(failed)? {
                    let file = create(fs, &temporary, &unfinished, record.head.mode).map_err(failed)?;
                    let written = fs.write_at(&file, &record.text, 0).and_then(|()| fs.sync_data(&file));
                    written.and_then(|()| fs.rename(&temporary, &unfinished, dir, &name)).map_err(failed)?;
                }
            }
        }
        dirs.values().flatten().try_for_each(|dir| fs.sync_dir(dir)).map_err(failed)
    }

    fn remove_temporaries(&self, top: &Dir) -> Result<()> {
        let failed = |error: io::Error| unusable(layout::TEMPORARY, &error);
        let temporary = ensure_dir(self.fs(), top, layout::TEMPORARY, 0o700).map_err(failed)?;
        let mut names = Vec::new();
        let listed = self.fs().list(&temporary, &mut |name, _| {
            names.extend(layout::is_unfinished_name(name).then(|| name.to_string()));
            true
        });
        listed.map_err(failed)?;
        // The first one last, as everywhere: where it is missing, nothing is left.
        names.sort_by_key(|name| *name == layout::unfinished_name(0));
        names.iter().try_for_each(|name| self.fs().unlink(&temporary, name).map_err(failed))
    }

    /// A journal whose header is damaged in both copies says nothing any more.
    fn discard_journal(&self, top: &Dir) -> Result<()> {
        let text = ".fmail/journal is damaged and was removed; messages of the last moments before the machine stopped may \
                    be missing";
        (self.options.reporter)(Notice::new(NoticeKind::Broken, text.to_string()));
        let removed = self.fs().unlink(top, layout::JOURNAL).and_then(|()| self.fs().sync_dir(top));
        removed.map_err(|error| failure(".fmail/journal cannot be removed", &error))
    }
}

fn unreadable(error: io::Error) -> Error {
    failure(".fmail/journal cannot be read", &error)
}
