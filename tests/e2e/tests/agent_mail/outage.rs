//! An outage that reads as an empty inbox: here it is an error, and says what is wrong.

use std::fs;

use serde_json::{Value, json};

use crate::office::Office;

/// Everything that shows mail.
fn questions(office: &Office) -> Vec<(&'static str, Value)> {
    let project = office.path.to_str().unwrap();
    let encoded = project.replace('/', "%2F");
    let tool = |name: &str, mut arguments: Value| {
        arguments["project_key"] = json!(project);
        ("tools/call", json!({"name": name, "arguments": arguments}))
    };
    let resource = |uri: String| ("resources/read", json!({"uri": uri}));
    vec![
        tool("fetch_inbox", json!({"agent_name": "BlueLake"})),
        tool("fetch_inbox", json!({"agent_name": "BlueLake", "unread_only": true})),
        tool("fetch_inbox", json!({"agent_name": "BlueLake", "urgent_only": true})),
        tool("wait_for_message", json!({"agent_name": "BlueLake", "timeout_seconds": 0})),
        resource(format!("resource://inbox/BlueLake?project={encoded}")),
        resource(format!("resource://agents/{encoded}")),
    ]
}

/// Asks everything; gives what was answered, and whether that is an error.
fn asked(office: &mut Office) -> Vec<(String, bool, String)> {
    let questions = questions(office);
    let ask = |(method, params): (&str, Value)| {
        let name = params.get("name").or(params.get("uri")).unwrap().to_string();
        let answer = office.mcp.ask(method, params);
        let failed = answer.get("error").is_some() || answer["result"]["isError"] == true;
        (name, failed, answer.to_string())
    };
    questions.into_iter().map(ask).collect()
}

#[track_caller]
fn all_fail(office: &mut Office, part: &str) {
    for (question, failed, answer) in asked(office) {
        assert!(failed && answer.contains(part), "{question}: {answer}");
    }
}

#[track_caller]
fn all_answer(office: &mut Office) {
    for (question, failed, answer) in asked(office) {
        assert!(!failed && (answer.contains("BlueLake") || answer.contains("about")), "{question}: {answer}");
    }
}

fn with_mail() -> Office {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    for body in ["first", "second"] {
        let to = json!({"sender_name": "GreenDog", "to": ["BlueLake"], "subject": "about", "body_md": body, "ack_required": true});
        office.tool("send_message", to);
    }
    let newest = office.inbox("BlueLake")[0]["id"].clone();
    office.tool("mark_message_read", json!({"agent_name": "BlueLake", "message_id": newest}));
    office
}

#[test]
fn a_mailbox_that_cannot_be_listed_is_an_error() {
    let mut office = with_mail();
    all_answer(&mut office);
    let (mailbox, aside) = (office.path.join(".fmail/dm/bluelake"), office.path.join(".fmail/aside"));
    fs::rename(&mailbox, &aside).unwrap();
    fs::write(&mailbox, "no directory").unwrap();
    all_fail(&mut office, "bluelake");
    fs::remove_file(&mailbox).unwrap();
    fs::rename(&aside, &mailbox).unwrap();
    assert_eq!(office.bodies("BlueLake"), ["second", "first"]);
}

#[test]
fn a_broken_record_of_what_was_read_is_an_error_that_names_it() {
    let mut office = with_mail();
    let states = office.path.join(".fmail/records/mailbox/bluelake");
    let names: Vec<String> =
        fs::read_dir(&states).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let record = states.join(names.iter().find(|name| name.starts_with("20")).unwrap());
    let whole = fs::read(&record).unwrap();
    fs::write(&record, "{ half of a rec").unwrap();
    let _ = fs::remove_file(states.join("tally.json"));
    all_fail(&mut office, "is not JSON");
    fs::write(&record, whole).unwrap();
    assert_eq!(office.bodies("BlueLake"), ["second", "first"]);
}

#[test]
fn a_project_that_is_gone_is_an_error_until_it_is_back() {
    let mut office = with_mail();
    let (store, aside) = (office.path.join(".fmail"), office.path.join("aside"));
    fs::rename(&store, &aside).unwrap();
    all_fail(&mut office, "app");
    let message = json!({"sender_name": "GreenDog", "to": ["BlueLake"], "subject": "s", "body_md": "b"});
    office.error("send_message", message);
    assert!(!store.exists(), "nothing begins anew by itself");
    fs::rename(&aside, &store).unwrap();
    assert_eq!(office.bodies("BlueLake"), ["second", "first"]);
}

#[test]
fn a_store_that_cannot_be_opened_is_an_error() {
    let mut office = with_mail();
    // A daemon that was started anew opens it then.
    fs::write(office.path.join(".fmail/config.toml"), "mail.store = 'nowhere'\n").unwrap();
    office = office.restart();
    all_fail(&mut office, "nowhere");
    assert_eq!(office.mcp.tool("health_check", json!({}))["status"], "ready", "the daemon itself is well");
    fs::remove_file(office.path.join(".fmail/config.toml")).unwrap();
    assert_eq!(office.bodies("BlueLake"), ["second", "first"]);
}

#[test]
fn what_is_remembered_of_projects_and_cannot_be_read_is_an_error() {
    let mut office = with_mail();
    let known = office.server.sandbox.home().join(".local/share/fmail/projects");
    let slug =
        office.mcp.tool("ensure_project", json!({"human_key": office.path}))["slug"].as_str().unwrap().to_string();
    let by_slug = json!({"project_key": slug, "agent_name": "BlueLake"});
    assert_eq!(office.tool("fetch_inbox", by_slug.clone())["result"].as_array().map(Vec::len), Some(2));
    fs::rename(&known, known.with_extension("aside")).unwrap();
    fs::write(&known, "no directory").unwrap();
    let said = office.error("fetch_inbox", by_slug.clone());
    assert!(said.contains("projects"), "{said}");
    fs::remove_file(&known).unwrap();
    fs::rename(known.with_extension("aside"), &known).unwrap();
    assert_eq!(office.tool("fetch_inbox", by_slug)["result"].as_array().map(Vec::len), Some(2));
}
