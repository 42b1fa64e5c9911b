//! Waiting for mail.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fmail_api::{NudgeRequest, Request, Response};
use serde_json::{Value, json};

use crate::client::{Client, PROJECT, field, on_each_store};

fn wait(agent: &str, seconds: u64, more: Value) -> Value {
    let mut arguments = json!({"project_key": PROJECT, "agent_name": agent, "timeout_seconds": seconds});
    arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    arguments
}

/// Starts a wait of BlueMountain's, and gives its answer when there is one.
fn waiting(client: &Client) -> mpsc::Receiver<Value> {
    let (told, heard) = mpsc::channel();
    let client = client.in_session("waiting");
    thread::spawn(move || told.send(client.call("wait_for_message", wait("BlueMountain", 60, json!({})))));
    heard
}

/// Nudges BlueMountain until a watch of its got one: then the wait has begun.
fn nudge_until_heard(client: &Client, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let nudge = NudgeRequest { to: "bluemountain".parse().unwrap(), text: text.into() };
        match client.beside("greendog", Request::Nudge(nudge)) {
            Ok(reply) if matches!(reply.head, Response::Nudged { sessions } if sessions > 0) => return,
            _ if Instant::now() > deadline => panic!("nobody waits"),
            _ => thread::yield_now(),
        }
    }
}

#[test]
fn what_was_not_told_is_told_at_once_and_only_once() {
    on_each_store(|client| {
        client.introduce();
        client.send(&["BlueMountain"], "one", "text", json!({}));
        client.send(&["BlueMountain"], "two", "text", json!({}));
        let told = client.call("wait_for_message", wait("bluemountain", 60, json!({})));
        let rows = told["messages"].as_array().unwrap();
        assert_eq!((field(rows, "subject"), &rows[0]["body_md"]), (vec![&json!("one"), &json!("two")], &json!("text")));
        assert_eq!((&told["count"], &told["timed_out"]), (&json!(2), &json!(false)));
        let again = client.call("wait_for_message", wait("BlueMountain", 0, json!({})));
        assert_eq!((&again["count"], &again["timed_out"], &again["messages"]), (&json!(0), &json!(true), &json!([])));
        assert_eq!(client.inbox("BlueMountain")[0]["read"], false, "told is not read");
        let behind = client.call("wait_for_message", wait("BlueMountain", 0, json!({"after_id": rows[0]["id"]})));
        assert_eq!(behind["messages"][0]["subject"], "two");
        let since =
            client.call("wait_for_message", wait("BlueMountain", 0, json!({"since_ts": rows[0]["created_ts"]})));
        assert_eq!(since["messages"][0]["subject"], "two");
        let (_, text) =
            client.fails("wait_for_message", wait("BlueMountain", 0, json!({"after_id": 1, "since": "2026-01-01"})));
        assert!(text.contains("exclude each other"), "{text}");
    });
}

#[test]
fn a_message_ends_the_wait() {
    on_each_store(|client| {
        client.introduce();
        for number in 0..20 {
            let heard = waiting(client);
            // No pause: the message may come before, while or after the wait looks, and is never missed.
            client.send(&["BlueMountain"], &format!("{number}"), "text", json!({}));
            let told = heard.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!((&told["count"], &told["messages"][0]["subject"]), (&json!(1), &json!(number.to_string())));
        }
    });
}

#[test]
fn mail_for_others_does_not_end_the_wait_and_a_nudge_does() {
    let client = Client::with_agents();
    let heard = waiting(&client);
    client.send(&["RedForest"], "not yours", "text", json!({}));
    nudge_until_heard(&client, "wake up");
    let told = heard.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!((&told["count"], &told["timed_out"]), (&json!(0), &json!(false)));
    assert_eq!((&told["nudge"]["from"], &told["nudge"]["text"]), (&json!("GreenDog"), &json!("wake up")));
}

#[test]
fn a_wait_ends_with_its_time_and_before_the_client_gives_up() {
    let client = Client::with_agents();
    let begun = Instant::now();
    let told = client.call("wait_for_message", wait("BlueMountain", 1, json!({})));
    assert!(told["timed_out"] == true && begun.elapsed() >= Duration::from_secs(1));
    let mut hurried = client.in_session("hurried");
    hurried.peer.deadline = Some(Duration::from_millis(700));
    let begun = Instant::now();
    assert_eq!(hurried.call("wait_for_message", wait("BlueMountain", 60, json!({})))["timed_out"], true);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let (_, text) = client.fails("wait_for_message", wait("BlueMountain", 601, json!({})));
    assert!(text.contains("at most 600"), "{text}");
    let (kind, _) = client.fails("wait_for_message", wait("Nobody", 1, json!({})));
    assert_eq!(kind, "AGENT_NOT_FOUND");
}

#[test]
fn a_wait_that_the_server_cuts_short_says_so() {
    let mut client = Client::with_agents();
    client.peer.deadline = Some(Duration::from_millis(700));
    let cut = client.call("wait_for_message", wait("BlueMountain", 300, json!({})));
    let note = cut["note"].as_str().unwrap();
    assert!(cut["timed_out"] == true && note.contains("300 seconds were asked for") && note.contains("0.2"), "{cut}");
    client.peer.deadline = None;
    assert_eq!(client.call("wait_for_message", wait("BlueMountain", 0, json!({}))).get("note"), None);
}
