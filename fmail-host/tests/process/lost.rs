//! Children that end when they should not.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fmail_api::ErrorKind;
use futures::executor::block_on;
use futures::{StreamExt, stream};

use crate::kit::{LONG, Rig, example, expect, start, wait_until_gone, wicked};

/// The call ends with this, and the next one finds the program started again.
#[track_caller]
fn check(command: &str, parts: &[&str]) {
    let (rig, other) = (Rig::wicked(), Rig::wicked());
    let first = rig.pid();
    let error = expect(rig.tell(command), parts);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.retryable(), "what only looks can be repeated: {error}");
    assert!(error.to_string().starts_with("the plugin `wicked`, `read`: its program `python3 "), "{error}");
    assert_eq!(rig.tell("count").unwrap(), "1", "it starts from the beginning");
    assert_ne!(rig.pid(), first);
    wait_until_gone(first);
    assert_eq!(other.tell("count").unwrap(), "1");
    assert_eq!((rig.heard.lost.load(Ordering::SeqCst), other.heard.lost.load(Ordering::SeqCst)), (1, 0));
    rig.close();
    other.close();
}

#[test]
fn an_exit() {
    check("exit 0", &["ended with exit status: 0"]);
}

#[test]
fn a_kill() {
    check("kill 9", &["ended with signal: 9 (SIGKILL)"]);
}

#[test]
fn an_abort() {
    check("kill 6", &["ended with signal: 6 (SIGABRT)"]);
}

#[test]
fn a_segfault() {
    check("kill 11", &["ended with signal: 11 (SIGSEGV)"]);
}

#[test]
fn the_last_words_are_told() {
    check("last-words", &["ended with exit status: 3; it last said: first words | last words", "help: the next call"]);
}

#[test]
fn half_a_line_and_an_exit() {
    check("half", &["ended with exit status: 0 in the middle of a line"]);
}

#[test]
fn an_answer_just_before_the_end_counts() {
    let rig = Rig::wicked();
    for _ in 0..3 {
        // The second is written to a child that is ending, or waits for the next one.
        let (first, second) = ("answer-and-exit", "echo on");
        let first = rig.instance.call("read", b"", first.as_bytes());
        let second = async {
            let error = rig.instance.call("read", b"", second.as_bytes()).await;
            assert!(error.is_ok() || error.unwrap_err().to_string().contains("ended with exit status: 0"));
        };
        let (first, ()) = block_on(futures::future::join(first, second));
        assert_eq!(&*first.unwrap(), b"farewell");
    }
    rig.close();
}

#[test]
fn a_closed_output() {
    check("close-output", &["closed its standard output, and was killed"]);
}

#[test]
fn a_background_child_that_keeps_the_pipes_open_is_killed_too() {
    let rig = Rig::wicked();
    let error = expect(rig.tell("fork"), &["ended with exit status: 5; it last said: grandchild "]);
    let pid = error.to_string().rsplit(' ').next().unwrap().parse().unwrap();
    wait_until_gone(pid);
    assert_eq!(rig.tell("echo on").unwrap(), "on");
    rig.close();
}

#[test]
fn of_a_change_it_is_said_that_nobody_knows_and_it_is_not_to_be_repeated() {
    let rig = Rig::wicked();
    let error = expect(
        rig.call("append", "kill 9"),
        &[
            "ended with signal: 9 (SIGKILL); it is not known whether `append` took effect",
            "help: look before you repeat",
        ],
    );
    assert!(error.kind() == ErrorKind::Unavailable && !error.retryable());
    rig.close();
}

#[test]
fn a_stream_ends_with_an_error_that_lets_one_go_on() {
    let rig = Rig::wicked();
    let (_, items) = block_on(rig.instance.stream("watch", b"", b"stream-and-die")).unwrap();
    let items: Vec<_> = block_on(items.collect());
    assert_eq!(items.len(), 2, "what came before the end counts");
    let error =
        expect(items.into_iter().next_back().unwrap(), &["ended with exit status: 9", "watch again from the last"]);
    assert!(error.retryable());
    rig.close();
}

#[test]
fn a_kill_in_the_middle_of_many_calls_ends_each_of_them_once() {
    let rig = start(vec![example().into()], LONG).unwrap();
    let pid = rig.heard.wait_for("runs as process");
    let pid = rustix::process::Pid::from_raw(pid.rsplit(' ').next().unwrap().parse().unwrap()).unwrap();
    let call = |at: u32| {
        let (rig, request) = (&rig, format!("{at} entry"));
        async move {
            if at == 1000 {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
            rig.instance.call("append", b"", request.as_bytes()).await
        }
    };
    let answers: Vec<_> = block_on(stream::iter(1..=2000).map(call).buffer_unordered(64).collect());
    assert_eq!(answers.len(), 2000);
    let stored = answers.iter().filter(|answer| answer.is_ok()).count();
    let unknown =
        answers.iter().filter(|answer| answer.as_ref().is_err_and(|error| error.to_string().contains("SIGKILL")));
    let unknown = unknown.count();
    let conflicts =
        answers.iter().filter(|answer| answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict));
    assert!(stored >= 936 && (1..=64).contains(&unknown), "{stored} stored, {unknown} unknown");
    assert_eq!(stored + unknown + conflicts.count(), 2000, "the new child begins with an empty log");
    assert_eq!(rig.call("append", "1 first").unwrap(), "");
    block_on(rig.instance.close(LONG)).unwrap();
}

#[test]
fn a_call_that_waits_for_the_restart_is_kept_within_its_deadline() {
    let rig = Rig::wicked();
    let asked: Vec<_> = ["kill 9", "echo a", "echo b"]
        .into_iter()
        .map(|command| rig.instance.call("read", b"", command.as_bytes()))
        .collect();
    let answers: Vec<_> = block_on(futures::future::join_all(asked));
    assert!(answers[0].is_err());
    // The others were either seen by the first child, and lost, or answered by the second.
    assert_eq!(rig.tell("echo c").unwrap(), "c");
    rig.close();
}

#[test]
fn another_manifest_after_the_restart_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let rig = start(wicked(&["another-manifest", mark.to_str().unwrap()]), LONG).unwrap();
    expect(rig.tell("exit 1"), &["exit status: 1"]);
    let error = expect(rig.tell("echo"), &["it failed ", "has another manifest than at first"]);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn a_program_that_always_fails_is_left_alone_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let rig = start(wicked(&["second-fails", mark.to_str().unwrap()]), LONG).unwrap();
    expect(rig.tell("exit 1"), &["exit status: 1"]);
    expect(
        rig.tell("echo"),
        &["is not running: it failed 5 times in a row; the next attempt is due in ", "exit status: 4"],
    );
    let begun = Instant::now();
    let error = expect(rig.tell("echo"), &["the next attempt is due in ", "help: nothing was sent to it"]);
    assert!(begun.elapsed() < Duration::from_millis(400), "answered at once, not after {:?}", begun.elapsed());
    assert!(error.retryable());
    // As soon as it is well again, calls succeed.
    std::fs::remove_file(&mark).unwrap();
    let begun = Instant::now();
    while rig.tell("echo").is_err() {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(20));
    }
    rig.close();
}

#[test]
fn ten_thousand_calls_with_64_in_flight_and_none_is_lost() {
    let rig = start(vec![example().into()], LONG).unwrap();
    let call = |at: u32| {
        let (rig, request) = (&rig, format!("{at} entry {at}"));
        async move { rig.instance.call("append", b"", request.as_bytes()).await }
    };
    let answers: Vec<_> = block_on(stream::iter(1..=10_000).map(call).buffer_unordered(64).collect());
    for answer in &answers {
        assert!(answer.is_ok(), "{answer:?}");
    }
    let read = rig.call("read", "0 20000 100000000").unwrap();
    let expected: String =
        (1..=10_000).map(|at| format!("{at} {at_entry}\n", at_entry = format_args!("entry {at}"))).collect();
    assert!(read == expected, "{} bytes were read, {} written", read.len(), expected.len());
    assert_eq!(rig.heard.calls.counters(), Default::default());
    assert_eq!(rig.heard.calls.under_way(), 0);
    block_on(rig.instance.close(LONG)).unwrap();
}
