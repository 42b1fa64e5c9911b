//! A client that behaves as a real one does: Brenner Bot's web client and its command line.

use serde_json::{Value, json};

use crate::client::{Client, PROJECT, on_each_store};

/// No `initialize`, no session, ids that are texts; the answer is the object if there is one.
fn unwrapped(client: &Client, tool: &str, arguments: Value) -> Value {
    let mut result = client.result(tool, arguments);
    match result.get_mut("structuredContent") {
        Some(structured) => structured.take(),
        None => result,
    }
}

/// What it does before it knows whether it may send.
fn is_registered(client: &Client, agent: &str) -> bool {
    let asked = json!({"project_key": PROJECT, "agent_name": agent, "include_recent_commits": false});
    client.result("whois", asked)["isError"] == false
}

#[test]
fn the_command_line_registers_sends_and_reads() {
    on_each_store(|client| {
        assert_eq!(unwrapped(client, "health_check", json!({}))["status"], "ready");
        let ensured = unwrapped(client, "ensure_project", json!({"human_key": PROJECT}));
        assert!(ensured["slug"].is_string());
        assert!(!is_registered(client, "GreenDog"));
        for name in ["GreenDog", "BlueMountain"] {
            let told = json!({"project_key": PROJECT, "program": "brenner-cli", "model": "n/a", "name": name,
                "task_description": null});
            assert_eq!(unwrapped(client, "register_agent", told)["name"], name);
        }
        assert!(is_registered(client, "GreenDog"));
        let sent = unwrapped(
            client,
            "send_message",
            json!({"project_key": PROJECT, "sender_name": "GreenDog", "to": ["BlueMountain"], "subject": "DELTA[x]: y",
                "body_md": "text", "thread_id": null, "ack_required": true, "cc": null, "bcc": null, "importance": null}),
        );
        assert!(sent["deliveries"].as_array().is_some_and(|deliveries| !deliveries.is_empty()));
        let id = sent["deliveries"][0]["payload"]["id"].as_u64().expect("a number");
        assert!(id < 1 << 53);
        let inbox = unwrapped(
            client,
            "fetch_inbox",
            json!({"project_key": PROJECT, "agent_name": "BlueMountain", "limit": 20, "urgent_only": false,
                "include_bodies": true, "since_ts": null}),
        );
        let row = &inbox["result"][0];
        assert_eq!((&row["ack_required"], row["id"].as_u64()), (&json!(true), Some(id)));
        let ids = unwrapped(
            client,
            "acknowledge_message",
            json!({"project_key": PROJECT, "agent_name": "BlueMountain", "message_id": id.to_string()}),
        );
        assert_eq!(ids["acknowledged"], true);
        let thread = unwrapped(
            client,
            "summarize_thread",
            json!({"project_key": PROJECT, "thread_id": "none", "include_examples": true, "llm_mode": false}),
        );
        assert_eq!((&thread["summary"]["total_messages"], &thread["examples"]), (&json!(0), &json!([])));
    });
}

#[test]
fn agents_are_found_in_each_of_the_three_ways_that_it_tries() {
    let client = Client::with_agents();
    for uri in [
        "resource://agents?project=%2Fdata%2Fprojects%2Fbrenner_bot",
        "resource://agents/%2Fdata%2Fprojects%2Fbrenner_bot",
        "resource://agents//data/projects/brenner_bot",
        "resource://agents/data/projects/brenner_bot",
    ] {
        let agents = client.read(uri);
        assert_eq!(agents["agents"].as_array().unwrap().len(), 3, "{uri}");
    }
}

#[test]
fn answers_are_found_by_their_numeric_reply_to_in_the_thread() {
    let client = Client::with_agents();
    let kickoff = client.send(&["BlueMountain"], "KICKOFF: x", "go", json!({"thread_id": "RS-1"}));
    let arguments =
        json!({"project_key": PROJECT, "message_id": kickoff["id"], "sender_name": "BlueMountain", "body_md": "d"});
    let reply = client.call("reply_message", arguments);
    let thread = client.read("resource://thread/RS-1?project=%2Fdata%2Fprojects%2Fbrenner_bot&include_bodies=true");
    let rows = thread["messages"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| &row["id"]).collect::<Vec<_>>(),
        [&kickoff["id"], &reply["id"]],
        "the oldest first"
    );
    assert_eq!(rows[1]["reply_to"], kickoff["id"]);
    assert!(rows[1]["reply_to"].is_u64() && rows[0].get("reply_to").is_none());
}

#[test]
fn an_unknown_tool_is_an_answer_and_not_an_error_of_the_protocol() {
    let client = Client::in_memory();
    let answer = client.request("tools/call", json!({"name": "list_contacts", "arguments": {}}));
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(answer["result"]["content"][0]["text"], "Unknown tool: list_contacts");
}
