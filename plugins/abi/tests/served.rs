//! `Served` on one thread: the inline path, credits, cancellation, panics.
#![allow(missing_docs)]

use std::sync::{Arc, Mutex};

use fmail_abi::{Answer, Peer, Served, Service, Spawner, Work};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};

/// Writes down what it is told; stops a stream when asked to.
#[derive(Default)]
struct Caller {
    heard: Mutex<Vec<String>>,
    stop: bool,
}

impl Caller {
    fn hear(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

impl Peer for Caller {
    fn call(&self, _: u64, _: &str, _: &[u8], _: &[u8]) {}
    fn pull(&self, _: u64, _: u32) {}
    fn cancel(&self, _: u64) {}
    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.hear(format!("done {id} {status} {}", String::from_utf8_lossy(body)));
    }
    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.hear(format!("item {id} {}", String::from_utf8_lossy(body)));
        !self.stop
    }
}

/// Says in the log when the work of a call is dropped.
struct Dropped(Arc<Caller>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.hear("dropped".into());
    }
}

struct Example(Arc<Caller>);

impl Service for Example {
    fn call(&self, method: &str, context: &[u8], request: &[u8]) -> Work {
        let guard = Dropped(self.0.clone());
        let body = [context, request].concat();
        match method {
            "echo" => Work::Answer(async move { Answer::ok(body) }.boxed()),
            "wait" => Work::Answer(
                async move {
                    let _guard = guard;
                    std::future::pending().await
                }
                .boxed(),
            ),
            "count" => Work::Stream(stream::iter(1..).map(|n: u64| Ok(n.to_string().into_bytes())).boxed()),
            "none" => Work::Stream(stream::iter([Err(Answer { status: -1, body: (*b"never").into() })]).boxed()),
            "two" => Work::Stream(stream::iter([Ok(vec![b'a']), Ok(vec![b'b'])]).boxed()),
            "fail" => {
                Work::Stream(stream::iter([Ok(vec![b'a']), Err(Answer::cancelled("no more")), Ok(vec![])]).boxed())
            }
            "panic later" => Work::Answer(async move { panic!("in {}", "poll") }.boxed()),
            _ => panic!("in call"),
        }
    }
}

/// Keeps what is spawned.
#[derive(Default)]
struct Later(Mutex<Vec<BoxFuture<'static, ()>>>);

impl Spawner for Later {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.0.lock().unwrap().push(future);
    }
}

impl Later {
    /// Polls everything once; how many are left.
    fn poll(&self) -> usize {
        let spawned = std::mem::take(&mut *self.0.lock().unwrap());
        let left: Vec<_> = spawned
            .into_iter()
            .filter_map(|mut future| match (&mut future).now_or_never() {
                Some(()) => None,
                None => Some(future),
            })
            .collect();
        let mut kept = self.0.lock().unwrap();
        kept.extend(left);
        kept.len()
    }
}

fn serve(stop: bool) -> (Arc<Served>, Arc<Caller>, Arc<Later>) {
    let caller = Arc::new(Caller { heard: Mutex::default(), stop });
    let later = Arc::new(Later::default());
    (Served::new(caller.clone(), Arc::new(Example(caller.clone())), later.clone()), caller, later)
}

#[test]
fn an_answer_that_is_ready_is_given_inside_of_the_call() {
    let (served, caller, later) = serve(false);
    served.call(7, b"echo", b"c", b"r");
    assert_eq!(caller.take(), ["dropped", "done 7 0 cr"]);
    assert_eq!((served.under_way(), later.poll()), (0, 0));
}

#[test]
fn a_stream_sends_nothing_without_credit_and_never_more() {
    let (served, caller, later) = serve(false);
    served.call(1, b"count", b"", b"");
    caller.take();
    served.pull(1, 0);
    assert!(caller.take().is_empty());
    served.pull(1, 2);
    assert_eq!(caller.take(), ["item 1 1", "item 1 2"]);
    served.pull(1, 1);
    assert_eq!(caller.take(), ["item 1 3"]);
    assert_eq!(later.poll(), 0, "a stream without credit is in nobody's hands");
    served.cancel(1);
    assert_eq!(caller.take(), ["done 1 -7 cancelled"]);
    assert_eq!(served.under_way(), 0);
}

#[test]
fn credit_saturates_and_an_endless_stream_leaves_the_caller_s_thread() {
    let (served, caller, later) = serve(false);
    served.call(1, b"count", b"", b"");
    served.pull(1, u32::MAX);
    served.pull(1, u32::MAX);
    assert_eq!(later.poll(), 1);
    assert_eq!(later.poll(), 1);
    let items = caller.take().len();
    served.cancel(1);
    assert_eq!(later.poll(), 0);
    assert!((256..1000).contains(&items), "{items}");
    assert_eq!(caller.take(), ["done 1 -7 cancelled"]);
}

#[test]
fn a_stream_ends_with_its_answer() {
    let (served, caller, _) = serve(false);
    served.call(1, b"two", b"", b"");
    served.call(2, b"fail", b"", b"");
    caller.take();
    served.pull(1, 9);
    assert_eq!(caller.take(), ["item 1 a", "item 1 b", "done 1 1 "]);
    served.pull(2, 9);
    assert_eq!(caller.take(), ["item 2 a", "done 2 -7 no more"]);
}

#[test]
fn the_end_of_a_stream_needs_no_credit() {
    let (served, caller, _) = serve(false);
    served.call(1, b"two", b"", b"");
    served.call(2, b"none", b"", b"");
    served.pull(1, 2);
    let heard: Vec<_> = caller.take().into_iter().filter(|heard| heard != "dropped").collect();
    assert_eq!(heard, ["done 2 -1 never", "item 1 a", "item 1 b", "done 1 1 "]);
}

#[test]
fn an_item_that_nobody_wants_ends_the_stream() {
    let (served, caller, _) = serve(true);
    served.call(1, b"count", b"", b"");
    caller.take();
    served.pull(1, 9);
    assert_eq!(caller.take(), ["item 1 1", "done 1 -7 cancelled"]);
}

#[test]
fn cancelled_work_is_dropped_and_then_answered_once() {
    let (served, caller, later) = serve(false);
    served.call(1, b"wait", b"", b"");
    assert_eq!(later.poll(), 1);
    served.cancel(1);
    served.cancel(1);
    served.cancel(99);
    assert_eq!(later.poll(), 0);
    assert_eq!(caller.take(), ["dropped", "done 1 -7 cancelled"]);
}

#[test]
fn panics_are_answers() {
    let (served, caller, _) = serve(false);
    served.call(1, b"panic later", b"", b"");
    served.call(2, b"nonsense", b"", b"");
    served.call(3, b"\xff", b"", b"");
    let heard = caller.take();
    assert!(heard.contains(&"done 1 -9 panicked: in poll".to_owned()), "{heard:?}");
    assert!(heard.contains(&"done 2 -9 panicked: in call".to_owned()), "{heard:?}");
    assert!(heard.last().unwrap().starts_with("done 3 -1 the name of the method is not UTF-8"), "{heard:?}");
    assert_eq!(served.under_way(), 0);
}

#[test]
fn a_repeated_id_has_no_effect() {
    let (served, caller, later) = serve(false);
    served.call(1, b"wait", b"", b"");
    served.call(1, b"echo", b"", b"");
    assert!(caller.take().is_empty());
    assert_eq!((served.repeated(), served.under_way()), (1, 1));
    drop(std::mem::take(&mut *later.0.lock().unwrap()));
    assert_eq!(
        caller.take(),
        ["dropped", "done 1 -7 cancelled"],
        "a runtime that drops work leaves no call unanswered"
    );
}

#[test]
fn close_answers_everything_and_refuses_the_rest() {
    let (served, caller, later) = serve(false);
    served.call(1, b"wait", b"", b"");
    served.call(2, b"count", b"", b"");
    caller.take();
    let mut closing = Box::pin(served.clone().close());
    assert!((&mut closing).now_or_never().is_none());
    assert_eq!(caller.take(), ["done 2 -7 cancelled"]);
    assert_eq!(later.poll(), 0);
    assert!(closing.now_or_never().is_some());
    assert_eq!(caller.take(), ["dropped", "done 1 -7 cancelled"]);
    served.call(3, b"echo", b"", b"");
    assert_eq!(caller.take(), ["done 3 -7 the instance is closed"]);
}
