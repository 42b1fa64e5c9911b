//! Large projects: what a command does, and how much memory it takes, does not grow with what is stored. Times are
//! printed; what is asserted is the work, which is the same on every machine.

use std::path::Path;
use std::time::{Duration, Instant};

use fmail_e2e::{Daemon, Footprint, Output, Running, Sandbox, Sender, Serving, Wire, fmail_binary, full};
use serde_json::json;

/// No command may take more memory than this.
const MEMORY: u64 = 64 * 1024;

fn large() -> usize {
    if full() { 1_000_000 } else { 100_000 }
}

/// A project with this many messages and no index.
fn project(messages: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    xtask::fixture::copy(messages, &sandbox.path()).unwrap_or_else(|error| panic!("{error}"));
    sandbox
}

/// The most memory that a process has had resident so far, in kilobytes.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Waits for its end, and looks at its memory all the time: the kernel forgets it with the process.
fn measure(mut running: Running) -> (Output, u64) {
    let mut most = 0;
    loop {
        most = peak(running.pid()).unwrap_or(0).max(most);
        if running.has_ended() {
            return (running.wait(), most);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Runs a command, prints what it took, and holds it to the limit.
fn run(sandbox: &Sandbox, args: &[&str]) -> Output {
    let started = Instant::now();
    let (output, kilobytes) = measure(sandbox.agent("tester").args(args).spawn());
    println!("{args:?}: {:?}, {kilobytes} kB", started.elapsed());
    assert_eq!(output.code, 0, "{args:?}\n{output}");
    assert!(kilobytes < MEMORY, "{args:?} took {kilobytes} kB");
    output
}

/// Runs a command that is so short that a look at its memory may miss it: again, until one look was in time.
fn run_short(sandbox: &Sandbox, args: &[&str]) -> Output {
    for _ in 0..50 {
        let (output, kilobytes) = measure(sandbox.agent("tester").args(args).spawn());
        assert_eq!(output.code, 0, "{args:?}\n{output}");
        assert!(kilobytes < MEMORY, "{args:?} took {kilobytes} kB");
        if kilobytes > 2_000 {
            println!("{args:?}: {kilobytes} kB");
            return output;
        }
    }
    panic!("{args:?}: its memory was never seen");
}

#[test]
fn memory_stays_small_in_a_large_project_also_during_a_rebuild() {
    let sandbox = project(large());
    let started = Instant::now();
    let log = run(&sandbox, &["log", "task", "-n", "20"]);
    let took = started.elapsed();
    assert_eq!(log.stdout.lines().filter(|line| line.contains("message ")).count(), 20, "{log}");
    // The second in which nothing has to be said counts from the listing on, so leave a margin.
    if took > Duration::from_secs(3) {
        log.says(&["rebuilding the index", "index rebuilt"]);
    }
    run_short(&sandbox, &["log", "task", "-n", "20"]);
    run_short(&sandbox, &["log", "-n", "20"]);
    run_short(&sandbox, &["send", "task", "one more"]);
    let topics = run_short(&sandbox, &["topics", "--json"]);
    assert!(topics.stdout.contains("\"task\""), "{topics}");
    run_short(&sandbox, &["who", "--json"]);
    run(&sandbox, &["watch", "--timeout", "300ms"]);
    run(&sandbox, &["watch", "--timeout", "300ms", "--since", "10m"]);
    run_short(&sandbox, &["gc", "--dry-run"]);
    // A watch keeps its memory when the index is replaced under it.
    let mut watch = sandbox.agent("watcher").args(["watch", "--json"]).spawn();
    watch.await_watching();
    std::fs::remove_file(sandbox.store().join("index")).unwrap();
    let rebuilt = run(&sandbox, &["send", "task", "after the index was lost"]);
    assert_eq!(watch.json()["id"], rebuilt.stdout.trim_end());
    let kilobytes = peak(watch.pid()).expect("it runs");
    println!("the watch over a rebuild: {kilobytes} kB");
    assert!(kilobytes < MEMORY, "the watch took {kilobytes} kB");
    assert_eq!(watch.line_within(Duration::from_millis(200)), None, "the watch delivers nothing twice");
}

#[test]
fn a_long_rebuild_tells_how_far_it_is() {
    let sandbox = project(1_000);
    // Slowed down, so that it takes more than a second on any machine: whoever opens a file waits a little.
    let traced = sandbox
        .command(Path::new("strace"))
        .agent("tester")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=openat", "-e", "inject=openat:delay_enter=3000"])
        .arg(fmail_binary())
        .args(["log", "task", "-n", "1"])
        .run();
    assert_eq!(traced.code, 0, "{traced}");
    traced.says(&["rebuilding the index: ", " of 1000 messages", "index rebuilt: 1000 messages in "]);
    assert_eq!(traced.stdout.lines().count(), 1, "nothing but data on standard output\n{traced}");
    let again = sandbox.agent("tester").args(["log", "task", "-n", "1"]).ok();
    assert_eq!(again.stdout, traced.stdout);
    assert!(!again.stderr.contains("rebuil"), "the second command finds the index\n{again}");
}

/// How many system calls a command makes: all of them, and those that open a file.
fn calls(sandbox: &Sandbox, args: &[&str]) -> (usize, usize) {
    let trace = sandbox.outside().join("trace");
    let started = Instant::now();
    sandbox.agent("tester").args(args).ok();
    let plain = started.elapsed();
    sandbox
        .command(Path::new("strace"))
        .agent("tester")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(fmail_binary())
        .args(args)
        .ok();
    let trace = std::fs::read_to_string(trace).unwrap();
    let all = trace.lines().filter(|line| line.contains('(')).count();
    let opens = trace.lines().filter(|line| line.contains(" open(") || line.contains(" openat(")).count();
    println!("{args:?}: {opens} opens, {all} calls, {plain:?}");
    (all, opens)
}

#[test]
fn a_command_does_the_same_work_in_a_large_project_as_in_a_small_one() {
    let (small, large) = (project(1_000), project(large()));
    // The first builds the index; the second looks once more at directories whose time was too fresh.
    for sandbox in [&small, &large] {
        for _ in 0..2 {
            sandbox.agent("tester").args(["log", "-n", "1"]).ok();
        }
    }
    let commands: [&[&str]; 5] = [
        &["log", "task", "-n", "20"],
        &["log", "-n", "20"],
        &["topics"],
        &["watch", "--timeout", "500ms"],
        &["send", "task", "one more"],
    ];
    for args in commands {
        let (few, few_opens) = calls(&small, args);
        let (many, many_opens) = calls(&large, args);
        assert!(many_opens <= few_opens + 5, "{args:?}: {few_opens} opens have become {many_opens}");
        // Reading backwards along a chain meets other mailboxes' blocks, a few more of them in a large index.
        assert!(many <= few + few / 2 + 40, "{args:?}: {few} calls have become {many}");
    }
}

/// What a daemon holds after it has served everything that reads or writes the past.
fn daemon_at_work(sandbox: &Sandbox) -> Footprint {
    let daemon = Daemon::start(sandbox);
    let serving = Serving::new(sandbox);
    let mut agent = Sender::new(&serving, "tester");
    let mut socket = Wire::connect(&sandbox.store().join("forged.sock")).unwrap();
    let since = json!({"cmd": "watch", "agent": "tester", "since": agent.send("task", &json!({"marker": "first"})).id});
    assert_eq!(socket.ask(&since).unwrap()["ok"], true);
    for number in 0..50 {
        let sent = agent.send("task", &json!({"marker": format!("number {number}")}));
        assert_eq!(socket.line().unwrap()["msg"]["id"], sent.id);
    }
    for _ in 0..5 {
        agent.ask_for_stream(&json!({"cmd": "log", "agent": "tester", "topic": "task", "limit": 20}));
        agent.ask_for_stream(&json!({"cmd": "log", "agent": "tester", "limit": 20}));
        agent.ask(&json!({"cmd": "topics", "agent": "tester"}));
        agent.ask(&json!({"cmd": "who", "agent": "tester"}));
    }
    // Readers that want everything from the beginning, and have begun.
    let everything = json!({"cmd": "watch", "agent": "tester", "since": "2020-01-01T00:00:00Z"});
    let mut readers: Vec<Wire> =
        (0..10).map(|_| Wire::connect(&sandbox.store().join("forged.sock")).unwrap()).collect();
    for reader in &mut readers {
        assert_eq!(reader.ask(&everything).unwrap()["ok"], true);
        assert!(reader.line().unwrap()["msg"].is_object());
    }
    Footprint::settled(|| daemon.footprint())
}

#[test]
fn stored_messages_do_not_show_in_the_daemons_memory() {
    let (small, large) = (project(1_000), project(large()));
    // There is no index yet: building it is part of what the daemon does.
    let (few, many) = (daemon_at_work(&small), daemon_at_work(&large));
    println!("forged with few messages: {few}; with many: {many}");
    // How many directories the readers hold open depends on how far they have come; that is bounded for each of them.
    assert!(many.kilobytes < few.kilobytes + 4 * 1024, "{few} have become {many}");
}
