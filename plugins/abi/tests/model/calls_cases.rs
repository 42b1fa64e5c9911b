//! `Calls`: what the other side says at the same time as we listen, give up or close.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::{FutureExt, StreamExt};
use loom::sync::Mutex;
use loom::thread;

use crate::calls::{Answer, Calls, Counters, Items};
use crate::peer::Peer;
use crate::status;

/// Remembers what it was told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn say(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|said| said.starts_with(what)).count()
    }
}

impl Peer for Told {
    fn call(&self, id: u64, _: &str, _: &[u8], _: &[u8]) {
        self.say(format!("call {id}"));
    }
    fn pull(&self, id: u64, credits: u32) {
        self.say(format!("pull {id} {credits}"));
    }
    fn cancel(&self, id: u64) {
        self.say(format!("cancel {id}"));
    }
    fn done(&self, _: u64, _: i32, _: &[u8]) {}
    fn item(&self, _: u64, _: &[u8]) -> bool {
        true
    }
}

fn model(case: impl Fn(Arc<Calls>, Arc<Told>, Arc<dyn Peer>) + Send + Sync + 'static) {
    loom::model(move || {
        let told = Arc::new(Told::default());
        case(Arc::new(Calls::new()), told.clone(), told);
    });
}

fn gone() -> Answer {
    Answer::cancelled("gone")
}

/// What the stream has delivered by now, and how it ended.
fn rest(mut items: Items) -> (usize, Option<i32>) {
    let mut count = 0;
    loop {
        match items.poll_next_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(_))) => count += 1,
            Poll::Ready(Some(Err(answer))) => return (count, Some(answer.status)),
            Poll::Ready(None) | Poll::Pending => return (count, None),
        }
    }
}

#[test]
fn an_answer_always_wakes_who_waits_for_it() {
    model(|calls, _, peer| {
        let call = calls.call(&peer, "get", b"", b"");
        let other = thread::spawn({
            let calls = calls.clone();
            move || calls.done(1, status::OK, b"yes")
        });
        let answer = loom::future::block_on(call);
        assert_eq!(&*answer.body, b"yes");
        other.join().unwrap();
        assert_eq!((calls.under_way(), calls.counters()), (0, Counters::default()));
    });
}

#[test]
fn done_against_drop_is_one_answer_or_one_cancel() {
    model(|calls, told, peer| {
        let call = calls.call(&peer, "get", b"", b"");
        let other = thread::spawn({
            let calls = calls.clone();
            move || calls.done(1, status::OK, b"yes")
        });
        drop(call);
        other.join().unwrap();
        let (cancelled, late) = (told.count("cancel"), calls.counters().late);
        assert!((cancelled, late) == (0, 0) || (cancelled, late) == (1, 1), "{cancelled} {late}");
        assert_eq!(calls.under_way(), 0);
    });
}

#[test]
fn of_two_answers_one_counts() {
    model(|calls, _, peer| {
        let call = calls.call(&peer, "get", b"", b"");
        let others = [b"1", b"2"].map(|body| {
            let calls = calls.clone();
            thread::spawn(move || calls.done(1, status::OK, body))
        });
        let answer = loom::future::block_on(call);
        assert!(*answer.body == *b"1" || *answer.body == *b"2");
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!((calls.under_way(), calls.counters().late), (0, 1));
    });
}

#[test]
fn an_item_that_was_taken_in_comes_before_the_end() {
    model(|calls, _, peer| {
        let items = calls.stream(&peer, "scan", b"", b"");
        let sender = thread::spawn({
            let calls = calls.clone();
            move || calls.item(1, b"a")
        });
        let closer = thread::spawn({
            let calls = calls.clone();
            move || calls.close(&gone())
        });
        calls.done(1, status::END, b"");
        let accepted = sender.join().unwrap();
        closer.join().unwrap();
        let (count, end) = rest(items);
        assert_eq!(count, usize::from(accepted));
        assert!(end == Some(status::END) || end == Some(status::CANCELLED), "{end:?}");
        assert_eq!(calls.under_way(), 0);
    });
}

#[test]
fn an_item_against_the_one_who_takes_it_is_never_lost() {
    model(|calls, _, peer| {
        let mut items = calls.stream(&peer, "scan", b"", b"");
        let other = thread::spawn({
            let calls = calls.clone();
            move || {
                assert!(calls.item(1, b"a"));
                calls.done(1, status::END, b"");
            }
        });
        let first = loom::future::block_on(items.next());
        assert!(matches!(first, Some(Ok(item)) if &*item == b"a"));
        assert!(matches!(loom::future::block_on(items.next()), Some(Err(answer)) if answer.status == status::END));
        assert!(loom::future::block_on(items.next()).is_none());
        other.join().unwrap();
    });
}

/// A whole window is there; taking half of it pulls, while the other side sends one beyond the window. It is refused
/// before the pull and taken in after it, and never more than was asked for.
#[test]
fn items_never_exceed_what_was_pulled() {
    model(|calls, told, peer| {
        let mut items = calls.stream(&peer, "scan", b"", b"");
        while calls.item(1, b"a") {}
        assert_eq!(calls.counters().excess, 1);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..31 {
            assert!(items.poll_next_unpin(&mut context).is_ready());
        }
        let other = thread::spawn({
            let calls = calls.clone();
            move || calls.item(1, b"b")
        });
        assert!(items.poll_next_unpin(&mut context).is_ready());
        let accepted = other.join().unwrap();
        assert_eq!(told.count("pull"), 2);
        assert_eq!(calls.counters().excess, if accepted { 1 } else { 2 });
        assert_eq!(rest(items), (32 + usize::from(accepted), None));
    });
}

#[test]
fn close_against_call_leaves_nobody_waiting() {
    model(|calls, _, peer| {
        let closer = thread::spawn({
            let calls = calls.clone();
            move || calls.close(&gone())
        });
        let call = calls.call(&peer, "get", b"", b"");
        closer.join().unwrap();
        assert_eq!(call.now_or_never().map(|answer| answer.status), Some(status::CANCELLED));
        assert_eq!(calls.under_way(), 0);
    });
}
