//! The store itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fmail_api::{
    AgentName, Appended, Capabilities, Clock, Cursor, Draft, Error, ErrorKind, EventStream, Expect, Filters, Health,
    Imported, Mailbox, Message, MessageId, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store,
    Target, Timestamp, check_size,
};
use fmail_backends::{FilesOptions, FilesStore, SystemClock};
use fmail_core::{IdMap, Sidecar};
use futures::stream::BoxStream;
use serde_json::Value;

use crate::arrivals::Arrivals;
use crate::backend::{Answered, Backend, Letter};
use crate::gc::Gc;
use crate::native::Native;
use crate::options::{ExecOptions, Protocol};
use crate::script::{Script, excerpt_of};
use crate::translate::Translator;
use crate::watch;

/// Opens the store of a script, with the records that it has no room for in the data directory. The script is not run yet.
pub fn open(options: ExecOptions) -> Result<Sidecar> {
    options.check()?;
    let doing = |error| Error::io(format_args!("creating {}", options.data_dir.display()), &error);
    std::fs::create_dir_all(&options.data_dir).map_err(doing)?;
    let records: Arc<dyn Store> = Arc::new(FilesStore::open(FilesOptions::new(&options.data_dir))?);
    let store = ExecStore::new(options, records.clone());
    Ok(Sidecar::new(Arc::new(store), records))
}

/// The mail that a script keeps. It has no records of its own: [`open`] puts them beside it.
pub struct ExecStore {
    inner: Arc<Inner>,
}

/// What the store, its mailbox and its streams share.
pub(crate) struct Inner {
    pub options: ExecOptions,
    pub script: Arc<Script>,
    pub backend: Box<dyn Backend>,
    pub translator: Translator,
    pub arrivals: Arrivals,
    pub records: Arc<dyn Store>,
    /// Mailboxes that are known to be noted.
    noted: Mutex<BTreeSet<AgentName>>,
    closed: AtomicBool,
}

impl ExecStore {
    fn new(options: ExecOptions, records: Arc<dyn Store>) -> Self {
        let script = Arc::new(Script::new(options.clone()));
        let backend: Box<dyn Backend> = match options.protocol {
            Protocol::Gc => Box::new(Gc::new(script.clone())),
            Protocol::Native => Box::new(Native::new(script.clone())),
        };
        let inner = Inner {
            translator: Translator::new(IdMap::new(records.clone())),
            arrivals: Arrivals::new(&options.data_dir),
            options,
            script,
            backend,
            records,
            noted: Mutex::default(),
            closed: AtomicBool::new(false),
        };
        ExecStore { inner: Arc::new(inner) }
    }

    pub(crate) fn inner(&self) -> Result<&Arc<Inner>> {
        self.inner.check_open().map(|()| &self.inner)
    }
}

impl Inner {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Unavailable, "the exec store is closed").help("open the project again"));
        }
        Ok(())
    }

    pub(crate) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Whether a mailbox was not asked about before; from then on it was.
    pub(crate) fn is_new(&self, mailbox: &AgentName) -> bool {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).insert(mailbox.clone())
    }

    /// A draft in the script's own terms.
    async fn letter(&self, draft: &Draft) -> Result<Letter> {
        let to = mailbox_of(&draft.to)?.foreign();
        if !draft.more.recipients.is_empty() {
            return Err(Error::unsupported("send one message to several: a mail script sends to one")
                .help("send it to each of them; nothing was sent"));
        }
        if let Some(field) = draft.extra.keys().next() {
            let what = format!("hold the field `{}`: a mail script has no room for it", excerpt_of(field, 60));
            return Err(Error::unsupported(what).help("nothing was sent"));
        }
        let answers = match draft.reply_to {
            None => None,
            Some(id) => Some(self.answered(draft, id).await?),
        };
        let thread = match draft.thread.as_ref().filter(|_| answers.is_none()) {
            Some(thread) => Some(self.thread_name(&draft.from, thread).await?),
            None => None,
        };
        Ok(Letter {
            from: draft.from.foreign(),
            to,
            subject: draft.subject.clone(),
            body: draft.body.clone(),
            answers,
            thread,
            cc: draft.more.cc.iter().map(|target| mailbox_of(target).map(AgentName::foreign)).collect::<Result<_>>()?,
            priority: draft.priority,
            tags: draft.tags.clone(),
            ack_required: draft.ack_required,
            expires: draft.expires,
            key: draft.key.clone(),
        })
    }

    /// The script's name of a thread. One that fmail calls by the id of its first message is that message's.
    async fn thread_name(&self, sender: &AgentName, thread: &str) -> Result<String> {
        let Ok(id) = thread.parse::<MessageId>() else { return Ok(thread.into()) };
        let first = self.fetch(Some(sender), id).await?.filter(|told| told.message.readable_by(sender));
        Ok(first.map_or_else(|| thread.into(), |first| first.thread_name()))
    }

    /// The message that a draft answers. An answer belongs to its thread and to no other.
    async fn answered(&self, draft: &Draft, id: MessageId) -> Result<Answered> {
        let foreign = self.translator.ids.foreign_of(id).await?;
        let (Some(foreign), Some(told)) = (foreign, self.fetch(Some(&draft.from), id).await?) else {
            return Err(Error::not_found(format!("the mail script has no message {id} that could be answered"))
                .help("`fmail inbox --all` shows the ids; nothing was sent"));
        };
        let thread = told.message.thread.clone();
        let own = id.to_string();
        if draft.thread.as_ref().is_some_and(|wanted| Some(wanted) != thread.as_ref() && *wanted != own) {
            return Err(Error::unsupported(
                "move an answer to another thread: a mail script keeps it where the message is",
            )
            .help("leave the thread out; nothing was sent"));
        }
        Ok(Answered { id: foreign, from: told.message.from.foreign(), thread })
    }

    async fn send(&self, draft: &Draft) -> Result<Appended> {
        let letter = self.letter(draft).await?;
        let stored = self.backend.send(&letter).await?;
        let (duplicate, mut foreign) = (stored.duplicate && draft.key.is_some(), stored.message);
        // What a script does not repeat is what it was told.
        if foreign.from.is_empty() {
            foreign.from.clone_from(&letter.from);
        }
        if foreign.to.is_empty() {
            foreign.to.clone_from(&letter.to);
        }
        if !duplicate && (foreign.from != letter.from || foreign.to != letter.to) {
            let what = format!(
                "the mail script `{}` was told to send from `{}` to `{}`, and answers with the message `{}` from `{}` to `{}`",
                self.script.shown(),
                letter.from,
                letter.to,
                excerpt_of(&foreign.id, 60),
                excerpt_of(&foreign.from, 60),
                excerpt_of(&foreign.to, 60)
            );
            return Err(Error::new(ErrorKind::Corrupt, what).help("look into the script's mail for what it has stored"));
        }
        if !duplicate && foreign.body != letter.body && foreign.body.as_str() != Some(&letter.text()) {
            tracing::warn!(
                "the mail script has stored another body than it was given, in the message `{}`",
                foreign.id
            );
        }
        let told = self.one(foreign, None).await?;
        let mut message = Message::clone(&told.message);
        message.key.clone_from(&draft.key);
        Ok(Appended { message: Arc::new(message), duplicate, not_durable: None })
    }

    /// Sends once for a key, when the script does not see to that itself.
    async fn send_once(&self, draft: &Draft) -> Result<Appended> {
        let Some(key) = draft.key.as_deref() else { return self.send(draft).await };
        if self.backend.keeps_keys().await? {
            return self.send(draft).await;
        }
        let _lock = self.lock_key(key).await?;
        if let Some(message) = self.sent_with(key).await? {
            return Ok(Appended { message: Arc::new(message), duplicate: true, not_durable: None });
        }
        let mut appended = self.send(draft).await?;
        if let Err(error) = self.remember(key, &appended.message).await {
            let told = format!(
                "the message is sent, but its key could not be kept: sent again, it would be sent twice ({error})"
            );
            appended.not_durable = Some(told);
        }
        Ok(appended)
    }
}

fn mailbox_of(target: &Target) -> Result<&AgentName> {
    target.agent().ok_or_else(|| {
        Error::unsupported(format!("send to the topic `{target}`: a mail script knows mailboxes and nothing else"))
            .help("send to an agent (@name), or choose another store; nothing was sent")
    })
}

/// The records are the sidecar's: [`open`].
fn no_records<T>() -> Result<T> {
    Err(Error::unsupported("keep records beside a script's mail without its data directory"))
}

#[async_trait]
impl Store for ExecStore {
    /// Whether an answered message survives a power cut is the script's to promise, so that nothing is promised here.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "exec".into(),
            shared: true,
            durable: false,
            import: false,
            remove: false,
            topics: false,
            filters: Filters::ALL,
            max_message_bytes: self.inner.options.max_message_bytes,
        }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        let inner = self.inner()?;
        check_size(
            &draft.clone().into_message(MessageId::MAX, inner.now().whole_seconds()),
            inner.options.max_message_bytes,
        )?;
        let appended = inner.send_once(&draft).await?;
        if let Some(agent) = draft.to.agent() {
            // The message is sent: that its mailbox could not be noted concerns nobody but a later look at all of them.
            if let Err(error) = inner.know(agent).await {
                tracing::warn!("the mailbox of `{agent}` could not be noted: {error}");
            }
        }
        Ok(appended)
    }

    async fn import(&self, _: Message) -> Result<Imported> {
        Err(Error::unsupported("import messages: a mail script gives its messages their ids and times itself"))
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.inner()?.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        watch::watch(self.inner()?.clone(), query, from).await
    }

    async fn remove(&self, _: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        Err(Error::unsupported("remove messages: what a mail script keeps, and for how long, is its own affair"))
    }

    async fn get(&self, _: &RecordKey) -> Result<Option<Record>> {
        no_records()
    }

    async fn put(&self, _: &RecordKey, _: Expect, _: Value, _: bool) -> Result<Revision> {
        no_records()
    }

    async fn list(&self, _: &str) -> Result<BoxStream<'static, Result<Record>>> {
        no_records()
    }

    async fn delete(&self, _: &RecordKey, _: Expect) -> Result<()> {
        no_records()
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health { writable: true, detail: self.inner()?.backend.health().await? })
    }

    async fn close(&self) -> Result<()> {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.backend.close().await;
        Ok(())
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }
}
