//! Copies, exports and imports over stores in memory and in files, cut off at every step.

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Clock, Draft, Error, ErrorKind, Expect, GcRequest, Imported, MAX_NESTING, Mark, MarkRequest, Order, Query,
    ReceiptRequest, Record, RecordKey, Request, ReserveRequest, Response, Result, Store,
};
use fmail_backends::{FilesOptions, FilesStore, MemoryStore};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};

use super::copy::next_record;
use super::*;
use crate::Operations;
use crate::testing::{Failing, Fails, ManualClock, Project, context};

/// A project with all kinds of messages and records.
fn project() -> Project {
    let project = Project::new();
    project.create();
    project.send("alice", "task", "old");
    project.clock.advance(Duration::from_secs(10 * 24 * 60 * 60));
    let gc = project.call("alice", Request::Gc(GcRequest { days: 7, dry_run: false })).unwrap();
    block_on(gc.events.unwrap().for_each(|event| async { drop(event.unwrap()) }));
    project.send("alice", "task", json!({"number": 1, "text": "first"}));
    let mut draft = Draft::new("alice".parse().unwrap(), "@bob".parse().unwrap(), "to two");
    draft.more.cc = vec!["@carol".parse().unwrap()];
    draft.extra.insert("x-unknown".into(), json!([1, {"z": null, "a": 1}]));
    block_on(project.store.append(draft)).unwrap();
    let read = project.send("alice", "@bob", "read").message.id;
    let deleted = project.send("alice", "@bob", "deleted").message.id;
    mark(&project, Mark::Acknowledged, read.to_string());
    mark(&project, Mark::Deleted, deleted.to_string());
    let paths = vec!["src/**".to_string()];
    project
        .call("bob", Request::Reserve(ReserveRequest { paths, ttl_seconds: 3600, exclusive: true, reason: None }))
        .unwrap();
    put(&*project.store, "of-a-plugin/x", json!({"kept": true}));
    project
}

fn mark(project: &Project, mark: Mark, id: String) {
    let request = MarkRequest { mark, ids: vec![id], bulk: None, token: None, dry_run: false };
    assert!(matches!(project.call("bob", Request::Mark(request)).unwrap().head, Response::Marked(_)));
}

fn put(store: &dyn Store, key: &str, value: Value) {
    block_on(store.put(&key.parse().unwrap(), Expect::Anything, value, true)).unwrap();
}

fn memory(project: &Project) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(10_000, project.clock.clone()))
}

fn copy<'a>(from: &'a dyn Store, to: &'a dyn Store, clock: &'a dyn Clock) -> Copy<'a> {
    Copy { from, to, clock, dry_run: false, overwrite: false }
}

fn run(copy: &Copy<'_>) -> Result<CopyReport> {
    block_on(copy.run(&mut |_| {}))
}

fn lines(store: &dyn Store, order: Order) -> Vec<String> {
    let mut messages = block_on(store.scan(Query { order, ..Query::default() })).unwrap().messages;
    let next = |messages: &mut _| block_on(next_message(messages, &mut |_| {})).unwrap();
    std::iter::from_fn(|| next(&mut messages).map(|delivery| delivery.line().to_string())).collect()
}

/// The records that are not local, without what each store says about its own layout.
fn records(store: &dyn Store) -> Vec<(RecordKey, Value)> {
    let mut listed = block_on(store.list("")).unwrap();
    let next = |listed: &mut _| block_on(next_record(listed)).unwrap();
    let bare = |mut record: Record| {
        if record.key == RecordKey::project() {
            record.value.as_object_mut().unwrap().shift_remove("format");
        }
        (record.key, record.value)
    };
    std::iter::from_fn(|| next(&mut listed).map(bare)).collect()
}

#[track_caller]
fn assert_equal(one: &dyn Store, two: &dyn Store) {
    assert_eq!(lines(one, Order::Ascending), lines(two, Order::Ascending));
    assert_eq!(lines(one, Order::Arrival), lines(two, Order::Arrival));
    assert_eq!(records(one), records(two));
    assert_eq!(block_on(two.get(&marker::KEY.parse().unwrap())).unwrap(), None, "the marker is still there");
}

fn files(directory: &tempfile::TempDir, clock: &Arc<ManualClock>) -> FilesStore {
    let mut options = FilesOptions::new(directory.path());
    options.clock = clock.clone();
    FilesStore::open(options).unwrap()
}

#[test]
fn everything_is_copied_and_the_caches_are_not() {
    let project = project();
    put(&*project.store, "presence/host/bob", json!({"here": true}));
    let tally = block_on(project.store.get(&RecordKey::tally(&"bob".parse().unwrap()))).unwrap();
    assert!(tally.is_some(), "there is a cache to leave behind");
    let to = memory(&project);
    let report = run(&copy(&*project.store, &*to, &*project.clock)).unwrap();
    assert!(report.verified && !report.resumed, "{report:?}");
    assert_eq!((report.messages.total, report.messages.written, report.only_in_target), (3, 3, 0));
    assert_eq!(report.records.total, report.records.written);
    assert_equal(&*project.store, &*to);
    let keys: Vec<String> = records(&*to).into_iter().map(|(key, _)| key.to_string()).collect();
    for key in ["agents/alice", "horizon", "leases", "of-a-plugin/x", "project"] {
        assert!(keys.iter().any(|found| found == key), "{key} is not in {keys:?}");
    }
    assert!(keys.iter().any(|key| key.starts_with("tombstones/")), "{keys:?}");
    let local = block_on(block_on(to.list("")).unwrap().collect::<Vec<_>>());
    assert!(local.into_iter().all(|record| !is_local(&record.unwrap().key)));
}

#[test]
fn receipts_read_the_same_in_the_copy() {
    let project = project();
    let to = memory(&project);
    run(&copy(&*project.store, &*to, &*project.clock)).unwrap();
    let copied = Operations::new(to, project.clock.clone());
    for line in lines(&*project.store, Order::Ascending) {
        let id = serde_json::from_str::<Value>(&line).unwrap()["id"].as_str().unwrap().to_string();
        let asked = || Request::Receipt(ReceiptRequest { id: id.clone() });
        let before = project.call("alice", asked()).unwrap().head;
        assert_eq!(block_on(fmail_api::Client::call(&copied, &context("alice"), asked())).unwrap().head, before);
    }
}

#[test]
fn files_to_memory_to_other_files_and_back_is_the_same() {
    let project = project();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two, middle) = (files(&first, &project.clock), files(&second, &project.clock), memory(&project));
    let stores: [&dyn Store; 4] = [&*project.store, &one, &*middle, &two];
    for pair in stores.windows(2) {
        let report = run(&copy(pair[0], pair[1], &*project.clock)).unwrap();
        assert!(report.verified, "{report:?}");
        assert_equal(&*project.store, pair[1]);
    }
    let again = run(&copy(&two, &one, &*project.clock)).unwrap();
    assert_eq!((again.messages.written, again.records.written, again.verified), (0, 0, true));
}

#[test]
fn a_copy_that_was_used_can_be_copied_back() {
    let project = project();
    let to = memory(&project);
    run(&copy(&*project.store, &*to, &*project.clock)).unwrap();
    let used = Project {
        store: to.clone(),
        clock: project.clock.clone(),
        operations: Operations::new(to, project.clock.clone()),
    };
    let id = used.send("alice", "@bob", "later").message.id;
    mark(&used, Mark::Read, id.to_string());
    let back = run(&copy(&*used.store, &*project.store, &*project.clock)).unwrap();
    assert!(back.verified, "{back:?}");
    assert_eq!(back.messages.written, 1);
    assert_equal(&*used.store, &*project.store);
    let counted = |project: &Project| project.call("bob", Request::Count).unwrap().head;
    assert_eq!(counted(&used), counted(&project), "a stale cache was left behind");
}

#[test]
fn a_copy_that_was_cut_off_anywhere_goes_on_and_is_whole() {
    let project = project();
    for step in 0.. {
        let to = memory(&project);
        let failing = Failing::new(to.clone(), Fails::From(step));
        let cut = run(&copy(&*project.store, &failing, &*project.clock));
        let Err(error) = cut else {
            assert!(step > 20, "only {step} steps");
            return;
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let report = run(&copy(&*project.store, &*to, &*project.clock)).unwrap();
        assert!(report.verified, "after {step}: {report:?}");
        assert_equal(&*project.store, &*to);
    }
}

#[test]
fn a_source_that_fails_anywhere_leaves_a_copy_that_goes_on() {
    let project = project();
    for step in 0.. {
        let to = memory(&project);
        let failing = Failing::new(project.store.clone(), Fails::At(step));
        if run(&copy(&failing, &*to, &*project.clock)).is_ok() {
            assert!(step > 6, "only {step} steps");
            return;
        }
        assert!(run(&copy(&*project.store, &*to, &*project.clock)).unwrap().verified, "after {step}");
        assert_equal(&*project.store, &*to);
    }
}

/// Cuts a copy off right before its end: everything is there, and so is the marker.
fn cut_off_at_the_end(project: &Project, to: &Arc<MemoryStore>) {
    let whole = Failing::new(memory(project), Fails::Never);
    run(&copy(&*project.store, &whole, &*project.clock)).unwrap();
    let steps = whole.answers().load(std::sync::atomic::Ordering::SeqCst);
    let failing = Failing::new(to.clone(), Fails::From(steps - 1));
    assert!(run(&copy(&*project.store, &failing, &*project.clock)).is_err());
}

#[test]
fn what_changed_between_the_two_halves_of_a_copy_is_taken_over() {
    let project = project();
    let to = memory(&project);
    cut_off_at_the_end(&project, &to);
    put(&*project.store, "of-a-plugin/x", json!({"kept": "still"}));
    put(&*project.store, "of-a-plugin/y", json!(2));
    project.send("bob", "task", "meanwhile");
    let report = run(&copy(&*project.store, &*to, &*project.clock)).unwrap();
    assert!(report.verified && report.resumed, "{report:?}");
    assert_equal(&*project.store, &*to);
}

#[test]
fn a_record_that_went_between_the_two_halves_of_a_copy_goes_there_too() {
    let project = project();
    let to = memory(&project);
    cut_off_at_the_end(&project, &to);
    block_on(project.store.delete(&"of-a-plugin/x".parse().unwrap(), Expect::Anything)).unwrap();
    assert!(run(&copy(&*project.store, &*to, &*project.clock)).unwrap().verified);
    assert_equal(&*project.store, &*to);
}

#[test]
fn an_unfinished_copy_is_neither_a_source_nor_the_target_of_another() {
    let project = project();
    let to = memory(&project);
    cut_off_at_the_end(&project, &to);
    let error = run(&copy(&*to, &*memory(&project), &*project.clock)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("not finished"), "{error}");
    let error = block_on(export(&*to, &*project.clock, &mut Vec::new(), &mut |_| {})).unwrap_err();
    assert!(error.to_string().contains("not finished"), "{error}");
    put(&*to, marker::KEY, json!({"from": "another", "started": project.now()}));
    let error = run(&copy(&*project.store, &*to, &*project.clock)).unwrap_err();
    assert!(error.to_string().contains("`another`"), "{error}");
}

#[test]
fn a_record_of_somebody_else_is_a_conflict_and_nothing_is_written() {
    let project = project();
    let to = memory(&project);
    put(&*to, "of-a-plugin/x", json!("mine"));
    let error = run(&copy(&*project.store, &*to, &*project.clock)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error.to_string().contains("of-a-plugin/x") && error.help_text().unwrap().contains("--overwrite"),
        "{error:?}"
    );
    assert!(lines(&*to, Order::Ascending).is_empty());
    assert_eq!(records(&*to).len(), 1);
    let overwriting = Copy { overwrite: true, ..copy(&*project.store, &*to, &*project.clock) };
    assert!(run(&overwriting).unwrap().verified);
    assert_equal(&*project.store, &*to);
}

#[test]
fn an_id_that_means_another_message_there_is_refused_before_anything_is_written() {
    let project = project();
    let first = lines(&*project.store, Order::Ascending).remove(0);
    let mut other: fmail_api::Message = serde_json::from_str(&first).unwrap();
    other.body = "another".into();
    let to = memory(&project);
    assert_eq!(block_on(to.import(other.clone())).unwrap(), Imported::New);
    let error = run(&copy(&*project.store, &*to, &*project.clock)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&other.id.to_string()), "{error}");
    assert_eq!(lines(&*to, Order::Ascending), [other.to_line()]);
    assert!(records(&*to).is_empty());
}

#[test]
fn a_message_that_does_not_fit_is_refused_before_anything_is_written() {
    let project = project();
    project.send("alice", "task", "x".repeat(5_000));
    let to = MemoryStore::new(1_000, project.clock.clone());
    let error = run(&copy(&*project.store, &to, &*project.clock)).unwrap_err();
    assert!(error.to_string().contains("1000 bytes"), "{error}");
    let behind = ManualClock::new();
    let early = MemoryStore::new(10_000, behind.clone());
    let error = run(&copy(&*project.store, &early, &*behind)).unwrap_err();
    assert!(error.to_string().contains("in the future"), "{error}");
    let swept = memory(&project);
    put(&*swept, "horizon", json!({"before": project.now().after(Duration::from_secs(60))}));
    let error = run(&copy(&*project.store, &*swept, &*project.clock)).unwrap_err();
    assert!(error.to_string().contains("swept away"), "{error}");
    for store in [&to as &dyn Store, &early, &*swept] {
        assert!(lines(store, Order::Ascending).is_empty());
    }
}

#[test]
fn a_dry_run_counts_and_writes_nothing() {
    let project = project();
    let to = memory(&project);
    let report = run(&Copy { dry_run: true, ..copy(&*project.store, &*to, &*project.clock) }).unwrap();
    assert!(report.dry_run && !report.verified);
    assert_eq!((report.messages.total, report.messages.written), (3, 3));
    assert!(lines(&*to, Order::Ascending).is_empty());
    assert!(block_on(block_on(to.list("")).unwrap().collect::<Vec<_>>()).is_empty());
}

fn exported(project: &Project, store: &dyn Store) -> String {
    let mut file = Vec::new();
    block_on(export(store, &*project.clock, &mut file, &mut |_| {})).unwrap();
    String::from_utf8(file).unwrap()
}

fn import<'a>(to: &'a dyn Store, project: &'a Project) -> Import<'a> {
    Import { to, clock: &*project.clock, no_records: false, skip_bad: false, partial: false, overwrite: false }
}

fn take_in(import: &Import<'_>, file: &str) -> Result<ImportReport> {
    block_on(import.check(file.as_bytes(), &mut |_| {}))?;
    block_on(import.run(file.as_bytes(), &mut |_| {}))
}

#[test]
fn an_export_that_is_imported_exports_the_same_bytes() {
    let project = project();
    let file = exported(&project, &*project.store);
    let to = memory(&project);
    let report = take_in(&import(&*to, &project), &file).unwrap();
    assert_eq!((report.new, report.duplicate, report.refused), (3, 0, 0));
    assert_equal(&*project.store, &*to);
    assert_eq!(exported(&project, &*to), file);
    let again = take_in(&import(&*to, &project), &file).unwrap();
    assert_eq!((again.new, again.duplicate, again.records_written), (0, 3, 0));
}

#[test]
fn an_export_is_imported_into_files_that_would_have_another_name() {
    let project = project();
    let directory = tempfile::tempdir().unwrap();
    let to = files(&directory, &project.clock);
    take_in(&import(&to, &project), &exported(&project, &*project.store)).unwrap();
    assert_equal(&*project.store, &to);
}

#[test]
fn an_export_that_was_cut_off_anywhere_is_refused() {
    let project = project();
    let file = exported(&project, &*project.store);
    let to = memory(&project);
    for end in 1..file.len() - 1 {
        if file.is_char_boundary(end) {
            let refused = take_in(&import(&*to, &project), &file[..end]);
            assert!(refused.is_err(), "{end} of {} bytes", file.len());
        }
    }
    assert!(lines(&*to, Order::Ascending).is_empty());
    let lines_of_it: Vec<&str> = file.lines().collect();
    let half = format!("{}\n", lines_of_it[..3].join("\n"));
    let error = take_in(&import(&*to, &project), &half).unwrap_err();
    assert!(error.to_string().contains("cut off") && error.help_text().unwrap().contains("--partial"), "{error:?}");
    let report = take_in(&Import { partial: true, ..import(&*to, &project) }, &half).unwrap();
    assert_eq!(report.new, 2);
}

#[test]
fn a_changed_byte_is_noticed() {
    let project = project();
    let file = exported(&project, &*project.store).replace("first", "worst");
    let error = take_in(&import(&*memory(&project), &project), &file).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn a_bad_line_is_named_and_nothing_is_written_unless_it_may_be_passed_over() {
    let project = project();
    let good = |number: u32| json!({"id": format!("20260110-153000-000{number}"), "from": "a", "to": "task", "time": "2026-01-10T15:30:00Z", "body": number});
    let file = format!("{}\n\n{{\"from\":\"a\"}}\n{}\nnonsense\n", good(1), good(2));
    let to = memory(&project);
    let plain = import(&*to, &project);
    let error = take_in(&plain, &file).unwrap_err();
    assert!(error.to_string().starts_with("line 3: the message has no `id`"), "{error}");
    assert!(lines(&*to, Order::Ascending).is_empty());
    let skipping = Import { skip_bad: true, ..plain };
    let checked = block_on(skipping.check(file.as_bytes(), &mut |_| {})).unwrap();
    assert_eq!((checked.bad_count, checked.messages.written), (2, 2));
    assert!(checked.bad[1].starts_with("line 5: this is not JSON"), "{:?}", checked.bad);
    let report = take_in(&skipping, &file).unwrap();
    assert_eq!((report.new, report.bad), (2, 2));
}

#[test]
fn an_id_that_is_taken_is_refused_with_records_and_moved_without() {
    let project = project();
    let file = exported(&project, &*project.store);
    let to = memory(&project);
    let mut other: fmail_api::Message = serde_json::from_str(&lines(&*project.store, Order::Ascending)[0]).unwrap();
    other.body = "another".into();
    block_on(to.import(other)).unwrap();
    let error = take_in(&import(&*to, &project), &file).unwrap_err();
    assert!(error.to_string().starts_with("line 2: another message has the id"), "{error}");
    // The new id is of now, and not one that a later line has.
    project.clock.advance(Duration::from_secs(1));
    let report = take_in(&Import { no_records: true, ..import(&*to, &project) }, &file).unwrap();
    assert_eq!((report.new, report.relocated, report.records_written), (2, 1, 0));
}

#[test]
fn a_form_that_is_not_known_is_refused() {
    let project = Project::new();
    let file = "{\"fmail_export\":2,\"exported\":\"2026-01-10T15:30:00Z\"}\n";
    let error: Error = take_in(&import(&*project.store, &project), file).unwrap_err();
    assert!(error.to_string().contains("form 2"), "{error}");
}

#[test]
fn a_message_may_be_nested_as_deeply_in_an_export_as_in_a_store() {
    let project = Project::new();
    let body: Value = serde_json::from_str(&format!("{}{}", "[".repeat(MAX_NESTING), "]".repeat(MAX_NESTING))).unwrap();
    project.send("alice", "task", body);
    let to = memory(&project);
    take_in(&import(&*to, &project), &exported(&project, &*project.store)).unwrap();
    assert_equal(&*project.store, &*to);
}
