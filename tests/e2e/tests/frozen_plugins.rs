//! Plugins as they were written when the ABI was frozen pass the checks of today.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use fmail_e2e::{Sandbox, plugin_check_binary, plugin_library, workspace};
use serde_json::Value;
use tempfile::TempDir;

/// A store in Python passes in half a minute, and in several on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(900);

fn frozen() -> PathBuf {
    workspace().join("tests/plugins/frozen/v1")
}

/// A directory for what is built.
fn place() -> TempDir {
    tempfile::Builder::new().prefix("fmail-frozen-").tempdir().expect("a temporary directory")
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn cc(include: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(include);
    command
}

/// A source in C, built with the header that was frozen with it.
fn compiled(place: &TempDir, source: &str, name: &str) -> PathBuf {
    let library = place.path().join(format!("libfmail_{name}.so"));
    let mut command = cc(&frozen().join("include"));
    command.args(["-shared", "-fPIC", "-fvisibility=hidden", "-o"]).arg(&library).arg(frozen().join("c").join(source));
    run(command.arg("-pthread"));
    library
}

/// A file under another name, which nobody else can write.
fn installed(place: &TempDir, source: &Path, name: &str) -> PathBuf {
    let path = place.path().join(name);
    fs::copy(source, &path).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own file");
    path
}

/// Every case of today that applies passes, and there are about as many as there were.
#[track_caller]
fn passes(plugin: &Path, more: &[&str], at_least: u64) {
    let sandbox = Sandbox::new();
    let output = sandbox
        .fmail()
        .env("FMAIL_PLUGIN_CHECK", plugin_check_binary())
        .args(["plugin", "check", plugin.to_str().expect("UTF-8"), "--json"])
        .args(more)
        .spawn()
        .wait_within(LONG);
    let mut lines = output.json_lines();
    let all = lines.pop().unwrap_or_else(|| panic!("{output}"));
    let failed: Vec<&Value> = lines.iter().filter(|case| case["outcome"] == "failed").collect();
    assert!(output.code == 0 && failed.is_empty(), "{failed:#?} {all}");
    assert!(all["passed"].as_u64().is_some_and(|passed| passed >= at_least), "{all}");
}

#[test]
fn nothing_that_is_frozen_was_changed() {
    let output = run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(frozen()));
    assert!(String::from_utf8_lossy(&output.stdout).lines().count() >= 9);
}

#[test]
fn the_header_of_today_has_everything_where_it_was_and_has_only_grown() {
    let place = place();
    let layout = |include: PathBuf, name: &str| -> Vec<(String, i128)> {
        let program = place.path().join(name);
        run(cc(&include).arg("-o").arg(&program).arg(frozen().join("layout.c")));
        let text = String::from_utf8(run(&mut Command::new(&program)).stdout).expect("text");
        let read = |line: &str| line.rsplit_once(' ').map(|(what, number)| (what.to_string(), number.parse().unwrap()));
        text.lines().filter_map(read).collect()
    };
    let (then, now) =
        (layout(frozen().join("include"), "then"), layout(workspace().join("plugins/sdk/include"), "now"));
    assert!(then.len() > 40);
    for ((what, then), (also, now)) in then.iter().zip(&now) {
        assert_eq!(what, also);
        match what.starts_with("sizeof") && what != "sizeof fm_bytes" {
            true => assert!(now >= then, "{what} was {then} and is {now}"),
            false => assert_eq!(now, then, "{what}"),
        }
    }
}

#[test]
fn the_store_in_c() {
    let place = place();
    passes(&compiled(&place, "store.c", "example_c"), &[], 150);
}

#[test]
fn the_transport_in_c() {
    let place = place();
    passes(&compiled(&place, "transport.c", "example_transport"), &[], 11);
}

#[test]
fn the_relay_in_c() {
    let place = place();
    passes(&compiled(&place, "relay.c", "example_relay"), &["--pair"], 9);
}

#[test]
fn the_store_in_rust() {
    let place = place();
    let built = plugin_library("fmail-frozen-rust");
    passes(&installed(&place, &built, "libfmail_example_rust.so"), &[], 150);
}

fn program(place: &TempDir, source: &str, name: &str) -> PathBuf {
    installed(place, &frozen().join("python").join(source), &format!("fmail-plugin-{name}"))
}

#[test]
fn the_store_in_python() {
    let place = place();
    passes(&program(&place, "fmail-plugin-example-python", "example-python"), &[], 150);
}

#[test]
fn the_transport_and_the_relay_in_python() {
    let place = place();
    passes(&program(&place, "transport.py", "example-transport"), &[], 11);
    passes(&program(&place, "relay.py", "example-relay"), &["--pair"], 9);
}

#[test]
fn the_script_keeps_the_mail() {
    let sandbox = Sandbox::new();
    let python = run(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
    let python = String::from_utf8(python.stdout).expect("text").trim().to_string();
    let mail = format!("MAIL_FILE={}", sandbox.outside().join("mail.json").display());
    let script = frozen().join("exec/mail.py").display().to_string();
    let command = ["/usr/bin/env", &mail, &python, "-IS", &script];
    let config = format!("[mail.plugin.exec.config]\ncommand = {command:?}\npoll = \"200ms\"\ntimeout = \"25s\"\n");
    sandbox.configure("store = \"exec\"", &config);
    let id = sandbox.send("alice", "@bob", "through the script");
    let inbox = sandbox.agent("bob").args(["inbox", "--json"]).ok().json_lines();
    assert_eq!(inbox.iter().map(|mail| mail["body"].as_str().unwrap()).collect::<Vec<_>>(), ["through the script"]);
    sandbox.agent("bob").args(["archive", &id]).ok();
    sandbox.agent("bob").arg("check").fails(1);
}
