//! Reservations: what is granted, and what is in the way.

use fmail_api::{Records, RecordsRequest, Request, Response, SharedRecord};
use serde_json::{Value, json};

use crate::client::{Client, PROJECT, on_each_store};

fn reserve(agent: &str, paths: Value, more: Value) -> Value {
    let mut arguments = json!({"project_key": PROJECT, "agent_name": agent, "paths": paths});
    arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    arguments
}

#[test]
fn a_conflict_serves_both_readings() {
    on_each_store(|client| {
        client.introduce();
        let alone = json!({"exclusive": true, "reason": "rename"});
        client.call("file_reservation_paths", reserve("GreenDog", json!(["src/app.py"]), alone.clone()));
        let result = client
            .result("file_reservation_paths", reserve("BlueMountain", json!(["src/**", "docs/x.md"]), alone.clone()));
        let told = &result["structuredContent"];
        assert_eq!(result["isError"], true);
        assert_eq!(told["error"]["type"], "FILE_RESERVATION_CONFLICT");
        assert_eq!(told["granted"][0]["path_pattern"], "docs/x.md", "what is free is granted");
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("Granted all the same: 'docs/x.md'."), "{said}");
        let conflict = &told["conflicts"][0];
        assert_eq!((&conflict["path"], &conflict["example"]), (&json!("src/**"), &json!("src/app.py")));
        let holder = &conflict["holders"][0];
        assert_eq!(
            (&holder["agent"], &holder["path_pattern"], &holder["exclusive"]),
            (&json!("GreenDog"), &json!("src/app.py"), &json!(true))
        );
        assert_eq!(holder["reason"], "rename");
        // Patterns that overlap are seen, whatever they look like.
        for pattern in ["src/", "src/*.py", "**/app.py", "./src/app.py", "src"] {
            let result = client.result("file_reservation_paths", reserve("RedForest", json!([pattern]), alone.clone()));
            assert_eq!(result["isError"], true, "{pattern}");
        }
        for outside in ["/etc/passwd", "../x", "src/../../x"] {
            let (kind, _) = client.fails("file_reservation_paths", reserve("RedForest", json!([outside]), json!({})));
            assert_eq!(kind, "INVALID_REQUEST", "{outside}");
        }
    });
}

#[test]
fn those_who_share_are_not_in_each_others_way() {
    let client = Client::with_agents();
    client.call("file_reservation_paths", reserve("GreenDog", json!("src/**"), json!({})));
    client.call("file_reservation_paths", reserve("BlueMountain", json!(["src/a.rs"]), json!({})));
    let (kind, _) =
        client.fails("file_reservation_paths", reserve("RedForest", json!(["src/a.rs"]), json!({"exclusive": true})));
    assert_eq!(kind, "FILE_RESERVATION_CONFLICT");
    let held = client.call(
        "check_file_reservation_conflicts",
        json!({"project_key": PROJECT, "paths": ["src/a.rs"], "agent_name": "GreenDog"}),
    );
    assert_eq!(
        (&held["has_conflicts"], &held["conflicts"][0]["holders"][0]["agent"]),
        (&json!(true), &json!("BlueMountain"))
    );
    let all = client.call("check_file_reservation_conflicts", json!({"project_key": PROJECT}));
    assert_eq!(all["file_reservations"].as_array().unwrap().len(), 2);
}

#[test]
fn absolute_paths_of_the_project_are_its_own() {
    let client = Client::with_agents();
    let granted = client.call(
        "file_reservation_paths",
        reserve("GreenDog", json!([format!("{PROJECT}/src/a.rs"), format!("{PROJECT}/docs/")]), json!({})),
    );
    assert_eq!(
        (&granted["granted"][0]["path_pattern"], &granted["granted"][1]["path_pattern"]),
        (&json!("src/a.rs"), &json!("docs"))
    );
    let released = client
        .call("release_file_reservations", reserve("GreenDog", json!([format!("{PROJECT}/src/a.rs")]), json!({})));
    assert_eq!(released["released"], 1);
}

#[test]
fn a_reservation_is_extended_renewed_and_given_back() {
    let client = Client::with_agents();
    let first =
        client.call("file_reservation_paths", reserve("GreenDog", json!(["a", "b"]), json!({"ttl_seconds": 3600})));
    let again = client.call("file_reservation_paths", reserve("GreenDog", json!(["a"]), json!({"ttl_seconds": 7200})));
    assert_eq!(first["granted"][0]["id"], again["granted"][0]["id"], "the same reservation");
    let named = |more: Value| {
        let mut arguments = json!({"project_key": PROJECT, "agent_name": "GreenDog"});
        arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        arguments
    };
    let extended = client.call("renew_file_reservations", named(json!({"extend_seconds": 60})));
    assert_eq!(extended["renewed"], 2);
    for row in extended["file_reservations"].as_array().unwrap() {
        assert_eq!(row["old_expires_ts"], row["new_expires_ts"], "more time is never less");
    }
    let renewed = client.call("renew_file_reservations", named(json!({"new_ttl_seconds": 60, "paths": ["b"]})));
    let row = &renewed["file_reservations"][0];
    assert!(row["new_expires_ts"].as_str() < row["old_expires_ts"].as_str(), "{row}");
    for (tool, more, says) in [
        ("renew_file_reservations", json!({"new_ttl_seconds": 60, "extend_seconds": 60}), "exclude each other"),
        ("renew_file_reservations", json!({"paths": []}), "paths cannot be an empty list"),
        ("release_file_reservations", json!({"paths": []}), "Omit it to release all"),
        ("release_file_reservations", json!({"file_reservation_ids": []}), "cannot be an empty list"),
    ] {
        let (_, text) = client.fails(tool, named(more));
        assert!(text.contains(says), "{text}");
    }
    let (_, text) = client.fails("file_reservation_paths", reserve("GreenDog", json!([]), json!({})));
    assert!(text.starts_with("paths list cannot be empty"), "{text}");
    let released = client.call("release_file_reservations", named(json!({"paths": ["b", "never"]})));
    assert_eq!((&released["released"], &released["skipped"][0]["named"]), (&json!(1), &json!("never")));
    let ids =
        client.call("release_file_reservations", named(json!({"file_reservation_ids": [first["granted"][0]["id"]]})));
    assert_eq!(ids["released"], 1);
    assert_eq!(client.call("release_file_reservations", named(json!({})))["released"], 0);
}

#[test]
fn what_another_host_holds_is_granted_and_shown() {
    on_each_store(|client| {
        client.introduce();
        let now = client.call("file_reservation_paths", reserve("GreenDog", json!(["docs/x.md"]), json!({})));
        let until = now["granted"][0]["expires_ts"].clone();
        let lease = json!({"id": 1, "agent": "eve", "pattern": "src/**", "exclusive": true,
            "since": "2026-01-10T15:30:00Z", "until": until});
        let value = json!({"stamp": "2026-01-10T15:30:00Z", "host": "elsewhere", "leases": [lease]});
        let key = format!("leases/{}", "e".repeat(32)).parse().unwrap();
        let merge = Request::Records(RecordsRequest::Merge(vec![SharedRecord { key, value }]));
        let merged = client.beside("peer", merge).unwrap().head;
        assert!(matches!(merged, Response::Records(Records::Merged { changed: 1, refused: 0 })), "{merged:?}");
        let alone = json!({"exclusive": true});
        let taken = client.call("file_reservation_paths", reserve("GreenDog", json!(["src/app.py"]), alone));
        assert_eq!(taken["granted"][0]["path_pattern"], "src/app.py");
        assert_eq!(taken["conflicts"][0]["holders"][0]["agent"], "eve");
        let warning = taken["warning"].as_str().unwrap();
        for part in ["Granted here", "eve on host elsewhere holds 'src/**' until ", "asked the holder"] {
            assert!(warning.contains(part), "{warning}");
        }
        // Both are listed, each in conflict with the other.
        let all = client.call("check_file_reservation_conflicts", json!({"project_key": PROJECT}));
        let rows = all["file_reservations"].as_array().unwrap();
        let of = |path: &str| rows.iter().find(|row| row["path_pattern"] == path).unwrap();
        assert_eq!((&of("src/**")["host"], &of("src/app.py")["host"]), (&json!("elsewhere"), &Value::Null), "{all}");
        assert_eq!(of("src/**")["conflicts"][0]["agent"], "GreenDog", "{all}");
        let against = &of("src/app.py")["conflicts"][0];
        assert_eq!((&against["agent"], &against["host"]), (&json!("eve"), &json!("elsewhere")), "{all}");
    });
}
