//! The names of another system: each its own agent, kept and shown as it is written there.

use serde_json::{Value, json};

use crate::post::{Post, id, refused};

crate::cases! {
    a_name_that_is_none_is_told fmail_points_to_the_agent
    ; served:
    no_two_names_share_a_mailbox names_are_shown_as_they_are_written fmail_shows_both_names
}

/// Names that something might take for one another.
const NAMES: [&str; 12] = [
    "gastown/crew-1",
    "gastown-crew-1",
    "gastown_crew-1",
    "Gastown/crew-1",
    "gastown/Crew-1",
    "gastown/crew/1",
    "gastown-crew-1--x7s",
    "@gastown/crew-1",
    " gastown/crew-1",
    "gastown/crew-1 ",
    "zoë/日本",
    "--x",
];

fn no_two_names_share_a_mailbox(post: &Post) {
    for name in NAMES {
        post.send("alice", name, "", name);
    }
    for name in NAMES {
        let inbox = post.list("inbox", name);
        assert_eq!(inbox.len(), 1, "{name}");
        assert_eq!((&inbox[0]["to"], &inbox[0]["body"]), (&json!(name), &json!(name)));
        assert_eq!(post.count(name), (1, 1), "{name}");
    }
}

fn names_are_shown_as_they_are_written(post: &Post) {
    let sent = post.send("gastown/Crew-1", "Town Hall/Mayor", "s", "b");
    let reply = post.reply(&id(&sent), "Town Hall/Mayor", "", "yes");
    assert_eq!((&reply["from"], &reply["to"]), (&"Town Hall/Mayor".into(), &"gastown/Crew-1".into()));
    let shown: Vec<(Value, Value)> = post
        .list("thread", &id(&sent))
        .into_iter()
        .map(|message| (message["from"].clone(), message["to"].clone()))
        .collect();
    let there = (json!("gastown/Crew-1"), json!("Town Hall/Mayor"));
    assert_eq!(shown, [there.clone(), (there.1, there.0)]);
    assert_eq!(post.list("inbox", "gastown/Crew-1")[0]["from"], "Town Hall/Mayor");
    assert!(post.list("inbox", "gastown/crew-1").is_empty());
}

fn fmail_shows_both_names(post: &Post) {
    let sent = id(&post.send("gastown/crew-1", "GreenDog", "", "hi"));
    let both = "gastown-crew-1--x7s (gastown/crew-1)";
    let who = post.fmail("alice", &["who"]).stdout;
    assert!(who.lines().any(|line| line.starts_with(both)), "{who}");
    let agents = post.fmail("alice", &["who", "--json"]).json();
    let agent = agents.as_array().unwrap().iter().find(|agent| agent["name"] == "gastown-crew-1--x7s").unwrap();
    assert_eq!(agent["foreign"], "gastown/crew-1");
    let line = format!("{sent} {both} -> @greendog--x0u-5u (GreenDog): hi\n");
    for args in [&["inbox"][..], &["inbox", "--all"], &["log", "@greendog--x0u-5u"], &["read", &sent], &["peek", &sent]]
    {
        let shown = post.fmail("greendog--x0u-5u", args).stdout;
        assert!(shown.starts_with(&line[..line.len() - 5]) && shown.ends_with(": hi\n"), "{args:?}\n{shown}");
    }
    let whoami = post.fmail("greendog--x0u-5u", &["whoami"]).stdout;
    assert!(whoami.contains("greendog--x0u-5u (FMAIL_AGENT, elsewhere called \"GreenDog\")"), "{whoami}");
    assert_eq!(post.fmail("greendog--x0u-5u", &["whoami", "--json"]).json()["foreign"], "GreenDog");
    let receipt = post.fmail("greendog--x0u-5u", &["receipt", &sent]).stdout;
    assert!(receipt.contains("@greendog--x0u-5u (GreenDog)"), "{receipt}");
    // An agent of fmail's own has one name, and no field for another.
    post.fmail("alice", &["send", "@greendog--x0u-5u", "hello"]);
    assert_eq!(post.list("inbox", "GreenDog").last().unwrap()["from"], "alice");
    let agents = post.fmail("alice", &["who", "--json"]).json();
    let alice = agents.as_array().unwrap().iter().find(|agent| agent["name"] == "alice").unwrap().clone();
    assert!(alice.get("foreign").is_none(), "{alice}");
}

fn fmail_points_to_the_agent(post: &Post) {
    post.send("gastown/crew-1", "bob", "", "hi");
    let told = "the agent that another system calls `gastown/crew-1` is `gastown-crew-1--x7s` here";
    post.sandbox.agent("bob").args(["send", "@gastown/crew-1", "x"]).fails(4).says(&[told]);
    post.sandbox.agent("bob").args(["inbox", "--from", "gastown/crew-1"]).fails(4).says(&[told]);
    post.sandbox.agent("gastown/crew-1").arg("inbox").fails(4).says(&["FMAIL_AGENT", told]);
    post.fmail("bob", &["send", "@gastown-crew-1--x7s", "x"]);
    assert_eq!(post.list("inbox", "gastown/crew-1").len(), 1);
}

fn a_name_that_is_none_is_told(post: &Post) {
    let long = "A".repeat(60);
    let send = |to: &str, from: &str| {
        let input = json!({"from": from, "subject": "s", "body": "b"}).to_string();
        refused(&["send", to], post.script(&["send", to]).stdin(input).run())
    };
    send("", "alice").says(&["name is empty"]);
    send("bob", "").says(&["no sender", "`from` is empty"]);
    send(&long, "alice").says(&["is too long"]);
    send("bob", &long).says(&["is too long"]);
    post.fails(&["inbox", &long]).says(&["is too long"]);
    post.fails(&["count", &long]).says(&["is too long"]);
    assert_eq!(post.count("bob"), (0, 0));
}
