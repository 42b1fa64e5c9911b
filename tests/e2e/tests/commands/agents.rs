//! `fmail who`, `register`, `status`, `whoami`

use fmail_e2e::{Running, Sandbox};
use serde_json::{Value, json};

/// An agent's record, last seen this long ago.
fn seen(sandbox: &Sandbox, name: &str, seconds_ago: u64, status: Option<&str>) {
    let now = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds_ago);
    let since_epoch = now.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let time = sandbox.bash("x", &format!("date -u -d @{since_epoch} +%Y-%m-%dT%H:%M:%SZ")).ok().stdout;
    let mut record = json!({"name": name, "host": "h", "first_seen": time.trim(), "last_seen": time.trim()});
    if let Some(status) = status {
        record["status"] = status.into();
    }
    sandbox.write(format!(".fmail/agents/{name}.json"), record.to_string());
}

#[test]
fn who_shows_active_idle_and_offline() {
    let sandbox = Sandbox::new();
    seen(&sandbox, "here", 5, Some("coding"));
    seen(&sandbox, "away", 600, None);
    seen(&sandbox, "gone", 7_200, Some("left"));
    let agents = sandbox.agent("me").args(["who", "--json"]).ok().json();
    let states: Vec<(&Value, &Value)> =
        agents.as_array().expect("an array").iter().map(|agent| (&agent["name"], &agent["state"])).collect();
    assert_eq!(
        states,
        [(&json!("away"), &json!("idle")), (&json!("gone"), &json!("offline")), (&json!("here"), &json!("active"))]
    );
    let text = sandbox.agent("me").args(["who"]).ok().stdout;
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect("listed").to_string();
    assert!(row("here").contains("active") && row("here").ends_with("coding"), "{text}");
    assert!(row("away").contains("10m ago") && row("away").ends_with("idle"), "{text}");
    assert!(
        row("gone").contains("2h ago") && row("gone").contains("offline") && row("gone").contains("left"),
        "{text}"
    );
}

#[test]
fn empty_lists_are_empty_arrays_and_a_note() {
    let sandbox = Sandbox::new();
    for command in ["who", "topics"] {
        assert_eq!(sandbox.agent("me").args([command, "--json"]).ok().stdout, "[]\n");
        let text = sandbox.agent("me").args([command]).ok();
        assert_eq!(text.stdout, "");
        assert!(!text.stderr.is_empty());
    }
    assert!(!sandbox.store().exists());
}

#[test]
fn a_status_is_set_shown_and_cleared() {
    let sandbox = Sandbox::new();
    let status = |args: &[&str]| sandbox.agent("me").arg("status").args(args).ok();
    assert_eq!(status(&["working on auth"]).stdout, "");
    assert_eq!(status(&[]).stdout, "working on auth\n");
    assert_eq!(status(&["--json"]).json(), json!({"name": "me", "status": "working on auth"}));
    assert_eq!(sandbox.agent("o").args(["who", "--json"]).ok().json()[0]["status"], "working on auth");
    status(&["--clear"]);
    assert_eq!(status(&[]).stdout, "");
    assert_eq!(status(&["--json"]).json()["status"], Value::Null);
    sandbox.agent("me").args(["status", "x", "--clear"]).fails(2);
    sandbox.agent("me").args(["status", ""]).fails(2);
}

#[test]
fn a_status_needs_a_name_and_showing_it_creates_nothing() {
    let sandbox = Sandbox::new();
    sandbox.fmail().args(["status", "x"]).fails(4).says(&["FMAIL_AGENT"]);
    sandbox.fmail().args(["status"]).fails(4);
    sandbox.agent("me").args(["status"]).ok();
    assert!(!sandbox.store().exists());
}

#[test]
fn a_record_keeps_what_it_does_not_know() {
    let sandbox = Sandbox::new();
    sandbox.write(
        ".fmail/agents/me.json",
        r#"{"name":"me","first_seen":"2026-01-10T15:00:00Z","last_seen":"2026-01-10T15:00:00Z","model":"x1"}"#,
    );
    sandbox.agent("me").args(["status", "busy"]).ok();
    let record = std::fs::read_to_string(sandbox.store().join("agents/me.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!((&record["model"], &record["status"]), (&json!("x1"), &json!("busy")));
    assert_eq!(record["first_seen"], "2026-01-10T15:00:00Z");
    assert_ne!(record["last_seen"], "2026-01-10T15:00:00Z");
}

#[test]
fn register_gives_a_name_once() {
    let sandbox = Sandbox::new();
    let output = sandbox.fmail().args(["register", "agent-42"]).ok();
    assert_eq!(output.stdout, "agent-42\n");
    output.says(&["FMAIL_AGENT=agent-42"]);
    sandbox.fmail().args(["register", "agent-42"]).fails(8).says(&["agent-42", "taken"]);
    let json = sandbox.fmail().args(["register", "agent-43", "--json"]).ok().json();
    assert_eq!(json["name"], "agent-43");
    assert_eq!(sandbox.fmail().args(["register", "@agent-44"]).ok().stdout, "agent-44\n");
    let generated = sandbox.fmail().args(["register"]).ok().stdout;
    assert!(sandbox.store().join(format!("agents/{}.json", generated.trim_end())).exists());
    assert_eq!(sandbox.names(".fmail/agents").len(), 4, "the process that registers is not itself tracked");
}

#[test]
fn a_claimed_name_that_cannot_be_printed_is_told() {
    let sandbox = Sandbox::new();
    for form in ["", " --json", " agent-42"] {
        let before = sandbox.names(".fmail/agents");
        let output = sandbox.bash("me", &format!("fmail register{form} >/dev/full")).fails(70);
        let claimed = sandbox.names(".fmail/agents").into_iter().find(|name| !before.contains(name)).expect("claimed");
        let name = claimed.trim_end_matches(".json");
        output.says(&[&format!("the name `{name}` is yours, but"), "standard output", &format!("FMAIL_AGENT={name}")]);
    }
}

#[test]
fn of_twenty_processes_that_register_one_name_one_wins() {
    let sandbox = Sandbox::new();
    let racers: Vec<Running> = (0..20).map(|_| sandbox.fmail().args(["register", "prize"]).spawn()).collect();
    let mut codes: Vec<i32> = racers.into_iter().map(|racer| racer.wait().code).collect();
    codes.sort_unstable();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 8).count(), 19, "{codes:?}");
}

#[test]
fn whoami_says_who_and_where_and_why() {
    let sandbox = Sandbox::new();
    let json = sandbox.agent("me").args(["whoami", "--json"]).ok().json();
    assert_eq!((&json["agent"], &json["agent_from"]), (&json!("me"), &json!("FMAIL_AGENT")));
    assert_eq!(json["root"], sandbox.path().to_str().expect("UTF-8"));
    assert_eq!(json["root_from"], "current directory");
    assert_eq!((&json["store"], &json["exists"]), (&json!("files"), &json!(false)));
    let text = sandbox.agent("me").args(["whoami"]).ok().stdout;
    for part in ["agent:", "me (FMAIL_AGENT)", "project:", "directory name", "root:", "current directory", "store:"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let anonymous = sandbox.fmail().args(["whoami"]).ok().stdout;
    assert!(anonymous.contains("anon-") && anonymous.contains("not set"), "{anonymous}");
    assert!(!sandbox.store().exists());
}
