//! Mailboxes over the socket, byte for byte, against the daemon that really runs them.

mod common;

use common::{Place, Raw};
use serde_json::Value;

/// Asks as an agent; `rest` is what the command takes.
fn ask(raw: &mut Raw, agent: &str, command: &str, rest: &str) -> Value {
    raw.ask(&line(agent, command, rest))
}

fn line(agent: &str, command: &str, rest: &str) -> String {
    format!(r#"{{"cmd":"{command}","agent":"{agent}"{rest},"req_id":"1"}}"#)
}

/// The bytes of an answer.
fn bytes(raw: &mut Raw, agent: &str, command: &str, rest: &str) -> String {
    raw.send(&line(agent, command, rest)).line()
}

/// The lines of a stream that ends, without its end.
fn streamed(raw: &mut Raw, agent: &str, command: &str, rest: &str) -> Vec<Value> {
    let head = ask(raw, agent, command, rest);
    assert_eq!(head["ok"], true, "{head}");
    let mut lines = Vec::new();
    loop {
        let next = raw.json();
        if next["event"] == "end" {
            return lines;
        }
        lines.push(next);
    }
}

fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["msg"]["id"].as_str().unwrap()).collect()
}

fn sent(raw: &mut Raw, to: &str, body: &str) -> String {
    let answer = ask(raw, "alice", "send", &format!(r#","to":"{to}","body":"{body}""#));
    answer["id"].as_str().unwrap().to_string()
}

#[test]
fn each_mark_answers_with_its_bytes_and_says_when_it_is_so_already() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let id = sent(&mut raw, "@bob", "hello");
    let named = format!(r#","id":"{id}""#);
    let done = format!("{{\"ok\":true,\"id\":\"{id}\",\"req_id\":\"1\"}}\n");
    let already = format!("{{\"ok\":true,\"id\":\"{id}\",\"already\":true,\"req_id\":\"1\"}}\n");
    for mark in ["retrieved", "mark_read", "mark_unread", "ack", "archive", "unarchive", "delete"] {
        assert_eq!(bytes(&mut raw, "bob", mark, &named), done, "{mark}");
        if mark != "delete" {
            assert_eq!(bytes(&mut raw, "bob", mark, &named), already, "{mark} again");
        }
    }
    assert_eq!(ask(&mut raw, "bob", "read", &named)["error"]["code"], "not_found", "it was deleted");
}

#[test]
fn an_inbox_a_check_and_a_count_agree_and_only_reading_reads() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let (one, two) = (sent(&mut raw, "@bob", "one"), sent(&mut raw, "@bob", "two"));
    sent(&mut raw, "@carol", "hers");
    sent(&mut raw, "task", "for all");
    for command in ["inbox", "check"] {
        assert_eq!(ids(&streamed(&mut raw, "bob", command, "")), [&one, &two], "{command}");
    }
    let peeked = streamed(&mut raw, "bob", "peek", &format!(r#","id":"{one}""#));
    assert_eq!(peeked[0]["mail"]["standing"], "unread");
    let counted = bytes(&mut raw, "bob", "count", "");
    assert!(counted.starts_with("{\"ok\":true,\"total\":2,\"unread\":2,\"unread_set\":\""), "{counted}");
    let read = streamed(&mut raw, "bob", "read", &format!(r#","ids":["{one}"]"#));
    assert_eq!((&read[0]["msg"]["body"], &read[0]["mail"]["standing"]), (&"one".into(), &"read".into()));
    let fewer = bytes(&mut raw, "bob", "count", "");
    assert!(fewer.starts_with("{\"ok\":true,\"total\":2,\"unread\":1,\"unread_set\":\""), "{fewer}");
    assert_ne!(counted.replace("\"unread\":2", "\"unread\":1"), fewer, "another set");
    let receipt = ask(&mut raw, "alice", "receipt", &format!(r#","id":"{one}""#));
    assert_eq!(receipt["receipt"]["recipients"][0]["standing"], "read", "{receipt}");
}

#[test]
fn a_reply_and_its_thread() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let id = sent(&mut raw, "@bob", "may I?");
    let reply = ask(&mut raw, "bob", "reply", &format!(r#","id":"{id}","body":"yes""#));
    assert_eq!((&reply["msg"]["to"], &reply["msg"]["reply_to"]), (&"@alice".into(), &id.as_str().into()), "{reply}");
    let answer = reply["id"].as_str().unwrap().to_string();
    for agent in ["alice", "bob"] {
        assert_eq!(ids(&streamed(&mut raw, agent, "thread", &format!(r#","id":"{answer}""#))), [&id, &answer]);
    }
    assert!(streamed(&mut raw, "eve", "thread", &format!(r#","id":"{answer}""#)).is_empty());
}

#[test]
fn the_mail_of_others_is_not_found_and_not_changed() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let id = sent(&mut raw, "@bob", "for bob alone");
    let named = format!(r#","id":"{id}""#);
    for command in ["read", "peek", "ack", "archive", "delete", "receipt"] {
        assert_eq!(ask(&mut raw, "eve", command, &named)["error"]["code"], "not_found", "{command}");
    }
    assert!(streamed(&mut raw, "eve", "inbox", "").is_empty());
    assert_eq!(ask(&mut raw, "alice", "archive", &named)["error"]["code"], "denied", "the sender keeps out of it");
    assert_eq!(ids(&streamed(&mut raw, "bob", "check", "")), [&id]);
}

#[test]
fn two_connections_claim_different_messages_and_finish_them_by_token() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let (mut first, mut second) = (place.connect(), place.connect());
    let sent: Vec<String> = ["one", "two"].map(|body| sent(&mut first, "@bob", body)).into();
    let claim = r#","limit":1,"claim_seconds":60"#;
    let taken = [&mut first, &mut second].map(|raw| streamed(raw, "bob", "inbox", claim).remove(0));
    let mut claimed: Vec<&str> = taken.iter().map(|line| line["msg"]["id"].as_str().unwrap()).collect();
    claimed.sort_unstable();
    assert_eq!(claimed, sent);
    assert!(streamed(&mut first, "bob", "inbox", claim).is_empty(), "there is nothing left to claim");
    let (id, token) = (&taken[0]["msg"]["id"], &taken[0]["mail"]["claim"]["token"]);
    let refused =
        ask(&mut second, "bob", "ack", &format!(r#","id":{id},"token":{}"#, taken[1]["mail"]["claim"]["token"]));
    assert_eq!(refused["error"]["code"], "conflict", "{refused}");
    assert_eq!(ask(&mut second, "bob", "ack", &format!(r#","id":{id},"token":{token}"#))["ok"], true);
}
