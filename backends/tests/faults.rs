//! Every operation of the seam fails in turn, and a process ends in front of each: a clear error or a true success,
//! nothing half visible, the lock free, and the next command works.

mod common;

use std::sync::Arc;

use common::{
    EROFS, ERRORS, Fault, FaultFs, HandClock, Project, Random, Step, all, arrivals, bodies, draft, scan, send, try_scan,
};
use fmail_api::{Draft, ErrorKind, Expect, Message, Query, RecordKey, Result, Selection, Store, Timestamp};
use fmail_backends::{FilesOptions, FilesStore};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::json;

/// One kind of append: what is there before, and what is sent.
struct Sending {
    name: &'static str,
    before: fn(&Project),
    draft: fn() -> Draft,
}

fn nothing(_: &Project) {}

fn two_messages(project: &Project) {
    let store = project.store();
    send(&store, "task", "one");
    send(&store, "@bob", "two");
}

fn two_recipients() -> Draft {
    let mut draft = draft("task", "interrupted");
    draft.more.recipients.push("@bob".parse().unwrap());
    draft
}

fn with_key() -> Draft {
    Draft { key: Some("once".into()), ..draft("task", "interrupted") }
}

fn damaged_index(project: &Project) {
    two_messages(project);
    std::fs::remove_file(project.path("index")).unwrap();
}

fn foreign_file(project: &Project) {
    two_messages(project);
    project.plant("topics/task/20260110-153000-0001.json", r#"{"from":"jq","body":"three"}"#);
}

const SENDINGS: [Sending; 7] = [
    Sending { name: "to an existing topic", before: two_messages, draft: || draft("task", "interrupted") },
    Sending { name: "to a new topic", before: two_messages, draft: || draft("build", "interrupted") },
    Sending { name: "the first of a project", before: nothing, draft: || draft("task", "interrupted") },
    Sending { name: "to two recipients", before: two_messages, draft: two_recipients },
    Sending { name: "with a key", before: two_messages, draft: with_key },
    Sending { name: "with the index gone", before: damaged_index, draft: || draft("task", "interrupted") },
    Sending { name: "beside a foreign file", before: foreign_file, draft: || draft("task", "interrupted") },
];

/// How many operations go through the seam, and which.
fn operations(sending: &Sending) -> Vec<&'static str> {
    let project = Project::in_memory();
    (sending.before)(&project);
    let fs = FaultFs::new(Fault::None);
    block_on(project.store_on(fs.clone()).append((sending.draft)())).unwrap();
    fs.steps().iter().map(|step| step.operation).collect()
}

/// Checks the project behind an append that answered like this, through a fresh store and through the one that failed.
fn check_after(project: &Project, failed: Option<&FilesStore>, before: &[String], stored: Option<bool>, what: &str) {
    let expect = |fresh: &FilesStore, extra: &[&str]| {
        let messages = all(fresh);
        let mut found = bodies(&messages);
        let interrupted = found.iter().filter(|body| *body == "interrupted").count();
        match stored {
            Some(stored) => assert_eq!(interrupted, usize::from(stored), "{what}: the message itself"),
            None => assert!(interrupted <= 1, "{what}: the message is there {interrupted} times"),
        }
        found.retain(|body| body != "interrupted");
        let mut wanted: Vec<String> = before.to_vec();
        wanted.extend(extra.iter().map(|body| body.to_string()));
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "{what}: the others");
        let mut by_arrival: Vec<_> = arrivals(fresh).iter().map(|message| message.id).collect();
        by_arrival.sort_unstable();
        by_arrival.dedup();
        assert_eq!(by_arrival.len(), messages.len(), "{what}: by arrival");
        // What a scan says and what stands on disk is the same, file by file, and each file is whole.
        let places: usize = messages.iter().map(|message| message.targets().len()).sum();
        assert_eq!(project.files().len(), places, "{what}: files on disk {:?}", project.files().keys());
    };
    expect(&project.store(), &[]);
    let mut extra = vec!["next"];
    let next = send(&project.store(), "task", "next");
    expect(&project.store(), &extra);
    assert_eq!(project.names("tmp"), [] as [&str; 0], "{what}: left in tmp");
    if let Some(store) = failed {
        extra.push("again");
        let again = send(store, "task", "again");
        assert!(again.id > next.id, "{what}: {} after {}", again.id, next.id);
        expect(store, &extra);
        expect(&project.store(), &extra);
        let health = block_on(store.health()).unwrap();
        assert!(health.writable, "{what}: {}", health.detail);
    }
}

fn before(project: &Project) -> Vec<String> {
    project.files().values().map(|value| value["body"].as_str().unwrap().to_string()).collect()
}

/// Every way in which operation `number` can go wrong.
fn faults_at(number: usize) -> impl Iterator<Item = Fault> {
    ERRORS
        .iter()
        .flat_map(move |errno| [Fault::Fail(number, *errno), Fault::Tear(number, *errno)])
        .chain([Fault::Stop(number), Fault::StopWithin(number)])
}

#[test]
fn any_operation_of_an_append_may_fail() {
    let mut points = 0;
    for sending in &SENDINGS {
        let operations = operations(sending);
        println!("{}: {} operations", sending.name, operations.len());
        assert!(operations.len() > 10);
        for (number, operation) in operations.iter().enumerate() {
            for errno in ERRORS {
                for torn in [false, true] {
                    if torn && *operation != "write_at" {
                        continue;
                    }
                    let what = format!("{}: operation {number} ({operation}) errno {errno} torn {torn}", sending.name);
                    let project = Project::in_memory();
                    (sending.before)(&project);
                    let before = before(&project);
                    let fault = if torn { Fault::Tear(number, errno) } else { Fault::Fail(number, errno) };
                    let fs = FaultFs::new(fault);
                    let store = project.store_on(fs.clone());
                    let answer = block_on(store.append((sending.draft)()));
                    fs.set(Fault::None);
                    let stored = match &answer {
                        Ok(appended) => {
                            assert!(!appended.duplicate, "{what}");
                            true
                        }
                        Err(error) => {
                            let clear = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied);
                            assert!(clear, "{what}: {error:?}");
                            false
                        }
                    };
                    check_after(&project, Some(&store), &before, Some(stored), &what);
                    points += 1;
                }
            }
        }
    }
    println!("torture faults/appends fault_points={points}");
}

#[test]
fn a_process_may_end_in_front_of_any_operation_of_an_append() {
    let mut points = 0;
    for sending in &SENDINGS {
        let operations = operations(sending);
        for (number, operation) in operations.iter().enumerate() {
            for fault in [Fault::Stop(number), Fault::StopWithin(number)] {
                if matches!(fault, Fault::StopWithin(_)) && *operation != "write_at" {
                    continue;
                }
                let what = format!("{}: {fault:?} ({operation})", sending.name);
                let project = Project::in_memory();
                (sending.before)(&project);
                let before = before(&project);
                let store = project.store_on(FaultFs::new(fault));
                let answer = block_on(store.append((sending.draft)()));
                drop(store);
                // An answer that got out is true. Without one the message is whole or absent.
                let stored = answer.is_ok().then_some(true);
                check_after(&project, None, &before, stored, &what);
                points += 1;
            }
        }
    }
    println!("torture faults/ends fault_points={points}");
}

#[test]
fn a_key_is_remembered_wherever_the_first_sender_ended() {
    let sending = Sending { name: "with a key", before: two_messages, draft: with_key };
    for number in 0..operations(&sending).len() {
        let project = Project::in_memory();
        two_messages(&project);
        let interrupted = block_on(project.store_on(FaultFs::new(Fault::Stop(number))).append(with_key()));
        let stored = project.files().values().any(|value| value["body"] == "interrupted");
        let again = block_on(project.store().append(with_key())).unwrap();
        assert!(interrupted.is_err() || again.duplicate, "stopped at {number}: a second message for one key");
        assert_eq!(again.duplicate, stored, "stopped at {number}");
        let third = block_on(project.store().append(with_key())).unwrap();
        assert!(third.duplicate && third.message.id == again.message.id, "stopped at {number}");
        assert_eq!(bodies(&all(&project.store())).iter().filter(|body| *body == "interrupted").count(), 1);
    }
}

fn put(store: &dyn Store, status: &str) -> Result<fmail_api::Revision> {
    let key: RecordKey = "agents/alice".parse().unwrap();
    block_on(store.put(&key, Expect::Anything, json!({"name": "alice", "status": status}), true))
}

fn status(store: &dyn Store) -> Option<String> {
    let record = block_on(store.get(&"agents/alice".parse().unwrap())).unwrap()?;
    Some(record.value["status"].as_str().unwrap().to_string())
}

#[test]
fn any_operation_of_a_record_s_change_may_fail() {
    let count = {
        let project = Project::in_memory();
        put(&project.store(), "old").unwrap();
        let fs = FaultFs::new(Fault::None);
        put(&project.store_on(fs.clone()), "new").unwrap();
        fs.steps().len()
    };
    for number in 0..count {
        for fault in faults_at(number) {
            let what = format!("{fault:?}");
            let project = Project::in_memory();
            put(&project.store(), "old").unwrap();
            let fs = FaultFs::new(fault);
            let store = project.store_on(fs.clone());
            let answer = put(&store, "new");
            fs.set(Fault::None);
            let found = status(&project.store());
            if answer.is_ok() {
                assert_eq!(found.as_deref(), Some("new"), "{what}");
            } else {
                // A rename that could not be made durable has happened all the same: either whole, never mixed.
                assert!(matches!(found.as_deref(), Some("old" | "new")), "{what}: {found:?}");
            }
            put(&store, "next").unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(status(&project.store()).as_deref(), Some("next"), "{what}");
            assert_eq!(project.names("tmp"), [] as [&str; 0], "{what}");
        }
    }
}

fn old_and_new(project: &Project) {
    for number in 1..=3 {
        project.plant(
            &format!("topics/task/20200110-153000-000{number}.json"),
            &format!(r#"{{"from":"jq","to":"task","time":"2020-01-10T15:30:00Z","body":"old {number}"}}"#),
        );
    }
    project.plant(
        "dm/bob/20200110-153000-0004.json",
        r#"{"from":"jq","to":"@bob","time":"2020-01-10T15:30:00Z","body":"old 4"}"#,
    );
    let store = project.store();
    send(&store, "task", "new 1");
    send(&store, "@bob", "new 2");
    assert_eq!(all(&store).len(), 6);
}

/// Removes everything before 2021, and says what was told before the first error.
fn sweep(store: &dyn Store) -> (usize, Result<()>) {
    let before: Timestamp = "2021-01-01".parse().unwrap();
    let selection = Selection { before: Some(before), ..Selection::default() };
    block_on(async {
        let mut told = 0;
        let mut removed = match store.remove(selection).await {
            Ok(removed) => removed,
            Err(error) => return (0, Err(error)),
        };
        while let Some(item) = removed.next().await {
            match item {
                Ok(_) => told += 1,
                Err(error) => return (told, Err(error)),
            }
        }
        (told, Ok(()))
    })
}

#[test]
fn any_operation_of_a_removal_may_fail() {
    let count = {
        let project = Project::in_memory();
        old_and_new(&project);
        let fs = FaultFs::new(Fault::None);
        assert_eq!(sweep(&project.store_on(fs.clone())).0, 4);
        fs.steps().len()
    };
    for number in 0..count {
        for fault in faults_at(number) {
            let project = Project::in_memory();
            old_and_new(&project);
            let fs = FaultFs::new(fault);
            let store = project.store_on(fs.clone());
            let (_, answer) = sweep(&store);
            let what = format!("{fault:?} (of {count}, {:?})", fs.steps().get(number));
            fs.set(Fault::None);
            if let Err(error) = &answer {
                assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied), "{what}: {error:?}");
            }
            // Whatever was not removed is still there and whole, as the directories say.
            let left = project.files().len();
            assert_eq!(all(&project.store()).len(), left, "{what}");
            if answer.is_ok() {
                assert_eq!(left, 2, "{what}: told that all was removed");
            }
            send(&store, "task", "next");
            assert_eq!(sweep(&store).0, left - 2, "{what}: the second sweep");
            let mut found = bodies(&all(&project.store()));
            found.sort();
            assert_eq!(found, ["new 1", "new 2", "next"], "{what}");
            assert_eq!(bodies(&all(&store)).len(), 3, "{what}: through the store that failed");
            let summary = block_on(project.store().summary(Query::default())).unwrap();
            let counts: Vec<u64> = summary.targets.iter().map(|target| target.messages).collect();
            assert_eq!(counts.iter().sum::<u64>(), 3, "{what}: {summary:?}");
        }
    }
}

#[test]
fn a_read_that_fails_says_so_and_shows_no_shorter_list() {
    type Prepare = fn(&Project);
    let in_step = ("in step", two_messages as Prepare, 2);
    for (name, before, count) in [in_step, ("index gone", damaged_index, 2), ("foreign file", foreign_file, 3)] {
        let steps = {
            let project = Project::in_memory();
            before(&project);
            let fs = FaultFs::new(Fault::None);
            assert_eq!(all(&project.store_on(fs.clone())).len(), count);
            fs.steps()
        };
        for (number, step) in steps.iter().enumerate() {
            for errno in ERRORS {
                let what = format!("{name}: operation {number} of {} ({step:?}) errno {errno}", steps.len());
                let project = Project::in_memory();
                before(&project);
                let fs = FaultFs::new(Fault::Fail(number, errno));
                let store = project.store_on(fs.clone());
                if let Ok(found) = try_scan(&store, Query::default()) {
                    assert_eq!(found.len(), count, "{what}: a shorter list without an error");
                }
                fs.set(Fault::None);
                assert_eq!(all(&store).len(), count, "{what}: the next look of the same store");
                assert_eq!(all(&project.store()).len(), count, "{what}: another store");
                send(&store, "task", "next");
                assert_eq!(all(&store).len(), count + 1, "{what}: after a send");
            }
        }
    }
}

#[test]
fn data_is_synced_before_its_name_and_the_name_before_the_answer() {
    for sending in &SENDINGS {
        let project = Project::in_memory();
        (sending.before)(&project);
        let fs = FaultFs::new(Fault::None);
        let store = project.store_on(fs.clone());
        block_on(store.append((sending.draft)())).unwrap();
        let steps = fs.steps();
        let last = |operation: &str, inode: u64| {
            steps.iter().rposition(|step| step.operation == operation && step.inode == inode)
        };
        let mut links = 0;
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.operation == "link") {
            links += 1;
            let synced = steps[..at].iter().rposition(|s| s.operation == "sync_data" && s.inode == step.inode);
            let written = last("write_at", step.inode).expect("the message is written through the seam");
            let synced = synced.unwrap_or_else(|| panic!("{}: linked without a sync of its data", sending.name));
            assert!(written < synced, "{}: written again after the sync", sending.name);
            let named = last("sync_dir", step.other);
            assert!(named.is_some_and(|named| named > at), "{}: the name is not synced", sending.name);
        }
        assert_eq!(links, (sending.draft)().into_message(fmail_api::MessageId::MIN, any_time()).targets().len());
        // Every directory that was made is synced into its parent before the answer.
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.operation == "make_dir") {
            let named = last("sync_dir", step.inode);
            assert!(named.is_some_and(|named| named > at), "{}: {} is not synced", sending.name, step.name);
        }
        // A file that is put in place by a rename is synced before, and its name after.
        for (at, step) in steps.iter().enumerate().filter(|(_, s)| s.operation == "rename" && s.name != "index") {
            let synced = steps[..at].iter().any(|s| s.operation == "sync_data" && s.inode == step.inode);
            assert!(synced, "{}: {} is renamed without a sync", sending.name, step.name);
            let named = last("sync_dir", step.other);
            assert!(named.is_some_and(|named| named > at), "{}: {} is not synced", sending.name, step.name);
        }
    }
}

/// Any time; only the targets of the message matter.
fn any_time() -> Timestamp {
    Timestamp::from_unix(0, 0)
}

#[test]
fn a_duplicate_is_synced_before_it_is_answered() {
    let project = Project::in_memory();
    block_on(project.store().append(with_key())).unwrap();
    let fs = FaultFs::new(Fault::None);
    let again = block_on(project.store_on(fs.clone()).append(with_key())).unwrap();
    assert!(again.duplicate);
    assert!(
        fs.steps().iter().any(|step| step.operation == "sync_dir"),
        "the first sender may have died before its sync"
    );
}

#[test]
fn a_failed_sync_of_the_directory_is_its_own_answer() {
    let project = Project::in_memory();
    two_messages(&project);
    let fs = FaultFs::new(Fault::None);
    block_on(project.store_on(fs.clone()).append(draft("task", "interrupted"))).unwrap();
    let at = fs.steps().iter().rposition(|step| step.operation == "sync_dir").unwrap();
    let answer = block_on(project.store_on(FaultFs::new(Fault::Fail(at, common::EIO))).append(draft("task", "second")));
    let answer = answer.unwrap();
    assert!(answer.not_durable.is_some_and(|reason| reason.contains("synced")));
    let found: Vec<Arc<Message>> =
        scan(&project.store(), Query { ids: [answer.message.id].into(), ..Query::default() });
    assert_eq!(bodies(&found), ["second"]);
}

/// Damages the index somewhere, and says how.
fn damage(path: &std::path::Path, random: &mut Random) -> String {
    let mut bytes = std::fs::read(path).unwrap();
    let at = random.below(bytes.len() as u64) as usize;
    let how = match random.below(5) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            let end = (at + 64).min(bytes.len());
            bytes[at..end].fill(0);
            format!("zeros from {at} to {end}")
        }
        2 => {
            bytes.extend_from_slice(&[7; 40]);
            "40 bytes more".into()
        }
        _ => {
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
    };
    std::fs::write(path, bytes).unwrap();
    how
}

#[test]
fn a_damaged_index_loses_nothing() {
    let given = std::env::var("FMAIL_TEST_SEED").ok().map(|seed| seed.parse().expect("FMAIL_TEST_SEED is a number"));
    let seed: u64 = given.unwrap_or(0x5eed_0001).max(1);
    let mut random = Random(seed);
    let rounds = if std::env::var_os("FMAIL_TEST_FULL").is_some() { 3_000 } else { 300 };
    let project = Project::in_memory();
    let store = project.store();
    for number in 0..40 {
        send(&store, ["task", "build", "@bob"][number % 3], &format!("message {number}"));
    }
    let keyed = block_on(store.append(with_key())).unwrap().message;
    let old = project.path("index");
    let mut expected = bodies(&all(&store)).len();
    for round in 0..rounds {
        // Most bytes of a small index are the two tables of buckets; half of the damage goes behind and before them.
        let how = damage(&old, &mut random);
        let what = format!("seed {seed:#x}, round {round}: {how}");
        let fresh = project.store();
        if round % 2 == 0 {
            assert_eq!(all(&fresh).len(), expected, "{what}: a reader");
            assert_eq!(arrivals(&fresh).len(), expected, "{what}: a reader by arrival");
        } else {
            let again = block_on(fresh.append(with_key())).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert!(again.duplicate && again.message.id == keyed.id, "{what}: the key");
            send(&fresh, "task", &format!("round {round}"));
            expected += 1;
        }
        let mut targets = Vec::new();
        for target in ["task", "build", "@bob"] {
            targets.extend(scan(&project.store(), Query::target(target.parse().unwrap())));
        }
        assert_eq!(targets.len(), expected, "{what}: target by target");
        assert_eq!(all(&project.store()).len(), expected, "{what}: everything");
        let summary = block_on(project.store().summary(Query::default())).unwrap();
        assert_eq!(summary.targets.iter().map(|target| target.messages).sum::<u64>(), expected as u64, "{what}");
        assert_eq!(project.files().len(), expected, "{what}: files");
    }
    println!("torture faults/damage seed={seed} damages={rounds}");
}

/// A rebuild that cannot read a message knows its id all the same: the file is named by it.
#[test]
fn the_id_of_a_message_that_a_rebuild_cannot_read_is_not_given_again() {
    let clock = HandClock::at("2026-01-10T15:30:00Z");
    let project = Project::in_memory();
    let store =
        |fs: Arc<FaultFs>| FilesStore::open(FilesOptions { fs, clock: clock.clone(), ..project.options() }).unwrap();
    let whole = store(FaultFs::new(Fault::None));
    let ids = [send(&whole, "task", "one").id, send(&whole, "@bob", "two").id];
    let sent_with = |fault| {
        std::fs::remove_file(project.path("index")).unwrap();
        let fs = FaultFs::new(fault);
        (send(&store(fs.clone()), "task", "later").id, fs.steps())
    };
    let (first, steps) = sent_with(Fault::None);
    std::fs::remove_file(project.path(&format!("topics/task/{first}.json"))).unwrap();
    let read = |step: &Step| step.operation == "open_dir" && step.name == "bob";
    let (third, _) = sent_with(Fault::Fail(steps.iter().rposition(read).unwrap(), EROFS));
    assert!(!ids.contains(&third), "{third} is among {ids:?}");
}
