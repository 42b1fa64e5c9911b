//! A store plugin over the boundary: every method, and what becomes of panics, waiting and the end.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use fmail_abi::status;
use fmail_boundary::LittleHost;
use fmail_plugin::fmail_api::verbs::{self, AppendAnswer, GetAnswer, ScanHead};
use fmail_plugin::futures::executor::block_on;
use fmail_plugin::futures::stream::BoxStream;
use fmail_plugin::futures::{FutureExt, StreamExt};
use fmail_plugin::{
    Appended, Capabilities, Cursor, Draft, Envelope, Error, ErrorKind, EventStream, Expect, Filters, Health, Imported,
    Message, Query, Record, RecordKey, Removed, Result, Revision, Scan, Selection, Store, tokio, tracing,
};
use serde_json::{Value, json};

fmail_plugin::store! {
    name: "boundary-test",
    open: Example::open,
    max_message_bytes: 1_000_000,
    capabilities: &["import", "remove", "filter.scope", "filter.ids", "filter.from", "filter.thread", "filter.time", "filter.limit", "filter.order"],
    config_schema: r#"{"type":"object","properties":{"behave":{"type":"string"}}}"#,
}

static TABLE: fmail_plugin::__macro::FmPlugin = fmail_plugin::__macro::table::<FmailPlugin>();

/// The memory store, which misbehaves where the configuration or a draft's subject says so.
struct Example {
    store: fmail_backends::MemoryStore,
    behave: String,
}

impl Example {
    async fn open(envelope: Envelope) -> Result<Self> {
        let config: BTreeMap<String, String> = envelope.config()?;
        let behave = config.get("behave").cloned().unwrap_or_default();
        match behave.as_str() {
            "fail to open" => return Err(Error::new(ErrorKind::Denied, "the door is shut").help("knock")),
            "panic in open" => panic!("no door"),
            "open slowly" => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            _ => {}
        }
        tracing::info!(instance = %envelope.instance, threads = 1, "opened");
        tracing::debug!("not wanted at this level");
        let store = fmail_backends::MemoryStore::new(1_000_000, Arc::new(fmail_backends::SystemClock));
        Ok(Example { store, behave })
    }
}

#[async_trait]
impl Store for Example {
    fn capabilities(&self) -> Capabilities {
        let filters = Filters { text: self.behave == "claim more", ..Filters::ALL };
        Capabilities { filters, ..self.store.capabilities() }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        match draft.subject.as_deref() {
            Some("panic") => panic!("on request of {}", draft.from),
            Some("wait") => std::future::pending().await,
            Some("hop") => tokio::task::yield_now().await,
            _ => {}
        }
        self.store.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.store.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.store.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.store.watch(query, from).await
    }

    async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        self.store.remove(selection).await
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        self.store.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        self.store.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.store.list(prefix).await
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        self.store.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        self.store.health().await
    }

    async fn close(&self) -> Result<()> {
        match self.behave.as_str() {
            "panic in close" => panic!("stuck"),
            "fail to close" => Err(Error::new(ErrorKind::Unavailable, "not now")),
            _ => Ok(()),
        }
    }
}

fn envelope(behave: &str) -> Value {
    json!({ "role": "store", "instance": "test", "config": { "behave": behave } })
}

fn start(behave: &str) -> LittleHost {
    block_on(LittleHost::start(&TABLE, &envelope(behave), None)).unwrap()
}

fn draft(subject: &str) -> Vec<u8> {
    json!({ "from": "alice", "to": "task", "body": "hello", "subject": subject }).to_string().into_bytes()
}

fn answer<T: serde_json_de::Read>(host: &LittleHost, method: &str, request: &Value) -> T {
    let answer = block_on(host.call(method, request.to_string().as_bytes()));
    T::read(&answer.into_result().unwrap())
}

mod serde_json_de {
    /// Anything that is read from JSON.
    pub trait Read {
        fn read(bytes: &[u8]) -> Self;
    }

    impl<T: for<'de> fmail_plugin::serde::Deserialize<'de>> Read for T {
        fn read(bytes: &[u8]) -> Self {
            fmail_plugin::serde_json::from_slice(bytes).unwrap()
        }
    }
}

fn items(host: &LittleHost, method: &str, request: &Value) -> Vec<Value> {
    let stream = host.stream(method, b"", request.to_string().as_bytes());
    let all = block_on(stream.collect::<Vec<_>>());
    let (last, items) = all.split_last().unwrap();
    assert_eq!(last.as_ref().unwrap_err().status, status::END);
    items.iter().map(|item| serde_json::from_slice(item.as_ref().unwrap()).unwrap()).collect()
}

#[test]
fn the_exported_symbol_carries_the_manifest() {
    let manifest = LittleHost::manifest(&TABLE);
    assert_eq!(manifest["name"], "boundary-test");
    assert_eq!((&manifest["kind"], &manifest["profile"]), (&json!("store"), &json!("store")));
    assert_eq!(manifest["limits"]["max_message_bytes"], 1_000_000);
    assert_eq!(manifest["config_schema"]["properties"]["behave"]["type"], "string");
    let read = fmail_host::Manifest::parse(&manifest.to_string(), "libfmail_boundary_test.so");
    assert!(read.is_ok(), "the host understands what the compiler has written: {:?}", read.err());
}

#[test]
fn every_method_of_a_store_works() {
    let host = start("");
    let appended: AppendAnswer =
        serde_json::from_slice(&block_on(host.call("append", &draft("hop"))).into_result().unwrap()).unwrap();
    assert_eq!(appended.message.subject.as_deref(), Some("hop"));
    let mut message = (*appended.message).clone();
    message.id = "20250110-153000-0001".parse().unwrap();
    let imported: Imported = answer(&host, "import", &serde_json::to_value(&message).unwrap());
    assert_eq!(imported, Imported::New);

    let scanned = items(&host, "scan", &json!({}));
    let head: ScanHead = serde_json::from_value(scanned[0].clone()).unwrap();
    assert_eq!((scanned.len(), head.more), (3, false));
    assert_eq!(scanned[1]["message"]["body"], "hello");

    let watch = json!({ "query": {}, "from": head.cursor });
    let mut watch = host.stream("watch", b"", watch.to_string().as_bytes());
    assert_eq!(&*block_on(watch.next()).unwrap().unwrap(), b"{}");
    block_on(host.call("append", &draft("later"))).into_result().unwrap();
    let event = verbs::event_from_json(&block_on(watch.next()).unwrap().unwrap()).unwrap();
    assert!(
        matches!(event, fmail_plugin::Event::Message(delivery) if delivery.message.subject.as_deref() == Some("later"))
    );
    drop(watch);

    let summary: Value = answer(&host, "summary", &json!({}));
    assert_eq!(summary["targets"][0]["messages"], 3);

    let key = RecordKey::leases();
    let put: Value = answer(&host, "put", &json!({ "key": key, "expect": Expect::Absent, "value": { "a": 7 } }));
    let got: GetAnswer = answer(&host, "get", &json!({ "key": key }));
    assert_eq!(serde_json::to_value(got.record.unwrap().revision).unwrap(), put["revision"]);
    let listed = items(&host, "list", &json!({}));
    assert_eq!((listed.len(), &listed[1]["record"]["value"]["a"]), (2, &json!(7)));
    let again =
        block_on(host.call("put", json!({ "key": key, "expect": Expect::Absent, "value": 1 }).to_string().as_bytes()));
    assert_eq!((again.status, again.error().kind()), (status::CONFLICT, ErrorKind::Conflict));
    let deleted: Value = answer(&host, "delete", &json!({ "key": key, "expect": Expect::Anything }));
    assert_eq!(deleted, json!({}));

    let removed = items(&host, "remove", &json!({ "ids": ["20250110-153000-0001"] }));
    assert_eq!((removed.len(), &removed[1]["id"]), (2, &json!("20250110-153000-0001")));
    let health: Health = answer(&host, "health", &json!({}));
    assert!(health.writable);
    block_on(host.end()).into_result().unwrap();
    assert_eq!(host.calls().under_way(), 0);
}

#[test]
fn what_cannot_be_understood_is_refused_with_the_reason() {
    let host = start("");
    for (method, request, status, text) in [
        ("append", "{", status::INVALID, "the request of append cannot be understood"),
        ("get", "{\"key\":7}", status::INVALID, "the request of get"),
        ("teleport", "{}", status::UNSUPPORTED, "a store has no method \"teleport\""),
    ] {
        let answer = block_on(host.call(method, request.as_bytes()));
        assert_eq!(answer.status, status, "{method}");
        assert!(answer.error().to_string().contains(text), "{}", answer.error());
    }
    let end = block_on(host.stream("scan", b"", b"[").next()).unwrap().unwrap_err();
    assert_eq!(end.status, status::INVALID);
    block_on(host.end());
}

#[test]
fn a_panic_ends_its_call_and_nothing_else() {
    let host = start("");
    let panicked = block_on(host.call("append", &draft("panic")));
    assert_eq!((panicked.status, &*panicked.body), (status::PANIC, &b"panicked: on request of alice"[..]));
    assert_eq!(block_on(host.call("append", &draft(""))).status, status::OK);
    block_on(host.end()).into_result().unwrap();
}

#[test]
fn a_call_that_is_given_up_is_answered_late_and_counted() {
    let host = start("");
    let waiting = host.call("append", &draft("wait"));
    drop(waiting);
    block_on(host.call("append", &draft("hop"))).into_result().unwrap();
    block_on(host.end()).into_result().unwrap();
    assert_eq!((host.calls().under_way(), host.calls().counters().late), (0, 1));
}

#[test]
fn the_end_answers_what_is_under_way_and_refuses_the_rest() {
    let host = start("");
    let mut waiting = host.call("append", &draft("wait"));
    let mut watch = host.stream("watch", b"", json!({ "from": "none" }).to_string().as_bytes());
    assert!((&mut waiting).now_or_never().is_none());
    block_on(host.end()).into_result().unwrap();
    assert_eq!(waiting.now_or_never().unwrap().status, status::CANCELLED);
    assert!(block_on(watch.next()).unwrap().is_err());
    assert_eq!(block_on(host.call("health", b"{}")).status, status::CANCELLED);
    assert_eq!(block_on(host.end()).status, status::OK, "a second destroy finds nothing to do");
}

#[test]
fn what_goes_wrong_while_opening_is_the_answer() {
    for (behave, status, text) in [
        ("fail to open", status::DENIED, "the door is shut"),
        ("panic in open", status::INTERNAL, "panicked: no door"),
        ("claim more", status::INTERNAL, "does not claim \"filter.text\", but Store::capabilities says true"),
    ] {
        let (_, result) = block_on(LittleHost::try_start(&TABLE, &envelope(behave), None));
        let error = result.unwrap_err();
        assert_eq!(error.kind().status(), status, "{behave}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let wrong = json!({ "role": "store", "instance": "test", "config": { "runtime": { "threads": 0 } } });
    let (_, result) = block_on(LittleHost::try_start(&TABLE, &wrong, None));
    assert!(result.unwrap_err().to_string().contains("runtime.threads is 0"));
    let (_, result) = block_on(LittleHost::try_start(&TABLE, &json!([]), None));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidRequest);
    block_on(start("open slowly").end()).into_result().unwrap();
}

#[test]
fn what_goes_wrong_while_closing_is_the_answer_and_the_end_comes_all_the_same() {
    assert_eq!(block_on(start("fail to close").end()).status, status::UNAVAILABLE);
    let panicked = block_on(start("panic in close").end());
    assert_eq!(panicked.status, status::INTERNAL);
}
