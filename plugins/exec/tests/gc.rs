//! A good script of Gas City's contract: what it can do, what it cannot, and what fmail adds.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bench, agent, bodies, draft, inbox, mailbox, open, scan, send};
use fmail_api::{
    Draft, Error, ErrorKind, Event, Folder, Mark, MessageId, Order, Priority, Query, Result, Scope, Selection, Since,
    Store, Timestamp,
};
use fmail_core::FOREIGN_ID;
use fmail_exec::ExecOptions;
use futures::StreamExt;
use futures::executor::block_on;
use futures::future::join_all;
use serde_json::json;

fn open_gc(bench: &Bench) -> Arc<dyn Store> {
    bench.open(bench.gc())
}

/// The next message of a watch.
fn next(events: &mut fmail_api::EventStream) -> fmail_api::Delivery {
    block_on(async {
        loop {
            match events.next().await.expect("a watch does not end").unwrap() {
                Event::Message(delivery) => return delivery,
                Event::Notice(notice) => panic!("{notice:?}"),
                _ => {}
            }
        }
    })
}

#[test]
fn the_facet_is_as_its_rules_say() {
    let bench = Bench::new();
    let store = open_gc(&bench);
    let (store, alice, bob, eve) = (&*store, agent("alice"), agent("bob"), agent("eve"));
    let facet = mailbox(store);
    // B1
    assert!(inbox(store, "bob", Folder::Unread).unwrap().is_empty(), "nobody has written yet");
    let one = send(store, "alice", "bob", "one").unwrap().message;
    let two = send(store, "alice", "bob", "two").unwrap().message;
    assert_eq!(bodies(&inbox(store, "bob", Folder::Unread).unwrap()), ["one", "two"]);
    assert_eq!(bodies(&inbox(store, "bob", Folder::Open).unwrap()), ["one", "two"], "looking changed nothing");
    // B2
    let seen = block_on(facet.peek(&bob, one.id)).unwrap();
    assert_eq!((seen.message.id, seen.state.is_read()), (one.id, false));
    assert_eq!(seen.message.extra[FOREIGN_ID].as_str().unwrap().len(), 15);
    let unknown = |error: Error| assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    unknown(block_on(facet.peek(&bob, MessageId::MIN)).unwrap_err());
    unknown(block_on(facet.peek(&eve, one.id)).unwrap_err());
    unknown(block_on(facet.read(&eve, one.id)).unwrap_err());
    unknown(block_on(facet.mark(&eve, one.id, Mark::Archived)).unwrap_err());
    // B3
    assert!(block_on(facet.read(&bob, one.id)).unwrap().state.is_read());
    assert_eq!(bodies(&inbox(store, "bob", Folder::Unread).unwrap()), ["two"]);
    assert_eq!(inbox(store, "bob", Folder::Open).unwrap().len(), 2, "it stays open");
    // B4
    let mark = |mark| block_on(facet.mark(&bob, one.id, mark));
    assert!(!mark(Mark::Read).unwrap() && mark(Mark::Unread).unwrap() && !mark(Mark::Unread).unwrap());
    assert!(mark(Mark::Read).unwrap());
    for missing in [Mark::Acknowledged, Mark::Unarchived, Mark::Retrieved] {
        assert_eq!(mark(missing).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    // B5
    let count = block_on(facet.count(&bob)).unwrap();
    assert_eq!((count.total, count.unread), (2, 1));
    assert!(mark(Mark::Archived).unwrap() && !mark(Mark::Archived).unwrap(), "archived twice is no failure");
    let count = block_on(facet.count(&bob)).unwrap();
    assert_eq!((count.total, count.unread), (1, 1));
    assert_eq!(inbox(store, "bob", Folder::Archived).unwrap_err().kind(), ErrorKind::Unsupported);
    // B6
    let mut answer = draft("bob", "alice", "three");
    answer.reply_to = Some(two.id);
    let answer = block_on(store.append(answer)).unwrap().message;
    assert_eq!((answer.reply_to, &answer.thread), (Some(two.id), &two.thread));
    let thread = block_on(facet.thread(&bob, two.thread.as_deref().unwrap())).unwrap();
    assert_eq!(bodies(&thread), ["two", "three"]);
    assert!(block_on(facet.thread(&bob, "no-such-thread")).unwrap().is_empty());
    assert!(block_on(facet.thread(&eve, two.thread.as_deref().unwrap())).unwrap().is_empty());
    // B7: the sender sees no state, and cannot mark.
    let sent = block_on(facet.peek(&alice, two.id)).unwrap();
    assert_eq!((sent.standing, sent.state.is_read()), (None, false));
    assert_eq!(block_on(facet.mark(&alice, two.id, Mark::Read)).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(bodies(&inbox(store, "bob", Folder::Unread).unwrap()), ["two"]);
}

#[test]
fn what_the_contract_has_no_room_for_is_refused_and_nothing_is_sent() {
    let bench = Bench::new();
    let store = open_gc(&bench);
    let with = |change: fn(&mut Draft)| {
        let mut draft = draft("alice", "bob", "x");
        change(&mut draft);
        block_on(store.append(draft)).unwrap_err()
    };
    let topic = with(|draft| draft.to = "task".parse().unwrap());
    assert!(topic.message().contains("cannot keep topics"), "{topic}");
    let refused: [(Error, &str); 8] = [
        (with(|draft| draft.more.cc = vec!["@carol".parse().unwrap()]), "recipients beyond the first"),
        (with(|draft| draft.more.recipients = vec!["@carol".parse().unwrap()]), "to several"),
        (with(|draft| draft.priority = Priority::High), "priorities"),
        (with(|draft| draft.tags = vec!["t".parse().unwrap()]), "tags"),
        (with(|draft| draft.ack_required = true), "acknowledgement"),
        (with(|draft| draft.expires = Some(Timestamp::from_unix(4_000_000_000, 0))), "expires"),
        (with(|draft| draft.thread = Some("release".into())), "threads"),
        (with(|draft| drop(draft.extra.insert("colour".into(), json!("red")))), "`colour`"),
    ];
    for (error, says) in refused {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{says}: {error:?}");
        assert!(error.message().contains(says) && error.help_text().unwrap().contains("nothing was sent"), "{error:?}");
    }
    let both = with(|draft| (draft.priority, draft.ack_required) = (Priority::Low, true));
    assert!(both.message().contains("priorities and requests"), "{both}");
    assert!(inbox(&*store, "bob", Folder::Open).unwrap().is_empty());
    assert_eq!(scan(&*store, Query::target("task".parse().unwrap())).unwrap_err().kind(), ErrorKind::Unsupported);
    let topics = scan(&*store, Query { scope: Scope::Topics, ..Query::default() });
    assert_eq!(topics.unwrap_err().kind(), ErrorKind::Unsupported);
    let all = Selection { before: Some(Timestamp::from_unix(4_000_000_000, 0)), ..Selection::default() };
    assert_eq!(block_on(store.remove(all)).err().unwrap().kind(), ErrorKind::Unsupported);
    let large = send(&*store, "alice", "bob", &"x".repeat(2 << 20)).unwrap_err();
    assert_eq!(large.kind(), ErrorKind::TooLarge);
}

#[test]
fn answers_go_to_the_sender_in_the_same_thread_or_not_at_all() {
    let bench = Bench::new();
    let store = open_gc(&bench);
    let first = send(&*store, "alice", "bob", "one").unwrap().message;
    let with = |change: &dyn Fn(&mut Draft)| {
        let mut draft = draft("bob", "alice", "x");
        draft.reply_to = Some(first.id);
        change(&mut draft);
        block_on(store.append(draft))
    };
    let refused = |result: Result<_>| result.map(|_: fmail_api::Appended| ()).unwrap_err().kind();
    assert_eq!(refused(with(&|draft| draft.to = "@carol".parse().unwrap())), ErrorKind::Unsupported);
    assert_eq!(refused(with(&|draft| draft.thread = Some("other".into()))), ErrorKind::Unsupported);
    assert_eq!(refused(with(&|draft| draft.reply_to = Some(MessageId::MIN))), ErrorKind::NotFound);
    with(&|draft| draft.thread = Some(first.id.to_string())).unwrap();
    with(&|draft| draft.thread.clone_from(&first.thread)).unwrap();
    assert_eq!(inbox(&*store, "alice", Folder::Open).unwrap().len(), 2);
}

#[test]
fn names_ids_and_texts_of_any_kind_go_through() {
    let bench = Bench::new();
    let store = open_gc(&bench);
    let text = "quotes \" ' \\ <b> & \u{2028} \n\r\n tabs\t and \u{1f600} \u{e9}";
    let mut draft = draft("gastown-crew-1--x7s", "greendog--x0u-5u", text);
    draft.subject = Some("--help $(rm -rf /) \"".into());
    block_on(store.append(draft)).unwrap();
    let stored = std::fs::read_to_string(bench.directory.path().join("mail.json")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!((stored[0]["from"].as_str(), stored[0]["to"].as_str()), (Some("gastown/crew-1"), Some("GreenDog")));
    let mail = inbox(&*store, "greendog--x0u-5u", Folder::Unread).unwrap();
    assert_eq!(mail[0].message.body.as_str(), Some(text));
    assert_eq!(mail[0].message.subject.as_deref(), Some("--help $(rm -rf /) \""));
    assert_eq!(mail[0].message.from.as_str(), "gastown-crew-1--x7s");
    let body = json!({"a": [1, "x"]});
    let sent = Draft { body: body.clone(), ..common::draft("a", "b", "x") };
    let message = block_on(store.append(sent)).unwrap().message;
    assert_eq!(message.body.as_str(), Some(body.to_string().as_str()), "sent as its text");
}

#[test]
fn a_lost_map_of_ids_is_made_again_with_the_same_ids() {
    let bench = Bench::new();
    let store = open_gc(&bench);
    for body in ["one", "two", "three"] {
        send(&*store, "alice", "bob", body).unwrap();
    }
    let ids = |store: &dyn Store| {
        inbox(store, "bob", Folder::Open).unwrap().iter().map(|mail| mail.message.id).collect::<Vec<_>>()
    };
    let before = ids(&*store);
    drop(store);
    std::fs::remove_dir_all(bench.directory.path().join("data")).unwrap();
    let again = open_gc(&bench);
    assert_eq!(ids(&*again), before);
    let found = scan(&*again, Query { ids: [before[1]].into(), ..Query::default() }).unwrap();
    assert_eq!(found[0].body, "two");
}

#[test]
fn a_key_is_sent_once_by_everyone_who_has_it() {
    let bench = Bench::new();
    let stores = [open_gc(&bench), open_gc(&bench)];
    let once = Draft { key: Some("k".into()), ..draft("alice", "bob", "once") };
    let sends = join_all((0..6).map(|number| stores[number % 2].append(once.clone())));
    let sent: Vec<_> = block_on(sends).into_iter().map(Result::unwrap).collect();
    assert_eq!(sent.iter().filter(|sent| !sent.duplicate).count(), 1);
    assert!(sent.iter().all(|one| one.message == sent[0].message));
    let again = block_on(open_gc(&bench).append(once)).unwrap();
    assert!(again.duplicate && again.message == sent[0].message);
    assert_eq!(inbox(&*stores[0], "bob", Folder::Open).unwrap().len(), 1);
}

#[test]
fn a_key_whose_send_had_no_answer_is_tried_again() {
    let bench = Bench::new();
    let once = Draft { key: Some("k".into()), ..draft("alice", "bob", "once") };
    let broken = bench.open(bench.script("#!/bin/sh\nexit 1\n"));
    assert!(block_on(broken.append(once.clone())).is_err());
    assert!(!block_on(open_gc(&bench).append(once)).unwrap().duplicate);
}

#[test]
fn a_scan_knows_order_limit_and_since() {
    let bench = Bench::new();
    let store = open_gc(&bench);
    let mut ids = Vec::new();
    for (to, body) in [("bob", "one"), ("carol", "hers"), ("bob", "two"), ("bob", "three")] {
        ids.push(send(&*store, "alice", to, body).unwrap().message.id);
    }
    let bob = || Query { order: Order::Arrival, ..Query::visible(agent("bob")) };
    let found = |query: Query| -> Vec<String> {
        scan(&*store, query).unwrap().iter().map(|message| message.body.as_str().unwrap().to_string()).collect()
    };
    assert_eq!(found(bob()), ["one", "two", "three"]);
    assert_eq!(found(Query { limit: Some(2), ..bob() }), ["one", "two"]);
    assert_eq!(found(Query { from: Some(agent("eve")), ..bob() }), [""; 0]);
    let behind = block_on(store.scan(Query { limit: Some(1), ..bob() })).unwrap();
    assert!(behind.more);
    assert_eq!(found(Query { since: Some(Since::Cursor(behind.cursor)), ..bob() }), ["two", "three"]);
    let since = found(Query { since: Some(Since::Id(ids[2])), ..bob() });
    assert!(since.contains(&"three".to_string()) && !since.contains(&"two".to_string()), "{since:?}");
    let mut newest = scan(&*store, Query { limit: Some(2), ..Query::visible(agent("bob")) }).unwrap();
    newest.reverse();
    let other =
        scan(&*store, Query { limit: Some(2), order: Order::Descending, ..Query::visible(agent("bob")) }).unwrap();
    assert_eq!(newest, other);
    assert!(other[0].id > other[1].id);
    // All of them, by what is known, and that is said.
    assert_eq!(found(Query { order: Order::Arrival, ..Query::default() }), ["one", "hers", "two", "three"]);
    let events: Vec<_> = block_on(async { store.scan(Query::default()).await.unwrap().messages.collect().await });
    let told =
        events.iter().any(|event| matches!(event, Ok(Event::Notice(notice)) if notice.text.contains("bob, carol")));
    assert!(told, "{events:?}");
    let suffix = ids[1].to_string()[15..].to_string();
    let ending = Query { id_suffix: Some(suffix), ..Query::default() };
    assert!(found(ending).contains(&"hers".to_string()));
}

#[test]
fn a_watch_delivers_each_message_once_whoever_sends_it() {
    let bench = Bench::new();
    let store = open_gc(&bench);
    send(&*store, "alice", "bob", "before").unwrap();
    let scan = block_on(store.scan(Query { limit: Some(0), order: Order::Descending, ..Query::visible(agent("bob")) }));
    let mut events = block_on(store.watch(Query::visible(agent("bob")), scan.unwrap().cursor)).unwrap();
    send(&*store, "alice", "bob", "from here").unwrap();
    assert_eq!(next(&mut events).message.body, "from here");
    // By another process that has the same data, and by one that knows nothing of fmail.
    send(&*open_gc(&bench), "alice", "bob", "from beside").unwrap();
    let delivery = next(&mut events);
    assert_eq!(delivery.message.body, "from beside");
    let elsewhere = Bench { directory: tempfile::tempdir().unwrap() };
    let options = ExecOptions { data_dir: elsewhere.directory.path().into(), ..bench.options(bench.gc()) };
    send(&*open(options), "carol", "bob", "from elsewhere").unwrap();
    assert_eq!(next(&mut events).message.body, "from elsewhere");
    let mut resumed = block_on(store.watch(Query::visible(agent("bob")), delivery.cursor.clone())).unwrap();
    assert_eq!(next(&mut resumed).message.body, "from elsewhere");
}

#[test]
fn a_watch_outlives_an_outage_and_tells_it() {
    let bench = Bench::new();
    let down = bench.directory.path().join("down");
    let list = r#"[{"id":"m1","from":"alice","to":"bob","body":"hi","created_at":"2026-01-10T15:00:00Z"}]"#;
    let text = format!(
        "#!/bin/sh\n[ -e {0} ] || exit 0\n[ -e {0}.not ] && {{ echo '{list}'; exit 0; }}\nexit 1\n",
        down.display()
    );
    let store = bench.open(bench.script(&text));
    let cursor = block_on(store.scan(Query::visible(agent("bob")))).unwrap().cursor;
    std::fs::write(&down, "").unwrap();
    let mut events = block_on(store.watch(Query::visible(agent("bob")), cursor)).unwrap();
    let mut notice = || loop {
        match block_on(events.next()).unwrap().unwrap() {
            Event::Notice(notice) => return notice.text,
            Event::Message(delivery) => return delivery.message.body.to_string(),
            _ => {}
        }
    };
    let told = notice();
    assert!(told.contains("unavailable, trying again") && told.contains("exit status 1"), "{told}");
    std::fs::write(down.with_file_name("down.not"), "").unwrap();
    assert!(notice().contains("available again"));
    assert_eq!(notice(), "\"hi\"");
}

#[test]
fn a_hundred_sends_at_once_are_a_hundred_messages() {
    let bench = Bench::new();
    let stores = [open_gc(&bench), open_gc(&bench)];
    let sends = join_all((0..100).map(|number| stores[number % 2].append(draft("alice", "bob", &number.to_string()))));
    let ids: std::collections::BTreeSet<_> = block_on(sends).into_iter().map(|sent| sent.unwrap().message.id).collect();
    assert_eq!(ids.len(), 100);
    let mut bodies: Vec<u32> = inbox(&*open_gc(&bench), "bob", Folder::Unread)
        .unwrap()
        .iter()
        .map(|mail| mail.message.body.as_str().unwrap().parse().unwrap())
        .collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..100).collect::<Vec<_>>());
}

#[test]
fn one_message_that_cannot_be_told_does_not_hide_the_others() {
    let bench = Bench::new();
    let good = r#"{"id":"m1","from":"alice","to":"bob","body":"good"}"#;
    let text = format!("#!/bin/sh\necho '[{{\"id\":\"m0\",\"from\":\"\",\"to\":\"bob\"}},{good}]'\n");
    let store = bench.open(bench.script(&text));
    assert_eq!(bodies(&inbox(&*store, "bob", Folder::Open).unwrap()), ["good"]);
    let events: Vec<_> =
        block_on(async { store.scan(Query::visible(agent("bob"))).await.unwrap().messages.collect().await });
    let told = events.iter().any(|event| matches!(event, Ok(Event::Notice(notice)) if notice.text.contains("`m0`")));
    assert!(told && events.len() == 2, "{events:?}");
}

#[test]
fn a_closed_store_says_so_and_its_watches_end() {
    let bench = Bench::new();
    let store = bench.open(bench.script("#!/bin/sh\n"));
    let cursor = block_on(store.scan(Query::visible(agent("bob")))).unwrap().cursor;
    let mut events = block_on(store.watch(Query::visible(agent("bob")), cursor)).unwrap();
    block_on(store.close()).unwrap();
    assert_eq!(block_on(events.next()).unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(send(&*store, "alice", "bob", "x").is_err());
}

#[test]
fn a_call_that_is_given_up_ends_its_script() {
    let bench = Bench::new();
    let text = "#!/bin/sh\n[ $1 = ensure-running ] && exit 0\necho $$ >$(dirname $0)/pid\nexec sleep 1000\n";
    let store = bench.open(bench.script(text));
    let pid = bench.directory.path().join("pid");
    let bob = agent("bob");
    let given_up = async {
        let list = mailbox(&*store).inbox(&bob, Folder::Open);
        let started = async {
            while std::fs::read_to_string(&pid).map_or(true, |pid| !pid.ends_with('\n')) {
                futures_timer::Delay::new(Duration::from_millis(10)).await;
            }
        };
        futures::pin_mut!(list, started);
        assert!(matches!(futures::future::select(list, started).await, futures::future::Either::Right(_)));
    };
    block_on(given_up);
    let process = format!("/proc/{}/stat", std::fs::read_to_string(&pid).unwrap().trim());
    let begun = std::time::Instant::now();
    while std::fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < Duration::from_secs(10), "the script still runs");
        std::thread::yield_now();
    }
}
