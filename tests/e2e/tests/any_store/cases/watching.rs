//! `watch`, its limits, and where it begins.

use std::time::Duration;

use super::cases;
use crate::stage::Stage;

cases![
    watch_ends_after_its_count,
    watch_ends_after_its_time,
    watch_goes_on_behind_an_id,
    watch_begins_at_the_end,
    watch_shows_topics_and_the_own_mailbox_only,
    a_watch_of_one_topic_shows_no_other,
    what_a_watch_showed_is_noted_for_the_sender,
    wrong_arguments_of_watch_are_refused,
    an_agent_with_a_watch_is_there,
    a_nudge_that_reaches_nobody_fails,
    many_messages_come_in_order_and_once,
];

fn watch_ends_after_its_count(stage: &Stage) {
    let mut watch = stage.start("bob", &["watch", "task", "--count", "3", "--since", "1h", "--json"]);
    for body in ["one", "two", "three", "four"] {
        stage.send("alice", "task", body);
    }
    for body in ["one", "two", "three"] {
        assert_eq!(watch.json()["body"], body);
    }
    assert_eq!(stage.end(watch, 0).stdout, "");
}

fn watch_ends_after_its_time(stage: &Stage) {
    stage.send("alice", "task", "stored");
    let quiet = stage.ok("bob", &["watch", "task", "--timeout", "100ms"]);
    assert_eq!(quiet.stdout, "");
    // Also a short time is long enough for what is stored.
    let seen = stage.ok("bob", &["watch", "task", "--timeout", "500ms", "--since", "1h"]);
    assert!(seen.stdout.ends_with(" alice -> task: stored\n"), "{seen}");
}

fn watch_goes_on_behind_an_id(stage: &Stage) {
    let ids: Vec<String> = ["one", "two", "three"].iter().map(|body| stage.send("alice", "task", body)).collect();
    let seen = stage.ok("bob", &["watch", "task", "--since", &ids[0], "--count", "2", "--json"]);
    assert_eq!(crate::stage::bodies(&seen.json_lines()), ["two", "three"]);
    let watch = stage.start("bob", &["watch", "task", "--since", &ids[2], "--count", "1", "--json"]);
    stage.send("alice", "task", "four");
    assert_eq!(stage.end(watch, 0).json()["body"], "four");
}

fn watch_begins_at_the_end(stage: &Stage) {
    stage.send("alice", "task", "before");
    for since in [&["--since", "now"][..], &[]] {
        let mut watch = stage.start("bob", &[&["watch", "task", "--json"], since].concat());
        // Nothing tells when it has begun, so messages are sent until one comes.
        let first = (0..).find_map(|number: u32| {
            stage.command("alice", &["send", "task", &format!("after {number}")]).ok();
            watch.line_within(Duration::from_millis(50))
        });
        assert!(first.is_some_and(|line| line.contains("\"body\":\"after ")), "not what was stored before");
    }
}

fn watch_shows_topics_and_the_own_mailbox_only(stage: &Stage) {
    // A sender is told of who is not known, and a watch that begins becomes known at any moment.
    stage.ok("bob", &["register", "bob"]);
    let watch = stage.start("bob", &["watch", "--since", "1h", "--count", "3", "--json"]);
    stage.send("alice", "@carol", "not for bob");
    stage.send("alice", "task", "for everybody");
    stage.send("alice", "@bob", "for bob");
    stage.send("alice", "@carol,@bob", "for both");
    assert_eq!(crate::stage::bodies(&stage.end(watch, 0).json_lines()), ["for everybody", "for bob", "for both"]);
}

fn a_watch_of_one_topic_shows_no_other(stage: &Stage) {
    // A sender is told of who is not known, and a watch that begins becomes known at any moment.
    stage.ok("bob", &["register", "bob"]);
    let watch = stage.start("bob", &["watch", "build", "--since", "1h", "--count", "2"]);
    stage.send("alice", "task", "another topic");
    stage.send("alice", "build", "one");
    stage.send("alice", "@bob", "his mailbox");
    stage.send("alice", "build", "two");
    let seen = stage.end(watch, 0);
    assert_eq!(seen.stdout.lines().count(), 2, "{seen}");
}

fn what_a_watch_showed_is_noted_for_the_sender(stage: &Stage) {
    let id = stage.send("alice", "@bob", "hello");
    stage.ok("bob", &["watch", "@bob", "--since", "1h", "--count", "1"]);
    let receipt = stage.ok("alice", &["receipt", &id, "--json"]).json();
    assert!(receipt["recipients"][0]["retrieved"].is_string(), "{receipt}");
    assert!(receipt["recipients"][0]["read"].is_null(), "{receipt}");
    stage.ok("bob", &["check"]);
}

fn wrong_arguments_of_watch_are_refused(stage: &Stage) {
    stage.fails("bob", &["watch", "no topic"], 3);
    stage.fails("bob", &["watch", "--count", "0"], 2);
    stage.fails("bob", &["watch", "--timeout", "soon"], 2);
    stage.fails("bob", &["watch", "--since", "later"], 2);
}

fn an_agent_with_a_watch_is_there(stage: &Stage) {
    let id = stage.send("alice", "task", "begin");
    let mut watch = stage.start("bob", &["watch", "task", "--since", "1h", "--json"]);
    assert_eq!(watch.json()["id"], id.as_str());
    let agents = stage.ok("alice", &["who", "--json"]).json();
    let bob =
        agents.as_array().and_then(|agents| agents.iter().find(|agent| agent["name"] == "bob")).expect("bob is there");
    assert_eq!(bob["state"], "active");
}

fn a_nudge_that_reaches_nobody_fails(stage: &Stage) {
    let unreached = stage.command("alice", &["nudge", "bob", "are you there?"]).fails(19);
    unreached.says(&["no session of @bob was reached", "fmail send @bob"]);
    stage.fails("alice", &["nudge", "No One", "x"], 4);
    stage.fails("alice", &["nudge", "bob", ""], 2);
}

fn many_messages_come_in_order_and_once(stage: &Stage) {
    let watch = stage.start("bob", &["watch", "task", "--since", "1h", "--count", "30", "--json"]);
    let bodies: Vec<String> = (0..30).map(|number| format!("number {number}")).collect();
    for body in &bodies {
        stage.send("alice", "task", body);
    }
    assert_eq!(crate::stage::bodies(&stage.end(watch, 0).json_lines()), bodies);
}
