//! `fmail --robot-help`: the help that programs read.

use fmail_e2e::Sandbox;
use serde_json::Value;

fn described(args: &[&str]) -> Value {
    let output = Sandbox::new().fmail().args(args).ok();
    assert_eq!(output.stderr, "");
    output.json()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// The commands that `fmail --help` lists.
fn listed() -> Vec<String> {
    let help = Sandbox::new().fmail().arg("--help").ok().stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<String> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(String::from))
        .collect();
    assert!(names.len() >= 10, "{help}");
    names
}

#[test]
fn it_is_one_json_object_of_at_most_12_kb() {
    let output = Sandbox::new().fmail().arg("--robot-help").ok();
    assert!(output.json().is_object());
    assert!(output.stdout.len() <= 12_000, "{} bytes", output.stdout.len());
}

#[test]
fn its_keys_are_stable() {
    let keys = keys(&described(&["--robot-help"])).join(" ");
    assert_eq!(
        keys,
        "name version description setup commands mailbox global_flags patterns env message_format storage exit_codes more"
    );
}

#[test]
fn every_command_of_the_help_is_in_it_with_its_parts() {
    let overview = described(&["--robot-help"]);
    let mut names = listed();
    names.retain(|name| name != "help");
    // What an agent needs daily is told in full, the rest in a line each.
    let (full, brief) = (keys(&overview["commands"]), keys(&overview["mailbox"]));
    let mut all: Vec<String> = full.iter().chain(&brief).map(|name| name.to_string()).collect();
    all.sort();
    names.sort();
    assert_eq!(all, names);
    for name in brief {
        let line = overview["mailbox"][name].as_str().unwrap_or_default();
        assert!(line.starts_with(&format!("fmail {name}")) && line.contains("  # "), "{line}");
    }
    for name in full {
        let command = &overview["commands"][&name];
        assert_eq!(keys(command)[..4], ["usage", "flags", "examples", "description"], "{name}");
        assert!(command["usage"].as_str().is_some_and(|usage| usage.starts_with(&format!("fmail {name}"))), "{name}");
        assert!(command["examples"].as_array().is_some_and(|examples| !examples.is_empty()), "{name}");
    }
}

#[test]
fn every_flag_of_the_specification_is_in_it_in_both_forms() {
    let commands = described(&["--robot-help"])["commands"].take();
    for (command, flags) in [
        ("send", &["-f, --file", "-r, --reply-to", "-p, --priority", "-t, --tag", "--json"][..]),
        ("log", &["-n, --limit", "--since", "--from", "-f, --follow", "--allow-other-dm", "--json"]),
        ("watch", &["--timeout", "-c, --count", "--allow-other-dm", "--json"]),
        ("who", &["--json"]),
        ("register", &["--json"]),
        ("status", &["--clear"]),
        ("topics", &["--json"]),
        ("gc", &["--days", "--dry-run"]),
        ("init", &["--project"]),
    ] {
        let known = keys(&commands[command]["flags"]);
        for flag in flags {
            let fits = |known: &&&str| *known == flag || known.starts_with(&format!("{flag} <"));
            assert!(known.iter().find(fits).is_some(), "{command} {flag}: {known:?}");
        }
    }
}

#[test]
fn one_command_is_described_in_full_from_either_side() {
    for name in listed().iter().filter(|name| *name != "help") {
        let full = described(&[name, "--robot-help"]);
        assert_eq!(full["name"], name.as_str());
        assert_eq!(full, described(&["--robot-help", name]));
        for key in ["usage", "flags", "examples", "description", "arguments", "aliases", "env", "exit_codes"] {
            assert!(!full[key].is_null(), "{name} {key}");
        }
        for example in full["examples"].as_array().expect("an array") {
            assert!(example["command"].is_string() && example["does"].is_string(), "{name}");
        }
    }
    assert_eq!(described(&["logs", "--robot-help"])["name"], "log");
    Sandbox::new().fmail().args(["nonsense", "--robot-help"]).fails(2).says(&["nonsense", "send"]);
}

#[test]
fn it_needs_no_project_and_no_sound_environment() {
    let sandbox = Sandbox::new();
    let output = sandbox.agent("not a name").env("FMAIL_NONSENSE", "1").args(["send", "--robot-help"]).ok();
    assert_eq!(output.json()["name"], "send");
    assert!(!sandbox.store().exists());
}

#[test]
fn the_exit_codes_are_those_of_the_long_help() {
    let codes = described(&["--robot-help"])["exit_codes"].take();
    let help = Sandbox::new().fmail().arg("--help").ok().stdout;
    for (code, meaning) in codes.as_object().expect("an object") {
        let name = meaning.as_str().expect("a text").split([':', ';']).next().expect("a name");
        let told = help.lines().any(|line| line.split_whitespace().next() == Some(code) && line.contains(name));
        assert!(told, "{code} {name}\n{help}");
    }
}

#[test]
fn its_patterns_run() {
    let sandbox = Sandbox::new();
    let patterns = described(&["--robot-help"])["patterns"].take();
    sandbox.bash("me", patterns["claim"].as_str().expect("a line")).ok();
    sandbox.bash("me", patterns["status"].as_str().expect("a line")).ok();
    let lines: Vec<&str> =
        patterns["file_coordination"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    assert!(sandbox.bash("me", &lines.join("\n")).ok().stdout.ends_with("busy\n"));

    let mut responder = sandbox.bash("analyzer", patterns["responder"].as_str().expect("a line")).spawn();
    responder.await_watching();
    let request: Vec<&str> =
        patterns["request_response"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    let answer = sandbox.bash("me", &request.join("\n")).ok();
    assert!(answer.stdout.ends_with(" analyzer -> @me: done\n"), "{answer}");
}
