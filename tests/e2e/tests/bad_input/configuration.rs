//! Configuration that cannot be used: file, line, key, what was found and what is allowed.

use fmail_e2e::Sandbox;

const INVALID_CONFIG: i32 = 14;

/// A project with this file in `.fmail/`; every command refuses it and says these.
fn refused(name: &str, text: &str, says: &[&str]) {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "before");
    sandbox.write(format!(".fmail/{name}"), text);
    let before = sandbox.tree();
    for args in [&["send", "task", "x"][..], &["log"], &["who"], &["config", "show"]] {
        sandbox.agent("me").args(args).fails(INVALID_CONFIG).says(&[name]).says(says);
    }
    sandbox.assert_unchanged(&before);
}

#[test]
fn unknown_keys_have_a_line_and_a_near_match() {
    refused(
        "config.toml",
        "# x\n[mail]\ndurabilty = \"os\"\n",
        &["config.toml:3", "mail.durabilty", "mail.durability"],
    );
    refused("config.toml", "[mail.gc]\n\nday = 3\n", &["config.toml:3", "mail.gc.day", "mail.gc.days"]);
    refused("config.toml", "[post]\nx = 1\n", &["config.toml:1", "post"]);
    refused("config.yaml", "mail:\n  durabilty: os\n", &["config.yaml:2", "mail.durabilty", "mail.durability"]);
    refused(
        "config.yaml",
        "mail:\n  relay:\n    peer: []\n",
        &["config.yaml:3", "mail.relay.peer", "mail.relay.peers"],
    );
}

#[test]
fn wrong_values_name_what_is_allowed() {
    refused(
        "config.toml",
        "mail.durability = \"memory\"\n",
        &["config.toml:1", "mail.durability", "memory", "disk or os"],
    );
    refused("config.toml", "mail.gc.days = 0\n", &["config.toml:1", "mail.gc.days", "0", "1 to 36500"]);
    refused("config.toml", "mail.strict_recipients = \"yes\"\n", &["config.toml:1", "yes", "true or false"]);
    refused("config.toml", "mail.lock_timeout = 5\n", &["config.toml:1", "mail.lock_timeout", "\"5s\""]);
    refused("config.yaml", "mail:\n  watch:\n    poll_interval: fast\n", &["config.yaml:3", "fast"]);
    refused("config.toml", "mail.store = \"postgres\"\n", &["config.toml:1", "postgres", "files"]);
}

#[test]
fn what_is_no_configuration_at_all() {
    refused("config.toml", "[mail\n", &["config.toml:1", "TOML"]);
    refused("config.yaml", "mail: [\n", &["YAML"]);
    refused("config.toml", "mail = 3\n", &["config.toml:1", "section"]);
}

#[test]
fn both_files_at_once() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "x");
    sandbox.write(".fmail/config.toml", "");
    sandbox.write(".fmail/config.yaml", "");
    sandbox.agent("me").args(["log"]).fails(INVALID_CONFIG).says(&["config.toml", "config.yaml", "one"]);
}

#[test]
fn unknown_variables_and_flags() {
    let sandbox = Sandbox::new();
    let run = |name: &str, value: &str| sandbox.agent("me").env(name, value).args(["send", "task", "x"]);
    run("FMAIL_AGNET", "me").fails(INVALID_CONFIG).says(&["FMAIL_AGNET", "FMAIL_AGENT"]);
    run("FMAIL_GC__DAY", "3").fails(INVALID_CONFIG).says(&["FMAIL_GC__DAY", "FMAIL_GC__DAYS"]);
    run("FMAIL_GC__DAYS", "many").fails(INVALID_CONFIG).says(&["FMAIL_GC__DAYS", "many", "whole number"]);
    run("FMAIL_DURABILITY", "").fails(INVALID_CONFIG).says(&["FMAIL_DURABILITY", "disk or os"]);
    let set = |text: &str| sandbox.agent("me").args(["--set", text, "send", "task", "x"]);
    set("mail.gc.day=3").fails(INVALID_CONFIG).says(&["mail.gc.day", "mail.gc.days"]);
    set("mail.gc.days").fails(2).says(&["mail.gc.days", "KEY=VALUE"]);
    set("mail.gc.days=-1").fails(INVALID_CONFIG).says(&["-1"]);
    assert!(!sandbox.store().exists());
}

#[test]
fn a_store_that_would_lose_the_message_is_refused() {
    let sandbox = Sandbox::new();
    for args in [&["send", "task", "x"][..], &["log"], &["register"]] {
        let output = sandbox.agent("me").env("FMAIL_STORE", "memory").args(args).fails(INVALID_CONFIG);
        output.says(&["memory", "FMAIL_STORE", "lose"]);
    }
    assert!(!sandbox.store().exists());
}
