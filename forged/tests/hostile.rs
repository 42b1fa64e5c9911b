//! Peers that are broken, slow, or worse: each is answered or cut, and nobody else notices.

mod common;

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{Place, Raw};
use fmail_fuzz::{Dice, Kind, broken, first_seed, requests, truncations};
use fmail_transports::wire;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

const SEND: &str = r#"{"cmd":"send","agent":"architect","host":"build-server","to":"task","body":{"a":[1,"é"]},"priority":"high","tags":["urgent"],"req_id":"c1"}"#;

/// Ten thousand lines that are not requests: everything that a request begins with, some that are known to be nasty, and
/// as many of each kind as there is room for. None contains the end of a line.
fn malformed(dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = truncations().map(Into::into).collect();
    lines.extend(["null", "true", "1e999", "\"", "{\"cmd\":", "{\"cmd\":{}}", "{}{}", "\u{feff}{}"].map(Into::into));
    lines.push(format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into());
    let is_valid = |line: &[u8]| wire::parse(line).call.is_ok();
    for kind in Kind::ALL.into_iter().cycle() {
        if lines.len() >= 10_000 {
            break;
        }
        lines.push(broken(dice, kind, is_valid));
    }
    lines
}

/// Sends lines in pieces that have nothing to do with where they end, and requires that each is refused by one line.
#[track_caller]
fn refused(raw: &mut Raw, dice: &mut Dice, lines: &[Vec<u8>]) {
    let bytes: Vec<u8> = lines.iter().flat_map(|line| line.iter().chain(b"\n")).copied().collect();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((1 + dice.roll(2 * bytes.len())).min(rest.len()));
        raw.bytes(piece);
        rest = behind;
    }
    for line in lines {
        let answer = raw.json();
        assert_eq!(answer["ok"], false, "{}: {answer}", line.escape_ascii());
        assert!(answer["error"]["code"].is_string(), "{}: {answer}", line.escape_ascii());
    }
}

#[test]
fn ten_thousand_malformed_lines_are_each_refused() {
    let seed = first_seed();
    println!("FMAIL_TEST_FUZZ_SEED={seed}");
    let place = Place::new();
    let daemon = place.start(&[]);
    let mut undisturbed = place.connect();
    undisturbed.ask(r#"{"cmd":"watch","agent":"b"}"#);
    let mut dice = Dice::new(seed);
    let lines = malformed(&mut dice);
    // Before `hello` and behind it, a connection reads its lines in different places.
    let (mut plain, mut greeted, mut good) = (place.connect(), place.connect(), place.connect());
    greeted.ask(r#"{"cmd":"hello","agent":"a"}"#);
    let (before, mut sent) = (daemon.memory(), 2);
    for (number, group) in lines.chunks(10).enumerate() {
        refused(if number % 2 == 0 { &mut plain } else { &mut greeted }, &mut dice, group);
        if number % 50 == 0 {
            assert_eq!(good.ask(SEND)["ok"], true);
            assert_eq!(undisturbed.json()["msg"]["body"]["a"][1], "é");
            sent += 1;
        }
    }
    assert!(daemon.memory() < before + 16 * 1024 * 1024, "{} bytes, before {before}", daemon.memory());
    assert_eq!(plain.ask(SEND)["ok"], true);
    assert_eq!(greeted.ask(SEND)["ok"], true);
    assert_eq!(place.stored("task").len(), sent);
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
fn a_line_that_is_cut_off_is_refused_and_the_connection_closed() {
    let place = Place::new();
    let _daemon = place.start(&[]);
    for line in requests() {
        // Also with nothing but its end missing: whoever was cut off there cannot know whether it was read.
        let mut raw = place.connect();
        raw.bytes(line).unix.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
        assert_eq!(raw.json()["error"]["code"], "invalid_request", "{line}");
        raw.closed();
    }
    assert_eq!(place.stored("task").len(), 0);
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
        // Pings may come in between.
        loop {
            let mut line = String::new();
            watcher.read_line(&mut line).unwrap();
            let value: Value = serde_json::from_str(&line).unwrap();
            if value["event"].is_null() {
                return value;
            }
        }
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
