//! `Served`: what the other side asks at the same time as its work runs, waits or ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use futures::stream;
use loom::sync::Mutex;
use loom::thread;

use crate::calls::Answer;
use crate::peer::Peer;
use crate::served::{Served, Service, Spawner, Work};
use crate::status;

/// The other side: counts what it gets, and never takes more than it has asked for.
#[derive(Default)]
struct Caller(Mutex<Got>);

#[derive(Default, Clone)]
struct Got {
    items: u32,
    done: Vec<i32>,
}

impl Caller {
    fn got(&self) -> Got {
        self.0.lock().unwrap().clone()
    }
}

impl Peer for Caller {
    fn call(&self, _: u64, _: &str, _: &[u8], _: &[u8]) {}
    fn pull(&self, _: u64, _: u32) {}
    fn cancel(&self, _: u64) {}
    fn done(&self, _: u64, status: i32, _: &[u8]) {
        self.0.lock().unwrap().done.push(status);
    }
    fn item(&self, _: u64, _: &[u8]) -> bool {
        let mut got = self.0.lock().unwrap();
        assert!(got.done.is_empty(), "an item after the answer");
        got.items += 1;
        true
    }
}

/// A flag that a future waits for.
#[derive(Default)]
struct Gate(Mutex<(bool, Option<Waker>)>);

impl Gate {
    fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = true;
        let waker = gate.1.take();
        drop(gate);
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, task: &mut Context<'_>) -> Poll<()> {
        let mut gate = self.0.lock().unwrap();
        if gate.0 {
            return Poll::Ready(());
        }
        gate.1 = Some(task.waker().clone());
        Poll::Pending
    }
}

/// `answer` waits for the gate; `stream` gives two items.
struct Example(Arc<Gate>);

impl Service for Example {
    fn call(&self, method: &str, _: &[u8], _: &[u8]) -> Work {
        if method == "stream" {
            return Work::Stream(Box::pin(stream::iter([Ok(vec![1]), Ok(vec![2])])));
        }
        let gate = self.0.clone();
        Work::Answer(Box::pin(async move {
            std::future::poll_fn(|task| gate.poll(task)).await;
            Answer { status: status::OK, body: Vec::new() }
        }))
    }
}

/// Keeps what is spawned until a case runs it.
#[derive(Default)]
struct Later(Mutex<VecDeque<BoxFuture<'static, ()>>>);

impl Later {
    fn run(&self) {
        loop {
            let next = self.0.lock().unwrap().pop_front();
            let Some(future) = next else { return };
            loom::future::block_on(future);
        }
    }
}

impl Spawner for Later {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.0.lock().unwrap().push_back(future);
    }
}

struct Case {
    served: Arc<Served>,
    caller: Arc<Caller>,
    gate: Arc<Gate>,
    later: Arc<Later>,
}

fn model(case: impl Fn(Case) + Send + Sync + 'static) {
    // Every interleaving with at most three preemptions: three threads with all of them take a quarter of a minute.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let (caller, gate, later) =
            (Arc::new(Caller::default()), Arc::new(Gate::default()), Arc::new(Later::default()));
        let served = Served::new(caller.clone(), Arc::new(Example(gate.clone())), later.clone());
        case(Case { served: served.clone(), caller: caller.clone(), gate, later });
        assert_eq!(served.under_way(), 0);
        assert_eq!(caller.got().done.len(), 1, "every call has exactly one answer");
    });
}

#[test]
fn cancel_against_the_answer_is_one_answer() {
    model(|Case { served, caller, gate, later }| {
        served.call(1, b"answer", b"", b"");
        let canceller = thread::spawn(move || served.cancel(1));
        let opener = thread::spawn(move || gate.open());
        later.run();
        canceller.join().unwrap();
        opener.join().unwrap();
        assert!(matches!(caller.got().done[..], [status::OK | status::CANCELLED]));
    });
}

#[test]
fn cancel_wakes_work_that_waits() {
    model(|Case { served, caller, later, .. }| {
        served.call(1, b"answer", b"", b"");
        let canceller = thread::spawn(move || served.cancel(1));
        later.run();
        canceller.join().unwrap();
        assert_eq!(caller.got().done, [status::CANCELLED]);
    });
}

#[test]
fn pull_against_pull_delivers_everything_once() {
    model(|Case { served, caller, later, .. }| {
        served.call(1, b"stream", b"", b"");
        let other = thread::spawn({
            let served = served.clone();
            move || served.pull(1, 1)
        });
        served.pull(1, 2);
        other.join().unwrap();
        later.run();
        let got = caller.got();
        assert_eq!((got.items, &got.done[..]), (2, &[status::END][..]));
    });
}

#[test]
fn pull_against_cancel_is_one_answer() {
    model(|Case { served, caller, later, .. }| {
        served.call(1, b"stream", b"", b"");
        let other = thread::spawn({
            let served = served.clone();
            move || served.cancel(1)
        });
        served.pull(1, 1);
        other.join().unwrap();
        later.run();
        let got = caller.got();
        assert!(got.items <= 1 && got.done == [status::CANCELLED]);
    });
}

#[test]
fn close_waits_for_the_answer_of_a_call_that_comes_with_it() {
    model(|Case { served, caller, later, .. }| {
        let closer = thread::spawn({
            let served = served.clone();
            move || loom::future::block_on(served.close())
        });
        served.call(1, b"answer", b"", b"");
        later.run();
        closer.join().unwrap();
        assert_eq!(caller.got().done, [status::CANCELLED]);
    });
}

#[test]
fn work_that_its_runtime_drops_is_answered() {
    model(|Case { served, caller, later, .. }| {
        served.call(1, b"answer", b"", b"");
        let other = thread::spawn(move || served.cancel(1));
        let spawned: Vec<_> = later.0.lock().unwrap().drain(..).collect();
        drop(spawned);
        other.join().unwrap();
        assert!(caller.got().done == [status::CANCELLED]);
    });
}
