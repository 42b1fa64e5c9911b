//! A store that is a plugin and keeps the states of mail itself: fmail asks it, and keeps no states of its own.

use std::fs;
use std::process::Command;

use fmail_e2e::{Daemon, Sandbox, fmail_binary, plugin_check_binary, plugins};
use serde_json::Value;

/// Where the plugin's code runs: in the daemon, and in a process of its own.
const ISOLATIONS: [&str; 2] = ["none", "process"];

fn on_a_desk(isolation: &str, config: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let section = format!("[mail.plugin.desk]\nisolation = {isolation:?}\n{config}");
    sandbox.configure("store = \"desk\"", &section);
    sandbox
}

/// What an agent's command prints, line by line.
#[track_caller]
fn bodies(sandbox: &Sandbox, agent: &str, args: &[&str]) -> Vec<String> {
    let lines = sandbox.agent(agent).args(args).args(["--json"]).ok().json_lines();
    lines.iter().map(|line| line["body"].as_str().unwrap_or_else(|| panic!("{line}")).to_string()).collect()
}

#[test]
fn agents_read_mail_that_the_plugin_keeps_the_states_of() {
    for isolation in ISOLATIONS {
        let sandbox = on_a_desk(isolation, "");
        let trace = sandbox.outside().join("trace.jsonl");
        let daemon = Daemon::start_with(&sandbox, |command| command.env("FMAIL_PLUGIN_TRACE", &trace));
        let first = sandbox.send("alice", "@bob", "one");
        sandbox.agent("alice").args(["send", "@bob", "--thread", "plan", "two"]).ok();
        assert_eq!(bodies(&sandbox, "bob", &["inbox"]), ["one", "two"], "{isolation}");
        assert_eq!(bodies(&sandbox, "bob", &["read", &first]), ["one"]);
        assert_eq!(bodies(&sandbox, "bob", &["inbox"]), ["two"]);
        assert_eq!(bodies(&sandbox, "bob", &["thread", "plan"]), ["two"]);
        sandbox.agent("bob").args(["archive", &first]).ok();
        let count = sandbox.agent("bob").args(["count", "--json"]).ok().json_lines().remove(0);
        assert_eq!((&count["total"], &count["unread"]), (&1.into(), &1.into()), "{isolation}: {count}");
        let unknown = sandbox.agent("bob").args(["read", "20200101-000000-0000"]).run();
        assert_ne!(unknown.code, 0);
        unknown.says(&["there is no message 20200101-000000-0000 on the desk of bob"]);
        daemon.stop();
        let lines = fs::read_to_string(&trace).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for method in ["mail_inbox", "mail_peek", "mail_read", "mail_mark", "mail_count", "mail_thread"] {
            let asked = lines.iter().any(|line| line["to"] == "plugin" && line["method"] == method);
            assert!(asked, "{isolation}: {method} was not asked");
        }
        let kept = lines.iter().find(|line| line["method"] == "put" && line.to_string().contains("mailbox/"));
        assert!(kept.is_none(), "fmail kept a state of its own: {kept:?}");
    }
}

#[test]
fn a_mailbox_that_does_not_answer_is_a_timeout() {
    for isolation in ISOLATIONS {
        let sandbox = on_a_desk(isolation, "timeout = \"1s\"\nconfig = { fault = \"hangs\" }");
        let _daemon = Daemon::start(&sandbox);
        sandbox.send("alice", "@bob", "one");
        let output = sandbox.agent("bob").args(["inbox"]).run();
        assert_ne!(output.code, 0, "{isolation}");
        output.says(&["mail_inbox", "1s"]);
    }
}

/// What `fmail plugin check` tells of the desk, a line for each case and one for all.
fn checked(more: &[&str]) -> (bool, Vec<Value>, Value) {
    let directory = tempfile::tempdir().unwrap();
    let library = plugins().join("libfmail_desk.so");
    let output = Command::new(fmail_binary())
        .args(["plugin", "check", library.to_str().unwrap(), "--json"])
        .args(more)
        .current_dir(directory.path())
        .env("HOME", directory.path())
        .env("FMAIL_PLUGIN_CHECK", plugin_check_binary())
        .env_remove("XDG_DATA_HOME")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = lines.pop().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.success(), lines, all)
}

#[test]
fn a_plugin_that_claims_it_is_held_to_the_rules_of_mailboxes() {
    for isolation in ISOLATIONS {
        let (good, cases, all) = checked(&["--isolation", isolation]);
        let failed: Vec<&Value> = cases.iter().filter(|case| case["outcome"] == "failed").collect();
        assert!(good && failed.is_empty(), "{isolation}: {failed:#?} {all}");
        let of_mailboxes = cases.iter().filter(|case| case["rule"].as_str().unwrap().starts_with('B'));
        let outcomes: Vec<&Value> = of_mailboxes.map(|case| &case["outcome"]).collect();
        assert!(outcomes.len() >= 15 && outcomes.iter().all(|outcome| *outcome == "passed"), "{outcomes:?}");
    }
}

#[test]
fn a_plugin_that_breaks_a_rule_of_mailboxes_is_told_which() {
    let (good, cases, all) = checked(&["--set", "config.fault=one-state-for-all", "--only", "B7", "--only", "B1"]);
    assert!(!good && all["broken"] == serde_json::json!(["B7"]), "{all}");
    let broken = cases.iter().find(|case| case["outcome"] == "failed").unwrap();
    assert!(broken["reason"].as_str().unwrap().contains("carol"), "{broken}");
}
