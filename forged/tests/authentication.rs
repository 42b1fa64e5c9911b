//! The token on TCP, byte for byte, by a client that uses none of our code but the proof.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Daemon, Place, Raw, output};
use fmail_transports::Token;
use fmail_transports::authentication::{Exchange, Nonce, Role};
use serde_json::Value;

const TOKEN: &str = "correct-horse-battery-staple-0042";
const OURS: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const PROJECT: &str = "proj-abc123";

/// A daemon with a token on a free port.
fn guarded(place: &Place) -> Daemon {
    place.launch(with_token(place, &["--tcp=127.0.0.1:0"]))
}

fn with_token(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(&place.root(), arguments);
    command.env("FMAIL_TCP__TOKEN", TOKEN).env("FMAIL_PROJECT", PROJECT);
    command
}

fn hello(nonce: &str) -> String {
    format!(
        r#"{{"cmd":"hello","project_id":"{PROJECT}","agent":"architect","version":"0.1.0","protocol":1,"nonce":"{nonce}","req_id":"hello"}}"#
    )
}

fn auth(proof: &str) -> String {
    format!(r#"{{"cmd":"auth","proof":"{proof}","req_id":"auth"}}"#)
}

/// The proof of this side, for the daemon's nonce.
fn proof(token: &str, role: Role, theirs: &str) -> String {
    let (client, server) = (Nonce::parse(OURS).unwrap(), Nonce::parse(theirs).unwrap());
    Token::new(token).proof(role, &Exchange { client: &client, server: &server, project: PROJECT })
}

/// Says hello, and checks the daemon's proof; gives its nonce.
fn challenged(raw: &mut Raw) -> String {
    let line = raw.send(&hello(OURS)).line();
    let rest = line.strip_prefix("{\"ok\":true,\"auth\":{\"scheme\":\"fmail-auth-1\",\"nonce\":\"").expect(&line);
    let (nonce, rest) = rest.split_at(64);
    let expect = proof(TOKEN, Role::Server, nonce);
    assert_eq!(rest, format!("\",\"proof\":\"{expect}\"}},\"req_id\":\"hello\"}}\n"));
    nonce.to_string()
}

fn send(body: u32) -> String {
    format!(r#"{{"cmd":"send","project_id":"{PROJECT}","agent":"a","to":"task","body":{body},"req_id":"s"}}"#)
}

#[test]
fn the_documents_lines_are_what_is_said() {
    let document = include_str!("../../docs/protocol.md");
    let place = Place::new();
    let daemon = guarded(&place);
    let mut raw = Raw::tcp(&daemon.tcp());
    assert!(document.contains(&hello(OURS)));
    let theirs = challenged(&mut raw);
    let answer = raw.ask(&auth(&proof(TOKEN, Role::Client, &theirs)));
    assert_eq!((&answer["ok"], &answer["hello"]["project"]["id"]), (&true.into(), &PROJECT.into()), "{answer}");
    assert_eq!(answer["req_id"], "auth");
    assert_eq!(raw.ask(&send(1))["ok"], true);
    assert_eq!(place.stored("task").len(), 1);
    // The document's own numbers are those of its own nonces.
    let example = |role| proof(TOKEN, role, &"2".repeat(64));
    assert!(document.contains(&auth(&example(Role::Client))));
    assert!(document.contains(&format!("\"{}\",\"proof\":\"{}\"", "2".repeat(64), example(Role::Server))));
}

#[test]
fn nothing_is_heard_before_the_proof() {
    let place = Place::new();
    let daemon = guarded(&place);
    let mut raw = Raw::tcp(&daemon.tcp());
    for line in [
        send(1).as_str(),
        r#"{"cmd":"hello","project_id":"proj-abc123","agent":"a"}"#,
        r#"{"cmd":"hello","project_id":"proj-abc123","agent":"a","nonce":"abc"}"#,
        r#"{"cmd":"watch","project_id":"proj-abc123","agent":"a"}"#,
        r#"{"cmd":"auth"}"#,
        "garbage",
        &auth(&"0".repeat(64)),
    ] {
        let refused = raw.refused(line, "denied");
        assert!(refused["error"]["help"].as_str().unwrap().contains("mail.tcp.token_file"), "{refused}");
    }
    raw.refused(&"x".repeat(20_000), "denied");
    challenged(&mut raw);
    // Between the challenge and the proof there is nothing either.
    assert_eq!(raw.refused(&send(2), "denied")["req_id"], "s");
    assert!(place.stored("task").is_empty());
    // The socket needs no token.
    assert_eq!(place.connect().ask(&send(3))["ok"], true);
}

#[test]
fn another_token_and_a_repeated_proof_are_refused() {
    let place = Place::new();
    let daemon = guarded(&place);
    let mut raw = Raw::tcp(&daemon.tcp());
    let first = challenged(&mut raw);
    raw.refused(&auth(&proof("another-token-of-thirty-two-bytes", Role::Client, &first)), "denied");
    // The right proof comes too late: a challenge is good for one attempt.
    let good = proof(TOKEN, Role::Client, &first);
    raw.refused(&auth(&good), "denied");
    // The daemon's own proof, sent back.
    let second = challenged(&mut raw);
    raw.refused(&auth(&proof(TOKEN, Role::Server, &second)), "denied");
    // What was recorded on one connection opens no other.
    let mut recorded = Raw::tcp(&daemon.tcp());
    let nonce = challenged(&mut recorded);
    let proof = proof(TOKEN, Role::Client, &nonce);
    assert_eq!(recorded.ask(&auth(&proof))["ok"], true);
    let mut replay = Raw::tcp(&daemon.tcp());
    assert_ne!(challenged(&mut replay), nonce);
    replay.refused(&auth(&proof), "denied");
    replay.refused(&send(1), "denied");
    assert!(place.stored("task").is_empty());
}

#[test]
fn a_proof_is_good_for_its_own_project() {
    let place = Place::new();
    let daemon = guarded(&place);
    let mut raw = Raw::tcp(&daemon.tcp());
    // A project that is not served: that is told only to who knows the token.
    let line = hello(OURS).replace(PROJECT, "proj-other");
    let challenge = raw.ask(&line);
    let theirs = Nonce::parse(challenge["auth"]["nonce"].as_str().unwrap()).unwrap();
    let exchange = Exchange { client: &Nonce::parse(OURS).unwrap(), server: &theirs, project: "proj-other" };
    raw.refused(&auth(&Token::new(TOKEN).proof(Role::Client, &exchange)), "invalid_project");
    raw.refused(&send(1), "denied");
    let refused: Value = Raw::tcp(&daemon.tcp()).ask(r#"{"cmd":"hello","agent":"a","nonce":"NONCE"}"#);
    assert_eq!(refused["error"]["code"], "denied", "{refused}");
    let line = hello(OURS).replace(r#""project_id":"proj-abc123","#, "");
    Raw::tcp(&daemon.tcp()).refused(&line, "invalid_request");
}

#[test]
fn who_proves_nothing_is_cut() {
    let place = Place::new();
    let daemon = guarded(&place);
    let start = Instant::now();
    let (mut silent, mut waiting) = (Raw::tcp(&daemon.tcp()), Raw::tcp(&daemon.tcp()));
    challenged(&mut waiting);
    silent.closed();
    let late = waiting.json();
    assert_eq!(late["error"]["code"], "denied", "{late}");
    assert!(late["error"]["message"].as_str().unwrap().contains("within 10 s"), "{late}");
    waiting.closed();
    assert!(start.elapsed() >= Duration::from_secs(9), "{:?}", start.elapsed());
}

#[test]
fn beyond_loopback_a_token_is_enough_and_the_log_says_for_whom() {
    let place = Place::new();
    let (code, _, stderr) = output(place.command(&place.root(), &["--tcp=0.0.0.0:0"]));
    assert_eq!(code, 9, "{stderr}");
    for named in ["mail.tcp.token_file", "mail.tcp.tls.certificate", "mail.tcp.tls.key", "--insecure"] {
        assert!(stderr.contains(named), "{named}: {stderr}");
    }
    let daemon = place.launch(with_token(&place, &["--tcp=0.0.0.0:0"]));
    let log = daemon.log();
    assert!(log.contains("everyone who knows the token can read and send"), "{log}");
    assert!(log.contains("not encrypted") && !log.contains(TOKEN), "{log}");
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let file = place.top.path().join("token");
    let refused = |says: &str| {
        let mut command = place.command(&place.root(), &["--tcp=127.0.0.1:0"]);
        command.env("FMAIL_TCP__TOKEN_FILE", &file);
        let (code, _, stderr) = output(command);
        assert!(code == 14 && stderr.contains(says) && stderr.contains("mail.tcp.token_file"), "{code} {stderr}");
        assert!(!stderr.contains(TOKEN), "{stderr}");
    };
    refused("No such file");
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    mode(0o640);
    refused("its mode is 0640, allowed is 0600");
    mode(0o600);
    let mut command = place.command(&place.root(), &["--tcp=127.0.0.1:0"]);
    command.env("FMAIL_TCP__TOKEN_FILE", &file).env("FMAIL_PROJECT", PROJECT);
    let daemon = place.launch(command);
    challenged(&mut Raw::tcp(&daemon.tcp()));
    drop(daemon);
    std::fs::write(&file, "short\n").unwrap();
    refused("its text has 5 bytes");
    if rustix::process::geteuid().is_root() {
        std::fs::write(&file, TOKEN).unwrap();
        std::os::unix::fs::chown(&file, Some(1), None).unwrap();
        refused("belongs to user 1");
    }
}
