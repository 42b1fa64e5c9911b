//! `fmail chat bridge`: agents of a chat file and agents of fmail talk to each other.

use std::collections::BTreeMap;

use fmail_e2e::{DEADLINE, Running, Sandbox, eventually};
use rustix::process::Signal;

use crate::{by_hand, text};

/// A project in files, beside a chat file.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure("", "");
    sandbox.agent("alice").arg("init").ok();
    by_hand(&sandbox, "# Chat\n");
    sandbox
}

fn bridge(sandbox: &Sandbox, arguments: &[&str]) -> Running {
    let mut running = sandbox.agent("bridge").args(["chat", "bridge", "--json"]).args(arguments).spawn();
    loop {
        if running.stderr_line().contains("bridging") {
            return running;
        }
    }
}

fn await_line(sandbox: &Sandbox, line: &str) {
    eventually(DEADLINE.as_secs(), line, || text(sandbox).lines().any(|found| found == line).then_some(()));
}

fn await_mail(sandbox: &Sandbox, agent: &str, body: &str) {
    eventually(DEADLINE.as_secs(), body, || sandbox.bodies(agent, &[]).iter().any(|found| found == body).then_some(()));
}

#[test]
fn a_conversation_across_the_bridge() {
    let sandbox = project();
    by_hand(&sandbox, "[coder-to-alice]: from before\n");
    let mut running = bridge(&sandbox, &[]);
    by_hand(&sandbox, "[coder-to-alice] @ [Build_Bot]: please review\n  src/auth.rs\n");
    await_mail(&sandbox, "alice", "please review\nsrc/auth.rs");
    let message = sandbox.log("alice", &[]).pop().unwrap();
    assert_eq!((&message["from"], &message["cc"][0]), (&"coder".into(), &"@build-bot--x0u-5l-6u".into()));
    sandbox.agent("alice").args(["reply", message["id"].as_str().unwrap(), "Approved"]).ok();
    await_line(&sandbox, "[alice-to-coder]: Approved");
    sandbox.send("alice", "task", "topics stay in the project");
    sandbox.agent("alice").args(["send", "@a-to-b", "cannot be a line"]).ok();
    sandbox.send("alice", "@coder", "last");
    await_line(&sandbox, "[alice-to-coder]: last");
    assert_eq!(running.json()["way"], "to_project");
    assert_eq!(running.json()["way"], "to_chat");
    assert!(running.stderr_line().contains("was not brought over"));
    // Nothing goes back and forth, and what was there before stays where it is.
    assert_eq!(text(&sandbox).lines().count(), 6, "{}", text(&sandbox));
    assert_eq!(sandbox.bodies("alice", &["@alice"]), ["please review\nsrc/auth.rs"]);
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_bridge_that_is_killed_loses_nothing_and_doubles_nothing() {
    let sandbox = project();
    let mut running = bridge(&sandbox, &[]);
    for round in 0..4 {
        for number in 0..6 {
            by_hand(&sandbox, &format!("[coder-to-alice]: chat {round} {number}\n"));
            sandbox.send("alice", "@coder", &format!("fmail {round} {number}"));
        }
        // Somewhere in the middle, once it has begun.
        running.line();
        running.signal(Signal::KILL);
        drop(running);
        by_hand(&sandbox, &format!("[coder-to-alice]: chat {round} down\n"));
        running = bridge(&sandbox, &[]);
    }
    by_hand(&sandbox, "[coder-to-alice]: end\n");
    sandbox.send("alice", "@coder", "end");
    await_mail(&sandbox, "alice", "end");
    await_line(&sandbox, "[alice-to-coder]: end");
    let counted = |list: Vec<String>| {
        list.into_iter().fold(BTreeMap::<String, u32>::new(), |mut counts, text| {
            *counts.entry(text).or_default() += 1;
            counts
        })
    };
    let mail = counted(sandbox.bodies("alice", &["@alice"]));
    assert_eq!(mail.len(), 4 * 7 + 1, "{mail:?}");
    assert!(mail.values().all(|count| *count == 1), "{mail:?}");
    let lines = text(&sandbox).lines().filter(|line| line.starts_with("[alice-to-coder]")).map(Into::into).collect();
    let lines = counted(lines);
    assert_eq!(lines.len(), 4 * 6 + 1, "{lines:?}");
    assert!(lines.values().all(|count| *count == 1), "{lines:?}");
}

#[test]
fn once_brings_over_what_there_is_for_the_agents_that_were_named() {
    let sandbox = project();
    by_hand(&sandbox, "[coder-to-alice]: one\n[coder-to-manager]: two\n");
    sandbox.send("alice", "@coder", "three");
    sandbox.send("alice", "@bob", "four");
    sandbox.agent("x").args(["chat", "bridge", "--once", "--from-start", "--agent", "coder"]).ok();
    sandbox.agent("x").args(["chat", "bridge", "--once", "--agent", "coder"]).ok();
    assert_eq!(sandbox.bodies("alice", &["@alice"]), ["one"]);
    assert_eq!(sandbox.bodies("manager", &["@manager"]), ["two"]);
    assert_eq!(text(&sandbox).lines().skip(3).collect::<Vec<_>>(), ["[alice-to-coder]: three"]);
}

#[test]
fn a_project_in_a_chat_file_has_nothing_to_bridge() {
    let sandbox = crate::chat_project();
    sandbox.agent("x").args(["chat", "bridge", "--once"]).fails(14).says(&["nothing to bridge"]);
}
