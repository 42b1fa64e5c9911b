//! `init`, `gc`, `quarantine` and the other things that are about the project.

use serde_json::json;

use super::cases;
use crate::stage::Stage;

cases![
    a_project_is_created_once_and_renamed,
    gc_removes_what_is_old,
    gc_keeps_what_is_new,
    a_quarantine_is_there_or_it_is_said,
    a_store_that_there_is_not_is_refused,
];

fn a_project_is_created_once_and_renamed(stage: &Stage) {
    let id = stage.ok("me", &["init"]);
    id.says(&["exists already"]);
    stage.send("me", "task", "before");
    let renamed = stage.ok("me", &["init", "--project", "proj-renamed"]);
    assert_eq!(renamed.stdout, "proj-renamed\n");
    renamed.says(&["was proj-", "and is now proj-renamed"]);
    stage.ok("me", &["init", "--project", "proj-renamed"]).says(&["exists already"]);
    let who = stage.command("me", &["whoami", "--json"]).ok().json();
    assert_eq!((&who["project"], &who["project_from"]), (&json!("proj-renamed"), &json!("fmail init --project")));
    stage.send("me", "task", "after");
    assert_eq!(stage.bodies("me", &["log"]), ["before", "after"]);
    stage.fails("me", &["init", "--project", ""], 2);
}

fn gc_removes_what_is_old(stage: &Stage) {
    for to in ["task", "task", "@bob"] {
        stage.send("alice", to, "x");
    }
    // Each store calls the places of its messages as it likes.
    let dry = stage.command("alice", &["gc", "--days", "0", "--dry-run"]).ok();
    assert_eq!(dry.stdout.lines().count(), 3, "{dry}");
    dry.says(&["would remove 3 messages"]);
    assert_eq!(stage.bodies("bob", &["log"]).len(), 3);
    stage.ok("alice", &["gc", "--days", "0"]).says(&["removed 3 messages"]);
    assert_eq!(stage.bodies("bob", &["log"]), [] as [&str; 0]);
    assert_eq!(stage.ok("bob", &["topics", "--json"]).json(), json!([]));
    stage.fails("bob", &["check"], 1);
    stage.send("alice", "task", "new");
    assert_eq!(stage.bodies("bob", &["log"]), ["new"]);
}

fn gc_keeps_what_is_new(stage: &Stage) {
    stage.send("alice", "task", "x");
    stage.ok("alice", &["gc"]).says(&["removed 0 messages", "(7 days)"]);
    stage.ok("alice", &["gc", "--days", "1"]).says(&["removed 0 messages"]);
    stage.fails("alice", &["gc", "--days", "-1"], 2);
    assert_eq!(stage.bodies("bob", &["log"]), ["x"]);
}

/// Only files can be broken from outside; a store without them says that it has no quarantine.
fn a_quarantine_is_there_or_it_is_said(stage: &Stage) {
    stage.send("alice", "task", "x");
    let listed = stage.command("alice", &["quarantine", "list", "--json"]).run();
    match listed.code {
        0 => assert_eq!(listed.json(), json!({"broken": [], "held": []})),
        10 => assert!(listed.stdout.is_empty() && listed.stderr.contains("has no quarantine"), "{listed}"),
        _ => panic!("{listed}"),
    }
}

fn a_store_that_there_is_not_is_refused(stage: &Stage) {
    for args in [&["send", "task", "x"][..], &["log"], &["watch", "--count", "1"], &["inbox"]] {
        let refused = stage.command("alice", args).env("FMAIL_STORE", "no-such-store").fails(14);
        refused.says(&["no-such-store", "FMAIL_STORE"]);
    }
    assert_eq!(stage.bodies("alice", &["log"]), [] as [&str; 0]);
}
