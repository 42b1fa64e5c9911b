//! Which project a client means, and that nothing is created where it should not be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fmail_e2e::mcp::{MailServer, Mcp};
use fmail_e2e::{Sandbox, tree};
use serde_json::{Value, json};

use crate::office::Office;

fn ensure(mcp: &mut Mcp, path: impl AsRef<Path>) -> Value {
    mcp.tool("ensure_project", json!({"human_key": path.as_ref()}))
}

fn data(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(".local/share/fmail")
}

#[test]
fn a_directory_below_home_is_the_project_of_the_command_line() {
    let office = Office::with(&["GreenDog"]);
    let inside = office.path.join("src/deep");
    fs::create_dir_all(&inside).unwrap();
    office.fmail_in(&inside, "bob").args(["send", "@greendog", "from a subdirectory"]).ok();
    let mut office = office;
    let told = ensure(&mut office.mcp, &inside);
    assert_eq!((&told["human_key"], &told["created"]), (&json!(office.path), &json!(false)), "{told}");
    let arguments = json!({"project_key": inside, "agent_name": "GreenDog", "include_bodies": true});
    let inbox = office.mcp.tool("fetch_inbox", arguments);
    assert_eq!(inbox["result"][0]["body_md"], "from a subdirectory");
    assert!(!inside.join(".fmail").exists());
}

#[test]
fn the_home_itself_becomes_no_project_unless_its_owner_wants_it() {
    let mut office = Office::with(&[]);
    let home = office.server.sandbox.home();
    let said = office.mcp.tool_error("ensure_project", json!({"human_key": home}));
    assert!(said.contains("allowed root") && said.contains("fmail init"), "{said}");
    assert!(!home.join(".fmail").exists());
    office.fmail_in(&home, "bob").arg("init").ok();
    let (told, below) = (ensure(&mut office.mcp, &home), home.join("x1"));
    assert_eq!((&told["canonical_path"], told.get("note")), (&json!(home), None), "{told}");
    fs::create_dir(&below).unwrap();
    let told = ensure(&mut office.mcp, &below);
    assert_eq!(told["human_key"], json!(home));
    let note = told["note"].as_str().unwrap();
    assert!(note.contains(&format!("'{}' belongs to the project '{}'", below.display(), home.display())), "{note}");
}

#[test]
fn a_project_of_the_command_line_outside_of_the_roots_is_not_said_to_be_missing() {
    let mut office = Office::with(&[]);
    let outside = office.server.sandbox.outside().join("outside");
    fs::create_dir_all(&outside).unwrap();
    office.fmail_in(&outside, "bob").arg("init").ok();
    let said = office.error("fetch_inbox", json!({"project_key": outside, "agent_name": "GreenDog"}));
    assert!(said.contains("not below an allowed root") && !said.contains("there is no project"), "{said}");
}

#[test]
fn every_spelling_of_a_path_and_its_slug_are_one_project() {
    let mut office = Office::with(&["GreenDog"]);
    let path = office.path.to_str().unwrap().to_string();
    let (above, name) = path.rsplit_once('/').unwrap();
    let slug = office.mcp.tool("ensure_project", json!({"human_key": path}))["slug"].clone();
    office.send("GreenDog", "GreenDog", "note to self");
    let spellings = [
        format!("{path}/"),
        format!("{above}//{name}"),
        format!("{above}/./{name}"),
        format!("{path}/x/.."),
        slug.as_str().unwrap().into(),
    ];
    for spelling in spellings {
        let inbox = office.mcp.tool("fetch_inbox", json!({"project_key": spelling, "agent_name": "GreenDog"}));
        assert_eq!(inbox["result"].as_array().map(Vec::len), Some(1), "{spelling}");
    }
}

#[test]
fn any_other_path_is_a_key_and_no_directory_is_made_outside() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside().join("outside");
    fs::create_dir_all(outside.join("there")).unwrap();
    symlink(&outside, sandbox.home().join("out")).unwrap();
    fs::write(sandbox.home().join("file"), "text").unwrap();
    let (before, home) = (tree(&outside), sandbox.home());
    let server = MailServer::without_project(sandbox, "");
    let mut mcp = server.client();
    let paths = [
        outside.join("there"),
        outside.join("not/there"),
        home.join("out/there"),
        home.join("file"),
        home.join("none"),
        "/no/such/x".into(),
    ];
    for path in &paths {
        let told = ensure(&mut mcp, path);
        let root = told["canonical_path"].as_str().unwrap();
        assert!(Path::new(root).starts_with(data(&server.sandbox).join("keys")), "{told}");
        assert_eq!(fs::metadata(root).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!((&told["human_key"], &told["created"]), (&json!(path), &json!(true)));
        let note = told["note"].as_str().unwrap();
        assert!(note.contains(root) && note.contains("mail.projects.roots"), "it says where its mail is: {note}");
        // It is a project like any other.
        mcp.tool("register_agent", json!({"project_key": path, "name": "GreenDog"}));
        let message = json!({"project_key": path, "sender_name": "GreenDog", "to": ["GreenDog"], "subject": "s", "body_md": path});
        mcp.tool("send_message", message);
        let fmail = server.sandbox.agent("greendog").cwd(Path::new(root)).args(["log", "@greendog", "--json"]).ok();
        assert_eq!(fmail.json_lines()[0]["body"], json!(path));
    }
    assert_eq!(tree(&outside), before);
    assert!(!home.join("none").exists() && !server.sandbox.store().exists());
    assert_eq!(fs::metadata(data(&server.sandbox)).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_path_that_is_no_project_is_refused_and_creates_nothing() {
    let mut office = Office::with(&[]);
    let never = office.server.sandbox.home().join("never");
    fs::create_dir(&never).unwrap();
    for path in [never.to_str().unwrap(), "/no/such/dir"] {
        let said = office.error("fetch_inbox", json!({"project_key": path, "agent_name": "GreenDog"}));
        assert!(said.contains("not found") && said.contains("ensure_project"), "{said}");
        office.error(
            "send_message",
            json!({"project_key": path, "sender_name": "a", "to": ["b"], "subject": "", "body_md": ""}),
        );
        office.error("register_agent", json!({"project_key": path, "name": "GreenDog"}));
    }
    assert!(!never.join(".fmail").exists());
    for path in ["relative/path", "", "./x", "~/x"] {
        let said = office.mcp.tool_error("ensure_project", json!({"human_key": path}));
        assert!(said.contains("absolute"), "{path}: {said}");
    }
}

#[test]
fn what_the_operator_does_not_allow_is_a_key_and_the_served_project_is_always_allowed() {
    let sandbox = Sandbox::new();
    let allowed = sandbox.home().join("allowed");
    fs::create_dir_all(allowed.join("app")).unwrap();
    fs::create_dir_all(sandbox.home().join("other")).unwrap();
    let server = MailServer::in_sandbox(sandbox, &format!("projects.roots = [{allowed:?}]"), "");
    let mut mcp = server.client();
    assert_eq!(ensure(&mut mcp, allowed.join("app"))["canonical_path"], json!(allowed.join("app")));
    assert_eq!(ensure(&mut mcp, server.sandbox.path())["canonical_path"], json!(server.sandbox.path()));
    let other = ensure(&mut mcp, server.sandbox.home().join("other"));
    assert!(Path::new(other["canonical_path"].as_str().unwrap()).starts_with(data(&server.sandbox)), "{other}");
    assert!(!server.sandbox.home().join("other/.fmail").exists());
}

#[test]
fn a_project_of_another_daemon_is_one_with_it() {
    let mut office = Office::with(&["GreenDog"]);
    let mut own = office.server.sandbox.command(fmail_e2e::forged_binary()).cwd(&office.path).spawn();
    while !own.stderr_line().contains("listening") {}
    let mut watch = office.fmail("bob").args(["watch", "@bob", "--json", "--count", "1"]).spawn();
    office.fmail("bob").args(["send", "@greendog", "through the other daemon"]).ok();
    assert_eq!(office.bodies("GreenDog"), ["through the other daemon"]);
    // The watch may not be there yet; what is sent before it is not repeated to it.
    let body = loop {
        office.send("GreenDog", "bob", "through this one");
        if let Some(line) = watch.line_within(std::time::Duration::from_millis(500)) {
            break serde_json::from_str::<Value>(&line).unwrap()["body"].clone();
        }
    };
    assert_eq!(body, "through this one");
}

#[test]
fn of_two_daemons_without_a_project_one_runs() {
    let office = Office::with(&[]);
    let forged = |args: &[&str]| office.server.sandbox.command(fmail_e2e::forged_binary()).args(args).run();
    let second = forged(&["--no-project"]);
    assert_eq!(second.code, 8, "{second}");
    second.says(&[&office.server.daemon.pid().to_string()]);
    let status = forged(&["status", "--no-project", "--json"]);
    assert_eq!((status.code, &status.json()["process"]), (0, &json!(office.server.daemon.pid())));
    assert_eq!(forged(&["stop", "--no-project"]).code, 0);
    assert_eq!(forged(&["status", "--no-project"]).code, 1);
}

#[test]
fn more_projects_than_may_be_open_are_all_served() {
    let mut office = Office::configured("projects.open = 2", &[]);
    let paths: Vec<PathBuf> = (0..6).map(|number| office.server.sandbox.home().join(format!("p{number}"))).collect();
    for round in 0..3 {
        for path in &paths {
            fs::create_dir_all(path).unwrap();
            ensure(&mut office.mcp, path);
            office.mcp.tool("register_agent", json!({"project_key": path, "name": "GreenDog"}));
            let body = format!("round {round}");
            office.mcp.tool(
                "send_message",
                json!({"project_key": path, "sender_name": "GreenDog", "to": ["GreenDog"], "subject": "s", "body_md": body}),
            );
            let inbox = office.mcp.tool("fetch_inbox", json!({"project_key": path, "agent_name": "GreenDog"}));
            assert_eq!(inbox["result"].as_array().map(Vec::len), Some(round + 1));
        }
    }
}
