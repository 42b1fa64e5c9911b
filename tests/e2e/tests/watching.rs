//! Watching: fast when the kernel wakes it, in time when it polls, asleep when nothing happens, and without gaps.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fmail_e2e::{Running, Sandbox};
use serde_json::Value;

fn full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}

/// How long after its file got its name each of these messages was printed.
fn latencies(sandbox: &Sandbox, watch: &mut Running, count: usize) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count)
        .map(|number| {
            let sender = sandbox.agent("sender").args(["send", "task", &format!("message {number}")]).spawn();
            let message = watch.json();
            let printed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            assert_eq!(sender.wait().code, 0);
            let path = sandbox.store().join(format!("topics/task/{}.json", message["id"].as_str().unwrap()));
            // The change time of the file is that of its last link: when it was published.
            let file = path.metadata().unwrap();
            let published = Duration::new(file.ctime() as u64, file.ctime_nsec() as u32);
            printed.saturating_sub(published)
        })
        .collect();
    times.sort();
    times
}

fn show(name: &str, times: &[Duration]) -> Duration {
    let median = times[times.len() / 2];
    println!("{name}: p50 {median:?}, p99 {:?} of {}", times[times.len() * 99 / 100], times.len());
    median
}

#[test]
fn a_message_is_printed_within_milliseconds_when_the_kernel_wakes_the_watch() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    let mut watch = sandbox.agent("watcher").args(["watch", "task", "--json"]).spawn();
    watch.await_watching();
    let times = latencies(&sandbox, &mut watch, if full() { 200 } else { 20 });
    let median = show("kernel-woken", &times);
    assert!(median < Duration::from_millis(20), "{times:?}");
}

#[test]
fn a_message_is_printed_within_150_ms_when_the_watch_polls() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    let command = sandbox.agent("watcher").env("FMAIL_WATCH__EVENTS", "false");
    let mut watch = command.args(["watch", "--json", "--since", "1h"]).spawn();
    assert_eq!(watch.json()["body"], "first");
    let times = latencies(&sandbox, &mut watch, if full() { 100 } else { 15 });
    let median = show("polling", &times);
    assert!(median < Duration::from_millis(150), "{times:?}");
}

/// How often the threads of a process have been on a processor.
fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let count = |line: &str| line.split_whitespace().last().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    tasks
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default())
        .map(|status| status.lines().filter(|line| line.contains("ctxt_switches")).map(count).sum::<u64>())
        .sum()
}

#[test]
fn an_idle_watch_does_not_wake() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    let mut watch = sandbox.agent("watcher").args(["watch", "--json"]).spawn();
    watch.await_watching();
    sandbox.send("sender", "task", "second");
    assert_eq!(watch.json()["body"], "second");
    // What belongs to that message may take a moment to come to rest.
    let mut before = switches(watch.pid());
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = switches(watch.pid());
        if now == before {
            break;
        }
        assert!(Instant::now() < end, "it never comes to rest");
        before = now;
    }
    // Here the passing of time is what is tested.
    std::thread::sleep(Duration::from_secs(if full() { 10 } else { 3 }));
    assert_eq!(switches(watch.pid()), before, "it woke without a reason");
    sandbox.send("sender", "task", "third");
    assert_eq!(watch.json()["body"], "third");
}

#[test]
fn a_watch_waits_for_a_project_that_does_not_exist_yet() {
    for events in ["true", "false"] {
        let sandbox = Sandbox::new();
        let mut watch = sandbox.fmail().env("FMAIL_WATCH__EVENTS", events).args(["watch", "--json"]).spawn();
        if events == "true" {
            watch.await_watching();
        } else {
            assert_eq!(watch.line_within(Duration::from_millis(500)), None);
        }
        assert!(!sandbox.store().exists(), "looking creates nothing");
        sandbox.send("sender", "task", "first");
        assert_eq!(watch.json()["body"], "first");
    }
}

#[test]
fn a_watch_since_an_id_or_a_time_catches_up_and_goes_on_without_a_gap() {
    let sandbox = Sandbox::new();
    let ids: Vec<String> = (0..10).map(|number| sandbox.send("sender", "task", &format!("{number}"))).collect();
    let since_id = vec!["--since".to_string(), ids[3].clone()];
    let since_time = vec!["--since".to_string(), "1h".to_string()];
    for (since, first) in [(since_id, 4), (since_time, 0)] {
        // Messages keep coming while the watch starts: the place where both meet must have no gap and no overlap.
        let stored = sandbox.log("reader", &["task"]).len();
        let sandbox = &sandbox;
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                for number in stored..stored + 20 {
                    sandbox.send("sender", "task", &format!("{number}"));
                }
            });
            let mut watch = sandbox.agent("watcher").args(["watch", "task", "--json"]).args(&since).spawn();
            let seen: Vec<Value> = (first..stored + 20).map(|_| watch.json()).collect();
            let numbers: Vec<usize> =
                seen.iter().map(|message| message["body"].to_string().trim_matches('"').parse().unwrap()).collect();
            assert_eq!(numbers, (first..stored + 20).collect::<Vec<_>>());
            writer.join().unwrap();
            assert_eq!(watch.line_within(Duration::from_millis(200)), None, "something came twice");
        });
    }
}

#[test]
fn every_line_is_written_at_once_also_into_a_pipe() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    for form in [&["watch", "task"][..], &["watch", "task", "--json"], &["log", "task", "--follow", "-n", "1"]] {
        let mut watch = sandbox.agent("watcher").args(form).spawn();
        watch.await_watching();
        if form[0] == "log" {
            watch.line();
        }
        for number in 0..3 {
            sandbox.send("sender", "task", &format!("message {number}"));
            assert!(watch.line().contains(&format!("message {number}")), "{form:?}");
        }
    }
}
