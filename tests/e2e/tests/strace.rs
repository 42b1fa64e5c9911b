//! The system calls of a real `fmail send`, each made to fail in turn by `strace`. This proves that the seam of the
//! store's own fault tests is complete: a call that goes around it would show here.

use std::path::Path;

use fmail_e2e::{Output, Sandbox, fmail_binary};
use serde_json::Value;

fn full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}

/// The calls that touch the disk, and how each is made to fail.
const CALLS: [(&str, [&str; 2]); 18] = [
    ("statx", ["EIO", "EACCES"]),
    ("renameat2", ["EIO", "ENOSPC"]),
    ("pwrite64", ["ENOSPC", "EIO"]),
    ("write", ["ENOSPC", "EPIPE"]),
    ("open", ["EMFILE", "EACCES"]),
    ("openat", ["EMFILE", "EIO"]),
    ("linkat", ["ENOSPC", "EROFS"]),
    ("fdatasync", ["EIO", "ENOSPC"]),
    ("fsync", ["EIO", "ENOSPC"]),
    ("flock", ["ENOLCK", "EIO"]),
    ("mkdirat", ["ENOSPC", "EROFS"]),
    ("unlinkat", ["EIO", "EROFS"]),
    ("renameat", ["EIO", "ENOSPC"]),
    ("ftruncate", ["EIO", "ENOSPC"]),
    ("pread64", ["EIO", "ENOMEM"]),
    ("getdents64", ["EIO", "ENOMEM"]),
    ("fstat", ["EIO", "ENOMEM"]),
    ("newfstatat", ["EIO", "EACCES"]),
];

/// Runs `fmail` under strace with these options; its own output goes to `trace`.
fn strace(sandbox: &Sandbox, options: &[&str], body: &str) -> Output {
    let trace = sandbox.outside().join("trace");
    sandbox
        .command(Path::new("strace"))
        .agent("sender")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .args(options)
        .arg(fmail_binary())
        .args(["send", "task", body])
        .run()
}

fn can_trace() -> bool {
    let sandbox = Sandbox::new();
    let found = std::process::Command::new("strace").arg("-V").output().is_ok();
    if found && strace(&sandbox, &["-e", "trace=none"], "probe").code == 0 {
        return true;
    }
    println!("note: strace cannot trace here; the faults of real system calls are not tested");
    false
}

/// How often a send makes each call.
fn counts(sandbox: &Sandbox) -> Vec<usize> {
    let output = strace(sandbox, &[], "counted");
    assert_eq!(output.code, 0, "{output}");
    let trace = std::fs::read_to_string(sandbox.outside().join("trace")).unwrap();
    // A line is `pid call(...`; a thread's line may be cut in two, and only the first half counts.
    let calls: Vec<&str> = trace
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1)?.split_once('('))
        .map(|(call, _)| call)
        .collect();
    CALLS.iter().map(|(name, _)| calls.iter().filter(|call| *call == name).count()).collect()
}

/// The bodies on disk; a file that is half written fails here.
fn stored(sandbox: &Sandbox) -> Vec<String> {
    let read = |name: &String| {
        let bytes = std::fs::read(sandbox.store().join("topics/task").join(name)).unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{name} is torn: {error}"));
        value["body"].as_str().unwrap().to_string()
    };
    sandbox.names(".fmail/topics/task").iter().map(read).collect()
}

/// One fault, and everything that must hold behind it.
fn inject(sandbox: &Sandbox, call: &str, error: &str, when: usize, body: &str) {
    let what = format!("{call} number {when} fails with {error}");
    let fault = format!("inject={call}:error={error}:when={when}");
    let output = strace(sandbox, &["-e", &format!("trace={call}"), "-e", &fault], body);
    let on_disk = stored(sandbox).iter().filter(|stored| *stored == body).count();
    assert!(on_disk <= 1, "{what}: stored {on_disk} times\n{output}");
    // 127: the loader could not load the program; it has not started.
    assert!(output.code < 101 || output.code == 127, "{what}: a crash\n{output}");
    match output.code {
        0 => assert_eq!(on_disk, 1, "{what}: exit 0 and nothing stored\n{output}"),
        // Stored, and the sender is told what is not certain.
        15 => assert_eq!(on_disk, 1, "{what}: told as stored\n{output}"),
        // Only an answer that could not be written comes behind a message that is stored.
        _ if call == "write" => {}
        _ => {
            assert_eq!(on_disk, 0, "{what}: an error, and the message is there\n{output}");
            assert!(!output.stderr.trim().is_empty(), "{what}: no reason given");
            assert_eq!(output.stdout, "", "{what}");
        }
    }
    // Whoever comes next sees all of it, and can write.
    let visible = sandbox.bodies("reader", &["task"]);
    assert_eq!(visible.iter().filter(|visible| *visible == body).count(), on_disk, "{what}: log and files differ");
    sandbox.send("sender", "task", &format!("after {body}"));
    assert_eq!(sandbox.bodies("reader", &["task"]).len(), stored(sandbox).len(), "{what}");
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0], "{what}: left in tmp");
}

#[test]
fn any_system_call_of_a_send_may_fail() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.send("sender", "task", "first");
    let counts = counts(&sandbox);
    println!("{:?}", CALLS.iter().map(|(name, _)| *name).zip(&counts).collect::<Vec<_>>());
    let mut faults = 0;
    for ((call, errors), count) in CALLS.iter().zip(counts) {
        for when in 1..=count {
            for error in errors.iter().skip(usize::from(!full() && when % 2 == 0)).take(if full() { 2 } else { 1 }) {
                inject(&sandbox, call, error, when, &format!("{call} {when} {error}"));
                faults += 1;
            }
        }
    }
    assert!(faults > 30, "only {faults} faults: the names of the calls have changed");
    println!("torture faults/calls failed_system_calls={faults}");
}

#[test]
fn any_system_call_of_the_first_send_may_fail() {
    if !can_trace() {
        return;
    }
    let counts = counts(&Sandbox::new());
    for ((call, errors), count) in CALLS.iter().zip(counts) {
        // Reading calls are the same as in any send; here it is the making of the project that counts.
        if !full() && ["open", "pread64", "fstat", "newfstatat", "getdents64", "write"].contains(call) {
            continue;
        }
        for when in 1..=count {
            for error in errors.iter().take(if full() { 2 } else { 1 }) {
                inject(&Sandbox::new(), call, error, when, &format!("{call} {when} {error}"));
            }
        }
    }
}
