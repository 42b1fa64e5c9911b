//! Programs that do not begin as they should: each has its own message.

use std::time::Duration;

use fmail_api::ErrorKind;
use fmail_host::plugin::Program;

use crate::kit::{LONG, Rig, expect, shell, start, wicked};

#[test]
fn one_that_is_not_there() {
    let error = expect(
        start(vec!["/no/such/program".into()], LONG).map(drop),
        &["the plugin `wicked`: ", "cannot run `/no/such/program`: there is no such program", "help: check"],
    );
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn one_that_is_not_executable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    expect(start(vec![file.into()], LONG).map(drop), &["it is not executable, or may not be executed by this user"]);
}

#[test]
fn an_empty_command() {
    expect(Program::new("x", vec![], LONG), &["the command is empty", "mail.plugin.x.command"]);
}

#[test]
fn one_that_prints_something_else_first() {
    expect(
        start(wicked(&["noise"]), LONG).map(drop),
        &[
            "its program `python3 ",
            "printed what is no line of the plugin protocol: Welcome to my program!",
            "and was killed",
        ],
    );
    expect(
        start(shell("read hello; echo '{\"done\":1}'; sleep 100"), LONG).map(drop),
        &["said something else before `hello`"],
    );
}

#[test]
fn one_that_prints_nothing() {
    let short = Duration::from_millis(600);
    expect(start(wicked(&["hang"]), short).map(drop), &["did not answer `hello` within 600ms, and was killed"]);
}

#[test]
fn one_that_closes_its_output() {
    expect(start(wicked(&["close"]), LONG).map(drop), &["closed its standard output, and was killed"]);
}

#[test]
fn one_that_exits_at_once() {
    expect(
        start(wicked(&["exit", "3"]), LONG).map(drop),
        &[
            "ended with exit status: 3 before it answered `hello`; it last said: cannot find my database",
            "help: a program",
        ],
    );
    expect(start(shell("exit 0"), LONG).map(drop), &["ended with exit status: 0 before it answered `hello`"]);
}

#[test]
fn one_that_refuses_to_be_created() {
    let error =
        expect(start(wicked(&["refuses"]), LONG).map(drop), &["the plugin `wicked`, `create`: the path is wrong"]);
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

#[test]
fn one_that_is_never_ready() {
    let error =
        expect(start(wicked(&["never-ready"]), Duration::from_secs(3)).map(drop), &["`create`: no answer within 3s"]);
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[test]
fn lines_of_the_log_around_the_greeting_are_no_fault() {
    let rig = start(wicked(&["chatty"]), LONG).unwrap();
    rig.heard.wait_for("before hello");
    rig.heard.wait_for("after hello");
    rig.close();
}

#[test]
fn the_greeting_gives_the_manifest() {
    let rig = Rig::wicked();
    assert_eq!(rig.instance.manifest().name.to_string(), "wicked");
    assert_eq!(rig.tell("echo grüße {\"a\":1}\n").unwrap(), "grüße {\"a\":1}\n");
    rig.close();
}
