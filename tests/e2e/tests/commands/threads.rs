//! Subjects, replies and threads.

use std::path::Path;

use fmail_e2e::Sandbox;
use serde_json::Value;

fn bodies(sandbox: &Sandbox, agent: &str, thread: &str) -> Vec<String> {
    let lines = sandbox.agent(agent).args(["thread", thread, "--json"]).ok().json_lines();
    lines.iter().map(|message| message["body"].as_str().unwrap().to_string()).collect()
}

fn id_of(output: &fmail_e2e::Output) -> String {
    output.stdout.trim_end().to_string()
}

/// A conversation of four: two answers to the first, and an answer to the first answer.
fn conversation() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let first =
        id_of(&sandbox.agent("alice").args(["send", "@bob", "may I merge?", "-s", "Merge", "--cc", "@carol"]).ok());
    let second = id_of(&sandbox.agent("bob").args(["reply", &first, "--all", "after the tests"]).ok());
    let third = id_of(&sandbox.agent("carol").args(["reply", &first, "fine with me"]).ok());
    let fourth = id_of(&sandbox.agent("alice").args(["reply", &second, "they pass"]).ok());
    (sandbox, vec![first, second, third, fourth])
}

#[test]
fn a_reply_goes_to_the_sender_under_its_subject_and_joins_the_thread() {
    let (sandbox, ids) = conversation();
    let read = |agent: &str, id: &str| -> Value { sandbox.agent(agent).args(["peek", id, "--json"]).ok().json() };
    let second = read("alice", &ids[1]);
    assert_eq!((&second["to"], &second["cc"]), (&"@alice".into(), &serde_json::json!(["@carol"])));
    assert_eq!((&second["subject"], &second["reply_to"]), (&"Re: Merge".into(), &ids[0].as_str().into()));
    assert_eq!(second["thread"], ids[0]);
    let fourth = read("bob", &ids[3]);
    assert_eq!((&fourth["to"], &fourth["subject"]), (&"@bob".into(), &"Re: Merge".into()), "one Re: is enough");
    assert_eq!(fourth["thread"], ids[0]);
}

#[test]
fn a_thread_is_found_from_each_of_its_messages_in_order() {
    let (sandbox, ids) = conversation();
    let all = ["may I merge?", "after the tests", "fine with me", "they pass"];
    for id in &ids {
        assert_eq!(bodies(&sandbox, "alice", id), all, "{id}");
    }
    assert_eq!(bodies(&sandbox, "alice", &ids[2][9..]), all, "the end of an id is enough");
    assert_eq!(bodies(&sandbox, "carol", &ids[0]), &all[..3], "what others write to each other stays theirs");
    let eve = sandbox.agent("eve").args(["thread", &ids[0]]).ok();
    assert_eq!(eve.stdout, "");
    eve.says(&["no messages in the thread"]);
}

#[test]
fn a_named_thread_gathers_what_bears_its_name_and_the_answers() {
    let sandbox = Sandbox::new();
    let first = id_of(&sandbox.agent("alice").args(["send", "task", "one", "--thread", "release-7"]).ok());
    sandbox.send("alice", "task", "something else");
    sandbox.agent("bob").args(["send", "task", "two", "-r", &first]).ok();
    sandbox.agent("carol").args(["send", "docs", "three", "--thread", "release-7"]).ok();
    for thread in ["release-7", &first] {
        assert_eq!(bodies(&sandbox, "dave", thread), ["one", "two", "three"]);
    }
}

#[test]
fn on_a_terminal_a_thread_is_a_tree_and_elsewhere_lines() {
    let (sandbox, ids) = conversation();
    let command = format!("fmail thread {}", ids[0]);
    let terminal = sandbox.command(Path::new("script")).agent("alice").env("TERM", "xterm").env("NO_COLOR", "1");
    let tree = terminal.args(["-qec", &command, "/dev/null"]).ok().stdout.replace('\r', "");
    let depths: Vec<(usize, bool)> = ["may I merge?", "after the tests", "fine with me", "they pass"]
        .iter()
        .map(|body| {
            let line = tree.lines().position(|line| line.contains(body)).unwrap_or_else(|| panic!("{tree}"));
            let head = tree
                .lines()
                .take(line + 1)
                .filter(|line| line.contains("alice") || line.contains("bob") || line.contains("carol"))
                .last();
            let head = head.unwrap_or_else(|| panic!("{tree}"));
            (head.chars().take_while(|c| *c == ' ').count(), head.trim_start().starts_with('└'))
        })
        .collect();
    assert_eq!(depths, [(0, false), (0, true), (0, true), (2, true)], "{tree}");
    let plain = sandbox.agent("alice").args(["thread", &ids[0]]).ok().stdout;
    assert!(plain.lines().count() == 4 && !plain.contains('└'), "{plain}");
}
