//! Looking at mail costs the same in a large project as in a small one, wherever the many messages are: in topics, or
//! archived or read in the mailbox itself. What is asserted is the work, which is the same on every machine.

use std::path::Path;
use std::time::Instant;

use fmail_e2e::{Sandbox, fmail_binary};
use xtask::fixture::{self, OWNER};

const SMALL: usize = 1_000;
const UNREAD: usize = 20;

fn large() -> usize {
    if std::env::var_os("FMAIL_TEST_FULL").is_some() { 100_000 } else { 20_000 }
}

/// Where the messages are that are not unread mail.
#[derive(Debug, Clone, Copy)]
enum Many {
    InTopics,
    Archived,
    Read,
}

/// A project with so many messages and twenty unread ones for its owner, who was last seen long ago.
fn project(many: Many, messages: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let copied = match many {
        Many::InTopics => fixture::copy(messages, &sandbox.path()),
        Many::Archived | Many::Read => fixture::copy_mailbox(messages, &sandbox.path()),
    };
    copied.unwrap_or_else(|error| panic!("{error}"));
    let started = Instant::now();
    let command = if matches!(many, Many::Read) { "mark-read" } else { "archive" };
    let marked = sandbox.agent(OWNER).args([command, "--all"]).ok().stdout.lines().count();
    println!("{many:?}: {command} --all of {marked} messages took {:?}", started.elapsed());
    let record =
        format!(r#"{{"name":"{OWNER}","first_seen":"2026-01-01T00:00:00Z","last_seen":"2026-01-01T00:00:00Z"}}"#);
    std::fs::write(sandbox.store().join(format!("agents/{OWNER}.json")), record).unwrap();
    for number in 0..UNREAD {
        sandbox.send("alice", &format!("@{OWNER}"), &format!("unread {number}"));
    }
    sandbox.agent(OWNER).arg("inbox").ok();
    let count = sandbox.agent(OWNER).args(["count", "--json"]).ok().json();
    assert_eq!(count["unread"], UNREAD);
    sandbox
}

/// How many system calls a command makes, and how many bytes it reads, at its least: once in a while a command lists a
/// directory anew, to find what others wrote there.
fn work(sandbox: &Sandbox, agent: &str, args: &[&str]) -> (usize, usize) {
    let traces: Vec<(usize, usize)> = (0..4).map(|_| traced(sandbox, agent, args)).collect();
    let least = |number: fn(&(usize, usize)) -> usize| traces.iter().map(number).min().unwrap();
    (least(|trace| trace.0), least(|trace| trace.1))
}

fn traced(sandbox: &Sandbox, agent: &str, args: &[&str]) -> (usize, usize) {
    let trace = sandbox.outside().join("trace");
    sandbox
        .command(Path::new("strace"))
        .agent(agent)
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(fmail_binary())
        .args(args)
        .ok();
    let trace = std::fs::read_to_string(trace).unwrap();
    let calls = trace.lines().filter(|line| line.contains('(')).count();
    let reads = trace.lines().filter(|line| line.contains(" read(") || line.contains(" pread64("));
    let bytes = reads.filter_map(|line| line.rsplit(" = ").next()?.parse::<usize>().ok()).sum();
    (calls, bytes)
}

fn compare(many: Many) {
    let (small, large) = (project(many, SMALL), project(many, large()));
    let to = format!("@{OWNER}");
    let commands: [(&str, &[&str]); 5] = [
        (OWNER, &["inbox"]),
        (OWNER, &["count"]),
        (OWNER, &["check"]),
        ("alice", &["send", &to, "one more"]),
        (OWNER, &["mark-read", "--from", "alice", "--dry-run"]),
    ];
    for (agent, args) in commands {
        let ((few, little), (more, much)) = (work(&small, agent, args), work(&large, agent, args));
        println!("{many:?} {args:?}: {few} calls, {little} bytes -> {more} calls, {much} bytes");
        assert!(more <= few + few / 2 + 40, "{many:?} {args:?}: {few} calls have become {more}");
        assert!(much <= 2 * little + 100_000, "{many:?} {args:?}: {little} bytes have become {much}");
    }
}

#[test]
fn mail_is_as_quick_beside_many_messages_in_topics() {
    compare(Many::InTopics);
}

#[test]
fn mail_is_as_quick_beside_many_archived_messages() {
    compare(Many::Archived);
}

#[test]
fn mail_is_as_quick_beside_many_read_messages() {
    compare(Many::Read);
}
