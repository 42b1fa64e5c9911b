//! `send --wait-for`, and what `send` says about recipients who may not see it soon.

use std::time::Duration;

use fmail_e2e::{Running, Sandbox};

/// The exit code of a time that ran out.
const TIMEOUT: i32 = 17;

fn sending(sandbox: &Sandbox, to: &str, effect: &str, more: &[&str]) -> (Running, String) {
    let args = ["send", to, "please", "--wait-for", effect, "--timeout", "1m"];
    let mut running = sandbox.agent("alice").args(args).args(more).spawn();
    let id = running.line();
    (running, id)
}

#[test]
fn it_stays_until_every_recipient_has_done_it() {
    let sandbox = Sandbox::new();
    for (effect, command, word) in
        [("retrieved", "inbox", "retrieved"), ("read", "read", "read"), ("ack", "ack", "acknowledged")]
    {
        let (mut running, id) = sending(&sandbox, "@bob,@carol", effect, &["--cc", "@dave"]);
        let act = |agent: &str| match command {
            "inbox" => sandbox.agent(agent).arg("inbox").ok(),
            _ => sandbox.agent(agent).args([command, &id]).ok(),
        };
        act("bob");
        assert_eq!(running.line_within(Duration::from_millis(700)), None);
        assert!(!running.has_ended(), "{effect}: carol has not");
        act("carol");
        let output = running.wait();
        assert_eq!(output.code, 0, "{output}");
        output.says(&[&format!("{word} by @bob, @carol")]);
    }
}

#[test]
fn it_stays_until_somebody_has_answered_and_prints_the_answer() {
    let sandbox = Sandbox::new();
    for (to, json) in [("@bob", false), ("task", true)] {
        let (running, id) = sending(&sandbox, to, "reply", if json { &["--json"] } else { &[] });
        let id = if json {
            serde_json::from_str::<serde_json::Value>(&id).unwrap()["id"].as_str().unwrap().into()
        } else {
            id
        };
        sandbox.send("bob", "@alice", "something else");
        sandbox.agent("bob").args(["reply", &id, "yes"]).ok();
        let output = running.wait();
        assert_eq!(output.code, 0, "{output}");
        if json {
            assert_eq!((&output.json()["body"], &output.json()["reply_to"]), (&"yes".into(), &id.as_str().into()));
        } else {
            assert!(output.stdout.ends_with(" bob -> @alice: yes\n"), "{output}");
        }
    }
}

#[test]
fn when_the_time_is_over_the_message_is_stored_and_its_id_printed() {
    let sandbox = Sandbox::new();
    for effect in ["retrieved", "read", "ack", "reply"] {
        let output =
            sandbox.agent("alice").args(["send", "@bob", effect, "--wait-for", effect, "--timeout", "200ms"]).run();
        assert_eq!(output.code, TIMEOUT, "{output}");
        let id = output.stdout.trim_end();
        assert_eq!((id.len(), id.lines().count()), (20, 1), "{output}");
        output.says(&["is stored, and was not", "do not send it again", &format!("fmail receipt {id}")]);
        assert!(sandbox.names(".fmail/dm/bob").contains(&format!("{id}.json")));
    }
}

#[test]
fn what_was_sent_with_an_ack_required_says_so() {
    let sandbox = Sandbox::new();
    sandbox.agent("alice").args(["send", "@bob", "x", "--ack-required", "--expires", "1h"]).ok();
    let mail = sandbox.agent("bob").args(["inbox", "--json"]).ok().json();
    assert_eq!(mail["ack_required"], true);
    assert!(mail["expires"].is_string(), "{mail}");
}

#[test]
fn a_recipient_who_is_gone_is_told_with_its_unread_mail() {
    let sandbox = Sandbox::new();
    sandbox.agent("bob").args(["register", "bob"]).ok();
    for number in 0..7 {
        let sent = sandbox.agent("alice").args(["send", "@bob", &number.to_string()]).ok();
        assert_eq!(sent.stderr, if number == 0 { sent.stderr.clone() } else { String::new() }, "bob was seen just now");
    }
    let six_hours_ago = sandbox.bash("alice", "date -u -d '6 hours ago' +%Y-%m-%dT%H:%M:%SZ").ok().stdout;
    let record = sandbox.store().join("agents/bob.json");
    let mut bob: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    bob["last_seen"] = six_hours_ago.trim_end().into();
    std::fs::write(&record, bob.to_string()).unwrap();
    let sent = sandbox.agent("alice").args(["send", "@bob", "hello?"]).ok();
    assert_eq!(sent.stderr, "fmail: stored; @bob has 7 unread, last seen 6 h ago\n");
}
