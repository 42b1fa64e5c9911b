//! 128,000 calls over the boundary, many at once, given up at random: none is lost and none is left.
#![allow(missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fmail_abi::layout::FmPlugin;
use fmail_abi::{Answer, Service, Work, status};
use fmail_boundary::LittleHost;
use fmail_plugin::__macro::{Making, Opened, Plugin, table};
use fmail_plugin::futures::executor::block_on;
use fmail_plugin::futures::future::{BoxFuture, Either, join_all, select};
use fmail_plugin::futures::{FutureExt, StreamExt, stream};
use fmail_plugin::{Envelope, Host, Kind, Manifest, Result, tokio};
use serde_json::json;

const THREADS: u64 = 4;
const CALLS: u64 = 32_000;
/// So many calls of a thread are under way at once.
const AT_ONCE: u64 = 64;

static TABLE: FmPlugin = table::<Example>();
/// Work that was begun and has not been dropped.
static ALIVE: AtomicI64 = AtomicI64::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);

struct Example;

impl Plugin for Example {
    const MANIFEST: Manifest = Manifest { name: "stress", ..Manifest::new(Kind::Store, "1.0.0") };
    const TEXT: &'static [u8] = {
        const TEXT: [u8; Example::MANIFEST.size()] = Example::MANIFEST.text();
        &TEXT
    };

    fn open(_: Envelope, _: Host) -> Making {
        async { Ok(Arc::new(Example) as Arc<dyn Opened>) }.boxed()
    }
}

impl Opened for Example {
    fn close(&self) -> BoxFuture<'static, Result<()>> {
        async { Ok(()) }.boxed()
    }
}

/// Counts work from its beginning to its drop.
struct Alive;

impl Alive {
    fn new() -> Self {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Alive
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Example {
    fn call(&self, method: &str, _: &[u8], request: &[u8]) -> Work {
        let (alive, body) = (Alive::new(), request.to_vec());
        match method {
            "ready" => Work::Answer(async move { finish(alive, body) }.boxed()),
            "hop" => Work::Answer(
                async move {
                    tokio::task::yield_now().await;
                    finish(alive, body)
                }
                .boxed(),
            ),
            "sleep" => Work::Answer(
                async move {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    finish(alive, body)
                }
                .boxed(),
            ),
            "never" => Work::Answer(
                async move {
                    let _alive = alive;
                    std::future::pending().await
                }
                .boxed(),
            ),
            // 200 items, some of which have to be waited for.
            "count" => Work::Stream(
                stream::iter(0..200_u32)
                    .then(move |n| {
                        let _ = &alive;
                        async move {
                            if n % 67 == 66 {
                                tokio::task::yield_now().await;
                            }
                            Ok(n.to_string().into_bytes())
                        }
                    })
                    .boxed(),
            ),
            other => panic!("no {other}"),
        }
    }
}

fn finish(alive: Alive, body: Vec<u8>) -> Answer {
    drop(alive);
    Answer::ok(body)
}

/// A small generator: what is tested must not depend on luck that cannot be repeated.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One call of a random kind; whether it was given up before its answer.
async fn one(host: &LittleHost, kind: u64, patience: u64, number: u64) -> bool {
    let request = number.to_string();
    let method = match kind {
        0..=3 => "ready",
        4..=6 => "hop",
        7 => "sleep",
        8 => "never",
        _ => return count(host, patience).await,
    };
    let call = host.call(method, request.as_bytes());
    let wait = if method == "never" { patience % 3 } else { patience };
    match select(call, turns(wait)).await {
        Either::Left((answer, _)) => {
            assert_eq!((answer.status, &*answer.body), (status::OK, request.as_bytes()), "{method}");
            false
        }
        Either::Right((_, call)) => {
            drop(call);
            true
        }
    }
}

/// Takes some items of a stream, or all of them.
async fn count(host: &LittleHost, patience: u64) -> bool {
    let mut items = host.stream("count", b"", b"");
    let wanted = patience as u32 * 2;
    let mut next = 0;
    while next < wanted {
        match items.next().await {
            Some(Ok(item)) => assert_eq!(&*item, next.to_string().as_bytes(), "in order, none twice, none left out"),
            Some(Err(end)) => {
                assert_eq!((end.status, next), (status::END, 200));
                return false;
            }
            None => unreachable!("the end is an item"),
        }
        next += 1;
    }
    true
}

/// Pending so many times, waking itself: gives others their turn without a clock.
fn turns(count: u64) -> impl Future<Output = ()> + Unpin {
    let mut left = count * 20;
    std::future::poll_fn(move |task| {
        if left == 0 {
            return std::task::Poll::Ready(());
        }
        left -= 1;
        task.waker().wake_by_ref();
        std::task::Poll::Pending
    })
}

fn thread(host: &LittleHost, seed: u64) -> u64 {
    let mut dice = Dice(seed * 7_919 + 1);
    let mut given_up = 0;
    for round in 0..CALLS / AT_ONCE {
        let calls = (0..AT_ONCE).map(|at| one(host, dice.throw(10), dice.throw(110), round * AT_ONCE + at));
        let outcomes = block_on(join_all(calls));
        given_up += outcomes.iter().filter(|outcome| **outcome).count() as u64;
    }
    given_up
}

#[test]
fn of_128_000_calls_none_is_lost_and_none_is_left() {
    let start = Instant::now();
    let envelope = json!({ "role": "store", "instance": "stress" });
    let host = block_on(LittleHost::start(&TABLE, &envelope, None)).unwrap();
    let given_up: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|seed| {
                scope.spawn({
                    let host = &host;
                    move || thread(host, seed)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(host.calls().under_way(), 0);
    block_on(host.end()).into_result().unwrap();
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "work is left");
    assert_eq!(BEGUN.load(Ordering::SeqCst), THREADS * CALLS, "every call reached the plugin once");
    assert_eq!(host.answers(), THREADS * CALLS + 2, "one answer to each, to the making and to the end");
    let counters = host.calls().counters();
    assert_eq!((counters.forged, counters.excess), (0, 0), "nothing made up, nothing beyond the credit");
    assert!(given_up > 10_000 && counters.late > 10_000, "{given_up} given up, {counters:?}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    eprintln!("{} calls, {given_up} given up, {:?}", THREADS * CALLS, start.elapsed());
}
