//! A project that this user may not write: reading works, writing is refused and says why.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fmail_e2e::Sandbox;

/// A project with a topic and a direct message, which the user of [`fmail_e2e::Fmail::unprivileged`] may read as far as
/// others may, and not write.
///
/// As root that user is another one and the permissions are the real ones. Without root it is the same user, and the
/// permissions that others would meet are taken from the owner too.
fn foreign() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.send("owner", "task", "for all");
    sandbox.send("owner", "@owner", "secret");
    if !rustix::process::geteuid().is_root() {
        withdraw(&sandbox.path());
    }
    sandbox
}

fn withdraw(path: &Path) {
    let metadata = path.symlink_metadata().expect("own file");
    if metadata.is_dir() {
        fs::read_dir(path).expect("own directory").flatten().for_each(|entry| withdraw(&entry.path()));
    }
    let others = metadata.permissions().mode() & 0o005;
    fs::set_permissions(path, fs::Permissions::from_mode(others << 6 | others)).expect("own file");
}

/// Gives the owner the rights back, so that the directory can be removed.
fn give_back(path: &Path) {
    let metadata = path.symlink_metadata().expect("own file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("own file");
    if metadata.is_dir() {
        fs::read_dir(path).expect("own directory").flatten().for_each(|entry| give_back(&entry.path()));
    }
}

#[test]
fn topics_can_be_read_without_a_trace() {
    let sandbox = foreign();
    let before = sandbox.tree();
    let run = |args: &[&str]| sandbox.agent("guest").unprivileged().args(args);
    let log = run(&["log", "task"]).ok();
    assert!(log.stdout.ends_with(" owner -> task: for all\n"), "{log}");
    assert!(run(&["log"]).ok().stdout.ends_with(" owner -> task: for all\n"));
    assert_eq!(run(&["topics", "--json"]).ok().json()[0]["messages"], 1);
    assert_eq!(run(&["who", "--json"]).ok().json()[0]["name"], "owner");
    let watch = run(&["watch", "task", "--since", "1h", "-c", "1"]).ok();
    assert!(watch.stdout.ends_with(": for all\n"), "{watch}");
    run(&["watch", "--timeout", "100ms"]).ok();
    run(&["status"]).ok();
    run(&["whoami"]).ok();
    sandbox.assert_unchanged(&before);
    give_back(&sandbox.path());
}

#[test]
fn direct_messages_are_a_clear_error_and_never_an_empty_list() {
    let sandbox = foreign();
    for args in [&["log", "@owner"][..], &["watch", "@owner", "--since", "1h", "--timeout", "200ms"]] {
        let output = sandbox.agent("owner").unprivileged().args(args).fails(9);
        output.says(&["dm"]);
        assert!(!output.stderr.contains("secret"));
    }
    give_back(&sandbox.path());
}

#[test]
fn writing_is_refused() {
    let sandbox = foreign();
    let before = sandbox.tree();
    for args in [
        &["send", "task", "x"][..],
        &["send", "@owner", "x"],
        &["send", "new-topic", "x"],
        &["register"],
        &["register", "bob"],
        &["status", "busy"],
        &["gc", "--days", "1"],
        &["init", "--project", "mine"],
    ] {
        let output = sandbox.agent("guest").unprivileged().args(args).fails(9);
        output.says(&["writ", "FMAIL_ROOT"]);
        sandbox.assert_unchanged(&before);
    }
    give_back(&sandbox.path());
}

#[test]
fn a_directory_in_which_no_project_can_be_created() {
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o555)).expect("own directory");
    let output = sandbox.agent("guest").unprivileged().args(["send", "task", "x"]).fails(9);
    output.says(&[".fmail", "cannot be created"]);
    sandbox.agent("guest").unprivileged().args(["log"]).ok();
    assert!(!sandbox.store().exists());
    give_back(&sandbox.path());
}

#[test]
fn a_live_watch_sees_what_the_owner_sends() {
    if !rustix::process::geteuid().is_root() {
        // The owner of a project that nobody may write cannot send either: this needs two users.
        return;
    }
    let sandbox = foreign();
    let mut watch = sandbox.agent("guest").unprivileged().args(["watch", "--json"]).spawn();
    watch.await_watching();
    sandbox.send("owner", "task", "live");
    sandbox.send("owner", "fresh", "in a new topic");
    // Without access to the index the order is that of discovery.
    let mut bodies = [watch.json()["body"].take(), watch.json()["body"].take()];
    bodies.sort_by_key(ToString::to_string);
    assert_eq!(bodies, ["in a new topic", "live"]);
}

#[test]
fn a_dry_run_that_would_see_only_half_is_refused() {
    // Without root the guest is the owner, who sees everything.
    if rustix::process::geteuid().is_root() {
        let sandbox = foreign();
        let refused = sandbox.agent("guest").unprivileged().args(["gc", "--days", "0", "--dry-run"]).fails(9);
        refused.says(&["belongs to user", "who alone may read all of it", "FMAIL_ROOT"]);
    }
}

#[test]
fn a_backup_that_would_lack_the_direct_messages_is_refused() {
    let sandbox = foreign();
    let into = sandbox.outside().join("backup");
    fs::create_dir(&into).expect("own directory");
    fs::set_permissions(&into, fs::Permissions::from_mode(0o777)).expect("own directory");
    let file = into.join("all.jsonl");
    for to in [file.to_str().expect("a name"), "-"] {
        let refused = sandbox.agent("owner").unprivileged().args(["store", "export", to]).fails(9);
        refused.says(&[".fmail/dm", "help: run fmail as that user"]);
    }
    assert_eq!(fs::read_dir(&into).expect("own directory").count(), 0);
    give_back(&sandbox.path());
}

#[test]
fn a_search_and_a_thread_show_what_may_be_read_and_say_that_there_may_be_more() {
    let sandbox = Sandbox::new();
    for target in ["task", "@owner"] {
        sandbox.agent("owner").args(["send", target, "--thread", "th", "words"]).ok();
    }
    // Now the owner has states, which nobody else may read.
    sandbox.agent("owner").args(["mark-read", "--all"]).ok();
    if !rustix::process::geteuid().is_root() {
        withdraw(&sandbox.path());
    }
    let run = |args: &[&str]| sandbox.agent("owner").unprivileged().args(args).ok();
    for args in [&["search", "words", "--json"][..], &["thread", "th", "--json"]] {
        let output = run(args);
        assert_eq!(output.json_lines().len(), 1, "{output}");
        assert_eq!(output.json_lines()[0]["to"], "task");
        assert!(output.json_lines()[0]["mail"]["standing"].is_null(), "{output}");
        output.says(&["direct messages are not shown"]);
    }
    for args in [&["search", "nothing"][..], &["thread", "nothing"], &["log"]] {
        let output = run(args);
        assert_eq!(output.stderr.matches("direct messages are not shown").count(), 1, "{output}");
    }
    give_back(&sandbox.path());
}

#[test]
fn reservations_that_may_not_be_read_say_who_may_and_what_to_do() {
    let sandbox = Sandbox::new();
    sandbox.agent("owner").args(["reserve", "src/a.rs"]).ok();
    if !rustix::process::geteuid().is_root() {
        withdraw(&sandbox.path());
    }
    let refused = sandbox.agent("guest").unprivileged().args(["reservations"]).fails(9);
    refused.says(&["leases.json", "only the user who owns the project", "FMAIL_ROOT"]);
    give_back(&sandbox.path());
}
