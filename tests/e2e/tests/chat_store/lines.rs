//! What commands write to the file, and what they read of it.

use std::fs;
use std::time::Duration;

use crate::{by_hand, chat_file, chat_project, ids, text};

#[test]
fn a_message_is_a_line_and_the_sidecar_keeps_the_rest() {
    let sandbox = chat_project();
    sandbox.agent("coder").args(["send", "@reviewer", "Please review"]).ok();
    sandbox
        .agent("coder")
        .args(["send", "@reviewer", "--cc", "@developer", "-p", "high", "-t", "auth", "one\n\n- two"])
        .ok();
    sandbox.agent("coder").args(["send", "@reviewer", r#"{"tests": 3}"#]).ok();
    assert_eq!(
        text(&sandbox),
        "[coder-to-reviewer]: Please review\n[coder-to-reviewer] @ [developer]: one\n  \n  - two\n\
         [coder-to-reviewer]: {\"tests\":3}\n"
    );
    let log = sandbox.log("reviewer", &[]);
    assert_eq!(log[1]["body"], "one\n\n- two");
    assert_eq!((&log[1]["priority"], &log[1]["tags"][0]), (&"high".into(), &"auth".into()));
    assert_eq!(log[2]["body"]["tests"], 3, "a body that is no text is what it was");
    assert_eq!(sandbox.log("developer", &[]).len(), 1, "an observer has it too");
    sandbox.agent("reviewer").args(["search", "tests"]).ok();
    let unread = sandbox.agent("reviewer").args(["inbox", "--json"]).ok().json_lines();
    assert_eq!(unread.len(), 3);
    let reply = sandbox.agent("reviewer").args(["reply", &ids(&log)[0], "Approved"]).ok();
    assert!(text(&sandbox).ends_with("[reviewer-to-coder]: Approved\n"), "{reply}");
    let thread = sandbox.agent("coder").args(["thread", &ids(&log)[0], "--json"]).ok().json_lines();
    assert_eq!(thread.len(), 2, "{thread:?}");
}

#[test]
fn lines_by_hand_are_messages_with_ids_that_stay() {
    let sandbox = chat_project();
    let lines = "# The team's chat\n\n[coder-to-reviewer]: hello\n  and more\n[Build_Bot-to-reviewer] @ [manager, ]: red\nno message\n\
                 [coder-to-reviewer]: hello again\r\n";
    by_hand(&sandbox, lines);
    let first = sandbox.agent("reviewer").args(["log", "--json"]).ok();
    first.says(&["3 messages were read for the first time"]);
    let log = sandbox.log("reviewer", &[]);
    assert_eq!(log[0]["body"], "hello\nand more");
    assert_eq!((&log[1]["from"], &log[1]["cc"][0]), (&"build-bot--x0u-5l-6u".into(), &"@manager".into()));
    assert_eq!(log[2]["body"], "hello again");
    by_hand(&sandbox, "[coder-to-reviewer]: later\n");
    sandbox.send("coder", "@reviewer", "and through fmail");
    let again = sandbox.log("reviewer", &[]);
    assert_eq!(ids(&again)[..3], ids(&log)[..], "ids stay");
    // An editor writes the whole file anew, with a line changed in between.
    let edited = text(&sandbox).replace(": red", ": green");
    fs::write(sandbox.path().join(".workplace/new"), &edited).unwrap();
    fs::rename(sandbox.path().join(".workplace/new"), chat_file(&sandbox)).unwrap();
    let after = sandbox.log("reviewer", &[]);
    let kept: Vec<String> = ids(&again).into_iter().filter(|id| *id != ids(&log)[1]).collect();
    assert_eq!(after.len(), 5);
    assert!(kept.iter().all(|id| ids(&after).contains(id)), "{kept:?} {after:?}");
    // An answer to a name that fmail spells otherwise goes out under the name's own spelling.
    sandbox.send("reviewer", "@build-bot--x0u-5l-6u", "thanks");
    assert!(text(&sandbox).ends_with("[reviewer-to-Build_Bot]: thanks\n"));
}

#[test]
fn an_acknowledgement_is_a_line_that_everyone_can_read() {
    let sandbox = chat_project();
    let id = sandbox.send("coder", "@reviewer", "Please review");
    sandbox.agent("coder").args(["send", "@reviewer", "--cc", "@developer", "Look at auth.rs"]).ok();
    sandbox.agent("reviewer").args(["ack", &id]).ok();
    assert!(text(&sandbox).ends_with("[reviewer-to-coder]: Acknowledged — Please review\n"), "{}", text(&sandbox));
    let second = ids(&sandbox.log("developer", &[])).remove(0);
    sandbox.agent("reviewer").args(["ack", &second]).ok();
    assert!(text(&sandbox).ends_with("[reviewer-to-coder] @ [developer]: Acknowledged — Look at auth.rs\n"));
    let lines = text(&sandbox).lines().count();
    sandbox.agent("reviewer").args(["ack", &second]).run();
    assert_eq!(text(&sandbox).lines().count(), lines, "acknowledged once");
    sandbox.agent("coder").args(["receipt", &id]).ok();
}

#[test]
fn what_a_chat_file_cannot_hold_is_refused() {
    let sandbox = chat_project();
    sandbox.send("coder", "@reviewer", "x");
    let before = text(&sandbox);
    for arguments in
        [&["send", "task", "x"][..], &["log", "task"], &["topics"], &["gc"], &["send", "@a", "--cc", "task", "x"]]
    {
        sandbox.agent("coder").args(arguments).fails(10).says(&["this store cannot"]);
    }
    sandbox.agent("coder").args(["send", "@a-to-b", "x"]).fails(4).says(&["-to-"]);
    sandbox.agent("a-to-b").args(["send", "@c", "x"]).fails(4).says(&["-to-"]);
    assert_eq!(text(&sandbox), before);
}

#[test]
fn a_watch_shows_what_others_append() {
    let sandbox = chat_project();
    by_hand(&sandbox, "[coder-to-reviewer]: before\n");
    sandbox.log("reviewer", &[]);
    let mut watch = sandbox.agent("reviewer").args(["watch", "--json"]).spawn();
    watch.await_watching();
    by_hand(&sandbox, "[coder-to-reviewer]: by hand\n");
    assert_eq!(watch.json()["body"], "by hand");
    sandbox.send("coder", "@reviewer", "through fmail");
    assert_eq!(watch.json()["body"], "through fmail");
    by_hand(&sandbox, "[coder-to-reviewer]: without an end");
    assert_eq!(watch.json()["body"], "without an end");
    by_hand(&sandbox, "\n[coder-to-someone]: not for you\n[coder-to-reviewer]: last\n");
    assert_eq!(watch.json()["body"], "last");
    assert_eq!(watch.line_within(Duration::from_millis(200)), None, "nothing twice");
}

#[test]
fn a_lost_sidecar_loses_no_message_and_says_what_is_gone() {
    let sandbox = chat_project();
    sandbox.agent("coder").args(["send", "@reviewer", "-p", "high", "urgent"]).ok();
    by_hand(&sandbox, "[coder-to-reviewer]: by hand\n");
    assert_eq!(sandbox.log("reviewer", &[])[0]["priority"], "high");
    fs::remove_dir_all(sandbox.path().join(".workplace/.chat.md.fmail")).unwrap();
    let told = sandbox.agent("reviewer").args(["log", "--json"]).ok();
    told.says(&["2 messages were read for the first time", "priorities"]);
    let bodies: Vec<_> = told.json_lines().iter().map(|message| message["body"].clone()).collect();
    assert_eq!(bodies, ["urgent", "by hand"]);
    assert_eq!(ids(&told.json_lines()), ids(&sandbox.log("reviewer", &[])));
}

#[test]
fn what_leaves_the_file_leaves_the_log_and_nothing_else_does() {
    let sandbox = chat_project();
    for number in 0..4 {
        sandbox.send("coder", "@reviewer", &format!("{number}"));
    }
    let before = ids(&sandbox.log("reviewer", &[]));
    let kept: String = text(&sandbox).lines().skip(2).map(|line| format!("{line}\n")).collect();
    // In place, as an editor does that empties the file first.
    fs::write(chat_file(&sandbox), kept).unwrap();
    let told = sandbox.agent("reviewer").args(["log", "--json"]).ok();
    told.says(&["2 messages are no longer in"]);
    assert_eq!(ids(&told.json_lines()), before[2..]);
    fs::remove_file(chat_file(&sandbox)).unwrap();
    assert_eq!(sandbox.bodies("reviewer", &[]).len(), 0, "no file, no messages");
    sandbox.send("coder", "@reviewer", "a new one");
    assert_eq!(sandbox.bodies("reviewer", &[]), ["a new one"]);
}

#[test]
fn a_link_out_of_the_project_is_not_followed() {
    let sandbox = chat_project();
    let target = sandbox.outside().join("target");
    fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, chat_file(&sandbox)).unwrap();
    sandbox.agent("coder").args(["send", "@reviewer", "x"]).fails(9).says(&["leads out of the project"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "");
}
