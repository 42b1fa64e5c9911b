//! What the boundary costs, beside a call of the trait with the same JSON.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_abi::layout::FmPlugin;
use fmail_api::verbs::{self, AppendAnswer, GetAnswer, GetVerb, ScanHead, method};
use fmail_api::{Draft, Expect, Query, RecordKey, Store};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_plugin::__macro::{Making, Plugin, store, table};
use fmail_plugin::{Envelope, Host, Kind, Manifest};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::json;

use crate::LittleHost;

/// One comparison.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// What was done.
    pub what: &'static str,
    /// One of it by a call of the trait, with its JSON written and read as the boundary needs it.
    pub in_process: Duration,
    /// One of it through the functions of the ABI.
    pub boundary: Duration,
    /// The boundary costs at most so many times the other.
    pub goal: f64,
}

impl Figure {
    /// How many times the call in process.
    pub fn ratio(&self) -> f64 {
        self.boundary.as_secs_f64() / self.in_process.as_secs_f64()
    }
}

/// The memory store as a plugin, without the exported symbol: it is reached through its table.
struct Memory;

static MEMORY: FmPlugin = table::<Memory>();

impl Plugin for Memory {
    const MANIFEST: Manifest = Manifest {
        name: "bench",
        capabilities: &[
            "import",
            "remove",
            "filter.scope",
            "filter.ids",
            "filter.from",
            "filter.thread",
            "filter.time",
            "filter.limit",
            "filter.order",
        ],
        ..Manifest::new(Kind::Store, env!("CARGO_PKG_VERSION"))
    };
    const TEXT: &'static [u8] = {
        const TEXT: [u8; Memory::MANIFEST.size()] = Memory::MANIFEST.text();
        &TEXT
    };

    fn open(_: Envelope, host: Host) -> Making {
        store(Self::MANIFEST, host, async { Ok(memory()) })
    }
}

fn memory() -> MemoryStore {
    MemoryStore::new(1 << 20, Arc::new(SystemClock))
}

/// A message of about 300 bytes.
fn draft() -> Draft {
    let mut draft =
        Draft::new("worker-one".parse().expect("a name"), "task".parse().expect("a topic"), "x".repeat(170));
    draft.subject = Some("The tests of the parser pass".into());
    draft
}

/// Measures one call in flight and streaming.
///
/// Each way is run in `batches` of well below a millisecond, in turns, and its fastest batch counts: on a busy machine
/// that is one that nobody has interrupted.
pub fn measure(batches: u32) -> Vec<Figure> {
    let store: Arc<dyn Store> = Arc::new(memory());
    let envelope = json!({ "role": "store", "instance": "bench" });
    let host = block_on(LittleHost::start(&MEMORY, &envelope, None)).expect("the instance");
    let key = RecordKey::leases();
    let value = json!({ "text": "x".repeat(250) });
    block_on(store.put(&key, Expect::Anything, value.clone(), false)).expect("put");
    let put = json!({ "key": key, "expect": Expect::Anything, "value": value }).to_string();
    block_on(host.call(method::PUT, put.as_bytes())).into_result().expect("put");
    for _ in 0..MESSAGES {
        block_on(append_in_process(&store));
        block_on(append_over(&host));
    }

    let scan_here = || assert_eq!(block_on(scan_in_process(&store)), MESSAGES as usize);
    let scan = best(batches, 1, scan_here, || assert_eq!(block_on(scan_over(&host)), MESSAGES as usize));
    let get = best(batches, CALLS, || block_on(get_in_process(&store, &key)), || block_on(get_over(&host, &key)));
    let append = best(batches, CALLS, || block_on(append_in_process(&store)), || block_on(append_over(&host)));
    block_on(host.end()).into_result().expect("the end");
    vec![
        Figure { what: "get, one in flight", in_process: get.0, boundary: get.1, goal: 1.5 },
        Figure { what: "append, one in flight", in_process: append.0, boundary: append.1, goal: 1.5 },
        Figure { what: "scan, per message", in_process: scan.0 / MESSAGES, boundary: scan.1 / MESSAGES, goal: 1.3 },
    ]
}

/// So many calls are a batch.
const CALLS: u32 = 16;
/// So many messages a scan delivers: a few windows of credit.
const MESSAGES: u32 = 256;

/// The time of one call, each way.
fn best(batches: u32, calls: u32, mut one: impl FnMut(), mut other: impl FnMut()) -> (Duration, Duration) {
    let run = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..calls).for_each(|_| work());
        start.elapsed() / calls
    };
    let runs = (0..batches).map(|_| (run(&mut one), run(&mut other)));
    runs.fold((Duration::MAX, Duration::MAX), |best, run| (best.0.min(run.0), best.1.min(run.1)))
}

async fn get_in_process(store: &Arc<dyn Store>, key: &RecordKey) {
    let request = verbs::encode(&GetVerb { key: key.clone() });
    let GetVerb { key } = verbs::decode("get", &request).expect("JSON");
    let answer = verbs::encode(&GetAnswer { record: store.get(&key).await.expect("get") });
    let answer: GetAnswer = verbs::decode("get", &answer).expect("JSON");
    assert!(answer.record.is_some());
}

async fn get_over(host: &LittleHost, key: &RecordKey) {
    let request = verbs::encode(&GetVerb { key: key.clone() });
    let answer = host.call(method::GET, &request).await.into_result().expect("get");
    let answer: GetAnswer = verbs::decode("get", &answer).expect("JSON");
    assert!(answer.record.is_some());
}

async fn append_in_process(store: &Arc<dyn Store>) {
    let request = verbs::encode(&draft());
    let done = store.append(verbs::decode("append", &request).expect("JSON")).await.expect("append");
    let (message, duplicate, not_durable) = (done.message, done.duplicate, done.not_durable);
    let answer = verbs::encode(&AppendAnswer { message, duplicate, not_durable });
    let answer: AppendAnswer = verbs::decode("append", &answer).expect("JSON");
    assert!(!answer.duplicate);
}

async fn append_over(host: &LittleHost) {
    let request = verbs::encode(&draft());
    let answer = host.call(method::APPEND, &request).await.into_result().expect("append");
    let answer: AppendAnswer = verbs::decode("append", &answer).expect("JSON");
    assert!(!answer.duplicate);
}

async fn scan_in_process(store: &Arc<dyn Store>) -> usize {
    let request = verbs::encode(&Query::default());
    let scan = store.scan(verbs::decode("scan", &request).expect("JSON")).await.expect("scan");
    let head = verbs::encode(&ScanHead { cursor: scan.cursor, more: scan.more });
    let _: ScanHead = verbs::decode("head", &head).expect("JSON");
    let mut messages = scan.messages;
    let mut count = 0;
    while let Some(event) = messages.next().await {
        let json = verbs::event_json(&event.expect("an event")).expect("JSON");
        verbs::event_from_json(json.as_bytes()).expect("JSON");
        count += 1;
    }
    count
}

async fn scan_over(host: &LittleHost) -> usize {
    let mut items = host.stream(method::SCAN, b"", &verbs::encode(&Query::default()));
    let head = items.next().await.expect("a head").expect("a head");
    let _: ScanHead = verbs::decode("head", &head).expect("JSON");
    let mut count = 0;
    while let Some(Ok(item)) = items.next().await {
        verbs::event_from_json(&item).expect("JSON");
        count += 1;
    }
    count
}
