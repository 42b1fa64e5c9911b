//! A stage for scenarios: a project whose every file operation is recorded, and processes that use it.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fmail_api::{Draft, Expect, Imported, Message, MessageId, Query, RecordKey, Result, Selection, Store, Timestamp};
use fmail_backends::{FilesStore, JournalOptions};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::Value;

use crate::account::{Answer, Deed};
use crate::check::{open, open_with};
use crate::common::{HandClock, Project, scan};
use crate::record::Recorder;
use crate::recording::Action;
use crate::sites::Site;

/// A project that is recorded.
pub struct Stage {
    pub project: Project,
    pub recorder: Arc<Recorder>,
    pub clock: Arc<HandClock>,
}

impl Stage {
    /// A stage in front of which everything is safe.
    pub fn on(project: Project, clock: Arc<HandClock>, boot: u8, left_out: Option<Site>) -> Stage {
        let recorder = Recorder::new(project.root(), boot, left_out);
        Stage { project, recorder, clock }
    }

    /// A process that does one thing and ends, as a command does.
    pub fn process(&self) -> FilesStore {
        self.recorder.next_process(None);
        self.store()
    }

    /// A daemon, whose journal has room for so many bytes.
    pub fn daemon(&self, room: u64) -> FilesStore {
        self.recorder.next_process(None);
        self.journaling(room, 128)
    }

    /// A daemon that makes everything safe at once when its journal is emptied.
    pub fn sweeping_daemon(&self, room: u64) -> FilesStore {
        self.recorder.next_process(None);
        self.journaling(room, 0)
    }

    /// A daemon that is killed in front of its change with this number.
    pub fn killed_daemon_at(&self, change: usize, room: u64) -> FilesStore {
        self.recorder.next_process(Some(change));
        self.journaling(room, 128)
    }

    fn journaling(&self, room: u64, few: usize) -> FilesStore {
        let options = JournalOptions { writes: true, room, after: 0, beside: false, few, stale: Duration::MAX };
        open_with(self.project.root(), self.recorder.clone(), &self.clock, options)
    }

    /// Somebody looks at everything.
    pub fn look(&self) {
        let bodies = scan(&self.process(), Query::default()).iter().map(|message| message.body.to_string()).collect();
        self.answered(Answer::Shown(bodies));
    }

    /// A process that is killed in front of its change with this number.
    pub fn killed_at(&self, change: usize) -> FilesStore {
        self.recorder.next_process(Some(change));
        self.store()
    }

    fn store(&self) -> FilesStore {
        open(self.project.root(), self.recorder.clone(), &self.clock)
    }

    /// Power cuts are of interest from here on.
    pub fn look_from_here(&self) {
        self.recorder.look_from_here();
    }

    fn begun(&self, deed: Deed) {
        self.recorder.mark(Action::Begun(deed));
    }

    fn answered(&self, answer: Answer) {
        self.recorder.mark(Action::Answered(answer));
    }

    /// Appends through a store.
    pub fn append(&self, store: &FilesStore, draft: Draft) -> Result<Arc<Message>> {
        self.begun(Deed::Append(Box::new(draft.clone())));
        let appended = block_on(store.append(draft))?;
        if appended.not_durable.is_none() {
            self.answered(Answer::Stored(appended.message.clone()));
        }
        Ok(appended.message)
    }

    /// Sends by a command.
    pub fn send(&self, draft: Draft) -> Arc<Message> {
        self.append(&self.process(), draft).unwrap()
    }

    /// Appends all of these as one group: somebody else holds the lock until all of them wait for it.
    pub fn group(&self, store: &FilesStore, drafts: Vec<Draft>) {
        let lock = File::options().read(true).write(true).open(self.project.path("lock")).unwrap();
        lock.lock().unwrap();
        thread::scope(|scope| {
            for (number, draft) in drafts.into_iter().enumerate() {
                scope.spawn(move || self.append(store, draft).map(drop));
                while store.waiting_appends() <= number {
                    thread::sleep(Duration::from_micros(50));
                }
            }
            lock.unlock().unwrap();
        });
    }

    /// The journal of a daemon is emptied beside its appends, and this happens while the disk works for that.
    pub fn empty_beside(&self, daemon: &FilesStore, meanwhile: impl FnOnce()) {
        self.recorder.stop_at_the_mailboxes();
        thread::scope(|scope| {
            scope.spawn(|| daemon.empty_beside());
            self.recorder.wait_until_stopped();
            meanwhile();
            self.recorder.go_on();
        });
    }

    /// Imports through a store.
    pub fn import(&self, store: &FilesStore, message: Message) -> Result<Imported> {
        self.begun(Deed::Import(Box::new(message.clone())));
        let imported = block_on(store.import(message.clone()))?;
        let stored = match imported {
            Imported::Relocated(id) => Message { id, origin_id: Some(message.id), ..message },
            _ => message,
        };
        self.answered(Answer::Stored(Arc::new(stored)));
        Ok(imported)
    }

    /// Puts a durable record.
    pub fn put(&self, store: &FilesStore, key: &str, value: Value) -> Result<()> {
        let key: RecordKey = key.parse().unwrap();
        self.begun(Deed::Put(key.clone(), Some(value.clone())));
        block_on(store.put(&key, Expect::Anything, value.clone(), true))?;
        self.answered(Answer::Put(key, Some(value)));
        Ok(())
    }

    /// Counts a record as promised that the store has written by itself.
    pub fn promise(&self, store: &FilesStore, key: &str) {
        let key: RecordKey = key.parse().unwrap();
        let value = block_on(store.get(&key)).unwrap().unwrap().value;
        self.answered(Answer::Put(key, Some(value)));
    }

    /// Deletes a record.
    pub fn delete(&self, store: &FilesStore, key: &str) -> Result<()> {
        let key: RecordKey = key.parse().unwrap();
        self.begun(Deed::Put(key.clone(), None));
        block_on(store.delete(&key, Expect::Anything))?;
        self.answered(Answer::Put(key, None));
        Ok(())
    }

    /// Removes these messages, or all before a time with the horizon that this leaves.
    pub fn remove(&self, store: &FilesStore, ids: BTreeSet<MessageId>, before: Option<Timestamp>) {
        self.begun(Deed::Remove(ids.clone()));
        let selection = match before {
            Some(before) => Selection { before: Some(before), ..Selection::default() },
            None => Selection { ids, ..Selection::default() },
        };
        let removed = block_on(async { store.remove(selection).await.unwrap().collect::<Vec<_>>().await });
        assert!(!removed.is_empty() && removed.iter().all(|one| one.is_ok()), "{removed:?}");
    }
}
