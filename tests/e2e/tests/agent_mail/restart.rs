//! What clients remember stays true after the daemon was started again.

use serde_json::{Value, json};

use crate::office::Office;

/// Everything that has a number.
fn numbers(office: &mut Office) -> Value {
    let project = office.mcp.tool("ensure_project", json!({"human_key": office.path}));
    let key = office.mcp.tool("ensure_project", json!({"human_key": "/col/key"}));
    let agent = office.tool("whois", json!({"agent_name": "GreenDog"}));
    let inbox = office.inbox("BlueLake");
    let held = json!({"agent_name": "GreenDog", "paths": ["src/**"], "exclusive": true});
    let reserved = office.tool("file_reservation_paths", held);
    json!({
        "project": [project["id"], project["slug"], project["created_at"]],
        "key": [key["id"], key["slug"], key["created_at"]],
        "agent": [agent["id"], agent["name"], agent["project_id"]],
        "message": [inbox[0]["id"], inbox[0]["project_id"], inbox[0]["sender_id"], inbox[0]["created_ts"]],
        "reservation": reserved["granted"][0]["id"],
    })
}

#[test]
fn numbers_slugs_and_times_are_the_same_after_a_restart_and_a_kill() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    let number = office.send("GreenDog", "BlueLake", "remember me");
    let before = numbers(&mut office);
    assert!(
        before["message"][0].is_u64() && before["project"][0].is_u64() && before["reservation"].is_u64(),
        "{before}"
    );
    office = office.restart();
    assert_eq!(numbers(&mut office), before);
    office = office.revive();
    assert_eq!(numbers(&mut office), before);
    // An old number still means the message.
    let acknowledged = office.tool("acknowledge_message", json!({"agent_name": "BlueLake", "message_id": number}));
    assert_eq!((&acknowledged["message_id"], &acknowledged["acknowledged"]), (&json!(number), &json!(true)));
    let reply =
        office.tool("reply_message", json!({"message_id": number, "sender_name": "BlueLake", "body_md": "yes"}));
    assert_eq!(reply["reply_to"], json!(number));
}

#[test]
fn slugs_never_collide_across_restarts() {
    let mut office = Office::with(&[]);
    let ensure = |office: &mut Office, path: &str| office.mcp.tool("ensure_project", json!({"human_key": path}));
    let first = ensure(&mut office, "/col/a-b");
    office = office.restart();
    let second = ensure(&mut office, "/col/a/b");
    office = office.restart();
    let third = ensure(&mut office, "/COL/A_B");
    assert_eq!(first["slug"], "col-a-b");
    assert!(first["slug"] != second["slug"] && second["slug"] != third["slug"] && first["slug"] != third["slug"]);
    office = office.restart();
    for (path, told) in [("/COL/A_B", &third), ("/col/a-b", &first), ("/col/a/b", &second)] {
        let again = ensure(&mut office, path);
        assert_eq!((&again["slug"], &again["id"], &again["created"]), (&told["slug"], &told["id"], &json!(false)));
        let agents = office.mcp.read(&format!("resource://agents/{}", told["slug"].as_str().unwrap()));
        assert_eq!(agents["project"]["human_key"], path);
    }
}

#[test]
fn a_project_that_was_found_is_found_by_its_slug_after_a_restart() {
    let mut office = Office::with(&["GreenDog"]);
    office.send("GreenDog", "GreenDog", "note");
    let slug =
        office.mcp.tool("ensure_project", json!({"human_key": office.path}))["slug"].as_str().unwrap().to_string();
    office = office.restart();
    let inbox = office.mcp.read(&format!("resource://inbox/GreenDog?project={slug}"));
    assert_eq!(inbox["count"], 1);
}
