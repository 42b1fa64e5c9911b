//! Many writers, with fmail and without.

use std::collections::BTreeMap;

use fmail_e2e::full;

use crate::{chat_project, text};

/// Fifty processes that send while five shell loops append: no line torn, none lost, each once in the log and in a watch.
#[test]
fn fifty_senders_and_five_shell_loops_lose_nothing() {
    let sandbox = chat_project();
    let each = if full() { 200 } else { 20 };
    sandbox.send("first", "@reviewer", "start");
    let mut watch = sandbox.agent("reviewer").args(["watch", "--json"]).spawn();
    watch.await_watching();
    let loops: Vec<_> = (0..5)
        .map(|number| {
            let script = format!(
                "for n in $(seq {each}); do echo \"[loop{number}-to-reviewer]: loop {number} line $n\" >> .workplace/chat.md; done"
            );
            sandbox.bash("nobody", &script).spawn()
        })
        .collect();
    let senders: Vec<_> = (0..50)
        .map(|number| {
            sandbox.agent(&format!("agent-{number}")).args(["send", "@reviewer", &format!("sender {number}")]).spawn()
        })
        .collect();
    for running in senders.into_iter().chain(loops) {
        let output = running.wait();
        assert_eq!(output.code, 0, "{output}");
    }
    let mut expected: Vec<String> =
        (0..50).map(|number| format!("[agent-{number}-to-reviewer]: sender {number}")).collect();
    for number in 0..5 {
        expected.extend((1..=each).map(|n| format!("[loop{number}-to-reviewer]: loop {number} line {n}")));
    }
    expected.push("[first-to-reviewer]: start".into());
    expected.sort();
    let mut lines: Vec<String> = text(&sandbox).lines().map(Into::into).collect();
    lines.sort();
    assert_eq!(lines, expected, "the file has each line once, and whole");

    let mut bodies: BTreeMap<String, u32> = BTreeMap::new();
    for body in sandbox.bodies("reviewer", &[]) {
        *bodies.entry(body).or_default() += 1;
    }
    assert_eq!(bodies.len(), expected.len());
    assert!(bodies.values().all(|count| *count == 1), "{bodies:?}");
    let mut seen: Vec<String> =
        (1..expected.len()).map(|_| watch.json()["body"].as_str().unwrap().to_string()).collect();
    seen.sort();
    bodies.remove("start");
    assert_eq!(seen, bodies.into_keys().collect::<Vec<_>>(), "the watch has each once");
}
