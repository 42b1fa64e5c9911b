//! The files store: SPEC.md's layout of plain JSON files, safe under concurrent writers, kills and power cuts.
//!
//! `ls`, `cat`, `jq` and `git` work on it, and other programs may write into it. What makes that safe:
//!
//! * [`fs`]: every operation on the disk goes through one seam, and no symlink below `.fmail/` is ever followed;
//! * [`lock`]: one writer at a time, in whatever process;
//! * [`publish`]: a message is written, synced, then linked to its name, then announced: never half visible;
//! * [`journal`]: in a daemon, one sync for a whole group, and the files are made safe later;
//! * [`group`]: messages that come at the same time share one hold of the lock and one sync of each directory;
//! * [`index`]: the order of arrival, a cache that is rebuilt from the names on disk;
//! * [`census`]: files that others wrote are found by their directory's time and get their place in the index;
//! * [`scan`] and [`watch`]: readers take no lock, and know where they are by the index alone.

mod arrivals;
mod census;
mod crew;
pub mod fs;
mod group;
mod handles;
mod head;
mod import;
mod index;
mod journal;
mod layout;
mod lock;
mod newest;
mod publish;
mod quarantine;
mod queue;
mod reader;
mod records;
mod removal;
mod scan;
mod session;
mod settle;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Clock, Cursor, DEFAULT_MAX_MESSAGE_BYTES, Draft, EventStream, Expect, Filters, Health,
    Imported, Message, ProjectIdSource, ProjectRecord, Quarantine, Query, Record, RecordKey, Removed, Reporter, Result,
    Revision, Scan, Selection, Store, Summary, hex_sha256,
};
use futures::stream::BoxStream;
use serde_json::{Map, Value};

use crate::SystemClock;
use fs::{Fs, RealFs};
pub use journal::JournalOptions;
use session::Session;

/// A directory's time older than this cannot change without being seen: file systems count in steps of up to 10 ms.
const SETTLED_AFTER: u64 = 20_000_000;

/// When a stored message is safe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// It survives a power cut.
    #[default]
    Disk,
    /// It survives the end of the process; a power cut may take the last seconds.
    Os,
}

/// How a files store is opened.
pub struct FilesOptions {
    /// The directory that contains `.fmail/`.
    pub root: PathBuf,
    /// The project's record, asked for only when `.fmail/` is created.
    pub project: Box<dyn Fn() -> Result<ProjectRecord> + Send + Sync>,
    /// The largest message, in bytes of its compact JSON.
    pub max_message_bytes: usize,
    /// When a stored message is safe.
    pub durability: Durability,
    /// Whether and how messages go through a journal.
    pub journal: JournalOptions,
    /// How long a writer waits for the others.
    pub lock_timeout: Duration,
    /// Let the kernel wake watchers; otherwise they poll.
    pub events: bool,
    /// How often watchers poll.
    pub poll_interval: Duration,
    /// Where progress and the like are reported.
    pub reporter: Reporter,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// The file system.
    pub fs: Arc<dyn Fs>,
}

impl FilesOptions {
    /// The defaults, for the project in this directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let project_clock = clock.clone();
        FilesOptions {
            root,
            project: Box::new(move || {
                Ok(ProjectRecord {
                    id: format!("proj-{}", &hex_sha256(name.as_bytes())[..12]),
                    created: project_clock.now().whole_seconds(),
                    id_from: Some(ProjectIdSource::Directory),
                    format: None,
                    extra: Map::new(),
                })
            }),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            durability: Durability::Disk,
            journal: JournalOptions::default(),
            lock_timeout: Duration::from_secs(10),
            events: true,
            poll_interval: Duration::from_millis(100),
            reporter: Arc::new(|_| {}),
            clock,
            fs: Arc::new(RealFs),
        }
    }
}

/// Keeps a project in files.
///
/// Its futures do their work where they are polled and never wait for a runtime; only a watch waits, woken by a thread
/// of the store's own.
pub struct FilesStore {
    session: Arc<Session>,
}

impl FilesStore {
    /// Opens the store. Nothing is created before the first write.
    pub fn open(options: FilesOptions) -> Result<Self> {
        let session = Arc::new(Session::new(options));
        let _ = session.journal.session.set(Arc::downgrade(&session));
        Ok(FilesStore { session })
    }

    /// Makes everything safe in its mailboxes that stands in the journal.
    pub fn checkpoint(&self) -> Result<()> {
        self.session.close_journal()
    }

    /// Does once what a thread does beside the appends: brings what stands in the journal to its mailboxes without keeping the
    /// lock while the disk works. For tests, whose stores have no such thread.
    pub fn empty_beside(&self) {
        self.session.empty_beside();
    }

    /// The message that was stored with this idempotency key, if that was less than a day ago and it is still there.
    pub fn with_key(&self, key: &str) -> Result<Option<Message>> {
        self.session.healing(|| self.session.stored_with_key(key))
    }

    /// How many appends wait in this process for those before them.
    pub fn waiting_appends(&self) -> usize {
        self.session.queue.len()
    }
}

#[async_trait]
impl Store for FilesStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "files".into(),
            shared: true,
            durable: true,
            import: true,
            remove: true,
            topics: true,
            filters: Filters::ALL,
            max_message_bytes: self.session.options.max_message_bytes,
        }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.session.append(draft)
    }

    async fn append_many(&self, drafts: Vec<Draft>) -> Vec<Result<Appended>> {
        self.session.append_many(drafts)
    }

    /// Where every file is synced by itself, its caller's thread is needed for that; the journal is synced once for all.
    fn appends_together(&self) -> usize {
        match self.session.options.durability {
            Durability::Disk if !self.session.journal.is_in_use() => 1,
            Durability::Disk | Durability::Os => queue::MAX_MESSAGES,
        }
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.session.healing(|| self.session.import(message.clone()))
    }

    /// An index that is found damaged is made anew by who leads the group, as with all that is stored.
    async fn import_many(&self, messages: Vec<Message>) -> Vec<Result<Imported>> {
        self.session.import_many(messages)
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.session.healing(|| self.session.scan(query.clone()))
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.session.healing(|| self.session.watch(query.clone(), &from))
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        self.session.summary(query).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.session.remove(selection)
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.session.get(key)
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.session.put(key, &expect, &value, durable)
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.session.list(prefix)
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.session.delete(key, &expect)
    }

    async fn health(&self) -> Result<Health> {
        self.session.health()
    }

    async fn close(&self) -> Result<()> {
        self.session.close_journal()
    }

    fn quarantine(&self) -> Option<&dyn Quarantine> {
        Some(self)
    }
}
