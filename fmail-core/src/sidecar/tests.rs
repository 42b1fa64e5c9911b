//! Records and ids beside a backend that keeps messages and nothing else.

use std::path::Path;

use fmail_api::{ErrorKind, MessageId, Timestamp};
use fmail_backends::{Durability, FilesOptions, FilesStore, MemoryStore};
use futures::executor::{block_on, block_on_stream};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::testing::ManualClock;

/// A backend without records, whose messages have names of its own.
struct Chat {
    messages: MemoryStore,
}

fn none<T>() -> Result<T> {
    Err(Error::unsupported("keep records"))
}

#[async_trait]
impl Store for Chat {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "chat".into(), shared: true, durable: true, ..self.messages.capabilities() }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.messages.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.messages.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.messages.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.messages.watch(query, from).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.messages.remove(selection).await
    }

    async fn get(&self, _: &RecordKey) -> Result<Option<Record>> {
        none()
    }

    async fn put(&self, _: &RecordKey, _: Expect, _: Value, _: bool) -> Result<Revision> {
        none()
    }

    async fn list(&self, _: &str) -> Result<BoxStream<'static, Result<Record>>> {
        none()
    }

    async fn delete(&self, _: &RecordKey, _: Expect) -> Result<()> {
        none()
    }

    async fn health(&self) -> Result<Health> {
        self.messages.health().await
    }
}

fn files(root: &Path) -> Arc<dyn Store> {
    let options = FilesOptions { durability: Durability::Os, ..FilesOptions::new(root) };
    Arc::new(FilesStore::open(options).unwrap())
}

fn chat() -> Arc<Chat> {
    Arc::new(Chat { messages: MemoryStore::new(10_000, ManualClock::new()) })
}

fn second(number: i64) -> Timestamp {
    Timestamp::from_unix(1_768_059_000 + number, 0)
}

/// What the backend would read of its own file: the messages by their names, in order, with their ids by the map.
fn read_in(chat: &Chat, ids: &IdMap, names: &[(&str, i64)]) -> Vec<MessageId> {
    let read = names.iter().map(|(name, at)| {
        let id = block_on(ids.id_of(name, second(*at))).unwrap();
        let mut draft = Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), *name);
        draft.extra.insert(FOREIGN_ID.into(), json!(name));
        block_on(chat.import(draft.into_message(id, second(*at)))).unwrap();
        id
    });
    read.collect()
}

/// Names that all lead to the same second, so that some of them lead to the same id.
fn crowd() -> Vec<String> {
    (0..300).map(|number| format!("message {number}")).collect()
}

#[test]
fn records_are_kept_beside_the_messages() {
    let root = TempDir::new().unwrap();
    let store = Sidecar::new(chat(), files(root.path()));
    let key = "agents/bob".parse().unwrap();
    block_on(store.put(&key, Expect::Absent, json!({"name": "bob"}), true)).unwrap();
    block_on(store.append(Draft::new("a".parse().unwrap(), "task".parse().unwrap(), "x"))).unwrap();
    let again = Sidecar::new(chat(), files(root.path()));
    assert_eq!(block_on(again.get(&key)).unwrap().unwrap().value, json!({"name": "bob"}));
    assert!(store.capabilities().shared && store.capabilities().durable);
    let beside_memory = Sidecar::new(chat(), chat().messages_store());
    assert!(!beside_memory.capabilities().durable && !beside_memory.capabilities().shared);
}

impl Chat {
    fn messages_store(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(10_000, ManualClock::new()))
    }
}

#[test]
fn ids_are_stable_distinct_and_lead_back() {
    let root = TempDir::new().unwrap();
    let store = Sidecar::new(chat(), files(root.path()));
    let names = crowd();
    let ids: Vec<_> = names.iter().map(|name| block_on(store.ids().id_of(name, second(0))).unwrap()).collect();
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), names.len());
    let again = IdMap::new(files(root.path()));
    for (name, id) in names.iter().zip(&ids) {
        assert_eq!(block_on(again.id_of(name, second(0))).unwrap(), *id);
        assert_eq!(block_on(again.foreign_of(*id)).unwrap().as_deref(), Some(name.as_str()));
        assert_eq!(id.time().whole_seconds(), second(0));
    }
    assert_eq!(block_on(again.foreign_of(MessageId::MIN)).unwrap(), None);
}

#[test]
fn a_sidecar_that_was_deleted_is_made_again_with_the_same_ids() {
    let names = crowd();
    let names: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    let backend = chat();
    let first = TempDir::new().unwrap();
    let before = Sidecar::new(backend.clone(), files(first.path()));
    let ids = read_in(&backend, before.ids(), &names);
    drop((before, first));
    // From the messages, as the backend still has them.
    let root = TempDir::new().unwrap();
    let after = Sidecar::new(backend, files(root.path()));
    assert_eq!(block_on(after.rebuild()).unwrap(), names.len() as u64);
    for ((name, _), id) in names.iter().zip(&ids) {
        assert_eq!(block_on(after.ids().foreign_of(*id)).unwrap().as_deref(), Some(*name));
    }
    // And from nothing but the names and times.
    let root = TempDir::new().unwrap();
    let anew = Sidecar::new(chat(), files(root.path()));
    assert_eq!(read_in(&chat(), anew.ids(), &names), ids);
}

#[test]
fn a_message_that_contradicts_the_map_is_told() {
    let root = TempDir::new().unwrap();
    let backend = chat();
    let store = Sidecar::new(backend.clone(), files(root.path()));
    read_in(&backend, store.ids(), &[("one", 0)]);
    let mut draft = Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), "x");
    draft.extra.insert(FOREIGN_ID.into(), json!("one"));
    block_on(backend.append(draft)).unwrap();
    let error = block_on(store.rebuild()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("`one`"), "{error}");
}

#[test]
fn eight_who_ask_for_one_name_at_once_get_one_id() {
    let root = TempDir::new().unwrap();
    let maps: Vec<IdMap> = (0..8).map(|_| IdMap::new(files(root.path()))).collect();
    let ids: Vec<Vec<MessageId>> = std::thread::scope(|scope| {
        let ask =
            |map| move || (0..20).map(|n| block_on(IdMap::id_of(map, &format!("m{n}"), second(0))).unwrap()).collect();
        let threads: Vec<_> = maps.iter().map(|map| scope.spawn(ask(map))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|one| *one == ids[0]), "{ids:?}");
}

#[test]
fn the_map_is_not_shown_among_the_records() {
    let root = TempDir::new().unwrap();
    let store = Sidecar::new(chat(), files(root.path()));
    let id = block_on(store.ids().id_of("one", second(0))).unwrap();
    let listed: Vec<_> = block_on_stream(block_on(store.list("")).unwrap()).map(|record| record.unwrap().key).collect();
    assert!(listed.iter().all(|key| !key.is_under("sidecar")), "{listed:?}");
    let key = format!("sidecar/ids/{id}").parse().unwrap();
    assert_eq!(block_on(store.get(&key)).unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert_eq!(block_on(store.delete(&key, Expect::Anything)).unwrap_err().kind(), ErrorKind::InvalidRequest);
}
