//! Many messages to many watchers: nothing is lost, doubled or out of order, whoever reads slowly or goes away.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use common::{DEADLINE, Daemon, Place, Raw};
use serde_json::Value;

const HELLO: &str = r#"{"cmd":"hello","agent":"a","req_id":"h"}"#;
const WATCH: &str = r#"{"cmd":"watch","agent":"w","topic":"task"}"#;

/// A daemon that puts sends together.
fn start(place: &Place) -> Daemon {
    let mut command = place.command(&place.root(), &[]);
    command.env("FMAIL_DURABILITY", "os");
    place.launch(command)
}

/// So many sends, numbered from 0, as a pipelining sender writes them.
fn sends(count: usize) -> String {
    let filler = "x".repeat(300);
    let send = |n| {
        format!("{{\"cmd\":\"send\",\"agent\":\"a\",\"to\":\"task\",\"body\":[{n},\"{filler}\"],\"req_id\":\"{n}\"}}\n")
    };
    (0..count).map(send).collect()
}

/// Sends so many and takes the answers, while the sends are still being written.
fn send_many(place: &Place, count: usize) -> Vec<Value> {
    let mut sender = place.connect();
    sender.ask(HELLO);
    let mut stream = sender.unix.as_ref().unwrap().try_clone().unwrap();
    let writing = std::thread::spawn(move || stream.write_all(sends(count).as_bytes()).unwrap());
    let answers = (0..count).map(|_| sender.json()).collect();
    writing.join().unwrap();
    answers
}

fn number(line: &Value) -> u64 {
    line["msg"]["body"][0].as_u64().unwrap_or_else(|| panic!("{line}"))
}

fn watcher(place: &Place) -> Raw {
    let mut raw = place.connect();
    assert_eq!(raw.ask(WATCH)["ok"], true);
    raw
}

/// The next message; pings may come in between.
fn message(watcher: &mut Raw) -> Value {
    loop {
        let line = watcher.json();
        if line["event"] != "ping" {
            return line;
        }
    }
}

#[test]
fn pipelined_sends_are_stored_and_answered_in_the_order_sent() {
    let place = Place::new();
    let _daemon = start(&place);
    let mut watcher = watcher(&place);
    let answers = send_many(&place, 1_000);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!((&answer["ok"], &answer["req_id"]), (&true.into(), &n.to_string().into()));
    }
    assert!(answers.is_sorted_by(|one, next| one["id"].as_str() < next["id"].as_str()));
    for (n, answer) in answers.iter().enumerate() {
        let line = message(&mut watcher);
        assert_eq!((number(&line), &line["msg"]["id"]), (n as u64, &answer["id"]));
    }
    assert_eq!(place.stored("task").len(), 1_000);
}

#[test]
fn among_pipelined_sends_one_that_is_refused_is_refused_alone() {
    let place = Place::new();
    let _daemon = start(&place);
    let mut raw = place.connect();
    raw.ask(HELLO);
    raw.bytes(concat!(
        r#"{"cmd":"send","agent":"a","to":"task","body":1,"req_id":"1"}"#,
        "\n",
        r#"{"cmd":"send","agent":"a","to":"task","body":" ","req_id":"2"}"#,
        "\n",
        r#"{"cmd":"send","agent":"a","to":"task","body":3,"key":"k","req_id":"3"}"#,
        "\n",
        r#"{"cmd":"send","agent":"a","to":"task","body":4,"key":"k","req_id":"4"}"#,
        "\n",
    ));
    let answers: Vec<Value> = (0..4).map(|_| raw.json()).collect();
    let told: Vec<(&Value, &Value)> = answers.iter().map(|answer| (&answer["req_id"], &answer["ok"])).collect();
    let [yes, no] = [true, false].map(Value::from);
    let ids = ["1", "2", "3", "4"].map(Value::from);
    assert_eq!(told, [(&ids[0], &yes), (&ids[1], &no), (&ids[2], &yes), (&ids[3], &yes)]);
    assert_eq!((&answers[3]["duplicate"], &answers[3]["id"]), (&yes, &answers[2]["id"]));
    assert_eq!(place.stored("task").len(), 2);
}

/// Messages of both kinds in turn, while a watch does not read: the daemon keeps 8 MB of texts for it, and the messages
/// that they are the texts of. What the allocator loses between them has to stay within as much again.
#[test]
fn what_is_kept_for_readers_that_lag_takes_little_more_than_its_bound() {
    let place = Place::new();
    let daemon = start(&place);
    let _lags = watcher(&place);
    let mut sender = place.connect();
    let mut send = |count: usize, size: usize| {
        let line = format!(r#"{{"cmd":"send","agent":"a","to":"task","body":"{}"}}"#, "x".repeat(size));
        (0..count).for_each(|_| assert_eq!(sender.ask(&line)["ok"], true));
    };
    let before = daemon.memory();
    for _ in 0..4 {
        send(200, 60_000);
        send(1_000, 200);
    }
    let more = daemon.memory() - before;
    assert!(more < 34 * 1024 * 1024, "{} MB more", more >> 20);
}

#[test]
fn a_thousand_watchers_get_every_message_in_order() {
    const MESSAGES: usize = 100;
    let place = Place::new();
    let _daemon = start(&place);
    let socket = place.root().join(".fmail/forged.sock");
    let mut watchers: Vec<BufReader<UnixStream>> =
        (0..1_000).map(|_| BufReader::new(UnixStream::connect(&socket).unwrap())).collect();
    let line = |watcher: &mut BufReader<UnixStream>| -> Value {
        loop {
            let mut line = String::new();
            watcher.read_line(&mut line).unwrap();
            let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            if value["event"] != "ping" {
                return value;
            }
        }
    };
    for watcher in &mut watchers {
        watcher.get_ref().set_read_timeout(Some(DEADLINE)).unwrap();
        watcher.get_mut().write_all(format!("{WATCH}\n").as_bytes()).unwrap();
        assert_eq!(line(watcher)["ok"], true);
    }
    send_many(&place, MESSAGES);
    for watcher in &mut watchers {
        for n in 0..MESSAGES {
            assert_eq!(number(&line(watcher)), n as u64);
        }
    }
}

#[test]
fn a_watcher_that_stops_in_the_middle_of_a_batch_gets_the_rest_of_it_and_holds_up_nobody() {
    // More than fits into its socket, and less than is kept for who lags behind.
    const MESSAGES: usize = 3_000;
    let place = Place::new();
    let _daemon = start(&place);
    let (mut stopped, mut brisk) = (watcher(&place), watcher(&place));
    let reading = std::thread::spawn(move || (0..MESSAGES).map(|_| number(&message(&mut brisk))).collect::<Vec<_>>());
    send_many(&place, MESSAGES);
    assert!(reading.join().unwrap().into_iter().eq(0..MESSAGES as u64));
    for n in 0..MESSAGES {
        assert_eq!(number(&message(&mut stopped)), n as u64);
    }
}

#[test]
fn watchers_that_go_away_in_the_middle_of_a_batch_harm_nobody() {
    const MESSAGES: usize = 2_000;
    let place = Place::new();
    let _daemon = start(&place);
    let mut going: Vec<Raw> = (0..50).map(|_| watcher(&place)).collect();
    let mut staying = watcher(&place);
    let reading = std::thread::spawn(move || (0..MESSAGES).map(|_| number(&message(&mut staying))).collect::<Vec<_>>());
    let leaving = std::thread::spawn(move || {
        // Each has got something, and closes with much unread.
        going.iter_mut().for_each(|watcher| assert_eq!(number(&message(watcher)), 0));
    });
    send_many(&place, MESSAGES);
    leaving.join().unwrap();
    assert!(reading.join().unwrap().into_iter().eq(0..MESSAGES as u64));
}

#[test]
fn what_a_sender_has_sent_is_stored_also_when_it_goes_away() {
    const MESSAGES: usize = 200;
    let place = Place::new();
    let _daemon = start(&place);
    let mut watcher = watcher(&place);
    let mut sender = place.connect();
    sender.ask(HELLO);
    sender.bytes(sends(MESSAGES));
    // A sender that closes its side gets all its answers.
    sender.unix.as_ref().unwrap().shutdown(std::net::Shutdown::Write).unwrap();
    assert!((0..MESSAGES).all(|_| sender.json()["ok"] == true));
    sender.closed();
    (0..MESSAGES).for_each(|n| assert_eq!(number(&message(&mut watcher)), n as u64));
    // One that is gone altogether gets none; what the daemon has begun with is stored whole, and the daemon goes on.
    let mut gone = place.connect();
    gone.ask(HELLO);
    gone.bytes(sends(MESSAGES));
    drop(gone);
    assert_eq!(place.connect().ask(r#"{"cmd":"send","agent":"a","to":"other","body":1}"#)["ok"], true);
    let stored = place.stored("task").len();
    assert!((MESSAGES..=2 * MESSAGES).contains(&stored), "{stored}");
}
