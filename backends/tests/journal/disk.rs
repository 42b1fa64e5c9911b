//! A disk that fails behind the answer: when what stands in the journal is brought to its mailboxes. The kernel says once that it
//! could not write a file, keeps the file in memory as if it had, and forgets it when it needs the memory; the file is zeroes then.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fmail_api::{Query, Store};
use fmail_backends::{FilesOptions, FilesStore, JournalOptions};
use futures::executor::block_on;

use super::common::{EIO, ENOSPC, Fault, FaultFs, Project, all, bodies, draft, send, try_scan};
use super::{ROOM, daemon, failing, file_of, journal, rebooted};

/// What the kernel does to a file that it could not write.
fn forget(file: &Path) {
    let length = std::fs::metadata(file).unwrap().len();
    std::fs::write(file, vec![0; length as usize]).unwrap();
}

fn inode(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().ino()
}

#[test]
fn a_file_that_the_kernel_forgot_after_a_failed_sync_is_written_again() {
    let project = Project::in_memory();
    let (store, fs, _) = failing(&project);
    send(&store, "task", "one");
    block_on(store.close()).unwrap();
    send(&store, "task", "two");
    let [one, two] = ["one", "two"].map(|body| file_of(&project, &store, body));
    let before = inode(&one);
    fs.set(Fault::FailEach(&[("sync_data", 0)], EIO));
    block_on(store.close()).unwrap_err();
    forget(&two);
    block_on(store.close()).unwrap();
    assert_eq!(inode(&one), before, "what was safe before is let alone");
    assert_eq!(bodies(&all(&rebooted(&project))), ["one", "two"]);
}

#[test]
fn what_was_removed_before_a_failed_sync_stays_away() {
    let project = Project::in_memory();
    let (store, fs, _) = failing(&project);
    for (topic, body) in [("task", "one"), ("task", "two"), ("build", "three")] {
        send(&store, topic, body);
    }
    std::fs::remove_file(file_of(&project, &store, "one")).unwrap();
    std::fs::remove_dir_all(project.path("topics/build")).unwrap();
    for at in 0.. {
        fs.set(Fault::Fail(at, EIO));
        if block_on(store.close()).is_ok() {
            break;
        }
    }
    fs.set(Fault::None);
    assert!(!project.path("topics/build").exists());
    assert_eq!(bodies(&all(&rebooted(&project))), ["two"]);
}

/// What another program's sync was told is not told again to who opens the file system later.
#[test]
fn a_failure_that_somebody_else_was_told_of_is_noticed() {
    let project = Project::in_memory();
    let fs = FaultFs::new(Fault::None);
    let journal = JournalOptions { few: 0, ..journal(ROOM) };
    let options = FilesOptions { fs: fs.clone(), journal, reporter: Arc::new(|_| {}), ..project.options() };
    let store = FilesStore::open(options).unwrap();
    for body in ["one", "two"] {
        send(&store, "task", body);
    }
    let two = file_of(&project, &store, "two");
    fs.lose_what_was_written();
    forget(&two);
    block_on(store.close()).unwrap_err();
    block_on(store.close()).unwrap();
    assert_eq!(bodies(&all(&rebooted(&project))), ["one", "two"]);
}

/// A project whose messages stand in the journal only, as a power cut may leave them, and where their files will be.
fn cut_off() -> (Project, [PathBuf; 3]) {
    let project = Project::in_memory();
    let store = daemon(&project, ROOM);
    let files = ["one", "two", "three"].map(|body| {
        send(&store, "task", body);
        file_of(&project, &store, body)
    });
    files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    std::fs::remove_file(project.path("index")).unwrap();
    (project, files)
}

/// A replay that could not make a file safe must not find it safe by asking again.
#[test]
fn a_replay_writes_anew_what_one_before_could_not_make_safe() {
    let (probe, _) = cut_off();
    let fs = FaultFs::new(Fault::None);
    all(&probe.store_on(fs.clone()));
    let steps = fs.steps();
    let syncs: Vec<usize> = (0..steps.len()).filter(|at| steps[*at].operation == "sync_data").collect();
    assert_eq!(syncs.len(), 5, "the journal's records, three files, its header");
    for at in &syncs[1..4] {
        let (project, files) = cut_off();
        let fs = FaultFs::new(Fault::Fail(*at, ENOSPC));
        let store = project.store_on(fs.clone());
        try_scan(&store, Query::default()).unwrap_err();
        let failed = files.each_ref().map(|file| inode(file));
        fs.set(Fault::None);
        assert_eq!(bodies(&all(&store)), ["one", "two", "three"]);
        let steps = fs.steps();
        for (file, failed) in files.iter().zip(failed) {
            assert_ne!(inode(file), failed, "it is another file");
            assert!(steps.iter().any(|step| step.operation == "sync_data" && step.inode == inode(file)));
        }
    }
}

/// What a dead daemon had only written to the journal is restored under the same rule.
#[test]
fn what_was_settled_without_success_is_written_anew_by_the_next() {
    let project = Project::in_memory();
    let (store, fs, _) = failing(&project);
    send(&store, "task", "one");
    send(&store, "task", "two");
    fs.set(Fault::StopBefore("name"));
    block_on(store.append(draft("task", "three"))).unwrap_err();
    drop(store);

    let fs = FaultFs::new(Fault::None);
    let command = project.store_on(fs.clone());
    // The journal's records, two files of before, the header, and then the file that was restored.
    fs.set(Fault::FailEach(&[("sync_data", 4)], EIO));
    block_on(command.append(draft("task", "by a command"))).unwrap_err();
    let failed = fs.steps().iter().rfind(|step| step.operation == "sync_data").unwrap().inode;
    let three = by_hand(&project, "three");
    assert_eq!(inode(&three), failed);
    fs.set(Fault::None);
    send(&command, "task", "by a command");
    assert_ne!(inode(&three), failed, "it is another file");
    assert_eq!(bodies(&all(&rebooted(&project))), ["one", "two", "three", "by a command"]);
}

/// The file of a message, found without any store.
fn by_hand(project: &Project, body: &str) -> PathBuf {
    let files = project.files();
    project.path(files.iter().find(|(_, message)| message["body"] == body).unwrap().0)
}
