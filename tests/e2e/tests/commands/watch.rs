//! `fmail watch`

use std::time::{Duration, Instant};

use fmail_e2e::Sandbox;
use rustix::process::Signal;

#[test]
fn a_timeout_ends_it_with_0_and_nothing_printed() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    let start = Instant::now();
    let output = sandbox.agent("me").args(["watch", "--timeout", "300ms"]).ok();
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
}

#[test]
fn the_timeout_is_total_time_also_with_messages_coming() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    let mut watch = sandbox.agent("w").args(["watch", "task", "--timeout", "2s", "--count", "100"]).spawn();
    watch.await_watching();
    sandbox.send("me", "task", "one");
    assert!(watch.line().ends_with(": one"));
    let output = watch.wait_within(Duration::from_secs(20));
    assert_eq!((output.code, output.stdout.as_str()), (0, ""));
}

#[test]
fn a_count_ends_it_in_both_forms() {
    for flag in ["--count", "-c"] {
        let sandbox = Sandbox::new();
        sandbox.send("me", "lobby", "exists");
        let mut watch = sandbox.agent("w").args(["watch", "task", flag, "2"]).spawn();
        watch.await_watching();
        for number in 1..=3 {
            sandbox.send("me", "task", &number.to_string());
        }
        let output = watch.wait();
        assert_eq!(output.code, 0);
        let bodies: Vec<&str> = output.stdout.lines().map(|line| line.rsplit(' ').next().unwrap_or("")).collect();
        assert_eq!(bodies, ["1", "2"]);
    }
}

#[test]
fn signals_end_it_with_0() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    for signal in [Signal::INT, Signal::TERM] {
        let mut watch = sandbox.agent("w").args(["watch"]).spawn();
        watch.await_watching().signal(signal);
        let output = watch.wait();
        assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
    }
}

#[test]
fn json_lines_are_the_stored_messages() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    let mut watch = sandbox.agent("w").args(["watch", "task", "--json", "-c", "1"]).spawn();
    watch.await_watching();
    let sent = sandbox.agent("me").args(["send", "task", "x", "-t", "a", "-p", "high", "--json"]).ok().json();
    assert_eq!(watch.json(), sent);
    assert_eq!(watch.wait().code, 0);
}

#[test]
fn since_an_id_or_a_time_comes_first_and_then_what_arrives() {
    let sandbox = Sandbox::new();
    let first = sandbox.send("me", "task", "one");
    sandbox.send("me", "task", "two");
    for (since, stored) in [(first.as_str(), vec!["two"]), ("1h", vec!["one", "two"])] {
        let mut watch = sandbox.agent("w").args(["watch", "task", "--since", since, "--json"]).spawn();
        for body in stored {
            assert_eq!(watch.json()["body"], body);
        }
        watch.await_watching();
        let live = sandbox.send("me", "task", "live");
        assert_eq!(watch.json()["id"], live);
        std::fs::remove_file(sandbox.store().join(format!("topics/task/{live}.json"))).expect("stored");
    }
}

#[test]
fn since_now_is_what_arrives_and_nothing_from_before() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    let mut watch = sandbox.agent("w").args(["watch", "task", "--since", "now", "--json"]).spawn();
    watch.await_watching();
    sandbox.send("me", "task", "after");
    assert_eq!(watch.json()["body"], "after");
}

#[test]
fn it_waits_for_a_project_that_does_not_exist_yet_and_creates_none() {
    let sandbox = Sandbox::new();
    let mut watch = sandbox.agent("w").args(["watch", "task"]).spawn();
    watch.await_watching();
    assert!(!sandbox.store().exists());
    sandbox.send("me", "task", "the very first");
    assert!(watch.line().ends_with(": the very first"));
}

#[test]
fn without_events_it_polls() {
    let sandbox = Sandbox::new();
    let watch = ["watch", "task", "--json", "--since", "1h"];
    sandbox.send("me", "task", "before");
    let mut watch = sandbox.agent("w").args(watch).env("FMAIL_WATCH__EVENTS", "false").spawn();
    assert_eq!(watch.json()["body"], "before");
    sandbox.send("me", "task", "after");
    assert_eq!(watch.json()["body"], "after");
    watch.signal(Signal::INT);
    assert_eq!(watch.wait().code, 0);
}

#[test]
fn another_agent_s_mail_does_not_come_without_a_target() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "lobby", "exists");
    let mut watch = sandbox.agent("w").args(["watch", "--json"]).spawn();
    watch.await_watching();
    sandbox.send("me", "@other", "secret");
    sandbox.send("me", "@w", "mine");
    sandbox.send("me", "new-topic", "news");
    assert_eq!(watch.json()["body"], "mine");
    assert_eq!(watch.json()["body"], "news");
}

#[test]
fn the_watcher_is_tracked() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "lobby", "exists");
    sandbox.agent("w").args(["watch", "--timeout", "10ms"]).ok();
    assert!(sandbox.store().join("agents/w.json").exists());
}

#[test]
fn a_gone_reader_ends_it_without_a_complaint() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "lobby", "exists");
    let mut script = sandbox.bash("w", "fmail watch task --json | head -n 1").spawn();
    script.await_watching();
    sandbox.send("me", "task", "one");
    script.line();
    let output = script.wait();
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
}

#[test]
fn a_gone_reader_ends_it_before_the_next_message() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "one");
    for follow in ["watch task --since 1h", "log task --follow"] {
        let output = sandbox.bash("w", &format!("fmail {follow} | head -n 1")).ok();
        assert!(output.stdout.ends_with(": one\n") && output.stderr.is_empty(), "{output}");
    }
}

/// Runs this with a reader who takes one byte and then neither reads nor goes, and then does `next`.
fn with_a_reader_that_stopped(follow: &str, next: &str) {
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        sandbox.send("me", "task", &"x".repeat(100_000));
    }
    let script = format!(
        "mkfifo ../pipe; exec 5<>../pipe; fmail {follow} >../pipe 5>&- & read -r -N 1 -u 5 _; {next}; wait $!; echo $?"
    );
    let output = sandbox.bash("w", &script).spawn().wait_within(Duration::from_secs(30));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("0\n", ""), "{follow} {next}");
}

#[test]
fn a_reader_that_stopped_does_not_keep_it_from_ending() {
    with_a_reader_that_stopped("watch task --since 1h --timeout 1s", ":");
    with_a_reader_that_stopped("watch task --since 1h", "kill -TERM $!");
    with_a_reader_that_stopped("log task --follow", "kill -TERM $!");
    // Bash makes a command in the background ignore SIGINT; fmail listens all the same.
    with_a_reader_that_stopped("watch task --since 1h", "kill -INT $!");
}
