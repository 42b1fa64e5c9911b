//! How soon, how much is read, how much is held.

use std::time::{Duration, Instant};

use fmail_e2e::{Running, eventually, full};

use super::{Team, at, next};

/// A figure of a process, as the kernel tells it.
fn figure(pid: u32, file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("it runs");
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

fn bytes_read(watch: &Running) -> u64 {
    figure(watch.pid(), "io", "rchar:")
}

fn peak_memory(watch: &Running) -> u64 {
    figure(watch.pid(), "status", "VmHWM:")
}

fn lines() -> usize {
    if full() { 1_000_000 } else { 100_000 }
}

fn long_file() -> Team {
    let text: String = (0..lines()).map(|number| format!("[coder-to-reviewer]: message number {number}\n")).collect();
    Team::with(text)
}

/// A watch on a file of one line, to compare with.
fn small(args: &[&str]) -> (u64, u64) {
    let team = Team::with("[a-to-b]: x\n");
    let mut watch = team.watch(args);
    team.append("[a-to-b]: y\n");
    next(&mut watch);
    (bytes_read(&watch), peak_memory(&watch))
}

#[test]
fn a_watch_on_a_long_file_starts_by_counting_its_lines_once_and_holds_none() {
    let team = long_file();
    let size = team.file().metadata().unwrap().len();
    let (read_small, held_small) = small(&[]);
    let started = Instant::now();
    let mut watch = team.watch(&[]);
    println!("{} lines, {size} bytes: watching after {:?}", lines(), started.elapsed());
    team.append("[a-to-b]: new\n");
    assert_eq!(next(&mut watch), at(lines() as u64 + 1, "new"));
    let (read, held) = (bytes_read(&watch) - read_small, peak_memory(&watch));
    println!("{read} bytes read beyond those of a small file; peak {held} kB against {held_small} kB");
    assert!(read <= size + 256 * 1024, "{read} of {size}");
    assert!(held <= held_small + 2048, "{held} kB against {held_small} kB");
}

#[test]
fn a_watch_after_a_line_reads_the_file_once() {
    let team = long_file();
    let size = team.file().metadata().unwrap().len();
    let (read_small, held_small) = small(&["--from-start"]);
    let mut watch = team.watch(&["--since-line", &(lines() - 1).to_string()]);
    assert_eq!(next(&mut watch).0, lines() as u64);
    let (read, held) = (bytes_read(&watch) - read_small, peak_memory(&watch));
    assert!(read <= size + 256 * 1024, "{read} of {size}");
    assert!(held <= held_small + 2048, "{held} kB against {held_small} kB");
}

#[test]
fn a_long_file_is_printed_from_its_start_with_flat_memory() {
    let team = long_file();
    let (_, held_small) = small(&["--from-start"]);
    let started = Instant::now();
    let mut watch = team.watch(&["--from-start"]);
    for number in 0..lines() as u64 {
        let line = watch.line();
        assert!(line.ends_with(&format!("message number {number}\",\"line_number\":{}}}", number + 1)), "{line}");
    }
    let held = peak_memory(&watch);
    println!("{} lines in {:?}; peak {held} kB against {held_small} kB", lines(), started.elapsed());
    assert!(held <= held_small + 4096, "{held} kB against {held_small} kB");
}

#[test]
fn a_reader_that_does_not_read_does_not_make_the_watch_grow() {
    let team = long_file();
    let (_, held_small) = small(&["--from-start"]);
    // The shell opens the pipe and reads nothing; the watch's memory is looked at while it stands still.
    let script = "mkfifo pipe; exec 3<>pipe; fmail chat watch --from-start >&3 & echo $!; wait";
    let mut shell = team.sandbox.bash("shell", script).spawn();
    let pid: u32 = shell.line().parse().unwrap();
    let mut last = 0;
    // It stands still when it reads no more, long before the file's end.
    let held = eventually(60, "a watch that waits for its reader", || {
        let read = figure(pid, "io", "rchar:");
        std::thread::sleep(Duration::from_millis(300));
        let still = std::mem::replace(&mut last, read) == read && read >= 64 * 1024;
        still.then(|| figure(pid, "status", "VmHWM:"))
    });
    assert!(last < team.file().metadata().unwrap().len(), "{last} bytes were read and not printed");
    println!("peak {held} kB against {held_small} kB");
    assert!(held <= held_small + 4096, "{held} kB against {held_small} kB");
}

fn latencies(team: &Team, reader: &mut Running, count: usize) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count)
        .map(|number| {
            let line = format!("[coder-to-reviewer]: message number {number}\n");
            let started = Instant::now();
            team.append(line);
            let printed = reader.line();
            let time = started.elapsed();
            assert!(printed.contains(&format!("message number {number}")), "{printed}");
            time
        })
        .collect();
    times.sort();
    times
}

/// Prints how long a message takes to the watch's output, beside `tail -F` on the same file. No limit is set here: what a
/// busy machine does to both is the same, and the comparison shows it.
#[test]
fn a_message_is_on_the_output_about_as_soon_as_with_tail() {
    let team = Team::with("");
    let count = if full() { 2000 } else { 200 };
    let mut watch = team.watch(&[]);
    let ours = latencies(&team, &mut watch, count);
    drop(watch);
    let tail = team.sandbox.command(std::path::Path::new("tail"));
    let mut tail = tail.args(["-n", "0", "-F", ".workplace/chat.md"]).spawn();
    tail.await_watching();
    // It may not have gone to the end yet.
    eventually(60, "tail", || {
        team.append("ready\n");
        tail.line_within(Duration::from_millis(200))
    });
    while tail.line_within(Duration::from_millis(300)).is_some() {}
    let theirs = latencies(&team, &mut tail, count);
    let at = |times: &[Duration], percent: usize| times[(times.len() - 1) * percent / 100];
    println!("fmail chat watch: p50 {:?}, p99 {:?} of {count}", at(&ours, 50), at(&ours, 99));
    println!("tail -F:          p50 {:?}, p99 {:?} of {count}", at(&theirs, 50), at(&theirs, 99));
    let ratio = at(&ours, 50).as_secs_f64() / at(&theirs, 50).as_secs_f64();
    println!("ratio of the medians: {ratio:.2}");
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
    let team = Team::with("[a-to-b]: x\n");
    let mut watch = team.watch(&[]);
    team.append("[a-to-b]: y\n");
    next(&mut watch);
    let mut before = 0;
    eventually(60, "a watch at rest", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = switches(watch.pid());
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
    // Other files in the directory, and above it, are no reason to wake. Here the passing of time is what is tested.
    team.sandbox.write("other", "x");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switches(watch.pid()), before, "it woke without a reason");
    team.append("[a-to-b]: z\n");
    assert_eq!(next(&mut watch), at(3, "z"));
}
