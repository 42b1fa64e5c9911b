//! What the users of the upstream server complain about, each as a test that it is not so here.

use std::collections::BTreeSet;
use std::fs;

use fmail_e2e::tree;
use serde_json::{Value, json};

use crate::office::Office;

#[test]
fn two_paths_that_become_one_project() {
    let mut office = Office::with(&[]);
    let home = office.server.sandbox.home();
    let mut paths: Vec<String> = ["/col/a-b", "/col/a/b", "/COL/A_B"].map(String::from).into();
    for directory in ["col/a-b", "col/a/b", "COL/A_B"] {
        fs::create_dir_all(home.join(directory)).unwrap();
        paths.push(home.join(directory).display().to_string());
    }
    let told: Vec<Value> =
        paths.iter().map(|path| office.mcp.tool("ensure_project", json!({"human_key": path}))).collect();
    for field in ["id", "slug", "human_key"] {
        let distinct: BTreeSet<String> = told.iter().map(|project| project[field].to_string()).collect();
        assert_eq!(distinct.len(), paths.len(), "{field}: {told:?}");
    }
    for path in &paths {
        office.mcp.tool("register_agent", json!({"project_key": path, "name": "GreenDog"}));
        let message = json!({"project_key": path, "sender_name": "GreenDog", "to": ["GreenDog"], "subject": "s", "body_md": path});
        office.mcp.tool("send_message", message);
    }
    for (path, told) in paths.iter().zip(&told) {
        for key in [path, told["slug"].as_str().unwrap()] {
            let arguments = json!({"project_key": key, "agent_name": "GreenDog", "include_bodies": true});
            let inbox = office.mcp.tool("fetch_inbox", arguments);
            assert_eq!(inbox["result"].as_array().map(Vec::len), Some(1), "{key}");
            assert_eq!(inbox["result"][0]["body_md"], json!(path), "{key}");
        }
        let agents = office.mcp.read(&format!("resource://agents/{}", told["slug"].as_str().unwrap()));
        assert_eq!(agents["project"]["human_key"], json!(path));
    }
}

#[test]
fn globs_that_overlap_unseen() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    office
        .tool("file_reservation_paths", json!({"agent_name": "GreenDog", "paths": ["src/app.py"], "exclusive": true}));
    for wanted in ["src/app.py", "src/**", "src/", "src", "src/*.py", "./src/app.py", "**", "*/app.*", "s?c/[a-b]pp.py"]
    {
        for exclusive in [true, false] {
            let arguments = json!({"project_key": office.path, "agent_name": "BlueLake", "paths": [wanted], "exclusive": exclusive});
            let result = office.mcp.call("file_reservation_paths", arguments);
            let said = &result["structuredContent"];
            assert_eq!((&result["isError"], &said["granted"]), (&json!(true), &json!([])), "{wanted}: {result}");
            assert_eq!(said["conflicts"][0]["holders"][0]["agent"], "GreenDog", "{wanted}: {result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("FILE_RESERVATION_CONFLICT") && text.contains("GreenDog"), "{text}");
        }
    }
    // A pattern that leads upwards is refused, also where it would come back.
    for outside in ["src/../src/app.py", "/etc/passwd", "../x", "src/../../x", "", "/"] {
        let arguments = json!({"agent_name": "BlueLake", "paths": [outside], "exclusive": true});
        let said = office.error("file_reservation_paths", arguments);
        assert!(!said.contains("FILE_RESERVATION_CONFLICT"), "{outside}: {said}");
    }
    let held = office.fmail("bob").args(["reservations", "--json"]).ok().json();
    assert_eq!(held.as_array().map(Vec::len), Some(1), "{held}");
    // What does not overlap is granted.
    let free = json!({"agent_name": "BlueLake", "paths": ["src/*.rs", "src/app.pyc"], "exclusive": true});
    assert_eq!(office.tool("file_reservation_paths", free)["granted"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_message_delivered_although_the_call_failed() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    let good = json!({"sender_name": "GreenDog", "to": ["BlueLake"], "subject": "s", "body_md": "text"});
    let changes = [
        json!({"thread_id": "../../etc/passwd"}),
        json!({"thread_id": "a b"}),
        json!({"thread_id": "x".repeat(2000)}),
        json!({"to": ["BlueLake", "NobodyHere"]}),
        json!({"to": []}),
        json!({"to": "x\u{0}y"}),
        json!({"to": 7}),
        json!({"cc": ["NobodyHere"]}),
        json!({"bcc": ["NobodyHere"]}),
        json!({"importance": "extreme"}),
        json!({"ack_required": "perhaps"}),
        json!({"sender_name": "NobodyHere"}),
        json!({"subject": null}),
        json!({"body_md": ["a"]}),
        json!({"body_md": "x".repeat(2_000_000)}),
        json!({"attachment_paths": ["/etc/passwd"]}),
        json!({"broadcast": true}),
        json!({"topic": "task"}),
        json!({"no_such_argument": true}),
    ];
    for change in changes {
        let mut arguments = good.clone();
        for (name, value) in change.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let said = office.error("send_message", arguments);
        let shown: String = change.to_string().chars().take(60).collect();
        assert!(!said.is_empty() && office.inbox("BlueLake").is_empty(), "{shown}: {said}");
        assert!(!office.path.join(".fmail/dm").exists() || office.stored() == 0, "{shown}");
    }
    let before = office.send("GreenDog", "BlueLake", "good");
    for (name, value) in [
        ("message_id", json!(before + 1)),
        ("message_id", json!("msg-uuid-123")),
        ("to", json!(["NobodyHere"])),
        ("body_md", json!(5)),
    ] {
        let mut arguments = json!({"message_id": before, "sender_name": "BlueLake", "body_md": "answer"});
        arguments[name] = value;
        office.error("reply_message", arguments);
        assert_eq!(office.stored(), 1);
    }
    assert_eq!(office.bodies("BlueLake"), ["good"]);
}

#[test]
fn reading_that_consumes() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    let send = json!({"sender_name": "GreenDog", "to": ["BlueLake"], "subject": "s", "body_md": "- [ ] TODO zebra", "thread_id": "T-1", "ack_required": true});
    office.tool("send_message", send);
    let id = office.log("bluelake", "@bluelake")[0]["id"].clone();
    let receipt =
        |office: &Office| office.fmail("greendog").args(["receipt", id.as_str().unwrap(), "--json"]).ok().json();
    let (before, mail) = (receipt(&office), office.path.join(".fmail/records/mailbox"));
    let states = |mail: &std::path::Path| mail.exists().then(|| tree(mail));
    let states_before = states(&mail);
    assert_eq!(before["recipients"][0]["standing"], "unread");
    let project = office.path.to_str().unwrap().replace('/', "%2F");
    for unread_only in [true, false] {
        for _ in 0..2 {
            let arguments = json!({"agent_name": "BlueLake", "unread_only": unread_only, "include_bodies": true, "urgent_only": true});
            let inbox = office.tool("fetch_inbox", arguments);
            assert_eq!(
                (inbox["result"].as_array().map(Vec::len), &inbox["result"][0]["read"]),
                (Some(1), &json!(false))
            );
        }
    }
    for uri in ["inbox/BlueLake?include_bodies=true&project=", "thread/T-1?include_bodies=true&project=", "agents/"] {
        office.mcp.read(&format!("resource://{uri}{project}"));
    }
    office.tool("search_messages", json!({"query": "zebra"}));
    office.tool("search_messages", json!({"query": "zebra", "agent_name": "BlueLake"}));
    office.tool("summarize_thread", json!({"thread_id": "T-1", "include_examples": true}));
    office.tool("whois", json!({"agent_name": "BlueLake"}));
    office.tool("macro_start_session", json!({"agent_name": "BlueLake", "program": "p", "model": "m"}));
    office.tool(
        "macro_prepare_thread",
        json!({"agent_name": "BlueLake", "thread_id": "T-1", "include_inbox_bodies": true}),
    );
    assert_eq!(receipt(&office), before);
    assert_eq!(states(&mail), states_before, "nothing is noted about the mail");
    // A wait says that it has told; that is not reading.
    office.tool("wait_for_message", json!({"agent_name": "BlueLake", "timeout_seconds": 0}));
    assert_eq!(receipt(&office)["recipients"][0]["standing"], "unread");
    let agents = office.mcp.read(&format!("resource://agents/{project}"));
    let blue = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "BlueLake").unwrap();
    assert_eq!(blue["unread_count"], 1);
    assert_eq!(
        office.tool("fetch_inbox", json!({"agent_name": "BlueLake", "unread_only": true}))["result"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_typo_that_creates_a_mailbox() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    let number = office.send("GreenDog", "BlueLake", "good");
    let before = tree(&office.path.join(".fmail/dm"));
    let send = |sender: &str, to: &str| json!({"sender_name": sender, "to": [to], "subject": "s", "body_md": "b"});
    let calls = [
        ("send_message", send("GreenDog", "BlueLak")),
        ("send_message", send("GreenDgo", "BlueLake")),
        ("reply_message", json!({"message_id": number, "sender_name": "BlueLak", "body_md": "b"})),
        ("fetch_inbox", json!({"agent_name": "BlueLak"})),
        ("mark_message_read", json!({"agent_name": "BlueLak", "message_id": number})),
        ("acknowledge_message", json!({"agent_name": "BlueLak", "message_id": number})),
        ("file_reservation_paths", json!({"agent_name": "BlueLak", "paths": ["src"]})),
        ("release_file_reservations", json!({"agent_name": "BlueLak"})),
        ("renew_file_reservations", json!({"agent_name": "BlueLak"})),
        ("wait_for_message", json!({"agent_name": "BlueLak", "timeout_seconds": 1})),
        ("whois", json!({"agent_name": "BlueLak"})),
        ("search_messages", json!({"agent_name": "BlueLak", "query": "x"})),
    ];
    for (tool, arguments) in calls {
        let said = office.error(tool, arguments);
        let meant = if said.contains("GreenDgo") { "GreenDog" } else { "BlueLake" };
        assert!(said.contains("Did you mean") && said.contains(meant), "{tool}: {said}");
    }
    assert_eq!(tree(&office.path.join(".fmail/dm")), before);
    let who = office.fmail("greendog").args(["who", "--json"]).ok().json();
    let names: BTreeSet<&str> = who.as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["bluelake", "greendog"]), "{who}");
}
