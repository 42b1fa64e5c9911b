//! Projects in this process: real operations over real stores, without a daemon. For tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use fmail_api::{
    Client, Clock, Context, DEFAULT_MAX_MESSAGE_BYTES, Error, ErrorKind, Expect, HostedProject, Principal, RecordKey,
    Result, Store, hex_sha256,
};
use fmail_backends::{FilesOptions, FilesStore, MemoryStore, SystemClock};
use fmail_core::Operations;
use fmail_transports::wire::{self, Style};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::{Backend, Caller, Reply};

/// Projects in this process, each absolute path one of its own.
pub struct LocalProjects {
    place: Place,
    opened: Mutex<BTreeMap<PathBuf, Opened>>,
}

enum Place {
    Memory,
    Files(PathBuf),
}

struct Opened {
    hosted: HostedProject,
    operations: Arc<Operations>,
}

impl LocalProjects {
    /// Projects that are gone with the process.
    pub fn in_memory() -> Arc<Self> {
        Arc::new(LocalProjects { place: Place::Memory, opened: Mutex::default() })
    }

    /// Projects in files, each in a directory below this one.
    pub fn in_files(below: impl Into<PathBuf>) -> Arc<Self> {
        Arc::new(LocalProjects { place: Place::Files(below.into()), opened: Mutex::default() })
    }

    /// The operations of a project, for whoever acts beside the clients of MCP.
    pub fn operations(&self, key: &str) -> Option<Arc<Operations>> {
        let opened = self.opened();
        opened.values().find(|opened| opened.hosted.key == key).map(|opened| opened.operations.clone())
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, key: &str, slug: &str) -> Result<(PathBuf, Arc<dyn Store>)> {
        match &self.place {
            Place::Memory => {
                Ok((key.into(), Arc::new(MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock)))))
            }
            Place::Files(below) => {
                let root = below.join(slug);
                std::fs::create_dir_all(&root).map_err(|error| Error::io("creating a project", &error))?;
                let options = FilesOptions { durability: fmail_backends::Durability::Os, ..FilesOptions::new(&root) };
                Ok((root, Arc::new(FilesStore::open(options)?)))
            }
        }
    }
}

#[async_trait]
impl Backend for LocalProjects {
    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        let key = path.to_string_lossy().into_owned();
        let slug = {
            let opened = self.opened();
            if let Some(found) = opened.values().find(|opened| opened.hosted.key == key) {
                return Ok(HostedProject { new: false, ..found.hosted.clone() });
            }
            if !create {
                return Err(Error::new(ErrorKind::InvalidProject, format!("there is no project for {key}")));
            }
            slug(&key, |slug| opened.values().any(|opened| opened.hosted.slug == slug))
        };
        let (root, store) = self.open(&key, &slug)?;
        let created = SystemClock.now();
        let id = format!("proj-{}", &hex_sha256(key.as_bytes())[..12]);
        if matches!(self.place, Place::Memory) {
            let record = json!({"id": id, "created": created.whole_seconds()});
            store.put(&RecordKey::project(), Expect::Anything, record, true).await?;
        }
        let hosted = HostedProject { id, root: root.clone(), key, slug, created, new: true };
        let operations = Arc::new(Operations::new(store, Arc::new(SystemClock)));
        let mut opened = self.opened();
        let entry = opened.entry(root).or_insert(Opened { hosted: hosted.clone(), operations });
        Ok(HostedProject { new: entry.hosted == hosted, ..entry.hosted.clone() })
    }

    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        let opened = self.opened();
        Ok(opened.values().map(|opened| HostedProject { new: false, ..opened.hosted.clone() }).collect())
    }

    /// Through the protocol's own codec, as it is everywhere else.
    async fn request(&self, caller: &Caller, request: Value) -> Result<Reply> {
        let operations = self.opened().get(&caller.root).map(|opened| opened.operations.clone());
        let operations = operations.ok_or_else(|| Error::new(ErrorKind::InvalidProject, "no such project"))?;
        let call = wire::parse(request.to_string().as_bytes()).call?;
        let context = Context {
            principal: caller.principal.clone().unwrap_or(Principal::Anonymous),
            session: caller.session.clone(),
            deadline: caller.deadline.map(|wait| Instant::now() + wait),
            overview: caller.overview,
            ..Context::local(call.agent)
        };
        let reply = operations.call(&context, call.request).await?;
        let head = value(&wire::answer(&reply.head, call.form, None, Style::Full))?;
        let events = reply.events.map(|events| {
            let spoken = events.filter_map(|event| async {
                match event {
                    Ok(event) => wire::event(&event, None, Style::Full).map(|line| value(&line)),
                    Err(error) => Some(Err(error)),
                }
            });
            spoken.boxed()
        });
        Ok(Reply { head, events })
    }
}

fn value(line: &str) -> Result<Value> {
    serde_json::from_str(line).map_err(|error| Error::internal(format!("an answer is not JSON: {error}")))
}

/// Lower case with hyphens; with a part of a hash where another key has the same.
fn slug(key: &str, taken: impl Fn(&str) -> bool) -> String {
    let words = key.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let plain = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    if taken(&plain) { format!("{plain}-{}", &hex_sha256(key.as_bytes())[..6]) } else { plain }
}
