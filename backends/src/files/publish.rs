//! Storing messages: written and synced under names that nobody reads, linked to their real names, then announced.
//!
//! All of it happens under the lock, so that the next holder can settle what a dead one left: a temporary that is
//! linked nowhere is deleted, one that is linked somewhere is finished. Only the directories are synced after the lock
//! is free, so that many writers share one commit of the file system. The answer waits for that.
//!
//! In a daemon the texts go through the [`journal`](super::journal): they are durable there, and neither the files nor the
//! directories are synced on the way to the answer. There a file is written without a name, where the file system can do that,
//! and gets its first one in its mailbox; what a dead daemon left of a group is found by the journal's records.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use fmail_api::{Error, ErrorKind, Message, MessageId, Result, TICKS_PER_SECOND, Target};
use rustix::io::Errno;

use super::crew::{Crew, Unsynced};
use super::fs::{Dir, Fs, Open, ensure_dir, failure};
use super::head::arrival_of;
use super::index::{Changes, Row};
use super::journal::Run;
use super::reader::{unusable, unusable_dir};
use super::session::{Session, relock};
use super::{Durability, SETTLED_AFTER, layout};

/// Ids may run this far ahead of the clock before writers have to wait.
pub const MAX_AHEAD: u64 = 60 * TICKS_PER_SECOND;

/// A mailbox that is about to get messages.
pub struct Mailbox {
    target: Target,
    pub dir: Dir,
    /// The directory's time when we began.
    stamp: u64,
    /// It was made for this, and its mark left behind.
    made: bool,
}

/// One mailbox of messages that are being stored.
pub struct Place {
    pub dir: Dir,
    pub row: (u32, Row),
    /// The directory held nothing that the index does not know when we began.
    pub in_step: bool,
}

/// What became of a message under the lock.
pub enum Outcome {
    /// It is there. The names in these directories have to be synced before it is safe.
    Stored(Vec<(Target, Dir)>),
    /// A file of that name is there, unknown to the index: it needs the next id.
    Taken,
    /// Nothing of it can be seen.
    Failed(Error),
}

/// A message on its way to its mailboxes.
struct Unfinished<'m> {
    message: &'m Message,
    /// What its file holds, and with which permissions.
    text: String,
    mode: u32,
    /// Its file, once that is written and as long as it lacks a name or a sync.
    file: Option<File>,
    /// The name of its temporary, as long as it is there.
    temporary: Option<String>,
    /// Which record of the journal it is.
    record: Option<usize>,
    /// Which places it goes to.
    places: Vec<usize>,
    /// In how many of them it is.
    linked: usize,
    /// Why it does not get any further.
    outcome: Option<Outcome>,
}

impl<'m> Unfinished<'m> {
    fn new(message: &'m Message) -> Self {
        let (places, text) = (Vec::new(), String::new());
        Unfinished {
            message,
            text,
            mode: 0,
            file: None,
            temporary: None,
            record: None,
            places,
            linked: 0,
            outcome: None,
        }
    }

    fn is_well(&self) -> bool {
        self.outcome.is_none()
    }

    fn fail(&mut self, error: Error) {
        self.outcome = Some(Outcome::Failed(error));
    }
}

/// Messages on their way to their mailboxes, under the lock.
struct Publication<'a, 'm> {
    session: &'a Session,
    temporary: Dir,
    /// The mark of a new mailbox stands where the first temporary will.
    marked: bool,
    /// How many temporaries there were so far.
    created: usize,
    places: Vec<Place>,
    messages: Vec<Unfinished<'m>>,
}

fn unstored(error: &io::Error) -> Error {
    failure("the message cannot be stored", error)
}

impl Session {
    /// Writes, links and announces messages whose ids ascend. Each that fails fails alone, and nothing of it can be seen.
    /// An error means all of them: nothing of any can be seen.
    pub fn publish(
        &self,
        top: &Dir,
        changes: &mut Changes<'_>,
        messages: &[Message],
        crew: &Crew,
    ) -> Result<Vec<Outcome>> {
        let temporary = self
            .open_again("", top, layout::TEMPORARY)
            .or_else(|_| ensure_dir(self.fs(), top, layout::TEMPORARY, 0o700))
            .map_err(|error| unusable(layout::TEMPORARY, &error))?;
        let (messages, mailboxes) = self.find_mailboxes(top, messages);
        let marked = mailboxes.iter().any(|mailbox| mailbox.made);
        let places = mailboxes.into_iter().map(|mailbox| self.place(changes, mailbox)).collect::<Result<_>>()?;
        let mut publication = Publication { session: self, temporary, marked, created: 0, places, messages };
        publication.encode();
        // The disk writes the journal while the files are made.
        let run = publication.journal(top, changes)?;
        publication.write(run.is_some());
        let run = match run {
            Some(run) => publication.sync_journal(top, run),
            None => None,
        };
        if run.is_none() {
            publication.sync(crew);
        }
        publication.link(run.is_some());
        let announced = publication.announce(changes, run.as_ref());
        if announced.is_err() {
            publication.take_back();
        }
        if let Some(run) = &run {
            publication.void(top, run, announced.is_err());
            self.journaled(run);
        }
        publication.clean_up();
        announced.map(|()| publication.finish(run.is_some()))
    }

    /// Opens the mailboxes of messages, each once.
    fn find_mailboxes<'m>(&self, top: &Dir, messages: &'m [Message]) -> (Vec<Unfinished<'m>>, Vec<Mailbox>) {
        let mut mailboxes: Vec<Mailbox> = Vec::new();
        let mut known: HashMap<Target, usize> = HashMap::new();
        let mut unfinished = Vec::with_capacity(messages.len());
        for message in messages {
            let mut one = Unfinished::new(message);
            for target in message.targets() {
                if let Some(place) = known.get(&target) {
                    one.places.push(*place);
                    continue;
                }
                match self.mailbox(top, target.clone()) {
                    Ok(mailbox) => {
                        known.insert(target, mailboxes.len());
                        one.places.push(mailboxes.len());
                        mailboxes.push(mailbox);
                    }
                    Err(error) => {
                        one.fail(error);
                        break;
                    }
                }
            }
            unfinished.push(one);
        }
        (unfinished, mailboxes)
    }

    /// A mailbox, made when it is missing.
    pub fn mailbox(&self, top: &Dir, target: Target) -> Result<Mailbox> {
        let fs = self.fs();
        let (parent, name, mode) = layout::target_dir(&target);
        let mut made = false;
        let mut open = || {
            let dir = match self.open_mailbox(top, parent, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    made = true;
                    leave_mark(fs, top, &layout::unfinished_name(0))?;
                    let parent = ensure_dir(fs, top, parent, layout::parent_mode(parent))?;
                    ensure_dir(fs, &parent, name, mode)?
                }
                found => found?,
            };
            let stamp = fs.stat_dir(&dir)?.modified;
            Ok((dir, stamp))
        };
        let (dir, stamp) = open().map_err(|error: io::Error| unusable_dir(parent, name, &error))?;
        Ok(Mailbox { target, dir, stamp, made })
    }

    /// What the index knows of a mailbox, which gets a row when it has none.
    pub fn place(&self, changes: &mut Changes<'_>, mailbox: Mailbox) -> Result<Place> {
        let Mailbox { target, dir, stamp, .. } = mailbox;
        let row = changes.ensure_row(&target)?;
        let is_new = row.1.stamp == 0 && row.1.newest == 0;
        let in_step = if is_new { is_empty(self.fs(), &dir) } else { row.1.stamp == stamp };
        Ok(Place { dir, row, in_step })
    }

    /// Tells the index of messages, each with the places that it is in, in one step.
    pub fn announce(
        &self,
        changes: &mut Changes<'_>,
        places: &mut [Place],
        messages: &[(&Message, &[usize])],
    ) -> Result<()> {
        let mut touched: Vec<usize> = messages.iter().flat_map(|(_, places)| places.iter().copied()).collect();
        touched.sort_unstable();
        touched.dedup();
        for number in touched {
            let place = &mut places[number];
            let stamp = self.fs().stat_dir(&place.dir).map_or(0, |stat| stat.modified);
            own_change(&mut place.row.1, place.in_step, stamp, self.now());
        }
        let mut rows: Vec<(u32, Row)> = places.iter().map(|place| place.row.clone()).collect();
        let mut high = changes.state.high;
        let arrivals: Vec<_> = messages
            .iter()
            .map(|(message, places)| {
                // Our own id is in order by construction; one that came with a message may not be.
                let mut latest = self.latest();
                if message.origin_id.is_none() && message.id.ticks() > high {
                    high = message.id.ticks();
                    let ahead = MessageId::from_ticks(changes.state.clock_ticks + MAX_AHEAD);
                    latest = latest.max(ahead.unwrap_or(MessageId::MAX));
                }
                (arrival_of(message, latest), *places)
            })
            .collect();
        changes.arrive(&arrivals, &mut rows)?;
        places.iter_mut().zip(rows).for_each(|(place, row)| place.row = row);
        Ok(())
    }

    /// Whether files can be written first and named later here. Tried once: file systems differ, and so do kernels in what they let
    /// other users than root do. What fails for another reason, or with the mark of a new mailbox in its way, is tried again
    /// with the next group.
    fn names_files_later(&self, temporary: &Dir) -> bool {
        let known = *relock(&self.handles.names_later);
        if let Some(known) = known {
            return known;
        }
        let (fs, name) = (self.fs(), layout::unfinished_name(0));
        let named = fs.create_unnamed(temporary, 0o600).and_then(|file| fs.name(&file, temporary, &name));
        let can = match named.and_then(|()| fs.unlink(temporary, &name)) {
            Ok(()) => true,
            Err(error) if is_inability(&error) => false,
            Err(_) => return false,
        };
        *relock(&self.handles.names_later) = Some(can);
        can
    }

    /// Makes the names in these directories durable, and says of each what kept it from that.
    pub fn sync_dirs(&self, dirs: Vec<Dir>, crew: &Crew) -> Vec<Option<Error>> {
        if self.options.durability == Durability::Os {
            return dirs.iter().map(|_| None).collect();
        }
        let unsynced = |error: io::Error| {
            Error::new(ErrorKind::DurabilityUnknown, format!("the message's directory cannot be synced: {error}"))
        };
        let synced = crew.sync(dirs.into_iter().map(Unsynced::Dir).collect());
        synced.into_iter().map(|result| result.err().map(unsynced)).collect()
    }
}

impl Publication<'_, '_> {
    /// Makes the texts of the files.
    fn encode(&mut self) {
        for number in 0..self.messages.len() {
            let private = self.messages[number].places.iter().all(|place| self.is_private(*place));
            let one = &mut self.messages[number];
            if one.is_well() {
                one.text = layout::file_text(one.message);
                one.mode = if private { 0o600 } else { 0o644 };
            }
        }
    }

    /// Writes the files. One that stands in the journal needs no name yet: whoever finds that its writer is dead makes another
    /// one of the record. The others get temporaries, which tell the next holder of the lock what to finish. The first of these
    /// is there before all others and as long as any of them: who looks for leftovers looks for that name only.
    fn write(&mut self, journaled: bool) {
        let unnamed = journaled && self.session.names_files_later(&self.temporary);
        for number in 0..self.messages.len() {
            let one = &self.messages[number];
            if !one.is_well() {
                continue;
            }
            let created = if unnamed { self.create_unnamed(one.mode) } else { None };
            let created = created.unwrap_or_else(|| self.create_temporary(number));
            let (fs, one) = (self.session.fs(), &mut self.messages[number]);
            match created.and_then(|file| fs.write_at(&file, one.text.as_bytes(), 0).map(|()| file)) {
                Ok(file) => one.file = Some(file),
                Err(error) => one.fail(unstored(&error)),
            }
        }
    }

    /// Creates a file without a name, where that can be done. It belongs to the directory of temporaries until it is named: the
    /// kernel tells whoever watches a directory of such files too.
    fn create_unnamed(&self, mode: u32) -> Option<io::Result<File>> {
        match self.session.fs().create_unnamed(&self.temporary, mode) {
            // Another file system is in place of the one that was tried.
            Err(error) if is_inability(&error) => {
                *relock(&self.session.handles.names_later) = None;
                None
            }
            created => Some(created),
        }
    }

    fn create_temporary(&mut self, number: usize) -> io::Result<File> {
        let name = layout::unfinished_name(self.created);
        let file = create(self.session.fs(), &self.temporary, &name, self.messages[number].mode)?;
        self.created += 1;
        self.messages[number].temporary = Some(name);
        Ok(file)
    }

    /// Gives temporaries to files that have no name and do not stand in a journal any more.
    fn name_temporaries(&mut self) {
        let fs = self.session.fs();
        for one in self.messages.iter_mut().filter(|one| one.is_well() && one.temporary.is_none()) {
            let (Some(file), name) = (&one.file, layout::unfinished_name(self.created)) else { continue };
            let named = match fs.name(file, &self.temporary, &name) {
                // What stands in its place was left by nobody who still lives.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    fs.unlink(&self.temporary, &name).and_then(|()| fs.name(file, &self.temporary, &name))
                }
                other => other,
            };
            match named {
                Ok(()) => {
                    one.temporary = Some(name);
                    self.created += 1;
                }
                Err(error) => one.fail(unstored(&error)),
            }
        }
    }

    fn is_private(&self, place: usize) -> bool {
        self.places[place].row.1.target.is_direct()
    }

    /// Makes the contents durable, all at the same time. A file whose sync failed is given up: a second sync of the same
    /// pages would say that all is well.
    fn sync(&mut self, crew: &Crew) {
        self.name_temporaries();
        if self.session.options.durability == Durability::Os {
            return;
        }
        let taken = self.messages.iter_mut().enumerate().filter_map(|(number, one)| Some((number, one.file.take()?)));
        let (numbers, files): (Vec<usize>, Vec<File>) = taken.unzip();
        let results = crew.sync(files.into_iter().map(Unsynced::File).collect());
        for (number, result) in numbers.into_iter().zip(results) {
            if let Err(error) = result {
                self.messages[number].fail(unstored(&error));
            }
        }
    }

    /// Writes the contents to the journal, where there is one. A journal that fails is given up, and the files are synced as
    /// they are without one.
    fn journal(&mut self, top: &Dir, changes: &mut Changes<'_>) -> Result<Option<Run>> {
        let well = || self.messages.iter().filter(|one| one.is_well());
        let lengths: Vec<usize> = well().map(|one| one.text.len()).collect();
        let Some(mut run) = self.session.journal_run(top, changes, &lengths)? else { return Ok(None) };
        if let Err(error) = run.write(well().map(|one| (one.mode, one.text.as_str()))) {
            self.session.abandon_journal(top, &run, &error);
            return Ok(None);
        }
        for (number, one) in self.messages.iter_mut().filter(|one| one.is_well()).enumerate() {
            one.record = Some(number);
        }
        Ok(Some(run))
    }

    /// Makes the contents durable in the journal; nothing when it fails and is given up.
    fn sync_journal(&mut self, top: &Dir, run: Run) -> Option<Run> {
        let Err(error) = run.sync() else { return Some(run) };
        self.session.abandon_journal(top, &run, &error);
        self.messages.iter_mut().for_each(|one| one.record = None);
        None
    }

    /// Gives the messages their names, in the order of their ids. One that stands in the journal needs no temporary any
    /// more: it moves to the last of its names, if it has one at all.
    fn link(&mut self, journaled: bool) {
        let fs = self.session.fs();
        for one in self.messages.iter_mut().filter(|one| one.is_well()) {
            let name = layout::file_name(one.message.id);
            let linked = one.places.iter().try_for_each(|place| {
                let dir = &self.places[*place].dir;
                match (&one.temporary, &one.file) {
                    (Some(temporary), _) if journaled && one.linked + 1 == one.places.len() => {
                        fs.rename_new(&self.temporary, temporary, dir, &name)?;
                        one.temporary = None;
                    }
                    (Some(temporary), _) => fs.link(&self.temporary, temporary, dir, &name)?,
                    (None, Some(file)) => fs.name(file, dir, &name)?,
                    (None, None) => return Err(io::Error::other("its file was not written")),
                }
                one.linked += 1;
                Ok(())
            });
            if let Err(error) = linked {
                let taken = fs.stat(&self.places[one.places[one.linked]].dir, &name).is_ok();
                one.outcome = Some(if taken { Outcome::Taken } else { Outcome::Failed(unstored(&error)) });
                unlink_all(fs, one, &self.places);
            }
            // One that could not be taken back is settled by the next holder of the lock, who looks for temporaries.
            if let (Some(file), None, 1..) = (&one.file, &one.temporary, one.linked)
                && !one.is_well()
            {
                let unfinished = layout::unfinished_name(self.created);
                if fs.name(file, &self.temporary, &unfinished).is_ok() {
                    one.temporary = Some(unfinished);
                    self.created += 1;
                }
            }
            one.file = None;
        }
    }

    /// Tells the index of what is there, and in the same step how far the journal is settled.
    fn announce(&mut self, changes: &mut Changes<'_>, run: Option<&Run>) -> Result<()> {
        changes.state.journal = run.map_or(changes.state.journal, Run::end);
        let linked: Vec<(&Message, &[usize])> =
            self.messages.iter().filter(|one| one.is_well()).map(|one| (one.message, &one.places[..])).collect();
        if linked.is_empty() {
            return if run.is_some() { changes.commit() } else { Ok(()) };
        }
        self.session.announce(changes, &mut self.places, &linked)
    }

    /// Sees to it that what failed behind the journal does not come back out of it. Its caller is told that it failed.
    fn void(&mut self, top: &Dir, run: &Run, all: bool) {
        let failed = |one: &Unfinished<'_>| if all || !one.is_well() { one.record } else { None };
        let numbers: Vec<usize> = self.messages.iter().filter_map(failed).collect();
        if numbers.is_empty() {
            return;
        }
        let Err(error) = run.void(&numbers).or_else(|error| self.session.retire_journal(top, run, &error)) else {
            return;
        };
        for one in self.messages.iter_mut().filter(|one| one.record.is_some()) {
            if let Some(Outcome::Failed(reason)) = &one.outcome {
                let text = format!("{}; it may be there after a power cut ({error})", reason.message());
                one.outcome = Some(Outcome::Failed(Error::new(reason.kind(), text)));
            }
        }
    }

    /// Takes everything back that was linked.
    fn take_back(&mut self) {
        for one in &mut self.messages {
            unlink_all(self.session.fs(), one, &self.places);
        }
    }

    /// Removes the temporaries, the first one last. One that stays, or whose message could not be taken back, is settled
    /// by the next holder of the lock.
    fn clean_up(&mut self) {
        let fs = self.session.fs();
        let mut left = false;
        for one in self.messages.iter().rev() {
            let Some(temporary) = &one.temporary else { continue };
            let half_done = !one.is_well() && one.linked > 0;
            let is_first = *temporary == layout::unfinished_name(0);
            let stays = half_done || (is_first && left);
            left |= stays || fs.unlink(&self.temporary, temporary).is_err();
        }
        if self.marked && self.created == 0 {
            // A mark that stays only makes the next holder look.
            let _ = fs.unlink(&self.temporary, &layout::unfinished_name(0));
        }
    }

    /// What became of each. What stands in the journal has no directories to be synced.
    fn finish(self, journaled: bool) -> Vec<Outcome> {
        let dir = |place: &usize| {
            let place = &self.places[*place];
            (place.row.1.target.clone(), place.dir.clone())
        };
        let places = |one: &Unfinished<'_>| if journaled { 0 } else { one.places.len() };
        let stored = |one: &Unfinished<'_>| Outcome::Stored(one.places[..places(one)].iter().map(dir).collect());
        self.messages.into_iter().map(|mut one| one.outcome.take().unwrap_or_else(|| stored(&one))).collect()
    }
}

/// Takes a message out of the mailboxes that it is in, and counts those where that failed.
fn unlink_all(fs: &dyn Fs, one: &mut Unfinished<'_>, places: &[Place]) {
    let name = layout::file_name(one.message.id);
    while one.linked > 0 {
        if let Err(error) = fs.unlink(&places[one.places[one.linked - 1]].dir, &name) {
            one.fail(unstored(&error));
            return;
        }
        one.linked -= 1;
    }
}

/// Leaves a temporary behind before directories are made: a process that dies before it has synced their names leaves it
/// too, and so tells the next one that they are not safe. The temporary itself takes the place of the mark.
pub fn leave_mark(fs: &dyn Fs, top: &Dir, name: &str) -> io::Result<()> {
    let temporary = ensure_dir(fs, top, layout::TEMPORARY, 0o700)?;
    match fs.open(&temporary, name, Open::CreateNew(0o600)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates a temporary. What stands in its place was left by nobody who still lives, and nobody has been told of it.
pub fn create(fs: &dyn Fs, temporary: &Dir, name: &str, mode: u32) -> io::Result<File> {
    match fs.open(temporary, name, Open::CreateNew(mode)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs.unlink(temporary, name)?;
            fs.open(temporary, name, Open::CreateNew(mode))
        }
        other => other,
    }
}

/// Whether an error says that files cannot be made without a name here, or not be named later: by this file system, by this
/// kernel, or for this user. Anything else may pass.
fn is_inability(error: &io::Error) -> bool {
    let cannot = [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL, Errno::NOSYS, Errno::PERM];
    error.raw_os_error().is_some_and(|code| cannot.contains(&Errno::from_raw_os_error(code)))
}

fn is_empty(fs: &dyn Fs, dir: &Dir) -> bool {
    let mut empty = true;
    let listed = fs.list(dir, &mut |_, _| {
        empty = false;
        false
    });
    listed.is_ok() && empty
}

/// Keeps a row in step with a change of our own to its directory.
pub fn own_change(row: &mut Row, in_step: bool, stamp: u64, now: u64) {
    // A directory that was not in step stays so: its next reader lists it.
    row.stamp = if in_step { stamp } else { 0 };
    if row.recheck == 0 {
        // A foreign file of the same instant would hide behind our stamp, so the directory is listed once more: later,
        // the more it holds, so that this costs about one part in a hundred of the time.
        row.recheck = now + SETTLED_AFTER + u64::from(row.live) * 30_000;
    }
}
