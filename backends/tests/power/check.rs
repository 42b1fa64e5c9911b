//! What has to hold after a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Appended, Event, Imported, Message, MessageId, NoticeKind, Order, Query, Store, Target};
use fmail_backends::files::fs::Fs;
use fmail_backends::{FilesOptions, FilesStore, JournalOptions};
use futures::StreamExt;
use futures::executor::block_on;

use crate::account::Account;
use crate::common::{HandClock, Project, draft};
use crate::rebooted::{Belief, Rebooted};

/// Why a state is not what was promised.
pub type Verdict = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => { if !$condition { return Err(format!($($text)*)); } };
}

/// The store of a process that opens the project after a start of the machine. The clock has not moved since before the
/// power cut: the worst that ids can meet.
pub fn open(root: &Path, fs: Arc<dyn Fs>, clock: &Arc<HandClock>) -> FilesStore {
    open_with(root, fs, clock, JournalOptions { stale: Duration::MAX, ..JournalOptions::default() })
}

/// The same with a journal.
pub fn open_with(root: &Path, fs: Arc<dyn Fs>, clock: &Arc<HandClock>, journal: JournalOptions) -> FilesStore {
    let options = FilesOptions { fs, clock: clock.clone(), journal, ..FilesOptions::new(root) };
    FilesStore::open(FilesOptions { lock_timeout: Duration::from_secs(60), ..options }).unwrap()
}

/// Everything that a project shows, by each way to look at it.
#[derive(Debug, PartialEq)]
struct View {
    messages: BTreeMap<MessageId, Arc<Message>>,
    places: BTreeSet<(Target, MessageId)>,
}

fn scan(store: &dyn Store, query: Query) -> Result<Vec<Arc<Message>>, String> {
    let mut stream = block_on(store.scan(query)).map_err(|error| format!("a scan fails: {error:?}"))?.messages;
    let mut messages = Vec::new();
    while let Some(event) = block_on(stream.next()) {
        match event.map_err(|error| format!("a scan breaks off: {error:?}"))? {
            Event::Message(delivery) => messages.push(delivery.message.clone()),
            Event::Notice(notice) if notice.kind == NoticeKind::Progress => {}
            Event::Notice(notice) => return Err(notice.text),
            _ => {}
        }
    }
    Ok(messages)
}

impl View {
    fn of(project: &Project, store: &dyn Store) -> Result<View, String> {
        let mut messages = BTreeMap::new();
        for message in scan(store, Query::default())? {
            let again = messages.insert(message.id, message.clone());
            ensure!(again.is_none(), "{} is delivered twice", message.id);
        }
        let arrived = scan(store, Query { order: Order::Arrival, ..Query::default() })?;
        let ids: BTreeSet<MessageId> = arrived.iter().map(|message| message.id).collect();
        ensure!(ids.len() == arrived.len() && ids.iter().eq(messages.keys()), "by arrival there are others: {ids:?}");
        let mut bodies: Vec<String> = messages.values().map(|message| message.body.to_string()).collect();
        bodies.sort();
        ensure!(bodies.windows(2).all(|pair| pair[0] != pair[1]), "a message is there twice: {bodies:?}");
        let mut places = BTreeSet::new();
        let targets: BTreeSet<Target> = messages.values().flat_map(|message| message.targets()).collect();
        for target in targets {
            for message in scan(store, Query::target(target.clone()))? {
                ensure!(places.insert((target.clone(), message.id)), "{} is twice in {target}", message.id);
            }
        }
        // A few are enough: what another message had under the same id would show in the last ones.
        for message in messages.values().rev().take(4) {
            let theirs = scan(store, Query { from: Some(message.from.clone()), ..Query::default() })?;
            ensure!(theirs.iter().any(|one| one.id == message.id), "{} is not found by its sender", message.id);
        }
        let summary = block_on(store.summary(Query::default())).map_err(|error| format!("summary: {error:?}"))?;
        let counted: u64 = summary.targets.iter().map(|target| target.messages).sum();
        ensure!(counted == places.len() as u64, "the summary counts {counted} of {places:?}");
        let files = files(project)?;
        ensure!(files == places, "the files are {files:?}, the store shows {places:?}");
        Ok(View { messages, places })
    }

    /// Everything that was promised is there, whole, in each of its mailboxes, and nothing that nobody sent.
    fn keeps(&self, account: &Account) -> Verdict {
        for (id, promised) in &account.promised {
            let found = self.messages.get(id).ok_or_else(|| format!("{} ({id}) is lost", promised.body))?;
            let same = found.to_line() == promised.to_line();
            ensure!(same, "{} ({id}) is lost, in its place is {}", promised.to_line(), found.to_line());
            for target in promised.targets() {
                ensure!(self.places.contains(&(target.clone(), *id)), "{} ({id}) is lost in {target}", promised.body);
            }
        }
        for message in self.messages.values() {
            let known = account.sent.iter().any(|draft| draft.body == message.body)
                || account.imported.iter().any(|imported| imported.body == message.body)
                || message.body == AFTER;
            ensure!(known, "nobody has sent {}", message.body);
            let shown = account.shown.as_ref().is_none_or(|shown| shown.contains(&message.body.to_string()));
            let other = message.body == AFTER || account.removed.contains(&message.id);
            ensure!(shown || other, "{} was absent, and is back", message.body);
        }
        Ok(())
    }

    /// A message that was sent again and answered is there in all of its mailboxes.
    fn holds_in_full(&self, message: &Message) -> Verdict {
        for target in message.targets() {
            let there = self.places.contains(&(target.clone(), message.id));
            ensure!(there, "{} was sent again and answered, and is not in {target}", message.body);
        }
        Ok(())
    }
}

/// The files in mailboxes. Each is whole: a message is linked only when its content is safe.
fn files(project: &Project) -> Result<BTreeSet<(Target, MessageId)>, String> {
    let mut places = BTreeSet::new();
    for (parent, sign) in [("topics", ""), ("dm", "@")] {
        for mailbox in project.names(parent) {
            for name in project.names(&format!("{parent}/{mailbox}")) {
                let place = format!("{parent}/{mailbox}/{name}");
                let bytes = std::fs::read(project.path(&place)).map_err(|error| format!("{place}: {error}"))?;
                let whole = serde_json::from_slice::<serde_json::Value>(&bytes);
                whole.map_err(|error| format!("{place} is not whole ({} bytes): {error}", bytes.len()))?;
                let id = name.trim_end_matches(".json").parse().map_err(|_| format!("{place} is no message"))?;
                places.insert((format!("{sign}{mailbox}").parse().unwrap(), id));
            }
        }
    }
    Ok(places)
}

const AFTER: &str = "after the power cut";

/// One state on a disk, and the starts of the machine on it.
pub struct Survivor<'a> {
    pub project: Project,
    pub account: &'a Account,
    pub clock: &'a Arc<HandClock>,
    /// Which start of the machine is the next.
    pub boot: u8,
    /// The replay skips the names that are there.
    pub believing: bool,
}

impl Survivor<'_> {
    /// Another start of the machine.
    fn start(&mut self) -> FilesStore {
        self.boot += 1;
        let text = |message: &Arc<Message>| {
            let text = serde_json::to_string_pretty(&**message).unwrap();
            (format!("{}.json", message.id), format!("{text}\n").into_bytes())
        };
        let texts = self.account.promised.values().filter(|_| self.believing).map(text).collect();
        open(self.project.root(), Arc::new(Rebooted(self.boot, Belief::of(texts))), self.clock)
    }

    /// Everything that was promised holds, whoever comes first: a reader, or a writer.
    pub fn check(&mut self, writer_first: bool) -> Verdict {
        if !writer_first {
            let store = self.start();
            let first = View::of(&self.project, &store)?;
            first.keeps(self.account)?;
            self.check_records(&store)?;
            let store = self.start();
            let second = View::of(&self.project, &store)?;
            ensure!(first == second, "a second recovery gives {second:?} in place of {first:?}");
        }
        let store = self.start();
        let after = self.append_after(&store)?;
        let mut view = View::of(&self.project, &store)?;
        view.keeps(self.account)?;
        ensure!(view.messages.contains_key(&after), "what was sent behind the power cut is lost");
        self.check_order(after)?;
        self.check_records(&store)?;
        self.check_project()?;
        self.send_again(&store)?;
        view = View::of(&self.project, &store)?;
        let store = self.start();
        let last = View::of(&self.project, &store)?;
        ensure!(view == last, "the last recovery gives {last:?} in place of {view:?}");
        let left: Vec<String> =
            self.project.names("tmp").into_iter().filter(|name| name.starts_with("message")).collect();
        ensure!(left.is_empty(), "{left:?} is left in tmp");
        Ok(())
    }

    fn append_after(&self, store: &dyn Store) -> Result<MessageId, String> {
        let answer = block_on(store.append(draft("task", AFTER)));
        let answer = answer.map_err(|error| format!("nothing can be sent any more: {error:?}"))?;
        ensure!(answer.not_durable.is_none(), "{:?}", answer.not_durable);
        Ok(answer.message.id)
    }

    /// An id that is given now is above all that were given before.
    fn check_order(&self, id: MessageId) -> Verdict {
        let above = self.account.promised.values().filter(|message| message.origin_id.is_none()).map(|m| m.id).max();
        let imported = |id| self.account.imported.iter().any(|message| message.id == id);
        ensure!(above.is_none_or(|above| above < id || imported(above)), "{id} comes behind {above:?}");
        Ok(())
    }

    fn check_records(&self, store: &dyn Store) -> Verdict {
        for (key, allowed) in &self.account.records {
            let found = block_on(store.get(key)).map_err(|error| format!("the record {key}: {error:?}"))?;
            let found = found.map(|record| record.value);
            ensure!(allowed.contains(&found), "the record {key} is {found:?}, promised was one of {allowed:?}");
        }
        Ok(())
    }

    /// What the store writes beside messages is whole: nobody would ever write it again.
    fn check_project(&self) -> Verdict {
        let ignored = std::fs::read_to_string(self.project.path(".gitignore")).unwrap_or_default();
        ensure!(ignored.contains("/lock\n/index\n/tmp/\n"), ".gitignore is {ignored:?}");
        Ok(())
    }

    /// Every message with a key is sent again: acknowledged ones are known, and each is there once, in all mailboxes.
    fn send_again(&self, store: &FilesStore) -> Verdict {
        let mut again = Vec::new();
        for draft in self.account.sent.iter().filter(|draft| draft.key.is_some()) {
            let promised = self.account.promised.values().find(|message| message.key == draft.key);
            let Appended { message, duplicate, not_durable } = block_on(store.append(draft.clone()))
                .map_err(|error| format!("{} cannot be sent again: {error:?}", draft.body))?;
            ensure!(not_durable.is_none(), "{}: {not_durable:?}", draft.body);
            if let Some(promised) = promised {
                ensure!(duplicate && message.id == promised.id, "{} was sent again and is not known", draft.body);
            }
            again.push(message);
        }
        for message in &self.account.imported {
            let promised = self.account.promised.values().any(|found| found.identity() == message.identity());
            let answer = block_on(store.import(message.clone()));
            let answer = answer.map_err(|error| format!("{} cannot be imported again: {error:?}", message.body))?;
            if promised {
                ensure!(answer == Imported::Duplicate, "{} was imported again: {answer:?}", message.body);
            }
            if !matches!(answer, Imported::Refused(_)) {
                let same = |found: &Arc<Message>| found.identity() == message.identity();
                let found: Vec<_> = scan(store, Query::default())?.into_iter().filter(same).collect();
                ensure!(found.len() == 1, "{} is there {} times", message.body, found.len());
                again.extend(found);
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        let view = View::of(&self.project, store)?;
        again.iter().try_for_each(|message| view.holds_in_full(message))
    }
}
