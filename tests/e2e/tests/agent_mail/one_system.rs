//! One system, not two: what one side does, the other sees.

use std::fs;

use serde_json::json;

use crate::office::Office;

#[test]
fn what_an_mcp_client_sends_is_in_the_log_the_inbox_and_the_files() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    office.send("GreenDog", "BlueLake", "from MCP");
    let log = office.log("bluelake", "@bluelake");
    assert_eq!(log.len(), 1);
    let (from, to) = (&log[0]["from"], &log[0]["to"]);
    assert_eq!(
        (from, to, &log[0]["body"], &log[0]["subject"]),
        (&json!("greendog"), &json!("@bluelake"), &json!("from MCP"), &json!("about"))
    );
    let file = office.path.join(format!(".fmail/dm/bluelake/{}.json", log[0]["id"].as_str().unwrap()));
    assert!(file.is_file());
    let inbox = office.fmail("bluelake").args(["inbox", "--json"]).ok().json_lines();
    assert_eq!(inbox.len(), 1);
    assert!(inbox[0].to_string().contains("from MCP"), "{inbox:?}");
}

#[test]
fn an_mcp_inbox_shows_what_the_command_line_stored() {
    let mut office = Office::with(&["GreenDog"]);
    office.fmail("bob").args(["send", "@greendog", "--subject", "hello", "from the shell"]).ok();
    office.fmail("bob").args(["send", "@greendog", r#"{"any": ["json"]}"#]).ok();
    let rows = office.inbox("GreenDog");
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[1]["from"], &rows[1]["subject"], &rows[1]["body_md"]),
        (&json!("bob"), &json!("hello"), &json!("from the shell"))
    );
    let body: serde_json::Value = serde_json::from_str(rows[0]["body_md"].as_str().unwrap()).unwrap();
    assert_eq!(body, json!({"any": ["json"]}));
    // And an answer to it goes back.
    let reply = json!({"message_id": rows[1]["id"], "sender_name": "GreenDog", "body_md": "back"});
    office.tool("reply_message", reply);
    let log = office.log("bob", "@bob");
    assert_eq!((&log[0]["body"], &log[0]["from"]), (&json!("back"), &json!("greendog")));
    assert_eq!(log[0]["reply_to"], office.log("greendog", "@greendog")[0]["id"]);
}

#[test]
fn an_agent_is_the_same_under_every_spelling_of_its_name() {
    let mut office = Office::with(&["GreenDog"]);
    let again = office.register("greendog");
    assert_eq!(again["name"], "GreenDog", "case is kept for display");
    assert!(again["note"].as_str().unwrap().contains("one agent"), "{again}");
    // The command line knows the agent by both.
    for (name, body) in [("greendog", "one"), ("GreenDog", "two")] {
        office.fmail("bob").args(["send", &format!("@{name}"), body]).ok();
    }
    assert_eq!(office.bodies("GREENDOG"), ["two", "one"]);
    let who = office.fmail("bob").args(["who", "--json"]).ok().json();
    let names: Vec<&str> = who.as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.to_lowercase().contains("green")).count(), 1, "{who}");
    // The other way round: an agent of the command line, called with capitals over MCP.
    office.send("GreenDog", "Bob", "hello");
    assert_eq!(office.log("bob", "@bob")[0]["body"], "hello");
}

#[test]
fn agents_of_the_command_line_are_in_the_directory_and_can_be_written_to() {
    let mut office = Office::with(&["GreenDog"]);
    office.fmail("carol").args(["register", "carol"]).ok();
    let agents = office.mcp.read(&format!("resource://agents/{}", encoded(&office)));
    let names: Vec<&str> =
        agents["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"carol") && names.contains(&"GreenDog"), "{agents}");
    office.send("GreenDog", "carol", "welcome");
    assert_eq!(office.log("carol", "@carol")[0]["body"], "welcome");
}

fn encoded(office: &Office) -> String {
    office.path.to_str().unwrap().replace('/', "%2F")
}

#[test]
fn an_acknowledgement_over_mcp_is_the_receipt_that_the_sender_sees() {
    let mut office = Office::with(&["GreenDog"]);
    office.fmail("bob").args(["send", "@greendog", "--ack-required", "please confirm"]).ok();
    let row = office.inbox("GreenDog").remove(0);
    assert_eq!((&row["ack_required"], &row["ack_ts"]), (&json!(true), &json!(null)));
    let id = office.log("greendog", "@greendog")[0]["id"].as_str().unwrap().to_string();
    let receipt = |office: &Office| office.fmail("bob").args(["receipt", &id, "--json"]).ok().json();
    assert_eq!(receipt(&office)["recipients"][0]["standing"], "unread");
    office.tool("mark_message_read", json!({"agent_name": "GreenDog", "message_id": row["id"]}));
    assert_eq!(receipt(&office)["recipients"][0]["standing"], "read");
    office.tool("acknowledge_message", json!({"agent_name": "GreenDog", "message_id": row["id"]}));
    assert_eq!(receipt(&office)["recipients"][0]["standing"], "acknowledged");
}

#[test]
fn the_command_line_knows_a_message_by_its_number_and_an_agent_by_its_display_name() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    let number = office.send("GreenDog", "BlueLake", "look").to_string();
    let id = office.log("bluelake", "@bluelake")[0]["id"].clone();
    let receipt = office.fmail("greendog").args(["receipt", &number, "--json"]).ok().json();
    assert_eq!(receipt["recipients"][0]["standing"], "unread", "{receipt}");
    office.fmail("bluelake").args(["reply", &number, "seen"]).ok();
    assert_eq!(office.log("greendog", "@greendog")[0]["reply_to"], id);
    office.fmail("greendog").args(["receipt", "99999999999"]).run().says(&["no message that you can read"]);
    let who = office.fmail("bob").arg("who").ok().stdout;
    assert!(who.contains("greendog (GreenDog)") && who.contains("bluelake (BlueLake)"), "{who}");
}

#[test]
fn an_acknowledgement_on_the_command_line_is_seen_over_mcp() {
    let mut office = Office::with(&["GreenDog", "BlueLake"]);
    office.send("GreenDog", "BlueLake", "please confirm");
    let id = office.log("bluelake", "@bluelake")[0]["id"].as_str().unwrap().to_string();
    office.fmail("bluelake").args(["read", &id]).ok();
    let row = office.inbox("BlueLake").remove(0);
    assert_eq!((&row["read"], &row["ack_ts"]), (&json!(true), &json!(null)));
    office.fmail("bluelake").args(["ack", &id]).ok();
    assert!(office.inbox("BlueLake")[0]["ack_ts"].is_string());
    // What is archived there is gone from the inbox here.
    office.fmail("bluelake").args(["archive", &id]).ok();
    assert!(office.inbox("BlueLake").is_empty());
}

#[test]
fn a_reservation_over_mcp_stands_against_the_command_line_and_its_guard() {
    let office = Office::with(&["GreenDog"]);
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
        office.server.sandbox.command("git".as_ref()).cwd(&office.path).agent("bob").args(identity).args(args).run()
    };
    assert_eq!(git(&["init", "-q"]).code, 0);
    office.fmail("bob").args(["guard", "install"]).ok();
    fs::create_dir_all(office.path.join("src")).unwrap();
    fs::write(office.path.join("src/app.py"), "x\n").unwrap();
    let mut client = office.server.client();
    let reserved = client.tool(
        "file_reservation_paths",
        json!({"project_key": office.path, "agent_name": "GreenDog", "paths": ["src/**"], "exclusive": true, "reason": "mine"}),
    );
    let held = office.fmail("bob").args(["reservations", "--json"]).ok().json();
    assert_eq!(
        (&held[0]["agent"], &held[0]["pattern"], &held[0]["id"]),
        (&json!("greendog"), &json!("src/**"), &reserved["granted"][0]["id"])
    );
    assert_eq!(office.fmail("bob").args(["reserve", "src/app.py", "--exclusive"]).run().code, 8);
    assert_eq!(git(&["add", "src/app.py"]).code, 0);
    let commit = git(&["commit", "-q", "-m", "x"]);
    assert!(commit.code != 0 && commit.stderr.contains("greendog"), "{commit}");
    let released = json!({"project_key": office.path, "agent_name": "GreenDog", "paths": ["src/**"]});
    assert_eq!(client.tool("release_file_reservations", released)["released"], 1);
    assert_eq!(git(&["commit", "-q", "-m", "x"]).code, 0);
    office.fmail("bob").args(["reserve", "src/app.py", "--exclusive"]).ok();
}

#[test]
fn a_reservation_on_the_command_line_stands_against_mcp() {
    let mut office = Office::with(&["GreenDog"]);
    fs::create_dir_all(office.path.join("src")).unwrap();
    office.fmail_in(&office.path.join("src"), "bob").args(["reserve", "app.py", "--exclusive", "--ttl", "10m"]).ok();
    let wanted = json!({"agent_name": "GreenDog", "paths": ["src/*.py", "docs"], "exclusive": true});
    let arguments =
        json!({"project_key": office.path, "agent_name": "GreenDog", "paths": ["src/*.py", "docs"], "exclusive": true});
    let result = office.mcp.call("file_reservation_paths", arguments);
    let said = &result["structuredContent"];
    assert_eq!(
        (&result["isError"], &said["conflicts"][0]["holders"][0]["agent"]),
        (&json!(true), &json!("bob")),
        "{result}"
    );
    assert_eq!(said["granted"][0]["path_pattern"], "docs", "the others are granted: {result}");
    office.fmail("bob").args(["release", "--all"]).ok();
    assert_eq!(office.tool("file_reservation_paths", wanted)["granted"].as_array().unwrap().len(), 2);
    // Renewed by one, seen by the other.
    let before = office.fmail("bob").args(["reservations", "--json"]).ok().json()[0]["until"].clone();
    office.tool("renew_file_reservations", json!({"agent_name": "GreenDog", "new_ttl_seconds": 7200}));
    let after = office.fmail("bob").args(["reservations", "--json"]).ok().json()[0]["until"].clone();
    assert!(after.as_str() > before.as_str(), "{before} {after}");
}

#[test]
fn threads_and_search_know_what_both_sides_sent() {
    let mut office = Office::with(&["GreenDog"]);
    office
        .fmail("bob")
        .args(["send", "@greendog", "--subject", "KICKOFF: zebra", "--thread", "RS-1", "first zebra"])
        .ok();
    let send = json!({"sender_name": "GreenDog", "to": ["bob"], "subject": "DELTA", "body_md": "second zebra", "thread_id": "RS-1"});
    office.tool("send_message", send);
    let uri = format!("resource://thread/RS-1?project={}&include_bodies=true", encoded(&office));
    let thread = office.mcp.read(&uri);
    let bodies: Vec<&str> =
        thread["messages"].as_array().unwrap().iter().map(|row| row["body_md"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["first zebra", "second zebra"]);
    let found = office.tool("search_messages", json!({"query": "zebra"}));
    assert_eq!(found["result"].as_array().map(Vec::len), Some(2), "{found}");
    let id = office.log("greendog", "@greendog")[0]["id"].as_str().unwrap().to_string();
    let thread = office.fmail("greendog").args(["thread", &id, "--json"]).ok().json_lines();
    assert_eq!(thread.len(), 2, "{thread:?}");
    let found = office.fmail("bob").args(["search", "second", "--json"]).ok().json_lines();
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_client_that_waits_is_woken_by_the_command_line_and_a_watch_by_mcp() {
    let mut office = Office::with(&["GreenDog"]);
    let (path, mut waiting) = (office.path.clone(), office.server.client());
    let waiting = std::thread::spawn(move || {
        let arguments = json!({"project_key": path, "agent_name": "GreenDog", "timeout_seconds": 60});
        waiting.tool("wait_for_message", arguments)
    });
    // Whether it waits already does not matter: mail that came before counts too.
    office.fmail("bob").args(["send", "@greendog", "wake up"]).ok();
    let woken = waiting.join().unwrap();
    assert_eq!((&woken["timed_out"], &woken["messages"][0]["body_md"]), (&json!(false), &json!("wake up")), "{woken}");

    let mut watch = office.fmail("bob").args(["watch", "@bob", "--json", "--count", "1"]).spawn();
    watch.await_watching();
    office.send("GreenDog", "bob", "good morning");
    assert_eq!(watch.json()["body"], "good morning");
}
