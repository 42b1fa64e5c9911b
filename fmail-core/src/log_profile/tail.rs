//! The end of the log: learning what came, and writing behind it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use fmail_api::{Clock, Error, ErrorKind, Log, LogEntry, LogFacts, Result};
use futures::lock::Mutex;

use super::entry::Entry;
use super::index::Now;
use super::state::{Shared, State, announce};

/// How many entries are read at once.
const BATCH: usize = 256;
/// How often a write is tried again when others were faster. Each time somebody else has got on, so that even fifty
/// writers at once do not come near this.
const ATTEMPTS: usize = 1_000;

/// The log with what is known of it.
pub(super) struct Tail {
    pub(super) log: Arc<dyn Log>,
    pub(super) facts: LogFacts,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) shared: Shared,
    /// One catches up at a time: the others would read the same.
    reading: Mutex<()>,
    /// One writes at a time: the others could only run into conflicts.
    writing: Mutex<()>,
}

/// What a change comes to, on what is known now.
pub(super) enum Decision<T> {
    /// Nothing has to be written.
    Done(T),
    /// This has to be written.
    Write(Box<Entry>, T),
}

impl<T> Decision<T> {
    /// This has to be written, and `outcome` is what it comes to then.
    pub(super) fn write(entry: Entry, outcome: T) -> Self {
        Decision::Write(Box::new(entry), outcome)
    }
}

impl Tail {
    pub(super) fn new(log: Arc<dyn Log>, clock: Arc<dyn Clock>) -> Self {
        let facts = log.facts();
        Tail { log, facts, clock, shared: Shared::new(), reading: Mutex::new(()), writing: Mutex::new(()) }
    }

    pub(super) fn now(&self) -> Now {
        Now { time: self.clock.now(), since_boot: self.clock.since_boot() }
    }

    /// Whether there may be something in the log that is not known here.
    fn must_read(&self) -> Result<bool> {
        let state = self.shared.open()?;
        Ok(!state.replayed || self.facts.shared || state.uncertain)
    }

    /// Learns everything that is in the log. Only the first time, unless others write to it or a write of ours has
    /// ended without an answer.
    pub(super) async fn catch_up(&self) -> Result<()> {
        if self.must_read()? {
            let _one = self.reading.lock().await;
            self.read_on().await?;
        }
        Ok(())
    }

    /// Reads to the end of the log. Takes no lock over the reading: a stream that nobody polls holds nobody up.
    pub(super) async fn read_on(&self) -> Result<()> {
        loop {
            let after = self.shared.open()?.end();
            let read = self.log.read(after, BATCH).await?;
            let found = !read.is_empty();
            let read = read.into_iter().map(|entry| {
                let parsed = Entry::parse(&entry.text);
                (entry, parsed)
            });
            let read: Vec<(LogEntry, Result<Entry>)> = read.collect();
            check_order(&self.facts.name, after, &read)?;
            let mut state = self.shared.open()?;
            state.learn(read, self.now())?;
            if !found {
                state.replayed = true;
                return Ok(());
            }
            announce(state);
        }
    }

    /// Makes a change: asks `decide` what it comes to and writes that, again whenever somebody else was faster.
    pub(super) async fn commit<T>(&self, mut decide: impl FnMut(&mut State) -> Result<Decision<T>>) -> Result<T> {
        let _one = self.writing.lock().await;
        // What is written at a position is decided on everything before it, so that only an answer without a write
        // needs to know what others have written up to now.
        let mut fresh = !self.must_read()?;
        if !self.shared.open()?.replayed {
            self.catch_up().await?;
            fresh = true;
        }
        for _ in 0..ATTEMPTS {
            let decision = {
                let mut state = self.shared.open()?;
                decide(&mut state).map(|decision| (state.next, state.has_header(), decision))
            };
            let (at, entry, outcome) = match decision {
                Ok((_, _, Decision::Done(outcome))) if fresh => return Ok(outcome),
                Err(error) if fresh => return Err(error),
                Ok((_, _, Decision::Done(_))) | Err(_) => {
                    self.catch_up().await?;
                    fresh = true;
                    continue;
                }
                Ok((at, false, Decision::Write(..))) => (at, self.header(), None),
                Ok((at, true, Decision::Write(entry, outcome))) => (at, *entry, Some(outcome)),
            };
            let stored = self.append(at, entry).await?;
            fresh |= !stored;
            if let Some(outcome) = outcome.filter(|_| stored) {
                self.drop_replaced().await;
                return Ok(outcome);
            }
        }
        Err(Error::new(
            ErrorKind::Backpressure,
            format!("others have written to the log {ATTEMPTS} times before this could be"),
        )
        .help("try again; if it persists, look whether the log answers `conflict` without reason"))
    }

    /// Appends an entry, and takes it in. False when something else stands there; that is then known too.
    async fn append(&self, at: u64, entry: Entry) -> Result<bool> {
        let text = entry.to_string();
        let bytes = text.len();
        self.shared.open()?.writing_at = at;
        let answer = Unanswered(&self.shared);
        match self.log.append(at, text).await {
            Ok(()) => {
                answer.received();
                let mut state = self.shared.lock();
                state.apply(at, bytes, entry, self.now(), true);
                // Nothing that was in doubt can come to stand before this any more.
                state.uncertain = false;
                announce(state);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                answer.received();
                self.read_on().await?;
                if self.shared.open()?.next <= at && self.has_begun_anew().await? {
                    self.read_on().await?;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Looks whether the log is still the one that is known here, and forgets what is known if it is not. A log that is
    /// not durable is empty when its process was started again; its header, the first entry, is dropped by nobody.
    pub(super) async fn has_begun_anew(&self) -> Result<bool> {
        let Some(known) = self.shared.open()?.epoch().map(str::to_string) else { return Ok(false) };
        let first = self.log.read(0, 1).await?;
        let same = match first.first().map(|entry| Entry::parse(&entry.text)) {
            None => false,
            Some(Ok(Entry::Header { epoch })) => epoch == known,
            // A log without its header has no name by which to tell it from another.
            Some(_) => true,
        };
        if same {
            return Ok(false);
        }
        let mut state = self.shared.open()?;
        // Somebody else may have noticed meanwhile, and read on.
        if state.epoch() == Some(&known) {
            state.begin_anew();
            announce(state);
        }
        Ok(true)
    }

    /// What a reader is told who was to get something of the log before.
    pub(super) fn gone(&self) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("the log `{}` has begun anew: what it held is gone", self.facts.name),
        )
        .help("a store that does not claim `durable` forgets when its process ends; ask again for what it holds now")
    }

    /// Lets go of entries that later ones have replaced. A failure costs room and nothing else: they are dropped with a
    /// later write.
    async fn drop_replaced(&self) {
        let replaced = {
            let mut state = self.shared.lock();
            let free = state.index.expire_keys(self.clock.since_boot());
            state.replaced.extend(free);
            std::mem::take(&mut state.replaced)
        };
        if !replaced.is_empty() && self.log.discard(&replaced).await.is_err() {
            self.shared.lock().replaced.extend(replaced);
        }
    }

    /// The first entry of a new log.
    fn header(&self) -> Entry {
        // The hasher's keys are random for each process and differ for each hasher, which is all an epoch needs.
        let epoch = RandomState::new().hash_one(self.clock.now()).max(1);
        Entry::Header { epoch: format!("{epoch:016x}") }
    }
}

/// An append whose answer has not come. When it never does, because the caller gave up or the log failed, the entry may
/// be stored all the same, now or later.
struct Unanswered<'a>(&'a Shared);

impl Unanswered<'_> {
    fn received(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.lock().uncertain = true;
    }
}

/// Fails unless the positions ascend from behind `after`: a log that repeats itself would be read for ever.
fn check_order(name: &str, after: u64, read: &[(LogEntry, Result<Entry>)]) -> Result<()> {
    let mut before = after;
    for (entry, _) in read {
        if entry.position <= before {
            let what = format!("the log `{name}` delivers the position {} behind {before}", entry.position);
            return Err(Error::internal(what).help("positions ascend, rule G6; report this to the log's author"));
        }
        before = entry.position;
    }
    Ok(())
}
