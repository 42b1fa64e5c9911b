//! Which project a directory belongs to, and which id it has.

use std::fs;

use fmail_e2e::Sandbox;
use serde_json::Value;

fn whoami(sandbox: &Sandbox, directory: &str) -> Value {
    sandbox.agent("me").args(["whoami", "--json"]).cwd(sandbox.path().join(directory)).ok().json()
}

fn root(sandbox: &Sandbox, directory: &str) -> (String, String) {
    let told = whoami(sandbox, directory);
    let root = told["root"].as_str().expect("a path").to_string();
    let below = root.strip_prefix(sandbox.path().to_str().expect("UTF-8")).expect("below the project");
    (below.trim_start_matches('/').to_string(), told["root_from"].as_str().expect("a reason").to_string())
}

#[test]
fn the_fmail_directory_above_wins_over_a_nearer_repository() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "at the top");
    fs::create_dir_all(sandbox.path().join("repo/src/deep")).expect("own directory");
    sandbox.git(&["init", "--quiet", "repo"]);
    assert_eq!(root(&sandbox, "repo/src/deep"), (String::new(), ".fmail found".into()));
    sandbox.agent("me").args(["send", "task", "from below"]).cwd(sandbox.path().join("repo/src/deep")).ok();
    assert_eq!(sandbox.bodies("me", &[]), ["at the top", "from below"]);
}

#[test]
fn without_one_the_repository_s_root_is_the_project() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path().join("src/deep")).expect("own directory");
    sandbox.git(&["init", "--quiet"]);
    assert_eq!(root(&sandbox, "src/deep"), (String::new(), "git root".into()));
    sandbox.agent("me").args(["send", "task", "x"]).cwd(sandbox.path().join("src/deep")).ok();
    assert!(sandbox.store().is_dir() && !sandbox.path().join("src/deep/.fmail").exists());
}

#[test]
fn a_linked_worktree_shares_the_project_of_the_main_one() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "--quiet", "main"]);
    sandbox.git(&["-C", "main", "commit", "--quiet", "--allow-empty", "-m", "x"]);
    sandbox.git(&["-C", "main", "worktree", "add", "--quiet", "../linked"]);
    let (linked, reason) = root(&sandbox, "linked");
    assert_eq!((linked.as_str(), reason.contains("worktree")), ("main", true), "{reason}");
    sandbox.agent("me").args(["send", "task", "x"]).cwd(sandbox.path().join("linked")).ok();
    assert!(sandbox.path().join("main/.fmail").is_dir());
}

#[test]
fn fmail_root_decides_alone() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "not here");
    fs::create_dir(sandbox.path().join("elsewhere")).expect("own directory");
    let elsewhere = sandbox.path().join("elsewhere");
    sandbox.agent("me").env("FMAIL_ROOT", &elsewhere).args(["send", "task", "there"]).ok();
    let log = sandbox.agent("me").env("FMAIL_ROOT", &elsewhere).args(["log"]).ok();
    assert!(log.stdout.ends_with(": there\n") && log.stdout.lines().count() == 1);
    assert!(elsewhere.join(".fmail").is_dir());
    assert_eq!(sandbox.bodies("me", &[]), ["not here"]);
    sandbox.agent("me").env("FMAIL_ROOT", "/nonexistent/project").args(["log"]).fails(5).says(&["FMAIL_ROOT"]);
}

#[test]
fn the_id_follows_its_rules() {
    let sandbox = Sandbox::new();
    let id = |directory: &str| {
        let told = whoami(&sandbox, directory);
        (told["project"].clone(), told["project_from"].as_str().expect("a rule").to_string())
    };
    assert_eq!(id("").1, "directory name");
    sandbox.git(&["init", "--quiet"]);
    assert_eq!(id("").1, "directory name");
    sandbox.git(&["remote", "add", "origin", "git@example.org:team/app.git"]);
    let (by_ssh, rule) = id("");
    assert_eq!(rule, "git remote origin");
    sandbox.git(&["remote", "set-url", "origin", "https://example.org/team/app"]);
    assert_eq!(id("").0, by_ssh, "ssh and https clones agree");

    let set = sandbox.agent("me").env("FMAIL_PROJECT", "forge-abc123").args(["whoami", "--json"]).ok().json();
    assert_eq!((&set["project"], &set["project_from"]), (&"forge-abc123".into(), &"FMAIL_PROJECT".into()));

    sandbox.agent("me").args(["init", "--project", "myproj"]).ok();
    assert_eq!(id(""), ("myproj".into(), "fmail init --project".into()));
    sandbox.agent("me").env("FMAIL_PROJECT", " ").args(["whoami"]).fails(5).says(&["FMAIL_PROJECT"]);
}

#[test]
fn an_id_that_stands_in_project_json_without_a_rule_comes_from_there() {
    let sandbox = Sandbox::new();
    for rule in ["", r#","id_from":"a later rule""#] {
        let record = format!(r#"{{"id":"by-hand","created":"2026-01-10T15:30:00Z"{rule}}}"#);
        sandbox.write(".fmail/project.json", record);
        let told = whoami(&sandbox, "");
        assert_eq!((&told["project"], &told["project_from"]), (&"by-hand".into(), &"project.json".into()));
    }
}
