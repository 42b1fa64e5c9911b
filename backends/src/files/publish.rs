//! Storing a message: written and synced under a name that nobody reads, linked to its real names, then announced.
//!
//! All of it happens under the lock, so that the next holder can settle what a dead one left: a temporary that is
//! linked nowhere is deleted, one that is linked somewhere is finished. Only the directories are synced after the lock
//! is free, so that many writers share one commit of the file system. The answer waits for that.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{
    Appended, Draft, Error, ErrorKind, Imported, Message, MessageId, RecordKey, RefusedReason, Result,
    TICKS_PER_SECOND, Target, Timestamp, check_size,
};

use super::fs::{Dir, Fs, Open, ensure_dir, failure, if_there, read_file};
use super::head::{MAX_FILE, arrival_of, key_hash, origin_hash};
use super::index::{Changes, Row};
use super::reader::{Reader, unusable, unusable_dir};
use super::session::{Session, Writing};
use super::{Durability, SETTLED_AFTER, layout};

/// The name of a message that is not finished. One name is enough: it exists only under the lock.
const UNFINISHED: &str = "message";
/// Ids may run this far ahead of the clock before writers have to wait.
const MAX_AHEAD: u64 = 60 * TICKS_PER_SECOND;
/// How long an idempotency key is remembered.
const KEY_LIFE: Duration = Duration::from_secs(24 * 3600);

/// One mailbox of a message that is being stored.
struct Place {
    dir: Dir,
    target: Target,
    row: (u32, Row),
    /// The directory held nothing that the index does not know when we began.
    in_step: bool,
}

/// What became of an attempt under the lock.
enum Attempt {
    Stored(Vec<Dir>),
    /// A file of that name is there, unknown to the index: take the next id.
    Taken,
}

impl Session {
    /// Stores a new message.
    pub fn append(&self, draft: Draft) -> Result<Appended> {
        let started = self.options.clock.now().whole_seconds();
        let probe = draft.clone().into_message(MessageId::MIN, started);
        check_size(&probe, self.options.max_message_bytes)?;
        let top = self.top_for_writing()?;
        let patience = Instant::now() + self.options.lock_timeout;
        loop {
            let lock = self.lock(&top)?;
            let writing = self.writing_with(&top, lock)?;
            if let Some(first) = self.first_with_key(&top, &writing, draft.key.as_deref())? {
                return Ok(first);
            }
            let mut changes = writing.changes()?;
            let Some(mut id) = self.allocate(&writing, &mut changes)? else {
                drop(writing);
                if Instant::now() >= patience {
                    return Err(ids_ahead());
                }
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            loop {
                let message = draft.clone().into_message(id, self.options.clock.now().whole_seconds());
                match self.publish(&top, &mut changes, &message)? {
                    Attempt::Stored(dirs) => {
                        drop(writing);
                        let not_durable = self.sync_dirs(&dirs).err().map(|error| error.to_string());
                        return Ok(Appended { message: Arc::new(message), duplicate: false, not_durable });
                    }
                    Attempt::Taken => id = id.next(),
                }
            }
        }
    }

    /// Stores a message that has its id already.
    pub fn import(&self, mut message: Message) -> Result<Imported> {
        if check_size(&message, self.options.max_message_bytes).is_err() {
            return Ok(Imported::Refused(RefusedReason::TooLarge));
        }
        if self.horizon()?.is_some_and(|horizon| message.time < horizon) {
            return Ok(Imported::Refused(RefusedReason::BelowHorizon));
        }
        let top = self.top_for_writing()?;
        let lock = self.lock(&top)?;
        let writing = self.writing_with(&top, lock)?;
        let mut changes = writing.changes()?;
        if self.is_here(&top, &writing, &message)? {
            return Ok(Imported::Duplicate);
        }
        let original = message.id;
        let taken = !writing.index.find(&changes.state, original)?.is_empty();
        let mut fresh = None;
        let mut relocate = taken || original > self.latest();
        loop {
            if relocate {
                let allocated = self.allocate(&writing, &mut changes)?.ok_or_else(ids_ahead)?;
                message.id = fresh.map_or(allocated, |id: MessageId| id.max(allocated));
                message.origin_id = Some(message.origin_id.unwrap_or(original));
            }
            match self.publish(&top, &mut changes, &message)? {
                Attempt::Stored(dirs) => {
                    drop(writing);
                    self.sync_dirs(&dirs)?;
                    return Ok(if relocate { Imported::Relocated(message.id) } else { Imported::New });
                }
                Attempt::Taken => {
                    fresh = relocate.then(|| message.id.next());
                    relocate = true;
                }
            }
        }
    }

    /// Whether the same message, by its identity, is stored.
    fn is_here(&self, top: &Dir, writing: &Writing<'_>, message: &Message) -> Result<bool> {
        let state = writing.index.state()?;
        let mut reader = Reader::new(self, top);
        let identity = message.identity();
        for (_, entry) in writing.index.find(&state, identity.origin)? {
            let target = writing.index.row(entry.row)?.target;
            if reader.read(&target, entry.id)?.message().is_some_and(|found| found.identity() == identity) {
                return Ok(true);
            }
        }
        let moved = Message { origin_id: Some(identity.origin), ..message.clone() };
        match writing.index.find_key(&state, origin_hash(&moved))? {
            Some(key) => {
                let entry = writing.index.chain(&state).entry(key.entry)?;
                Ok(!entry.removed)
            }
            None => Ok(false),
        }
    }

    /// The message that was stored with this key, if that was less than a day ago and it is still there.
    fn first_with_key(&self, top: &Dir, writing: &Writing<'_>, key: Option<&str>) -> Result<Option<Appended>> {
        let Some(key) = key else { return Ok(None) };
        let state = writing.index.state()?;
        let Some(found) = writing.index.find_key(&state, key_hash(key))? else { return Ok(None) };
        if self.options.clock.now().since(Timestamp::from_unix_nanos(found.time)) > KEY_LIFE {
            return Ok(None);
        }
        let entry = writing.index.chain(&state).entry(found.entry)?;
        let target = writing.index.row(entry.row)?.target;
        let mut reader = Reader::new(self, top);
        let Some(message) = reader.read(&target, entry.id)?.into_message() else { return Ok(None) };
        // The first sender may still be about to sync, or may have died before it did.
        // A mailbox that is gone has nothing to sync; one that cannot be opened is not known to be safe.
        let dirs: io::Result<Vec<Option<Dir>>> =
            message.targets().iter().map(|target| if_there(reader.open(target))).collect();
        let synced = match dirs {
            Ok(dirs) => self.sync_dirs(&dirs.into_iter().flatten().collect::<Vec<_>>()),
            Err(error) => Err(Error::io("the message's directory cannot be opened", &error)),
        };
        let not_durable = synced.err().map(|error| error.to_string());
        Ok(Some(Appended { message: Arc::new(message), duplicate: true, not_durable }))
    }

    /// The next id, or nothing while ids are too far ahead of the clock.
    fn allocate(&self, writing: &Writing<'_>, changes: &mut Changes<'_>) -> Result<Option<MessageId>> {
        let clock = &self.options.clock;
        let wall = MessageId::at(clock.now()).ticks();
        let boot = u64::try_from(clock.since_boot().as_micros() / 100).unwrap_or(u64::MAX);
        let state = &mut changes.state;
        // The id clock never steps back while the machine runs: ids would have to wait until the time has come again.
        let steady = match boot.checked_sub(state.clock_boot) {
            Some(passed) if state.clock_boot != 0 => state.clock_ticks.saturating_add(passed),
            _ => 0,
        };
        let now = wall.max(steady);
        (state.clock_boot, state.clock_ticks) = (boot, now);
        let mut next = now.max(state.high + 1);
        if state.irregular_max >= next {
            let ahead: Vec<u64> = writing.index.irregular(state)?.iter().map(|(_, entry)| entry.id.ticks()).collect();
            while ahead.contains(&next) {
                next += 1;
            }
        }
        if next > now + MAX_AHEAD {
            return Ok(None);
        }
        Ok(MessageId::from_ticks(next))
    }

    /// Writes, links and announces a message. On an error nothing of it can be seen.
    fn publish(&self, top: &Dir, changes: &mut Changes<'_>, message: &Message) -> Result<Attempt> {
        let fs = self.fs();
        let failed = |error: io::Error| failure("the message cannot be stored", &error);
        let temporary =
            ensure_dir(fs, top, layout::TEMPORARY, 0o700).map_err(|error| unusable(layout::TEMPORARY, &error))?;
        let mut places = Vec::new();
        for target in message.targets() {
            places.push(self.place(top, changes, target)?);
        }
        let private = places.iter().all(|place| place.target.is_direct());
        let mode = if private { 0o600 } else { 0o644 };
        let mut text = serde_json::to_string_pretty(message).unwrap_or_default();
        text.push('\n');
        let file = fs.open(&temporary, UNFINISHED, Open::CreateNew(mode)).map_err(failed)?;
        let written = fs.write_at(&file, text.as_bytes(), 0).and_then(|()| match self.options.durability {
            Durability::Disk => fs.sync_data(&file),
            Durability::Os => Ok(()),
        });
        let name = layout::file_name(message.id);
        let mut linked = 0;
        let result = written.and_then(|()| {
            places.iter().try_for_each(|place| {
                fs.link(&temporary, UNFINISHED, &place.dir, &name)?;
                linked += 1;
                Ok(())
            })
        });
        let announced = result.map_err(failed).and_then(|()| self.announce(changes, message, &mut places));
        if let Err(error) = announced {
            let taken = linked < places.len() && fs.stat(&places[linked].dir, &name).is_ok();
            for place in &places[..linked] {
                fs.unlink(&place.dir, &name).map_err(failed)?;
            }
            fs.unlink(&temporary, UNFINISHED).map_err(failed)?;
            return if taken { Ok(Attempt::Taken) } else { Err(error) };
        }
        // The message is stored and announced. A temporary that stays is settled by the next holder of the lock.
        let _ = fs.unlink(&temporary, UNFINISHED);
        Ok(Attempt::Stored(places.into_iter().map(|place| place.dir).collect()))
    }

    /// A mailbox, made when it is missing.
    fn place(&self, top: &Dir, changes: &mut Changes<'_>, target: Target) -> Result<Place> {
        let fs = self.fs();
        let (parent, name, mode) = layout::target_dir(&target);
        let open = || {
            let parent = ensure_dir(fs, top, parent, layout::parent_mode(parent))?;
            let dir = ensure_dir(fs, &parent, name, mode)?;
            let stamp = fs.stat_dir(&dir)?.modified;
            Ok((dir, stamp))
        };
        let (dir, stamp) = open().map_err(|error: io::Error| unusable_dir(parent, name, &error))?;
        let row = changes.ensure_row(&target)?;
        let in_step = if row.1.stamp == 0 && row.1.newest == 0 { is_empty(fs, &dir) } else { row.1.stamp == stamp };
        Ok(Place { dir, target, row, in_step })
    }

    fn announce(&self, changes: &mut Changes<'_>, message: &Message, places: &mut [Place]) -> Result<()> {
        let mut rows = Vec::new();
        for place in places.iter_mut() {
            let stamp = self.fs().stat_dir(&place.dir).map_or(0, |stat| stat.modified);
            own_change(&mut place.row.1, place.in_step, stamp, self.now());
            rows.push(place.row.clone());
        }
        // Our own id is in order by construction; one that came with a message may not be.
        let latest = if message.origin_id.is_none() && message.id.ticks() > changes.state.high {
            self.latest().max(MessageId::from_ticks(changes.state.clock_ticks + MAX_AHEAD).unwrap_or(MessageId::MAX))
        } else {
            self.latest()
        };
        changes.arrive(&arrival_of(message, latest), &mut rows).map(drop)
    }

    /// Makes the names in these directories durable.
    fn sync_dirs(&self, dirs: &[Dir]) -> Result<()> {
        if self.options.durability == Durability::Os {
            return Ok(());
        }
        dirs.iter().try_for_each(|dir| self.fs().sync_dir(dir)).map_err(|error| {
            Error::new(ErrorKind::DurabilityUnknown, format!("the message's directory cannot be synced: {error}"))
        })
    }

    /// Finishes or removes what a process left that died with the lock.
    pub fn settle(&self, top: &Dir, writing: &Writing<'_>) -> Result<()> {
        if !writing.is_shared() {
            return Ok(());
        }
        let fs = self.fs();
        let Ok(temporary) = fs.open_dir(top, layout::TEMPORARY) else { return Ok(()) };
        let stat = match fs.stat(&temporary, UNFINISHED) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|error| Error::io(".fmail/tmp/message", &error))?,
        };
        if stat.links > 1
            && let Ok(bytes) = read_file(fs, &temporary, UNFINISHED, MAX_FILE)
            && let Ok(message) = serde_json::from_slice::<Message>(&bytes)
        {
            self.finish(top, writing, &temporary, &message)?;
        }
        fs.unlink(&temporary, UNFINISHED).map_err(|error| Error::io(".fmail/tmp/message", &error))
    }

    /// Links an unfinished message to the names that it lacks, and announces it if that was not done.
    fn finish(&self, top: &Dir, writing: &Writing<'_>, temporary: &Dir, message: &Message) -> Result<()> {
        let mut changes = writing.changes()?;
        let name = layout::file_name(message.id);
        let mut places = Vec::new();
        for target in message.targets() {
            let mut place = self.place(top, &mut changes, target)?;
            match self.fs().link(temporary, UNFINISHED, &place.dir, &name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("an unfinished message cannot be settled", &error));
                }
                _ => {}
            }
            // The dead process changed the directory without a stamp; a listing tells what else is new there.
            place.in_step = false;
            places.push(place);
        }
        let known = writing.index.find(&changes.state, message.id)?;
        if known.is_empty() {
            self.announce(&mut changes, message, &mut places)?;
        }
        self.sync_dirs(&places.into_iter().map(|place| place.dir).collect::<Vec<_>>())
    }

    /// Below which time everything was swept away.
    pub fn horizon(&self) -> Result<Option<Timestamp>> {
        let record = self.get(&RecordKey::horizon())?;
        let time = record.and_then(|record| record.value.get("before").and_then(|time| time.as_str()?.parse().ok()));
        Ok(time)
    }
}

fn is_empty(fs: &dyn Fs, dir: &Dir) -> bool {
    let mut empty = true;
    let listed = fs.list(dir, &mut |_, _| {
        empty = false;
        false
    });
    listed.is_ok() && empty
}

fn ids_ahead() -> Error {
    Error::new(ErrorKind::Backpressure, "ids have run 60 s ahead of the clock; nothing was stored")
        .help("a project takes 10,000 messages a second over time; send more slowly")
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
