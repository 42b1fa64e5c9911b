//! Many processes at once: every send that says it stored a message has stored it, once, whole and in order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use fmail_e2e::{Running, Sandbox};
use serde_json::Value;

fn full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}

fn text<'a>(message: &'a Value, field: &str) -> &'a str {
    message[field].as_str().unwrap_or_else(|| panic!("no {field} in {message}"))
}

/// The bodies of messages with ascending, distinct ids.
#[track_caller]
fn bodies_in_order(messages: &[Value]) -> Vec<String> {
    let ids: Vec<&str> = messages.iter().map(|message| text(message, "id")).collect();
    let wrong = ids.windows(2).find(|pair| pair[0] >= pair[1]);
    assert!(wrong.is_none(), "ids do not ascend: {wrong:?}");
    messages.iter().map(|message| text(message, "body").to_string()).collect()
}

/// Starts all of them as nearly at once as one process can, and waits for all.
fn send_at_once(sandbox: &Sandbox, count: usize) -> Vec<String> {
    let running: Vec<Running> = (0..count)
        .map(|number| {
            sandbox.agent(&format!("agent-{number}")).args(["send", "task", &format!("body {number}")]).spawn()
        })
        .collect();
    running
        .into_iter()
        .map(|running| {
            let output = running.wait();
            assert_eq!(output.code, 0, "{output}");
            output.stdout.trim_end().to_string()
        })
        .collect()
}

#[test]
fn two_hundred_processes_send_at_the_same_moment() {
    let sandbox = Sandbox::new();
    let ids = send_at_once(&sandbox, 200);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 200, "distinct ids");
    let log = sandbox.log("reader", &["task"]);
    assert_eq!(log.len(), 200);
    let mut bodies = bodies_in_order(&log);
    bodies.sort();
    let mut expected: Vec<String> = (0..200).map(|number| format!("body {number}")).collect();
    expected.sort();
    assert_eq!(bodies, expected);
    assert_eq!(sandbox.names(".fmail/topics/task").len(), 200);
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0]);
    // Every id that a sender was told leads to that sender's message.
    for (number, id) in ids.iter().enumerate() {
        let message = log.iter().find(|message| text(message, "id") == id).expect("every id is in the log");
        assert_eq!(text(message, "body"), format!("body {number}"));
        assert_eq!(text(message, "from"), format!("agent-{number}"));
    }
}

#[test]
fn fifty_processes_create_one_project() {
    let sandbox = Sandbox::new();
    let ids = send_at_once(&sandbox, 50);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 50);
    assert_eq!(sandbox.log("reader", &["task"]).len(), 50);
    let project: Value = serde_json::from_slice(&std::fs::read(sandbox.store().join("project.json")).unwrap()).unwrap();
    assert!(project["id"].is_string() && project["created"].is_string(), "{project}");
    assert_eq!(sandbox.names(".fmail/agents").len(), 50, "every sender is known");
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0]);
}

#[test]
fn eight_writers_beside_readers_lose_double_and_tear_nothing() {
    const WRITERS: usize = 8;
    let each = if full() { 500 } else { 60 };
    let sandbox = Arc::new(Sandbox::new());
    sandbox.send("starter", "warmup", "the project is there");
    let mut watches: Vec<Running> =
        (0..2).map(|n| sandbox.agent(&format!("watcher-{n}")).args(["watch", "--json"]).spawn()).collect();
    for watch in &mut watches {
        watch.await_watching();
    }
    let acknowledged: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let writing = Arc::new(AtomicUsize::new(WRITERS));
    let barrier = Arc::new(Barrier::new(WRITERS));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (sandbox, acknowledged) = (sandbox.clone(), acknowledged.clone());
            let (writing, barrier) = (writing.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                // Long bodies, so that a reader would see a torn one.
                let padding = "x".repeat(2_000);
                for number in 0..each {
                    let topic = ["task", "build", "status"][number % 3];
                    let body = format!("{writer}/{number} {padding}");
                    let id = sandbox.send(&format!("writer-{writer}"), topic, &body);
                    acknowledged.lock().unwrap().insert(id);
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    let mut logs = 0;
    while writing.load(Ordering::SeqCst) > 0 {
        let before = acknowledged.lock().unwrap().clone();
        let log = sandbox.log("reader", &[]);
        bodies_in_order(&log);
        let seen: BTreeSet<&str> = log.iter().map(|message| text(message, "id")).collect();
        let lost: Vec<_> = before.iter().filter(|id| !seen.contains(id.as_str())).collect();
        assert!(lost.is_empty(), "stored before the log began, and not in it: {lost:?}");
        logs += 1;
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    println!("{logs} logs beside {} sends", WRITERS * each);
    let expected: BTreeSet<(usize, usize)> = (0..WRITERS).flat_map(|w| (0..each).map(move |n| (w, n))).collect();
    let whole = |bodies: Vec<String>| -> Vec<(usize, usize)> {
        let parse = |body: &String| {
            let (name, padding) = body.split_once(' ').unwrap();
            assert_eq!(padding.len(), 2_000);
            let (writer, number) = name.split_once('/').unwrap();
            (writer.parse().unwrap(), number.parse().unwrap())
        };
        bodies.iter().map(parse).collect()
    };
    for watch in &mut watches {
        let seen: Vec<Value> = (0..WRITERS * each).map(|_| watch.json()).collect();
        // Local ids arrive in ascending order, so this also says that none came twice.
        let seen = whole(bodies_in_order(&seen));
        assert_eq!(seen.iter().copied().collect::<BTreeSet<_>>(), expected);
        for writer in 0..WRITERS {
            let own: Vec<usize> = seen.iter().filter(|(w, _)| *w == writer).map(|(_, number)| *number).collect();
            assert!(own.is_sorted(), "writer {writer}'s messages came out of its order");
        }
        assert_eq!(watch.line_within(std::time::Duration::from_millis(300)), None, "something came twice");
    }
    let log: Vec<Value> = sandbox.log("reader", &[]).into_iter().filter(|m| m["to"] != "warmup").collect();
    assert_eq!(whole(bodies_in_order(&log)).into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(log.len(), expected.len());
    assert_eq!(sandbox.names(".fmail/tmp"), [] as [&str; 0]);
}
