//! A store that cannot be used is a failure of every operation, and never an empty answer.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::post::{NOT_FOUND, Post};

pub const CASES: &[(&str, fn())] = &[
    ("a_configuration_that_cannot_be_read", a_configuration_that_cannot_be_read),
    ("a_store_that_is_not_there", a_store_that_is_not_there),
    ("files_that_may_not_be_read", files_that_may_not_be_read),
    ("files_that_are_broken", files_that_are_broken),
    ("a_database_that_is_broken", a_database_that_is_broken),
    ("a_daemon_that_is_gone_with_its_store", a_daemon_that_is_gone_with_its_store),
    ("a_daemon_that_hangs_with_its_store", a_daemon_that_hangs_with_its_store),
    ("a_daemon_that_hangs_beside_its_store", a_daemon_that_hangs_beside_its_store),
];

/// Every operation on mail that is there.
fn operations(id: &str) -> Vec<[&str; 2]> {
    let on_ids = ["get", "read", "mark-read", "mark-unread", "archive", "delete", "reply", "thread"];
    let on_names = ["send", "inbox", "check", "all", "count"];
    on_ids.into_iter().map(|name| [name, id]).chain(on_names.into_iter().map(|name| [name, "bob"])).collect()
}

/// None of them succeeds, and none says that the message is not there or was archived.
#[track_caller]
fn all_fail(post: &Post, id: &str, says: &[&str]) {
    for args in operations(id) {
        let output = post.fails(&args);
        assert!(
            !output.stderr.contains(NOT_FOUND) && !output.stderr.contains("already archived"),
            "{args:?}\n{output}"
        );
        output.says(says);
    }
    post.fails(&["ensure-running"]).says(says);
}

fn a_configuration_that_cannot_be_read() {
    let post = Post::named("files");
    let id = post.hello();
    let directory = post.sandbox.home().join(".config/fmail");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.toml"), "[mail\n").unwrap();
    all_fail(&post, &id, &["config.toml"]);
}

fn a_store_that_is_not_there() {
    let post = Post::named("files");
    let id = post.hello();
    post.sandbox.configure("store = \"missing\"", "");
    all_fail(&post, &id, &["missing"]);
}

fn files_that_may_not_be_read() {
    let post = Post::named("files");
    let id = post.hello();
    fs::set_permissions(post.sandbox.store(), Permissions::from_mode(0o000)).unwrap();
    for args in operations(&id) {
        let input = r#"{"from":"alice","subject":"s","body":"b"}"#;
        let output = post.script(&args).stdin(input).unprivileged().run();
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{args:?}\n{output}");
        assert!(output.stderr.contains("ermission denied"), "{args:?}\n{output}");
        assert!(!output.stderr.contains(NOT_FOUND), "{args:?}\n{output}");
    }
    fs::set_permissions(post.sandbox.store(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(post.ids("inbox", "bob"), [id], "nothing was lost by it");
}

fn files_that_are_broken() {
    let post = Post::named("files");
    let id = post.hello();
    post.one("read", &id);
    let records = post.sandbox.store().join("records/mailbox/bob");
    for name in post.sandbox.names(".fmail/records/mailbox/bob") {
        fs::write(records.join(name), "{ half of a rec").unwrap();
    }
    for operation in ["inbox", "check", "all", "count"] {
        post.fails(&[operation, "bob"]).says(&[".fmail/records/mailbox/bob/"]);
        post.fails(&[operation, ""]).says(&[".fmail/records/mailbox/bob/"]);
    }
    for operation in ["get", "read", "mark-read", "archive", "thread"] {
        let output = post.fails(&[operation, &id]);
        output.says(&[".fmail/records/mailbox/bob/"]);
        assert!(!output.stderr.contains(NOT_FOUND), "{operation}\n{output}");
    }
}

fn a_database_that_is_broken() {
    let post = Post::named("sqlite");
    let id = post.hello();
    let mut broken = 0;
    let mut directories = vec![post.sandbox.store()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if fs::read(&path).unwrap().starts_with(b"SQLite format 3") {
                let size = path.metadata().unwrap().len() as usize;
                fs::write(&path, "not a database ".repeat(size / 15 + 1)).unwrap();
                broken += 1;
            } else if path.to_string_lossy().ends_with("-wal") {
                fs::remove_file(&path).unwrap();
            }
        }
    }
    assert_eq!(broken, 1, "the database was found");
    all_fail(&post, &id, &[]);
}

fn a_daemon_that_is_gone_with_its_store() {
    let mut post = Post::named("memory_in_forged");
    let id = post.hello();
    post.daemon.take().unwrap().kill();
    all_fail(&post, &id, &["no forged answers"]);
}

fn a_daemon_that_hangs_with_its_store() {
    let post = Post::named("memory_in_forged");
    let id = post.hello();
    let daemon = post.daemon.as_ref().unwrap();
    daemon.signal(Signal::STOP);
    // Callers wait for 30 s. All at once, since each takes as long as a daemon is waited for.
    let start = Instant::now();
    let asked: Vec<_> = operations(&id)
        .into_iter()
        .map(|args| (args, post.script(&args).stdin(r#"{"from":"alice","subject":"s","body":"b"}"#).spawn()))
        .collect();
    for (args, running) in asked {
        let output = running.wait();
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{args:?}\n{output}");
        assert!(output.stderr.contains("did not answer in time"), "{args:?}\n{output}");
    }
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    daemon.signal(Signal::CONT);
    assert_eq!(post.ids("inbox", "bob"), [id]);
}

fn a_daemon_that_hangs_beside_its_store() {
    for name in ["files_through_forged", "sqlite_through_forged"] {
        let post = Post::named(name);
        let id = post.hello();
        let daemon = post.daemon.as_ref().unwrap();
        daemon.signal(Signal::STOP);
        assert_eq!(post.ids("inbox", "bob"), [id.as_str()], "{name}");
        let second = post.hello();
        post.done("archive", &id);
        assert_eq!(post.ids("all", "bob"), [second.as_str()], "{name}");
        daemon.signal(Signal::CONT);
        // What the daemon was asked for before it was given up stores nothing twice.
        assert_eq!(post.ids("all", "bob"), [second], "{name}");
    }
}
