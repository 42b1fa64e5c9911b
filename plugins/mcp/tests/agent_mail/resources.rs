//! Resources, by every address that means one.

use serde_json::{Value, json};

use crate::client::{Client, PROJECT, field, on_each_store};

#[test]
fn an_inbox_has_its_project_its_agent_and_its_count() {
    on_each_store(|client| {
        client.introduce();
        for subject in ["one", "two", "three"] {
            client.send(&["BlueMountain"], subject, "text", json!({"ack_required": subject == "two"}));
        }
        for project in ["%2Fdata%2Fprojects%2Fbrenner_bot", "/data/projects/brenner_bot", "data-projects-brenner-bot"] {
            let inbox = client.read(&format!("resource://inbox/bluemountain?project={project}&limit=2&agent_token=x"));
            assert_eq!(
                (&inbox["project"], &inbox["agent"], &inbox["count"]),
                (&json!(PROJECT), &json!("BlueMountain"), &json!(2))
            );
            let rows = inbox["messages"].as_array().unwrap();
            assert_eq!(field(rows, "subject"), ["three", "two"]);
            assert!(rows[0].get("body_md").is_none());
        }
        // There is only one project, so it need not be named.
        let inbox = client.read("resource://inbox/BlueMountain?urgent_only=true&include_bodies=1");
        assert_eq!((&inbox["count"], &inbox["messages"][0]["body_md"]), (&json!(1), &json!("text")));
        client.call("ensure_project", json!({"human_key": "/second"}));
        let error = client.unreadable("resource://inbox/BlueMountain");
        assert_eq!(error["code"], -32602);
        assert!(
            error["message"].as_str().unwrap().starts_with("project parameter is required for inbox resource"),
            "{error}"
        );
    });
}

#[test]
fn agents_come_with_what_they_have_not_read_the_most_recent_first() {
    let client = Client::with_agents();
    client.send(&["BlueMountain"], "s", "b", json!({}));
    let agents = client.read("resource://agents/data-projects-brenner-bot");
    assert_eq!(agents["project"], json!({"slug": "data-projects-brenner-bot", "human_key": PROJECT}));
    let rows = agents["agents"].as_array().unwrap();
    let times: Vec<&str> = rows.iter().map(|row| row["last_active_ts"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|one, two| one >= two), "{times:?}");
    let unread = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["unread_count"].clone();
    assert_eq!((unread("BlueMountain"), unread("GreenDog")), (json!(1), json!(0)));
}

#[test]
fn a_thread_is_found_by_its_name_and_by_the_number_of_a_message() {
    on_each_store(|client| {
        client.introduce();
        let first = client.send(&["BlueMountain"], "no thread", "b", json!({}));
        let number = first["id"].to_string();
        client.send(&["BlueMountain"], "named after it", "b", json!({"thread_id": number}));
        let named = client.send(&["BlueMountain"], "x", "b", json!({"thread_id": "T-9"}));
        let thread =
            |id: &str| client.read(&format!("resource://thread/{id}?project=%2Fdata%2Fprojects%2Fbrenner_bot"));
        assert_eq!(thread(&number)["messages"].as_array().unwrap().len(), 2);
        assert_eq!(thread(&number)["messages"][1]["thread_id"], number);
        assert_eq!(thread("T-9")["messages"][0]["id"], named["id"]);
        assert_eq!(thread(&named["id"].to_string())["messages"][0]["id"], named["id"]);
        assert_eq!(thread("4711"), json!({"project": PROJECT, "thread_id": "4711", "messages": []}));
        client.send(&["BlueMountain"], "a ticket", "b", json!({"thread_id": "4711"}));
        assert_eq!(thread("4711")["messages"][0]["thread_id"], "4711");
    });
}

#[test]
fn what_is_not_there_is_an_error_with_its_code() {
    let client = Client::with_agents();
    for (uri, code, says) in [
        ("resource://nope/x", -32002, "Unknown resource: 'resource://nope/x'"),
        ("file:///etc/passwd", -32002, "Unknown resource"),
        ("resource://inbox", -32002, "Unknown resource"),
        ("resource://inbox/Nobody", -32002, "Agent 'Nobody' not found"),
        ("resource://agents/nowhere", -32002, "Invalid project_key"),
        ("resource://inbox/GreenDog?project=%2Fno", -32002, "Project '/no' not found"),
        ("resource://inbox/GreenDog?limit=0", -32602, "limit must be a number from 1 to 1000"),
        ("resource://inbox/GreenDog?since_ts=soon", -32602, "Invalid since_ts"),
    ] {
        let error = client.unreadable(uri);
        assert_eq!(error["code"], code, "{uri}: {error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        assert_eq!(error["data"]["uri"], uri);
    }
    let missing = client.request("resources/read", json!({}));
    assert_eq!(missing["error"]["code"], -32602);
    let newest =
        json!({"uri": "resource://nope/x", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    assert_eq!(client.request("resources/read", newest)["error"]["code"], -32602);
}

#[test]
fn blanks_and_signs_in_a_project_path_are_understood() {
    let client = Client::in_memory();
    let key = "/home/user/my project+x%20";
    client.call("ensure_project", json!({"human_key": key}));
    client.call("register_agent", json!({"project_key": key, "name": "Zoë"}));
    for project in
        ["%2Fhome%2Fuser%2Fmy%20project%2Bx%2520", "/home/user/my project%2Bx%2520", "/home/user/my%20project+x%2520"]
    {
        let inbox = client.read(&format!("resource://inbox/Zo%C3%AB?project={project}"));
        assert_eq!((&inbox["project"], &inbox["agent"]), (&json!(key), &json!("Zoë")));
    }
}

#[test]
fn resources_and_their_templates_are_listed() {
    let client = Client::with_agents();
    let listed = client.request("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], "resource://agents/data-projects-brenner-bot");
    let templates = client.request("resources/templates/list", Value::Null);
    let names: Vec<&str> = templates["result"]["resourceTemplates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|template| template["uriTemplate"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 3);
    assert!(names[0] == "resource://agents/{project_key}" && names[1].starts_with("resource://inbox/{agent_name}"));
}
