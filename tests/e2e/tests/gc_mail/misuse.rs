//! Calls that cannot be answered. Exit code 2 is a success to callers, and is given to unknown operations alone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fmail_e2e::Sandbox;

use crate::post::{Post, refused};

crate::cases! {
    an_unknown_operation_ends_with_two help_and_version_are_there a_wrong_number_of_arguments_is_a_failure
    what_is_no_message_on_standard_input_is_told ensuring_changes_nothing the_project_is_found_as_fmail_finds_it
    ; served:
}

fn an_unknown_operation_ends_with_two(post: &Post) {
    for args in [&["archive-many", "a", "b"][..], &["describe"], &[""], &["SEND", "bob"], &["--json"]] {
        let output = post.run(args);
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{args:?}\n{output}");
        output.says(&["there is no operation", "Usage: fmail-gc-mail OPERATION", "mark-unread ID"]);
    }
}

fn help_and_version_are_there(post: &Post) {
    let help = post.script(&["--help"]).ok().stdout;
    let operations =
        ["ensure-running", "send", "reply", "get", "read", "mark-read", "mark-unread", "archive", "delete"];
    for operation in operations.into_iter().chain(["inbox", "check", "all", "thread", "count"]) {
        assert!(help.lines().any(|line| line.starts_with(&format!("  {operation} "))), "{operation}\n{help}");
    }
    let version = post.script(&["--version"]).ok().stdout;
    let fmail = post.fmail("alice", &["--version"]).stdout;
    assert_eq!(version.replace("fmail-gc-mail", "fmail"), fmail);
}

fn a_wrong_number_of_arguments_is_a_failure(post: &Post) {
    post.fails(&[]).says(&["no operation is named"]);
    for args in
        [&["send"][..], &["get"], &["inbox"], &["count", "a", "b"], &["archive", "x", "y"], &["ensure-running", "x"]]
    {
        post.fails(args).says(&["arguments, and takes", args[0]]);
    }
    let raw = post.script(&[OsStr::new("inbox"), OsStr::from_bytes(b"b\xffb")]).run();
    refused(&["inbox"], raw).says(&["is not UTF-8"]);
}

fn what_is_no_message_on_standard_input_is_told(post: &Post) {
    let hello = post.hello();
    let inputs: [&[u8]; 11] = [
        b"",
        b"hello",
        b"{\"from\":\"alice\",\"subj",
        b"[]",
        b"null",
        b"{}",
        b"{\"from\":7,\"subject\":\"s\",\"body\":\"b\"}",
        b"{\"from\":\"a\",\"subject\":\"s\",\"body\":{\"x\":1}}",
        b"{\"from\":\"a\",\"subject\":\"s\",\"body\":\"b\"}{}",
        b"{\"from\":\"a\",\"subject\":\"s\",\"body\":\"\xff\"}",
        b"{\"from\":\"a\",\"subject\":\"s\",\"body\":\"\\ud800\"}",
    ];
    for args in [["send", "bob"], ["reply", &hello]] {
        for input in inputs {
            let output = refused(&args, post.script(&args).stdin(input).run());
            assert!(!output.stderr.contains("gc-mail-error"), "{output}");
        }
        // Standard input that nobody wrote to.
        refused(&args, post.script(&args).run()).says(&["standard input is empty"]);
    }
    // What a later caller adds does not keep a message from being sent.
    let more = br#"{"from":"alice","subject":"s","body":"b","idempotency_key":"k"}"#;
    post.script(&["send", "bob"]).stdin(more.as_slice()).ok();
    assert_eq!((post.count("bob"), post.count("alice")), ((2, 2), (0, 0)));
}

fn ensuring_changes_nothing(post: &Post) {
    let tree = |sandbox: &Sandbox| sandbox.names(".").len();
    let before = tree(&post.sandbox);
    let output = post.run(&["ensure-running"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
    if post.daemon.is_none() && !post.sandbox.home().join(".config/fmail").exists() {
        assert_eq!(tree(&post.sandbox), before, "nothing is created by it");
    }
}

/// Callers run the script wherever they are themselves.
fn the_project_is_found_as_fmail_finds_it(post: &Post) {
    let hello = post.hello();
    let below = post.sandbox.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    assert_eq!(post.script(&["inbox", "bob"]).cwd(&below).ok().json()[0]["id"], hello);
    let elsewhere = post.sandbox.outside();
    let root = post.sandbox.path();
    let found = post.script(&["get", &hello]).cwd(elsewhere).env("FMAIL_ROOT", &root).ok();
    assert_eq!(found.json()["id"], hello);
    // Whoever calls has a name of its own, or an unusable one: it is not the one that acts.
    for agent in ["eve", "not/a name"] {
        assert_eq!(post.script(&["inbox", "bob"]).env("FMAIL_AGENT", agent).ok().json()[0]["id"], hello);
    }
}
