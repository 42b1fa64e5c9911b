//! Registering, searching, summarising, the macros, and the list of tools.

use std::collections::BTreeSet;

use fmail_mcp::Profile;
use fmail_mcp::testing::LocalProjects;
use serde_json::{Value, json};

use crate::client::{Client, PROJECT, field, on_each_store};

fn listed(profile: Profile) -> Vec<Value> {
    let client = Client::new(LocalProjects::in_memory(), profile);
    client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
}

#[test]
fn the_list_of_tools_is_small() {
    for profile in [Profile::Minimal, Profile::Standard, Profile::Full] {
        let bytes = json!(listed(profile)).to_string().len();
        println!("{profile:?}: {bytes} bytes");
        assert!(
            bytes / 4 < 4_000,
            "{profile:?}: {bytes} bytes are about {} tokens, and 5,000 are the limit",
            bytes / 4
        );
    }
}

#[test]
fn each_profile_has_its_tools() {
    let names = |profile| {
        listed(profile).iter().map(|tool| tool["name"].as_str().unwrap().to_string()).collect::<BTreeSet<_>>()
    };
    let minimal =
        ["acknowledge_message", "ensure_project", "fetch_inbox", "health_check", "register_agent", "send_message"];
    assert_eq!(names(Profile::Minimal), minimal.map(String::from).into());
    let contract = [
        "health_check",
        "ensure_project",
        "register_agent",
        "send_message",
        "reply_message",
        "fetch_inbox",
        "mark_message_read",
        "acknowledge_message",
        "search_messages",
        "summarize_thread",
        "file_reservation_paths",
        "release_file_reservations",
        "renew_file_reservations",
        "macro_start_session",
        "macro_prepare_thread",
    ];
    let mut standard: BTreeSet<String> = contract.map(String::from).into();
    standard.extend(["whois", "wait_for_message"].map(String::from));
    assert_eq!(names(Profile::Standard), standard);
    assert!(names(Profile::Full).is_superset(&standard));
    let client = Client::new(LocalProjects::in_memory(), Profile::Minimal);
    assert_eq!(client.result("whois", json!({}))["isError"], true, "what is not offered is not there");
}

#[test]
fn every_tool_describes_itself_in_a_schema() {
    for tool in listed(Profile::Full) {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        assert!(tool["description"].as_str().is_some_and(|about| !about.is_empty()), "{tool}");
        let properties = schema["properties"].as_object().unwrap();
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(properties.contains_key(required.as_str().unwrap()), "{tool}");
        }
        assert!(tool["annotations"].is_object(), "{tool}");
    }
}

#[test]
fn requested_names_are_honoured_and_changes_are_told() {
    on_each_store(|client| {
        client.call("ensure_project", json!({"human_key": PROJECT}));
        for name in ["GreenDog", "BackendHarmonizer", "test_agent_1", "claude-code", "zoë", "Crew 7", "a.b:c/d"] {
            let agent = client.register(name);
            assert_eq!((&agent["name"], agent.get("note")), (&json!(name), None));
        }
        let again = client.register("GREENDOG");
        assert_eq!((&again["name"], &again["requested_name"]), (&json!("GreenDog"), &json!("GREENDOG")));
        assert!(again["note"].as_str().unwrap().contains("capitals make no difference"));
        assert_eq!(again["id"], client.register("GreenDog")["id"]);
        let generated = client.call("register_agent", json!({"project_key": PROJECT}));
        assert_eq!(generated["name"].as_str().unwrap().matches(char::is_uppercase).count(), 2, "{generated}");
        let empty = client.register(" ");
        assert!(empty["note"].as_str().unwrap().contains("empty"), "{empty}");
        for (name, says) in
            [("x".repeat(101), "too long"), ("a\nb".into(), "control"), ("anon-7".into(), "without a name")]
        {
            let (_, text) = client.fails("register_agent", json!({"project_key": PROJECT, "name": name}));
            assert!(text.contains(says), "{text}");
        }
    });
}

#[test]
fn who_comes_back_is_the_same_agent_with_what_it_says_now() {
    let client = Client::with_agents();
    let first = client.register("GreenDog");
    let again = client.call("register_agent", json!({"project_key": PROJECT, "name": "GreenDog", "task_description": "again", "attachments_policy": "inline"}));
    assert_eq!((&again["id"], &again["inception_ts"]), (&first["id"], &first["inception_ts"]));
    assert_eq!(
        (&again["program"], &again["task_description"], &again["attachments_policy"]),
        (&json!("claude-code"), &json!("again"), &json!("inline"))
    );
    let whois = client.call(
        "whois",
        json!({"project_key": PROJECT, "agent_name": "greendog", "include_recent_commits": true, "commit_limit": 5}),
    );
    assert_eq!(
        (&whois["name"], &whois["task_description"], &whois["recent_commits"]),
        (&json!("GreenDog"), &json!("again"), &json!([]))
    );
}

#[test]
fn two_paths_are_two_projects() {
    let client = Client::in_memory();
    let slugs: BTreeSet<String> = ["/col/a-b", "/col/a/b", "/COL/A_B"]
        .map(|key| client.call("ensure_project", json!({"human_key": key}))["slug"].as_str().unwrap().to_string())
        .into();
    assert_eq!(slugs.len(), 3);
    for key in ["/col/a-b", "/col/a/b", "/COL/A_B"] {
        client.call("register_agent", json!({"project_key": key, "name": "A", "task_description": key}));
    }
    for slug in slugs {
        let agents = client.read(&format!("resource://agents/{slug}"));
        assert_eq!(agents["agents"].as_array().unwrap().len(), 1);
        assert_eq!(agents["agents"][0]["task_description"], agents["project"]["human_key"]);
    }
}

#[test]
fn an_inbox_is_filtered_and_looking_changes_nothing() {
    on_each_store(|client| {
        client.introduce();
        let first = client.send(&["BlueMountain"], "plain", "b", json!({"thread_id": "T"}));
        client.send(&["BlueMountain"], "ack", "b", json!({"ack_required": true}));
        client.send(&["BlueMountain"], "high", "b", json!({"importance": "high", "thread_id": "T"}));
        let subjects = |more: Value| {
            let mut arguments = json!({"project_key": PROJECT, "agent_name": "BlueMountain"});
            arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            let rows = client.rows("fetch_inbox", arguments);
            field(&rows, "subject").iter().map(|subject| subject.as_str().unwrap().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(subjects(json!({})), ["high", "ack", "plain"]);
        assert_eq!(subjects(json!({"limit": 2})), ["high", "ack"]);
        for (more, told) in [
            (json!({"limit": 2}), true),
            (json!({"limit": 3}), false),
            (json!({"limit": 1, "urgent_only": true}), true),
        ] {
            let mut arguments = json!({"project_key": PROJECT, "agent_name": "BlueMountain"});
            arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            assert_eq!(
                client.call("fetch_inbox", arguments)["more"] == true,
                told,
                "what a limit leaves out is told: {more}"
            );
        }
        assert_eq!(subjects(json!({"urgent_only": true})), ["high", "ack"]);
        assert_eq!(subjects(json!({"urgent_only": true, "limit": 1})), ["high"]);
        assert_eq!(subjects(json!({"thread_id": "T"})), ["high", "plain"]);
        assert_eq!(subjects(json!({"since_ts": first["created_ts"]})), ["high", "ack"]);
        assert_eq!(subjects(json!({"since_ts": "2020-01-01"})).len(), 3);
        let before = client.inbox("BlueMountain");
        client.read("resource://inbox/BlueMountain?project=%2Fdata%2Fprojects%2Fbrenner_bot");
        assert_eq!(client.inbox("BlueMountain"), before);
        let agents = client.read("resource://agents/data-projects-brenner-bot");
        let unread = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "BlueMountain").unwrap();
        assert_eq!(unread["unread_count"], 3);
        let waiting = client.call(
            "wait_for_message",
            json!({"project_key": PROJECT, "agent_name": "BlueMountain", "timeout_seconds": 0}),
        );
        assert_eq!(waiting["count"], 3, "not even that they were seen was noted");
    });
}

#[test]
fn a_search_finds_what_is_meant_and_tells_what_it_cannot_read() {
    on_each_store(|client| {
        client.introduce();
        for (subject, body) in [("one", "alpha beta"), ("two", "alphabet soup"), ("three", "beta alpha")] {
            client.send(&["BlueMountain"], subject, body, json!({}));
        }
        let found = |query: &str| {
            let rows = client.rows("search_messages", json!({"project_key": PROJECT, "query": query}));
            field(&rows, "subject").iter().map(|subject| subject.as_str().unwrap().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("alpha"), ["three", "one"]);
        assert_eq!(found("\"alpha beta\""), ["one"]);
        assert_eq!(found("alpha*"), ["three", "two", "one"]);
        assert_eq!(found("alpha NOT subject:one"), ["three"]);
        assert!(found("zebra").is_empty());
        let (kind, text) = client.fails("search_messages", json!({"project_key": PROJECT, "query": "\"?!"}));
        assert!(kind == "INVALID_ARGUMENT" && text.starts_with("the query cannot be understood"), "{text}");
        let limited = client.call("search_messages", json!({"project_key": PROJECT, "query": "alpha*", "limit": 2}));
        assert_eq!((limited["result"].as_array().unwrap().len(), &limited["more"]), (2, &json!(true)));
        let empty = client.result("search_messages", json!({"project_key": PROJECT, "query": "zebra"}));
        assert_eq!(empty["content"][0]["text"], "{\"result\":[]}");
    });
}

#[test]
fn what_is_no_fts5_expression_is_searched_word_by_word_and_the_answer_says_so() {
    on_each_store(|client| {
        client.introduce();
        let texts =
            ["foo-bar", "see auth.rs", "RS-20251230-cell-fate", "we can't", "KICKOFF: x", "in C++", "an open end"];
        for text in texts {
            client.send(&["BlueMountain"], text, "a text", json!({}));
        }
        let search = |query: &str| client.call("search_messages", json!({"project_key": PROJECT, "query": query}));
        for (query, subject) in [
            ("foo-bar", "foo-bar"),
            ("auth.rs", "see auth.rs"),
            ("RS-20251230-cell-fate", "RS-20251230-cell-fate"),
            ("can't", "we can't"),
            ("KICKOFF: x", "KICKOFF: x"),
            ("C++", "in C++"),
            ("\"open", "an open end"),
        ] {
            let found = search(query);
            assert_eq!(found["result"][0]["subject"], subject, "{query}: {found}");
            assert!(found["note"].as_str().is_some_and(|note| note.contains("no FTS5 expression")), "{query}: {found}");
        }
        // What can be read as it stands means what it says.
        let plain = search("subject:foo NOT auth");
        assert_eq!((plain["result"].as_array().map(Vec::len), plain.get("note")), (Some(1), None), "{plain}");
    });
}

#[test]
fn a_tool_of_a_larger_profile_says_which() {
    let client = Client::new(LocalProjects::in_memory(), Profile::Standard);
    let said = client.result("fetch_topic", json!({}))["content"][0]["text"].to_string();
    assert!(said.contains("Unknown tool: fetch_topic") && said.contains("profile `full`"), "{said}");
}

#[test]
fn a_name_that_loses_blanks_or_its_sign_is_told() {
    let client = Client::with_agents();
    for (wanted, name) in [(" x ", "x"), ("@GreenDog", "GreenDog"), ("@Newcomer", "Newcomer")] {
        let agent = client.register(wanted);
        assert_eq!((&agent["name"], &agent["requested_name"]), (&json!(name), &json!(wanted)));
        assert!(agent["note"].as_str().is_some_and(|note| note.contains("no part of a name")), "{agent}");
    }
}

#[test]
fn a_project_that_lies_elsewhere_than_its_path_says_where() {
    let client = Client::in_memory();
    assert_eq!(client.call("ensure_project", json!({"human_key": PROJECT})).get("note"), None);
    let directory = tempfile::tempdir().unwrap();
    let client = Client::new(LocalProjects::in_files(directory.path()), Profile::Full);
    let told = client.call("ensure_project", json!({"human_key": PROJECT}));
    let note = told["note"].as_str().unwrap();
    let kept = directory.path().join("data-projects-brenner-bot").display().to_string();
    assert!(note.contains(&kept) && note.contains("mail.projects.roots"), "{note}");
    let started = client.call("macro_start_session", json!({"project_key": PROJECT}));
    assert_eq!(started["project"]["note"], note);
}

#[test]
fn the_last_part_of_a_path_suggests_its_project() {
    let client = Client::with_agents();
    let (kind, said) = client.fails("fetch_inbox", json!({"project_key": "brenner_bot", "agent_name": "GreenDog"}));
    assert_eq!(kind, "INVALID_PROJECT_KEY");
    assert!(said.contains("Did you mean: 'data-projects-brenner-bot'?"), "{said}");
    let (_, said) = client.fails("fetch_inbox", json!({"project_key": "/src/brenner-bot", "agent_name": "GreenDog"}));
    assert!(said.contains(&format!("Did you mean: '{PROJECT}'?")) && !said.contains("there is no project"), "{said}");
}

#[test]
fn threads_are_summarised_alone_and_together() {
    let client = Client::with_agents();
    client.send(&["BlueMountain"], "s1", "- first point @RedForest\n- [ ] open", json!({"thread_id": "T1"}));
    client.send(&["BlueMountain"], "s2", "- second point @RedForest\nTODO: more", json!({"thread_id": "T2"}));
    let one =
        client.call("summarize_thread", json!({"project_key": PROJECT, "thread_id": "T1", "include_examples": true}));
    assert_eq!((&one["summary"]["open_actions"], &one["examples"][0]["subject"]), (&json!(1), &json!("s1")));
    let both = client.call("summarize_thread", json!({"project_key": PROJECT, "thread_id": "T1, T2"}));
    assert_eq!(both["threads"].as_array().unwrap().len(), 2);
    assert_eq!(both["aggregate"]["top_mentions"], json!([{"name": "RedForest", "count": 2}]));
    let nothing = client.call("summarize_thread", json!({"project_key": PROJECT, "thread_id": "nothing"}));
    assert_eq!((&nothing["summary"]["total_messages"], nothing["note"].is_string()), (&json!(0), true));
    let newest =
        client.call("summarize_thread", json!({"project_key": PROJECT, "thread_id": "T1", "per_thread_limit": 1}));
    assert_eq!(newest["summary"]["total_messages"], 1);
}

#[test]
fn a_session_starts_though_a_path_is_taken() {
    let client = Client::with_agents();
    client.call(
        "file_reservation_paths",
        json!({"project_key": PROJECT, "agent_name": "BlueMountain", "paths": ["src/**"], "exclusive": true}),
    );
    client.send(&["RedForest"], "waiting for you", "b", json!({}));
    let session = client.call(
        "macro_start_session",
        json!({"human_key": PROJECT, "agent_name": "RedForest", "reserve_paths": ["src/a.rs", "docs"]}),
    );
    assert_eq!(session["agent"]["name"], "RedForest");
    assert_eq!(session["file_reservations"]["error"]["type"], "FILE_RESERVATION_CONFLICT");
    assert_eq!(session["file_reservations"]["granted"][0]["path_pattern"], "docs");
    assert_eq!((&session["inbox"][0]["subject"], session.get("inbox_more")), (&json!("waiting for you"), None));
    client.send(&["RedForest"], "another", "b", json!({}));
    let limited = client.call(
        "macro_prepare_thread",
        json!({"project_key": PROJECT, "thread_id": "T", "agent_name": "RedForest", "inbox_limit": 1}),
    );
    assert_eq!((limited["inbox"].as_array().unwrap().len(), &limited["inbox_more"]), (1, &json!(true)));
    let new = client.call("macro_start_session", json!({"project_key": "/another/one", "program": "p", "model": "m"}));
    assert_eq!((&new["project"]["human_key"], &new["inbox"]), (&json!("/another/one"), &json!([])));
    let (kind, _) = client.fails(
        "macro_prepare_thread",
        json!({"project_key": PROJECT, "thread_id": "T", "agent_name": "Nobody", "register_if_missing": false}),
    );
    assert_eq!(kind, "AGENT_NOT_FOUND");
}

#[test]
fn topics_and_receipts_are_shown_to_who_asks_for_all_tools() {
    let client = Client::with_agents();
    client
        .beside(
            "shell",
            fmail_api::Request::Send(Box::new(fmail_api::SendRequest::new("news".parse().unwrap(), "hello"))),
        )
        .unwrap();
    let rows =
        client.rows("fetch_topic", json!({"project_key": PROJECT, "topic_name": "news", "include_bodies": true}));
    assert_eq!((&rows[0]["body_md"], &rows[0]["topic"]), (&json!("hello"), &json!("news")));
    let row = client.send(&["BlueMountain"], "s", "b", json!({"cc": ["RedForest"]}));
    client.call(
        "mark_message_read",
        json!({"project_key": PROJECT, "agent_name": "BlueMountain", "message_id": row["id"]}),
    );
    let receipts = client
        .call("message_receipts", json!({"project_key": PROJECT, "agent_name": "GreenDog", "message_id": row["id"]}));
    assert_eq!(
        (&receipts["recipients"][0]["state"], &receipts["recipients"][1]["kind"]),
        (&json!("read"), &json!("cc"))
    );
}
