//! PROTOCOL.md, byte for byte: each of its examples and rules, by a client that uses none of our code.

mod common;

use std::net::Shutdown;

use common::{Place, Raw};

fn send(body: &str) -> String {
    format!(r#"{{"cmd":"send","agent":"architect","to":"task","body":{body}}}"#)
}

fn watch(rest: &str) -> String {
    format!(r#"{{"cmd":"watch","agent":"architect"{rest}}}"#)
}

#[test]
fn the_example_of_send_and_its_answer() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let first = raw.ask(&send(r#""something to answer""#));
    let reply_to = first["id"].as_str().unwrap();
    raw.send(&format!(
        r#"{{"cmd":"send","agent":"architect","host":"build-server","to":"task","body":"implement auth","reply_to":"{reply_to}","priority":"normal","tags":["urgent","auth"],"req_id":"c1"}}"#
    ));
    let line = raw.line();
    let id = line.strip_prefix("{\"ok\":true,\"id\":\"").unwrap().strip_suffix("\",\"req_id\":\"c1\"}\n").unwrap();
    assert_eq!(id.len(), "20260110-153000-0001".len());
    let stored = &place.stored("task")[1];
    assert_eq!(stored["id"], id);
    assert_eq!((&stored["from"], &stored["to"]), (&"architect".into(), &"task".into()));
    assert_eq!((&stored["body"], &stored["host"]), (&"implement auth".into(), &"build-server".into()));
    assert_eq!((&stored["reply_to"], &stored["tags"]), (&reply_to.into(), &serde_json::json!(["urgent", "auth"])));
}

#[test]
fn an_answer_without_a_req_id_has_none() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let answer = raw.ask(&send("1"));
    assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["ok", "id"]);
}

#[test]
fn a_body_is_any_json_and_keeps_its_digits() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let bodies = [r#""text""#, r#"{"a":{"b":[1]}}"#, "[1,2]", "12345678901234567890.10", "true", "null", r#""é\n\"""#];
    for body in bodies {
        assert_eq!(raw.ask(&send(body))["ok"], true, "{body}");
    }
    let stored: Vec<String> = place.stored("task").iter().map(|message| message["body"].to_string()).collect();
    assert_eq!(stored, bodies);
}

#[test]
fn a_request_for_another_store_is_refused_before_anything_is_done() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let send = |store: &str| {
        format!(r#"{{"cmd":"send","agent":"architect","store":{store},"to":"task","body":"x","req_id":"c1"}}"#)
    };
    let answer = raw.refused(&send("\"memory\""), "invalid_config");
    let expect = "forged serves the store `files` here, and the request is for the store `memory`";
    assert_eq!((&answer["error"]["message"], &answer["req_id"]), (&expect.into(), &"c1".into()));
    raw.refused(&send("7"), "invalid_request");
    assert!(place.stored("task").is_empty());
    for store in ["\"files\"", "null", "\"\""] {
        assert_eq!(raw.ask(&send(store))["ok"], true, "{store}");
    }
    assert_eq!(place.stored("task").len(), 3);
}

#[test]
fn who_asks_for_an_echo_gets_the_message_as_it_is_stored() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let send = |body: &str| {
        format!(
            r#"{{"cmd":"send","agent":"architect","to":"task","body":"{body}","key":"k","echo":true,"req_id":"c1"}}"#
        )
    };
    let first = raw.ask(&send("first"));
    assert_eq!(first["msg"], place.stored("task")[0]);
    let again = raw.ask(&send("again"));
    assert_eq!((&again["msg"], &again["duplicate"]), (&first["msg"], &true.into()));
}

#[test]
fn the_example_of_an_error() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let line = r#"{"cmd":"send","agent":"architect","to":"Not A Topic","body":1,"req_id":"c1"}"#;
    let answer = raw.refused(line, "invalid_topic");
    assert!(answer["error"]["message"].as_str().unwrap().contains("not a topic name"), "{answer}");
    assert_eq!((&answer["error"]["retryable"], &answer["req_id"]), (&false.into(), &"c1".into()));
}

#[test]
fn every_mistake_has_its_code_and_the_connection_goes_on() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    for (line, code) in [
        ("", "invalid_request"),
        ("not json", "invalid_request"),
        ("[]", "invalid_request"),
        ("{}", "invalid_request"),
        (r#"{"cmd":"send"}"#, "invalid_request"),
        (r#"{"cmd":"fly","agent":"a"}"#, "invalid_request"),
        (r#"{"cmd":"send","agent":"a","to":"task"}"#, "invalid_request"),
        (r#"{"cmd":"send","agent":"a","body":1}"#, "invalid_request"),
        (r#"{"cmd":"send","agent":"a","to":"task","body":"  "}"#, "invalid_request"),
        (r#"{"cmd":"send","agent":"a","to":"task","body":1,"priority":"urgent"}"#, "invalid_request"),
        (r#"{"cmd":"send","agent":"a","to":"task","body":1,"tags":["no tag"]}"#, "invalid_request"),
        (
            r#"{"cmd":"send","agent":"a","to":"task","body":1,"tags":["1","2","3","4","5","6","7","8","9","10","11"]}"#,
            "invalid_request",
        ),
        (r#"{"cmd":"send","agent":"a b","to":"task","body":1}"#, "invalid_agent"),
        (r#"{"cmd":"send","agent":"a","to":"a/b","body":1}"#, "invalid_topic"),
        (r#"{"cmd":"send","agent":"a","to":"@a/b","body":1}"#, "invalid_topic"),
        (r#"{"cmd":"watch","agent":"a","topic":"no topic"}"#, "invalid_topic"),
        (r#"{"cmd":"watch","agent":"a","topic":"@b"}"#, "invalid_agent"),
        (r#"{"cmd":"watch","agent":"a","since":"yesterday"}"#, "invalid_request"),
        (r#"{"cmd":"send","project_id":"another","agent":"a","to":"task","body":1}"#, "invalid_project"),
        (r#"{"cmd":"relay","agent":"a"}"#, "denied"),
    ] {
        raw.refused(line, code);
    }
    assert_eq!(raw.ask(&send("1"))["ok"], true);
    assert_eq!(place.stored("task").len(), 1);
}

#[test]
fn a_message_over_the_limit_is_too_large() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    raw.refused(&send(&format!("\"{}\"", "x".repeat(1_048_576))), "too_large");
    assert_eq!(raw.ask(&send(&format!("\"{}\"", "x".repeat(1_000_000))))["ok"], true);
}

#[test]
fn the_example_of_watch_its_ack_and_its_stream() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let (mut watcher, mut sender) = (place.connect(), place.connect());
    sender.ask(&send("\"before\""));
    watcher.send(&watch(r#","host":"build-server","topic":"task","req_id":"w1""#));
    assert_eq!(watcher.line(), "{\"ok\":true,\"req_id\":\"w1\"}\n");
    let id = sender.ask(&send("\"on it\""))["id"].as_str().unwrap().to_string();
    let line = watcher.line();
    let start = format!("{{\"msg\":{{\"id\":\"{id}\",\"from\":\"architect\",\"to\":\"task\",\"time\":\"");
    assert!(line.starts_with(&start), "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["msg", "cursor"]);
    let [stored] = &place.stored("task")[1..] else { panic!() };
    assert_eq!(&value["msg"], stored);
}

#[test]
fn since_delivers_what_is_newer_first() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut sender = place.connect();
    let ids: Vec<String> =
        (0..5).map(|n| sender.ask(&send(&n.to_string()))["id"].as_str().unwrap().to_string()).collect();
    let bodies = |since: &str, count: usize| {
        let mut watcher = place.connect();
        watcher.send(&watch(&format!(r#","since":"{since}""#)));
        assert_eq!(watcher.line(), "{\"ok\":true}\n");
        let lines: Vec<serde_json::Value> = (0..count).map(|_| watcher.json()).collect();
        (lines.iter().map(|line| line["msg"]["body"].as_i64().unwrap()).collect::<Vec<_>>(), lines, watcher)
    };
    assert_eq!(bodies(&ids[1], 3).0, [2, 3, 4]);
    assert_eq!(bodies("2020-01-01T00:00:00Z", 5).0, [0, 1, 2, 3, 4]);
    let (_, lines, _) = bodies(&ids[0], 4);
    let (resumed, _, mut watcher) = bodies(lines[1]["cursor"].as_str().unwrap(), 2);
    assert_eq!(resumed, [3, 4]);
    sender.ask(&send("5"));
    assert_eq!(watcher.json()["msg"]["body"], 5);
}

#[test]
fn what_is_watched_follows_the_topic() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut sender = place.connect();
    let mut watchers: Vec<Raw> =
        ["", r#","topic":"""#, r#","topic":"*""#, r#","topic":"task""#, r#","topic":"@architect""#]
            .iter()
            .map(|topic| {
                let mut watcher = place.connect();
                assert_eq!(watcher.ask(&watch(topic))["ok"], true);
                watcher
            })
            .collect();
    for (to, body) in [("task", 1), ("other", 2), ("@someone", 3), ("@architect", 4), ("task", 5), ("@architect", 6)] {
        let line = format!(r#"{{"cmd":"send","agent":"bob","to":"{to}","body":{body}}}"#);
        assert_eq!(sender.ask(&line)["ok"], true);
    }
    let everything: &[i64] = &[1, 2, 4, 5, 6];
    for (watcher, expect) in watchers.iter_mut().zip([everything, everything, everything, &[1, 5], &[4, 6]]) {
        let seen: Vec<i64> = expect.iter().map(|_| watcher.json()["msg"]["body"].as_i64().unwrap()).collect();
        assert_eq!(seen, expect);
    }
}

#[test]
fn messages_come_in_ascending_order_to_every_watcher() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut watchers: Vec<Raw> = (0..3).map(|_| place.connect()).collect();
    for watcher in &mut watchers {
        watcher.ask(&watch(r#","topic":"task""#));
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut sender = place.connect();
                (0..25).for_each(|n| assert_eq!(sender.ask(&send(&n.to_string()))["ok"], true));
            });
        }
    });
    for watcher in &mut watchers {
        let ids: Vec<String> = (0..100).map(|_| watcher.json()["msg"]["id"].as_str().unwrap().to_string()).collect();
        assert!(ids.is_sorted(), "{ids:?}");
    }
}

#[test]
fn a_quiet_watch_gets_a_sign_of_life() {
    let place = Place::new();
    let _daemon = place.start(&["--ping-after", "20ms"]);
    let mut watcher = place.connect();
    watcher.ask(&watch(r#","req_id":"w1""#));
    assert_eq!(watcher.line(), "{\"event\":\"ping\"}\n");
    assert_eq!(watcher.line(), "{\"event\":\"ping\"}\n");
}

#[test]
fn a_connection_with_a_watch_carries_nothing_else() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut watcher = place.connect();
    watcher.ask(&watch(""));
    watcher.refused(&send("1"), "invalid_request");
    watcher.closed();
    assert!(place.stored("task").is_empty());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let lines: String = (0..50)
        .map(|n| format!("{{\"cmd\":\"send\",\"agent\":\"a\",\"to\":\"task\",\"body\":{n},\"req_id\":{n}}}\r\n"))
        .collect();
    raw.bytes(&lines);
    let answers: Vec<serde_json::Value> = (0..50).map(|_| raw.json()).collect();
    assert!(answers.iter().enumerate().all(|(n, answer)| answer["req_id"] == n && answer["ok"] == true));
    let bodies: Vec<i64> = place.stored("task").iter().map(|message| message["body"].as_i64().unwrap()).collect();
    assert_eq!(bodies, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_line_may_come_in_pieces_and_its_end_is_what_counts() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    for byte in format!("{}\n", send("\"slowly\"")).bytes() {
        raw.bytes([byte]);
    }
    assert_eq!(raw.json()["ok"], true);
    raw.bytes(send("\"cut off\""));
    raw.unix.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    assert_eq!(raw.json()["error"]["code"], "invalid_request");
    raw.closed();
    assert_eq!(place.stored("task").len(), 1);
}

#[test]
fn a_peer_that_stops_speaking_still_hears() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut watcher = place.connect();
    watcher.ask(&watch(""));
    watcher.unix.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    assert_eq!(watcher.line(), "{\"event\":\"ping\"}\n");
    place.connect().ask(&send("\"heard\""));
    let heard = std::iter::repeat_with(|| watcher.json()).find(|line| line["msg"].is_object()).unwrap();
    assert_eq!(heard["msg"]["body"], "heard");
}

#[test]
fn relay_streams_every_mailbox_where_it_is_enabled() {
    let place = Place::new();
    let mut command = place.command(&place.root(), &[]);
    command.env("FMAIL_RELAY__ENABLED", "true").env("FMAIL_TCP__ADDRESS", "127.0.0.1:0");
    let _daemon = place.launch(command);
    let mut relay = place.connect();
    relay
        .send(r#"{"cmd":"relay","agent":"relay-host-a","host":"host-a","since":"2020-01-01T00:00:00Z","req_id":"r1"}"#);
    assert_eq!(relay.line(), "{\"ok\":true,\"req_id\":\"r1\"}\n");
    let mut sender = place.connect();
    sender.ask(r#"{"cmd":"send","agent":"a","to":"task","body":1}"#);
    sender.ask(r#"{"cmd":"send","agent":"a","to":"@anyone","body":2}"#);
    assert_eq!([relay.json()["msg"]["to"].clone(), relay.json()["msg"]["to"].clone()], ["task", "@anyone"]);
}

#[test]
fn after_hello_several_requests_run_at_once_and_every_line_names_its_own() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let hello = raw.ask(r#"{"cmd":"hello","agent":"a","version":"0.1.0","protocol":1,"req_id":"h"}"#);
    assert_eq!((&hello["ok"], &hello["hello"]["protocol"], &hello["req_id"]), (&true.into(), &1.into(), &"h".into()));
    assert!(hello["hello"]["store_id"].as_str().unwrap().len() == 32, "{hello}");
    let watching = raw.ask(r#"{"cmd":"watch","agent":"a","topic":"one","req_id":"w1"}"#);
    assert!(watching["cursor"].is_string(), "{watching}");
    raw.ask(r#"{"cmd":"watch","agent":"a","topic":"two","req_id":"w2"}"#);
    let mut sender = place.connect();
    sender.ask(r#"{"cmd":"send","agent":"b","to":"two","body":2}"#);
    assert_eq!(raw.json()["req_id"], "w2");
    sender.ask(r#"{"cmd":"send","agent":"b","to":"one","body":1}"#);
    assert_eq!(raw.json()["req_id"], "w1");
    let topics = raw.ask(r#"{"cmd":"topics","agent":"a","req_id":"t"}"#);
    assert_eq!((&topics["topics"][0]["name"], &topics["req_id"]), (&"one".into(), &"t".into()));
}

#[test]
fn a_newer_client_is_told_which_protocol_is_spoken_and_is_served() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let hello = raw.ask(r#"{"cmd":"hello","agent":"a","version":"9.0.0","protocol":2,"new":{},"req_id":"h"}"#);
    assert_eq!((&hello["ok"], &hello["hello"]["protocol"]), (&true.into(), &1.into()), "{hello}");
    let refused = raw.refused(r#"{"cmd":"teleport","agent":"a","req_id":"t"}"#, "invalid_request");
    assert!(refused["error"]["help"].as_str().unwrap().contains("a newer client needs a newer daemon"), "{refused}");
    assert_eq!(raw.ask(r#"{"cmd":"send","agent":"a","to":"task","body":1,"new":[],"req_id":"s"}"#)["ok"], true);
}

#[test]
fn the_other_operations_have_the_same_shape() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    for body in ["1", "2", "3"] {
        raw.ask(&send(body));
    }
    assert_eq!(raw.ask(r#"{"cmd":"status","agent":"architect","status":"working"}"#)["status"]["status"], "working");
    assert_eq!(
        raw.ask(r#"{"cmd":"register","agent":"architect","name":"newcomer"}"#)["registered"]["name"],
        "newcomer"
    );
    let who = raw.ask(r#"{"cmd":"who","agent":"architect"}"#);
    assert_eq!(who["agents"][0]["name"], "architect");
    assert_eq!(raw.ask(r#"{"cmd":"log","agent":"architect","topic":"task","limit":2}"#)["more"], true);
    assert_eq!((raw.json()["msg"]["body"].clone(), raw.json()["msg"]["body"].clone()), (2.into(), 3.into()));
    assert_eq!(raw.line(), "{\"event\":\"end\"}\n");
    assert_eq!(raw.ask(r#"{"cmd":"gc","agent":"architect","days":7}"#)["gc"]["dry_run"], false);
    assert_eq!(raw.line(), "{\"event\":\"end\"}\n");
    assert_eq!(raw.ask(r#"{"cmd":"topics","agent":"architect"}"#)["topics"][0]["messages"], 3);
}

#[test]
fn a_repeated_key_stores_once() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut raw = place.connect();
    let line = r#"{"cmd":"send","agent":"a","to":"task","body":1,"key":"k1"}"#;
    let (first, second) = (raw.ask(line), raw.ask(line));
    assert_eq!((&first["id"], &second["duplicate"]), (&second["id"], &true.into()));
    assert_eq!(place.stored("task").len(), 1);
}

#[test]
fn an_agent_with_an_open_watch_is_active() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let mut watcher = place.connect();
    watcher.ask(r#"{"cmd":"watch","agent":"sleeper"}"#);
    // What the record says is long ago; the open watch counts all the same.
    let record = r#"{"name":"sleeper","first_seen":"2026-01-10T15:00:00Z","last_seen":"2026-01-10T15:00:00Z"}"#;
    std::fs::write(place.root().join(".fmail/agents/sleeper.json"), record).unwrap();
    let mut asker = place.connect();
    let mut state = || asker.ask(r#"{"cmd":"who","agent":"a"}"#)["agents"][0]["state"].clone();
    assert_eq!(state(), "active");
    drop(watcher);
    let end = std::time::Instant::now() + common::DEADLINE;
    while state() != "offline" {
        assert!(std::time::Instant::now() < end, "{}", state());
        std::thread::yield_now();
    }
}
