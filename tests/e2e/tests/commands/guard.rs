//! `fmail guard`, with real repositories and real commits.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fmail_e2e::{Fmail, Output, Sandbox};

/// A repository with one commit of a few files, a project in its root, and the guard.
fn guarded() -> Sandbox {
    let sandbox = repository();
    sandbox.fmail().args(["guard", "install"]).ok();
    sandbox
}

fn repository() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet"]);
    sandbox.write(".gitignore", ".fmail/\n");
    for name in ["src/a.rs", "src/b.rs", "docs/guide.md"] {
        sandbox.write(name, format!("{name}\n"));
    }
    sandbox.git(&["add", "--all"]);
    sandbox.git(&["commit", "--quiet", "--message", "first"]);
    sandbox.agent("alice").args(["send", "task", "the project is here"]).ok();
    sandbox
}

fn git(sandbox: &Sandbox, agent: Option<&str>, directory: &Path, args: &[&str]) -> Fmail {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    let git = sandbox.command(Path::new("git")).cwd(directory).args(identity).args(args);
    match agent {
        Some(agent) => git.agent(agent),
        None => git,
    }
}

/// Stages everything and commits it as this agent.
fn commit_in(sandbox: &Sandbox, agent: Option<&str>, directory: &Path) -> Output {
    git(sandbox, None, directory, &["add", "--all"]).ok();
    git(sandbox, agent, directory, &["commit", "--quiet", "--message", "change"]).run()
}

fn commit(sandbox: &Sandbox, agent: &str) -> Output {
    commit_in(sandbox, Some(agent), &sandbox.path())
}

#[track_caller]
fn refused(output: &Output, says: &[&str]) {
    assert_eq!(output.code, 1, "{output}");
    output.says(says);
}

#[track_caller]
fn went_through(output: &Output) {
    assert_eq!(output.code, 0, "{output}");
}

fn reserve(sandbox: &Sandbox, agent: &str, args: &[&str]) {
    sandbox.agent(agent).args(["reserve", "--exclusive"]).args(args).ok();
}

fn hook(sandbox: &Sandbox) -> PathBuf {
    sandbox.path().join(".git/hooks/pre-commit")
}

fn write_hook(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("own directory");
    fs::write(path, text).expect("own file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
}

#[test]
fn a_commit_on_anothers_exclusive_path_is_refused_until_it_is_given_back() {
    let sandbox = guarded();
    reserve(&sandbox, "alice", &["src/**", "--reason", "refactoring"]);
    sandbox.write("src/a.rs", "changed\n");
    sandbox.write("docs/guide.md", "changed\n");
    let says = ["src/a.rs is held by @alice (src/**, exclusive, until 20", "left): refactoring", "1 of 2 staged paths"];
    refused(&commit(&sandbox, "bob"), &says);
    refused(&commit(&sandbox, "bob"), &["git commit --no-verify", "fmail send @alice"]);
    went_through(&commit(&sandbox, "alice"));

    sandbox.write("src/a.rs", "changed again\n");
    refused(&commit(&sandbox, "bob"), &["src/a.rs"]);
    refused(&commit_in(&sandbox, None, &sandbox.path()), &["src/a.rs", "FMAIL_AGENT is not set"]);
    sandbox.agent("alice").args(["release", "--all"]).ok();
    went_through(&commit(&sandbox, "bob"));
}

#[test]
fn shared_reservations_and_other_paths_stop_nobody() {
    let sandbox = guarded();
    sandbox.agent("alice").args(["reserve", "src/a.rs"]).ok();
    reserve(&sandbox, "alice", &["src/b.rs"]);
    sandbox.write("src/a.rs", "changed\n");
    went_through(&commit(&sandbox, "bob"));
    went_through(&git(&sandbox, Some("bob"), &sandbox.path(), &["commit", "-q", "--allow-empty", "-m", "x"]).run());
    sandbox.write("src/b.rs", "changed\n");
    git(&sandbox, None, &sandbox.path(), &["add", "--all"]).ok();
    went_through(&git(&sandbox, Some("bob"), &sandbox.path(), &["commit", "-q", "--no-verify", "-m", "x"]).run());
}

#[test]
fn deleting_and_renaming_a_reserved_file_is_refused() {
    let sandbox = guarded();
    reserve(&sandbox, "alice", &["src/a.rs"]);
    sandbox.git(&["rm", "--quiet", "src/a.rs"]);
    refused(&commit(&sandbox, "bob"), &["src/a.rs is held by @alice"]);
    sandbox.git(&["reset", "--quiet", "--hard"]);
    sandbox.git(&["mv", "src/a.rs", "src/moved.rs"]);
    refused(&commit(&sandbox, "bob"), &["src/a.rs is held by @alice"]);
    sandbox.git(&["reset", "--quiet", "--hard"]);
    // The other way round: what is free becomes what is reserved.
    reserve(&sandbox, "alice", &["src/new.rs"]);
    sandbox.git(&["mv", "src/b.rs", "src/new.rs"]);
    refused(&commit(&sandbox, "bob"), &["src/new.rs is held by @alice"]);
}

#[test]
fn what_is_committed_counts_and_not_what_is_staged_besides() {
    let sandbox = guarded();
    reserve(&sandbox, "alice", &["src/a.rs"]);
    sandbox.write("src/a.rs", "changed\n");
    sandbox.write("src/b.rs", "changed\n");
    let commit =
        |args: &[&str]| git(&sandbox, Some("bob"), &sandbox.path(), &[&["commit", "-q", "-m", "x"], args].concat());
    refused(&commit(&["--all"]).run(), &["src/a.rs"]);
    sandbox.git(&["add", "--all"]);
    went_through(&commit(&["src/b.rs"]).run());
    refused(&commit(&["src/a.rs"]).run(), &["src/a.rs"]);
    // A setting that shortens paths to the current directory must not hide any.
    sandbox.git(&["config", "diff.relative", "true"]);
    let here = sandbox.agent("bob").args(["guard", "check"]).cwd(sandbox.path().join("docs")).fails(8);
    here.says(&["src/a.rs"]);
}

#[test]
fn odd_names_are_compared_as_they_are() {
    let sandbox = guarded();
    reserve(&sandbox, "alice", &["odd"]);
    for name in ["odd/with space", "odd/ümlaut", "odd/\"quote\"", "odd/new\nline"] {
        sandbox.write(name, "x");
        refused(&commit(&sandbox, "bob"), &["odd/"]);
        fs::remove_file(sandbox.path().join(name)).expect("own file");
    }
    sandbox.write(OsStr::from_bytes(b"odd/caf\xe9"), "x");
    refused(&commit(&sandbox, "bob"), &["odd/caf"]);
}

#[test]
fn installing_twice_changes_nothing_and_uninstalling_leaves_no_trace() {
    let sandbox = repository();
    let hooks = sandbox.path().join(".git/hooks");
    let before = fmail_e2e::tree(&hooks);
    let status = sandbox.fmail().args(["guard", "status"]).run();
    assert_eq!(status.code, 1, "{status}");
    assert!(status.stdout.starts_with("not installed"), "{status}");
    sandbox.fmail().args(["guard", "install"]).ok();
    let installed = fmail_e2e::tree(&hooks);
    let inode = hook(&sandbox).metadata().expect("there").ino();
    sandbox.fmail().args(["guard", "install"]).ok().says(&["already"]);
    fmail_e2e::assert_same(&installed, &fmail_e2e::tree(&hooks));
    assert_eq!(hook(&sandbox).metadata().expect("there").ino(), inode);
    assert!(sandbox.fmail().args(["guard", "status"]).ok().stdout.starts_with("installed in "));
    assert_eq!(sandbox.fmail().args(["guard", "status", "--json"]).ok().json()["state"], "installed");
    sandbox.fmail().args(["guard", "uninstall"]).ok();
    sandbox.fmail().args(["guard", "uninstall"]).ok().says(&["was not in"]);
    fmail_e2e::assert_same(&before, &fmail_e2e::tree(&hooks));
}

#[test]
fn an_existing_hook_still_runs_decides_first_and_comes_back_byte_for_byte() {
    let python =
        "#!/usr/bin/env python3\nimport os\nopen('ran', 'a').write('x')\nraise SystemExit(os.path.exists('no'))\n";
    // Finds its part by its own name, as some tools' hooks do.
    let named = "#!/bin/sh -e\n[ \"${0##*/}\" = pre-commit ]\n. \"${0%/*}/part\"\n[ ! -e no ]\n";
    let bare = "printf x >>ran\n[ ! -e no ]\n";
    for text in [named, python, bare, "#!/usr/bin/env bash\nprintf x >>ran\nif [[ -e no ]]; then exit 3; fi\n"] {
        let sandbox = repository();
        sandbox.write(".gitignore", ".fmail/\nran\nno\n");
        sandbox.write(".git/hooks/part", "printf x >>ran\n");
        write_hook(&hook(&sandbox), text);
        fs::set_permissions(hook(&sandbox), fs::Permissions::from_mode(0o711)).expect("own file");
        let before = (fs::metadata(hook(&sandbox)).expect("there").ino(), fs::read(hook(&sandbox)).expect("there"));
        sandbox.fmail().args(["guard", "install"]).ok().says(&["runs first"]);
        sandbox.fmail().args(["guard", "install"]).ok().says(&["already"]);
        let ran = || fs::read_to_string(sandbox.path().join("ran")).unwrap_or_default().len();

        reserve(&sandbox, "alice", &["src/a.rs"]);
        sandbox.write("src/a.rs", "changed\n");
        refused(&commit(&sandbox, "bob"), &["@alice"]);
        assert_eq!(ran(), 1, "{text}");
        sandbox.write("no", "");
        let stopped = commit(&sandbox, "alice");
        assert_eq!((stopped.code, ran()), (1, 2), "{text}\n{stopped}");
        fs::remove_file(sandbox.path().join("no")).expect("own file");
        went_through(&commit(&sandbox, "alice"));
        assert_eq!(ran(), 3, "{text}");

        assert!(sandbox.fmail().args(["guard", "status"]).ok().stdout.contains("before-fmail"));
        sandbox.fmail().args(["guard", "uninstall"]).ok().says(&["is back"]);
        let after = (fs::metadata(hook(&sandbox)).expect("there").ino(), fs::read(hook(&sandbox)).expect("there"));
        assert_eq!(after, before);
        assert_eq!(sandbox.mode(".git/hooks/pre-commit"), 0o711);
        assert!(!sandbox.path().join(".git/hooks/pre-commit.before-fmail").exists());
    }
}

#[test]
fn a_hook_that_is_a_link_is_kept_as_a_link_and_one_that_git_ignores_stays_ignored() {
    let sandbox = repository();
    write_hook(&sandbox.path().join("scripts/hook"), "#!/bin/sh\nexit 1\n");
    symlink("../../scripts/hook", hook(&sandbox)).expect("own directory");
    sandbox.fmail().args(["guard", "install"]).ok();
    assert_eq!(fs::read_to_string(sandbox.path().join("scripts/hook")).expect("there"), "#!/bin/sh\nexit 1\n");
    refused(&commit(&sandbox, "bob"), &[]);
    sandbox.fmail().args(["guard", "uninstall"]).ok();
    assert_eq!(fs::read_link(hook(&sandbox)).expect("a link"), Path::new("../../scripts/hook"));

    fs::remove_file(hook(&sandbox)).expect("own file");
    fs::write(hook(&sandbox), "#!/bin/sh\nexit 1\n").expect("own file");
    sandbox.fmail().args(["guard", "install"]).ok();
    went_through(&commit(&sandbox, "bob"));
    sandbox.fmail().args(["guard", "uninstall"]).ok();
    assert_eq!(sandbox.mode(".git/hooks/pre-commit") & 0o111, 0);
}

#[test]
fn a_changed_guard_and_a_hook_that_was_left_over_are_not_overwritten() {
    let sandbox = guarded();
    let changed = format!("{}echo mine\n", fs::read_to_string(hook(&sandbox)).expect("there"));
    write_hook(&hook(&sandbox), &changed);
    for action in ["install", "uninstall"] {
        sandbox.fmail().args(["guard", action]).fails(8).says(&["changed it", "delete it"]);
    }
    assert_eq!(fs::read_to_string(hook(&sandbox)).expect("there"), changed);
    assert_eq!(sandbox.fmail().args(["guard", "status"]).run().code, 1);

    fs::remove_file(hook(&sandbox)).expect("own file");
    let before = sandbox.path().join(".git/hooks/pre-commit.before-fmail");
    write_hook(&before, "#!/bin/sh\n");
    sandbox.fmail().args(["guard", "install"]).fails(8).says(&["before-fmail", "delete"]);
    write_hook(&hook(&sandbox), "#!/bin/sh\n# another\n");
    sandbox.fmail().args(["guard", "install"]).fails(8).says(&["before-fmail"]);
    // An installation that was interrupted has only given the hook its second name.
    fs::remove_file(&before).expect("own file");
    fs::hard_link(hook(&sandbox), &before).expect("own file");
    sandbox.fmail().args(["guard", "install"]).ok().says(&["runs first"]);
}

#[test]
fn worktrees_share_the_guard_and_the_reservations() {
    let sandbox = guarded();
    let linked = sandbox.outside().join("linked");
    sandbox.git(&["worktree", "add", "--quiet", linked.to_str().expect("UTF-8")]);
    let granted = sandbox.agent("alice").args(["reserve", "--exclusive", "--json", "src/a.rs"]).cwd(&linked).ok();
    assert_eq!(granted.json()["granted"][0]["pattern"], "src/a.rs");
    sandbox.write("src/a.rs", "in the main worktree\n");
    refused(&commit(&sandbox, "bob"), &["src/a.rs is held by @alice"]);
    fs::write(linked.join("src/a.rs"), "in the linked worktree\n").expect("own file");
    refused(&commit_in(&sandbox, Some("bob"), &linked), &["src/a.rs is held by @alice"]);
    went_through(&commit_in(&sandbox, Some("alice"), &linked));

    let inner = sandbox.path().join(".worktrees/inner");
    sandbox.git(&["worktree", "add", "--quiet", "-b", "inner", inner.to_str().expect("UTF-8")]);
    fs::write(inner.join("src/a.rs"), "in a worktree inside\n").expect("own file");
    refused(&commit_in(&sandbox, Some("bob"), &inner), &["src/a.rs is held by @alice"]);
    assert!(sandbox.fmail().args(["guard", "status"]).cwd(&inner).ok().stdout.starts_with("installed"));
}

#[test]
fn core_hooks_path_is_followed() {
    let sandbox = repository();
    sandbox.git(&["config", "core.hooksPath", ".githooks"]);
    sandbox.fmail().args(["guard", "install"]).cwd(sandbox.path().join("src")).ok();
    assert!(sandbox.path().join(".githooks/pre-commit").exists() && !hook(&sandbox).exists());
    reserve(&sandbox, "alice", &["src/a.rs"]);
    sandbox.write("src/a.rs", "changed\n");
    refused(&commit(&sandbox, "bob"), &["@alice"]);
    sandbox.fmail().args(["guard", "uninstall"]).ok();
    went_through(&commit(&sandbox, "bob"));

    let shared = sandbox.outside().join("shared-hooks");
    sandbox.git(&["config", "core.hooksPath", shared.to_str().expect("UTF-8")]);
    sandbox.fmail().args(["guard", "install"]).ok().says(&["every repository"]);
    assert!(shared.join("pre-commit").exists());
}

#[test]
fn the_project_may_be_above_or_below_the_root_of_the_repository() {
    let sandbox = Sandbox::new();
    sandbox.agent("alice").args(["reserve", "--exclusive", "repo/src"]).ok();
    let repo = sandbox.path().join("repo");
    sandbox.git(&["init", "--quiet", "repo"]);
    sandbox.write("repo/src/a.rs", "x\n");
    sandbox.fmail().args(["guard", "install"]).cwd(&repo).ok();
    refused(&commit_in(&sandbox, Some("bob"), &repo), &["src/a.rs is held by @alice (repo/src, "]);
    sandbox.agent("alice").args(["release", "--all"]).ok();
    went_through(&commit_in(&sandbox, Some("bob"), &repo));

    sandbox.write("repo/part/.gitignore", ".fmail/\n");
    sandbox.agent("alice").args(["init"]).cwd(repo.join("part")).ok();
    sandbox.agent("alice").args(["reserve", "--exclusive", "x.rs"]).cwd(repo.join("part")).ok();
    sandbox.write("repo/part/x.rs", "x\n");
    refused(&commit_in(&sandbox, Some("bob"), &repo), &["part/x.rs is held by @alice (x.rs, "]);

    // Both projects count, unless one is named.
    sandbox.agent("carol").args(["reserve", "--exclusive", "repo/part"]).ok();
    refused(&commit_in(&sandbox, Some("bob"), &repo), &["@alice (x.rs, ", "@carol (repo/part, ", "2 of 2 staged"]);
    let named = || git(&sandbox, Some("bob"), &repo, &["commit", "-q", "-m", "x"]).env("FMAIL_ROOT", "..").run();
    let output = named();
    refused(&output, &["@carol"]);
    assert!(!output.stderr.contains("@alice"), "{output}");
    sandbox.agent("carol").args(["release", "--all"]).ok();
    went_through(&named());
}

#[test]
fn without_a_project_or_without_fmail_a_commit_goes_through() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet"]);
    sandbox.fmail().args(["guard", "install"]).ok();
    assert!(!sandbox.store().exists(), "the guard creates no project");
    sandbox.write("a", "x\n");
    went_through(&commit(&sandbox, "bob"));
    assert!(!sandbox.store().exists());

    reserve(&sandbox, "alice", &["a"]);
    sandbox.write("a", "changed\n");
    fs::remove_file(sandbox.outside().join("bin/fmail")).expect("own file");
    sandbox.git(&["add", "a"]);
    let path = std::env::var("PATH").expect("set");
    let without = path.split(':').filter(|directory| !Path::new(directory).join("fmail").exists());
    let git = git(&sandbox, Some("bob"), &sandbox.path(), &["commit", "-q", "-m", "x"]);
    let output = git.env("PATH", without.collect::<Vec<_>>().join(":")).run();
    went_through(&output);
    output.says(&["not on the PATH"]);
}

#[test]
fn a_guard_that_cannot_tell_refuses_and_names_the_way_past() {
    let sandbox = guarded();
    reserve(&sandbox, "alice", &["src/a.rs"]);
    sandbox.write("src/b.rs", "changed\n");
    let record = sandbox.path().join(".fmail/records/leases.json");
    let sound = fs::read_to_string(&record).expect("there");
    for broken in ["not JSON".to_string(), sound.replace("src/a.rs", "src/[")] {
        fs::write(&record, broken).expect("own file");
        refused(&commit(&sandbox, "bob"), &["not known (exit code 13)", "--no-verify"]);
        assert_eq!(sandbox.agent("bob").args(["guard", "check"]).run().code, 13);
    }
    fs::write(&record, sound).expect("own file");
    refused(&commit(&sandbox, "not a name"), &["FMAIL_AGENT", "--no-verify"]);
    went_through(&commit(&sandbox, "bob"));
}

#[test]
fn check_answers_with_its_exit_code_and_json() {
    let sandbox = guarded();
    reserve(&sandbox, "alice", &["**"]);
    let check = || sandbox.agent("bob").args(["guard", "check", "--json"]);
    assert_eq!(check().ok().stdout, "[]\n");
    for number in 0..25 {
        sandbox.write(format!("many/{number}"), "x");
    }
    sandbox.git(&["add", "--all"]);
    let output = check().run();
    assert_eq!(output.code, 8, "{output}");
    assert_eq!(output.json().as_array().map(Vec::len), Some(25));
    assert_eq!(
        (&output.json()[0]["path"], &output.json()[0]["reservation"]["agent"]),
        (&"many/0".into(), &"alice".into())
    );
    output.says(&["and 5 more", "25 of 25 staged paths"]);
}

#[test]
fn outside_a_repository_it_says_so() {
    let sandbox = Sandbox::new();
    for action in ["install", "uninstall", "status", "check"] {
        sandbox.agent("me").args(["guard", action]).fails(5).says(&["git", "repository"]);
    }
    sandbox.agent("me").args(["guard"]).fails(2);
}
