//! What a child sees, and what is heard of it.

use std::os::fd::AsRawFd;
use std::time::Duration;

use fmail_host::plugin::Program;

use crate::kit::{LONG, Rig, start_as, wicked};

#[test]
fn standard_error_is_logged_line_by_line() {
    let rig = Rig::wicked();
    assert!(rig.tell("last-words").is_err());
    assert_eq!(rig.heard.wait_for("first words"), "Warn stderr: first words");
    assert_eq!(rig.heard.wait_for("last words"), "Warn stderr: last words");
    let ended = rig.heard.wait_for("exit status: 3");
    assert!(
        ended.starts_with("Error process: `python3 ") && ended.contains("; it last said: first words | last"),
        "{ended}"
    );
    rig.close();
}

#[test]
fn its_own_log_is_passed_on() {
    let rig = Rig::wicked();
    rig.tell("log all is well").unwrap();
    assert_eq!(rig.heard.wait_for("all is well"), "Info wicked: all is well");
    assert!(rig.heard.log().iter().any(|line| line.starts_with("Debug process: `python3 ")));
    rig.close();
}

#[test]
fn it_runs_in_its_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut program = Program::new("wicked", wicked(&[]), LONG).unwrap();
    program.data_dir = Some(directory.path().canonicalize().unwrap());
    let rig = start_as(program.clone()).unwrap();
    assert_eq!(rig.tell("cwd").unwrap(), program.data_dir.unwrap().to_str().unwrap());
    rig.close();
    let rig = Rig::wicked();
    assert_eq!(rig.tell("cwd").unwrap(), "/");
    rig.close();
}

#[test]
fn no_file_of_ours_is_open_in_it() {
    // As a C library would open it: without the mark that exec closes it.
    let (reader, _writer) = std::io::pipe().unwrap();
    let leaked = rustix::io::dup(&reader).unwrap();
    assert!(!rustix::io::fcntl_getfd(&leaked).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let rig = Rig::wicked();
    let files = rig.tell("files").unwrap();
    // The fourth is the directory that is being listed.
    assert_eq!(files.split(' ').count(), 4, "{files} and ours is {}", leaked.as_raw_fd());
    rig.close();
}

#[test]
fn what_it_asks_is_answered() {
    let rig = Rig::wicked();
    let answer = rig.tell("ask request").unwrap();
    assert_eq!(answer, r#"{"status": 0, "answer": "request {\"project\": \"p\"} {\"cmd\": \"hello\"}"}"#);
    rig.close();
}

#[test]
fn a_restart_is_quick_after_the_first_failure() {
    let rig = Rig::wicked();
    assert!(rig.tell("exit 1").is_err());
    let begun = std::time::Instant::now();
    assert_eq!(rig.tell("echo on").unwrap(), "on");
    assert!(begun.elapsed() > Duration::from_millis(30) && begun.elapsed() < LONG, "{:?}", begun.elapsed());
    rig.close();
}
