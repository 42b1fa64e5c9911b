//! Two daemons that relay: what is sent at one is seen at the other, whoever dials whom and whoever is started again.

mod common;
#[path = "common/relaying.rs"]
mod relaying;

use std::time::Instant;

use serde_json::Value;

use common::{DEADLINE, Raw};
use relaying::Relaying;

#[test]
fn what_is_sent_on_one_host_reaches_a_watcher_on_the_other_both_ways() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let listening = b.start(&[]);
    let _dialling = a.start(&[&listening.tcp()]);
    let mut at_b = b.watch();
    let mut at_a = a.watch();
    a.send("from a");
    assert_eq!(at_b.json()["msg"]["body"], "from a");
    b.send("from b");
    assert_eq!(at_a.json()["msg"]["body"], "from a");
    assert_eq!(at_a.json()["msg"]["body"], "from b");
    assert_eq!(at_b.json()["msg"]["body"], "from b");
    assert_eq!(a.bodies(), b.bodies());
}

#[test]
fn what_was_sent_before_and_while_the_other_was_away_comes_after_all() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let mut listening = b.start(&[]);
    let address = listening.tcp();
    b.send("b0");
    let mut dialling = a.start(&[&address]);
    b.holds(&["b0"]);
    a.holds(&["b0"]);
    a.send("a1");
    b.holds(&["a1", "b0"]);

    listening.kill();
    a.send("a2");
    let _again = b.start_at(&address, &[]);
    b.send("b1");
    b.holds(&["a1", "a2", "b0", "b1"]);
    a.holds(&["a1", "a2", "b0", "b1"]);

    dialling.kill();
    b.send("b2");
    let _again = a.start(&[&address]);
    a.send("a3");
    for host in [&a, &b] {
        host.holds(&["a1", "a2", "a3", "b0", "b1", "b2"]);
    }
}

#[test]
fn two_hosts_that_dial_each_other_use_one_link() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let (at_a, at_b) = (relaying::free_address(), relaying::free_address());
    let _a = a.start_at(&at_a, &[&at_b]);
    let _b = b.start_at(&at_b, &[&at_a]);
    a.send("from a");
    b.send("from b");
    a.holds(&["from a", "from b"]);
    b.holds(&["from a", "from b"]);
    let end = Instant::now() + DEADLINE;
    loop {
        let stands_by = |host: &Relaying| {
            let links = host.status()["relays"][0]["links"].clone();
            links.as_array().unwrap().iter().any(|link| {
                link["incoming"] != true && link["problem"].as_str().is_some_and(|text| text.contains("stands by"))
            })
        };
        if stands_by(&a) != stands_by(&b) {
            break;
        }
        assert!(Instant::now() < end, "{}\n{}", a.status(), b.status());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let passed = || -> u64 {
        let dialled = |host: &Relaying, way: &str| -> u64 {
            let links = host.status()["relays"][0]["links"].clone();
            let dialled = links.as_array().unwrap().iter().filter(|link| link["incoming"] != true);
            dialled.filter_map(|link| link["counts"][way].as_u64()).sum()
        };
        dialled(&a, "bytes_sent") + dialled(&b, "bytes_received")
    };
    let (before, large) = (passed(), "x".repeat(100_000));
    a.send(&large);
    b.holds(&["from a", "from b", &large]);
    // What came a second time would have come before this.
    b.send("and back");
    a.holds(&["and back", "from a", "from b", &large]);
    a.send("again");
    b.holds(&["again", "and back", "from a", "from b", &large]);
    let passed = passed() - before;
    assert!((100_000..190_000).contains(&passed), "{passed} bytes\n{}\n{}", a.status(), b.status());
}

#[test]
fn the_status_tells_who_is_there_and_what_has_passed() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let listening = b.start(&[]);
    let address = listening.tcp();
    let _dialling = a.start(&[&address]);
    a.send("one");
    b.holds(&["one"]);
    // What was sent before the link came is queued until both have compared what they hold.
    let arrived = |link: &Value| link["counts"]["sent"] == 1 && link["queued"] == 0;
    let link = a.link(&address, |link| arrived(link) && link["round_trip"].is_number());
    assert_eq!((&link["connected"], &link["authenticated"]), (&true.into(), &false.into()), "{link}");
    assert_eq!(link["node"]["run"], b.status()["node"]["run"], "{link}");
    assert!(link["counts"]["bytes_sent"].as_u64().unwrap() > 100, "{link}");
    let incoming = b.incoming(|link| link["counts"]["received"] == 1 && link["connected"] == true);
    assert_eq!(incoming["node"], a.status()["node"], "{incoming}");
}

#[test]
fn the_host_that_was_dialled_tells_the_same_story_as_the_one_that_dials() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let listening = b.start(&[]);
    let address = listening.tcp();
    let mut dialling = a.start(&[&address]);
    a.send("from a");
    b.send("from b");
    a.holds(&["from a", "from b"]);
    b.holds(&["from a", "from b"]);
    // A round trip that was made, bytes both ways, and what the other end has stored.
    let same = |link: &Value| {
        link["counts"]["sent"] == 1
            && link["counts"]["received"] == 1
            && link["queued"] == 0
            && link["connected"] == true
    };
    let there = b.incoming(|link| same(link) && link["round_trip"].is_number());
    assert!(there["answered"].is_string(), "{there}");
    assert_eq!(there["last_sent"]["id"], a.link(&address, same)["last_received"]["id"], "{there}");
    for way in ["bytes_sent", "bytes_received"] {
        assert!(there["counts"][way].as_u64().unwrap() > 100, "{there}");
    }

    // What arrives while the other one is away is queued for it, until it has it.
    dialling.kill();
    b.incoming(|link| link["connected"] == false);
    // The count begins a moment behind the loss.
    let end = Instant::now() + DEADLINE;
    let mut sent = Vec::new();
    loop {
        let body = format!("missed {:03}", sent.len());
        b.send(&body);
        sent.push(body);
        let gone = b.incoming(|_| true);
        if gone["queued"].as_u64().unwrap() > 0 && gone["lag"].is_number() {
            break;
        }
        assert!(Instant::now() < end, "{gone}");
    }
    let before = b.incoming(|link| link["connected"] == false);
    let _again = a.start(&[&address]);
    let mut all: Vec<&str> = sent.iter().map(String::as_str).collect();
    all.extend(["from a", "from b"]);
    all.sort_unstable();
    a.holds(&all);
    let after = b.incoming(|link| {
        let stored = link["counts"]["sent"].as_u64() == Some(1 + sent.len() as u64);
        link["connected"] == true && link["queued"] == 0 && stored && link["round_trip"].is_number()
    });
    assert!(after["since"].as_str() > before["since"].as_str(), "a new link has a new beginning: {before} {after}");
    let links = b.status()["relays"][0]["links"].as_array().unwrap().len();
    assert_eq!(links, 1, "the host that came back is the one that went: {}", b.status());
}

#[test]
fn what_was_written_and_not_stored_there_is_queued_and_not_sent() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let listening = b.start(&[]);
    let _dialling = a.start(&[&listening.tcp()]);
    b.send("one");
    a.holds(&["one"]);
    b.incoming(|link| link["counts"]["sent"] == 1 && link["queued"] == 0);
    // The host that dials cannot store anything as long as another writer has its files.
    let held = std::fs::File::open(a.place.root().join(".fmail/lock")).unwrap();
    held.lock().unwrap();
    b.send("two");
    let link = b.incoming(|link| link["queued"] == 1 && link["lag"].is_number());
    assert_eq!(link["counts"]["sent"], 1, "{link}");
    drop(held);
    a.holds(&["one", "two"]);
    b.incoming(|link| link["counts"]["sent"] == 2 && link["queued"] == 0);
}

#[test]
fn a_plain_caller_that_is_gone_leaves_no_row_and_what_it_got_is_unconfirmed() {
    let a = Relaying::new();
    let daemon = a.start(&[]);
    let mut raw = Raw::tcp(&daemon.tcp());
    let ask = format!(r#"{{"cmd":"relay","project_id":"{}","agent":"old","host":"old-host"}}"#, a.project());
    assert_eq!(raw.ask(&ask)["ok"], true);
    a.send("one");
    let link = a.incoming(|link| link["counts"]["unconfirmed"] == 1);
    assert_eq!((&link["plain"], &link["counts"]["sent"]), (&true.into(), &0.into()), "{link}");
    drop(raw);
    let end = Instant::now() + DEADLINE;
    while a.status()["relays"][0]["links"] != serde_json::json!([]) {
        assert!(Instant::now() < end, "{}", a.status());
        a.send("again");
    }
}

#[test]
fn callers_who_speak_garbage_are_counted_and_the_last_one_is_shown() {
    let a = Relaying::new();
    let daemon = a.start(&[]);
    assert!(a.status()["strangers"].is_null(), "{}", a.status());
    Raw::tcp(&daemon.tcp()).refused("\u{16}\u{3}\u{1}", "invalid_request");
    assert!(a.status()["strangers"]["reason"].as_str().unwrap().contains("TLS"), "{}", a.status());
    for line in ["GET / HTTP/1.1", "[]"] {
        let mut raw = Raw::tcp(&daemon.tcp());
        raw.refused(line, "invalid_request");
        raw.refused("and again", "invalid_request");
    }
    let strangers = a.status()["strangers"].clone();
    assert_eq!(strangers["count"], 3, "{strangers}");
    assert!(strangers["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{strangers}");
    assert!(strangers["reason"].as_str().unwrap().contains("not a JSON object"), "{strangers}");
    assert!(strangers["at"].is_string(), "{strangers}");
    // A host that relays another project is told apart from an agent that looks for its daemon.
    let mut raw = Raw::tcp(&daemon.tcp());
    raw.refused(r#"{"cmd":"log","project_id":"other","agent":"x"}"#, "invalid_project");
    assert_eq!(a.status()["strangers"]["count"], 3);
    raw.refused(r#"{"cmd":"relay","project_id":"other","agent":"x"}"#, "invalid_project");
    assert_eq!(a.status()["strangers"]["count"], 4);
}

#[test]
fn who_brings_what_is_no_message_is_counted_though_it_never_said_who_it_is() {
    let a = Relaying::new();
    let daemon = a.start(&[]);
    let bring = |id: &str, host: &str| {
        let message = format!(
            r#"{{"id":"{id}","from":"bob","to":"task","time":"2026-01-10T15:30:00Z","host":"{host}","body":1}}"#
        );
        format!(r#"{{"cmd":"import","project_id":"{}","agent":"x","msg":{message}}}"#, a.project())
    };
    Raw::tcp(&daemon.tcp()).refused(&bring("../../../x", "h"), "invalid_request");
    let strangers = a.status()["strangers"].clone();
    assert_eq!(strangers["count"], 1, "{strangers}");
    let mut raw = Raw::tcp(&daemon.tcp());
    assert_eq!(raw.ask(&bring("20260110-153000-0001", "\\u0007"))["imported"]["refused"], "invalid");
    let strangers = a.status()["strangers"].clone();
    assert_eq!(strangers["count"], 2, "{strangers}");
    assert!(strangers["reason"].as_str().unwrap().contains("20260110-153000-0001"), "{strangers}");
    // What is taken is no reason to turn anybody away.
    let mut raw = Raw::tcp(&daemon.tcp());
    assert_eq!(raw.ask(&bring("20260110-153000-0002", "h"))["imported"], "new");
    assert_eq!(a.status()["strangers"]["count"], 2);
}

#[test]
fn a_caller_with_our_own_name_is_told_of() {
    let a = Relaying::new();
    let daemon = a.start(&[]);
    let host = a.status()["node"]["host"].as_str().unwrap().to_string();
    let mut raw = Raw::tcp(&daemon.tcp());
    let ask = format!(r#"{{"cmd":"relay","project_id":"{}","agent":"old","host":"{host}"}}"#, a.project());
    assert_eq!(raw.ask(&ask)["ok"], true);
    let link = a.incoming(|link| link["problem"].is_string());
    assert!(link["problem"].as_str().unwrap().contains("as this host does"), "{link}");
    assert_eq!(link["connected"], true, "{link}");
}

#[test]
fn a_host_that_dials_itself_says_so() {
    let a = Relaying::new();
    let address = relaying::free_address();
    let _a = a.start_at(&address, &[&address]);
    let link = a.link(&address, |link| link["problem"].as_str().is_some_and(|text| text.contains("itself")));
    assert_eq!(link["connected"], false, "{link}");
    a.send("unharmed");
    a.holds(&["unharmed"]);
}

#[test]
fn a_peer_that_serves_another_project_is_not_connected_and_says_why() {
    let (a, b) = (Relaying::new(), Relaying::named("other"));
    let listening = b.start(&[]);
    let address = listening.tcp();
    let _dialling = a.start(&[&address]);
    let link = a.link(&address, |link| link["problem"].as_str().is_some_and(|text| text.contains("does not serve")));
    assert_eq!(link["connected"], false, "{link}");
    a.send("kept here");
    b.send("kept there");
    assert_eq!((a.bodies(), b.bodies()), (vec!["kept here".to_string()], vec!["kept there".to_string()]));
}

#[test]
fn a_project_that_is_not_trusted_dials_nobody_and_says_so() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let listening = b.start(&[]);
    let address = listening.tcp();
    std::fs::create_dir_all(a.place.root().join(".fmail")).unwrap();
    let yaml = format!(
        "mail:\n  relay:\n    enabled: true\n    peers:\n      - \"{address}\"\n    dial_timeout: 2s\n    reconnect_interval: 2s\n"
    );
    std::fs::write(a.place.root().join(".fmail/config.yaml"), yaml).unwrap();
    let daemon = a.place.start(&[]);
    let status = a.status();
    let notes = status["notes"].to_string();
    assert!(notes.contains("mail.relay.peers") && notes.contains("not trusted"), "{status}");
    assert_eq!(status["relays"], serde_json::json!([]), "{status}");
    assert!(daemon.log().contains("is not trusted, so"), "{}", daemon.log());
}

#[test]
fn the_relay_configuration_of_the_specification_loads_as_it_stands() {
    let (a, b) = (Relaying::new(), Relaying::new());
    let listening = b.start(&[]);
    let address = listening.tcp();
    a.configure(&format!(
        "mail:\n  relay:\n    enabled: true\n    peers:\n      - \"{address}\"\n      - \"127.0.0.1:9\"\n    dial_timeout: 2s\n    reconnect_interval: 2s\n"
    ));
    let _dialling = a.place.start(&["--tcp=127.0.0.1:0"]);
    a.send("by the book");
    b.holds(&["by the book"]);
    let gone = a.link("127.0.0.1:9", |link| link["problem"].is_string());
    assert_eq!((&gone["connected"], &gone["since"].is_string()), (&false.into(), &true), "{gone}");
}

#[test]
fn without_relaying_nobody_may_ask_for_everything_and_nobody_may_bring_anything() {
    let a = Relaying::new();
    let daemon = a.place.start(&["--tcp=127.0.0.1:0"]);
    let mut raw = Raw::tcp(&daemon.tcp());
    let hello = a.place.connect().ask(r#"{"cmd":"hello","agent":"x"}"#);
    let project = hello["hello"]["project"]["id"].as_str().unwrap();
    for request in ["relay", "digest", "fetch"] {
        raw.refused(&format!(r#"{{"cmd":"{request}","project_id":"{project}","agent":"x"}}"#), "denied");
    }
    let message = r#"{"id":"20260110-153000-0001","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":1}"#;
    raw.refused(&format!(r#"{{"cmd":"import","project_id":"{project}","agent":"x","msg":{message}}}"#), "denied");
    let many = |project: &str| format!(r#"{{"cmd":"import_many",{project}"agent":"x","msgs":[{message}]}}"#);
    raw.refused(&many(&format!(r#""project_id":"{project}","#)), "denied");
    // A user of this machine does not write in other agents' names, relaying or not.
    drop(daemon);
    let _daemon = a.start(&[]);
    a.place.connect().refused(&format!(r#"{{"cmd":"import","agent":"x","msg":{message}}}"#), "denied");
    a.place.connect().refused(&many(""), "denied");
}

#[test]
fn hosts_with_one_token_are_shown_as_authenticated_and_one_without_it_is_kept_out() {
    let token = |host: &Relaying, text: &str| {
        let file = host.place.top.path().join("token");
        std::fs::write(&file, text).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, private).unwrap();
        format!("  tcp:\n    token_file: {}\n", file.display())
    };
    let relay = |peer: &str| {
        format!("mail:\n  relay:\n    enabled: true\n    reconnect_interval: 100ms\n    peers: [\"{peer}\"]\n")
    };
    let (a, b, c) = (Relaying::new(), Relaying::new(), Relaying::new());
    b.configure(&format!("{}{}", relay("127.0.0.1:9"), token(&b, &"t".repeat(40))));
    let listening = b.place.start(&["--tcp=127.0.0.1:0"]);
    let address = listening.tcp();
    a.configure(&format!("{}{}", relay(&address), token(&a, &"t".repeat(40))));
    let _a = a.place.start(&["--tcp=127.0.0.1:0"]);
    c.configure(&format!("{}{}", relay(&address), token(&c, &"u".repeat(40))));
    let _c = c.place.start(&["--tcp=127.0.0.1:0"]);
    a.send("proved");
    c.send("not proved");
    b.holds(&["proved"]);
    assert_eq!(a.link(&address, |link| link["connected"] == true)["authenticated"], true);
    assert_eq!(b.incoming(|link| link["connected"] == true)["authenticated"], true);
    let kept_out = c.link(&address, |link| link["problem"].as_str().is_some_and(|text| text.contains("token")));
    assert_eq!(kept_out["connected"], false, "{kept_out}");
    c.holds(&["not proved"]);
}

#[test]
fn an_incoming_link_with_tls_is_shown_as_encrypted_on_both_sides() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
    let (a, b) = (Relaying::new(), Relaying::new());
    let file = |host: &Relaying, name: &str, text: &str| {
        let path = host.place.top.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let relay = "mail:\n  relay:\n    enabled: true\n    reconnect_interval: 100ms\n";
    let (shown, secret) = (file(&b, "crt", &certificate), file(&b, "key", &key.serialize_pem()));
    b.configure(&format!("{relay}  tcp:\n    tls:\n      certificate: {shown}\n      key: {secret}\n"));
    let listening = b.place.start(&["--tcp=127.0.0.1:0"]);
    let address = listening.tcp();
    let believed = file(&a, "crt", &certificate);
    a.configure(&format!("{relay}    peers: [\"{address}\"]\n  tcp:\n    tls:\n      authority: {believed}\n"));
    let _a = a.place.start(&[]);
    a.send("over TLS");
    b.holds(&["over TLS"]);
    let there = b.incoming(|link| link["connected"] == true);
    assert_eq!((&there["encrypted"], &there["authenticated"]), (&true.into(), &false.into()), "{there}");
    assert_eq!(a.link(&address, |link| link["connected"] == true)["encrypted"], true);
    // Somebody who does not speak it is no silent caller.
    Raw::tcp(&address).refused(r#"{"cmd":"relay","project_id":"x","agent":"x"}"#, "denied");
    assert!(b.status()["strangers"]["reason"].as_str().unwrap().contains("TLS only"), "{}", b.status());
}
