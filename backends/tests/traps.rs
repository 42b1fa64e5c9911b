//! The traps that the design names, with a clock that is set by hand: what a stepped clock, a planted file, a restart of
//! the machine and a newer program must not do.

mod common;

use std::time::Duration;

use common::{Fault, FaultFs, HandClock, Project, all, arrivals, bodies, draft, scan, send};
use fmail_api::{
    Draft, ErrorKind, Imported, Message, MessageId, Query, RefusedReason, Selection, Since, Store, TICKS_PER_SECOND,
    Timestamp,
};
use futures::StreamExt;
use futures::executor::block_on;

const NOON: &str = "2026-01-10T12:00:00Z";

fn ids(messages: &[std::sync::Arc<Message>]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

fn assert_ascending(ids: &[MessageId]) {
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn ids_ascend_over_a_clock_that_is_stepped_back() {
    for step in [Duration::from_secs(3600), Duration::from_secs(10), Duration::from_millis(1)] {
        let project = Project::in_memory();
        let clock = HandClock::at(NOON);
        let mut sent = Vec::new();
        for number in 0..20 {
            if number == 10 {
                clock.step_back(step);
            }
            clock.pass(Duration::from_millis(3));
            let before = fmail_api::Clock::now(clock.as_ref());
            let message = send(&project.store_at(clock.clone()), "task", &format!("{number}"));
            assert_eq!(message.time, before.whole_seconds(), "the time is what the clock says");
            sent.push(message.id);
        }
        assert_ascending(&sent);
        let store = project.store_at(clock.clone());
        assert_eq!(ids(&all(&store)), sent, "stepped by {step:?}");
        assert_eq!(ids(&arrivals(&store)), sent, "stepped by {step:?}");
        // By time the messages after the step are older than those before it; each is found under its own time.
        let back = Since::Time(fmail_api::Clock::now(clock.as_ref()).before(Duration::from_secs(1)));
        let found = scan(&store, Query { since: Some(back), ..Query::default() });
        assert!(ids(&found).contains(sent.last().unwrap()));
    }
}

#[test]
fn ids_ascend_over_a_stepped_clock_and_a_writer_that_died() {
    let project = Project::in_memory();
    let clock = HandClock::at(NOON);
    let mut sent = vec![send(&project.store_at(clock.clone()), "task", "before").id];
    clock.step_back(Duration::from_secs(3600));
    sent.push(send(&project.store_at(clock.clone()), "task", "after the step").id);
    // A writer that was killed leaves an index that is longer than it says.
    let mut index = std::fs::read(project.path("index")).unwrap();
    index.extend_from_slice(&[0; 32]);
    std::fs::write(project.path("index"), index).unwrap();
    for number in 0..5 {
        sent.push(send(&project.store_at(clock.clone()), "task", &number.to_string()).id);
    }
    assert_ascending(&sent);
    assert_eq!(ids(&all(&project.store_at(clock))), sent);
}

#[test]
fn a_planted_file_of_the_far_future_moves_no_id() {
    let planted = r#"{"from":"jq","to":"task","time":"2099-01-01T00:00:00Z","body":"planted"}"#;
    // Found by a listing, and found by a rebuild.
    for rebuild in [false, true] {
        let project = Project::in_memory();
        let clock = HandClock::at(NOON);
        send(&project.store_at(clock.clone()), "task", "first");
        project.plant("topics/task/20990101-000000-0001.json", planted);
        if rebuild {
            std::fs::remove_file(project.path("index")).unwrap();
        }
        assert_eq!(bodies(&all(&project.store_at(clock.clone()))), ["first", "planted"]);
        let mut sent = Vec::new();
        for number in 0..10 {
            clock.pass(Duration::from_millis(1));
            sent.push(send(&project.store_at(clock.clone()), "task", &number.to_string()).id);
        }
        assert_ascending(&sent);
        let latest = MessageId::at(fmail_api::Clock::now(clock.as_ref()).after(Duration::from_secs(1)));
        assert!(sent.iter().all(|id| *id < latest), "{sent:?}");
        let log = bodies(&all(&project.store_at(clock.clone())));
        assert_eq!(log.len(), 12);
        assert_eq!(log.last().map(String::as_str), Some("planted"), "a log is sorted by id");
    }
}

#[test]
fn foreign_ids_up_to_ten_seconds_ahead_are_counted_on_from() {
    let project = Project::in_memory();
    let clock = HandClock::at(NOON);
    send(&project.store_at(clock.clone()), "task", "first");
    project.plant("topics/task/20260110-120009-0000.json", r#"{"from":"jq","to":"task","body":"a bit ahead"}"#);
    let store = project.store_at(clock.clone());
    assert_eq!(all(&store).len(), 2);
    let next = send(&store, "task", "next");
    assert_eq!(next.id.to_string(), "20260110-120009-0001");
    assert_eq!(next.time.to_string(), NOON);
}

/// Rewrites a sealed block of the index: four bytes of checksum, then what `edit` changes.
fn edit_index(project: &Project, at: usize, edit: impl FnOnce(&mut [u8])) {
    let path = project.path("index");
    let mut bytes = std::fs::read(&path).unwrap();
    let block = &mut bytes[at..at + 64];
    edit(block);
    let sum = checksum(block);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

/// The index's checksum, written down a second time: a change of the format has to be meant.
fn checksum(block: &[u8]) -> u32 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (0..block.len()).step_by(8) {
        let mut word = u64::from_le_bytes(block[at..at + 8].try_into().unwrap());
        if at == 0 {
            word &= !0xffff_ffff;
        }
        hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 32;
    }
    (hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 32) as u32
}

const HEADER_AT: usize = 0;
const STATE_AT: usize = 64;

#[test]
fn ids_a_minute_ahead_of_the_clock_make_writers_wait_and_then_say_so() {
    let project = Project::in_memory();
    let clock = HandClock::at(NOON);
    let first = send(&project.store_at(clock.clone()), "task", "first");
    // 600,000 sends within one moment take too long for a test, so the counter is set as they would leave it.
    let high = first.id.ticks() + 60 * TICKS_PER_SECOND;
    edit_index(&project, STATE_AT, |state| state[8..16].copy_from_slice(&high.to_le_bytes()));
    let error = block_on(project.store_at(clock.clone()).append(draft("task", "too early"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backpressure, "{error:?}");
    assert!(error.retryable() && error.message().contains("60 s ahead"), "{error:?}");
    assert_eq!(bodies(&all(&project.store_at(clock.clone()))), ["first"]);
    clock.pass(Duration::from_millis(10));
    let next = send(&project.store_at(clock.clone()), "task", "in time");
    assert_eq!(next.id.ticks(), high + 1);
    assert_eq!(bodies(&all(&project.store_at(clock))), ["first", "in time"]);
}

#[test]
fn a_restart_of_the_machine_loses_no_message_and_no_key() {
    let project = Project::in_memory();
    let clock = HandClock::at(NOON);
    let store = project.store_at(clock.clone());
    let keyed = || Draft { key: Some("once".into()), ..draft("task", "with a key") };
    let first = block_on(store.append(keyed())).unwrap().message;
    for number in 0..20 {
        send(&store, ["task", "@bob"][number % 2], &number.to_string());
    }
    let before = all(&store);
    let cursor = block_on(store.scan(Query::default())).unwrap().cursor;
    // Twice, so that an index that came from a rebuild is rebuilt as well.
    for boot in [1, 2] {
        edit_index(&project, HEADER_AT, |header| header[24..40].fill(boot));
        let store = project.store_at(clock.clone());
        assert_eq!(all(&store), before);
        let again = block_on(store.append(keyed())).unwrap();
        assert!(again.duplicate && again.message.id == first.id, "boot {boot}");
        let expired = block_on(store.scan(Query { since: Some(Since::Cursor(cursor.clone())), ..Query::default() }));
        assert_eq!(expired.err().map(|error| error.kind()), Some(ErrorKind::Expired));
        let expired = block_on(store.watch(Query::default(), cursor.clone()));
        assert_eq!(expired.err().map(|error| error.kind()), Some(ErrorKind::Expired));
    }
}

#[test]
fn a_deleted_index_loses_no_message_and_no_key() {
    let project = Project::in_memory();
    let keyed = |key: &str| Draft { key: Some(key.into()), ..draft("task", key) };
    let first = block_on(project.store().append(keyed("one"))).unwrap().message;
    send(&project.store(), "@bob", "two");
    for _ in 0..3 {
        std::fs::remove_file(project.path("index")).unwrap();
        let again = block_on(project.store().append(keyed("one"))).unwrap();
        assert!(again.duplicate && again.message.id == first.id);
    }
    assert_eq!(bodies(&all(&project.store())), ["one", "two"]);
}

#[test]
fn a_key_is_forgotten_after_a_day_and_not_before() {
    let project = Project::in_memory();
    let clock = HandClock::at(NOON);
    let keyed = || Draft { key: Some("daily".into()), ..draft("task", "report") };
    let first = block_on(project.store_at(clock.clone()).append(keyed())).unwrap().message;
    clock.pass(Duration::from_secs(24 * 3600));
    let again = block_on(project.store_at(clock.clone()).append(keyed())).unwrap();
    assert!(again.duplicate && again.message.id == first.id);
    clock.pass(Duration::from_secs(1));
    let second = block_on(project.store_at(clock.clone()).append(keyed())).unwrap();
    assert!(!second.duplicate && second.message.id > first.id);
    // Now the second use counts, also when the index is rebuilt.
    std::fs::remove_file(project.path("index")).unwrap();
    clock.pass(Duration::from_secs(3600));
    let third = block_on(project.store_at(clock).append(keyed())).unwrap();
    assert!(third.duplicate && third.message.id == second.message.id);
}

#[test]
fn what_was_swept_away_does_not_come_back_and_the_horizon_never_sinks() {
    let project = Project::in_memory();
    let clock = HandClock::at(NOON);
    let message = |time: &str| {
        let time: Timestamp = time.parse().unwrap();
        draft("task", "imported").into_message(MessageId::at(time), time)
    };
    let sweep = |before: &str| {
        let selection = Selection { before: Some(before.parse().unwrap()), ..Selection::default() };
        let store = project.store_at(clock.clone());
        let removed = block_on(store.remove(selection)).unwrap();
        block_on(removed.collect::<Vec<_>>()).len()
    };
    let import = |time: &str| block_on(project.store_at(clock.clone()).import(message(time))).unwrap();
    assert_eq!(import("2026-01-08T00:00:00Z"), Imported::New);
    assert_eq!(sweep("2026-01-09T00:00:00Z"), 1);
    assert_eq!(sweep("2026-01-05T00:00:00Z"), 0);
    assert_eq!(import("2026-01-08T00:00:00Z"), Imported::Refused(RefusedReason::BelowHorizon));
    assert_eq!(import("2026-01-09T00:00:00Z"), Imported::New);
    std::fs::remove_file(project.path("index")).unwrap();
    assert_eq!(import("2026-01-08T23:59:59Z"), Imported::Refused(RefusedReason::BelowHorizon));
    assert_eq!(all(&project.store_at(clock.clone())).len(), 1);
}

/// Found by schedules 1794998064 and 1794998091 of hosts that relay: the horizon was read before the lock was taken.
#[test]
fn a_sweep_at_any_moment_before_an_imports_lock_keeps_out_what_is_old() {
    let imported = |number: Option<usize>| {
        let project = Project::in_memory();
        send(&project.store(), "task", "young");
        let fs = FaultFs::new(Fault::None);
        let store = project.store_on(fs.clone());
        fs.set(Fault::None);
        let other = project.store();
        if let Some(number) = number {
            fs.meanwhile(number, move || {
                let before = Some("2026-01-09T00:00:00Z".parse().unwrap());
                let removed = block_on(other.remove(Selection { before, ..Selection::default() })).unwrap();
                block_on(removed.collect::<Vec<_>>());
            });
        }
        let time: Timestamp = "2026-01-08T00:00:00Z".parse().unwrap();
        let message = draft("task", "old").into_message(MessageId::at(time), time);
        let answer = block_on(store.import(message)).unwrap();
        (answer, bodies(&all(&project.store())), fs.steps())
    };
    let (answer, _, steps) = imported(None);
    assert_eq!(answer, Imported::New);
    let lock = steps.iter().position(|step| step.name == "lock").unwrap();
    for (number, step) in steps.iter().enumerate().take(lock + 1) {
        let (answer, left, _) = imported(Some(number));
        assert_eq!(answer, Imported::Refused(RefusedReason::BelowHorizon), "in front of {step:?}");
        assert_eq!(left, ["young"], "in front of {step:?}");
    }
}

#[test]
fn a_newer_layout_is_refused_and_left_as_it_is() {
    let project = Project::in_memory();
    send(&project.store(), "task", "first");
    let record = project.path("project.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("\"format\": 2", "\"format\": 3")).unwrap();
    let error = block_on(project.store().append(draft("task", "second"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidProject);
    assert!(error.message().contains("format 3") && error.help_text() == Some("upgrade fmail"), "{error:?}");
    assert_eq!(project.files().len(), 1);
    // What it can read it still reads.
    assert_eq!(bodies(&all(&project.store())), ["first"]);
    std::fs::write(&record, text).unwrap();
    edit_index(&project, HEADER_AT, |header| header[40..44].copy_from_slice(&3_u32.to_le_bytes()));
    let index = std::fs::read(project.path("index")).unwrap();
    let error = block_on(project.store().append(draft("task", "second"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidProject, "{error:?}");
    assert_eq!(std::fs::read(project.path("index")).unwrap(), index, "a newer program's index is left alone");
    assert_eq!(project.files().len(), 1);
}

#[test]
fn a_lock_that_was_deleted_locks_nobody_out_and_lets_nobody_in() {
    // `git clean -X` removes what is ignored: the lock, the index and the temporary directory.
    let project = Project::in_memory();
    let store = project.store();
    let mut sent = vec![send(&store, "task", "first").id];
    let watching = block_on(async {
        let cursor = store.scan(Query::default()).await.unwrap().cursor;
        store.watch(Query::default(), cursor).await.unwrap()
    });
    for number in 0..5 {
        for name in ["lock", "index"] {
            std::fs::remove_file(project.path(name)).unwrap();
        }
        std::fs::remove_dir_all(project.path("tmp")).unwrap();
        let sender = if number % 2 == 0 { &store } else { &project.store() };
        sent.push(send(sender, "task", &number.to_string()).id);
    }
    assert_ascending(&sent);
    assert_eq!(ids(&all(&project.store())), sent);
    let seen = futures::executor::block_on_stream(watching).filter_map(|event| match event.unwrap() {
        fmail_api::Event::Message(delivery) => Some(delivery.message.id),
        _ => None,
    });
    let last = *sent.last().unwrap();
    let mut received = Vec::new();
    for id in seen {
        received.push(id);
        if id == last {
            break;
        }
    }
    assert_eq!(received, sent[1..]);
}

/// A watch that joins while the last other one ends shares a thread that is about to end: it is counted first, or gets one of its own.
#[test]
fn a_watch_that_begins_while_the_last_one_ends_is_woken() {
    let project = Project::in_memory();
    let store = project.store();
    send(&store, "task", "first");
    let watch = || {
        block_on(async {
            let cursor = store.scan(Query::default()).await.unwrap().cursor;
            store.watch(Query::default(), cursor).await.unwrap()
        })
    };
    for number in 0..300 {
        let leaving = watch();
        let left = std::thread::spawn(move || drop(leaving));
        let mut joining = watch();
        left.join().unwrap();
        let (told, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = told.send(block_on(joining.next()).is_some_and(|event| event.is_ok()));
        });
        send(&store, "task", &number.to_string());
        assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(true), "watch {number} was not woken");
    }
}

#[test]
fn a_watch_to_which_nothing_fits_is_told_where_it_is_after_a_rebuild() {
    let project = Project::in_memory();
    let store = project.store();
    send(&store, "task", "first");
    let silent = || Query::target("silent".parse().unwrap());
    let cursor = block_on(store.scan(silent())).unwrap().cursor;
    let watch = block_on(store.watch(silent(), cursor.clone())).unwrap();
    std::fs::remove_file(project.path("index")).unwrap();
    send(&project.store(), "task", "second");
    let told = futures::executor::block_on_stream(watch).find_map(|event| match event.unwrap() {
        fmail_api::Event::Progress(cursor) => Some(cursor),
        _ => None,
    });
    let late = block_on(store.watch(silent(), cursor)).err().unwrap();
    assert_eq!(late.kind(), ErrorKind::Expired, "the cursor before cannot be used any more");
    let expected = send(&project.store(), "silent", "third").id;
    let again = block_on(store.watch(silent(), told.unwrap())).unwrap();
    let next = futures::executor::block_on_stream(again).next().unwrap().unwrap();
    assert!(matches!(next, fmail_api::Event::Message(delivery) if delivery.message.id == expected));
}

#[test]
fn a_watch_that_reads_slowly_loses_nothing_over_several_rebuilds() {
    let project = Project::in_memory();
    let store = project.store();
    send(&store, "task", "first");
    let cursor = block_on(store.scan(Query::default())).unwrap().cursor;
    let watch = block_on(store.watch(Query::default(), cursor)).unwrap();
    let mut seen = futures::executor::block_on_stream(watch).filter_map(|event| match event.unwrap() {
        fmail_api::Event::Message(delivery) => Some(delivery.message.id),
        _ => None,
    });
    // More than a watch reads ahead, so that most are still to be delivered when the index is replaced once more.
    let mut sent = Vec::new();
    let mut received = Vec::new();
    for round in 0..4 {
        std::fs::remove_file(project.path("index")).unwrap();
        for number in 0..200 {
            sent.push(send(&project.store(), "task", &format!("{round}/{number}")).id);
        }
        received.extend(seen.by_ref().take(3));
    }
    // The last one always comes: a message that is lost shows as a gap and not as a wait without end.
    let last = send(&project.store(), "task", "last").id;
    sent.push(last);
    for id in seen {
        received.push(id);
        if id == last {
            break;
        }
    }
    assert_eq!(received, sent);
}
