//! Messages of other hosts that come at the same time, from several callers or from one.

use super::*;

/// Messages of another host: two of them under ids that are taken, by a message that is there and by one of the group; one
/// that comes twice; and one for two mailboxes.
fn foreign(project: &Project) -> Vec<Message> {
    let there = all(&project.store()).into_iter().find(|message| message.body == "before 1").unwrap();
    let old = |tick: u64, to: &str, number: usize| {
        let id = MessageId::from_ticks(MessageId::at(there.time).ticks() - 1_000_000 + tick).unwrap();
        draft(to, &format!("group {number}")).into_message(id, id.time().whole_seconds())
    };
    let mut two = old(3, "task", 4);
    two.more.cc.push("@bob".parse().unwrap());
    let taken = Message { id: there.id, ..old(9, "task", 1) };
    vec![old(7, "task", 0), taken, old(7, "@bob", 2), old(5, "build", 3), two, old(5, "build", 3)]
}

#[allow(clippy::type_complexity)]
fn import_together(project: &Project, fault: Fault) -> (Arc<FaultFs>, Vec<Option<Result<Imported>>>) {
    let fs = FaultFs::new(fault);
    let store = patient_store(project, fs.clone());
    let messages = foreign(project);
    let jobs = messages.into_iter().map(|message| {
        let store = &store;
        move || block_on(store.import(message))
    });
    let answers = together(project, &store, &fs, jobs.collect());
    (fs, answers)
}

#[test]
fn imports_share_a_group_and_have_each_their_own_verdict() {
    let project = two_messages();
    let (fs, answers) = import_together(&project, Fault::None);
    let answers: Vec<Imported> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert_eq!([0, 3, 4].map(|number| &answers[number]), [&Imported::New; 3]);
    assert_eq!(answers[5], Imported::Duplicate);
    assert!([1, 2].iter().all(|number| matches!(answers[*number], Imported::Relocated(_))), "{answers:?}");
    assert_eq!(all(&project.store()).len(), 2 + 5);
    let locks = fs.steps().iter().filter(|step| step.operation == "create" && step.name == "lock").count();
    assert!(locks <= 2, "those that had to wait for another of their id are a second group, not six");
}

#[test]
fn many_messages_of_one_caller_are_a_group_and_have_each_their_own_verdict() {
    let project = two_messages();
    let fs = FaultFs::new(Fault::None);
    let store = patient_store(&project, fs.clone());
    let verdicts = block_on(store.import_many(foreign(&project)));
    let verdicts: Vec<Imported> = verdicts.into_iter().map(|verdict| verdict.unwrap()).collect();
    assert_eq!([0, 3, 4].map(|number| &verdicts[number]), [&Imported::New; 3]);
    assert_eq!(verdicts[5], Imported::Duplicate);
    assert!([1, 2].iter().all(|number| matches!(verdicts[*number], Imported::Relocated(_))), "{verdicts:?}");
    assert_eq!(all(&project.store()).len(), 2 + 5);
    let locks = fs.steps().iter().filter(|step| step.operation == "create" && step.name == "lock").count();
    assert!(locks <= 2, "those that had to wait for another of their id are a second group, not six");
}

#[test]
fn any_operation_of_many_imports_of_one_caller_may_fail() {
    let import = |project: &Project, fault| {
        let fs = FaultFs::new(fault);
        (block_on(patient_store(project, fs.clone()).import_many(foreign(project))), fs)
    };
    let steps = import(&two_messages(), Fault::None).1.steps().len();
    for at in 0..steps {
        let project = two_messages();
        let (verdicts, _) = import(&project, Fault::Fail(at, common::EIO));
        assert_eq!(verdicts.len(), 6);
        let copies = |number: usize| {
            let found = all(&project.store());
            bodies(&found).iter().filter(|body| **body == format!("group {number}")).count()
        };
        for (number, verdict) in verdicts.iter().enumerate().take(5) {
            let copies = copies(number);
            assert!(copies == 1 || (verdict.is_err() && copies == 0), "step {at}: {copies} of message {number}");
        }
        let again = block_on(project.store().import_many(foreign(&project)));
        assert!(again.iter().all(Result::is_ok), "step {at}: {again:?}");
        assert!((0..5).all(|number| copies(number) == 1), "step {at}");
        assert_eq!(project.names("tmp"), [] as [&str; 0], "step {at}: left in tmp");
    }
}

#[test]
fn more_messages_of_one_caller_than_fit_into_a_group_are_all_stored() {
    let project = two_messages();
    let store = project.store();
    let messages: Vec<Message> = (0..200)
        .map(|number| {
            let id = MessageId::from_ticks(17_680_590_000_000 + number).unwrap();
            draft("task", &format!("many {number}")).into_message(id, id.time().whole_seconds())
        })
        .collect();
    // Others stand in the same line meanwhile, and each of them leads at times.
    thread::scope(|scope| {
        let importing = scope.spawn(|| block_on(store.import_many(messages.clone())));
        for number in 0..20 {
            send(&store, "build", &format!("beside {number}"));
        }
        let verdicts = importing.join().unwrap();
        assert!(verdicts.into_iter().all(|verdict| verdict.unwrap() == Imported::New));
    });
    assert_eq!(all(&store).len(), 2 + 200 + 20);
}

#[test]
fn any_operation_of_a_group_of_imports_may_fail() {
    let steps = import_together(&two_messages(), Fault::None).0.steps().len();
    for at in 0..steps {
        let project = two_messages();
        let (_, answers) = import_together(&project, Fault::Fail(at, common::EIO));
        let copies = |number: usize| {
            let found = all(&project.store());
            bodies(&found).iter().filter(|body| **body == format!("group {number}")).count()
        };
        for (number, answer) in answers.iter().enumerate().take(5) {
            match answer.as_ref().unwrap() {
                Ok(_) => assert_eq!(copies(number), 1, "step {at}: message {number}"),
                Err(_) => assert!(copies(number) <= 1, "step {at}: message {number}"),
            }
        }
        // Whoever was told of a failure tries again, and has it once.
        for message in foreign(&project) {
            block_on(project.store().import(message)).unwrap();
        }
        assert!((0..5).all(|number| copies(number) == 1), "step {at}");
        assert_eq!(project.names("tmp"), [] as [&str; 0], "step {at}: left in tmp");
    }
}
