//! The contract's examples, request by request, and its tables.

use serde_json::{Value, json};

use crate::client::{Client, PROJECT, field, on_each_store};

const THREAD: &str = "RS-20251230-cell-fate";

#[test]
fn the_typical_workflow_works_step_by_step() {
    on_each_store(|client| {
        assert_eq!(client.call("health_check", json!({}))["status"], "ready");

        let project = client.call("ensure_project", json!({"human_key": PROJECT}));
        assert_eq!((&project["slug"], &project["human_key"]), (&json!("data-projects-brenner-bot"), &json!(PROJECT)));
        assert!(project["created_at"].as_str().unwrap().ends_with("+00:00"));

        let agent = client.call(
            "register_agent",
            json!({"project_key": PROJECT, "name": "GreenDog", "program": "claude-code", "model": "opus-4.5",
                "task_description": "Protocol kernel development"}),
        );
        assert_eq!(
            (&agent["name"], &agent["program"], &agent["model"]),
            (&json!("GreenDog"), &json!("claude-code"), &json!("opus-4.5"))
        );
        assert!(agent["id"].is_u64());
        client.register("BlueMountain");
        client.register("RedForest");

        let reserved = client.call(
            "file_reservation_paths",
            json!({"project_key": PROJECT, "agent_name": "GreenDog", "paths": ["apps/web/src/**"], "ttl_seconds": 3600,
                "exclusive": true}),
        );
        assert_eq!(reserved["granted"][0]["path_pattern"], "apps/web/src/**");

        let sent = client.call(
            "send_message",
            json!({"project_key": PROJECT, "sender_name": "GreenDog", "to": ["BlueMountain", "RedForest"],
                "subject": "KICKOFF: Cell fate investigation", "body_md": "# Research Session\n\n...", "thread_id": THREAD,
                "ack_required": true}),
        );
        assert_eq!(sent["count"], 1);
        let id = sent["deliveries"][0]["payload"]["id"].clone();
        assert!(id.is_u64());

        let inbox = client.rows(
            "fetch_inbox",
            json!({"project_key": PROJECT, "agent_name": "BlueMountain", "limit": 20, "unread_only": true}),
        );
        assert_eq!(field(&inbox, "id"), [&id]);

        let read = json!({"project_key": PROJECT, "message_id": id, "agent_name": "BlueMountain"});
        assert_eq!(client.call("mark_message_read", read)["read"], true);

        let acknowledged = client.call(
            "acknowledge_message",
            json!({"project_key": PROJECT, "message_id": id, "agent_name": "BlueMountain",
                "ack_body": "Received and understood"}),
        );
        assert_eq!(acknowledged["acknowledged"], true);

        let reply = client.call(
            "reply_message",
            json!({"project_key": PROJECT, "message_id": id, "sender_name": "BlueMountain", "body_md": "## Response\n\n..."}),
        );
        assert_eq!((&reply["thread_id"], &reply["reply_to"]), (&json!(THREAD), &id));

        let renewed = client.call(
            "renew_file_reservations",
            json!({"project_key": PROJECT, "agent_name": "GreenDog", "paths": ["apps/web/src/**"], "new_ttl_seconds": 3600}),
        );
        assert_eq!(renewed["renewed"], 1);
        let released = client.call(
            "release_file_reservations",
            json!({"project_key": PROJECT, "agent_name": "GreenDog", "paths": ["apps/web/src/**"]}),
        );
        assert_eq!(released["released"], 1);
    });
}

#[test]
fn search_summary_and_macros_answer_as_the_contract_asks() {
    on_each_store(|client| {
        client.introduce();
        client.send(&["BlueMountain"], "INFO", "a hypothesis slate\n- TODO: test it", json!({"thread_id": THREAD}));
        let found =
            client.rows("search_messages", json!({"project_key": PROJECT, "query": "hypothesis slate", "limit": 10}));
        assert_eq!(field(&found, "subject"), ["INFO"]);

        let summary = client.call("summarize_thread", json!({"project_key": PROJECT, "thread_id": THREAD}));
        assert_eq!(summary["summary"]["participants"], json!(["GreenDog"]));
        assert_eq!(summary["summary"]["action_items"], json!(["- TODO: test it"]));

        let session = client.call(
            "macro_start_session",
            json!({"project_key": PROJECT, "agent_name": "GreenDog", "program": "claude-code", "model": "opus-4.5",
                "task_description": "Protocol development", "reserve_paths": ["apps/web/src/**"]}),
        );
        assert_eq!(session["agent"]["task_description"], "Protocol development");
        assert_eq!(session["file_reservations"]["granted"][0]["exclusive"], true);

        let prepared = client.call(
            "macro_prepare_thread",
            json!({"project_key": PROJECT, "agent_name": "GreenDog", "thread_id": THREAD}),
        );
        assert_eq!(
            (&prepared["thread"]["total_messages"], &prepared["agent"]["program"]),
            (&json!(1), &json!("claude-code"))
        );
    });
}

#[test]
fn the_three_resources_are_read_by_the_contracts_addresses() {
    on_each_store(|client| {
        client.introduce();
        client.send(&["GreenDog"], "KICKOFF", "to myself", json!({"thread_id": THREAD}));
        let agents = client.read("resource://agents/data-projects-brenner-bot");
        assert_eq!(agents["project"]["human_key"], PROJECT);
        let inbox = client.read("resource://inbox/GreenDog?project=%2Fdata%2Fprojects%2Fbrenner_bot&limit=20");
        assert_eq!((&inbox["agent"], &inbox["count"]), (&json!("GreenDog"), &json!(1)));
        let thread = client.read(
            "resource://thread/RS-20251230-cell-fate?project=%2Fdata%2Fprojects%2Fbrenner_bot&include_bodies=true",
        );
        assert_eq!(thread["messages"][0]["body_md"], "to myself");
    });
}

#[test]
fn each_error_of_the_contracts_table_says_what_to_do() {
    let client = Client::with_agents();
    let (kind, text) = client.fails("fetch_inbox", json!({"project_key": PROJECT, "agent_name": "GreenDogg"}));
    assert_eq!(kind, "AGENT_NOT_FOUND");
    assert!(text.starts_with("Agent 'GreenDogg' not found") && text.contains("Did you mean: 'GreenDog'"), "{text}");
    assert!(text.contains("register_agent"), "{text}");

    let (kind, text) = client.fails("fetch_inbox", json!({"project_key": "/nope/x", "agent_name": "GreenDog"}));
    assert_eq!(kind, "PROJECT_NOT_FOUND");
    assert!(text.starts_with("Project '/nope/x' not found") && text.contains("ensure_project"), "{text}");

    let relative = [
        ("fetch_inbox", json!({"project_key": "brenner_bot", "agent_name": "GreenDog"})),
        ("ensure_project", json!({"human_key": "brenner_bot"})),
    ];
    for (tool, arguments) in relative {
        let (kind, text) = client.fails(tool, arguments);
        assert_eq!(kind, "INVALID_PROJECT_KEY");
        assert!(text.starts_with("Invalid project_key") && text.contains("absolute"), "{text}");
    }

    let wanted =
        |agent: &str| json!({"project_key": PROJECT, "agent_name": agent, "paths": ["src/**"], "exclusive": true});
    client.call("file_reservation_paths", wanted("GreenDog"));
    let (kind, text) = client.fails("file_reservation_paths", wanted("BlueMountain"));
    assert_eq!(kind, "FILE_RESERVATION_CONFLICT");
    assert!(text.contains("FILE_RESERVATION_CONFLICT") && text.contains("GreenDog"), "{text}");
}

#[test]
fn the_defaults_are_the_contracts() {
    let client = Client::with_agents();
    let granted = |more: Value| {
        let mut arguments = json!({"project_key": PROJECT, "agent_name": "GreenDog", "paths": ["a"]});
        arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        client.call("file_reservation_paths", arguments)["granted"][0].take()
    };
    let lease = granted(json!({}));
    assert_eq!(lease["exclusive"], false);
    let until: fmail_api::Timestamp = lease["expires_ts"].as_str().unwrap().parse().unwrap();
    let now: fmail_api::Timestamp =
        client.call("ensure_project", json!({"human_key": "/now"}))["created_at"].as_str().unwrap().parse().unwrap();
    assert!((590..=600).contains(&until.since(now).as_secs()), "{lease}");
    for number in 0..25 {
        client.send(&["RedForest"], &format!("{number}"), "x", json!({}));
    }
    let inbox = client.rows("fetch_inbox", json!({"project_key": PROJECT, "agent_name": "RedForest"}));
    assert_eq!((inbox.len(), &inbox[0]["subject"]), (20, &json!("24")));
}
