//! Projects that cannot be used as they are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use fmail_e2e::{Sandbox, assert_same, tree};
use serde_json::Value;

/// Every command that opens a project.
const COMMANDS: &[&[&str]] = &[
    &["send", "task", "x"],
    &["log"],
    &["watch", "--timeout", "100ms"],
    &["who"],
    &["topics"],
    &["register", "bob"],
    &["status", "busy"],
    &["gc"],
    &["quarantine", "list"],
    &["init"],
];

#[test]
fn a_file_in_place_of_the_directory() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.store(), "not a directory").expect("own file");
    let before = sandbox.tree();
    for args in COMMANDS {
        sandbox.agent("me").args(*args).fails(5).says(&[".fmail", "not a directory"]);
    }
    sandbox.assert_unchanged(&before);
}

#[test]
fn a_symlink_in_place_of_the_directory_is_refused_and_names_the_way_out() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.outside().join("elsewhere");
    fs::create_dir_all(elsewhere.join("topics/task")).expect("own directory");
    symlink(&elsewhere, sandbox.store()).expect("own directory");
    let before = tree(sandbox.outside());
    for args in COMMANDS {
        sandbox.agent("me").args(*args).fails(5).says(&[".fmail", "symbolic link", "FMAIL_ROOT"]);
    }
    assert_same(&before, &tree(sandbox.outside()));
    fs::remove_file(sandbox.store()).expect("own link");
    symlink("/nonexistent", sandbox.store()).expect("own directory");
    sandbox.agent("me").args(["send", "task", "x"]).fails(5).says(&["symbolic link"]);
}

#[test]
fn a_garbage_agent_file_hides_nobody_else_and_stops_no_message() {
    let sandbox = Sandbox::new();
    sandbox.send("good", "task", "x");
    for (name, text) in [("me", "garbage"), ("empty", ""), ("list", "[]"), ("half", "{\"name\":\"half\"")] {
        sandbox.write(format!(".fmail/agents/{name}.json"), text);
    }
    let who = sandbox.agent("x").args(["who", "--json"]).ok();
    assert_eq!(who.json().as_array().map(Vec::len), Some(1));
    assert_eq!(who.json()[0]["name"], "good");
    who.says(&["agents/me.json", "agents/empty.json", "agents/half.json", "skipped"]);

    let sent = sandbox.agent("me").args(["send", "task", "still works"]).ok();
    sent.says(&["stored", "record of me"]);
    let status = sandbox.agent("me").args(["status", "busy"]).fails(13);
    status.says(&["agents/me.json"]);
    sandbox.agent("me").args(["register", "empty"]).fails(8);
    assert_eq!(fs::read_to_string(sandbox.store().join("agents/me.json")).expect("there"), "garbage", "left as it is");
    sandbox.agent("me").args(["watch", "--timeout", "50ms"]).ok();
}

#[test]
fn a_garbage_project_file_refuses_writing_and_not_reading() {
    for garbage in ["garbage", "", "{\"id\":", "{}", "{\"id\": 3}", "{\"id\": \" \"}", "[]"] {
        let sandbox = Sandbox::new();
        sandbox.send("me", "task", "before");
        sandbox.write(".fmail/project.json", garbage);
        let before = sandbox.tree();
        for args in [&["send", "task", "x"][..], &["register", "bob"], &["init"], &["init", "--project", "other"]] {
            sandbox.agent("me").args(args).fails(13).says(&["project"]);
        }
        assert_eq!(sandbox.bodies("me", &[]), ["before"]);
        for args in [&["who"][..], &["topics"], &["watch", "--timeout", "50ms"]] {
            sandbox.agent("me").args(args).ok();
        }
        sandbox.assert_unchanged(&before);
    }
}

#[test]
fn a_newer_format_is_read_at_most_and_never_written() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    let newer = r#"{"id":"p","created":"2026-01-10T15:00:00Z","format":99}"#;
    sandbox.write(".fmail/project.json", newer);
    let before = sandbox.tree();
    for args in [&["send", "task", "x"][..], &["register", "bob"], &["status", "busy"], &["gc", "--days", "1"]] {
        sandbox.agent("me").args(args).fails(5).says(&["99", "upgrade"]);
    }
    sandbox.agent("me").args(["init", "--project", "other"]).fails(5).says(&["99"]);
    sandbox.agent("me").args(["watch", "--timeout", "50ms"]).ok();
    sandbox.assert_unchanged(&before);
}

#[test]
fn a_directory_whose_name_is_not_utf_8() {
    let sandbox = Sandbox::new();
    let root = sandbox.path().join(OsStr::from_bytes(b"n\xff"));
    fs::create_dir_all(root.join(".git")).expect("own directory");
    let fmail = |words: &str| sandbox.agent("me").cwd(&root).args(words.split(' ')).run();
    let shown = |words: &str, key: &str| {
        let output = fmail(words);
        assert!(output.code <= 1, "{words}: {output}");
        let value: Value = serde_json::from_str(output.stdout.lines().next().unwrap_or_default()).expect("JSON");
        let of = if value.is_array() { &value[value.as_array().map_or(0, Vec::len) - 1] } else { &value };
        assert!(of[key].as_str().is_some_and(|path| path.contains("n\u{fffd}")), "{words}: {output}");
    };
    assert_eq!(fmail("send task x").code, 0);
    shown("whoami --json", "root");
    shown("config path --json", "path");
    let config = root.join(".fmail/config.toml");
    fs::write(&config, "[mail.nudge]\nbob = [\"true\"]\n").expect("own file");
    shown("trust --show --json", "root");
    shown("trust --json", "file");
    shown("trust --list --json", "root");
    assert!(fmail("trust --list --json").stdout.contains(r#""standing":"trusted""#), "the note is found again");
    shown("trust --revoke --json", "root");
    fs::remove_file(&config).expect("own file");
    shown("plugin new mine --lang c --json", "directory");
    for agent in ["hook install claude", "hook uninstall claude", "mcp install claude", "mcp uninstall claude"] {
        shown(&format!("{agent} --json"), "file");
    }
    assert!(!root.join(".claude").exists(), "what was noted of a path leads back to it");
    for words in ["store export all.fmail --json", "plugin list --json", "plugin path --json", "config check --json"] {
        assert_eq!(fmail(words).code, 0, "{words}");
    }
}

#[test]
fn a_current_directory_that_is_gone() {
    let sandbox = Sandbox::new();
    let output = sandbox.bash("me", "mkdir gone; cd gone; rmdir ../gone; fmail log").run();
    assert_eq!(output.code, 5, "{output}");
    output.says(&["current directory"]);
}
