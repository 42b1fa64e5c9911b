//! Appends and imports that come at the same time: one group, one hold of the lock, and for each message its own verdict. Every
//! operation of a group fails in turn, panics in turn, and a process ends in front of each.

#[path = "../common/mod.rs"]
mod common;
mod imports;
mod journaled;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{ERRORS, Fault, FaultFs, HandClock, Project, Step, all, arrivals, bodies, draft, send};
use fmail_api::{Appended, Draft, ErrorKind, Event, Imported, Message, MessageId, Query, Result, Store};
use fmail_backends::{FilesOptions, FilesStore, JournalOptions};
use futures::StreamExt;
use futures::executor::block_on;

/// What one caller of a group got: an answer, or nothing because its thread panicked.
type Answer = Option<Result<Appended>>;

fn two_messages() -> Project {
    let project = Project::in_memory();
    let store = project.store();
    send(&store, "task", "before 1");
    send(&store, "@bob", "before 2");
    project
}

/// Five messages: to a known topic, to a new one, to two mailboxes, with a key, and direct.
fn five() -> Vec<Draft> {
    let mut two = draft("task", "group 2");
    two.more.recipients.push("@bob".parse().unwrap());
    let keyed = Draft { key: Some("once".into()), ..draft("task", "group 3") };
    vec![draft("task", "group 0"), draft("build", "group 1"), two, keyed, draft("@bob", "group 4")]
}

fn patient_store(project: &Project, fs: Arc<FaultFs>) -> FilesStore {
    FilesStore::open(FilesOptions { fs, lock_timeout: Duration::from_secs(60), ..project.options() }).unwrap()
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_micros(50));
    }
}

/// Counts a caller as finished, also when it panics.
struct Finished<'a>(&'a AtomicUsize);

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Appends all of these as one group, in this order: somebody else holds the lock until all of them wait for it.
fn append_together(project: &Project, fault: Fault, drafts: Vec<Draft>) -> (FilesStore, Arc<FaultFs>, Vec<Answer>) {
    let fs = FaultFs::new(fault);
    let store = patient_store(project, fs.clone());
    let answers = append_together_to(project, &store, &fs, drafts);
    (store, fs, answers)
}

fn append_together_to(project: &Project, store: &FilesStore, fs: &FaultFs, drafts: Vec<Draft>) -> Vec<Answer> {
    together(project, store, fs, drafts.into_iter().map(|draft| move || block_on(store.append(draft))).collect())
}

/// Runs all of these on the store as one group, in this order.
fn together<T: Send>(
    project: &Project,
    store: &FilesStore,
    fs: &FaultFs,
    jobs: Vec<impl FnOnce() -> T + Send>,
) -> Vec<Option<T>> {
    let lock = File::options().read(true).write(true).open(project.path("lock")).unwrap();
    lock.lock().unwrap();
    let inode = lock.metadata().unwrap().ino();
    let waits = |steps: Vec<Step>| steps.iter().filter(|s| s.operation == "lock" && s.inode == inode).count() >= 2;
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        let count = &count;
        let mut callers = Vec::new();
        for (number, job) in jobs.into_iter().enumerate() {
            callers.push(scope.spawn(move || {
                let _finished = Finished(count);
                job()
            }));
            let finished = || count.load(Ordering::SeqCst);
            until(|| store.waiting_appends() + finished() > number);
            if number == 0 {
                // The first one has begun before the others come, so that the operations are the same each time.
                until(|| finished() > 0 || waits(fs.steps()));
            }
        }
        lock.unlock().unwrap();
        callers.into_iter().map(|caller| caller.join().ok()).collect()
    })
}

fn steps_of_five() -> Vec<Step> {
    let project = two_messages();
    let (_, fs, answers) = append_together(&project, Fault::None, five());
    assert!(answers.iter().all(|answer| matches!(answer, Some(Ok(_)))), "{answers:?}");
    fs.steps()
}

/// What is on disk, what a scan says and what was answered agree; and the next append works.
fn check(project: &Project, store: Option<&FilesStore>, answers: &[Answer], certain: bool, what: &str) {
    let check_now = |reader: &FilesStore, others: usize| {
        let messages = all(reader);
        let found = bodies(&messages);
        for (number, answer) in answers.iter().enumerate() {
            let copies = found.iter().filter(|body| **body == format!("group {number}")).count();
            match answer {
                Some(Ok(appended)) => {
                    assert!(!appended.duplicate, "{what}: {number} is called a duplicate");
                    assert_eq!(copies, 1, "{what}: message {number} was answered");
                }
                Some(Err(error)) if certain => assert_eq!(copies, 0, "{what}: message {number} failed: {error:?}"),
                _ => assert!(copies <= 1, "{what}: message {number} is there {copies} times"),
            }
        }
        assert_eq!(found.iter().filter(|body| !body.starts_with("group")).count(), 2 + others, "{what}: the others");
        let places: usize = messages.iter().map(|message| message.targets().len()).sum();
        assert_eq!(project.files().len(), places, "{what}: files on disk {:?}", project.files().keys());
        let arrived: Vec<_> = arrivals(reader).iter().map(|message| message.id).collect();
        assert_eq!(arrived.len(), messages.len(), "{what}: by arrival");
        assert!(arrived.is_sorted(), "{what}: ids do not arrive in ascending order: {arrived:?}");
    };
    check_now(&project.store(), 0);
    send(&project.store(), "task", "next");
    check_now(&project.store(), 1);
    assert_eq!(project.names("tmp"), [] as [&str; 0], "{what}: left in tmp");
    if let Some(store) = store {
        send(store, "task", "again");
        check_now(store, 2);
        assert_eq!(store.waiting_appends(), 0, "{what}: somebody still waits");
    }
}

#[test]
fn messages_of_one_caller_are_one_group_and_each_has_its_own_verdict() {
    let project = two_messages();
    let store = FilesStore::open(FilesOptions { max_message_bytes: 1_000, ..project.options() }).unwrap();
    let again = Draft { key: Some("once".into()), ..draft("task", "group 5") };
    let drafts = [five(), vec![draft("task", &"x".repeat(2_000)), again]].concat();
    let answers = block_on(store.append_many(drafts));
    assert_eq!(answers[5].as_ref().unwrap_err().kind(), ErrorKind::TooLarge);
    let stored: Vec<&Message> = answers[..5].iter().map(|answer| &*answer.as_ref().unwrap().message).collect();
    assert!(stored.is_sorted_by(|one, next| one.id < next.id));
    assert!(stored.iter().enumerate().all(|(n, message)| message.body == format!("group {n}")));
    let repeated = answers[6].as_ref().unwrap();
    assert!(repeated.duplicate && repeated.message.id == stored[3].id);
}

#[test]
fn callers_with_more_than_a_group_holds_get_all_their_answers_in_order() {
    let project = two_messages();
    let store = patient_store(&project, FaultFs::new(Fault::None));
    let all: Vec<Vec<MessageId>> = thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                let store = &store;
                scope.spawn(move || {
                    let drafts = (0..150).map(|n| draft("task", &format!("{caller}/{n}"))).collect();
                    let answers = block_on(store.append_many(drafts));
                    let stored = answers.into_iter().map(|answer| answer.unwrap().message).enumerate();
                    let check = |(n, message): (usize, Arc<Message>)| {
                        assert_eq!(message.body, format!("{caller}/{n}"));
                        message.id
                    };
                    stored.map(check).collect()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert!(all.iter().all(|ids| ids.len() == 150 && ids.is_sorted_by(|one, next| one < next)));
}

#[test]
fn a_group_takes_one_lock_and_syncs_each_directory_once() {
    let steps = steps_of_five();
    let count = |operation: &str| steps.iter().filter(|step| step.operation == operation).count();
    assert_eq!(count("link"), 6, "five messages, one of them in two mailboxes");
    assert_eq!(steps.iter().filter(|step| step.operation == "create" && step.name == "lock").count(), 1);
    let last = steps.iter().rposition(|step| step.operation == "link").unwrap();
    for link in steps.iter().filter(|step| step.operation == "link") {
        let synced = steps[last..].iter().filter(|step| step.operation == "sync_dir" && step.inode == link.other);
        assert_eq!(synced.count(), 1, "{} is made durable by one sync", link.name);
        let at = steps.iter().position(|step| step == link).unwrap();
        let content = |step: &Step| step.operation == "sync_data" && step.inode == link.inode;
        assert_eq!(steps[..at].iter().filter(|step| content(step)).count(), 1, "{}: synced before it", link.name);
        assert!(!steps[at..].iter().any(content), "{}: synced behind it", link.name);
    }
    // The state that commits is written once: slots, four mailboxes with their rows, a key, and the state.
    let index = steps.iter().rfind(|step| step.operation == "write_at").unwrap().inode;
    let announced = steps[last..].iter().filter(|step| step.operation == "write_at" && step.inode == index);
    assert_eq!(announced.count(), 1 + 3 + 1 + 1);
}

#[test]
fn any_operation_of_a_group_may_fail() {
    let steps = steps_of_five();
    println!("{} operations", steps.len());
    let locked = steps.iter().rposition(|step| step.operation == "lock").unwrap();
    let last_link = steps.iter().rposition(|step| step.operation == "link").unwrap();
    let mut points = 0;
    for (number, step) in steps.iter().enumerate() {
        for errno in ERRORS {
            for torn in [false, true] {
                if torn && step.operation != "write_at" {
                    continue;
                }
                let what = format!("operation {number} ({} {}) errno {errno} torn {torn}", step.operation, step.name);
                let project = two_messages();
                let fault = if torn { Fault::Tear(number, errno) } else { Fault::Fail(number, errno) };
                let (store, fs, answers) = append_together(&project, fault, five());
                fs.set(Fault::None);
                let failed: Vec<_> = answers.iter().flatten().filter_map(|answer| answer.as_ref().err()).collect();
                for error in &failed {
                    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied), "{what}: {error:?}");
                }
                let own = ["sync_data", "link"].contains(&step.operation)
                    || (step.operation == "create_new" && step.name.starts_with("message"));
                if own && number > locked {
                    assert_eq!(failed.len(), 1, "{what}: one file failed");
                }
                let uncertain: Vec<_> =
                    answers.iter().flatten().flatten().filter(|appended| appended.not_durable.is_some()).collect();
                if step.operation == "sync_dir" && number > last_link {
                    assert!(failed.is_empty() && !uncertain.is_empty() && uncertain.len() < 5, "{what}: {answers:?}");
                } else {
                    assert!(uncertain.is_empty(), "{what}: {answers:?}");
                }
                check(&project, Some(&store), &answers, true, &what);
                points += 1;
            }
        }
    }
    println!("torture faults/groups fault_points={points}");
}

#[test]
fn a_process_may_end_in_front_of_any_operation_of_a_group() {
    let steps = steps_of_five();
    let mut points = 0;
    for (number, step) in steps.iter().enumerate() {
        for fault in [Fault::Stop(number), Fault::StopWithin(number)] {
            if matches!(fault, Fault::StopWithin(_)) && step.operation != "write_at" {
                continue;
            }
            let what = format!("{fault:?} ({} {})", step.operation, step.name);
            let project = two_messages();
            let (store, _, answers) = append_together(&project, fault, five());
            drop(store);
            check(&project, None, &answers, false, &what);
            points += 1;
        }
    }
    println!("torture faults/group-ends fault_points={points}");
}

#[test]
fn a_panic_leaves_nobody_waiting() {
    let steps = steps_of_five();
    for (number, step) in steps.iter().enumerate() {
        let what = format!("panic in operation {number} ({} {})", step.operation, step.name);
        let project = two_messages();
        let (store, fs, answers) = append_together(&project, Fault::Panic(number), five());
        fs.set(Fault::None);
        check(&project, Some(&store), &answers, false, &what);
    }
}

#[test]
fn two_drafts_with_one_key_in_a_group_store_one_message() {
    let keyed = |body: &str| Draft { key: Some("same".into()), ..draft("task", body) };
    let drafts = || vec![draft("task", "group 0"), keyed("group 1"), keyed("second"), keyed("third")];
    let project = two_messages();
    let (store, _, answers) = append_together(&project, Fault::None, drafts());
    let answers: Vec<Appended> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert_eq!(answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [false, false, true, true]);
    assert!(answers[1..].iter().all(|answer| answer.message.id == answers[1].message.id));
    assert_eq!(bodies(&all(&store)).len(), 4);

    // The first one fails, so that the second one is the first.
    let project = two_messages();
    let (_, fs, _) = append_together(&project, Fault::None, drafts());
    let at = fs.steps().iter().enumerate().filter(|(_, step)| step.operation == "link").nth(1).unwrap().0;
    let project = two_messages();
    let (_, _, answers) = append_together(&project, Fault::Fail(at, common::EIO), drafts());
    assert!(answers[1].as_ref().unwrap().is_err());
    let later: Vec<&Appended> = answers[2..].iter().map(|answer| answer.as_ref().unwrap().as_ref().unwrap()).collect();
    assert_eq!(later.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [false, true]);
    assert_eq!(later[1].message.body, "second");
}

#[test]
fn a_watch_of_the_same_process_does_not_wait_for_the_kernel() {
    let project = two_messages();
    let options = FilesOptions { events: false, poll_interval: Duration::from_secs(3_600), ..project.options() };
    let store = FilesStore::open(options).unwrap();
    let end = block_on(store.scan(Query { limit: Some(0), ..Query::default() })).unwrap().cursor;
    let mut events = block_on(store.watch(Query::default(), end)).unwrap();
    thread::scope(|scope| {
        let next = scope.spawn(|| block_on(events.next()));
        send(&store, "task", "at once");
        let Some(Ok(Event::Message(delivery))) = next.join().unwrap() else { panic!() };
        assert_eq!(delivery.message.body, "at once");
    });
}

#[test]
fn a_mailbox_that_cannot_be_used_fails_its_own_messages_only() {
    let project = two_messages();
    std::os::unix::fs::symlink("/nowhere", project.path("topics/broken")).unwrap();
    let drafts = vec![draft("broken", "group 0"), draft("task", "group 1"), draft("broken", "group 2")];
    let (store, _, answers) = append_together(&project, Fault::None, drafts);
    let kinds: Vec<Option<ErrorKind>> =
        answers.iter().map(|answer| answer.as_ref().unwrap().as_ref().err().map(|error| error.kind())).collect();
    assert_eq!(kinds, [Some(ErrorKind::Denied), None, Some(ErrorKind::Denied)]);
    std::fs::remove_file(project.path("topics/broken")).unwrap();
    check(&project, Some(&store), &answers, true, "a symlink");
}

#[test]
fn a_name_that_is_taken_moves_its_message_behind_the_group() {
    let project = Project::in_memory();
    let fs = FaultFs::new(Fault::None);
    let clock = HandClock::at("2026-01-10T15:30:00Z");
    let options = FilesOptions { fs: fs.clone(), clock, ..project.options() };
    let store = FilesStore::open(FilesOptions { lock_timeout: Duration::from_secs(60), ..options }).unwrap();
    assert_eq!(send(&store, "task", "before").id.to_string(), "20260110-153000-0000");
    // The clock stands, so that these are the second name of the group, and the one that would come behind it.
    for number in [2, 4] {
        let place = format!("topics/task/20260110-153000-000{number}.json");
        project.plant(&place, r#"{"from":"jq","to":"task","body":"planted"}"#);
    }
    fs.set(Fault::None);
    let drafts = (0..3).map(|number| draft("task", &format!("own {number}"))).collect();
    let answers = append_together_to(&project, &store, &fs, drafts);
    let ids = answers.into_iter().map(|answer| answer.unwrap().unwrap().message.id.to_string());
    let expected = [1, 5, 3].map(|number| format!("20260110-153000-000{number}"));
    assert_eq!(ids.collect::<Vec<_>>(), expected);
    assert_eq!(bodies(&all(&store)), ["before", "own 0", "planted", "own 2", "planted", "own 1"]);
    assert_eq!(project.names("tmp"), [] as [&str; 0]);
}

/// What a power cut can leave that a kill cannot: the first temporary is gone, and others are there.
#[test]
fn temporaries_are_settled_after_a_power_cut_whichever_are_left() {
    let project = two_messages();
    let text = |id: &str, body: &str| {
        format!(
            r#"{{"id":"{id}","from":"alice","to":"task","time":"2026-01-10T15:30:00Z","body":"{body}","recipients":["@bob"]}}"#
        )
    };
    let plant = |name: &str, id: &str, body: &str| project.plant(&format!("tmp/{name}"), &text(id, body));
    plant("message-1", "20260110-153000-0002", "linked second");
    plant("message-2", "20260110-153000-0001", "linked first");
    plant("message-7", "20260110-153000-0003", "linked nowhere");
    project.plant("tmp/record", "of somebody else");
    for (name, id) in [("message-1", "20260110-153000-0002"), ("message-2", "20260110-153000-0001")] {
        let linked = project.path(&format!("topics/task/{id}.json"));
        std::fs::hard_link(project.path(&format!("tmp/{name}")), linked).unwrap();
    }
    std::fs::remove_file(project.path("index")).unwrap();
    send(&project.store(), "task", "next");
    assert_eq!(project.names("tmp"), ["record"]);
    let found = bodies(&all(&project.store()));
    assert_eq!(found, ["linked first", "linked second", "before 1", "before 2", "next"]);
    assert_eq!(project.names("dm/bob").len(), 3, "both were finished in their second mailbox");
}

#[test]
fn a_group_is_bounded_and_everybody_is_served() {
    let project = two_messages();
    let drafts = (0..150).map(|number| draft("task", &format!("group {number}"))).collect();
    let (store, fs, answers) = append_together(&project, Fault::None, drafts);
    let groups = fs.steps().iter().filter(|step| step.operation == "create" && step.name == "lock").count();
    assert_eq!(groups, 3, "150 messages in groups of at most 64");
    check(&project, Some(&store), &answers, true, "150 messages");
}

/// A daemon that is never idle would take the lock again before the kernel has woken anybody who waits for it.
#[test]
fn a_process_that_has_written_before_lets_those_go_first_who_wait() {
    let project = two_messages();
    let options = || FilesOptions { lock_timeout: Duration::from_millis(100), ..project.options() };
    let busy = FilesStore::open(options()).unwrap();
    send(&busy, "task", "group 0");
    // Somebody is the next in line for the lock, which is free.
    let turn = File::open(project.path("tmp")).unwrap();
    turn.lock().unwrap();
    let error = block_on(busy.append(draft("task", "group 1"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backpressure, "{error:?}");
    // A process that writes for the first time has kept nobody waiting.
    send(&FilesStore::open(options()).unwrap(), "task", "other");
    turn.unlock().unwrap();
    send(&busy, "task", "group 1");
    assert_eq!(bodies(&all(&busy)), ["before 1", "before 2", "group 0", "other", "group 1"]);
}

#[test]
fn others_write_beside_a_busy_process() {
    let project = two_messages();
    let busy = patient_store(&project, FaultFs::new(Fault::None));
    let done = AtomicBool::new(false);
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..4 {
            let (busy, done, count) = (&busy, &done, &count);
            scope.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    send(busy, "task", &format!("busy {number}"));
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        until(|| count.load(Ordering::SeqCst) > 50);
        // Another process opens the store anew and sends once.
        (0..20).for_each(|number| drop(send(&project.store(), "@bob", &format!("other {number}"))));
        done.store(true, Ordering::SeqCst);
    });
    let expected = 2 + 20 + count.load(Ordering::SeqCst);
    assert_eq!(all(&project.store()).len(), expected);
    assert_eq!(project.files().len(), expected);
}
