//! `send`: every flag, and every refusal.

use serde_json::{Value, json};

use super::cases;
use crate::stage::Stage;

cases![
    a_message_is_stored_and_its_id_printed,
    json_shows_the_message_as_it_is_stored,
    every_flag_of_send_arrives,
    bodies_are_any_json,
    bodies_come_from_standard_input_and_files,
    an_empty_body_is_refused,
    a_message_that_is_too_large_is_refused,
    a_message_sent_twice_with_its_key_is_stored_once,
    a_key_of_another_message_is_a_conflict,
    a_message_nested_too_deep_is_refused_and_as_deep_as_allowed_is_read,
    several_recipients_share_one_message,
    unknown_recipients_are_warned_of_with_names_that_look_alike,
    strict_refuses_unknown_recipients,
    a_topic_with_the_name_of_an_agent_is_told,
    names_that_cannot_be_are_refused,
    bad_flags_are_refused,
    a_reply_to_the_end_of_an_id_is_resolved,
    a_reply_to_an_unknown_message_is_stored_and_told,
    a_short_id_that_fits_nothing_is_refused,
    without_a_name_the_sender_is_made_up,
];

fn stored(stage: &Stage, topic: &str) -> Vec<Value> {
    stage.ok("reader", &["log", topic, "--json", "-n", "100"]).json_lines()
}

fn a_message_is_stored_and_its_id_printed(stage: &Stage) {
    let sent = stage.ok("alice", &["send", "task", "implement auth"]);
    assert_eq!((sent.stdout.len(), sent.stderr.as_str()), (21, ""), "{sent}");
    let message = &stored(stage, "task")[0];
    assert_eq!(message["id"], sent.stdout.trim_end());
    assert_eq!(
        (&message["from"], &message["to"], &message["body"]),
        (&json!("alice"), &json!("task"), &json!("implement auth"))
    );
}

fn json_shows_the_message_as_it_is_stored(stage: &Stage) {
    let first = stage.send("alice", "task", "first");
    let sent =
        stage.ok("alice", &["send", "task", "second", "--json", "--reply-to", &first[16..], "--tag", "B,a"]).json();
    assert_eq!(sent["reply_to"], first.as_str());
    assert_eq!(sent["tags"], json!(["b", "a"]));
    assert_eq!(stored(stage, "task")[1], sent);
    // The time is whole seconds, and the one of the id.
    assert!(sent["time"].as_str().is_some_and(|time| time.len() == 20), "{sent}");
}

fn every_flag_of_send_arrives(stage: &Stage) {
    stage.ok("bob", &["register", "bob"]);
    let args = [
        "send",
        "@bob",
        "body",
        "--json",
        "--priority",
        "high",
        "--tag",
        "urgent",
        "--tag",
        "auth",
        "--subject",
        "title",
        "--thread",
        "release",
        "--cc",
        "@carol,news",
        "--ack-required",
        "--expires",
        "2100-01-01T00:00:00Z",
        "--key",
        "k1",
    ];
    let sent = stage.ok("alice", &args).json();
    let expected = [
        ("to", json!("@bob")),
        ("priority", json!("high")),
        ("tags", json!(["urgent", "auth"])),
        ("subject", json!("title")),
        ("thread", json!("release")),
        ("cc", json!(["@carol", "news"])),
        ("ack_required", json!(true)),
        ("expires", json!("2100-01-01T00:00:00Z")),
        ("key", json!("k1")),
    ];
    for (name, value) in expected {
        assert_eq!(sent[name], value, "{name} of {sent}");
    }
    assert_eq!(stored(stage, "news")[0]["id"], sent["id"]);
    let mail = stage.ok("bob", &["inbox", "--json"]).json();
    assert_eq!((&mail["subject"], &mail["mail"]["standing"]), (&json!("title"), &json!("unread")));
}

fn bodies_are_any_json(stage: &Stage) {
    let bodies = [
        "true",
        "null",
        "-0.0",
        "1.50",
        "12345678901234567890123",
        "[]",
        "{\"b\":1,\"a\":[null,\"\u{e9}\"]}",
        "\"\\u0001\"",
    ];
    for body in bodies {
        stage.send("alice", "task", body);
    }
    stage.ok("alice", &["send", "task", "--text", "{\"a\":1}"]);
    stage.send("alice", "task", "not {json");
    let mut shown: Vec<String> = stored(stage, "task").iter().map(|message| message["body"].to_string()).collect();
    assert_eq!(shown.split_off(8), ["\"{\\\"a\\\":1}\"", "\"not {json\""]);
    assert_eq!(shown, bodies);
    stage.ok("reader", &["log", "task"]);
}

fn bodies_come_from_standard_input_and_files(stage: &Stage) {
    stage.fed("alice", &["send", "task"], "from a pipe\n", 0);
    stage.fed("alice", &["send", "task", "-f", "-"], "two\nlines\n", 0);
    stage.sandbox.write("spec.md", "from a file");
    stage.ok("alice", &["send", "task", "-f", "spec.md"]);
    stage.fails("alice", &["send", "task", "-f", "missing.md"], 7);
    stage.fails("alice", &["send", "task", "both", "-f", "spec.md"], 2);
    let bodies: Vec<Value> = stored(stage, "task").into_iter().map(|message| message["body"].clone()).collect();
    assert_eq!(bodies, ["from a pipe", "two\nlines", "from a file"]);
}

fn an_empty_body_is_refused(stage: &Stage) {
    for body in ["", " ", "\n\t"] {
        stage.fails("alice", &["send", "task", body], 2).says(&["empty"]);
    }
    assert!(stored(stage, "task").is_empty());
}

fn a_message_that_is_too_large_is_refused(stage: &Stage) {
    // The limit is on the message with all that is around the body.
    let most = 1_048_576;
    let refused = stage.fed("alice", &["send", "task"], "x".repeat(most), 6);
    refused.says(&["1048576"]);
    stage.fed("alice", &["send", "task"], "x".repeat(3 * most), 6);
    stage.fed("alice", &["send", "task"], "x".repeat(most - 1_000), 0);
    let sizes: Vec<usize> =
        stored(stage, "task").iter().map(|message| message["body"].as_str().map_or(0, str::len)).collect();
    assert_eq!(sizes, [most - 1_000]);
}

fn a_message_sent_twice_with_its_key_is_stored_once(stage: &Stage) {
    let first = stage.ok("alice", &["send", "task", "once", "--key", "k"]).stdout;
    let again = stage.ok("alice", &["send", "task", "other words", "--key", "k"]);
    again.says(&["nothing new was stored", first.trim()]);
    assert_eq!(first, again.stdout);
    let again = stage.ok("alice", &["send", "task", "other words", "--key", "k", "--json"]).json();
    assert_eq!((&again["body"], &again["key"]), (&json!("once"), &json!("k")));
    stage.ok("alice", &["send", "task", "twice", "--key", "other"]);
    assert_eq!(stage.bodies("bob", &["log", "task"]), ["once", "twice"]);
}

/// Who used a key that stood for another agent's direct message was told that theirs was stored, and shown that one.
fn a_key_of_another_message_is_a_conflict(stage: &Stage) {
    stage.ok("alice", &["send", "@bob", "a secret", "--key", "k"]);
    for (agent, to) in [("mallory", "task"), ("mallory", "@bob"), ("alice", "@carol")] {
        let refused = stage.fails(agent, &["send", to, "another", "--key", "k", "--json"], 8);
        refused.says(&["`k`", "nothing was stored"]);
        assert!(!format!("{}{}", refused.stdout, refused.stderr).contains("secret"));
    }
    for key in ["", "a\nb", &"k".repeat(256)] {
        stage.fails("alice", &["send", "task", "x", "--key", key], 2);
    }
    assert_eq!(stage.bodies("bob", &["log", "task"]), [""; 0]);
}

/// Each layer that carries a message puts something around it, and its readers give up at some depth.
fn a_message_nested_too_deep_is_refused_and_as_deep_as_allowed_is_read(stage: &Stage) {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    stage.ok("alice", &["send", "@bob", &nested(100)]);
    for levels in [101, 126, 127, 128, 500] {
        stage.fails("alice", &["send", "@bob", &nested(levels)], 2).says(&["deeper than 100"]);
    }
    stage.ok("alice", &["send", "@bob", &nested(500), "--text"]);
    assert_eq!(stage.bodies("bob", &["log", "@bob"]).len(), 2);
    assert_eq!(stage.ok("bob", &["inbox", "--json"]).stdout.lines().count(), 2);
}

fn several_recipients_share_one_message(stage: &Stage) {
    let id = stage.send("alice", "@bob,@carol,news", "for all of you");
    for agent in ["bob", "carol"] {
        let mail = stage.ok(agent, &["inbox", "--json"]).json();
        assert_eq!(
            (&mail["id"], &mail["to"], &mail["recipients"]),
            (&json!(id), &json!("@bob"), &json!(["@carol", "news"]))
        );
    }
    assert_eq!(stored(stage, "news")[0]["id"], id.as_str());
    assert_eq!(stage.bodies("bob", &["log"]), ["for all of you"], "shown once");
    assert_eq!(stage.bodies("dave", &["inbox"]), [] as [&str; 0]);
}

fn unknown_recipients_are_warned_of_with_names_that_look_alike(stage: &Stage) {
    stage.ok("reviewer", &["register", "reviewer"]);
    let warned = stage.ok("alice", &["send", "@reviwer,@nobody-at-all", "please"]);
    warned.says(&[
        "nobody in this project has used the name @reviwer yet (did you mean @reviewer?)",
        "@nobody-at-all yet\n",
    ]);
    assert_eq!(stage.ok("alice", &["send", "@reviewer", "please"]).stderr, "");
}

fn strict_refuses_unknown_recipients(stage: &Stage) {
    stage.ok("reviewer", &["register", "reviewer"]);
    stage
        .fails("alice", &["send", "--strict", "@reviwer", "x"], 7)
        .says(&["nobody in this project", "did you mean @reviewer?"]);
    stage.ok("alice", &["send", "--strict", "@reviewer", "x"]);
    let set = ["--set", "mail.strict_recipients=true", "send", "@reviwer", "x"];
    stage.fails("alice", &set, 7);
    assert_eq!(stage.bodies("reviwer", &["inbox"]), [] as [&str; 0]);
}

fn a_topic_with_the_name_of_an_agent_is_told(stage: &Stage) {
    stage.ok("bob", &["register", "bob"]);
    stage.ok("alice", &["send", "bob", "forgot the sign"]).says(&["stored in the topic `bob`", "write @bob"]);
    assert_eq!(stage.ok("alice", &["send", "bob", "again"]).stderr, "");
}

fn names_that_cannot_be_are_refused(stage: &Stage) {
    stage.fails("alice", &["send", "no topic", "x"], 3);
    stage.fails("alice", &["send", "../etc", "x"], 3);
    stage.fails("alice", &["send", "@No.One", "x"], 4);
    stage.fails("No Agent", &["send", "task", "x"], 4);
    assert_eq!(stage.ok("reader", &["topics", "--json"]).json(), json!([]));
}

fn bad_flags_are_refused(stage: &Stage) {
    for flags in [
        ["--priority", "urgent"],
        ["--tag", "no tag"],
        ["--expires", "yesterday"],
        ["--expires", "2020-01-01"],
        ["--wait-for", "luck"],
    ] {
        stage.fails("alice", &["send", "task", "x", flags[0], flags[1]], 2);
    }
    stage.fails("alice", &["send", "task", "--wait-for", "read", "x"], 2).says(&["nobody in particular"]);
    assert!(stored(stage, "task").is_empty());
}

fn a_reply_to_the_end_of_an_id_is_resolved(stage: &Stage) {
    let first = stage.ok("alice", &["send", "task", "question", "--thread", "plan"]).stdout.trim_end().to_string();
    let answer = stage.ok("bob", &["send", "task", "answer", "--reply-to", &first[9..], "--json"]).json();
    assert_eq!((&answer["reply_to"], &answer["thread"]), (&json!(first), &json!("plan")));
}

fn a_reply_to_an_unknown_message_is_stored_and_told(stage: &Stage) {
    let sent = stage.ok("alice", &["send", "task", "x", "--reply-to", "20200101-000000-0001"]);
    sent.says(&["stored, but no message that you can read has the id"]);
    let secret = stage.send("bob", "@carol", "between us");
    stage.ok("alice", &["send", "task", "y", "--reply-to", &secret]).says(&["no message that you can read"]);
}

fn a_short_id_that_fits_nothing_is_refused(stage: &Stage) {
    stage.send("alice", "task", "x");
    stage.fails("alice", &["send", "task", "y", "--reply-to", "235959-9999"], 7);
    stage.fails("alice", &["send", "task", "y", "--reply-to", "no id"], 2);
}

fn without_a_name_the_sender_is_made_up(stage: &Stage) {
    let sent = stage.nameless(&["send", "task", "x", "--json"]).ok();
    sent.says(&["acting as anon-", "FMAIL_AGENT"]);
    assert!(sent.json()["from"].as_str().is_some_and(|from| from.starts_with("anon-")), "{sent}");
    for args in [&["status", "busy"][..], &["inbox"], &["check"]] {
        stage.nameless(args).fails(4).says(&["FMAIL_AGENT is not set"]);
    }
}
