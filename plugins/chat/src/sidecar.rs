//! What stands beside the file: a files store with every message of the chat file and all records.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use fmail_api::{
    Appended, ContentHash, Draft, Error, Event, Expect, Message, MessageId, Order, Query, RecordKey, Result, Selection,
    Store,
};
use fmail_backends::{Durability, FilesOptions, FilesStore};
use fmail_chat_file::Locked;
use futures::executor::{block_on, block_on_stream};
use serde_json::{Value, json};

use crate::ChatOptions;
use crate::state::State;

/// The records that are the sidecar's own. They are not shown.
pub(crate) const OWN: &str = "chat";
/// The field of a stored message that names the line it stands for. It is not shown.
pub(crate) const MARK: &str = "chat_line";
/// How much longer a message is with its mark than without it.
const MARK_BYTES: usize = 64;

pub(crate) struct Sidecar {
    root: PathBuf,
    patience: std::time::Duration,
    /// Answers everything, and stores what was sent through us.
    pub(crate) files: FilesStore,
    /// Stores what was found in the file. A power cut may take it: it is found there again.
    quick: FilesStore,
}

impl Sidecar {
    pub(crate) fn open(options: &ChatOptions) -> Result<Self> {
        let store = |durability| {
            FilesStore::open(FilesOptions {
                max_message_bytes: options.max_message_bytes.saturating_add(MARK_BYTES),
                durability,
                lock_timeout: options.patience,
                ..FilesOptions::new(&options.sidecar)
            })
        };
        Ok(Sidecar {
            root: options.sidecar.clone(),
            patience: options.patience,
            files: store(Durability::Disk)?,
            quick: store(Durability::Os)?,
        })
    }

    /// Makes the directory if it is missing.
    pub(crate) fn make(&self) -> Result<()> {
        if !self.root.is_dir() {
            let failed = |error| Error::io(format!("{} cannot be made", self.root.display()), &error);
            DirBuilder::new().recursive(true).mode(0o700).create(&self.root).map_err(failed)?;
            // It is a cache and a private one; a repository has no use for it.
            fs::write(self.root.join(".gitignore"), "*\n").map_err(failed)?;
        }
        Ok(())
    }

    /// Takes the lock under which the messages of the sidecar are changed; it is made if it is missing.
    pub(crate) fn lock(&self) -> Result<Locked> {
        self.make()?;
        Locked::open(&self.root.join("lock"), true, self.patience)
    }

    /// What is known about the file; nothing before it was first read.
    pub(crate) async fn state(&self) -> Result<Option<State>> {
        match self.files.get(&state_key()?).await? {
            Some(record) => record.decode().map(Some),
            None => Ok(None),
        }
    }

    /// Notes what is known. It need not survive a power cut: everything is compared anew then.
    pub(crate) fn put_state(&self, state: &State) -> Result<()> {
        block_on(self.files.put(&state_key()?, Expect::Anything, json!(state), false)).map(drop)
    }

    /// Every message, by the line that it stands for, in the order of arrival.
    pub(crate) fn marks(&self) -> Result<HashMap<ContentHash, Vec<MessageId>>> {
        let query = Query { order: Order::Arrival, ..Query::default() };
        let mut marks: HashMap<ContentHash, Vec<MessageId>> = HashMap::new();
        for event in block_on_stream(block_on(self.files.scan(query))?.messages) {
            if let Event::Message(delivery) = event?
                && let Some(mark) = mark_of(&delivery.message)
            {
                marks.entry(mark).or_default().push(delivery.message.id);
            }
        }
        Ok(marks)
    }

    /// The message that was stored with this key in the last day.
    pub(crate) fn with_key(&self, key: &str) -> Result<Option<Message>> {
        self.files.with_key(key)
    }

    /// The message with this id.
    pub(crate) fn message(&self, id: MessageId) -> Result<Option<Message>> {
        let query = Query { ids: [id].into(), ..Query::default() };
        for event in block_on_stream(block_on(self.files.scan(query))?.messages) {
            if let Event::Message(delivery) = event? {
                return Ok(Some(plain(&delivery.message)));
            }
        }
        Ok(None)
    }

    /// Stores what was sent through us.
    pub(crate) fn store(&self, draft: Draft, mark: ContentHash) -> Result<Appended> {
        let stored = block_on(self.files.append(marked(draft, mark)))?;
        Ok(Appended { message: Arc::new(plain(&stored.message)), ..stored })
    }

    /// Stores what was found in the file.
    pub(crate) fn store_found(&self, draft: Draft, mark: ContentHash) -> Result<()> {
        block_on(self.quick.append(marked(draft, mark))).map(drop)
    }

    /// Takes away the messages whose lines have left the file.
    pub(crate) fn remove(&self, ids: BTreeSet<MessageId>) -> Result<()> {
        let selection = Selection { ids, ..Selection::default() };
        block_on_stream(block_on(self.quick.remove(selection))?).try_for_each(|removed| removed.map(drop))
    }
}

fn state_key() -> Result<RecordKey> {
    format!("{OWN}/state").parse()
}

fn marked(mut draft: Draft, mark: ContentHash) -> Draft {
    draft.extra.insert(MARK.into(), Value::String(mark.to_string()));
    draft
}

fn mark_of(message: &Message) -> Option<ContentHash> {
    message.extra.get(MARK)?.as_str()?.parse().ok()
}

/// The message without its mark.
pub(crate) fn plain(message: &Message) -> Message {
    let mut message = message.clone();
    message.extra.shift_remove(MARK);
    message
}
