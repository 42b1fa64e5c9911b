//! The journal of a daemon, as others meet it: commands beside it, files changed by hand, copies, another start of the
//! machine, a disk that fails on the way to the answer, and in [`disk`] behind it. What a power cut does to it is in `tests/power`.

#[path = "../common/mod.rs"]
mod common;
mod disk;

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{EIO, EMFILE, ENOSPC, EOPNOTSUPP, Fault, FaultFs, Project, all, bodies, draft, send};
use fmail_api::{Notice, Selection, Store};
use fmail_backends::{Durability, FilesOptions, FilesStore, JournalOptions};
use futures::StreamExt;
use futures::executor::block_on;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

const ROOM: u64 = 64 * 1024;

fn journal(room: u64) -> JournalOptions {
    JournalOptions { writes: true, room, after: 0, beside: false, ..JournalOptions::default() }
}

fn daemon(project: &Project, room: u64) -> FilesStore {
    FilesStore::open(FilesOptions { journal: journal(room), ..project.options() }).unwrap()
}

fn failing(project: &Project) -> (FilesStore, Arc<FaultFs>, Arc<Mutex<Vec<String>>>) {
    let (fs, told) = (FaultFs::new(Fault::None), Arc::new(Mutex::new(Vec::new())));
    let heard = told.clone();
    let reporter = Arc::new(move |notice: Notice| heard.lock().unwrap().push(notice.text));
    let options = FilesOptions { fs: fs.clone(), reporter, journal: journal(ROOM), ..project.options() };
    (FilesStore::open(options).unwrap(), fs, told)
}

/// The project as another start of the machine finds it when nothing was lost: its index is of no use.
fn rebooted(project: &Project) -> FilesStore {
    std::fs::remove_file(project.path("index")).unwrap();
    project.store()
}

fn remove(store: &FilesStore, body: &str) {
    let ids: BTreeSet<_> = all(store).iter().filter(|message| message.body == body).map(|message| message.id).collect();
    assert_eq!(ids.len(), 1);
    let selection = Selection { ids, ..Selection::default() };
    let removed = block_on(async { store.remove(selection).await.unwrap().collect::<Vec<_>>().await });
    assert!(removed.iter().all(Result::is_ok) && !removed.is_empty());
}

fn file_of(project: &Project, store: &FilesStore, body: &str) -> std::path::PathBuf {
    let message = all(store).into_iter().find(|message| message.body == body).unwrap();
    project.path(&format!("topics/task/{}.json", message.id))
}

#[test]
fn a_message_is_a_file_before_it_is_answered() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    let id = send(&store, "task", "one").id;
    let text = std::fs::read_to_string(project.path(&format!("topics/task/{id}.json"))).unwrap();
    assert!(text.contains("\"one\"") && text.ends_with("}\n"), "{text}");
    assert_eq!(bodies(&all(&project.store())), ["one"], "a command sees it too");
    assert!(project.names("tmp").is_empty(), "{:?}", project.names("tmp"));
    let stat = std::fs::metadata(project.path("journal")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&stat.permissions()) & 0o777, 0o600);
}

#[test]
fn a_journal_is_made_for_who_needs_it() {
    let project = Project::in_memory();
    send(&project.store(), "task", "a command");
    assert!(!project.path("journal").exists());
    let options = JournalOptions { after: 3, ..journal(ROOM) };
    let store = FilesStore::open(FilesOptions { journal: options, ..project.options() }).unwrap();
    for number in 0..3 {
        send(&store, "task", &format!("early {number}"));
    }
    assert!(!project.path("journal").exists());
    send(&store, "task", "often");
    assert!(project.path("journal").exists());
    let other = Project::in_memory();
    let options = FilesOptions { durability: Durability::Os, journal: journal(ROOM), ..other.options() };
    send(&FilesStore::open(options).unwrap(), "task", "not durable");
    assert!(!other.path("journal").exists());
}

/// A mailbox that is new leaves nothing in `tmp`, whichever way its first message comes to its name.
#[test]
fn the_mark_of_a_new_mailbox_goes_with_its_first_group() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    for topic in ["task", "task", "build", "status"] {
        send(&store, topic, "first");
        assert!(project.names("tmp").is_empty(), "{topic}: {:?}", project.names("tmp"));
    }
}

/// Not every file system has files without a name; there they are made in `tmp` and moved.
#[test]
fn files_get_temporaries_where_they_cannot_be_named_late() {
    let project = Project::in_memory();
    send(&daemon(&project, ROOM), "task", "makes the journal");
    let sent_with = |fault, bodies: &[&str]| {
        let (store, fs, told) = failing(&project);
        fs.set(fault);
        bodies.iter().for_each(|body| drop(send(&store, "task", body)));
        assert!(told.lock().unwrap().is_empty(), "{told:?}");
        fs.steps()
    };
    let tried = sent_with(Fault::None, &["tried"]).iter().position(|step| step.operation == "create_unnamed").unwrap();
    let steps = sent_with(Fault::Fail(tried, EOPNOTSUPP), &["one", "two"]);
    let moved = |step: &&common::Step| step.operation == "rename_new" && step.name.ends_with(".json");
    assert_eq!(steps.iter().filter(moved).count(), 2, "{steps:?}");
    assert_eq!(bodies(&all(&rebooted(&project)))[2..], ["one", "two"]);
}

/// A passing lack of descriptors says nothing about the file system, and a file system that was exchanged must not fail every
/// message.
#[test]
fn whether_files_can_be_named_late_is_asked_again() {
    let project = Project::in_memory();
    let tried = |fs: &FaultFs| fs.steps().iter().filter(|step| step.operation == "create_unnamed").count();
    for (passing, errno) in [(false, EOPNOTSUPP), (true, EMFILE)] {
        let (store, fs, _) = failing(&project);
        if !passing {
            send(&store, "task", "makes the mailbox");
            send(&store, "task", "knows");
        }
        fs.set(Fault::FailEach(&[("create_unnamed", 0)], errno));
        send(&store, "task", "goes the other way");
        assert_eq!(tried(&fs), 1);
        fs.set(Fault::None);
        send(&store, "task", "asks again");
        send(&store, "task", "knows");
        assert_eq!(tried(&fs), 3, "one to try, and one for each message");
    }
    assert_eq!(all(&rebooted(&project)).len(), 8);
}

/// Who watches a mailbox, a watch of fmail's or any other program, is told of messages and of nothing else. For each name that is
/// no message's a watch took the lock and listed the mailbox.
#[test]
fn who_watches_a_mailbox_is_told_only_of_names_that_exist() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    send(&store, "task", "makes the mailbox");
    let told = inotify::init(CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&told, project.path("topics/task"), WatchFlags::ALL_EVENTS).unwrap();
    for body in ["one", "two", "three"] {
        send(&store, "task", body);
    }
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut events = inotify::Reader::new(&told, &mut buffer);
    let mut names = Vec::new();
    while let Ok(event) = events.next() {
        names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 3, "{names:?}");
    assert!(names.iter().all(|name| name.ends_with(".json")), "{names:?}");
}

/// The next holder of the lock looks for one name only to see whether anything was left.
#[test]
fn a_temporary_that_could_not_be_made_does_not_leave_its_place_empty() {
    let project = Project::in_memory();
    let (store, fs, _) = failing(&project);
    send(&store, "task", "makes the journal");
    send(&store, "task", "knows that files can be named late");
    // The journal cannot be synced, and then the first of the files that were meant for it gets no name.
    fs.set(Fault::FailEach(&[("sync_data", 0), ("name", 0)], EIO));
    let answers = block_on(store.append_many(vec![draft("task", "one"), draft("task", "two")]));
    assert!(answers[0].is_err() && answers[1].is_ok(), "{answers:?}");
    let steps = fs.steps();
    let named: Vec<&str> = steps.iter().filter(|step| step.operation == "name").map(|step| &*step.name).collect();
    assert_eq!(named, ["message", "message"], "{steps:?}");
}

/// A message that could be linked to one of its mailboxes, not to the other, and not be taken back, is finished by whoever comes
/// next: half of a message stays for nobody to see.
#[test]
fn a_message_that_could_not_be_taken_back_is_finished_by_the_next() {
    let project = Project::in_memory();
    let (store, fs, _) = failing(&project);
    send(&store, "task", "before");
    send(&store, "@bob", "before");
    send(&store, "task", "knows that files can be named late");
    let mut two = draft("task", "one");
    two.more.recipients.push("@bob".parse().unwrap());
    fs.set(Fault::FailEach(&[("name", 1), ("unlink", 0)], EIO));
    let answer = block_on(store.append(two));
    assert!(answer.is_err(), "{answer:?}");
    fs.set(Fault::None);
    send(&store, "task", "after");
    let found = |bodies: Vec<String>| bodies.iter().filter(|body| *body == "one").count();
    assert_eq!(found(bodies(&all(&store))), 1);
    assert_eq!((project.names("topics/task").len(), project.names("dm/bob").len()), (4, 2));
    assert_eq!(found(bodies(&all(&rebooted(&project)))), 1);
    assert!(project.names("tmp").is_empty(), "{:?}", project.names("tmp"));
}

#[test]
fn what_does_not_fit_goes_without_the_journal() {
    let project = Project::in_memory();
    let store = daemon(&project, 2048);
    let large = "large ".repeat(2_000);
    for body in ["one", &large, "two"] {
        send(&store, "task", body);
    }
    assert_eq!(bodies(&all(&store)), ["one", &large, "two"]);
    assert_eq!(bodies(&all(&rebooted(&project))), ["one", &large, "two"]);
}

#[test]
fn a_file_that_a_power_cut_emptied_is_written_again() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    for body in ["one", "two", "three", "four"] {
        send(&store, "task", body);
    }
    let [one, two, three] = ["one", "two", "three"].map(|body| file_of(&project, &store, body));
    std::fs::write(one, "").unwrap();
    std::fs::write(two, [0; 100]).unwrap();
    std::fs::remove_file(three).unwrap();
    assert_eq!(bodies(&all(&rebooted(&project))), ["one", "two", "three", "four"]);
    assert!(project.names("tmp").is_empty(), "{:?}", project.names("tmp"));
}

#[test]
fn a_file_that_somebody_edited_stays_as_it_is() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    send(&store, "task", "one");
    let file = file_of(&project, &store, "one");
    let text = std::fs::read_to_string(&file).unwrap().replace("\"one\"", "\"edited\"");
    std::fs::write(&file, text).unwrap();
    assert_eq!(bodies(&all(&rebooted(&project))), ["edited"]);
}

#[test]
fn what_was_removed_does_not_come_back_out_of_the_journal() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    for body in ["one", "two", "three", "four"] {
        send(&store, "task", body);
    }
    remove(&store, "one");
    send(&store, "task", "five");
    remove(&project.store(), "two");
    // By hand, and noticed by whoever looks next.
    std::fs::remove_file(file_of(&project, &store, "three")).unwrap();
    assert_eq!(bodies(&all(&project.store())), ["four", "five"]);
    assert_eq!(bodies(&all(&rebooted(&project))), ["four", "five"]);
}

#[test]
fn a_store_that_is_closed_leaves_a_clean_journal() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    send(&store, "task", "one");
    block_on(store.close()).unwrap();
    std::fs::remove_file(file_of(&project, &store, "one")).unwrap();
    assert!(all(&rebooted(&project)).is_empty(), "nothing is left in the journal");
}

#[test]
fn a_journal_that_nobody_writes_is_emptied_by_a_command() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    send(&store, "task", "one");
    drop(store);
    let patience = |stale| JournalOptions { stale, ..JournalOptions::default() };
    let command = |stale| FilesStore::open(FilesOptions { journal: patience(stale), ..project.options() }).unwrap();
    send(&command(Duration::from_secs(3600)), "task", "soon behind");
    send(&command(Duration::ZERO), "task", "later");
    std::fs::remove_file(file_of(&project, &project.store(), "one")).unwrap();
    assert_eq!(bodies(&all(&rebooted(&project))), ["soon behind", "later"]);
}

#[test]
fn the_journal_is_emptied_beside_the_appends() {
    let project = Project::in_memory();
    let options = JournalOptions { beside: true, few: 8, ..journal(16 * 1024) };
    let store = FilesStore::open(FilesOptions { journal: options, ..project.options() }).unwrap();
    let sent: Vec<String> = (0..400).map(|number| format!("message {number}")).collect();
    for body in &sent {
        send(&store, "task", body);
    }
    assert_eq!(bodies(&all(&store)), sent);
    block_on(store.close()).unwrap();
    send(&store, "task", "behind");
    assert_eq!(all(&rebooted(&project)).len(), 401);
}

#[test]
fn two_daemons_may_share_a_journal() {
    let project = Project::in_memory();
    let (one, two) = (daemon(&project, 4096), daemon(&project, 4096));
    let mut sent = Vec::new();
    for number in 0..40 {
        let body = format!("message {number}");
        send(if number % 3 == 0 { &one } else { &two }, "task", &body);
        sent.push(body);
    }
    assert_eq!(bodies(&all(&one)), sent);
    assert_eq!(bodies(&all(&rebooted(&project))), sent);
}

#[test]
fn a_copy_of_a_project_has_everything() {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    send(&store, "task", "one");
    send(&store, "@bob", "two");
    let copy = Project::in_memory();
    let done = std::process::Command::new("cp").arg("-r").arg(project.path("")).arg(copy.root()).status().unwrap();
    assert!(done.success());
    std::fs::remove_file(copy.path("topics/task").join(project.names("topics/task").remove(0))).unwrap();
    assert_eq!(bodies(&all(&daemon(&copy, ROOM))), ["one", "two"]);
    send(&daemon(&copy, ROOM), "task", "three");
    send(&store, "task", "four");
    assert_eq!(bodies(&all(&rebooted(&copy))), ["one", "two", "three"]);
    assert_eq!(bodies(&all(&rebooted(&project))), ["one", "two", "four"]);
}

#[test]
fn a_damaged_journal_is_told_and_stops_nobody() {
    let project = Project::in_memory();
    let (store, _, told) = failing(&project);
    send(&store, "task", "one");
    let size = std::fs::metadata(project.path("journal")).unwrap().len();
    std::fs::write(project.path("journal"), vec![7; size as usize]).unwrap();
    send(&store, "task", "two");
    assert!(told.lock().unwrap().iter().any(|text| text.contains("journal is damaged")), "{told:?}");
    assert_eq!(bodies(&all(&rebooted(&project))), ["one", "two"]);
}

#[test]
fn a_link_in_place_of_the_journal_is_refused() {
    let project = Project::in_memory();
    send(&project.store(), "task", "one");
    std::fs::write(project.root().join("elsewhere"), "precious").unwrap();
    std::os::unix::fs::symlink(project.root().join("elsewhere"), project.path("journal")).unwrap();
    let refused = block_on(daemon(&project, ROOM).append(draft("task", "two"))).unwrap_err();
    assert_eq!(refused.kind(), fmail_api::ErrorKind::Denied, "{refused:?}");
    assert_eq!(std::fs::read_to_string(project.root().join("elsewhere")).unwrap(), "precious");
}

#[test]
fn a_full_disk_leaves_the_daemon_without_a_journal_and_with_all_messages() {
    let project = Project::in_memory();
    send(&project.store(), "task", "before");
    let probe = Project::in_memory();
    send(&probe.store(), "task", "before");
    let (store, fs, _) = failing(&probe);
    send(&store, "task", "one");
    let filling = fs.steps().iter().position(|step| step.operation == "write_at" && step.name.is_empty()).unwrap();
    let last = fs.steps().len();
    // Wherever the disk is full: the message is answered and there, or refused and not there.
    for at in filling..last {
        let project = Project::in_memory();
        send(&project.store(), "task", "before");
        let (store, fs, _) = failing(&project);
        fs.set(Fault::Fail(at, ENOSPC));
        let answer = block_on(store.append(draft("task", "one")));
        fs.set(Fault::None);
        let mut expected = vec!["before"];
        expected.extend(answer.is_ok().then_some("one"));
        send(&store, "task", "two");
        expected.push("two");
        assert_eq!(bodies(&all(&store)), expected, "{at}: {answer:?}");
        assert_eq!(bodies(&all(&rebooted(&project))), expected, "{at}: {answer:?}");
    }
    drop(project);
}

/// Whatever fails on the way through the journal: who was told that it failed does not find the message later, also not
/// after another start of the machine; who was answered does.
#[test]
fn what_was_told_as_failed_does_not_come_back_out_of_the_journal() {
    let probe = Project::in_memory();
    let (store, fs, _) = failing(&probe);
    send(&store, "task", "before");
    fs.set(Fault::None);
    let mut two = draft("task", "one");
    two.more.recipients.push("@bob".parse().unwrap());
    block_on(store.append(two.clone())).unwrap();
    let steps = fs.steps();
    assert_eq!(steps.iter().filter(|step| step.operation == "sync_data").count(), 1, "one sync for a message");
    assert_eq!(steps.iter().filter(|step| step.operation == "sync_dir").count(), 1, "the name of a new mailbox");
    let mut failed = 0;
    for errno in [EIO, ENOSPC] {
        for (at, step) in steps.iter().enumerate() {
            let project = Project::in_memory();
            let (store, fs, _) = failing(&project);
            send(&store, "task", "before");
            fs.set(Fault::Fail(at, errno));
            let answer = block_on(store.append(two.clone()));
            fs.set(Fault::None);
            failed += usize::from(answer.is_err());
            let mut expected = vec!["before"];
            expected.extend(answer.is_ok().then_some("one"));
            let what = format!("{at} ({step:?}): {answer:?}");
            assert_eq!(bodies(&all(&store)), expected, "{what}");
            send(&store, "task", "after");
            expected.push("after");
            assert_eq!(bodies(&all(&store)), expected, "{what}");
            assert_eq!(bodies(&all(&rebooted(&project))), expected, "{what}");
            assert!(!project.names("tmp").iter().any(|name| name.starts_with("message")), "{what}");
        }
    }
    assert!(failed > 0);
}
