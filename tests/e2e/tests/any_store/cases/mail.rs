//! The mailbox: `inbox`, `check`, `count`, `peek`, `read`, `mark-read`, `mark-unread`, `ack`, `archive`, `unarchive`,
//! `delete`, `receipt`.

use serde_json::{Value, json};

use super::cases;
use crate::stage::Stage;

cases![
    inbox_shows_what_is_open_and_unread,
    inbox_is_limited_and_filtered,
    check_answers_by_its_exit_code,
    a_session_is_told_of_mail_once_and_nothing_is_marked,
    peek_changes_nothing_and_read_does,
    marks_are_made_and_taken_back,
    what_is_so_already_is_told,
    many_are_marked_at_once,
    one_failure_among_several_is_told_and_the_rest_is_done,
    a_mailbox_is_its_owners_alone,
    a_claimed_message_is_given_to_nobody_else,
    a_receipt_tells_what_every_recipient_did,
    a_receipt_is_the_senders,
    mail_that_expired_is_not_unread,
    deleted_mail_is_gone_for_its_owner_only,
];

fn mailbox(stage: &Stage, bodies: &[&str]) -> Vec<String> {
    stage.ok("bob", &["register", "bob"]);
    bodies.iter().map(|body| stage.send("alice", "@bob", body)).collect()
}

fn count(stage: &Stage) -> (Value, Value) {
    let count = stage.ok("bob", &["count", "--json"]).json();
    (count["total"].clone(), count["unread"].clone())
}

fn inbox_shows_what_is_open_and_unread(stage: &Stage) {
    let ids = mailbox(stage, &["unread", "read", "acknowledged", "archived", "deleted"]);
    for (command, id) in [("mark-read", &ids[1]), ("ack", &ids[2]), ("archive", &ids[3]), ("delete", &ids[4])] {
        assert_eq!(stage.ok("bob", &[command, id]).stdout, format!("{id}\n"), "{command}");
    }
    assert_eq!(stage.bodies("bob", &["inbox"]), ["unread"]);
    assert_eq!(stage.bodies("bob", &["inbox", "--all"]), ["unread", "read", "acknowledged"]);
    assert_eq!(stage.bodies("bob", &["inbox", "--archived"]), ["archived"]);
    assert_eq!(count(stage), (json!(3), json!(1)));
    stage.ok("bob", &["inbox", "--all"]);
    stage.ok("bob", &["count"]);
}

fn inbox_is_limited_and_filtered(stage: &Stage) {
    mailbox(stage, &["one", "two", "three"]);
    stage.send("carol", "@bob", "from carol");
    let some = stage.ok("bob", &["inbox", "-n", "2", "--json"]);
    assert_eq!(some.json_lines().len(), 2);
    assert!(!some.stderr.is_empty(), "that there are more is told");
    assert_eq!(stage.bodies("bob", &["inbox", "--from", "@carol"]), ["from carol"]);
    assert_eq!(stage.bodies("bob", &["inbox", "--from", "dave"]), [] as [&str; 0]);
    stage.ok("dave", &["inbox"]);
}

fn check_answers_by_its_exit_code(stage: &Stage) {
    mailbox(stage, &["one", "two"]);
    assert_eq!(stage.ok("bob", &["check"]).stdout, "2 unread messages for @bob\n");
    assert_eq!(stage.ok("bob", &["check", "--json"]).json(), json!({"agent": "bob", "unread": 2, "total": 2}));
    stage.ok("bob", &["mark-read", "--all"]);
    assert_eq!(stage.fails("bob", &["check"], 1).stderr, "");
    assert_eq!(stage.exits("bob", &["check", "--json"], 1).json()["unread"], 0);
    stage.fails("carol", &["check"], 1);
}

fn a_session_is_told_of_mail_once_and_nothing_is_marked(stage: &Stage) {
    let ids = mailbox(stage, &["one", "two"]);
    // Not recorded: the fence is another every time.
    let told = |session: &str| {
        let args = ["check", "--inject", "--session", session, "--deadline", "60s"];
        let output = stage.start("bob", &args).wait();
        assert_eq!(output.code, 0, "{output}");
        let texts = output.stdout.lines().filter_map(|line| line.strip_prefix("| ")).map(String::from);
        assert!(output.stdout.is_empty() || output.stdout.starts_with("fmail: "), "{output}");
        texts.collect::<Vec<String>>()
    };
    assert_eq!(told("first"), ["one", "two"]);
    assert_eq!(told("first"), [] as [&str; 0]);
    let receipt = stage.ok("alice", &["receipt", &ids[0], "--json"]).json();
    assert_eq!(receipt["recipients"][0]["retrieved"], Value::Null, "{receipt}");
    assert_eq!(count(stage), (json!(2), json!(2)));
    stage.ok("bob", &["mark-read", &ids[0]]);
    assert_eq!(told("first"), [] as [&str; 0]);
    stage.send("alice", "@bob", "three");
    assert_eq!(told("first"), ["three"]);
    assert_eq!(told("second"), ["two", "three"]);
    stage.ok("bob", &["mark-unread", &ids[0]]);
    assert_eq!(told("first"), ["one"]);
}

fn peek_changes_nothing_and_read_does(stage: &Stage) {
    let ids = mailbox(stage, &["one", "two"]);
    assert_eq!(stage.ok("bob", &["peek", &ids[0][9..], "--json"]).json()["mail"]["standing"], "unread");
    assert_eq!(count(stage), (json!(2), json!(2)));
    assert!(stage.ok("bob", &["read", &ids[0], &ids[1]]).stdout.ends_with(" alice -> @bob: two\n"));
    assert_eq!(count(stage), (json!(2), json!(0)));
    let again = stage.ok("bob", &["read", &ids[0], "--json"]).json();
    assert!(again["mail"]["first_read"].is_string(), "{again}");
    // What one sent to others is shown.
    stage.ok("alice", &["read", &ids[0]]);
    stage.fails("bob", &["read", &ids[0], "235959-9999"], 7);
    stage.fails("bob", &["read"], 2);
}

fn marks_are_made_and_taken_back(stage: &Stage) {
    let ids = mailbox(stage, &["one"]);
    let steps = [("mark-read", 0), ("mark-unread", 1), ("archive", 0), ("unarchive", 1), ("ack", 0)];
    for (command, unread) in steps {
        stage.ok("bob", &[command, &ids[0]]);
        let mail = stage.ok("bob", &["peek", &ids[0], "--json"]).json();
        assert_eq!(count(stage).1, json!(unread), "{command}: {mail}");
    }
}

fn what_is_so_already_is_told(stage: &Stage) {
    let ids = mailbox(stage, &["one"]);
    for command in ["ack", "archive"] {
        stage.ok("bob", &[command, &ids[0]]);
        stage.ok("bob", &[command, &ids[0]]).says(&["is already"]);
        let again = stage.ok("bob", &[command, &ids[0], "--json"]).json();
        assert_eq!(again["already"], true, "{command}");
    }
}

fn many_are_marked_at_once(stage: &Stage) {
    mailbox(stage, &["one", "two", "three"]);
    stage.send("carol", "@bob", "from carol");
    let dry = stage.ok("bob", &["archive", "--from", "alice", "--dry-run"]);
    assert_eq!(dry.stdout.lines().count(), 3, "{dry}");
    dry.says(&["3 messages would be archived"]);
    assert_eq!(count(stage), (json!(4), json!(4)));
    stage.ok("bob", &["archive", "--from", "alice"]).says(&["3 messages archived, 3 of them unread"]);
    assert_eq!(stage.bodies("bob", &["inbox"]), ["from carol"]);
    stage.ok("bob", &["delete", "--older-than", "1h"]);
    stage.ok("bob", &["mark-read", "--all", "--json"]);
    assert_eq!(count(stage), (json!(1), json!(0)));
    stage.fails("bob", &["archive"], 2);
}

fn one_failure_among_several_is_told_and_the_rest_is_done(stage: &Stage) {
    let ids = mailbox(stage, &["one", "two"]);
    let marked = stage.exits("bob", &["ack", &ids[0], "235959-9999", &ids[1]], 7);
    assert_eq!(marked.stdout, format!("{}\n{}\n", ids[0], ids[1]));
    let json = stage.exits("bob", &["mark-read", &ids[0], "235959-9999", "--json"], 7).json_lines();
    assert_eq!(json[1]["error"]["code"], "not_found", "{json:?}");
}

fn a_mailbox_is_its_owners_alone(stage: &Stage) {
    let ids = mailbox(stage, &["for bob"]);
    for command in ["read", "peek", "ack", "archive", "delete", "mark-read", "receipt"] {
        let refused = stage.run("eve", &[command, &ids[0]]);
        assert!(refused.code != 0 && !refused.stdout.contains("for bob"), "{command}\n{refused}");
    }
    assert_eq!(stage.bodies("eve", &["thread", &ids[0]]), [] as [&str; 0]);
    assert_eq!(stage.bodies("eve", &["inbox"]), [] as [&str; 0]);
    assert_eq!(stage.bodies("eve", &["log"]), [] as [&str; 0]);
    assert_eq!(stage.bodies("eve", &["search", "bob"]), [] as [&str; 0]);
    assert_eq!(count(stage), (json!(1), json!(1)));
}

fn a_claimed_message_is_given_to_nobody_else(stage: &Stage) {
    let ids = mailbox(stage, &["one", "two", "three"]);
    let claim = |args: &[&str]| stage.ok("bob", &[&["inbox", "--json", "--claim", "5m"], args].concat()).json_lines();
    let token = |mail: &Value| mail["mail"]["claim"]["token"].as_str().expect("a token").to_string();
    let first = claim(&["-n", "2"]);
    let second = claim(&[]);
    assert_eq!((first.len(), second.len(), claim(&[]).len()), (2, 1, 0));
    stage.fails("bob", &["ack", &ids[0]], 8).says(&["is claimed by another reader", "--token"]);
    stage.fails("bob", &["ack", &ids[0], "--token", &token(&second[0])], 8);
    stage.ok("bob", &["ack", &ids[0], "--token", &token(&first[0])]);
    stage.ok("bob", &["read", &ids[2], "--token", &token(&second[0])]);
    stage.ok("bob", &["inbox"]);
    assert_eq!(count(stage), (json!(3), json!(1)));
}

fn a_receipt_tells_what_every_recipient_did(stage: &Stage) {
    let sent = ["send", "@bob,@carol", "please", "--cc", "@dave", "--ack-required"];
    let id = stage.ok("alice", &sent).stdout.trim_end().to_string();
    stage.ok("bob", &["ack", &id]);
    stage.ok("carol", &["inbox"]);
    let receipt = stage.ok("alice", &["receipt", &id, "--json"]).json();
    let of = |agent: &str| {
        receipt["recipients"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["agent"] == agent))
            .expect("a recipient")
    };
    assert!(of("bob")["acknowledged"].is_string() && of("bob")["read"].is_string(), "{receipt}");
    assert!(of("carol")["retrieved"].is_string() && of("carol")["read"].is_null(), "{receipt}");
    assert_eq!((&of("dave")["cc"], of("dave")["retrieved"].is_null()), (&json!(true), true));
    stage.ok("alice", &["receipt", &id]);
}

fn a_receipt_is_the_senders(stage: &Stage) {
    let ids = mailbox(stage, &["x"]);
    stage.fails("alice", &["receipt", "235959-9999"], 7);
    let others = stage.run("eve", &["receipt", &ids[0]]);
    assert!(others.code != 0, "{others}");
}

fn mail_that_expired_is_not_unread(stage: &Stage) {
    stage.ok("bob", &["register", "bob"]);
    let id = stage.ok("alice", &["send", "@bob", "soon useless", "--expires", "3s"]).stdout;
    // It expires by the clock; nothing tells when that has come.
    fmail_e2e::eventually(30, "the message expires", || {
        (stage.command("bob", &["check"]).run().code == 1).then_some(())
    });
    let mail = stage.ok("bob", &["peek", id.trim_end(), "--json"]).json();
    assert_eq!(mail["mail"]["standing"], "expired");
    assert_eq!(stage.bodies("bob", &["inbox"]), [] as [&str; 0]);
}

fn deleted_mail_is_gone_for_its_owner_only(stage: &Stage) {
    stage.ok("carol", &["register", "carol"]);
    mailbox(stage, &[]);
    let id = stage.send("alice", "@bob,@carol", "for both");
    stage.ok("bob", &["delete", &id]);
    assert_eq!(stage.bodies("bob", &["inbox", "--all"]), [] as [&str; 0]);
    assert_eq!(stage.bodies("carol", &["inbox"]), ["for both"]);
    stage.run("bob", &["read", &id]);
}
