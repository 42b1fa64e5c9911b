//! A watch joins the one that all share without a gap and without an overlap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use fmail_api::{
    Appended, Capabilities, Cursor, Draft, Event, EventStream, Expect, Health, Imported, Message, Order, Query, Record,
    RecordKey, Removed, Result, Revision, Scan, Scope, Selection, Since, Store, Summary,
};
use fmail_backends::{FilesOptions, FilesStore};
use fmail_core::{Blocking, Fanout};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::BoxStream;
use serde_json::Value;

/// A store in which a message arrives at the worst moment: a watch has its place among the others, and has not yet read
/// what came before that.
struct Timed {
    inner: FilesStore,
    armed: AtomicBool,
}

/// A message to three, which stands in three mailboxes and in each of them at another place.
fn to_three() -> Draft {
    let mut draft = Draft::new("alice".parse().unwrap(), "@bob".parse().unwrap(), "once");
    draft.more.recipients = vec!["@carol".parse().unwrap(), "@dave".parse().unwrap()];
    draft
}

#[async_trait]
impl Store for Timed {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.inner.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.inner.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        if matches!(query.since, Some(Since::Cursor(_))) && self.armed.swap(false, Ordering::SeqCst) {
            self.inner.append(to_three()).await?;
        }
        self.inner.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.inner.watch(query, from).await
    }

    async fn summary(&self, query: Query) -> Result<Summary> {
        self.inner.summary(query).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.inner.remove(selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.inner.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.inner.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.inner.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

/// Found by the soak: the second look knew the message by its place in another of its mailboxes, and showed it again.
#[test]
fn a_message_to_several_that_comes_while_a_watch_joins_is_delivered_once() {
    for scope in [Scope::All, Scope::Target("@bob".parse().unwrap()), Scope::Target("@dave".parse().unwrap())] {
        let root = tempfile::tempdir().unwrap();
        let inner = FilesStore::open(FilesOptions::new(root.path())).unwrap();
        let timed = Arc::new(Timed { inner, armed: AtomicBool::new(false) });
        let threads: Blocking = Arc::new(|work| drop(std::thread::spawn(work)));
        let fanout = Fanout::new(timed.clone(), threads);
        let bodies = block_on(async {
            let first = Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), "before");
            fanout.append(first).await.unwrap();
            let end = Query { order: Order::Descending, limit: Some(0), ..Query::default() };
            let from = fanout.scan(end).await.unwrap().cursor;
            timed.armed.store(true, Ordering::SeqCst);
            let mut watch = fanout.watch(Query { scope: scope.clone(), ..Query::default() }, from).await.unwrap();
            assert!(!timed.armed.load(Ordering::SeqCst), "the message came when it should");
            let mut last = Draft::new("alice".parse().unwrap(), "@bob".parse().unwrap(), "last");
            last.more.recipients = vec!["@dave".parse().unwrap()];
            fanout.append(last).await.unwrap();
            let mut bodies = Vec::new();
            while bodies.last().is_none_or(|body: &String| body != "last") {
                if let Event::Message(delivery) = watch.next().await.unwrap().unwrap() {
                    bodies.push(delivery.message.body.as_str().unwrap().to_string());
                }
            }
            bodies
        });
        assert_eq!(bodies, ["once", "last"], "{scope:?}");
    }
}
