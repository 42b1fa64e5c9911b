//! Each layer around a real store that lacks something or goes wrong.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use fmail_api::{
    Cursor, Draft, Error, ErrorKind, Event, Expect, Folder, Imported, Mark, Message, MessageId, Order, Query,
    RefusedReason, Result, Selection, Since, Timestamp,
};
use fmail_backends::MemoryStore;
use futures::executor::block_on;
use futures::{Future, FutureExt, StreamExt};
use serde_json::json;
use tracing::field::{Field, Visit};

use super::*;
use crate::testing::{Bare, ManualClock, Twist};

const SHORT: Duration = Duration::from_millis(20);

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(1_000, ManualClock::new()))
}

fn bare(twist: Twist) -> (Arc<MemoryStore>, Arc<dyn Store>) {
    let memory = memory();
    let mut bare = Bare::new(memory.clone(), Filters::default());
    bare.twist = twist;
    (memory, Arc::new(bare))
}

fn draft(to: &str, body: &str) -> Draft {
    Draft::new("alice".parse().unwrap(), to.parse().unwrap(), body)
}

fn append(store: &dyn Store, to: &str, body: &str) -> MessageId {
    block_on(store.append(draft(to, body))).unwrap().message.id
}

/// The bodies that a scan delivers, in its order; the first error instead.
fn bodies(store: &dyn Store, query: Query) -> Result<Vec<String>> {
    let events = block_on(async { store.scan(query).await.map(|scan| scan.messages.collect::<Vec<_>>()) })?;
    let mut bodies = Vec::new();
    for event in block_on(events) {
        if let Event::Message(delivery) = event? {
            bodies.push(delivery.message.body.as_str().unwrap_or_default().to_string());
        }
    }
    Ok(bodies)
}

/// Checks that the error is of a kind and says these things.
fn says<T>(result: Result<T>, kind: ErrorKind, parts: &[&str]) -> Error {
    let error = result.err().expect("it should have failed");
    assert_eq!(error.kind(), kind, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "`{part}` is missing in: {error}");
    }
    error
}

#[test]
fn only_the_layers_that_are_needed_are_put_on() {
    let none = LayerOptions { checked: false, max_calls: None, max_waiting: 0, deadline: None, traced: false };
    let store: Arc<dyn Store> = memory();
    assert!(Arc::ptr_eq(&store, &layered(store.clone(), &none)));
    let (_, bare) = bare(Twist::Straight);
    assert_eq!(layered(bare.clone(), &none).capabilities().filters, Filters::ALL);
    let full = layered(bare, &LayerOptions::default());
    assert_eq!((full.capabilities().filters, full.capabilities().name.as_str()), (Filters::ALL, "bare"));
}

#[test]
fn a_page_of_a_store_without_order_is_the_newest_and_its_cursor_the_end() {
    let (_, bare) = bare(Twist::Straight);
    let store = Filtering::new(bare);
    for number in 0..10 {
        append(&store, if number % 2 == 0 { "task" } else { "other" }, &number.to_string());
    }
    let query = |order| Query { limit: Some(2), order, ..Query::target("task".parse().unwrap()) };
    assert_eq!(bodies(&store, query(Order::Ascending)).unwrap(), ["6", "8"]);
    assert_eq!(bodies(&store, query(Order::Descending)).unwrap(), ["8", "6"]);
    assert_eq!(bodies(&store, query(Order::Arrival)).unwrap(), ["0", "2"]);
    let newest = block_on(store.scan(query(Order::Ascending))).unwrap();
    assert!(newest.more);
    let behind = Query { since: Some(Since::Cursor(newest.cursor)), ..Query::default() };
    assert!(bodies(&store, behind).unwrap().is_empty());
    // A page in order of arrival is gone on from behind its last message.
    let first = block_on(store.scan(query(Order::Arrival))).unwrap();
    let next = Query { since: Some(Since::Cursor(first.cursor)), ..query(Order::Arrival) };
    assert_eq!(bodies(&store, next).unwrap(), ["4", "6"]);
}

#[test]
fn a_scan_without_order_or_limit_keeps_nothing() {
    let (_, bare) = bare(Twist::Stalls);
    let store = Filtering::new(bare);
    append(&store, "task", "first");
    append(&store, "task", "second");
    // The inner stream delivers one item and no more: it comes through before the rest is there.
    let query = Query { order: Order::Arrival, ..Query::target("task".parse().unwrap()) };
    let mut messages = block_on(store.scan(query)).unwrap().messages;
    assert!(matches!(messages.next().now_or_never(), Some(Some(Ok(Event::Message(_))))));
    assert!(messages.next().now_or_never().is_none());
}

#[test]
fn a_filtered_watch_tells_how_far_it_is() {
    let (_, bare) = bare(Twist::Straight);
    let store = Filtering::new(bare);
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    for _ in 0..2_100 {
        append(&store, "noise", "x");
    }
    append(&store, "wanted", "y");
    let wanted = Query::target("wanted".parse().unwrap());
    let mut watch = block_on(store.watch(wanted.clone(), start)).unwrap();
    let events: Vec<_> = block_on(watch.by_ref().take(3).collect());
    assert!(
        matches!(&events[..], [Ok(Event::Progress(_)), Ok(Event::Progress(_)), Ok(Event::Message(_))]),
        "{events:?}"
    );
    // What is passed over right before a wait is told too, and the watch can be taken up there.
    append(&store, "noise", "z");
    let Some(Some(Ok(Event::Progress(cursor)))) = watch.next().now_or_never() else { panic!("no progress") };
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(watch.as_mut().poll_next(&mut context), Poll::Pending));
    let mut again = block_on(store.watch(wanted, cursor)).unwrap();
    assert!(again.next().now_or_never().is_none());
}

#[test]
fn what_a_store_does_not_claim_is_unsupported_and_does_not_reach_it() {
    let (memory, bare) = bare(Twist::Incapable);
    let store = Capable::new(bare);
    let id = append(&store, "@bob", "x");
    let foreign = draft("@bob", "y").into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
    says(block_on(store.import(foreign)), ErrorKind::Unsupported, &["bare", "import"]);
    let selection = Selection { ids: [id].into(), ..Selection::default() };
    says(block_on(store.remove(selection)), ErrorKind::Unsupported, &["bare", "remove"]);
    says(block_on(store.append(draft("task", "y"))), ErrorKind::Unsupported, &["bare", "topics"]);
    let mut copied = draft("@bob", "y");
    copied.more.cc = vec!["task".parse().unwrap()];
    says(block_on(store.append(copied)), ErrorKind::Unsupported, &["bare", "topics"]);
    let task = Query::target("task".parse().unwrap());
    says(block_on(store.scan(task.clone())).map(drop), ErrorKind::Unsupported, &["bare", "topics"]);
    says(block_on(store.summary(task)), ErrorKind::Unsupported, &["bare", "topics"]);
    assert_eq!(bodies(&*memory, Query::default()).unwrap(), ["x"]);
}

#[test]
fn an_answer_that_cannot_be_is_a_defect_that_names_the_store() {
    let capable = |twist| Capable::new(bare(twist).1);
    let appended = block_on(capable(Twist::OtherMessage).append(draft("task", "x")));
    says(appended, ErrorKind::Internal, &["`bare`", "mallory", "alice"]);
    let appended = block_on(capable(Twist::Duplicates).append(draft("task", "x")));
    says(appended, ErrorKind::Internal, &["`bare`", "duplicate"]);

    let store = capable(Twist::Boasts);
    append(&store, "task", "x");
    let id = append(&store, "task", "y");
    says(bodies(&store, Query::target("@bob".parse().unwrap())), ErrorKind::Internal, &["`bare`", "task"]);
    says(bodies(&store, Query { ids: [id].into(), ..Query::default() }), ErrorKind::Internal, &["not asked for"]);
    says(bodies(&store, Query { limit: Some(1), ..Query::default() }), ErrorKind::Internal, &["more than the 1"]);

    let store = capable(Twist::OtherRecord);
    let key = "agents/bob".parse().unwrap();
    block_on(store.put(&key, Expect::Absent, json!(1), true)).unwrap();
    says(block_on(store.get(&key)), ErrorKind::Internal, &["`bare`", "agents/bob", "other"]);
    let listed = block_on(async { store.list("leases").await.unwrap().collect::<Vec<_>>().await });
    says(listed.into_iter().next().unwrap(), ErrorKind::Internal, &["`bare`", "agents/bob", "leases"]);
}

#[test]
fn a_store_that_does_not_answer_is_a_timeout_that_names_it_and_the_operation() {
    let (_, bare) = bare(Twist::Hangs);
    let store = Deadlines::new(bare, SHORT);
    let key = "leases".parse().unwrap();
    says(block_on(store.append(draft("task", "x"))), ErrorKind::Timeout, &["`bare`", "`append`"]);
    says(block_on(store.scan(Query::default())), ErrorKind::Timeout, &["`scan`"]);
    says(block_on(store.watch(Query::default(), Cursor::new("x"))), ErrorKind::Timeout, &["`watch`"]);
    says(block_on(store.get(&key)), ErrorKind::Timeout, &["`get`"]);
    says(block_on(store.list("")), ErrorKind::Timeout, &["`list`"]);
    says(block_on(store.health()), ErrorKind::Timeout, &["`health`"]);
    let error = says(block_on(store.close()), ErrorKind::Timeout, &["`close`"]);
    assert!(error.retryable() && error.help_text().unwrap().contains("[mail.plugin.bare]"));
}

#[test]
fn a_scan_that_stops_coming_is_a_timeout_and_a_watch_may_wait() {
    let (memory, bare) = bare(Twist::Stalls);
    append(&*memory, "task", "one");
    append(&*memory, "task", "two");
    let store = Deadlines::new(bare, SHORT);
    let events: Vec<_> = block_on(async { store.scan(Query::default()).await.unwrap().messages.collect().await });
    assert!(matches!(&events[..], [Ok(Event::Message(_)), Err(error)] if error.kind() == ErrorKind::Timeout));
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    let mut watch = block_on(store.watch(Query::default(), start)).unwrap();
    let nap = crate::timer::Sleep::new(SHORT * 3);
    let waited = block_on(futures::future::select(watch.next(), nap));
    assert!(matches!(waited, futures::future::Either::Right(_)), "a watch has no deadline");
}

#[test]
fn a_message_over_the_limit_never_reaches_the_store() {
    let (_, bare) = bare(Twist::Hangs);
    let store = Limits::new(bare, 1, 1);
    let large = "x".repeat(1_000);
    says(block_on(store.append(draft("task", &large))), ErrorKind::TooLarge, &["1000"]);
    let foreign = draft("task", &large).into_message(MessageId::MIN, Timestamp::from_unix(0, 0));
    assert_eq!(block_on(store.import(foreign)).unwrap(), Imported::Refused(RefusedReason::TooLarge));
    // One of exactly the limit does: this store then hangs.
    let empty = draft("task", "").into_message(MessageId::MIN, Timestamp::from_unix(0, 0)).to_line().len();
    assert!(store.append(draft("task", &large[empty..])).now_or_never().is_none());
}

#[test]
fn calls_beyond_the_limit_wait_in_order_and_too_many_are_backpressure() {
    let (_, hanging) = bare(Twist::Hangs);
    let store = Limits::new(hanging, 1, 2);
    let mut context = Context::from_waker(Waker::noop());
    let call = || Box::pin(store.append(draft("task", "x")));
    let (mut one, mut two, mut three) = (call(), call(), call());
    for call in [&mut one, &mut two, &mut three] {
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    let waiting = || store.load().0;
    assert_eq!(waiting(), 2);
    let refused = call().now_or_never().expect("a refusal does not wait");
    says(refused, ErrorKind::Backpressure, &["bare", "2 calls"]);
    // Who gives up makes room for another, and does not take a turn.
    drop(two);
    let mut four = call();
    assert!(four.as_mut().poll(&mut context).is_pending());
    assert_eq!(waiting(), 2);
    drop(one);
    assert_eq!(waiting(), 1, "the third has its turn, the fourth waits");
    assert!(three.as_mut().poll(&mut context).is_pending());
    drop((three, four));
    assert_eq!(store.load(), (0, 1));
}

#[test]
fn many_callers_all_get_their_turn() {
    let store = Arc::new(Limits::new(memory(), 2, 100));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| assert!(append(&*store, "task", "x") > MessageId::MIN)));
        }
    });
    assert_eq!(bodies(&*store, Query::default()).unwrap().len(), 400);
    assert_eq!(store.load(), (0, 2));
}

/// Writes down what is told.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "fmail::store"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() != "micros" {
            write!(self.0, "{}={value:?} ", field.name()).unwrap();
        }
    }
}

#[test]
fn each_call_is_told_with_its_outcome() {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
        let store = Traced::new(memory());
        append(&store, "task", "x");
        says(block_on(store.append(draft("task", &"x".repeat(2_000)))), ErrorKind::TooLarge, &[]);
        assert_eq!(bodies(&store, Query::default()).unwrap(), ["x"]);
        drop(block_on(store.scan(Query::default())).unwrap());
    });
    let told = listener.0.lock().unwrap().clone();
    let expected = [
        r#"store=memory operation="append" outcome="ok""#,
        r#"operation="append" outcome="too_large" error="#,
        r#"operation="scan" outcome="ok""#,
        r#"operation="scan" items=1 outcome="ok""#,
        r#"operation="scan" outcome="ok""#,
        r#"operation="scan" items=0 outcome="dropped""#,
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (line, part) in told.iter().zip(expected) {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
}

#[test]
fn a_mailbox_that_does_not_answer_is_a_timeout_that_names_the_call() {
    let (_, bare) = bare(Twist::HangingMail);
    let store = Deadlines::new(bare, SHORT);
    let (bob, mailbox) = ("bob".parse().unwrap(), store.mailbox().unwrap());
    let late = |result, name: &str| says(result, ErrorKind::Timeout, &["`bare`", name]);
    late(block_on(mailbox.inbox(&bob, Folder::Open)).map(drop), "`mail_inbox`");
    late(block_on(mailbox.peek(&bob, MessageId::MIN)).map(drop), "`mail_peek`");
    late(block_on(mailbox.read(&bob, MessageId::MIN)).map(drop), "`mail_read`");
    late(block_on(mailbox.mark(&bob, MessageId::MIN, Mark::Read)).map(drop), "`mail_mark`");
    late(block_on(mailbox.count(&bob)).map(drop), "`mail_count`");
    late(block_on(mailbox.thread(&bob, "plan")).map(drop), "`mail_thread`");
}

#[test]
fn mail_that_was_not_asked_for_is_a_defect_that_names_the_store() {
    let (_, bare) = bare(Twist::OtherMail);
    let store = Capable::new(bare);
    let (bob, mailbox) = ("bob".parse().unwrap(), store.mailbox().unwrap());
    let other = "20260110-153000-0001".parse().unwrap();
    let wrong = |result, part: &str| says(result, ErrorKind::Internal, &["`bare`", part]);
    wrong(block_on(mailbox.inbox(&bob, Folder::Archived)).map(drop), "Archived");
    wrong(block_on(mailbox.inbox(&bob, Folder::Unread)).map(drop), "twice");
    wrong(block_on(mailbox.peek(&bob, other)).map(drop), "asked for the message 20260110-153000-0001");
    wrong(block_on(mailbox.read(&bob, MessageId::MIN)).map(drop), "is not read");
    wrong(block_on(mailbox.count(&bob)).map(drop), "2 unread");
    wrong(block_on(mailbox.thread(&bob, "plan")).map(drop), "twice");
}

#[test]
fn calls_of_a_mailbox_wait_for_their_turn_and_are_told() {
    let (_, hanging) = bare(Twist::HangingMail);
    let limited = Limits::new(hanging, 1, 0);
    let (bob, mailbox) = ("bob".parse().unwrap(), limited.mailbox().unwrap());
    let mut first = mailbox.count(&bob);
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    says(block_on(mailbox.count(&bob)), ErrorKind::Backpressure, &["bare"]);

    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
        let store = layered(bare(Twist::OtherMail).1, &LayerOptions::default());
        assert!(block_on(store.mailbox().unwrap().mark(&bob, MessageId::MIN, Mark::Read)).unwrap());
        says(block_on(store.mailbox().unwrap().count(&bob)), ErrorKind::Internal, &[]);
    });
    let told = listener.0.lock().unwrap().join("\n");
    assert!(told.contains(r#"operation="mail_mark" outcome="ok""#), "{told}");
    assert!(told.contains(r#"operation="mail_count" outcome="internal""#), "{told}");
    assert!(layered(memory(), &LayerOptions::default()).mailbox().is_none());
}

#[test]
fn nothing_is_told_where_nobody_listens() {
    let store = Traced::new(memory());
    append(&store, "task", "x");
    let message: Arc<Message> = block_on(store.append(draft("task", "y"))).unwrap().message;
    assert_eq!(bodies(&store, Query { ids: [message.id].into(), ..Query::default() }).unwrap(), ["y"]);
}
