//! The native protocol: the example of its document, in both modes, and scripts that break it.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bench, agent, bodies, draft, inbox, mailbox, open, send};
use fmail_api::{ErrorKind, Folder, Mark, Priority, Store};
use fmail_exec::{ExecOptions, Mode, Protocol};
use futures::executor::block_on;
use futures::future::join_all;
use serde_json::json;

fn native(bench: &Bench, mode: Mode) -> ExecOptions {
    let command = bench.python(&bench.documented());
    ExecOptions { protocol: Protocol::Native, mode, ..bench.options(command) }
}

#[track_caller]
fn whole_life(mode: Mode) {
    let bench = Bench::new();
    let store = open(native(&bench, mode));
    let (store, bob) = (&*store, agent("bob"));
    let first = send(store, "alice", "bob", "may I?").unwrap().message;
    assert_eq!((first.from.as_str(), first.to.to_string().as_str()), ("alice", "@bob"));
    // What its features allow.
    let mut rich = draft("alice", "bob", "x");
    rich.body = json!({"deep": [1, null]});
    rich.priority = Priority::High;
    rich.tags = vec!["urgent".parse().unwrap()];
    rich.thread = Some("release".into());
    let rich = block_on(store.append(rich)).unwrap().message;
    let listed = inbox(store, "bob", Folder::Unread).unwrap();
    assert_eq!(listed[1].message.body, json!({"deep": [1, null]}));
    assert_eq!((listed[1].message.priority, listed[1].message.thread.as_deref()), (Priority::High, Some("release")));
    // And what they do not.
    let mut cc = draft("alice", "bob", "x");
    cc.more.cc = vec!["@carol".parse().unwrap()];
    let error = block_on(store.append(cc)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("recipients beyond the first"), "{error}");
    // `reply` is derived.
    let mut answer = draft("bob", "alice", "yes");
    answer.reply_to = Some(first.id);
    let answer = block_on(store.append(answer)).unwrap().message;
    assert_eq!((answer.reply_to, &answer.thread), (Some(first.id), &first.thread));
    let thread = block_on(mailbox(store).thread(&bob, first.thread.as_deref().unwrap())).unwrap();
    assert_eq!(bodies(&thread), ["may I?", "yes"]);
    // `read` and `inbox` are derived.
    assert!(block_on(mailbox(store).read(&bob, first.id)).unwrap().state.is_read());
    assert_eq!(inbox(store, "bob", Folder::Unread).unwrap().len(), 1);
    let count = block_on(mailbox(store).count(&bob)).unwrap();
    assert_eq!((count.total, count.unread), (2, 1));
    let mark = |mark| block_on(mailbox(store).mark(&bob, rich.id, mark));
    assert!(mark(Mark::Archived).unwrap() && !mark(Mark::Archived).unwrap());
    assert_eq!(inbox(store, "bob", Folder::Archived).unwrap()[0].message.id, rich.id);
    assert!(mark(Mark::Unarchived).unwrap());
    let error = mark(Mark::Acknowledged).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    block_on(store.health()).unwrap();
    block_on(store.close()).unwrap();
}

#[test]
fn the_documented_script_works_once_per_call() {
    whole_life(Mode::Once);
}

#[test]
fn the_documented_script_works_line_by_line() {
    whole_life(Mode::Lines);
}

#[test]
fn keys_are_the_scripts_where_it_knows_them() {
    let bench = Bench::new();
    let store = open(native(&bench, Mode::Lines));
    let mut once = draft("alice", "bob", "once");
    once.key = Some("k".into());
    let sends = join_all((0..10).map(|_| store.append(once.clone())));
    let sent: Vec<_> = block_on(sends).into_iter().map(Result::unwrap).collect();
    assert_eq!(sent.iter().filter(|sent| !sent.duplicate).count(), 1);
    assert!(sent.iter().all(|one| one.message.id == sent[0].message.id));
    assert_eq!(inbox(&*store, "bob", Folder::Open).unwrap().len(), 1);
}

/// A script that answers `describe` like this, and everything else with its request's arguments.
fn described(bench: &Bench, description: &str) -> Arc<dyn Store> {
    let text =
        format!("#!/bin/sh\ncase $1 in describe) echo '{{\"ok\":{description}}}';; *) cat >/dev/null; exit 1;; esac\n");
    open(ExecOptions { protocol: Protocol::Native, ..bench.options(bench.script(&text)) })
}

#[test]
fn a_script_without_the_core_is_refused_with_what_it_lacks() {
    for (description, kind, says) in [
        (r#"{"protocol":1,"name":"x","ops":["send","get"]}"#, ErrorKind::Unsupported, "lacks `all`, `mark`"),
        (r#"{"protocol":1,"name":"x"}"#, ErrorKind::Unsupported, "it names none"),
        (r#"{"protocol":2,"name":"x","ops":[]}"#, ErrorKind::Unsupported, "speaks version 2"),
        (r#"{"name":"x"}"#, ErrorKind::Corrupt, "`protocol` that is missing"),
        (r#"{"protocol":1,"name":"x","ops":"send"}"#, ErrorKind::Corrupt, "a list of texts"),
        (r#"{"protocol":1,"ops":["send","get","all","mark"]}"#, ErrorKind::Corrupt, "`name` that is missing"),
    ] {
        let error = inbox(&*described(&Bench::new(), description), "bob", Folder::Unread).unwrap_err();
        assert_eq!(error.kind(), kind, "{description}: {error:?}");
        assert!(error.message().contains(says), "{description}: {error}");
    }
}

#[test]
fn errors_have_their_code_and_outages_are_not_empty() {
    for (answer, kind, says) in [
        (
            r#"echo '{"error":{"code":"unavailable","message":"locked"}}'"#,
            ErrorKind::Unavailable,
            "unavailable: locked",
        ),
        (r#"echo '{"error":{"code":"denied","message":"no"}}'; exit 3"#, ErrorKind::Denied, "denied: no"),
        (r#"echo '{"error":{"code":"teapot","message":"short"}}'"#, ErrorKind::Internal, "unknown code `teapot`"),
        (r#"echo '{"error":"no"}'"#, ErrorKind::Corrupt, "no `code`"),
        ("echo down >&2; exit 1", ErrorKind::Unavailable, "exit status 1: down"),
        ("exit 2", ErrorKind::Unavailable, "exit status 2"),
        ("exit 0", ErrorKind::Corrupt, "has not answered"),
        ("echo '[]'", ErrorKind::Corrupt, "a list where an object"),
        ("echo '{}'", ErrorKind::Corrupt, "without `ok` and without `error`"),
        (r#"echo '{"ok":{"messages":[]}}'"#, ErrorKind::Corrupt, "an object where a list of messages"),
        (r#"echo '{"id":"9","ok":[]}'"#, ErrorKind::Corrupt, "answers the request"),
        (r#"echo '{"ok":[]} {"ok":[]}'"#, ErrorKind::Corrupt, "more than one value"),
        ("kill -9 $$", ErrorKind::Unavailable, "SIGKILL"),
    ] {
        let bench = Bench::new();
        let core = r#"{"ok":{"protocol":1,"name":"x","ops":["send","get","all","mark"]}}"#;
        let text = format!("#!/bin/sh\n[ $1 = describe ] && {{ echo '{core}'; exit 0; }}\n{answer}\n");
        let store = open(ExecOptions { protocol: Protocol::Native, ..bench.options(bench.script(&text)) });
        let error = inbox(&*store, "bob", Folder::Unread).unwrap_err();
        assert_eq!(error.kind(), kind, "{answer}: {error:?}");
        assert!(error.message().contains(says), "{answer}: {error}");
        assert!(send(&*store, "alice", "bob", "x").is_err(), "{answer}");
        assert!(block_on(mailbox(&*store).count(&agent("bob"))).is_err(), "{answer}");
    }
}

/// A long-lived script that answers `describe`, and then does this with each line.
fn serving(bench: &Bench, then: &str, timeout: Duration) -> Arc<dyn Store> {
    let core = r#"{"id":"1","ok":{"protocol":1,"name":"x","ops":["send","get","all","mark"]}}"#;
    let text =
        format!("#!/bin/sh\nwhile read line; do case $line in *describe*) echo '{core}';; *) {then};; esac; done\n");
    let options = bench.options(bench.script(&text));
    open(ExecOptions { protocol: Protocol::Native, mode: Mode::Lines, timeout, max_output: 100_000, ..options })
}

#[test]
fn a_long_lived_script_that_breaks_is_told_and_started_again() {
    for (then, kind, says) in [
        ("echo oops >&2; exit 3", ErrorKind::Unavailable, "exit status: 3"),
        ("kill -9 $$", ErrorKind::Unavailable, "signal: 9"),
        ("echo hello", ErrorKind::Unavailable, "no answer"),
        ("echo '{\"ok\":[]}'", ErrorKind::Unavailable, "without the `id`"),
        ("yes | tr -d '\\n' | head -c 1000000", ErrorKind::Unavailable, "more than 100000 bytes"),
        ("sleep 600", ErrorKind::Timeout, "had not answered after"),
    ] {
        let bench = Bench::new();
        let short = kind == ErrorKind::Timeout;
        let store = serving(&bench, then, Duration::from_millis(if short { 2500 } else { 60_000 }));
        for _ in 0..2 {
            let error = inbox(&*store, "bob", Folder::Unread).unwrap_err();
            assert_eq!(error.kind(), kind, "{then}: {error:?}");
            assert!(error.message().contains(says), "{then}: {error}");
        }
        block_on(store.close()).unwrap();
    }
}

#[test]
fn answers_may_come_in_any_order_and_one_process_serves_all() {
    let bench = Bench::new();
    let store = open(native(&bench, Mode::Lines));
    let sends = join_all((0..40).map(|number| store.append(draft("alice", "bob", &number.to_string()))));
    let sent: Vec<_> = block_on(sends).into_iter().map(|sent| sent.unwrap().message.body.clone()).collect();
    assert!((0..40).all(|number| sent[number] == json!(number.to_string())), "{sent:?}");
    assert_eq!(inbox(&*store, "bob", Folder::Open).unwrap().len(), 40);
}

#[test]
fn what_the_script_says_to_be_too_large_is_not_sent() {
    let bench = Bench::new();
    let core = r#"{"protocol":1,"name":"x","ops":["send","get","all","mark"],"limits":{"max_message_bytes":200}}"#;
    let error = send(&*described(&bench, core), "alice", "bob", &"x".repeat(300)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.message().contains("at most 200"), "{error}");
}
