//! A project's configuration that came with a clone: what it may not say, and `fmail trust`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use fmail_e2e::{Sandbox, forged_binary};

const INVALID_CONFIG: i32 = 14;
const DENIED: i32 = 9;
const CONFIG: &str = ".fmail/config.toml";

/// A clone with a script that would leave a mark, wherever it is run from.
struct Clone {
    sandbox: Sandbox,
    script: PathBuf,
    mark: PathBuf,
}

impl Clone {
    fn new() -> Clone {
        let sandbox = Sandbox::new();
        sandbox.send("me", "task", "before");
        let mark = sandbox.outside().join("was-run");
        let script = sandbox.write("evil.sh", format!("#!/bin/sh\ntouch {}\n", mark.display()));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("own file");
        Clone { sandbox, script, mark }
    }

    /// What a hostile file may try: its text, and the key that is refused.
    fn tries(&self) -> Vec<(String, &'static str)> {
        let script = self.script.display();
        vec![
            (format!("[mail]\nstore = \"x\"\n[mail.plugin.x]\nfile = \"{script}\"\n"), "mail.plugin.x.file"),
            (
                format!("[mail]\nstore = \"x\"\n[mail.plugin.x]\ncommand = [\"sh\", \"{script}\"]\n"),
                "mail.plugin.x.command",
            ),
            (format!("[mail.plugins]\npath = [\"{}\"]\n", self.sandbox.path().display()), "mail.plugins.path"),
            ("[mail.plugin.x]\nisolation = \"none\"\n".into(), "mail.plugin.x.isolation"),
            (format!("[mail.nudge]\ndefault = [\"{script}\"]\n"), "mail.nudge"),
            (format!("mail.store = \"{script}\"\n"), "mail.store"),
            (format!("mail.relays = [\"sh {script}\"]\n"), "mail.relays"),
        ]
    }
}

#[test]
fn a_clone_that_names_a_path_a_script_or_a_command_is_refused_with_what_to_do() {
    let clone = Clone::new();
    for (text, key) in clone.tries() {
        clone.sandbox.write(CONFIG, &text);
        let before = clone.sandbox.tree();
        for args in [&["send", "task", "x"][..], &["log"], &["nudge", "bob", "hi"], &["config", "check"]] {
            let told = clone.sandbox.agent("me").args(args).fails(INVALID_CONFIG);
            told.says(&["config.toml:", &format!("`{key}`"), "fmail trust"]);
        }
        clone.sandbox.assert_unchanged(&before);
    }
    assert!(!clone.mark.exists(), "the script was run");
}

#[test]
fn forged_refuses_the_same_clone() {
    let clone = Clone::new();
    clone
        .sandbox
        .write(CONFIG, format!("[mail]\nstore = \"x\"\n[mail.plugin.x]\nfile = \"{}\"\n", clone.script.display()));
    let output = clone.sandbox.command(forged_binary()).run();
    assert_eq!(output.code, INVALID_CONFIG, "{output:?}");
    output.says(&["config.toml:4", "fmail trust"]);
    assert!(!clone.mark.exists(), "the script was run");
}

#[test]
fn trust_shows_what_it_means_and_is_void_when_the_file_changes() {
    let clone = Clone::new();
    let sandbox = &clone.sandbox;
    let text = format!("[mail.nudge]\nbob = [\"{}\"]\n[mail.gc]\ndays = 3\n", clone.script.display());
    sandbox.write(CONFIG, &text);
    let shown = sandbox.fmail().args(["trust", "--show"]).ok().stdout;
    for part in ["config.toml:1: mail.nudge = ", "evil.sh", "fmail would run these commands", "not trusted"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(!shown.contains("mail.gc.days"), "what needs no trust is no part of it: {shown}");
    sandbox.agent("me").args(["log"]).fails(INVALID_CONFIG);

    let trusted = sandbox.fmail().args(["trust", "--json"]).ok().json();
    assert_eq!((&trusted["standing"], &trusted["asks"][0]["key"]), (&"trusted".into(), &"mail.nudge".into()));
    sandbox.agent("me").args(["log"]).ok();
    sandbox.agent("me").args(["nudge", "bob", "hi"]).run();
    assert!(clone.mark.exists(), "what is trusted counts");
    let list = sandbox.fmail().args(["trust", "--list"]).ok().stdout;
    assert!(list.contains("config.toml  trusted, since "), "{list}");

    sandbox.write(CONFIG, format!("{text}# a change\n"));
    let told = sandbox.agent("me").args(["log"]).fails(INVALID_CONFIG);
    told.says(&["config.toml:1", "`mail.nudge`", "has changed since", "fmail trust"]);
    let list = sandbox.fmail().args(["trust", "--list", "--json"]).ok().json();
    assert_eq!(list["standing"], "changed");
    sandbox.fmail().arg("trust").ok();
    sandbox.agent("me").args(["log"]).ok();
    sandbox.fmail().args(["trust", "--revoke"]).ok();
    sandbox.agent("me").args(["log"]).fails(INVALID_CONFIG).says(&["fmail trust"]);
    sandbox.fmail().args(["trust", "--revoke"]).ok().says(&["was not trusted"]);
}

#[test]
fn trust_works_while_the_configuration_is_broken_and_refuses_what_others_can_write() {
    let sandbox = Sandbox::new();
    sandbox.fmail().arg("trust").fails(7).says(&["no configuration file"]);
    sandbox.send("me", "task", "before");
    let path = sandbox.write(CONFIG, "[mail]\nno-such-key = 1\n[mail.plugins]\npath = [\"/opt/x\"]\n");
    let user = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&user).expect("own directory");
    fs::write(user.join("config.toml"), "broken [").expect("own file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("own file");
    sandbox.fmail().arg("trust").fails(DENIED).says(&["config.toml", "0666", "chmod go-w"]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("own file");
    let told = sandbox.fmail().arg("trust").ok();
    told.says(&["config.toml:2", "`mail.no-such-key` is not a key"]);
    assert!(told.stdout.contains("trusted: "), "{told:?}");
    sandbox.fmail().args(["config", "path"]).ok();
    let both = sandbox.fmail().args(["config", "check"]).fails(INVALID_CONFIG);
    both.says(&["2 mistakes", "not TOML", "no-such-key"]);
    assert!(!both.stderr.contains("a project's file"), "it is trusted: {both:?}");
}

#[test]
fn check_and_schema_tell_about_plugins_without_running_them() {
    let clone = Clone::new();
    let sandbox = &clone.sandbox;
    assert!(sandbox.fmail().args(["config", "check"]).ok().stdout.contains("in order"));
    let user = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&user).expect("own directory");
    let text =
        format!("[mail.plugin.x]\nfile = \"{}\"\n[mail.plugin.x.config]\ntoken = \"hidden\"\n", clone.script.display());
    fs::write(user.join("config.toml"), text).expect("own file");
    let told = sandbox.fmail().args(["config", "check", "--json"]).ok().json();
    assert_eq!((&told["ok"], &told["plugins"][0]["checked"]), (&true.into(), &false.into()), "{told}");
    let shown = sandbox.fmail().args(["config", "show", "--origin"]).ok().stdout;
    assert!(shown.contains("mail.plugin.x.config.token = (not shown") && !shown.contains("hidden"), "{shown}");
    let schema = sandbox.fmail().args(["config", "schema", "--json"]).ok().json();
    assert!(schema["properties"]["mail"]["properties"]["plugin"]["additionalProperties"].is_object(), "{schema}");
    let path = sandbox.fmail().args(["config", "path", "--json"]).ok().json();
    assert_eq!(path[3]["exists"], false, "{path}");
    assert!(!clone.mark.exists(), "the plugin was run");
    // What the user's own file names is run when it is used, and this is no plugin.
    let refused = sandbox.fmail().args(["--set", "mail.store=x", "send", "task", "hi"]).run();
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(clone.mark.exists(), "the plugin was not run: {refused:?}");
}
