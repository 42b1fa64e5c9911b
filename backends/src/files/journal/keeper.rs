//! The journal of a running store: opened, made, filled, given up.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fmail_api::{Error, FORMAT_VERSION, Notice, NoticeKind, Result};
use serde_json::Value;

use super::format::{Head, Header, size_of_record};
use super::{HEAD, Journal};
use crate::files::fs::{Dir, failure, read_file};
use crate::files::index::{Changes, random_u64};
use crate::files::session::{Session, relock};
use crate::files::{Durability, layout};

/// A journal that is not written to for this long is brought to an end.
const IDLE: Duration = Duration::from_millis(250);
/// What stands in the journal is brought to its mailboxes' disk after this long, also while more is written.
const AGE: Duration = Duration::from_secs(2);

/// How the files store uses its journal.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// Messages go through the journal. For programs that live long: a command that sends one message would gain nothing.
    pub writes: bool,
    /// How many bytes of messages it holds.
    pub room: u64,
    /// How many groups a process stores before it makes a journal: most projects never need one.
    pub after: u32,
    /// A thread empties the journal beside the appends. Without it that is done when the journal is full.
    pub beside: bool,
    /// So many files are made safe one by one, more by one sync of the file system.
    pub few: usize,
    /// A command that finds a journal which nobody has written to for this long empties it.
    pub stale: Duration,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            writes: false,
            room: 16 * 1024 * 1024,
            after: 16,
            beside: true,
            few: 128,
            stale: Duration::from_secs(10),
        }
    }
}

/// What a store knows of its journal.
#[derive(Default)]
pub struct Keeper {
    kept: Mutex<Kept>,
    pace: Arc<Pace>,
    /// The store that it belongs to, for the thread.
    pub session: std::sync::OnceLock<Weak<Session>>,
}

impl Keeper {
    /// Whether the last group went through a journal, and the next will.
    pub fn is_in_use(&self) -> bool {
        relock(&self.kept).journal.is_some()
    }

    /// The project's directory as it was opened before this process wrote anything to this journal.
    pub(super) fn witness(&self, journal: &Journal) -> Option<Dir> {
        let kept = relock(&self.kept);
        let (inode, dir) = kept.witness.as_ref()?;
        (*inode == journal.inode).then(|| dir.clone())
    }
}

#[derive(Default)]
struct Kept {
    journal: Option<Arc<Journal>>,
    /// A handle that is told of every failure of the disk since the first message, and the journal that it is for.
    witness: Option<(u64, Dir)>,
    /// Something has failed, and this process uses it no more.
    off: bool,
    groups: u32,
    thread: Option<JoinHandle<()>>,
}

/// When the journal is emptied beside the appends.
#[derive(Default)]
struct Pace {
    state: Mutex<Dirt>,
    changed: Condvar,
}

#[derive(Default)]
struct Dirt {
    /// When the first and the last group came that is not safe yet, and how many bytes came since.
    since: Option<(Instant, Instant, u64)>,
    stop: bool,
}

impl Pace {
    fn note(&self, bytes: u64) {
        let mut state = relock(&self.state);
        let now = Instant::now();
        let woken = state.since.is_none();
        let (first, before) = state.since.map_or((now, 0), |(first, _, bytes)| (first, bytes));
        state.since = Some((first, now, before + bytes));
        // Once it is awake, the thread looks by itself at the times and at how much there is.
        if woken {
            self.changed.notify_all();
        }
    }

    fn stop(&self) {
        relock(&self.state).stop = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to do; false when all is over.
    fn wait(&self, plenty: u64) -> bool {
        let mut state = relock(&self.state);
        loop {
            if state.stop {
                return false;
            }
            let rest = match state.since {
                None => Duration::MAX,
                Some((first, last, bytes)) => {
                    let rest = IDLE.saturating_sub(last.elapsed()).min(AGE.saturating_sub(first.elapsed()));
                    if rest.is_zero() || bytes >= plenty {
                        state.since = None;
                        return true;
                    }
                    // It may be filled quickly, and nobody is woken for each group.
                    rest.min(Duration::from_millis(50))
                }
            };
            state = match rest {
                Duration::MAX => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                rest => self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.pace.stop();
    }
}

/// A group on its way through the journal.
pub struct Run {
    journal: Arc<Journal>,
    header: Header,
    settled: u64,
    heads: Vec<Head>,
    position: u64,
    end: u64,
}

impl Run {
    /// Up to where the journal is settled when this group is told to the index.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Writes the texts of a group with the permissions of their files.
    pub fn write<'t>(&mut self, texts: impl Iterator<Item = (u32, &'t str)>) -> io::Result<()> {
        let mut bytes = Vec::with_capacity((self.end - self.position) as usize);
        let mut position = self.position;
        for (mode, text) in texts {
            let head = Head::new(position, mode, text.as_bytes());
            bytes.extend_from_slice(&head.encode());
            bytes.extend_from_slice(text.as_bytes());
            position = head.end();
            bytes.resize((position - self.position) as usize, 0);
            self.heads.push(head);
        }
        self.journal.write(&self.header, self.position, &bytes)
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> io::Result<()> {
        self.journal.sync()
    }

    /// Takes back what became of the messages with these numbers in the group.
    pub fn void(&self, numbers: &[usize]) -> io::Result<()> {
        let heads: Vec<Head> = numbers.iter().filter_map(|number| self.heads.get(*number)).copied().collect();
        self.journal.void(&self.header, &heads)
    }
}

impl Session {
    /// The way through the journal for a group with texts of these lengths; nothing where it goes without one.
    pub fn journal_run(&self, top: &Dir, changes: &mut Changes<'_>, texts: &[usize]) -> Result<Option<Run>> {
        let options = &self.options.journal;
        let size: u64 = texts.iter().map(|length| size_of_record(*length)).sum();
        let fits = size <= options.room / 2 && texts.iter().all(|length| *length + HEAD < u32::MAX as usize);
        if !options.writes || self.options.durability == Durability::Os || !fits || texts.is_empty() {
            return Ok(None);
        }
        let mut kept = relock(&self.journal.kept);
        kept.groups = kept.groups.saturating_add(1);
        if kept.off {
            return Ok(None);
        }
        let opened = kept.journal.take().filter(|journal| journal.is_in_place(top));
        let journal = match opened.map_or_else(|| self.open_or_make(top, kept.groups), |journal| Ok(Some(journal))) {
            Ok(Some(journal)) => journal,
            Ok(None) => return Ok(None),
            Err(error) => {
                kept.off = true;
                self.without_journal(&error);
                return Ok(None);
            }
        };
        if kept.witness.as_ref().is_none_or(|(inode, _)| *inode != journal.inode) {
            kept.witness = Some((journal.inode, top.clone()));
        }
        kept.journal = Some(journal.clone());
        drop(kept);
        let failed = |error: io::Error| failure(".fmail/journal cannot be read", &error);
        let Some(mut header) = journal.header().map_err(failed)? else { return Ok(None) };
        if header.room / 2 < size {
            return Ok(None);
        }
        if !header.covers(changes.state.journal) {
            // It has just been made: whoever takes the lock has looked at every other one.
            changes.state.journal = header.clean;
            changes.commit()?;
        }
        let settled = changes.state.journal;
        let mut position = header.place(settled, size);
        if position + size > header.clean + header.room {
            if let Err(error) = self.empty(top, &journal, &header, settled) {
                self.give_up_journal(&error);
                return Ok(None);
            }
            header = Header { clean: settled, suspect: false, ..header };
            position = header.place(settled, size);
        }
        Ok(Some(Run { journal, header, settled, heads: Vec::new(), position, end: position + size }))
    }

    /// The project's journal, if it has one: the one in use, where it is still that.
    pub(super) fn journal_again(&self, top: &Dir) -> io::Result<Option<Arc<Journal>>> {
        let kept = relock(&self.journal.kept).journal.clone().filter(|journal| journal.is_in_place(top));
        match kept {
            Some(journal) => Ok(Some(journal)),
            None => Ok(Journal::open(&self.options.fs, top)?.map(Arc::new)),
        }
    }

    fn open_or_make(&self, top: &Dir, groups: u32) -> Result<Option<Arc<Journal>>> {
        let failed = |error: io::Error| failure(".fmail/journal cannot be used", &error);
        if let Some(journal) = Journal::open(&self.options.fs, top).map_err(failed)? {
            return Ok(Some(Arc::new(journal)));
        }
        let options = &self.options.journal;
        if groups <= options.after || crate::files::watch::is_remote(self) {
            return Ok(None);
        }
        self.raise_format(top)?;
        // Nothing that an index says of an earlier journal can be taken for a position in this one.
        let clean = (random_u64()? >> 24).next_multiple_of(options.room);
        let header = Header { room: options.room, clean, suspect: false };
        Journal::make(self.fs(), top, &header).map_err(|error| failure(".fmail/journal cannot be made", &error))?;
        Ok(Journal::open(&self.options.fs, top).map_err(failed)?.map(Arc::new))
    }

    /// A program that knows no journal must not write this project any more: after a power cut it would not see what is in
    /// the journal only.
    fn raise_format(&self, top: &Dir) -> Result<()> {
        let failed = |error: io::Error| failure(".fmail/project.json cannot be read", &error);
        let bytes = read_file(self.fs(), top, layout::PROJECT, 1024 * 1024).map_err(failed)?;
        let Ok(Value::Object(mut project)) = serde_json::from_slice(&bytes) else { return Ok(()) };
        if project.get("format").and_then(Value::as_u64).is_some_and(|format| format >= u64::from(FORMAT_VERSION)) {
            return Ok(());
        }
        project.insert("format".into(), FORMAT_VERSION.into());
        let mut text = serde_json::to_string_pretty(&project).unwrap_or_default();
        text.push('\n');
        self.replace(top, layout::PROJECT, top, text.as_bytes(), 0o644, true)
    }

    /// A group could not be written to the journal. What was written of it must not come back, and what was answered before
    /// may stand nowhere else: that is made safe, and then the journal goes. This process uses none from then on.
    pub fn abandon_journal(&self, top: &Dir, run: &Run, error: &io::Error) {
        if self.remove_journal(top, run, run.settled).is_err() {
            // It has to stay for what was answered before. The failed group is overwritten, as far as that can be done.
            let zeroes = vec![0; (run.end - run.position) as usize];
            let _ = run.journal.write(&run.header, run.position, &zeroes).and_then(|()| run.sync());
        }
        self.give_up_journal(&failure(".fmail/journal cannot be written", error));
    }

    /// A record could not be taken back. The others of its group are made safe, and the journal goes.
    pub fn retire_journal(&self, top: &Dir, run: &Run, error: &io::Error) -> Result<()> {
        let removed = self.remove_journal(top, run, run.end);
        self.give_up_journal(&failure(".fmail/journal cannot be written", error));
        removed
    }

    fn remove_journal(&self, top: &Dir, run: &Run, until: u64) -> Result<()> {
        self.make_all_safe(top, &run.journal, &run.header, until)?;
        let removed = self.fs().unlink(top, layout::JOURNAL).and_then(|()| self.fs().sync_dir(top));
        removed.map_err(|error| failure(".fmail/journal cannot be removed", &error))
    }

    /// Looks once more after a while.
    pub(super) fn empty_later(&self) {
        self.journal.pace.note(0);
    }

    /// From now on without a journal.
    pub fn give_up_journal(&self, error: &Error) {
        let mut kept = relock(&self.journal.kept);
        kept.journal = None;
        if !std::mem::replace(&mut kept.off, true) {
            self.without_journal(error);
        }
    }

    fn without_journal(&self, error: &Error) {
        let text = format!("{error}; messages are synced one by one from now on, which is slower and as safe");
        (self.options.reporter)(Notice::new(NoticeKind::Other, text));
    }

    /// A group has gone through the journal: its files are to be made safe beside the next ones.
    pub fn journaled(&self, run: &Run) {
        if !self.options.journal.beside {
            return;
        }
        self.journal.pace.note(run.end - run.position);
        let mut kept = relock(&self.journal.kept);
        let Some(session) = self.journal.session.get().filter(|_| kept.thread.is_none()) else { return };
        let (session, pace, plenty) = (session.clone(), self.journal.pace.clone(), run.header.room / 4);
        let spawned = std::thread::Builder::new().name("fmail-journal".into()).spawn(move || {
            while pace.wait(plenty) {
                let Some(session) = session.upgrade() else { return };
                session.empty_beside();
            }
        });
        // Without a thread the journal is emptied when it is full.
        kept.thread = spawned.ok();
    }

    /// Ends the thread and empties the journal.
    pub fn close_journal(&self) -> Result<()> {
        let thread = relock(&self.journal.kept).thread.take();
        if let Some(thread) = thread {
            self.journal.pace.stop();
            let _ = thread.join();
            relock(&self.journal.pace.state).stop = false;
        }
        if !self.options.journal.writes {
            return Ok(());
        }
        let Some(top) = self.top()? else { return Ok(()) };
        let writing = self.writing_with(&top, self.lock(&top)?)?;
        self.checkpoint(&top, &writing)
    }
}
