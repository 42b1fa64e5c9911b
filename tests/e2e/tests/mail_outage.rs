//! A mailbox that cannot be read is an error with its own exit code, and never an empty inbox.

use std::fs;

use fmail_e2e::{Output, Sandbox};

/// Stored data that cannot be understood.
const CORRUPT: i32 = 13;

/// What asks for mail. `check` says with 1 that there is none, so its failures must be told apart from that.
const QUESTIONS: [&[&str]; 7] = [
    &["inbox"],
    &["inbox", "--all"],
    &["inbox", "--archived"],
    &["inbox", "--claim", "5m"],
    &["check"],
    &["count"],
    &["archive", "--all"],
];

/// A project with messages for bob: one is read, one unread, one archived.
fn project() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let ids: Vec<String> = ["one", "two", "three"].iter().map(|body| sandbox.send("alice", "@bob", body)).collect();
    sandbox.agent("bob").args(["read", &ids[0]]).ok();
    sandbox.agent("bob").args(["archive", &ids[2]]).ok();
    (sandbox, ids)
}

fn ask(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.agent("bob").args(args).run()
}

#[track_caller]
fn is_failure(output: &Output, args: &[&str], code: Option<i32>) {
    assert!(output.code > 1 && output.code < 128, "{args:?}\n{output}");
    assert!(code.is_none_or(|code| output.code == code), "{args:?}\n{output}");
    assert!(output.stderr.contains("fmail: "), "{args:?}\n{output}");
    assert_eq!(output.stdout, "", "{args:?}");
}

/// The record of bob's states.
fn states(sandbox: &Sandbox) -> std::path::PathBuf {
    let names = sandbox.names(".fmail/records/mailbox/bob");
    let name = names.iter().find(|name| name.starts_with("20")).expect("a record of states");
    sandbox.store().join("records/mailbox/bob").join(name)
}

#[test]
fn a_broken_record_of_states_is_an_error_that_names_it_and_stays() {
    let (sandbox, ids) = project();
    let record = states(&sandbox);
    fs::write(&record, "{ half of a rec").unwrap();
    // The tally still knows what is unread; without it everything has to be read.
    fs::remove_file(sandbox.store().join("records/mailbox/bob/tally.json")).unwrap();
    for args in QUESTIONS.iter().copied().chain([&["read", &*ids[1]][..], &["peek", &ids[1]], &["ack", &ids[1]]]) {
        let output = ask(&sandbox, args);
        assert_eq!(output.code, CORRUPT, "{args:?}\n{output}");
        output.says(&[".fmail/records/mailbox/bob/", "is not JSON", "repair the file"]);
    }
    assert_eq!(fs::read_to_string(&record).unwrap(), "{ half of a rec", "left as it is");
    // Nobody else is touched by it.
    sandbox.agent("carol").arg("check").fails(1);
}

#[test]
fn a_directory_in_place_of_a_record_is_an_error() {
    let (sandbox, _) = project();
    let record = states(&sandbox);
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    fs::remove_file(sandbox.store().join("records/mailbox/bob/tally.json")).unwrap();
    for args in QUESTIONS {
        is_failure(&ask(&sandbox, args), args, None);
    }
}

#[test]
fn a_file_in_place_of_the_mailbox_is_an_error() {
    let (sandbox, ids) = project();
    let mailbox = sandbox.store().join("dm/bob");
    fs::rename(&mailbox, sandbox.outside().join("moved")).unwrap();
    fs::write(&mailbox, "in the way").unwrap();
    let _ = fs::remove_file(sandbox.store().join("index"));
    for args in QUESTIONS.iter().copied().chain([&["read", &*ids[1]][..]]) {
        is_failure(&ask(&sandbox, args), args, None);
    }
    fs::remove_file(&mailbox).unwrap();
    fs::rename(sandbox.outside().join("moved"), &mailbox).unwrap();
    assert!(ask(&sandbox, &["inbox"]).stdout.ends_with(" two\n"), "nothing was lost by it");
}

#[test]
fn mail_that_another_user_may_not_read_is_an_error_for_that_user() {
    let (sandbox, ids) = project();
    for args in QUESTIONS.iter().copied().chain([&["read", &*ids[1]][..]]) {
        if !rustix::process::geteuid().is_root() {
            break;
        }
        is_failure(&sandbox.agent("bob").args(args).unprivileged().run(), args, None);
    }
}

#[test]
fn a_broken_tally_is_counted_anew() {
    let (sandbox, _) = project();
    let tally = sandbox.store().join("records/mailbox/bob/tally.json");
    for broken in ["", "{ half", "[]", r#"{"cursor":"x","stored":0,"unread":{},"read":{}}"#] {
        fs::write(&tally, broken).unwrap();
        assert_eq!(ask(&sandbox, &["count"]).stdout, "2 total, 1 unread for @bob\n", "{broken}");
        fs::write(&tally, broken).unwrap();
        assert!(ask(&sandbox, &["inbox", "--archived"]).code == 0, "{broken}");
    }
    sandbox.agent("bob").args(["archive", "--all"]).ok();
    assert_eq!(ask(&sandbox, &["count"]).stdout, "0 total, 0 unread for @bob\n");
}
