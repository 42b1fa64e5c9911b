//! `fmail init`, `config`, `completions`, `help`, `--version`

use std::fs;

use fmail_e2e::Sandbox;
use serde_json::Value;

#[test]
fn init_creates_a_project_here_and_prints_its_id_alone() {
    let sandbox = Sandbox::new();
    let output = sandbox.fmail().args(["init", "--project", "myproj"]).ok();
    assert_eq!(output.stdout, "myproj\n");
    output.says(&["created", "myproj"]);
    let record = fs::read_to_string(sandbox.store().join("project.json")).expect("written");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["id"], "myproj");
    assert!(record["created"].as_str().is_some_and(|time| time.ends_with('Z')), "{record}");
    for directory in ["topics", "dm", "agents"] {
        assert!(sandbox.store().join(directory).is_dir(), "{directory}");
    }
    sandbox.fmail().args(["init"]).ok().says(&["exists already"]);
    let renamed = sandbox.fmail().args(["init", "--project", "other"]).ok();
    assert_eq!(renamed.stdout, "other\n");
    renamed.says(&["myproj", "other"]);
    sandbox.fmail().args(["init", "--project", ""]).fails(2).says(&["empty"]);
}

#[test]
fn init_takes_the_current_directory_and_not_the_repository() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet"]);
    fs::create_dir(sandbox.path().join("sub")).expect("own directory");
    sandbox.fmail().args(["init"]).cwd(sandbox.path().join("sub")).ok();
    assert!(sandbox.path().join("sub/.fmail").is_dir() && !sandbox.store().exists());
}

#[test]
fn git_sees_messages_but_no_lock_index_or_temporary() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet"]);
    let id = sandbox.send("me", "task", "x");
    let status = sandbox.git(&["status", "--porcelain", "--untracked-files=all"]).stdout;
    let mut paths: Vec<&str> = status.lines().map(|line| line.trim_start_matches("?? ")).collect();
    paths.sort_unstable();
    let message = format!(".fmail/topics/task/{id}.json");
    assert_eq!(paths, [".fmail/.gitignore", ".fmail/agents/me.json", ".fmail/project.json", message.as_str()]);
}

#[test]
fn a_committed_project_comes_with_a_clone() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet", "one"]);
    sandbox.agent("me").args(["send", "task", "committed"]).cwd(sandbox.path().join("one")).ok();
    sandbox.git(&["-C", "one", "add", "-A"]);
    sandbox.git(&["-C", "one", "commit", "--quiet", "-m", "x"]);
    sandbox.git(&["clone", "--quiet", "one", "two"]);
    let log = sandbox.agent("me").args(["log"]).cwd(sandbox.path().join("two")).ok();
    assert!(log.stdout.ends_with(": committed\n"), "{log}");
    sandbox.agent("me").args(["send", "task", "more"]).cwd(sandbox.path().join("two")).ok();
}

#[test]
fn read_commands_never_create_a_project() {
    let sandbox = Sandbox::new();
    let before = sandbox.tree();
    for args in [
        &["log"][..],
        &["log", "task", "--json"],
        &["watch", "--timeout", "10ms"],
        &["who"],
        &["topics", "--json"],
        &["topic"],
        &["status"],
        &["whoami"],
        &["config", "show"],
        &["config", "path"],
        &["gc"],
        &["gc", "--dry-run"],
        &["quarantine", "list"],
        &["completions", "bash"],
        &["help"],
        &["--version"],
        &["--robot-help"],
    ] {
        sandbox.agent("me").args(args).ok();
        sandbox.assert_unchanged(&before);
    }
}

#[test]
fn config_show_tells_values_and_origins() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "x");
    sandbox.write(".fmail/config.toml", "# ours\n[mail.gc]\ndays = 3\n");
    let user = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&user).expect("own directory");
    fs::write(user.join("config.yaml"), "mail:\n  durability: os\n  gc:\n    days: 5\n").expect("own file");
    let show = |args: &[&str]| {
        let command = sandbox.agent("me").env("FMAIL_WATCH__POLL_INTERVAL", "50ms");
        command.args(["--set", "mail.lock_timeout=3s", "config", "show"]).args(args).ok()
    };
    let plain = show(&[]).stdout;
    for line in ["mail.gc.days = 3", "mail.durability = os", "mail.watch.poll_interval = 50ms", "mail.store = files"] {
        assert!(plain.lines().any(|shown| shown == line), "{line}\n{plain}");
    }
    let origins = show(&["--origin", "--json"]).json();
    let origin = |key: &str| origins[key]["origin"].as_str().expect("an origin").to_string();
    assert!(origin("mail.gc.days").ends_with("project/.fmail/config.toml:3"), "{origins}");
    assert!(origin("mail.durability").ends_with("home/.config/fmail/config.yaml:2"), "{origins}");
    assert_eq!(origin("mail.watch.poll_interval"), "FMAIL_WATCH__POLL_INTERVAL");
    assert_eq!(origin("mail.lock_timeout"), "flag");
    assert_eq!(origin("mail.store"), "default");
    assert!(show(&["--origin"]).stdout.contains("mail.store = files  # default\n"));
    assert_eq!(show(&["--json"]).json()["mail.gc.days"], "3");
    let paths = sandbox.agent("me").args(["config", "path"]).ok().stdout;
    assert!(paths.contains(".fmail/config.toml\n") && paths.contains("config.yaml (not there)"), "{paths}");
}

#[test]
fn the_specification_s_relay_example_loads_as_it_stands() {
    let sandbox = Sandbox::new();
    let user = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&user).expect("own directory");
    let example = "mail:\n  relay:\n    enabled: true\n    peers:\n      - \"host-a:7463\"\n      - \"host-b:7463\"\n    \
                   dial_timeout: 2s\n    reconnect_interval: 2s\n";
    fs::write(user.join("config.yaml"), example).expect("own file");
    let shown = sandbox.agent("me").args(["config", "show"]).ok().stdout;
    assert!(shown.contains("mail.relay.enabled = true"), "{shown}");
    assert!(shown.contains("host-a:7463") && shown.contains("host-b:7463"), "{shown}");
}

#[test]
fn the_variable_that_the_help_names_is_understood() {
    let sandbox = Sandbox::new();
    let robot = sandbox.fmail().arg("--robot-help").ok().json();
    let text = robot["env"]["FMAIL_<SECTION>__<KEY>"].as_str().expect("described");
    let words = text.split(|c: char| c.is_whitespace() || c == ';' || c == ',');
    let (name, value) = words.filter_map(|word| word.split_once('=')).next().expect("an example");
    sandbox.fmail().env(name, value).args(["config", "show"]).ok();
    let help = sandbox.fmail().args(["config", "--help"]).ok().stdout;
    assert!(!help.contains("FMAIL_MAIL__"), "{help}");
}

#[test]
fn completions_exist_for_each_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.fmail().args(["completions", shell]).ok().stdout;
        assert!(script.contains("fmail") && script.contains("quarantine"), "{shell}");
    }
    let script = sandbox.fmail().args(["completions", "bash"]).ok().stdout;
    sandbox.command("bash".as_ref()).args(["-n"]).stdin(script).ok();
    sandbox.fmail().args(["completions", "tcsh"]).fails(2);
}

#[test]
fn version_and_help_go_to_stdout_and_usage_errors_do_not() {
    let sandbox = Sandbox::new();
    for flag in ["--version", "-V"] {
        let version = sandbox.fmail().arg(flag).ok().stdout;
        assert!(version.starts_with("fmail ") && version.trim_end().contains('.'), "{version}");
    }
    for args in [&["help"][..], &["--help"], &["-h"], &["help", "send"], &["send", "--help"], &["watch", "-h"]] {
        let help = sandbox.fmail().args(args).ok();
        assert!(help.stdout.contains("Usage:") && help.stderr.is_empty(), "{args:?}");
    }
    sandbox.fmail().fails(2).says(&["Usage:"]);
    sandbox.fmail().arg("sned").fails(2).says(&["sned", "send"]);
    sandbox.fmail().args(["send"]).fails(2).says(&["TOPIC|@AGENT"]);
    sandbox.fmail().args(["log", "--nonsense"]).fails(2).says(&["--nonsense"]);
}
