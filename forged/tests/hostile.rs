//! Peers that are broken, slow, or worse: each is answered or cut, and nobody else notices.

mod common;

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::Place;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

const SEND: &str = r#"{"cmd":"send","agent":"architect","host":"build-server","to":"task","body":{"a":[1,"é"]},"priority":"high","tags":["urgent"],"req_id":"c1"}"#;
const WATCH: &str = r#"{"cmd":"watch","agent":"a","topic":"@a","since":"2026-01-10T15:00:00Z","req_id":"w1"}"#;

/// A generator of numbers that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Ten thousand lines that are wrong, each in its own way. None contains the end of a line.
fn malformed() -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for valid in [SEND, WATCH] {
        lines.extend((0..valid.len()).map(|length| valid.as_bytes()[..length].to_vec()));
    }
    lines.extend(["null", "true", "1e999", "\"", "{\"cmd\":", "{\"cmd\":{}}", "{}{}", "\u{feff}{}"].map(Into::into));
    lines.push(format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into());
    lines.push(
        format!("{{\"cmd\":\"send\",\"agent\":\"a\",\"to\":\"t\",\"body\":{}1{}}}", "[".repeat(500), "]".repeat(500))
            .into(),
    );
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    while lines.len() < 10_000 {
        let mut line = [SEND, WATCH][dice.roll(2)].as_bytes().to_vec();
        match dice.roll(3) {
            // Bytes that cannot stand in any text.
            0 => (0..=dice.roll(4)).for_each(|_| {
                let place = dice.roll(line.len());
                line[place] = 0xf8 | dice.roll(8) as u8;
            }),
            // A character in a place where none belongs.
            1 => {
                let braces = [b'{', b'}', b'[', b']', b'"', b':', b',', 0];
                line = (0..dice.roll(60) + 1).map(|_| braces[dice.roll(8)]).collect();
            }
            // A field whose value is of another type.
            _ => {
                let field = ["cmd", "agent", "to", "tags", "priority", "req_id", "host"][dice.roll(7)];
                let value = ["{}", "[1]", "true", "[[]]", "{\"a\":1}"][dice.roll(5)];
                line = format!("{{\"cmd\":\"send\",\"agent\":\"a\",\"body\":1,\"to\":\"x y\",\"{field}\":{value}}}")
                    .into();
            }
        }
        lines.push(line);
    }
    lines.retain(|line| !line.contains(&b'\n'));
    lines
}

#[test]
fn ten_thousand_malformed_lines_are_each_refused() {
    let place = Place::new();
    let daemon = place.start(&[]);
    let mut undisturbed = place.connect();
    undisturbed.ask(r#"{"cmd":"watch","agent":"b"}"#);
    let lines = malformed();
    let mut raw = place.connect();
    let before = daemon.memory();
    for line in &lines {
        raw.bytes(line).bytes("\n");
        let answer = raw.json();
        assert_eq!(answer["ok"], false, "{}: {answer}", String::from_utf8_lossy(line));
    }
    assert!(daemon.memory() < before + 16 * 1024 * 1024, "{} bytes, before {before}", daemon.memory());
    assert_eq!(raw.ask(SEND)["ok"], true);
    assert_eq!(undisturbed.json()["msg"]["body"]["a"][1], "é");
    assert_eq!(place.stored("task").len(), 1);
}

#[test]
fn truncated_requests_of_peers_that_go_away_do_nothing() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    for length in (0..=SEND.len()).step_by(3) {
        let mut raw = place.connect();
        raw.bytes(&SEND.as_bytes()[..length]);
    }
    assert_eq!(place.connect().ask(SEND)["ok"], true);
    assert_eq!(place.stored("task").len(), 1);
}

#[test]
fn a_line_without_end_costs_nothing() {
    let place = Place::new();
    let daemon = place.start(&[]);
    let mut raw = place.connect();
    raw.ask(SEND);
    let before = daemon.memory();
    let chunk = vec![b'x'; 1024 * 1024];
    for _ in 0..64 {
        raw.bytes(&chunk);
    }
    assert_eq!(raw.json()["error"]["code"], "too_large");
    assert!(daemon.memory() < before + 24 * 1024 * 1024, "{} bytes, before {before}", daemon.memory());
    raw.bytes("\n");
    assert_eq!(raw.ask(SEND)["ok"], true);
}

#[test]
fn a_watcher_that_does_not_read_is_cut_and_others_are_not() {
    let place = Place::new();
    let daemon = place.start(&[]);
    let (mut slow, mut brisk) = (place.connect(), place.connect());
    slow.ask(r#"{"cmd":"watch","agent":"a","req_id":"w1"}"#);
    brisk.ask(r#"{"cmd":"watch","agent":"b"}"#);
    let before = daemon.memory();
    // More than the daemon keeps for those who lag behind, in few large messages.
    let body = "x".repeat(500_000);
    let line = format!(r#"{{"cmd":"send","agent":"c","to":"task","body":"{body}"}}"#);
    let mut sender = place.connect();
    for _ in 0..60 {
        assert_eq!(sender.ask(&line)["ok"], true);
        assert_eq!(brisk.json()["msg"]["body"].as_str().unwrap().len(), body.len());
    }
    assert!(daemon.memory() < before + 48 * 1024 * 1024, "{} bytes, before {before}", daemon.memory());
    let (mut messages, mut cursor) = (0, Value::Null);
    let last = loop {
        let mut line = slow.json();
        if line["msg"].is_null() {
            break line;
        }
        messages += 1;
        cursor = line["cursor"].take();
    };
    assert_eq!((&last["error"]["code"], &last["error"]["retryable"]), (&"backpressure".into(), &true.into()));
    assert_eq!(last["req_id"], "w1");
    assert!((1..60).contains(&messages), "{messages}");
    slow.closed();
    // It recovers as PROTOCOL.md says, with `since`: the rest comes, and then what arrives.
    let mut recovered = place.connect();
    let request = format!(r#"{{"cmd":"watch","agent":"a","since":{cursor}}}"#);
    assert_eq!(recovered.ask(&request)["ok"], true);
    assert_eq!(sender.ask(SEND)["ok"], true);
    let rest = std::iter::repeat_with(|| recovered.json()).take_while(|line| line["msg"]["from"] == "c").count();
    assert_eq!(messages + rest, 60);
}

#[test]
fn watchers_that_catch_up_with_large_messages_and_stop_reading_cost_a_bounded_amount() {
    let place = Place::new();
    let daemon = place.start(&[]);
    let mut sender = place.connect();
    let line = format!(r#"{{"cmd":"send","agent":"c","to":"task","body":"{}"}}"#, "x".repeat(500_000));
    for _ in 0..40 {
        assert_eq!(sender.ask(&line)["ok"], true);
    }
    let before = daemon.memory();
    let mut stopped: Vec<common::Raw> = (0..10).map(|_| place.connect()).collect();
    for watcher in &mut stopped {
        watcher.ask(r#"{"cmd":"watch","agent":"a","since":"2020-01-01T00:00:00Z"}"#);
        // The first message is there, so everything that is read ahead for this watcher has been read.
        assert_eq!(watcher.json()["msg"]["from"], "c");
    }
    let each = daemon.memory().saturating_sub(before) / stopped.len();
    assert!(each < 4 * 1024 * 1024, "{each} bytes for each watcher");
}

#[test]
fn a_peer_that_sends_and_never_reads_holds_up_only_itself() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    let raw = place.connect();
    let mut stream = raw.unix.as_ref().unwrap().try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let lines = "{\"cmd\":\"who\",\"agent\":\"a\"}\n".repeat(1000);
    let stuck = loop {
        if let Err(error) = stream.write_all(lines.as_bytes()) {
            break error.kind();
        }
    };
    assert!(matches!(stuck, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{stuck}");
    assert_eq!(place.connect().ask(SEND)["ok"], true);
}

#[test]
fn a_thousand_idle_watchers_are_cheap_also_where_few_open_files_are_usual() {
    may_open(1_500);
    let place = Place::new();
    let forged = place.command(&place.root(), &[]);
    let mut command = place.program("bash", &place.root());
    command.args(["-c", "ulimit -Sn 512; exec \"$0\""]).arg(forged.get_program());
    let daemon = place.launch(command);
    let connect = || BufReader::new(UnixStream::connect(place.root().join(".fmail/forged.sock")).unwrap());
    let mut watchers: Vec<BufReader<UnixStream>> = (0..1_000).map(|_| connect()).collect();
    let next = |watcher: &mut BufReader<UnixStream>| {
        let mut line = String::new();
        watcher.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    for (n, watcher) in watchers.iter_mut().enumerate() {
        watcher.get_ref().set_read_timeout(Some(common::DEADLINE)).unwrap();
        let request = format!("{{\"cmd\":\"watch\",\"agent\":\"a{n}\"}}\n");
        watcher.get_mut().write_all(request.as_bytes()).unwrap();
        assert_eq!(next(watcher)["ok"], true);
    }
    println!("a thousand idle watchers: {} bytes", daemon.memory());
    assert!(daemon.memory() < 64 * 1024 * 1024, "{} bytes", daemon.memory());
    place.connect().ask(SEND);
    for watcher in &mut watchers {
        assert_eq!(next(watcher)["msg"]["from"], "architect");
    }
}

/// Sees to it that this process may have so many files open.
fn may_open(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    assert!(limit.maximum.is_none_or(|most| most >= count), "this test needs {count} open files; raise `ulimit -Hn`");
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}
