//! `reply` and `thread`.

use serde_json::json;

use super::cases;
use crate::stage::Stage;

cases![
    a_reply_goes_to_the_sender_and_carries_the_subject,
    a_reply_to_all_goes_to_everybody,
    a_reply_in_a_topic_stays_there,
    a_thread_is_shown_from_any_of_its_messages,
    a_named_thread_is_shown_by_its_name,
    replies_that_cannot_be_are_refused,
];

fn a_reply_goes_to_the_sender_and_carries_the_subject(stage: &Stage) {
    stage.ok("bob", &["register", "bob"]);
    let first = stage.ok("alice", &["send", "@bob", "merge now?", "-s", "Question"]).stdout.trim_end().to_string();
    let reply = stage.ok("bob", &["reply", &first[9..], "yes", "--json", "--priority", "high", "--tag", "done"]).json();
    let expected =
        json!({"from": "bob", "to": "@alice", "subject": "Re: Question", "reply_to": first, "priority": "high"});
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&reply[name], value, "{name} of {reply}");
    }
    assert_eq!(stage.bodies("alice", &["inbox"]), ["yes"]);
    stage.fed("alice", &["reply", reply["id"].as_str().expect("an id"), "-s", "Thanks"], "{\"n\":1}", 0);
    stage.ok("bob", &["inbox", "--all"]);
}

fn a_reply_to_all_goes_to_everybody(stage: &Stage) {
    let first = stage.send("alice", "@bob,@carol,news", "meeting?");
    let reply = stage.ok("bob", &["reply", &first, "fine", "--all", "--json"]).json();
    assert_eq!(reply["to"], "@alice");
    assert_eq!(stage.bodies("carol", &["log", "@carol"]), ["meeting?", "fine"]);
    assert_eq!(stage.bodies("dave", &["log", "news"]), ["meeting?", "fine"]);
}

fn a_reply_in_a_topic_stays_there(stage: &Stage) {
    let first = stage.send("alice", "task", "who takes it?");
    stage.ok("bob", &["reply", &first, "me"]);
    stage.ok("dave", &["log", "task"]);
    stage.ok("alice", &["log", "@alice"]);
}

fn a_thread_is_shown_from_any_of_its_messages(stage: &Stage) {
    let first = stage.send("alice", "task", "one");
    let second = stage.ok("bob", &["send", "task", "two", "--reply-to", &first]).stdout.trim_end().to_string();
    let third = stage.ok("carol", &["send", "task", "three", "--reply-to", &second]).stdout.trim_end().to_string();
    stage.send("dave", "task", "something else");
    for id in [&first, &second, &third] {
        assert_eq!(stage.bodies("erin", &["thread", id]), ["one", "two", "three"]);
    }
    let shown = stage.ok("erin", &["thread", &third]);
    assert_eq!(shown.stdout.lines().count(), 3, "{shown}");
    stage.ok("erin", &["thread", "235959-9999"]).says(&["no messages in the thread"]);
}

fn a_named_thread_is_shown_by_its_name(stage: &Stage) {
    let first = stage.ok("alice", &["send", "task", "one", "--thread", "release-2"]).stdout.trim_end().to_string();
    stage.ok("bob", &["reply", &first, "two"]);
    stage.ok("carol", &["send", "other", "three", "--thread", "release-2"]);
    assert!(stage.bodies("dave", &["thread", "release-2"]).starts_with(&["one".into()]));
    stage.run("dave", &["thread", "no-such-thread"]);
}

fn replies_that_cannot_be_are_refused(stage: &Stage) {
    let secret = stage.send("alice", "@bob", "between us");
    let refused = stage.run("eve", &["reply", &secret, "I read that"]);
    assert!(refused.code != 0 && refused.stdout.is_empty(), "{refused}");
    stage.fails("bob", &["reply", "235959-9999", "x"], 7);
    stage.fails("bob", &["reply", &secret, ""], 2);
    assert_eq!(stage.bodies("alice", &["inbox"]), [] as [&str; 0]);
}
