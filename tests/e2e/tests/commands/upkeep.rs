//! `fmail topics` and `fmail gc`

use fmail_e2e::Sandbox;
use serde_json::json;

fn old(sandbox: &Sandbox, place: &str, id: &str, time: &str) {
    let body = json!({"id": id, "from": "a", "to": "task", "time": time, "body": "old"});
    sandbox.write(format!(".fmail/{place}/{id}.json"), body.to_string());
}

#[test]
fn topics_counts_and_sorts_and_knows_no_mailboxes() {
    let sandbox = Sandbox::new();
    for topic in ["task", "build", "task"] {
        sandbox.send("me", topic, "x");
    }
    sandbox.send("me", "@me", "x");
    let topics = sandbox.agent("me").args(["topics", "--json"]).ok().json();
    let counts: Vec<(String, u64)> = topics
        .as_array()
        .expect("an array")
        .iter()
        .map(|topic| (topic["name"].as_str().expect("a name").into(), topic["messages"].as_u64().expect("a count")))
        .collect();
    assert_eq!(counts, [("build".to_string(), 1), ("task".to_string(), 2)]);
    let text = |command: &str| sandbox.agent("me").args([command]).ok().stdout;
    assert!(text("topics").lines().next().is_some_and(|head| head.starts_with("TOPIC")));
    assert_eq!(text("topics").lines().count(), 3);
    assert_eq!(text("topic").lines().count(), 3);
}

#[test]
fn gc_of_no_days_keeps_what_is_dated_in_the_future_and_its_help_says_so() {
    let sandbox = Sandbox::new();
    old(&sandbox, "topics/task", "20260101-000000-0001", "2026-01-01T00:00:00Z");
    old(&sandbox, "topics/task", "20990101-000000-0001", "2099-01-01T00:00:00Z");
    sandbox.agent("me").args(["gc", "--days", "0"]).ok().says(&["removed 1 message"]);
    assert_eq!(sandbox.names(".fmail/topics/task"), ["20990101-000000-0001.json"]);
    let help = sandbox.fmail().args(["gc", "--help"]).ok().stdout;
    assert!(help.contains("all but future-dated ones"), "{help}");
}

#[test]
fn gc_removes_by_the_time_inside_from_topics_and_mailboxes() {
    let sandbox = Sandbox::new();
    let new = sandbox.send("me", "task", "new");
    old(&sandbox, "topics/task", "20260101-000000-0001", "2026-01-01T00:00:00Z");
    old(&sandbox, "dm/me", "20260101-000000-0002", "2026-01-01T00:00:00Z");
    // An old id with a recent time stays: the time tells the time.
    let recent = sandbox.log("me", &["task"]).iter().find(|m| m["id"] == new.as_str()).expect("new")["time"].clone();
    old(&sandbox, "topics/task", "20260101-000000-0003", recent.as_str().expect("a time"));

    let dry = sandbox.agent("me").args(["gc", "--dry-run"]).ok();
    let mut places: Vec<&str> = dry.stdout.lines().collect();
    places.sort_unstable();
    assert_eq!(places, ["dm/me/20260101-000000-0002.json", "topics/task/20260101-000000-0001.json"]);
    dry.says(&["would remove 2 messages"]);
    for place in places {
        assert!(sandbox.store().join(place).exists(), "{place}");
    }

    let done = sandbox.agent("me").args(["gc"]).ok();
    assert_eq!(done.stdout, "");
    done.says(&["removed 2 messages"]);
    assert_eq!(sandbox.names(".fmail/topics/task"), ["20260101-000000-0003.json".to_string(), format!("{new}.json")]);
    assert!(sandbox.names(".fmail/dm/me").is_empty());
    assert_eq!(sandbox.bodies("me", &[]), ["old", "new"]);
    sandbox.agent("me").args(["gc"]).ok().says(&["removed 0 messages"]);
}

#[test]
fn gc_days_and_its_configuration() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "lobby", "exists");
    let stamp = |ago: &str, format: &str| {
        sandbox.bash("x", &format!("date -u -d '{ago} ago' +{format}")).ok().stdout.trim_end().to_string()
    };
    for (days, tick) in [("2 days", "0001"), ("5 days", "0002"), ("9 days", "0003")] {
        let id = format!("{}-{tick}", stamp(days, "%Y%m%d-%H%M%S"));
        old(&sandbox, "topics/task", &id, &stamp(days, "%Y-%m-%dT%H:%M:%SZ"));
    }
    let would = |args: &[&str]| sandbox.agent("me").args(["gc", "--dry-run"]).args(args).ok().stdout.lines().count();
    assert_eq!((would(&[]), would(&["--days", "1"]), would(&["--days", "3"]), would(&["--days", "30"])), (1, 3, 2, 0));
    sandbox.write(".fmail/config.toml", "[mail.gc]\ndays = 4\n");
    assert_eq!(would(&[]), 2);
    sandbox.agent("me").args(["gc", "--days", "1"]).ok();
    assert!(sandbox.names(".fmail/topics/task").is_empty());
    for wrong in ["-1", "x", "1.5", ""] {
        sandbox.agent("me").args(["gc", "--days", wrong]).fails(2);
    }
}

#[test]
fn a_running_watch_survives_a_collection() {
    let sandbox = Sandbox::new();
    old(&sandbox, "topics/task", "20260101-000000-0001", "2026-01-01T00:00:00Z");
    sandbox.send("me", "task", "new");
    let mut watch = sandbox.agent("w").args(["watch", "task", "--json"]).spawn();
    watch.await_watching();
    sandbox.agent("me").args(["gc"]).ok();
    sandbox.send("me", "task", "after");
    assert_eq!(watch.json()["body"], "after");
}
