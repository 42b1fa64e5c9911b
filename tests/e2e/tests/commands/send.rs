//! `fmail send`

use std::path::Path;

use fmail_e2e::Sandbox;
use serde_json::{Value, json};

/// Sends as `me` with these arguments and gives the stored message, read from its file.
fn stored(sandbox: &Sandbox, args: &[&str]) -> Value {
    let id = sandbox.agent("me").arg("send").args(args).ok().stdout;
    let file = format!(".fmail/topics/{}/{}.json", args[0], id.trim_end());
    let text = std::fs::read_to_string(sandbox.path().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_str(&text).expect("a message is JSON")
}

#[test]
fn the_id_alone_is_on_stdout_and_the_file_is_the_specification_s() {
    let sandbox = Sandbox::new();
    let output = sandbox.agent("me").args(["send", "task", "hello"]).ok();
    let id = output.stdout.strip_suffix('\n').expect("a line");
    assert!(id.len() == 20 && !id.contains('\n'), "{output}");
    let message: Value =
        serde_json::from_slice(&std::fs::read(sandbox.store().join(format!("topics/task/{id}.json"))).expect("stored"))
            .expect("JSON");
    let keys: Vec<&String> = message.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["id", "from", "to", "time", "body"], "as small as SPEC.md shows it");
    assert_eq!(message["id"], id);
    let time = message["time"].as_str().expect("a time");
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
}

#[test]
fn json_prints_the_stored_message() {
    let sandbox = Sandbox::new();
    let message = sandbox.agent("me").args(["send", "task", "hello", "--json"]).ok().json();
    assert_eq!(sandbox.log("me", &["task"]), [message]);
}

#[test]
fn the_first_send_says_that_it_created_the_project_and_the_second_says_nothing() {
    let sandbox = Sandbox::new();
    sandbox.agent("me").args(["send", "task", "one"]).ok().says(&["created", ".fmail"]);
    assert_eq!(sandbox.agent("me").args(["send", "task", "two"]).ok().stderr, "");
}

#[test]
fn every_option_and_its_short_form() {
    let sandbox = Sandbox::new();
    let first = stored(&sandbox, &["task", "first"]);
    let id = first["id"].as_str().expect("an id");
    let long = ["task", "x", "--reply-to", id, "--priority", "high", "--tag", "urgent", "--tag", "auth"];
    let short = ["task", "x", "-r", id, "-p", "high", "-t", "urgent,auth"];
    for args in [&long[..], &short[..]] {
        let message = stored(&sandbox, args);
        assert_eq!(message["reply_to"], id);
        assert_eq!(message["priority"], "high");
        assert_eq!(message["tags"], json!(["urgent", "auth"]));
    }
    assert_eq!(stored(&sandbox, &["task", "x", "-p", "low"])["priority"], "low");
    assert!(stored(&sandbox, &["task", "x", "-p", "normal"]).get("priority").is_none(), "the default is left out");
}

#[test]
fn options_may_stand_anywhere() {
    let sandbox = Sandbox::new();
    sandbox.agent("me").args(["send", "-t", "a", "task", "-p", "high", "body"]).ok();
    assert_eq!(sandbox.log("me", &[])[0]["body"], "body");
}

#[test]
fn any_json_value_is_a_body_and_everything_else_is_text() {
    let sandbox = Sandbox::new();
    let cases = [
        ("true", json!(true)),
        ("null", Value::Null),
        ("42", json!(42)),
        ("\"quoted\"", json!("quoted")),
        ("[1, 2]", json!([1, 2])),
        (r#"{"b":1,"a":{"c":null}}"#, json!({"b": 1, "a": {"c": null}})),
        ("{not json}", json!("{not json}")),
        ("plain", json!("plain")),
        ("grüße 🎉 \u{7f}", json!("grüße 🎉 \u{7f}")),
    ];
    for (text, body) in cases {
        assert_eq!(stored(&sandbox, &["task", text])["body"], body, "{text}");
        assert_eq!(stored(&sandbox, &["task", text, "--text"])["body"], text, "--text {text}");
    }
    // A number is kept as it was written: no digit is lost on the way.
    let exact = "12345678901234567890.10";
    let id = sandbox.send("me", "task", exact);
    let text = std::fs::read_to_string(sandbox.store().join(format!("topics/task/{id}.json"))).expect("stored");
    assert!(text.contains(exact), "{text}");
}

#[test]
fn stdin_and_files_lose_one_final_newline() {
    let sandbox = Sandbox::new();
    sandbox.write("body.txt", "in a file\n\n");
    let stdin = |args: &[&str], text: &str| {
        sandbox.agent("me").args(["send", "task"]).args(args).stdin(text).ok();
    };
    stdin(&[], "one\n");
    stdin(&[], "two\n\n");
    stdin(&[], "three");
    stdin(&["-f", "-"], "four\n");
    stdin(&[], "{\"a\":1}\n");
    stdin(&["--text"], "{\"a\":1}\n");
    sandbox.agent("me").args(["send", "task", "-f", "body.txt"]).ok();
    sandbox.agent("me").args(["send", "task", "--file", "body.txt"]).ok();
    let bodies: Vec<Value> =
        sandbox.log("me", &["task"]).into_iter().map(|mut message| message["body"].take()).collect();
    let expected = [
        json!("one"),
        json!("two\n"),
        json!("three"),
        json!("four"),
        json!({"a": 1}),
        json!("{\"a\":1}"),
        json!("in a file\n"),
        json!("in a file\n"),
    ];
    assert_eq!(bodies, expected);
}

#[test]
fn a_body_that_starts_with_a_hyphen_goes_after_two() {
    let sandbox = Sandbox::new();
    sandbox.agent("me").args(["send", "task", "--", "-n is an option"]).ok();
    sandbox.agent("me").args(["send", "task", "--", "--robot-help"]).ok();
    assert_eq!(sandbox.bodies("me", &["task"]), ["-n is an option", "--robot-help"]);
    sandbox.agent("me").args(["send", "task", "-n is an option"]).fails(2);
}

#[test]
fn many_lines_are_one_message_and_stand_under_its_first_line() {
    let sandbox = Sandbox::new();
    let id = sandbox.send("me", "task", "first\nsecond\n\nfourth");
    let text = sandbox.agent("me").args(["log", "task"]).ok().stdout;
    assert_eq!(text, format!("{id} me -> task: first\n    second\n    \n    fourth\n"));
    assert_eq!(sandbox.agent("me").args(["log", "task", "--json"]).ok().stdout.lines().count(), 1);
}

#[test]
fn names_are_trimmed_and_lower_case() {
    let sandbox = Sandbox::new();
    sandbox.agent("Me").args(["send", "TASK", "x", "-t", "Urgent"]).ok();
    let message = &sandbox.log("me", &["task"])[0];
    assert_eq!(
        (&message["from"], &message["to"], &message["tags"]),
        (&json!("me"), &json!("task"), &json!(["urgent"]))
    );
}

#[test]
fn a_short_reply_to_finds_its_message_also_in_the_own_mailbox_but_not_in_another_s() {
    let sandbox = Sandbox::new();
    for (dir, to, id) in [("topics/task", "task", "0042"), ("dm/me", "@me", "0043"), ("dm/other", "@other", "0044")] {
        let id = format!("20260110-153000-{id}");
        let body = json!({"id": id, "from": "lead", "to": to, "time": "2026-01-10T15:30:00Z", "body": "x"});
        sandbox.write(Path::new(".fmail").join(dir).join(format!("{id}.json")), body.to_string());
    }
    assert_eq!(stored(&sandbox, &["task", "done", "--reply-to", "0042"])["reply_to"], "20260110-153000-0042");
    assert_eq!(stored(&sandbox, &["task", "done", "--reply-to", "153000-0043"])["reply_to"], "20260110-153000-0043");
    sandbox.agent("me").args(["send", "task", "done", "--reply-to", "0044"]).fails(7).says(&["0044"]);
}

#[test]
fn an_unknown_but_well_formed_reply_to_is_stored_with_a_warning() {
    let sandbox = Sandbox::new();
    let output = sandbox.agent("me").args(["send", "task", "x", "-r", "20200101-000000-0001"]).ok();
    output.says(&["stored", "20200101-000000-0001"]);
    assert_eq!(sandbox.log("me", &[])[0]["reply_to"], "20200101-000000-0001");
}

#[test]
fn an_unknown_recipient_is_told_with_near_matches_and_refused_when_strict() {
    let sandbox = Sandbox::new();
    sandbox.send("reviewer", "lobby", "here");
    let known = sandbox.agent("me").args(["send", "@reviewer", "x"]).ok();
    assert_eq!(known.stderr, "");
    let output = sandbox.agent("me").args(["send", "@reviwer", "x"]).ok();
    output.says(&["stored", "@reviwer", "@reviewer"]);
    assert_eq!(sandbox.names(".fmail/dm/reviwer").len(), 1);

    let before = sandbox.tree();
    sandbox.agent("me").args(["send", "@reviwr", "x", "--strict"]).fails(7).says(&["@reviwr", "@reviewer"]);
    sandbox.agent("me").args(["send", "@reviwr", "x"]).env("FMAIL_STRICT_RECIPIENTS", "true").fails(7);
    sandbox.agent("me").args(["--set", "mail.strict_recipients=true", "send", "@reviwr", "x"]).fails(7);
    sandbox.assert_unchanged(&before);
    sandbox.agent("me").args(["send", "@reviewer", "x", "--strict"]).ok();
    sandbox.agent("me").args(["send", "@me", "note to self", "--strict"]).ok();
}

#[test]
fn without_an_identity_it_is_the_process_and_a_hint() {
    let sandbox = Sandbox::new();
    let running = sandbox.fmail().args(["send", "task", "x", "--json"]).spawn();
    let anon = format!("anon-{}", running.pid());
    let output = running.wait();
    output.says(&[&anon, "FMAIL_AGENT"]);
    assert_eq!(output.json()["from"], anon.as_str());
    assert_eq!(sandbox.names(".fmail/agents"), [format!("{anon}.json")]);
}

#[test]
fn a_stored_message_whose_id_cannot_be_printed_is_no_reason_to_send_again() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "lobby", "exists");
    for form in ["", " --json"] {
        let output = sandbox.bash("me", &format!("fmail send task x{form} >/dev/full")).fails(70);
        let stored = sandbox.log("me", &["task"]);
        let id = stored.last().expect("stored")["id"].as_str().expect("an id");
        output.says(&[&format!("stored as {id}, but"), "standard output", "do not send it again"]);
    }
    assert_eq!(sandbox.names(".fmail/topics/task").len(), 2);
}

#[test]
fn notes_are_told_also_when_nobody_reads_the_id() {
    let sandbox = Sandbox::new();
    sandbox.send("me", "lobby", "exists");
    // The reader is gone before the command starts.
    let script = "mkfifo ../pipe; exec 5<>../pipe 6>../pipe 5>&-; fmail send @nobody x >&6";
    let output = sandbox.bash("me", script).ok();
    output.says(&["stored", "@nobody"]);
    assert_eq!(sandbox.names(".fmail/dm/nobody").len(), 1);
}

#[test]
fn a_forgotten_at_sign_is_told_with_the_first_message() {
    let sandbox = Sandbox::new();
    sandbox.send("bob", "lobby", "here");
    let output = sandbox.agent("me").args(["send", "bob", "please look"]).ok();
    output.says(&["stored in the topic `bob`; to reach the agent write @bob"]);
    assert_eq!(sandbox.names(".fmail/topics/bob").len(), 1);
    for to in ["bob", "@bob", "task"] {
        assert_eq!(sandbox.agent("me").args(["send", to, "x"]).ok().stderr, "", "{to}");
    }
}

#[test]
fn common_slips_are_answered_with_what_to_write() {
    let sandbox = Sandbox::new();
    sandbox.agent("me").args(["send", "task", "hello", "world"]).fails(2).says(&["world", "quotes", "fmail send"]);
    sandbox.agent("me").args(["status", "hello", "world"]).fails(2).says(&["quotes", "fmail status"]);
    let flag = sandbox.agent("me").args(["send", "task", "hello", "--wrong"]).fails(2);
    assert!(!flag.stderr.contains("quotes"), "{flag}");
    for command in [&["send", "@", "x"][..], &["log", "@"], &["watch", "@"]] {
        sandbox.fmail().args(command).fails(4).says(&["help: ", "FMAIL_AGENT is not set"]);
    }
    assert!(!sandbox.store().exists());
}
