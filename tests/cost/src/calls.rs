//! What one call and one message of a stream cost, in process, in a library and in another process.

use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::verbs::{self, GetVerb, method};
use fmail_api::{Draft, Error, Expect, Query, RecordKey, Result, Store};
use fmail_host::plugin::{Instance, PluginLog, PluginStore, cost_of_calls};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::json;

use crate::json::{JsonStore, TextLog};
use crate::place::Place;
use crate::say;

/// So many calls are a batch: well below a millisecond in process.
const CALLS: u32 = 16;
/// So many calls are a batch where another process answers.
const FAR_CALLS: u32 = 256;
/// So many messages a scan delivers: a few windows of credit.
const MESSAGES: u32 = 256;

/// Measures everything in `batches` that take turns. Of each the fastest counts: on a busy machine that is one which nobody
/// has interrupted.
pub async fn measure(place: &Place, batches: u32) -> Result<()> {
    whole_profile(place, batches).await?;
    log_profile(place, batches).await
}

/// The whole contract of a store, with JSON.
async fn whole_profile(place: &Place, batches: u32) -> Result<()> {
    let near = JsonStore(Arc::new(fmail_cost::memory()));
    let library = PluginStore::new(Arc::new(place.instance("cost", None).await?), 1 << 20);
    let child = Arc::new(place.instance("cost", Some("process")).await?);
    let child_store = PluginStore::new(child.clone(), 1 << 20);
    let key = RecordKey::leases();
    for store in [&*near.0, &library, &child_store] {
        store.put(&key, Expect::Anything, json!({ "text": "x".repeat(250) }), false).await?;
        for _ in 0..MESSAGES {
            store.append(draft()?).await?;
        }
    }

    let mut scans = [Duration::MAX; 2];
    let mut gets = [Duration::MAX; 2];
    for _ in 0..batches {
        least(&mut scans[0], per(MESSAGES, 1, || near.scan()).await?);
        least(&mut scans[1], per(MESSAGES, 1, || scan(&library)).await?);
        least(&mut gets[0], per(1, CALLS, || near.get(&key)).await?);
        least(&mut gets[1], per(1, CALLS, || library.get(&key)).await?);
    }
    // Last, since the stores grow with it.
    let mut appends = [Duration::MAX; 2];
    for _ in 0..batches {
        let draft = || draft().unwrap_or_else(|error| unreachable!("{error}"));
        least(&mut appends[0], per(1, CALLS, || near.append(draft())).await?);
        least(&mut appends[1], per(1, CALLS, || library.append(draft())).await?);
    }
    say("get in process", gets[0]);
    say("get library", gets[1]);
    say("append in process", appends[0]);
    say("append library", appends[1]);
    say("scan in process", scans[0]);
    say("scan library", scans[1]);
    let request = verbs::encode(&GetVerb { key });
    far("get child", &child, batches, method::GET, &request).await?;
    library.close().await?;
    child_store.close().await
}

/// Three methods on lines of text.
async fn log_profile(place: &Place, batches: u32) -> Result<()> {
    let entry = "x".repeat(300);
    let near = TextLog::default();
    near.append(&entry);
    let mut logs = Vec::new();
    for name in ["example-rust", "example-c", "example-python"] {
        let instance = Arc::new(place.instance(name, None).await?);
        instance.call(method::APPEND, b"", format!("1 {entry}").as_bytes()).await?;
        logs.push((name, instance.clone(), PluginLog::new(instance, 1 << 20)));
    }
    let [(_, _, rust), (_, _, c), (python, child, _)] = &logs[..] else { unreachable!("three were made") };
    let mut reads = [Duration::MAX; 3];
    for _ in 0..batches {
        use fmail_api::Log;
        least(&mut reads[0], per(1, CALLS, || async { Ok(black_box(near.read(0, 1))) }).await?);
        least(&mut reads[1], per(1, CALLS, || rust.read(0, 1)).await?);
        least(&mut reads[2], per(1, CALLS, || c.read(0, 1)).await?);
    }
    say("read in process", reads[0]);
    say("read example-rust", reads[1]);
    say("read example-c", reads[2]);
    far(&format!("read {python}"), child, batches, method::READ, b"0 1 1048576").await?;
    for (_, instance, _) in &logs {
        instance.close(Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// A call that another process answers: one in flight, and many.
async fn far(what: &str, instance: &Instance, batches: u32, method: &'static str, request: &[u8]) -> Result<()> {
    let (mut one, mut many) = (Duration::MAX, Duration::MAX);
    for _ in 0..batches.div_ceil(20) {
        least(&mut one, cost_of_calls(instance, FAR_CALLS, 1, method, request).await?);
        least(&mut many, cost_of_calls(instance, 8 * FAR_CALLS, 64, method, request).await?);
    }
    say(&format!("{what} 1"), one);
    say(&format!("{what} 64"), many);
    Ok(())
}

/// The time of one thing, when each of so many calls does so many.
async fn per<F: Future<Output = Result<T>>, T>(
    things: u32,
    calls: u32,
    mut call: impl FnMut() -> F,
) -> Result<Duration> {
    let begun = Instant::now();
    for _ in 0..calls {
        black_box(call().await?);
    }
    Ok(begun.elapsed() / calls / things)
}

fn least(so_far: &mut Duration, time: Duration) {
    *so_far = time.min(*so_far);
}

async fn scan(store: &PluginStore) -> Result<u32> {
    let mut messages = store.scan(Query::default()).await?.messages;
    let mut count = 0;
    while let Some(event) = messages.next().await {
        event?;
        count += 1;
    }
    match count {
        0 => Err(Error::internal("the scan delivered nothing")),
        count => Ok(count),
    }
}

/// A message of about 300 bytes.
fn draft() -> Result<Draft> {
    let mut draft = Draft::new("worker-one".parse()?, "task".parse()?, "x".repeat(170));
    draft.subject = Some("The tests of the parser pass".into());
    Ok(draft)
}

/// Runs [`measure`] on this thread.
pub fn run(place: &Place, batches: u32) -> Result<()> {
    block_on(measure(place, batches))
}
