//! `fmail hook`: our entries in the settings of agents, and everything else as it was.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fmail_e2e::{Output, Random, Sandbox, full};
use serde_json::{Value, json};

const AGENTS: [(&str, &str, [&str; 4]); 3] = [
    ("claude", ".claude/settings.json", ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"]),
    ("codex", ".codex/hooks.json", ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"]),
    ("gemini", ".gemini/settings.json", ["SessionStart", "BeforeAgent", "AfterTool", "AfterAgent"]),
];

/// Settings as somebody may have written them, with a hook of their own.
const SETTINGS: &str = "{\n\t\"model\" : \"opus\",   \"env\": {\"KEY\":\"a // b\"},\n\n\t\"hooks\": {\n\t\t\"SessionStart\": [ {\"hooks\": [{\"type\": \"command\", \"command\": \"echo mine\"}]} ],\n\t\t\"PreToolUse\": []\n\t},\n\t\"unknown\": [1.50, 1e3, null]\n}";

fn hook(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.agent("bob").arg("hook").args(args).ok()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The commands of a file at an event.
fn commands(text: &str, event: &str) -> Vec<String> {
    let settings: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let groups = settings["hooks"][event].as_array().cloned().unwrap_or_default();
    let handlers = groups.iter().flat_map(|group| group["hooks"].as_array().cloned().unwrap_or_default());
    handlers.map(|handler| handler["command"].as_str().unwrap_or_default().to_string()).collect()
}

#[test]
fn a_file_that_was_not_there_is_made_and_taken_away() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "@bob", "the project is here");
    let before = sandbox.tree();
    for (agent, file, events) in AGENTS {
        let path = sandbox.path().join(file);
        assert_eq!(sandbox.fmail().args(["hook", "status", agent]).run().code, 1);
        hook(&sandbox, &["install", agent]).says(&["installed in", file]);
        let text = read(&path);
        for event in &events[..3] {
            assert_eq!(commands(&text, event), [format!("fmail check --inject --for {agent}")], "{event}");
        }
        assert_eq!(commands(&text, events[3]), [] as [&str; 0], "going on is only for those who ask");
        let inode = path.metadata().unwrap().ino();
        hook(&sandbox, &["install", agent]).says(&["already installed"]);
        assert_eq!((read(&path), path.metadata().unwrap().ino()), (text, inode), "the second time changes nothing");
        let status = hook(&sandbox, &["status", agent]).stdout;
        assert!(status.contains(&format!("{agent} project: installed at {}", events[..3].join(", "))), "{status}");
        hook(&sandbox, &["uninstall", agent]).says(&["removed from"]);
        hook(&sandbox, &["uninstall", agent]).says(&["not installed in"]);
    }
    sandbox.assert_unchanged(&before);
    assert_eq!(sandbox.fmail().args(["hook", "status"]).run().code, 1);
}

#[test]
fn a_users_settings_and_hooks_survive_to_the_byte() {
    for (agent, file, events) in AGENTS {
        for text in [
            SETTINGS,
            &SETTINGS.replace('\n', "\r\n"),
            "{}",
            "{\n}\n",
            " {\"hooks\":{}}",
            "{\"a\":1}\n",
            "{\"hooks\":{\"SessionStart\":[ ]}}",
        ] {
            let sandbox = Sandbox::new();
            let path = sandbox.write(file, text);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            hook(&sandbox, &["install", agent, "--stop"]);
            let installed = read(&path);
            for event in events {
                assert_eq!(commands(&installed, event).last().unwrap(), &format!("fmail check --inject --for {agent}"));
            }
            if text.contains("echo mine") {
                assert_eq!(commands(&installed, "SessionStart")[0], "echo mine");
                assert!(
                    installed.starts_with("{\n\t\"model\" : \"opus\",   \"env\"") || installed.contains("\r\n"),
                    "{installed}"
                );
            }
            hook(&sandbox, &["install", agent, "--stop"]);
            assert_eq!(read(&path), installed);
            // Other options change our entries and nothing else.
            hook(&sandbox, &["install", agent, "--agent", "bob"]);
            assert_eq!(commands(&read(&path), events[3]), [] as [&str; 0]);
            assert_eq!(commands(&read(&path), events[1]), [format!("fmail check --inject --for {agent} --agent bob")]);
            hook(&sandbox, &["uninstall", agent]);
            assert_eq!(read(&path), *text, "{agent}");
            assert_eq!(sandbox.mode(file), 0o640);
        }
    }
}

#[test]
fn what_the_user_changed_in_between_stays() {
    for (agent, file, events) in AGENTS {
        let sandbox = Sandbox::new();
        let path = sandbox.write(file, SETTINGS);
        hook(&sandbox, &["install", agent]);
        // Written anew by somebody, as agents do: other blanks, another order of hooks, one more before and behind ours.
        let mut settings: Value = serde_json::from_str(&read(&path)).unwrap();
        settings["added"] = json!(true);
        let mine = json!({"hooks": [{"type": "command", "command": "echo later"}]});
        settings["hooks"][events[1]].as_array_mut().unwrap().insert(0, mine.clone());
        settings["hooks"][events[2]].as_array_mut().unwrap().push(mine.clone());
        // And one in the very group that is ours.
        let group = settings["hooks"]["SessionStart"][1]["hooks"].as_array_mut().unwrap();
        group.push(json!({"type": "command", "command": "echo beside"}));
        fs::write(&path, settings.to_string()).unwrap();
        hook(&sandbox, &["uninstall", agent]);
        let text = read(&path);
        assert!(!text.contains("fmail"), "{text}");
        assert_eq!(commands(&text, "SessionStart"), ["echo mine", "echo beside"]);
        assert_eq!(
            (commands(&text, events[1]), commands(&text, events[2])),
            (vec!["echo later".to_string()], vec!["echo later".to_string()])
        );
        let left: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&left["added"], &left["hooks"]["PreToolUse"], &left["model"]),
            (&json!(true), &json!([]), &json!("opus"))
        );
    }
}

#[test]
fn a_file_of_ours_that_became_the_users_stays_with_what_is_the_users() {
    let sandbox = Sandbox::new();
    hook(&sandbox, &["install", "claude"]);
    let path = sandbox.path().join(".claude/settings.json");
    fs::write(&path, read(&path).replacen('{', "{\n  \"model\": \"opus\",", 1)).unwrap();
    hook(&sandbox, &["uninstall", "claude"]);
    assert_eq!(serde_json::from_str::<Value>(&read(&path)).unwrap(), json!({"model": "opus"}));
    // Without the note that an installation leaves, exactly our entries go.
    sandbox.write(".claude/settings.json", SETTINGS);
    hook(&sandbox, &["install", "claude"]);
    fs::remove_dir_all(sandbox.home().join(".local/state/fmail")).unwrap();
    hook(&sandbox, &["uninstall", "claude"]);
    assert_eq!(read(&path), SETTINGS);
}

#[test]
fn comments_of_gemini_survive_and_are_refused_elsewhere() {
    let sandbox = Sandbox::new();
    let text =
        "// mine\n{\n  /* { */ \"hooks\": { // \"BeforeAgent\": []\n    \"AfterTool\": [ /* none */ ]\n  } // end\n}\n";
    for (agent, file, _) in AGENTS {
        let path = sandbox.write(file, text);
        if agent == "gemini" {
            hook(&sandbox, &["install", agent]);
            assert_ne!(read(&path), text);
            for comment in ["// mine", "/* { */", "// \"BeforeAgent\": []", "/* none */", "// end"] {
                assert!(read(&path).contains(comment), "{comment}");
            }
            hook(&sandbox, &["uninstall", agent]);
        } else {
            sandbox.agent("bob").args(["hook", "install", agent]).fails(14).says(&["comments", "nothing was changed"]);
        }
        assert_eq!(read(&path), text, "{agent}");
    }
}

#[test]
fn what_cannot_be_understood_is_refused_and_left() {
    for (agent, file, _) in AGENTS {
        for (text, says) in [
            (&b"{ \"hooks\": "[..], "EOF"),
            (b"", "EOF"),
            (b"[]", "it is an array, not an object"),
            (b"{\"hooks\": []}", "`hooks` is an array, not an object"),
            (b"{\"hooks\": {\"SessionStart\": {}}}", "`hooks.SessionStart` is an object, not an array"),
            (b"{\"hooks\": {}, \"hooks\": {}}", "`hooks` more than once"),
            (b"{\"hooks\": {\"SessionStart\": [], \"SessionStart\": []}}", "more than once"),
            (b"{\"a\": 1,}", "trailing comma"),
            (b"\xef\xbb\xbf{}", "expected value"),
            (b"{\"a\": \"\xff\"}", "not UTF-8"),
        ] {
            let sandbox = Sandbox::new();
            let path = sandbox.write(file, text);
            let before = sandbox.tree();
            for action in ["install", "uninstall"] {
                let output = sandbox.agent("bob").args(["hook", action, agent]).run();
                assert!(output.code > 1 && output.code < 128, "{output}");
                output.says(&[&path.display().to_string(), says, "nothing was changed"]);
            }
            assert!(sandbox.agent("bob").args(["hook", "status", agent]).run().code > 1);
            sandbox.assert_unchanged(&before);
        }
    }
}

#[test]
fn links_are_written_through_and_protected_files_are_left() {
    let sandbox = Sandbox::new();
    let dotfiles = sandbox.outside().join("dotfiles");
    fs::create_dir(&dotfiles).unwrap();
    fs::write(dotfiles.join("claude.json"), SETTINGS).unwrap();
    fs::create_dir(sandbox.home().join(".claude")).unwrap();
    let link = sandbox.home().join(".claude/settings.json");
    symlink(dotfiles.join("claude.json"), &link).unwrap();
    hook(&sandbox, &["install", "claude", "--user"]);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(read(&dotfiles.join("claude.json")).contains("fmail check --inject"));
    assert_eq!(fs::read_dir(&dotfiles).unwrap().count(), 1, "nothing is left beside it");
    hook(&sandbox, &["uninstall", "claude", "--user"]);
    assert_eq!(read(&dotfiles.join("claude.json")), SETTINGS);
    let refused = |says: &str| {
        sandbox
            .agent("bob")
            .args(["hook", "install", "claude", "--user"])
            .fails(14)
            .says(&[says, "nothing was changed"]);
    };
    fs::hard_link(dotfiles.join("claude.json"), dotfiles.join("second")).unwrap();
    refused("hard links");
    fs::remove_file(dotfiles.join("second")).unwrap();
    fs::set_permissions(dotfiles.join("claude.json"), fs::Permissions::from_mode(0o444)).unwrap();
    refused("write-protected");
    fs::remove_file(dotfiles.join("claude.json")).unwrap();
    refused("link to nothing");
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    refused("not a file");
}

#[test]
fn every_scope_has_its_file_and_the_users_variables_count() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.outside().join("elsewhere");
    for (agent, variable, below) in [
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
    ] {
        let run = |action: &str| {
            sandbox.agent("bob").env(variable, &elsewhere).args(["hook", action, agent, "--user", "--json"]).ok().json()
        };
        let installed = run("install");
        let file = PathBuf::from(installed["file"].as_str().unwrap());
        assert_eq!(file, elsewhere.join(below));
        assert_eq!(
            (&installed["changed"], &installed["scope"], installed["events"].as_array().unwrap().len()),
            (&json!(true), &json!("user"), 3)
        );
        assert!(file.exists());
        assert_eq!(run("install")["changed"], false);
        assert_eq!(run("uninstall")["changed"], true);
        assert!(!elsewhere.exists(), "the directories that were made are gone");
    }
    hook(&sandbox, &["install", "claude", "--local"]);
    assert!(sandbox.path().join(".claude/settings.local.json").exists());
    sandbox.agent("bob").args(["hook", "install", "codex", "--local"]).fails(2).says(&["--project or --user"]);
    let dry = hook(&sandbox, &["install", "gemini", "--dry-run"]).stdout;
    assert_eq!(commands(&dry, "AfterTool"), ["fmail check --inject --for gemini"]);
    assert!(!sandbox.path().join(".gemini").exists());
}

#[test]
fn what_keeps_hooks_from_running_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write(".claude/settings.json", r#"{"disableAllHooks": true}"#);
    hook(&sandbox, &["install", "claude"]).says(&["disableAllHooks is true"]);
    sandbox.write(".gemini/settings.json", r#"{"hooksConfig": {"enabled": false}}"#);
    hook(&sandbox, &["install", "gemini"]).says(&["hooksConfig.enabled is false"]);
    sandbox.write(".codex/config.toml", "[features]\nhooks = false\n");
    hook(&sandbox, &["install", "codex"]).says(&["sets features.hooks = false", "/hooks"]);
    sandbox.fmail().args(["hook", "install", "claude"]).ok().says(&["FMAIL_AGENT"]);
    hook(&sandbox, &["install", "claude", "--agent", "bob"]).says(&["everyone who uses", "@bob"]);
    sandbox.agent("bob").args(["hook", "install", "claude", "--agent", "Not A Name"]).fails(4);
}

/// An agent's part of the contract: runs what its settings say at an event, with its input, and gives what it printed.
fn fire(sandbox: &Sandbox, file: &Path, event: &str, session: &str) -> Vec<Output> {
    let input =
        json!({"session_id": session, "hook_event_name": event, "cwd": sandbox.path(), "transcript_path": null});
    let run = |command: &String| {
        let command = command.replace("--inject", "--inject --deadline 60s");
        sandbox.command(Path::new("sh")).agent("bob").args(["-c", &command]).stdin(input.to_string()).ok()
    };
    commands(&read(file), event).iter().map(run).collect()
}

#[test]
fn an_installed_hook_brings_mail_into_the_context() {
    for (agent, file, events) in AGENTS {
        let sandbox = Sandbox::new();
        hook(&sandbox, &["install", agent, "--stop"]);
        let file = sandbox.path().join(file);
        for event in events {
            assert_eq!(fire(&sandbox, &file, event, "s")[0].stdout, "", "{agent} {event}: nothing new");
        }
        for (event, body) in events.iter().zip(["at the start", "with a prompt", "after a tool", "at the end"]) {
            sandbox.send("alice", "@bob", body);
            let printed = fire(&sandbox, &file, event, "s");
            let [printed] = &printed[..] else { panic!("{agent} {event}") };
            assert!(
                printed.stdout.contains(&format!("| {body}\\n")) && printed.stdout.ends_with("}\n"),
                "{agent} {event}: {printed}"
            );
        }
    }
}

/// Settings with habits: any blanks, any keys, hooks of others, empty containers.
fn generated(random: &mut Random, events: &[&str]) -> String {
    fn below(random: &mut Random, bound: usize) -> usize {
        random.below(bound as u64) as usize
    }
    let blank = |random: &mut Random| ["", " ", "\n  ", "\n\t\t", "\r\n  "][below(random, 5)].to_string();
    let joined = |random: &mut Random, open: &str, parts: Vec<String>, close: &str| {
        let mut text = open.to_string();
        for (place, part) in parts.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            text.push_str(&format!("{comma}{}{part}{}", blank(random), blank(random)));
        }
        if parts.is_empty() {
            text.push_str(&blank(random));
        }
        text + close
    };
    let mut hooks = Vec::new();
    for event in events {
        if below(random, 2) == 0 {
            let groups = (0..below(random, 3)).map(|number| {
                format!("{{\"hooks\":[{{\"type\":\"command\",\"command\":\"echo {number} \\\"}}]\"}}]}}")
            });
            let groups = groups.collect();
            hooks.push(format!("\"{event}\":{}", joined(random, "[", groups, "]")));
        }
    }
    let mut members: Vec<String> =
        (0..below(random, 4)).map(|number| format!("\"key {number}\" : [{number}.0, {{}}]")).collect();
    if below(random, 3) > 0 {
        let hooks = joined(random, "{", hooks, "}");
        let place = below(random, members.len() + 1);
        members.insert(place, format!("\"hooks\": {hooks}"));
    }
    let end = ["", "\n", "\r\n"][below(random, 3)];
    joined(random, "{", members, "}") + end
}

#[test]
fn generated_settings_come_back_to_the_byte() {
    let mut random = Random::new(20260110);
    let sandbox = Sandbox::new();
    for round in 0..if full() { 500 } else { 25 } {
        let (agent, file, events) = AGENTS[round % 3];
        let text = generated(&mut random, &events);
        let path = sandbox.write(file, &text);
        hook(&sandbox, &["install", agent, "--stop"]);
        let installed = read(&path);
        assert!(
            events.iter().all(|event| commands(&installed, event).last().unwrap().starts_with("fmail check")),
            "{text}"
        );
        hook(&sandbox, &["install", agent, "--stop"]);
        assert_eq!(read(&path), installed, "{text}");
        hook(&sandbox, &["uninstall", agent]);
        assert_eq!(read(&path), text);
    }
}
