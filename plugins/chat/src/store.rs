//! The contract: every call brings the sidecar in step, and lets it answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Delivery, Draft, Error, Event, EventStream, Expect, Filters, Health, Imported,
    Message, MessageId, Notice, NoticeKind, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection,
    Store, Summary,
};
use fmail_chat_file::Locked;
use futures::StreamExt;
use futures::channel::oneshot;
use futures::stream::{self, BoxStream};
use serde_json::Value;

use crate::ChatOptions;
use crate::follow::Follower;
use crate::sidecar::{OWN, Sidecar, plain};
use crate::sync::{open, sync};

/// A project's direct messages in a chat file.
pub struct ChatStore {
    inner: Arc<Inner>,
    follower: Follower,
}

pub(crate) struct Inner {
    pub(crate) options: ChatOptions,
    pub(crate) sidecar: Sidecar,
}

impl ChatStore {
    /// Opens the store. Nothing is read or made by that.
    pub fn open(options: ChatOptions) -> Result<Self> {
        options.check_place()?;
        let sidecar = Sidecar::open(&options)?;
        let inner = Arc::new(Inner { options, sidecar });
        Ok(ChatStore { follower: Follower::new(inner.clone()), inner })
    }

    /// Does what waits for locks and disks on a thread of its own, since nobody's poll may block.
    async fn aside<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> Result<T> + Send + 'static) -> Result<T> {
        let inner = self.inner.clone();
        let (done, answer) = oneshot::channel();
        let work = move || {
            // Nobody waits any more when the caller gave up; what was begun is finished all the same.
            let _ = done.send(work(&inner));
        };
        let started = thread::Builder::new().name("fmail-chat".into()).spawn(work);
        started.map_err(|error| Error::io("no thread for the chat file", &error))?;
        answer.await.map_err(|_| Error::internal("the chat store panicked"))?
    }

    /// Brings the sidecar in step. Says whether there is a file at all.
    async fn catch_up(&self) -> Result<bool> {
        if self.inner.is_current().await? {
            return Ok(open(&self.inner.options.file)?.is_some());
        }
        self.aside(Inner::sync).await?;
        Ok(true)
    }
}

impl Inner {
    /// Whether the file has nothing new to say, by a look at its metadata. A missing one never has.
    pub(crate) async fn is_current(&self) -> Result<bool> {
        let Some(file) = open(&self.options.file)? else { return Ok(true) };
        let metadata =
            file.metadata().map_err(|error| Error::io(format!("{} cannot be looked at", self.shown()), &error))?;
        Ok(match self.sidecar.state().await? {
            Some(state) => state.is_current(&metadata),
            None => metadata.len() == 0,
        })
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let lock = self.sidecar.lock()?;
        self.sync_locked(&lock).map(drop)
    }

    /// Brings the sidecar in step; gives what became of the message that was about to be written.
    pub(crate) fn sync_locked(&self, _: &Locked) -> Result<Option<Appended>> {
        Ok(sync(&self.sidecar, &self.options.file)?.stored)
    }

    pub(crate) fn shown(&self) -> std::path::Display<'_> {
        self.options.file.display()
    }

    /// What is to be told: what the last comparison has found, if that was just now, and the lines that cannot be messages.
    async fn told(&self) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        if let Some(state) = self.sidecar.state().await? {
            let news = state.news.iter().flat_map(|news| news.told());
            notices.extend(news.map(|text| Notice::new(NoticeKind::Other, text.clone())));
            let broken = |text| Notice::new(NoticeKind::Broken, text);
            let skipped = state.skipped.iter();
            notices.extend(skipped.map(|what| broken(format!("a line of {} was skipped: {what}", self.shown()))));
            if state.skipped_more > 0 {
                let more = state.skipped_more;
                notices.push(broken(format!("{more} more lines of {} were skipped", self.shown())));
            }
        }
        Ok(notices)
    }
}

/// A message as it is shown.
fn shown(event: Result<Event>) -> Result<Event> {
    Ok(match event? {
        Event::Message(delivery) => {
            Event::Message(Delivery::new(Arc::new(plain(&delivery.message)), delivery.cursor.clone()))
        }
        other => other,
    })
}

/// Refuses the records that are the sidecar's own.
fn check_key(key: &RecordKey) -> Result<()> {
    if key.is_under(OWN) {
        return Err(Error::invalid(format!("the record `{key}` is kept for the chat store itself"))
            .help(format!("records under `{OWN}` cannot be read or written")));
    }
    Ok(())
}

#[async_trait]
impl Store for ChatStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "chat".into(),
            shared: true,
            durable: true,
            import: false,
            remove: false,
            topics: false,
            filters: Filters::ALL,
            max_message_bytes: self.inner.options.max_message_bytes,
        }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        let line = self.inner.check(&draft)?;
        self.aside(move |inner| inner.append(draft, &line)).await
    }

    /// A chat file takes lines at its end, and knows no times: a message of another store would become a new one.
    async fn import(&self, _: Message) -> Result<Imported> {
        Err(Error::unsupported("import messages: a chat file has no room for their ids and times"))
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        let there = self.catch_up().await?;
        // A file that is missing shows nothing, but may be about to be replaced: the sidecar stays as it is.
        let none = || Query { ids: BTreeSet::from([MessageId::MIN]), limit: None, ..query.clone() };
        let scan = self.inner.sidecar.files.scan(if there { query.clone() } else { none() }).await?;
        let notices = stream::iter(self.inner.told().await?.into_iter().map(|notice| Ok(Event::Notice(notice))));
        Ok(Scan { messages: notices.chain(scan.messages.map(shown)).boxed(), ..scan })
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.catch_up().await?;
        let events = self.inner.sidecar.files.watch(query, from).await?.map(shown);
        self.follower.follow(events.boxed())
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        if !self.catch_up().await? {
            return Ok(Summary::default());
        }
        self.inner.sidecar.files.summary(query).await
    }

    async fn remove(&self, _: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        Err(Error::unsupported("remove messages: a chat file is only appended to")
            .help("`fmail chat archive` moves old messages to the archive"))
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        check_key(key)?;
        self.inner.sidecar.files.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        check_key(key)?;
        self.inner.sidecar.make()?;
        match self.inner.acknowledging(key, &value) {
            Some(agent) => {
                let key = key.clone();
                self.aside(move |inner| inner.acknowledge(&agent, &key, &expect, value, durable)).await
            }
            None => self.inner.sidecar.files.put(key, expect, value, durable).await,
        }
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let records = self.inner.sidecar.files.list(prefix).await?;
        let own = |record: &Result<Record>| record.as_ref().is_ok_and(|record| record.key.is_under(OWN));
        Ok(records.filter(move |record| std::future::ready(!own(record))).boxed())
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        check_key(key)?;
        self.inner.sidecar.make()?;
        self.inner.sidecar.files.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        let sidecar = self.inner.sidecar.files.health().await?;
        let file = match open(&self.inner.options.file)? {
            Some(file) => {
                let size = file.metadata().map_or(0, |metadata| metadata.len());
                format!("{}, {size} bytes", self.inner.shown())
            }
            None => format!("{}, which is made with the first message", self.inner.shown()),
        };
        let writable = sidecar.writable && self.inner.can_write();
        Ok(Health { writable, detail: format!("{file}; beside it: {}", sidecar.detail) })
    }

    async fn close(&self) -> Result<()> {
        self.follower.stop();
        self.inner.sidecar.files.close().await
    }
}

impl Inner {
    /// Whether the file, or the nearest directory above a missing one, may be written.
    fn can_write(&self) -> bool {
        use rustix::fs::{Access, access};
        let there = self.options.file.ancestors().find(|path| path.exists());
        there.is_some_and(|path| access(path, Access::WRITE_OK).is_ok())
    }
}
