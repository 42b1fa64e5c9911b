//! `register`, `who`, `status`, `whoami`.

use serde_json::json;

use super::cases;
use crate::stage::Stage;

cases![
    a_name_is_taken_once,
    names_are_made_up_and_differ,
    who_lists_those_who_acted,
    a_status_is_set_shown_and_cleared,
    whoami_tells_who_and_where
];

fn a_name_is_taken_once(stage: &Stage) {
    assert_eq!(stage.ok("alice", &["register", "alice"]).stdout, "alice\n");
    stage.fails("bob", &["register", "alice"], 8);
    stage.fails("alice", &["register", "alice"], 8);
    let other = stage.ok("alice", &["register", "agent-42", "--json"]);
    assert_eq!(other.json()["name"], "agent-42");
    other.says(&["export FMAIL_AGENT=agent-42"]);
    stage.fails("bob", &["register", "No One"], 4);
}

fn names_are_made_up_and_differ(stage: &Stage) {
    let made_up: Vec<String> = (0..3).map(|_| stage.nameless(&["register"]).ok().stdout).collect();
    assert!(
        made_up.iter().all(|name| name.len() > 3) && made_up[0] != made_up[1] && made_up[1] != made_up[2],
        "{made_up:?}"
    );
    for name in &made_up {
        stage.command("bob", &["register", name.trim_end()]).fails(8);
    }
}

fn who_lists_those_who_acted(stage: &Stage) {
    assert_eq!(stage.ok("reader", &["who", "--json"]).json(), json!([]));
    stage.send("bob", "task", "x");
    stage.ok("alice", &["register", "alice"]);
    stage.ok("carol", &["status", "reviewing"]);
    stage.ok("dave", &["log"]);
    let agents = stage.ok("reader", &["who", "--json"]).json();
    let named: Vec<_> = agents
        .as_array()
        .expect("an array")
        .iter()
        .map(|agent| (&agent["name"], &agent["state"], &agent["status"]))
        .collect();
    let (active, nothing) = (json!("active"), json!(null));
    assert_eq!(
        named,
        [
            (&json!("alice"), &active, &nothing),
            (&json!("bob"), &active, &nothing),
            (&json!("carol"), &active, &json!("reviewing")),
        ]
    );
    assert_eq!(stage.ok("reader", &["who"]).stdout.lines().count(), 4);
}

fn a_status_is_set_shown_and_cleared(stage: &Stage) {
    stage.ok("alice", &["status"]);
    stage.ok("alice", &["status", "building main"]);
    assert!(stage.ok("alice", &["status"]).stdout.contains("building main"));
    assert_eq!(stage.ok("alice", &["status", "--json"]).json()["status"], "building main");
    stage.ok("alice", &["status", "--clear"]);
    assert_eq!(stage.ok("alice", &["status", "--json"]).json()["status"], json!(null));
    stage.fails("alice", &["status", "building", "main"], 2).says(&["quotes"]);
}

fn whoami_tells_who_and_where(stage: &Stage) {
    let who = stage.command("alice", &["whoami", "--json"]).ok().json();
    assert_eq!(
        (&who["agent"], &who["agent_from"], &who["exists"]),
        (&json!("alice"), &json!("FMAIL_AGENT"), &json!(true))
    );
    assert_eq!(who["project_from"], "directory name");
}
