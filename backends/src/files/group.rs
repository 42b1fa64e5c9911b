//! Appending and importing: all who come at the same time share one hold of the lock and one sync of each directory.
//!
//! Under the lock: ids in ascending order, temporaries, their contents synced side by side, links, one change of the
//! index. Then the lock is free, the next group begins, and this one syncs its directories and answers. Each message has
//! its own verdict.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{Appended, Draft, Error, ErrorKind, Message, MessageId, Result, Target, Timestamp, check_size};

use super::crew::Crew;
use super::fs::{Dir, if_there};
use super::head::key_hash;
use super::index::{Changes, Entry, damaged, is_damage};
use super::layout;
use super::publish::{MAX_AHEAD, Outcome};
use super::queue::Ticket;
use super::reader::Reader;
use super::session::{Session, Writing, relock};

/// How long an idempotency key is remembered.
const KEY_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long to wait for the clock when ids are too far ahead of it.
const FOR_THE_CLOCK: Duration = Duration::from_millis(20);

/// The directories that a message stands in, and what is known to keep it from being durable there.
pub type Standing = (Vec<(Target, Dir)>, Option<String>);

/// A message that is there, once its directories are synced.
struct Stored {
    message: Arc<Message>,
    duplicate: bool,
    dirs: Vec<(Target, Dir)>,
    /// What is known already to keep it from being durable.
    not_durable: Option<String>,
}

/// One message of a group, and what has become of it so far.
struct Member {
    ticket: Ticket,
    /// It is to be stored under the id that it came with.
    keeps_id: bool,
    verdict: Option<Result<Stored>>,
}

impl Member {
    fn new(ticket: Ticket) -> Self {
        Member { keeps_id: ticket.imported, ticket, verdict: None }
    }

    /// The message and its size, if it has just been stored.
    fn stored(&self) -> Option<(&Arc<Message>, usize)> {
        let stored = self.verdict.as_ref()?.as_ref().ok()?;
        (!stored.duplicate).then_some((&stored.message, self.ticket.bytes))
    }
}

impl Session {
    /// Stores a new message, together with all that come at the same time.
    pub fn append(&self, draft: Draft) -> Result<Appended> {
        let message = draft.into_message(MessageId::MIN, self.options.clock.now().whole_seconds());
        let bytes = check_size(&message, self.options.max_message_bytes)?;
        self.store_with_others(message, false, bytes)
    }

    /// Stores new messages that have come together, as one group where they fit into one. Each has its answer.
    pub fn append_many(&self, drafts: Vec<Draft>) -> Vec<Result<Appended>> {
        let now = self.options.clock.now().whole_seconds();
        let mut fitting = Vec::new();
        let checked: Vec<Result<()>> = drafts
            .into_iter()
            .map(|draft| {
                let message = draft.into_message(MessageId::MIN, now);
                let bytes = check_size(&message, self.options.max_message_bytes)?;
                fitting.push((message, bytes));
                Ok(())
            })
            .collect();
        let mut stored = self.store_all(fitting, false).into_iter();
        let unknown = || Err(Error::internal("nothing is known of what became of a message"));
        checked.into_iter().map(|fits| fits.and_then(|()| stored.next().unwrap_or_else(unknown))).collect()
    }

    /// Stores a message, together with all that come at the same time.
    pub fn store_with_others(&self, message: Message, imported: bool, bytes: usize) -> Result<Appended> {
        let (caller, leads) = self.queue.join(message, imported, bytes, Instant::now() + self.options.lock_timeout);
        if leads {
            self.lead();
        }
        caller.answer(|| self.lead())
    }

    /// Stores messages of these sizes, together with all that come at the same time. All stand in line before the first is led,
    /// so that a caller of many takes the lock once. Each has its answer.
    pub fn store_all(&self, messages: Vec<(Message, usize)>, imported: bool) -> Vec<Result<Appended>> {
        let (caller, leads) = self.queue.join_with(messages, imported, Instant::now() + self.options.lock_timeout);
        if leads {
            self.lead();
        }
        caller.answers(|| self.lead())
    }

    /// Stores the messages of all who wait, as far as they fit into one group.
    fn lead(&self) {
        let baton = self.queue.baton();
        let mut group = Vec::new();
        let mut done = self.commit(&mut group);
        if done.as_ref().is_err_and(is_damage) {
            done = self.heal().and_then(|()| self.commit(&mut group));
        }
        // Our own watches need not wait until the kernel has told another thread of it.
        let hub = relock(&self.hub).clone();
        if let Some(hub) = hub {
            hub.keep(group.iter().filter_map(Member::stored));
            hub.wake_all();
        }
        self.give_up(&mut group, done);
        drop(baton);
        self.answer(group);
    }

    /// Takes the lock and stores what waits. Whoever has no verdict behind it has nothing stored.
    fn commit(&self, group: &mut Vec<Member>) -> Result<()> {
        let top = self.top_for_writing()?;
        // Later appends of a busy process stand in line with other processes; the first one has kept nobody waiting.
        let lock = if self.queue.is_first() { self.lock(&top)? } else { self.lock_in_line(&top)? };
        if group.is_empty() {
            group.extend(self.queue.take().into_iter().map(Member::new));
        }
        let writing = self.writing_with(&top, lock)?;
        self.turn_away_swept(group)?;
        for member in group.iter_mut().filter(|member| member.verdict.is_none()) {
            member.verdict = match self.already_there(&top, &writing, member) {
                Err(error) if is_damage(&error) => return Err(error),
                there => there.transpose(),
            };
        }
        let crew = self.crew(group);
        let mut above = MessageId::MIN;
        let mut again = false;
        while group.iter().any(|member| member.verdict.is_none()) {
            // What the last round could not clean up is settled before its names are used again.
            if std::mem::replace(&mut again, true) {
                self.settle(&top, &writing)?;
            }
            let mut changes = writing.changes()?;
            let (numbers, messages) = self.with_ids(&writing, &mut changes, group, above)?;
            let (Some(first), Some(last)) = (numbers.first(), messages.last()) else { return Ok(()) };
            if !group[*first].keeps_id {
                above = last.id.next();
            }
            let outcomes = self.publish(&top, &mut changes, &messages, &crew)?;
            for ((number, message), outcome) in numbers.into_iter().zip(messages).zip(outcomes) {
                group[number].verdict = match outcome {
                    Outcome::Stored(dirs) => {
                        Some(Ok(Stored { message: Arc::new(message), duplicate: false, dirs, not_durable: None }))
                    }
                    Outcome::Failed(error) => Some(Err(error)),
                    Outcome::Taken => None,
                };
                group[number].keeps_id = false;
            }
        }
        Ok(())
    }

    /// Imports that a sweep has overtaken. Who sweeps says so under the lock before it looks for what has to go: an import that
    /// has not heard of it here is seen by that look.
    fn turn_away_swept(&self, group: &mut [Member]) -> Result<()> {
        let waits = |member: &&mut Member| member.verdict.is_none() && member.ticket.imported;
        let mut imports = group.iter_mut().filter(waits).peekable();
        let Some(horizon) = imports.peek().map(|_| self.horizon()).transpose()?.flatten() else { return Ok(()) };
        for member in imports.filter(|member| member.ticket.message.time < horizon) {
            let id = member.ticket.message.id;
            let error = Error::new(ErrorKind::Conflict, format!("{id} is older than what was swept away meanwhile"));
            member.verdict = Some(Err(error));
        }
        Ok(())
    }

    /// What is stored already of a message: the first with its key, or what was imported before. Whether an import keeps its
    /// id is decided here too.
    fn already_there(&self, top: &Dir, writing: &Writing<'_>, member: &mut Member) -> Result<Option<Stored>> {
        let message = &member.ticket.message;
        if !member.ticket.imported {
            return self.first_with_key(top, writing, message.key.as_deref());
        }
        let state = writing.index.state()?;
        let found = writing.index.find(&state, message.id)?;
        let taken = !found.is_empty();
        if let Some((dirs, not_durable)) = self.is_here(top, writing, &state, message, found)? {
            return Ok(Some(Stored { message: Arc::new(message.clone()), duplicate: true, dirs, not_durable }));
        }
        member.keeps_id = !taken && message.id <= self.latest();
        Ok(None)
    }

    /// The next messages of a group that have no verdict yet, by their ids: those that keep theirs, and when there are none
    /// any more the others under fresh ones, as far as there are ids. Both at once could meet in one id.
    fn with_ids(
        &self,
        writing: &Writing<'_>,
        changes: &mut Changes<'_>,
        group: &[Member],
        mut above: MessageId,
    ) -> Result<(Vec<usize>, Vec<Message>)> {
        let mut keeping: Vec<(usize, &Member)> =
            group.iter().enumerate().filter(|(_, member)| member.verdict.is_none() && member.keeps_id).collect();
        if !keeping.is_empty() {
            keeping.sort_by_key(|(_, member)| member.ticket.message.id);
            return Ok(keeping.into_iter().map(|(number, member)| (number, member.ticket.message.clone())).unzip());
        }
        let (mut numbers, mut messages) = (Vec::new(), Vec::new());
        for (number, member) in group.iter().enumerate().filter(|(_, member)| member.verdict.is_none()) {
            let Some(id) = self.allocate(writing, changes, above)? else { break };
            let message = member.ticket.message.clone();
            numbers.push(number);
            messages.push(match member.ticket.imported {
                true => Message { id, origin_id: Some(message.origin_id.unwrap_or(message.id)), ..message },
                false => Message { id, time: self.options.clock.now().whole_seconds(), ..message },
            });
            above = id.next();
        }
        Ok((numbers, messages))
    }

    /// The callers of a group, apart from the one that leads. Who brings many messages has one thread, where as many callers
    /// with one each would have had as many.
    fn crew(&self, group: &[Member]) -> Crew {
        let Some(leader) = group.first() else { return Crew::alone(&self.options.fs) };
        let mut parties = HashSet::from([leader.ticket.party]);
        let others = group.iter().filter(|member| parties.insert(member.ticket.party));
        let others: Vec<_> = others.map(|member| member.ticket.caller.clone()).collect();
        let absent = group.len() - 1 - others.len();
        Crew::with(&self.options.fs, others, absent)
    }

    /// Decides about those without a verdict: the lock could not be taken, or there were no ids, or everything failed. Who
    /// is willing to wait longer goes back into the line.
    fn give_up(&self, group: &mut Vec<Member>, done: Result<()>) {
        let no_ids = done.is_ok();
        let error = done.err().unwrap_or_else(ids_ahead);
        if group.is_empty() {
            group.extend(self.queue.take().into_iter().map(Member::new));
        }
        let now = Instant::now();
        let mut waiting = Vec::new();
        for mut member in std::mem::take(group) {
            if member.verdict.is_none() && error.kind() == ErrorKind::Backpressure && member.ticket.deadline > now {
                waiting.push(member.ticket);
                continue;
            }
            member.verdict.get_or_insert_with(|| Err(error.clone()));
            group.push(member);
        }
        if waiting.is_empty() {
            return;
        }
        self.queue.put_back(waiting);
        if no_ids {
            std::thread::sleep(FOR_THE_CLOCK);
        }
    }

    /// Syncs the directories of a group, each once, and tells every caller what became of its message.
    fn answer(&self, group: Vec<Member>) {
        let mut numbers: HashMap<Target, usize> = HashMap::new();
        let mut dirs: Vec<Dir> = Vec::new();
        for (target, dir) in
            group.iter().filter_map(|member| member.verdict.as_ref()?.as_ref().ok()).flat_map(|s| &s.dirs)
        {
            numbers.entry(target.clone()).or_insert_with(|| {
                dirs.push(dir.clone());
                dirs.len() - 1
            });
        }
        let crew = self.crew(&group);
        let unsynced = self.sync_dirs(dirs, &crew);
        let reason = |target: &Target| unsynced[*numbers.get(target)?].as_ref().map(Error::to_string);
        for Member { ticket, verdict, .. } in group {
            let Some(verdict) = verdict else { continue };
            let answer = verdict.map(|stored| Appended {
                not_durable: stored.not_durable.or_else(|| stored.dirs.iter().find_map(|(target, _)| reason(target))),
                message: stored.message,
                duplicate: stored.duplicate,
            });
            ticket.answer(answer);
        }
    }

    /// The same for who wants to know and stores nothing.
    pub fn stored_with_key(&self, key: &str) -> Result<Option<Message>> {
        let Some(top) = self.top()? else { return Ok(None) };
        let writing = self.writing_with(&top, self.lock(&top)?)?;
        Ok(self.first_with_key(&top, &writing, Some(key))?.map(|stored| Arc::unwrap_or_clone(stored.message)))
    }

    /// The message that was stored with this key, if that was less than a day ago and it is still there.
    fn first_with_key(&self, top: &Dir, writing: &Writing<'_>, key: Option<&str>) -> Result<Option<Stored>> {
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
        let (dirs, not_durable) = self.made_whole(top, &reader, &entry, &target, &message)?;
        Ok(Some(Stored { message: Arc::new(message), duplicate: true, dirs, not_durable }))
    }

    /// What has to be synced before somebody is told that a message is there already: who stored it may still be about to
    /// sync, or may have died before that. The second is why that is not known of a part of it.
    ///
    /// A power cut in front of the first answer can have left a message in some of its mailboxes only. Whoever sends it
    /// again is told that it is in all of them; so it is linked to the others, and the index, which would take those for
    /// another message, is made anew.
    pub fn made_whole(
        &self,
        top: &Dir,
        reader: &Reader,
        entry: &Entry,
        place: &Target,
        message: &Message,
    ) -> Result<Standing> {
        let targets = message.targets();
        if usize::from(entry.parts) < targets.len() && self.link_to_all(top, reader, place, message)? {
            return Err(damaged());
        }
        // A mailbox that is gone has nothing to sync; one that cannot be opened is not known to be safe.
        let (mut dirs, mut not_durable) = (Vec::new(), None);
        for target in targets {
            match if_there(reader.open(&target)) {
                Ok(dir) => dirs.extend(dir.map(|dir| (target, dir))),
                Err(error) => {
                    not_durable = Some(Error::io("the message's directory cannot be opened", &error).to_string());
                }
            }
        }
        Ok((dirs, not_durable))
    }

    /// Links a message to all of its mailboxes, and says whether it was missing in any.
    fn link_to_all(&self, top: &Dir, reader: &Reader, place: &Target, message: &Message) -> Result<bool> {
        let failed = |error: &std::io::Error| Error::io("a message cannot be put into all of its mailboxes", error);
        let (from, name) = (reader.open(place).map_err(|error| failed(&error))?, layout::file_name(message.id));
        let mut missing = false;
        for target in message.targets() {
            match self.fs().link(&from, &name, &self.mailbox(top, target)?.dir, &name) {
                Ok(()) => missing = true,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(missing)
    }

    /// The next id from `above` on, or nothing while ids are too far ahead of the clock.
    fn allocate(
        &self,
        writing: &Writing<'_>,
        changes: &mut Changes<'_>,
        above: MessageId,
    ) -> Result<Option<MessageId>> {
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
        let mut next = now.max(state.high + 1).max(above.ticks());
        while let Some(id) = MessageId::from_ticks(next)
            && !writing.index.strays(state, id)?.is_empty()
        {
            next += 1;
        }
        if next > now + MAX_AHEAD {
            return Ok(None);
        }
        Ok(MessageId::from_ticks(next))
    }
}

/// The error of a writer for whom there are no ids.
fn ids_ahead() -> Error {
    Error::new(ErrorKind::Backpressure, "ids have run 60 s ahead of the clock; nothing was stored")
        .help("a project takes 10,000 messages a second over time; send more slowly")
}
