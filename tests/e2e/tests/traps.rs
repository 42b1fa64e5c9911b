//! The traps that the design names, on real processes: new topics, a stopped lock holder, git, exhausted events, an index
//! or a project that disappears under a running watch.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fmail_e2e::{DEADLINE, Running, Sandbox, eventually, fmail_binary};
use rustix::process::{Pid, Signal, kill_process};

fn full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}

fn watch(sandbox: &Sandbox) -> Running {
    let mut watch = sandbox.agent("watcher").args(["watch", "--json"]).spawn();
    watch.await_watching();
    watch
}

/// The bodies of the next messages of a watch.
fn next_bodies(watch: &mut Running, count: usize) -> Vec<String> {
    (0..count).map(|_| watch.json()["body"].as_str().unwrap().to_string()).collect()
}

fn nothing_more(watch: &mut Running) {
    assert_eq!(watch.line_within(Duration::from_millis(300)), None, "something came that was not expected");
}

#[test]
fn the_first_message_of_three_hundred_new_topics_reaches_a_live_watch() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    let mut watch = watch(&sandbox);
    // Written by hand, as fast as the disk allows: the directory and its first message within microseconds.
    let mut expected = BTreeSet::new();
    for number in 0..300 {
        let place = format!(".fmail/topics/topic-{number}/20260110-153000-{number:04}.json");
        sandbox.write(place, format!(r#"{{"from":"jq","body":"by hand {number}"}}"#));
        expected.insert(format!("by hand {number}"));
    }
    let seen: BTreeSet<String> = next_bodies(&mut watch, 300).into_iter().collect();
    assert_eq!(seen, expected);
    let sends = if full() { 300 } else { 60 };
    for number in 0..sends {
        sandbox.send("sender", &format!("sent-{number}"), &format!("sent {number}"));
    }
    let seen = next_bodies(&mut watch, sends);
    assert_eq!(seen, (0..sends).map(|number| format!("sent {number}")).collect::<Vec<_>>());
    nothing_more(&mut watch);
}

/// Checks that others fail with the holder's name, and that reading goes on.
fn check_locked(sandbox: &Sandbox, holder: u32, visible: usize) {
    let started = Instant::now();
    let refused = sandbox.agent("other").env("FMAIL_LOCK_TIMEOUT", "1s").args(["send", "task", "refused"]).fails(11);
    assert!(started.elapsed() >= Duration::from_secs(1), "it waited for its turn");
    refused.says(&[&format!("process {holder}"), "nothing was written"]);
    let log = sandbox.agent("reader").args(["log", "task", "--json"]).ok();
    assert_eq!(log.stdout.lines().count(), visible, "reading needs no lock\n{log}");
    sandbox.agent("reader").args(["topics"]).ok();
}

#[test]
fn a_lock_that_is_held_stops_writers_with_its_holder_s_name_and_no_reader() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    let lock = File::options().read(true).write(true).open(sandbox.store().join("lock")).unwrap();
    lock.lock().unwrap();
    lock.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0).unwrap();
    check_locked(&sandbox, std::process::id(), 1);
    // A file that another program wrote in the meantime is shown as well, although nobody can index it now.
    sandbox.write(".fmail/topics/task/20260110-153000-0001.json", r#"{"from":"jq","body":"by hand"}"#);
    let log = sandbox.agent("reader").args(["log", "task", "--json"]).ok();
    assert_eq!(log.stdout.lines().count(), 2, "{log}");
    // One that waits gets its turn when the lock is free.
    let waiting = sandbox.agent("patient").args(["send", "task", "waited"]).spawn();
    eventually(20, "a thread that waits for the lock", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", waiting.pid())).ok()?;
        tasks
            .flatten()
            .any(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "fmail-lock"))
            .then_some(())
    });
    drop(lock);
    assert_eq!(waiting.wait().code, 0);
    sandbox.send("sender", "task", "after");
    let mut bodies = sandbox.bodies("reader", &["task"]);
    bodies.sort();
    assert_eq!(bodies, ["after", "by hand", "first", "waited"]);
}

#[test]
fn a_sender_that_is_stopped_inside_the_lock_can_be_named_and_continued() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    let stop = "inject=fdatasync:signal=SIGSTOP:when=1";
    let mut stopped = sandbox
        .command(Path::new("strace"))
        .agent("stopped")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", stop])
        .arg(fmail_binary())
        .args(["send", "task", "continued"])
        .spawn();
    let holder = eventually(DEADLINE.as_secs(), "a sender that is stopped", || {
        assert!(!stopped.has_ended(), "strace cannot trace here");
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", stopped.pid())).ok()?;
        let pid: u32 = children.split_whitespace().next()?.parse().ok()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let state = status.lines().find(|line| line.starts_with("State:"))?;
        // Stopped for good: not only while strace looks at a call.
        (state.contains("T (stopped)") || state.contains("t (tracing stop)")).then_some(())?;
        sandbox.names(".fmail/tmp").contains(&"message".to_string()).then_some(pid)
    });
    check_locked(&sandbox, holder, 1);
    kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::CONT).unwrap();
    let output = stopped.wait();
    assert_eq!(output.code, 0, "{output}");
    sandbox.send("sender", "task", "after");
    assert_eq!(sandbox.bodies("reader", &["task"]), ["first", "continued", "after"]);
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0]);
}

#[test]
fn a_git_checkout_adds_and_removes_messages_under_a_running_watch() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "-q"]);
    for body in ["main 1", "main 2"] {
        sandbox.send("sender", "task", body);
    }
    let commit = |message: &str| {
        sandbox.git(&["add", ".fmail/topics"]);
        sandbox.git(&["commit", "-q", "-m", message]);
    };
    commit("messages on main");
    sandbox.git(&["checkout", "-q", "-b", "other"]);
    for (topic, body) in [("task", "other 1"), ("build", "other 2"), ("build", "other 3")] {
        sandbox.send("sender", topic, body);
    }
    commit("messages on other");
    sandbox.git(&["checkout", "-q", "main"]);
    assert_eq!(sandbox.bodies("reader", &[]), ["main 1", "main 2"]);
    let mut watch = watch(&sandbox);
    sandbox.git(&["checkout", "-q", "other"]);
    let seen: BTreeSet<String> = next_bodies(&mut watch, 3).into_iter().collect();
    assert_eq!(seen, BTreeSet::from(["other 1".to_string(), "other 2".into(), "other 3".into()]));
    assert_eq!(sandbox.bodies("reader", &[]), ["main 1", "main 2", "other 1", "other 2", "other 3"]);
    sandbox.git(&["checkout", "-q", "main"]);
    assert_eq!(sandbox.bodies("reader", &[]), ["main 1", "main 2"]);
    sandbox.send("sender", "task", "main 3");
    assert_eq!(next_bodies(&mut watch, 1), ["main 3"]);
    nothing_more(&mut watch);
    assert_eq!(sandbox.bodies("reader", &[]), ["main 1", "main 2", "main 3"]);
    // Nothing that fmail keeps for itself is in the way of git.
    let status = sandbox.git(&["status", "--short", "--ignored", ".fmail"]).stdout;
    for ignored in ["lock", "index"] {
        assert!(status.contains(&format!("!! .fmail/{ignored}")), "{status}");
    }
}

/// `fmail watch` where the kernel gives no events: in a user namespace of its own without inotify instances, so that
/// other programs of this user keep theirs; where that is not allowed, with every instance of this user taken.
fn watch_without_events(sandbox: &Sandbox) -> (Running, Vec<std::os::fd::OwnedFd>) {
    let script = "echo 0 > /proc/sys/user/max_inotify_instances && exec fmail watch --json";
    let isolated = |script: &str| {
        let unshare = sandbox.command(Path::new("unshare")).agent("watcher");
        unshare.args(["--user", "--map-root-user", "sh", "-c", script])
    };
    if isolated("echo 0 > /proc/sys/user/max_inotify_instances").run().code == 0 {
        return (isolated(script).spawn(), Vec::new());
    }
    use rustix::fs::inotify;
    let take = || inotify::init(inotify::CreateFlags::CLOEXEC).ok();
    let taken = std::iter::from_fn(take).take(100_000).collect();
    (sandbox.agent("watcher").args(["watch", "--json"]).spawn(), taken)
}

#[test]
fn without_kernel_events_a_watch_polls_says_so_and_delivers() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "before");
    let (mut watch, taken) = watch_without_events(&sandbox);
    let said = watch.stderr_line();
    assert!(said.contains("polling every 100 ms"), "{said}");
    drop(taken);
    sandbox.send("sender", "task", "sent");
    sandbox.send("sender", "fresh", "sent to a new topic");
    assert_eq!(next_bodies(&mut watch, 2), ["sent", "sent to a new topic"]);
    sandbox.write(".fmail/topics/task/20260110-153000-0001.json", r#"{"from":"jq","body":"by hand"}"#);
    assert_eq!(next_bodies(&mut watch, 1), ["by hand"]);
    nothing_more(&mut watch);
}

#[test]
fn an_index_that_is_deleted_or_replaced_under_a_watch_costs_no_message_and_doubles_none() {
    let sandbox = Sandbox::new();
    for number in 0..5 {
        sandbox.send("sender", "task", &format!("before {number}"));
    }
    let mut watch = watch(&sandbox);
    let index = sandbox.store().join("index");
    let copy = sandbox.outside().join("index");
    let aside = sandbox.outside().join("garbage");
    for round in 0..12 {
        std::fs::copy(&index, &copy).unwrap();
        let body = format!("round {round}");
        sandbox.send("sender", ["task", "build", "status"][round % 3], &body);
        assert_eq!(next_bodies(&mut watch, 1), [body]);
        match round % 4 {
            0 => std::fs::remove_file(&index).unwrap(),
            1 => {
                std::fs::write(&aside, vec![0x5a; 5_000]).unwrap();
                std::fs::rename(&aside, &index).unwrap();
            }
            2 => std::fs::write(&index, "").unwrap(),
            // An older copy, as a backup would bring back.
            _ => std::fs::rename(&copy, &index).unwrap(),
        }
        let body = format!("after {round}");
        sandbox.send("sender", "task", &body);
        assert_eq!(next_bodies(&mut watch, 1), [body]);
    }
    nothing_more(&mut watch);
    assert_eq!(sandbox.log("reader", &[]).len(), 5 + 24);
}

#[test]
fn a_project_that_is_deleted_and_made_anew_under_a_watch_is_watched_again() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "old");
    let mut watch = watch(&sandbox);
    for round in 0..6 {
        // Nothing that the watch does may stand in the way of either.
        match round % 2 {
            // The watch notes what it has printed, and may put that into a directory that is being removed.
            0 => {
                while let Err(error) = std::fs::remove_dir_all(sandbox.store()) {
                    assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
                }
            }
            _ => std::fs::rename(sandbox.store(), sandbox.outside().join(format!("moved {round}"))).unwrap(),
        }
        let body = format!("new {round}");
        sandbox.send("sender", "task", &body);
        sandbox.send("sender", "build", &body);
        assert_eq!(next_bodies(&mut watch, 2), [body.clone(), body]);
    }
    nothing_more(&mut watch);
}
