//! Mailboxes: unknown ids, others' mail, options that cannot be meant, and nobody to own the mailbox.

use fmail_e2e::Sandbox;

const INVALID_REQUEST: i32 = 2;
const INVALID_AGENT: i32 = 4;
const NOT_FOUND: i32 = 7;
const CONFLICT: i32 = 8;
const DENIED: i32 = 9;

/// The commands that take the ids of one's own messages.
const MARKS: [&str; 6] = ["ack", "archive", "unarchive", "mark-read", "mark-unread", "delete"];

/// A project with mail for bob, and the id of a message to him.
fn project() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.send("me", "task", "in a topic");
    let id = sandbox.send("alice", "@bob", "for bob");
    sandbox.send("alice", "@me", "for me");
    (sandbox, id)
}

/// Runs each as `me`; each must fail like this and change nothing.
fn refused(sandbox: &Sandbox, cases: &[(&[&str], i32, &[&str])]) {
    let before = sandbox.tree();
    for (args, code, says) in cases {
        sandbox.agent("me").args(*args).fails(*code).says(says);
        sandbox.assert_unchanged(&before);
    }
}

#[test]
fn ids_that_are_none_or_nobody_s() {
    let (sandbox, _) = project();
    let unknown = "20200101-000000-0000";
    for command in MARKS.iter().chain(&["read", "peek", "receipt"]) {
        refused(
            &sandbox,
            &[
                (&[command, "nonsense"], INVALID_REQUEST, &["`nonsense` is not a message id", "YYYYMMDD"]),
                (&[command, unknown], NOT_FOUND, &["no message that you can read has the id", unknown]),
                (&[command, "000000-0000"], NOT_FOUND, &["ends in `000000-0000`"]),
                (&[command, ""], INVALID_REQUEST, &["is not a message id"]),
            ],
        );
    }
    refused(
        &sandbox,
        &[
            (&["reply", unknown, "x"], NOT_FOUND, &[unknown]),
            (&["reply", "nonsense", "x"], INVALID_REQUEST, &["is not a message id"]),
            (&["thread", " "], INVALID_REQUEST, &["no thread is named"]),
        ],
    );
}

#[test]
fn the_mail_of_others() {
    let (sandbox, id) = project();
    for command in MARKS.iter().chain(&["read", "peek", "receipt"]) {
        refused(&sandbox, &[(&[command, &id], NOT_FOUND, &["no message that you can read", &id])]);
    }
    refused(&sandbox, &[(&["reply", &id, "x"], NOT_FOUND, &[&id])]);
    let before = sandbox.tree();
    for command in MARKS {
        let told = sandbox.agent("alice").args([command, &id]).fails(DENIED);
        told.says(&["is a message that you sent to @bob", &format!("fmail receipt {id}")]);
    }
    sandbox.assert_unchanged(&before);
}

#[test]
fn one_wrong_id_among_right_ones_changes_nothing_when_reading_and_is_told_when_marking() {
    let (sandbox, id) = project();
    let before = sandbox.tree();
    sandbox.agent("bob").args(["read", &id, "20200101-000000-0000"]).fails(NOT_FOUND);
    sandbox.assert_unchanged(&before);
    let marked = sandbox.agent("bob").args(["archive", "20200101-000000-0000", &id]).run();
    assert_eq!((marked.code, marked.stdout.as_str()), (NOT_FOUND, &*format!("{id}\n")), "{marked}");
    marked.says(&["20200101-000000-0000"]);
}

#[test]
fn messages_of_topics_are_not_mail() {
    let sandbox = Sandbox::new();
    let id = sandbox.send("me", "task", "in a topic");
    for command in ["archive", "unarchive", "mark-unread", "delete"] {
        refused(&sandbox, &[(&[command, &id], INVALID_REQUEST, &["is a message of the topic `task`"])]);
    }
}

#[test]
fn which_messages_is_said_once_and_said_at_all() {
    let (sandbox, id) = project();
    for command in MARKS {
        refused(
            &sandbox,
            &[
                (&[command], INVALID_REQUEST, &["no message is named", "--all"]),
                (&[command, &id, "--all"], INVALID_REQUEST, &["--all"]),
                (&[command, &id, "--from", "bob"], INVALID_REQUEST, &["--from"]),
                (&[command, "--from", "b b"], INVALID_AGENT, &["b b"]),
                (&[command, "--older-than", "yesterday"], INVALID_REQUEST, &["yesterday", "90s"]),
                (&[command, "--older-than", "-1d"], INVALID_REQUEST, &["-1"]),
                (&[command, "--everything"], INVALID_REQUEST, &["--everything"]),
            ],
        );
    }
    refused(
        &sandbox,
        &[
            (&["read"], INVALID_REQUEST, &["ID"]),
            (&["peek"], INVALID_REQUEST, &["ID"]),
            (&["peek", &id, "--token", "x"], INVALID_REQUEST, &["--token"]),
            (&["inbox", "--all", "--archived"], INVALID_REQUEST, &["--archived"]),
            (&["inbox", "-n", "-1"], INVALID_REQUEST, &["-1"]),
            (&["inbox", "-n", "many"], INVALID_REQUEST, &["many"]),
            (&["inbox", "--from", "@"], INVALID_AGENT, &["empty"]),
            (&["inbox", "somebody"], INVALID_REQUEST, &["somebody"]),
            (&["check", "@bob"], INVALID_REQUEST, &["@bob"]),
        ],
    );
}

#[test]
fn claims_that_cannot_be() {
    let (sandbox, _) = project();
    refused(
        &sandbox,
        &[
            (&["inbox", "--claim", "0s"], INVALID_REQUEST, &["cannot be claimed for 0 s", "1 s to 86400 s"]),
            (&["inbox", "--claim", "25h"], INVALID_REQUEST, &["90000 s", "86400 s"]),
            (&["inbox", "--claim", "soon"], INVALID_REQUEST, &["soon"]),
            (&["inbox", "--claim", "5m", "--all"], INVALID_REQUEST, &["--all"]),
            (&["inbox", "--claim", "5m", "--archived"], INVALID_REQUEST, &["--archived"]),
            (&["ack", "--all", "--token", "nobody-s", "--from", "b b"], INVALID_AGENT, &["b b"]),
        ],
    );
    let id = sandbox.log("me", &["@me"])[0]["id"].as_str().unwrap().to_string();
    refused(&sandbox, &[(&["ack", &id, "--token", "nobody-s"], CONFLICT, &["the claim on", "has ended"])]);
}

#[test]
fn sends_whose_effect_cannot_come() {
    let sandbox = Sandbox::new();
    let before = sandbox.send("me", "task", "before");
    refused(
        &sandbox,
        &[
            (&["reply", &before, " "], INVALID_REQUEST, &["empty message body"]),
            (
                &["send", "task", "x", "--wait-for", "read"],
                INVALID_REQUEST,
                &["a message to a topic", "wait for a reply"],
            ),
            (&["send", "task", "x", "--wait-for", "ack"], INVALID_REQUEST, &["acknowledged a message to a topic"]),
            (&["send", "task", "x", "--wait-for", "retrieved"], INVALID_REQUEST, &["retrieved a message to a topic"]),
            (&["send", "@bob", "x", "--wait-for", "peace"], INVALID_REQUEST, &["peace", "retrieved, read, ack, reply"]),
            (&["send", "@bob", "x", "--wait-for", "ack", "--timeout", "soon"], INVALID_REQUEST, &["soon"]),
            (&["send", "@bob", "x", "--timeout", "1m"], INVALID_REQUEST, &["--wait-for"]),
            (
                &["send", "@bob", "x", "--expires", "2020-01-01T00:00:00Z"],
                INVALID_REQUEST,
                &["would have expired at 2020"],
            ),
            (&["send", "@bob", "x", "--expires", "later"], INVALID_REQUEST, &["`later` is neither", "RFC 3339"]),
            (&["send", "@bob,", "x"], 3, &["empty"]),
            (&["send", "@bob,@b b", "x"], INVALID_AGENT, &["b b"]),
            (&["send", "@bob", "x", "--cc", "a/b"], 3, &["a/b"]),
        ],
    );
    assert_eq!(sandbox.names(".fmail/dm"), [] as [&str; 0]);
}

#[test]
fn without_a_name_there_is_no_mailbox() {
    let (sandbox, id) = project();
    let before = sandbox.tree();
    let commands = MARKS.iter().chain(&["read", "peek"]).map(|command| vec![*command, &id]);
    for args in commands.chain([vec!["inbox"], vec!["check"], vec!["count"], vec!["inbox", "--claim", "5m"]]) {
        let told = sandbox.fmail().args(&args).fails(INVALID_AGENT);
        told.says(&["FMAIL_AGENT"]);
    }
    sandbox.assert_unchanged(&before);
}

#[test]
fn a_directory_without_a_project_has_no_mail_and_gets_none() {
    let sandbox = Sandbox::new();
    let before = sandbox.tree();
    for (args, stdout) in [
        (&["inbox"][..], ""),
        (&["count"], "0 total, 0 unread for @me\n"),
        (&["archive", "--all"], ""),
        (&["thread", "release-7"], ""),
    ] {
        assert_eq!(sandbox.agent("me").args(args).ok().stdout, stdout, "{args:?}");
        sandbox.assert_unchanged(&before);
    }
    sandbox.agent("me").arg("check").fails(1);
    sandbox.assert_unchanged(&before);
}
