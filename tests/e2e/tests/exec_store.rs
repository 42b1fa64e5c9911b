//! The command line on mail that a script keeps: `store = "exec"`, through the built plugin.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_e2e::{Running, Sandbox};
use rustix::process::Signal;
use serde_json::{Value, json};

const UNSUPPORTED: i32 = 10;
const UNAVAILABLE: i32 = 12;
const INVALID_CONFIG: i32 = 14;

/// The example of a script, with its mail outside of the project.
fn example(sandbox: &Sandbox) -> Vec<String> {
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python =
        String::from_utf8(python.expect("python3 is needed by these tests").stdout).unwrap().trim().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/examples/exec-gc/mail.py");
    let mail = format!("MAIL_FILE={}", sandbox.outside().join("mail.json").display());
    ["/usr/bin/env".into(), mail, python, "-IS".into(), fs::canonicalize(script).unwrap().display().to_string()].into()
}

fn configure(sandbox: &Sandbox, command: &[String]) {
    let config = format!("[mail.plugin.exec.config]\ncommand = {command:?}\npoll = \"200ms\"\ntimeout = \"25s\"\n");
    sandbox.configure("store = \"exec\"", &config);
}

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, &example(&sandbox));
    sandbox
}

fn script(sandbox: &Sandbox, text: &str) -> PathBuf {
    let path = sandbox.outside().join("script");
    let _ = fs::remove_file(&path);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn bodies(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["body"].as_str().unwrap_or_default()).collect()
}

/// The script's own view of its mail.
fn kept(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&fs::read_to_string(sandbox.outside().join("mail.json")).unwrap()).unwrap()
}

#[test]
fn the_command_line_works_on_a_scripts_mail() {
    let sandbox = project();
    let bob = |args: &[&str]| sandbox.agent("bob").args(args).ok();
    sandbox.agent("bob").arg("check").fails(1);
    let id =
        sandbox.agent("alice").args(["send", "@bob", "may I?", "--subject", "Merge"]).ok().stdout.trim().to_string();
    assert_eq!(bob(&["check"]).stdout, "1 unread message for @bob\n");
    let listed = bob(&["inbox", "--json"]).json_lines();
    assert_eq!((bodies(&listed), listed[0]["subject"].as_str()), (vec!["may I?"], Some("Merge")));
    assert_eq!(listed[0]["foreign_id"], kept(&sandbox)[0]["id"]);
    // The end of an id is enough, and looking changes nothing.
    assert!(bob(&["peek", &id[9..]]).stdout.ends_with("may I?\n"));
    sandbox.agent("alice").args(["read", &id]).ok();
    assert_eq!(kept(&sandbox)[0]["read"], false, "who has sent it does not read it for its recipient");
    assert!(bob(&["read", &id]).stdout.ends_with("may I?\n"));
    assert_eq!(kept(&sandbox)[0]["read"], true);
    assert_eq!(bob(&["count", "--json"]).json()["unread"], 0);
    bob(&["mark-unread", &id]);
    assert_eq!(kept(&sandbox)[0]["read"], false);
    bob(&["reply", &id, "yes"]);
    assert_eq!(kept(&sandbox)[1]["reply_to"], kept(&sandbox)[0]["id"]);
    assert_eq!(kept(&sandbox)[1]["subject"], "Re: Merge");
    let thread = sandbox.agent("alice").args(["thread", &id, "--json"]).ok().json_lines();
    assert_eq!(bodies(&thread), ["may I?", "yes"]);
    assert_eq!(bodies(&sandbox.log("alice", &[])), ["yes"]);
    bob(&["archive", &id]);
    bob(&["archive", &id]).says(&["already"]);
    assert_eq!(kept(&sandbox)[0]["open"], false);
    assert_eq!(bob(&["inbox", "--all", "--json"]).json_lines().len(), 0);
    // What it cannot do is said, and nothing is sent.
    for args in [
        &["send", "task", "x"][..],
        &["send", "@bob", "x", "--priority", "high"],
        &["send", "@bob", "x", "--tag", "t"],
        &["ack", &id],
        &["inbox", "--archived"],
        &["inbox", "--claim", "5m"],
        &["log", "task"],
    ] {
        let refused = sandbox.agent("bob").args(args).run();
        assert_eq!(refused.code, UNSUPPORTED, "{args:?}\n{refused}");
    }
    assert_eq!(kept(&sandbox).as_array().unwrap().len(), 2);
}

#[test]
fn what_others_do_with_the_script_is_seen() {
    let sandbox = project();
    let command = example(&sandbox);
    let own = |args: &[&str], input: &str| {
        let program = sandbox.command(Path::new(&command[0])).args(&command[1..]).args(args);
        program.stdin(input).ok().stdout
    };
    own(&["send", "gastown/crew-1"], r#"{"from":"Mayor","subject":"","body":"go"}"#);
    let crew = "gastown-crew-1--x7s";
    let listed = sandbox.agent(crew).args(["inbox", "--json"]).ok().json_lines();
    assert_eq!((bodies(&listed), &listed[0]["from"]), (vec!["go"], &json!("mayor--x0u")));
    own(&["mark-read", kept(&sandbox)[0]["id"].as_str().unwrap()], "");
    sandbox.agent(crew).arg("check").fails(1);
    sandbox.agent(crew).args(["reply", listed[0]["id"].as_str().unwrap(), "gone"]).ok();
    assert_eq!(kept(&sandbox)[1]["to"], "Mayor");
    assert_eq!(kept(&sandbox)[1]["from"], "gastown/crew-1");
}

/// A watch of bob's that has begun: it has delivered what was there before.
fn watch(sandbox: &Sandbox) -> Running {
    sandbox.send("alice", "@bob", "before");
    let mut watch = sandbox.agent("bob").args(["watch", "--json", "--since", "1h"]).spawn();
    assert_eq!(watch.json()["body"], "before");
    watch
}

#[test]
fn a_watch_is_woken_by_fmail_and_by_others() {
    let sandbox = project();
    let mut watch = watch(&sandbox);
    sandbox.send("alice", "@bob", "one");
    assert_eq!(watch.json()["body"], "one");
    let command = example(&sandbox);
    let program = sandbox.command(Path::new(&command[0])).args(&command[1..]).args(["send", "bob"]);
    program.stdin(r#"{"from":"carol","subject":"","body":"two"}"#).ok();
    assert_eq!(watch.json()["body"], "two");
    watch.signal(Signal::INT);
}

#[test]
fn the_daemon_serves_a_scripts_mail() {
    let sandbox = project();
    let _forged = sandbox.forged(&[]);
    let mut watch = watch(&sandbox);
    let id = sandbox.send("alice", "@bob", "one");
    assert_eq!(watch.json()["body"], "one");
    sandbox.agent("bob").args(["read", &id]).ok();
    assert_eq!(kept(&sandbox)[1]["read"], true);
    assert_eq!(sandbox.agent("bob").arg("check").ok().stdout, "1 unread message for @bob\n");
}

#[test]
fn a_broken_script_is_never_an_empty_inbox_on_the_command_line() {
    for (text, code, says) in [
        ("#!/bin/sh\nif then ((\n", UNSUPPORTED, "exit status 2"),
        ("#!/bin/sh\n[ $1 = ensure-running ] || { echo 'disk on fire' >&2; exit 1; }\n", UNAVAILABLE, "disk on fire"),
        ("#!/bin/sh\necho hello\n", 13, "not JSON"),
        ("#!/bin/sh\necho '[{\"id\":1}]'\n", 13, "the number 1"),
    ] {
        let sandbox = Sandbox::new();
        let path = script(&sandbox, text).display().to_string();
        configure(&sandbox, std::slice::from_ref(&path));
        for args in [&["inbox"][..], &["check"], &["count"], &["send", "@bob", "x"], &["log"]] {
            let output = sandbox.agent("bob").args(args).run();
            let counted = args == ["check"] || args == ["count"] || args[0] == "send";
            assert_eq!(
                output.code,
                if code == 13 && counted { output.code } else { code },
                "{text}: {args:?}\n{output}"
            );
            assert!(output.code > 1 && output.stdout.is_empty(), "{text}: {args:?}\n{output}");
            output.says(&[&path]);
            assert!(code == 13 || output.stderr.contains(says), "{text}: {args:?}\n{output}");
        }
        sandbox.agent("bob").arg("inbox").fails(code).says(&[says]);
    }
}

#[test]
fn a_clone_cannot_name_the_script_until_it_is_trusted() {
    let sandbox = project();
    let mark = sandbox.outside().join("was-run");
    let evil = script(&sandbox, &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let text = format!("[mail.plugin.exec.config]\ncommand = [\"{}\"]\n", evil.display());
    sandbox.write(".fmail/config.toml", &text);
    for args in [&["inbox"][..], &["send", "@bob", "x"], &["check"], &["config", "check"]] {
        let told = sandbox.agent("me").args(args).run();
        assert_eq!(told.code, INVALID_CONFIG, "{args:?}\n{told}");
        told.says(&["config.toml:2", "mail.plugin.exec.config.command", "fmail trust"]);
    }
    assert!(!mark.exists(), "the script was run");
    sandbox.fmail().args(["trust"]).ok();
    sandbox.agent("me").arg("inbox").ok();
    assert!(mark.exists(), "a trusted project names its script");
    // A project may choose what the user has set up.
    sandbox.write(".fmail/config.toml", "[mail]\nstore = \"exec\"\n");
    sandbox.agent("me").arg("inbox").ok();
}

#[test]
fn wrong_settings_are_told_with_file_and_line() {
    let sandbox = Sandbox::new();
    for (config, says) in [
        ("command = \"x y\"", "command"),
        ("command = [\"x\"]\nprotocol = \"gascity\"", "\"gc\" or \"native\""),
        ("command = [\"x\"]\nparallel = 1000", "from 1 to 64"),
        ("comand = [\"x\"]", "did you mean `command`"),
        ("protocol = \"gc\"", "missing"),
    ] {
        sandbox.configure("store = \"exec\"", &format!("[mail.plugin.exec.config]\n{config}\n"));
        sandbox.agent("bob").arg("inbox").fails(INVALID_CONFIG).says(&["config.toml", says]);
    }
    sandbox.configure("store = \"exec\"", "[mail.plugin.exec.config]\ncommand = [\"./x\"]\n");
    sandbox.agent("bob").arg("inbox").fails(INVALID_CONFIG).says(&["./x", "absolute path"]);
}
