//! Groups on their way through the journal of a daemon.

use super::*;

/// A daemon that has used its journal before.
fn journaling_store(project: &Project, fs: Arc<FaultFs>) -> FilesStore {
    let journal =
        JournalOptions { writes: true, room: 64 * 1024, after: 0, beside: false, ..JournalOptions::default() };
    let options = FilesOptions { fs, journal, lock_timeout: Duration::from_secs(60), ..project.options() };
    FilesStore::open(options).unwrap()
}

/// The two messages of before, the second of them in the journal.
fn two_journaled() -> Project {
    let project = Project::in_memory();
    send(&project.store(), "task", "before 1");
    send(&journaling_store(&project, FaultFs::new(Fault::None)), "@bob", "before 2");
    assert!(project.path("journal").exists());
    project
}

fn journal_together(project: &Project, fault: Fault) -> (FilesStore, Arc<FaultFs>, Vec<Answer>) {
    let fs = FaultFs::new(fault);
    let store = journaling_store(project, fs.clone());
    let answers = append_together_to(project, &store, &fs, five());
    (store, fs, answers)
}

/// The same behind another start of the machine: what stands in the journal is compared with the mailboxes.
fn check_rebooted(project: &Project, answers: &[Answer], certain: bool, what: &str) {
    std::fs::remove_file(project.path("index")).unwrap();
    let found = bodies(&all(&project.store()));
    for (number, answer) in answers.iter().enumerate() {
        let copies = found.iter().filter(|body| **body == format!("group {number}")).count();
        match answer {
            Some(Ok(_)) => assert_eq!(copies, 1, "{what}: message {number} was answered, and is there after a start"),
            Some(Err(error)) if certain => assert_eq!(copies, 0, "{what}: message {number} is back: {error:?}"),
            _ => assert!(copies <= 1, "{what}: message {number} is there {copies} times after a start"),
        }
    }
}

#[test]
fn a_group_takes_one_sync_of_the_journal() {
    let project = two_journaled();
    send(&project.store(), "build", "not new");
    let (_, fs, answers) = journal_together(&project, Fault::None);
    assert!(answers.iter().all(|answer| matches!(answer, Some(Ok(_)))), "{answers:?}");
    let steps = fs.steps();
    let count = |operation: &str| steps.iter().filter(|step| step.operation == operation).count();
    assert_eq!((count("sync_data"), count("sync_dir"), count("sync_all")), (1, 0, 0));
    // The first group of a store tries whether files can be named late, and the mark of a new mailbox is no name of a message.
    let named = steps.iter().filter(|step| step.operation == "name" && step.name.ends_with(".json")).count();
    assert_eq!((named, count("link"), count("rename_new")), (6, 0, 0), "five messages, one of them in two mailboxes");
}

#[test]
fn any_operation_of_a_group_may_fail_on_its_way_through_the_journal() {
    let steps = journal_together(&two_journaled(), Fault::None).1.steps();
    for (number, step) in steps.iter().enumerate() {
        for errno in ERRORS {
            for fault in [Fault::Fail(number, errno), Fault::Tear(number, errno)] {
                if matches!(fault, Fault::Tear(..)) && step.operation != "write_at" {
                    continue;
                }
                let what = format!("{fault:?} ({} {})", step.operation, step.name);
                let project = two_journaled();
                let (store, fs, answers) = journal_together(&project, fault);
                fs.set(Fault::None);
                assert!(answers.iter().all(Option::is_some), "{what}: {answers:?}");
                check(&project, Some(&store), &answers, true, &what);
                check_rebooted(&project, &answers, true, &what);
            }
        }
    }
}

#[test]
fn a_process_may_end_in_front_of_any_operation_of_a_group_in_the_journal() {
    let steps = journal_together(&two_journaled(), Fault::None).1.steps();
    for (number, step) in steps.iter().enumerate() {
        for fault in [Fault::Stop(number), Fault::StopWithin(number)] {
            if matches!(fault, Fault::StopWithin(_)) && step.operation != "write_at" {
                continue;
            }
            let what = format!("{fault:?} ({} {})", step.operation, step.name);
            let project = two_journaled();
            let (store, _, answers) = journal_together(&project, fault);
            drop(store);
            check(&project, None, &answers, false, &what);
            check_rebooted(&project, &answers, false, &what);
        }
    }
}

#[test]
fn a_panic_on_the_way_through_the_journal_leaves_nobody_waiting() {
    let steps = journal_together(&two_journaled(), Fault::None).1.steps();
    for (number, step) in steps.iter().enumerate() {
        let what = format!("panic in operation {number} ({} {})", step.operation, step.name);
        let project = two_journaled();
        let (store, fs, answers) = journal_together(&project, Fault::Panic(number));
        fs.set(Fault::None);
        check(&project, Some(&store), &answers, false, &what);
        check_rebooted(&project, &answers, false, &what);
    }
}
