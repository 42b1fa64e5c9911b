//! Arguments in every form in which clients send them.

use serde_json::{Value, json};

use crate::client::{Client, PROJECT};

fn inbox(client: &Client, more: Value) -> (bool, String) {
    let mut arguments = json!({"project_key": PROJECT, "agent_name": "GreenDog"});
    arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let result = client.result("fetch_inbox", arguments);
    (result["isError"] == false, result["content"][0]["text"].as_str().unwrap().into())
}

#[test]
fn both_vocabularies_are_understood() {
    let client = Client::with_agents();
    let held = json!({"project_key": PROJECT, "agent_name": "GreenDog", "paths": ["a"]});
    client.call("file_reservation_paths", held);
    for (tool, arguments) in [
        ("ensure_project", json!({"project_key": PROJECT})),
        ("ensure_project", json!({"human_key": PROJECT, "identity_mode": "dir"})),
        (
            "macro_start_session",
            json!({"human_key": PROJECT, "program": "p", "model": "m", "agent_name": "A1",
            "file_reservation_paths": ["x"], "file_reservation_reason": "r", "file_reservation_ttl_seconds": 60}),
        ),
        ("macro_start_session", json!({"project_key": PROJECT, "agent_name": "A2", "reserve_paths": ["y"]})),
        ("renew_file_reservations", json!({"project_key": PROJECT, "agent_name": "GreenDog", "extend_seconds": 60})),
        ("renew_file_reservations", json!({"project_key": PROJECT, "agent_name": "GreenDog", "new_ttl_seconds": 60})),
        (
            "release_file_reservations",
            json!({"project_key": PROJECT, "agent_name": "GreenDog", "file_reservation_ids": [1]}),
        ),
        (
            "fetch_inbox",
            json!({"project_key": "data-projects-brenner-bot", "agent_name": "greendog", "format": "json",
            "registration_token": "t"}),
        ),
        ("summarize_thread", json!({"project_key": PROJECT, "thread_id": "t", "llm_mode": true, "llm_model": "m"})),
    ] {
        client.call(tool, arguments);
    }
}

#[test]
fn a_typing_error_is_told_with_what_was_meant() {
    let client = Client::with_agents();
    let (ok, text) = inbox(&client, json!({"limt": 5}));
    assert!(!ok && text == "unknown argument `limt`; did you mean `limit`?", "{text}");
    let (ok, text) = inbox(&client, json!({"colour": "red"}));
    assert!(!ok && text.contains("fetch_inbox takes project_key, agent_name, limit"), "{text}");
    let unknown = client.result("send_mesage", json!({}));
    assert_eq!(unknown["content"][0]["text"], "Unknown tool: send_mesage. Did you mean: send_message?");
}

#[test]
fn numbers_may_be_texts_and_nulls_count_as_absent() {
    let client = Client::with_agents();
    for more in [
        json!({"limit": 5}),
        json!({"limit": "5"}),
        json!({"limit": 5.0}),
        json!({"limit": null}),
        json!({"unread_only": "true"}),
        json!({"since_ts": null, "thread_id": null, "colour": null}),
    ] {
        assert!(inbox(&client, more.clone()).0, "{more}");
    }
}

#[test]
fn wrong_types_and_values_say_what_was_found() {
    let client = Client::with_agents();
    for (more, says) in [
        (json!({"limit": 0}), "limit must be at least 1, got 0"),
        (json!({"limit": 1001}), "limit must be at most 1000, got 1001"),
        (json!({"limit": -3}), "limit must be at least 1, got -3"),
        (json!({"limit": "many"}), "limit must be a whole number, got 'many'"),
        (json!({"limit": 1.5}), "limit must be a whole number, got 1.5"),
        (json!({"limit": [1]}), "limit must be a whole number, got a list"),
        (json!({"limit": 1e300}), "limit must be a whole number"),
        (json!({"unread_only": 1}), "unread_only must be true or false, got 1"),
        (json!({"thread_id": {}}), "thread_id must be a text, got an object"),
        (json!({"since_ts": "yesterday"}), "Invalid since_ts format: 'yesterday'"),
        (json!({"agent_name": ""}), "it is empty"),
        (json!({"topic": "news"}), "`topic` cannot be honoured"),
    ] {
        let (ok, text) = inbox(&client, more.clone());
        assert!(!ok && text.contains(says), "{more}: {text}");
    }
    let (_, text) = client.fails("fetch_inbox", json!({"project_key": PROJECT}));
    assert!(text.starts_with("fetch_inbox needs `agent_name`"), "{text}");
    let (_, text) = client.fails("ensure_project", json!({"human_key": PROJECT, "project_key": "/other"}));
    assert!(text.contains("given twice"), "{text}");
    let wrong = client.request("tools/call", json!({"name": "fetch_inbox", "arguments": [1]}));
    assert_eq!(wrong["error"]["code"], -32602);
    let wrong = client.request("tools/call", json!({"arguments": {}}));
    assert_eq!(wrong["error"]["code"], -32602);
}

#[test]
fn a_message_is_named_by_its_number_as_number_or_text_and_by_its_id() {
    let client = Client::with_agents();
    let row = client.send(&["BlueMountain"], "s", "b", json!({}));
    let number = row["id"].as_i64().unwrap();
    let id = fmail_api::MessageId::from_number(number).unwrap().to_string();
    for name in [json!(number), json!(number.to_string()), json!(id)] {
        let read = client.call(
            "mark_message_read",
            json!({"project_key": PROJECT, "agent_name": "BlueMountain", "message_id": name}),
        );
        assert_eq!((&read["message_id"], &read["read"]), (&json!(number), &json!(true)));
    }
    for (name, says) in [
        (json!("msg-uuid-123"), "not the id of a message"),
        (json!(1.5), "not the id"),
        (json!(true), "must be the id"),
    ] {
        let (_, text) = client.fails(
            "mark_message_read",
            json!({"project_key": PROJECT, "agent_name": "BlueMountain", "message_id": name}),
        );
        assert!(text.contains(says), "{text}");
    }
    let (kind, text) = client
        .fails("mark_message_read", json!({"project_key": PROJECT, "agent_name": "BlueMountain", "message_id": 99999}));
    assert!(kind == "MESSAGE_NOT_FOUND" && text.starts_with("Message '99999' not found"), "{text}");
}
