//! `log` and `topics`.

use serde_json::json;

use super::cases;
use crate::stage::Stage;

cases![
    log_shows_the_newest_oldest_first_and_tells_of_more,
    log_without_a_target_shows_topics_and_the_own_mailbox,
    log_filters_by_sender,
    log_takes_every_form_of_since,
    an_empty_topic_is_told_with_names_that_look_alike,
    another_agents_mailbox_is_refused,
    wrong_arguments_of_log_are_refused,
    topics_are_counted_and_sorted,
    following_the_log_shows_what_is_stored_and_what_arrives,
    following_from_now_shows_only_what_arrives,
];

fn log_shows_the_newest_oldest_first_and_tells_of_more(stage: &Stage) {
    for body in ["one", "two", "three"] {
        stage.send("alice", "task", body);
    }
    let some = stage.ok("bob", &["log", "task", "-n", "2"]);
    assert!(some.stdout.ends_with(" alice -> task: three\n") && some.stdout.lines().count() == 2, "{some}");
    some.says(&["older messages match too", "newest 2"]);
    assert_eq!(stage.ok("bob", &["log", "task", "-n", "3"]).stderr, "");
    assert_eq!(stage.bodies("bob", &["log"]), ["one", "two", "three"]);
}

fn log_without_a_target_shows_topics_and_the_own_mailbox(stage: &Stage) {
    stage.send("alice", "task", "for everybody");
    stage.send("alice", "@bob", "for bob");
    stage.send("alice", "@carol", "for carol");
    assert_eq!(stage.bodies("bob", &["log"]), ["for everybody", "for bob"]);
    assert_eq!(stage.bodies("bob", &["log", "@bob"]), ["for bob"]);
    assert_eq!(stage.bodies("dave", &["log"]), ["for everybody"]);
    stage.nameless(&["log", "--json"]).ok().says(&["acting as anon-"]);
}

fn log_filters_by_sender(stage: &Stage) {
    stage.send("alice", "task", "hers");
    stage.send("bob", "task", "his");
    stage.send("alice", "@bob", "also hers");
    assert_eq!(stage.bodies("bob", &["log", "--from", "alice"]), ["hers", "also hers"]);
    assert_eq!(stage.bodies("bob", &["log", "--from", "@bob"]), ["his"]);
    assert_eq!(stage.bodies("bob", &["log", "task", "--from", "carol"]), [] as [&str; 0]);
    stage.fails("bob", &["log", "--from", "No One"], 4);
}

fn log_takes_every_form_of_since(stage: &Stage) {
    let first = stage.send("alice", "task", "one");
    stage.send("alice", "task", "two");
    for (since, count) in [
        ("1h", 2),
        ("2020-01-01", 2),
        ("2020-01-01T00:00:00Z", 2),
        ("2020-01-01T00:00:00", 2),
        ("2100-01-01", 0),
        (first.as_str(), 1),
        ("now", 0),
    ] {
        let shown = stage.bodies("bob", &["log", "task", "--since", since]);
        assert_eq!(shown.len(), count, "{since}: {shown:?}");
    }
    stage.fails("bob", &["log", "--since", "later"], 2);
}

fn an_empty_topic_is_told_with_names_that_look_alike(stage: &Stage) {
    stage.send("alice", "build-status", "x");
    let empty = stage.ok("bob", &["log", "build-statsu"]);
    assert_eq!(empty.stdout, "");
    empty.says(&["no messages in `build-statsu`; did you mean build-status?"]);
    stage.ok("bob", &["log", "something-else"]).says(&["no messages in `something-else`\n"]);
}

fn another_agents_mailbox_is_refused(stage: &Stage) {
    stage.send("alice", "@carol", "hers");
    for command in ["log", "watch"] {
        stage
            .fails("bob", &[command, "@carol"], 9)
            .says(&["@carol is the mailbox of another agent, and you are `bob`"]);
    }
    stage.fails("bob", &["log", "@carol", "--follow"], 9);
}

fn wrong_arguments_of_log_are_refused(stage: &Stage) {
    stage.fails("bob", &["log", "no topic"], 3);
    stage.fails("bob", &["log", "-n", "0"], 2);
    stage.fails("bob", &["log", "--no-such-flag"], 2);
}

fn topics_are_counted_and_sorted(stage: &Stage) {
    assert_eq!(stage.ok("me", &["topics", "--json"]).json(), json!([]));
    stage.ok("me", &["topics"]);
    let mut last = String::new();
    for topic in ["task", "build", "task"] {
        last = stage.send("me", topic, "x");
    }
    stage.send("me", "@me", "not a topic");
    let topics = stage.ok("me", &["topics", "--json"]).json();
    let named: Vec<_> =
        topics.as_array().expect("an array").iter().map(|topic| (&topic["name"], &topic["messages"])).collect();
    assert_eq!(named, [(&json!("build"), &json!(1)), (&json!("task"), &json!(2))]);
    assert_eq!(topics[1]["last_id"], last.as_str());
    assert_eq!(stage.ok("me", &["topics"]).stdout.lines().count(), 3);
}

fn following_the_log_shows_what_is_stored_and_what_arrives(stage: &Stage) {
    for body in ["one", "two", "three"] {
        stage.send("alice", "task", body);
    }
    let mut follow = stage.start("bob", &["log", "task", "-n", "2", "--follow", "--json"]);
    assert_eq!(follow.json()["body"], "two");
    assert_eq!(follow.json()["body"], "three");
    stage.send("alice", "other", "elsewhere");
    stage.send("alice", "task", "four");
    assert_eq!(follow.json()["body"], "four");
    follow.signal(rustix::process::Signal::INT);
    stage.end(follow, 0).says(&["older messages match too"]);
}

fn following_from_now_shows_only_what_arrives(stage: &Stage) {
    stage.send("alice", "task", "before");
    let mut follow = stage.start("bob", &["log", "task", "--since", "now", "--follow", "--from", "alice", "--json"]);
    // Nothing tells when it has begun, so messages are sent until one comes.
    let first = (0..).find_map(|number: u32| {
        stage.command("bob", &["send", "task", "not asked for"]).ok();
        stage.command("alice", &["send", "task", &format!("after {number}")]).ok();
        follow.line_within(std::time::Duration::from_millis(50))
    });
    assert!(first.is_some_and(|line| line.contains("\"body\":\"after ")), "only what alice sends from now on");
}
