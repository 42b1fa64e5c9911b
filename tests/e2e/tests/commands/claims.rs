//! Reading in two phases: `inbox --claim` takes a message for a while, `ack --token` finishes it.

use fmail_e2e::Sandbox;
use serde_json::Value;

fn claim(sandbox: &Sandbox, args: &[&str]) -> Vec<Value> {
    sandbox.agent("bob").args(["inbox", "--json", "--claim"]).args(args).ok().json_lines()
}

fn token(mail: &Value) -> &str {
    mail["mail"]["claim"]["token"].as_str().unwrap_or_else(|| panic!("no token: {mail}"))
}

#[test]
fn a_claimed_message_is_given_to_nobody_else_and_finished_by_its_token() {
    let sandbox = Sandbox::new();
    for body in ["one", "two", "three"] {
        sandbox.send("alice", "@bob", body);
    }
    let first = claim(&sandbox, &["5m", "-n", "2"]);
    assert_eq!((first.len(), token(&first[0])), (2, token(&first[1])), "claimed together, one token");
    let second = claim(&sandbox, &["5m"]);
    assert_eq!((second.len(), &second[0]["body"]), (1, &"three".into()));
    assert!(claim(&sandbox, &["5m"]).is_empty());
    let id = first[0]["id"].as_str().unwrap();
    let shown = sandbox.agent("bob").arg("inbox").ok().stdout;
    assert_eq!(shown.matches("(claimed until ").count(), 3, "claimed is not read\n{shown}");
    let refused = sandbox.agent("bob").args(["ack", id]).fails(8);
    refused.says(&["is claimed by another reader until", "--token"]);
    let refused = sandbox.agent("bob").args(["ack", id, "--token", token(&second[0])]).fails(8);
    refused.says(&["the claim on", "has ended"]);
    sandbox.agent("bob").args(["ack", id, "--token", token(&first[0])]).ok();
    sandbox.agent("bob").args(["ack", "--all", "--token", token(&first[0])]).ok();
    sandbox.agent("bob").args(["read", second[0]["id"].as_str().unwrap(), "--token", token(&second[0])]).ok();
    assert_eq!(sandbox.agent("bob").args(["inbox", "--all", "--json"]).ok().stdout.matches("\"claim\"").count(), 0);
    sandbox.agent("bob").arg("check").fails(1);
}

#[test]
fn a_claim_ends_and_the_message_comes_again_once() {
    let sandbox = Sandbox::new();
    let id = sandbox.send("alice", "@bob", "one");
    let first = claim(&sandbox, &["1s"]);
    let again = fmail_e2e::eventually(30, "the claim ends", || claim(&sandbox, &["5m"]).pop());
    assert_eq!((&again["id"], &again["mail"]["claim"]["attempts"]), (&id.as_str().into(), &2.into()));
    assert!(claim(&sandbox, &["5m"]).is_empty(), "once");
    // The first reader comes back too late.
    sandbox.agent("bob").args(["ack", &id, "--token", token(&first[0])]).fails(8).says(&["has ended"]);
    sandbox.agent("bob").args(["ack", &id, "--token", token(&again)]).ok();
}

#[test]
fn people_are_told_the_token_too() {
    let sandbox = Sandbox::new();
    let id = sandbox.send("alice", "@bob", "one");
    let output = sandbox.agent("bob").args(["inbox", "--claim", "5m"]).ok();
    let told = output.stderr.split("--token ").nth(1).unwrap_or_else(|| panic!("{output}"));
    let token = told.split('`').next().unwrap();
    sandbox.agent("bob").args(["ack", &id, "--token", token]).ok();
}
