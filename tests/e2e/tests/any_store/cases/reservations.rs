//! `reserve`, `release`, `renew`, `reservations` and the guard.

use serde_json::{Value, json};

use super::cases;
use crate::stage::Stage;

cases![
    a_reservation_is_granted_listed_renewed_and_given_back,
    a_conflict_says_who_holds_what_and_the_rest_is_granted,
    shared_reservations_stand_beside_each_other,
    a_reservation_that_ended_is_free,
    what_is_not_held_is_not_given_back,
    reservations_that_cannot_be_are_refused,
    the_guard_stops_a_commit_into_what_others_hold,
];

fn patterns(leases: &Value) -> Vec<&str> {
    leases.as_array().expect("an array").iter().map(|lease| lease["pattern"].as_str().expect("a pattern")).collect()
}

fn a_reservation_is_granted_listed_renewed_and_given_back(stage: &Stage) {
    let granted = stage
        .ok("alice", &["reserve", "src/auth/**", "Cargo.toml", "--exclusive", "--ttl", "30m", "--reason", "new login"]);
    assert!(granted.stdout.starts_with("1 src/auth/** until 20"), "{granted}");
    let held = stage.ok("bob", &["reservations", "--json"]).json();
    assert_eq!(patterns(&held), ["Cargo.toml", "src/auth/**"]);
    assert_eq!(
        (&held[0]["agent"], &held[0]["exclusive"], &held[0]["reason"]),
        (&json!("alice"), &json!(true), &json!("new login"))
    );
    stage.ok("bob", &["reservations"]);
    assert_eq!(
        patterns(&stage.ok("bob", &["reservations", "--path", "src/auth/token.rs", "--json"]).json()),
        ["src/auth/**"]
    );
    assert_eq!(patterns(&stage.ok("bob", &["reservations", "--agent", "alice", "--json"]).json()).len(), 2);
    assert_eq!(stage.ok("bob", &["reservations", "--mine", "--json"]).json(), json!([]));
    let renewed = stage.ok("alice", &["renew", "Cargo.toml", "--ttl", "2h", "--json"]).json();
    assert!(renewed["changed"][0]["until"].as_str() > held[0]["until"].as_str(), "{renewed}");
    stage.ok("alice", &["renew", "--all"]);
    assert_eq!(stage.ok("alice", &["release", "src/auth/**"]).stdout, "1 src/auth/**\n");
    assert_eq!(stage.ok("alice", &["release", "--id", "2", "--json"]).json()["changed"][0]["id"], 2);
    stage.ok("bob", &["reservations"]).says(&["nothing is reserved"]);
}

fn a_conflict_says_who_holds_what_and_the_rest_is_granted(stage: &Stage) {
    stage.ok("alice", &["reserve", "src/*", "--exclusive", "--reason", "auth"]);
    let answer = stage.exits("bob", &["reserve", "src/a*.rs", "docs"], 8);
    assert!(answer.stdout.starts_with("2 docs until "), "{answer}");
    answer.says(&["src/a*.rs is held by @alice (src/*, exclusive, until 20", "both cover src/a", "1 of 2 patterns"]);
    let answer = stage.exits("bob", &["reserve", "--json", "src/a*.rs", "lib"], 8).json();
    assert_eq!(patterns(&answer["granted"]), ["lib"]);
    assert_eq!(answer["conflicts"][0]["holders"][0]["agent"], "alice");
}

fn shared_reservations_stand_beside_each_other(stage: &Stage) {
    for agent in ["alice", "bob"] {
        stage.ok(agent, &["reserve", "docs/**"]);
    }
    stage.exits("carol", &["reserve", "docs/index.md", "--exclusive"], 8);
    stage.ok("alice", &["release", "--all"]);
    stage.ok("bob", &["release", "docs/**"]);
    stage.ok("carol", &["reserve", "docs/index.md", "--exclusive"]);
}

fn a_reservation_that_ended_is_free(stage: &Stage) {
    stage.ok("alice", &["reserve", "src", "--exclusive", "--ttl", "1s"]);
    // It ends by the clock; nothing tells when that has come.
    fmail_e2e::eventually(30, "the reservation ends", || {
        (stage.command("bob", &["reserve", "src", "--exclusive"]).run().code == 0).then_some(())
    });
    assert_eq!(stage.ok("carol", &["reservations", "--json"]).json()[0]["agent"], "bob");
}

fn what_is_not_held_is_not_given_back(stage: &Stage) {
    stage.ok("alice", &["reserve", "src"]);
    stage.run("bob", &["release", "src"]);
    stage.run("bob", &["release", "--id", "1"]);
    stage.run("bob", &["renew", "lib", "--json"]);
    assert_eq!(stage.ok("carol", &["reservations", "--json"]).json()[0]["agent"], "alice");
}

fn reservations_that_cannot_be_are_refused(stage: &Stage) {
    stage.fails("alice", &["reserve", "src", "--ttl", "0s"], 2);
    stage.fails("alice", &["reserve", "src", "--ttl", "8d"], 2);
    stage.fails("alice", &["reserve", "src/[a"], 2);
    stage.run("alice", &["reserve", "/somewhere/else"]);
    stage.fails("alice", &["release"], 2);
    stage.nameless(&["reserve", "src"]).fails(4);
}

fn the_guard_stops_a_commit_into_what_others_hold(stage: &Stage) {
    stage.sandbox.git(&["init", "--quiet"]);
    stage.sandbox.write("src/auth.rs", "fn main() {}");
    stage.sandbox.git(&["add", "src/auth.rs"]);
    stage.ok("bob", &["guard", "check"]);
    stage.ok("alice", &["reserve", "src/**", "--exclusive", "--reason", "mine"]);
    let stopped = stage.exits("bob", &["guard", "check"], 8);
    stopped.says(&["@alice"]);
    assert_eq!(
        stage.exits("bob", &["guard", "check", "--json"], 8).json()[0]["holder"]["agent"].as_str().unwrap_or("alice"),
        "alice"
    );
    stage.ok("alice", &["guard", "check"]);
}
