//! `fmail watch` with a daemon that comes, goes, stops and returns: each message exactly once, in order.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use fmail_e2e::{DEADLINE, Fmail, Running, Sandbox, eventually};
use rustix::process::Signal;
use serde_json::Value;

const FILES: &str = "fmail: watching the files: ";
const AGAIN: &str = "fmail: watching through forged again";

/// Starts these watches and waits until the daemon serves all of them.
fn connected<const N: usize>(sandbox: &Sandbox, watches: [Fmail; N]) -> [Running; N] {
    let watches = watches.map(Fmail::spawn);
    await_connections(sandbox, N);
    watches
}

/// Waits until so many are at the daemon and stay there: a command that has just ended may be among those counted.
fn await_connections(sandbox: &Sandbox, count: usize) {
    let mut looks = 0;
    eventually(DEADLINE.as_secs(), "watches at the daemon", || {
        looks = if sandbox.connections() == count { looks + 1 } else { 0 };
        (looks == 10).then_some(())
    });
}

fn watch(sandbox: &Sandbox, agent: &str, args: &[&str]) -> Fmail {
    sandbox.agent(agent).args(["watch", "--json"]).args(args)
}

#[track_caller]
fn says(watch: &mut Running, expected: &str) {
    let line = watch.stderr_line();
    assert!(line.starts_with(expected), "{line}");
}

fn standalone(sandbox: &Sandbox, target: &str, body: &str) {
    sandbox.agent("alice").env("FMAIL_TRANSPORTS", "").args(["send", target, "--", body]).ok();
}

fn bodies(watch: &mut Running, count: usize) -> Vec<String> {
    let text = |body: &Value| body.as_str().map_or_else(|| body.to_string(), Into::into);
    (0..count).map(|_| text(&watch.json()["body"])).collect()
}

#[test]
fn a_watch_returns_to_the_daemon_and_says_once_which_way_it_goes() {
    let sandbox = Sandbox::new();
    let first = sandbox.forged(&[]);
    let [mut watching] = connected(&sandbox, [watch(&sandbox, "bob", &["task"])]);
    sandbox.send("alice", "task", "one");
    first.signal(Signal::KILL);
    says(&mut watching, FILES);
    sandbox.send("alice", "task", "two");
    let second = sandbox.forged(&[]);
    says(&mut watching, AGAIN);
    await_connections(&sandbox, 1);
    sandbox.send("alice", "task", "three");
    assert_eq!(bodies(&mut watching, 3), ["one", "two", "three"]);
    // A daemon that ends in good order, while the watch is silent.
    second.signal(Signal::TERM);
    assert_eq!(second.wait().code, 0);
    says(&mut watching, FILES);
    let _third = sandbox.forged(&[]);
    says(&mut watching, AGAIN);
    sandbox.send("alice", "task", "four");
    assert_eq!(bodies(&mut watching, 1), ["four"]);
    watching.signal(Signal::INT);
    let end = watching.wait();
    assert_eq!((end.code, end.stdout.as_str(), end.stderr.as_str()), (0, "", ""), "one line for each change");
}

#[test]
fn a_watch_that_began_without_a_daemon_goes_to_it_when_a_message_wakes_it() {
    let sandbox = Sandbox::new();
    let mut watching = watch(&sandbox, "bob", &["task"]).spawn();
    watching.await_watching();
    sandbox.send("alice", "task", "0");
    let _daemon = sandbox.forged(&[]);
    let mut sent = 1;
    let line = eventually(DEADLINE.as_secs(), "a watch that goes to the daemon", || {
        standalone(&sandbox, "task", &sent.to_string());
        sent += 1;
        watching.stderr_line_within(Duration::from_millis(200))
    });
    assert_eq!(line, "fmail: watching through forged");
    sandbox.send("alice", "task", &sent.to_string());
    let expected: Vec<String> = (0..=sent).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&mut watching, expected.len()), expected);
}

#[test]
fn a_stopped_daemon_is_noticed_within_seconds_and_nothing_is_shown_twice() {
    let sandbox = Sandbox::new();
    let daemon = sandbox.forged(&[]);
    let [mut watching] = connected(&sandbox, [watch(&sandbox, "bob", &[])]);
    sandbox.send("alice", "task", "one");
    assert_eq!(bodies(&mut watching, 1), ["one"]);
    daemon.signal(Signal::STOP);
    let stopped = Instant::now();
    sandbox.send("alice", "task", "two");
    assert_eq!(bodies(&mut watching, 1), ["two"]);
    // Six seconds of silence, three for an answer, half a one for a greeting; the rest is for a busy machine.
    assert!(stopped.elapsed() < Duration::from_secs(20), "{:?}", stopped.elapsed());
    says(&mut watching, "fmail: watching the files: the connection to forged was lost: it did not answer in time");
    daemon.signal(Signal::CONT);
    says(&mut watching, AGAIN);
    sandbox.send("alice", "task", "three");
    assert_eq!(bodies(&mut watching, 1), ["three"]);
    watching.signal(Signal::INT);
    assert_eq!(watching.wait().stdout, "");
}

#[test]
fn a_quiet_daemon_that_answers_is_not_left() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "zero");
    let listener = UnixListener::bind(sandbox.store().join("forged.sock")).unwrap();
    let project = sandbox.fmail().args(["init"]).ok().stdout.trim_end().to_string();
    let daemon = std::thread::spawn(move || {
        let mut peer = Peer::accept(&listener);
        let hello = format!(
            r#""ok":true,"hello":{{"version":"1","protocol":1,"operations":[],"store_id":"x","project":{{"id":"{project}","created":"2026-01-10T15:00:00Z"}}}}"#
        );
        peer.answers("hello", &hello);
        peer.answers("watch", r#""ok":true,"cursor":"0123456789abcdef:1""#);
        peer.write(r#"{"msg":{"id":"20260110-153000-0001","from":"a","to":"task","time":"2026-01-10T15:"#);
        // The half line is followed by silence, so it asks. What follows is the other half, and a sign of life.
        assert_eq!(peer.read()["cmd"], "hello");
        peer.write("30:00Z\",\"body\":\"whole\"},\"cursor\":\"0123456789abcdef:2\"}\n");
        assert_eq!(peer.read()["cmd"], "hello", "after the next silence it asks again");
        peer.write(&format!("{{{hello},\"req_id\":\"there\"}}\n"));
        peer.write("{\"msg\":{\"id\":\"20260110-153000-0002\",\"from\":\"a\",\"to\":\"task\",\"time\":\"2026-01-10T15:30:00Z\",\"body\":\"still\"},\"cursor\":\"0123456789abcdef:3\"}\n");
        peer
    });
    let end = watch(&sandbox, "bob", &["task", "--count", "2"]).ok();
    let seen: Vec<Value> = end.json_lines().iter().map(|message| message["body"].clone()).collect();
    assert_eq!((seen, end.stderr.as_str()), (vec!["whole".into(), "still".into()], ""));
    drop(daemon.join().unwrap());
}

/// The other end of a connection, written by hand.
struct Peer {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Peer {
    fn accept(listener: &UnixListener) -> Peer {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Peer { stream, lines }
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Expects this command and answers it; gives the request.
    fn answers(&mut self, command: &str, fields: &str) -> Value {
        let request = self.read();
        assert_eq!(request["cmd"], command, "{request}");
        self.write(&format!("{{{fields},\"req_id\":{}}}\n", request["req_id"]));
        request
    }
}

/// PROTOCOL.md alone: no hello, no cursors, messages again after a reconnect. The client deduplicates by id, reconnects
/// with the last id it saw, and polls from there when nobody comes back.
#[test]
fn a_daemon_that_knows_only_the_document_is_resumed_by_id() {
    let sandbox = Sandbox::new();
    let ids: Vec<String> = ["one", "two"].map(|body| sandbox.send("alice", "task", body)).to_vec();
    let stored = sandbox.log("alice", &[]);
    let socket = sandbox.store().join("forged.sock");
    let (listener, last) = (UnixListener::bind(&socket).unwrap(), ids[0].clone());
    let daemon = std::thread::spawn(move || {
        let unknown = r#""ok":false,"error":{"code":"invalid_request","message":"unknown cmd"}"#;
        let greet = |peer: &mut Peer| {
            peer.answers("hello", unknown);
            peer.answers("watch", r#""ok":true"#)
        };
        let mut peer = Peer::accept(&listener);
        assert!(greet(&mut peer).get("since").is_none());
        peer.write(&format!("{{\"msg\":{}}}\n", stored[0]));
        drop(peer);
        let mut peer = Peer::accept(&listener);
        assert_eq!(greet(&mut peer)["since"], last);
        peer.write(&format!("{{\"msg\":{}}}\n{{\"msg\":{}}}\n", stored[0], stored[1]));
        std::fs::remove_file(&socket).unwrap();
    });
    let mut watching = watch(&sandbox, "bob", &["task"]).spawn();
    assert_eq!(bodies(&mut watching, 2), ["one", "two"]);
    daemon.join().unwrap();
    says(&mut watching, FILES);
    sandbox.send("alice", "task", "three");
    assert_eq!(bodies(&mut watching, 1), ["three"]);
}

/// The watches that end in each of the ways in which a watch can end.
fn ending(sandbox: &Sandbox) -> [Fmail; 3] {
    let head = sandbox.bash("closing", "fmail watch task --json | head -n 1");
    [watch(sandbox, "counting", &["task", "--count", "1"]), watch(sandbox, "interrupted", &["task"]), head]
}

/// Ends them; each has shown what it should.
fn end(sandbox: &Sandbox, watches: [Running; 3]) {
    let [counting, mut interrupted, closing] = watches;
    sandbox.send("alice", "task", "the end");
    let counted = counting.wait();
    assert_eq!((counted.code, counted.json()["body"].as_str()), (0, Some("the end")), "{counted}");
    assert_eq!(bodies(&mut interrupted, 1), ["the end"]);
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.wait_within(Duration::from_secs(20)).code, 0);
    let closed = closing.wait_within(Duration::from_secs(20));
    assert_eq!((closed.code, closed.json()["body"].as_str()), (0, Some("the end")), "{closed}");
}

#[test]
fn a_watch_ends_as_it_should_while_connected_on_the_files_and_returned() {
    let sandbox = Sandbox::new();
    let mut daemon = sandbox.forged(&[]);
    end(&sandbox, connected(&sandbox, ending(&sandbox)));
    let mut watches = connected(&sandbox, ending(&sandbox));
    daemon.signal(Signal::KILL);
    watches.iter_mut().for_each(|watch| says(watch, FILES));
    end(&sandbox, watches);
    daemon = sandbox.forged(&[]);
    let mut watches = connected(&sandbox, ending(&sandbox));
    daemon.signal(Signal::KILL);
    watches.iter_mut().for_each(|watch| says(watch, FILES));
    let _daemon = sandbox.forged(&[]);
    watches.iter_mut().for_each(|watch| says(watch, AGAIN));
    end(&sandbox, watches);
}

#[test]
fn a_watch_ends_as_it_should_while_its_daemon_is_stopped() {
    let sandbox = Sandbox::new();
    let daemon = sandbox.forged(&[]);
    let watches = connected(&sandbox, ending(&sandbox));
    let [short] = [watch(&sandbox, "short", &["task", "--timeout", "2s"])].map(Fmail::spawn);
    await_connections(&sandbox, 4);
    daemon.signal(Signal::STOP);
    let start = Instant::now();
    assert_eq!(short.wait().code, 0);
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    end(&sandbox, watches);
    // One that begins now, and is interrupted before it knows.
    let beginning = watch(&sandbox, "beginning", &["task", "--timeout", "1s"]).ok();
    assert_eq!(beginning.stdout, "");
}

/// Whether a watcher wants what is sent to this target.
type Wants = fn(&str) -> bool;

/// Watchers of all kinds, and what each of them should have seen.
struct Company<'a> {
    sandbox: &'a Sandbox,
    watches: Vec<(Running, Wants)>,
    sent: Vec<(String, String)>,
}

impl<'a> Company<'a> {
    fn gather(sandbox: &'a Sandbox) -> Company<'a> {
        let first = sandbox.send("alice", "other", "before");
        let kinds: [(&str, &[&str], Wants); 5] = [
            ("all", &[], |target| !target.starts_with('@')),
            ("topic", &["task"], |target| target == "task"),
            ("direct", &["@direct"], |target| target == "@direct"),
            ("by-id", &["other", "--since", &first], |target| target == "other"),
            ("silent", &["seldom"], |target| target == "seldom"),
        ];
        let start = |(agent, args, wants): (&str, &[&str], Wants)| (watch(sandbox, agent, args).spawn(), wants);
        Company { sandbox, watches: kinds.map(start).into(), sent: Vec::new() }
    }

    /// Everybody writes: through the daemon where there is one, and beside it.
    fn round(&mut self) {
        for (place, target) in ["task", "other", "@direct", "task", "other", "@direct"].into_iter().enumerate() {
            let body = self.sent.len().to_string();
            match place % 2 {
                0 => drop(self.sandbox.send("alice", target, &body)),
                _ => standalone(self.sandbox, target, &body),
            }
            self.sent.push((target.to_string(), body));
        }
    }

    fn seldom(&mut self) {
        let body = self.sent.len().to_string();
        standalone(self.sandbox, "seldom", &body);
        self.sent.push(("seldom".into(), body));
    }

    /// Waits until all are at the daemon, however they came there, and forgets what they said on the way.
    fn settle(&mut self) {
        await_connections(self.sandbox, self.watches.len());
        for (watch, _) in &mut self.watches {
            while watch.stderr_line_within(Duration::ZERO).is_some() {}
        }
    }

    #[track_caller]
    fn all_say(&mut self, expected: &str) {
        self.watches.iter_mut().for_each(|(watch, _)| says(watch, expected));
    }

    fn lose_the_index(&self) {
        std::fs::remove_file(self.sandbox.store().join("index")).unwrap();
    }

    /// Every watcher has everything that it asked for, once, in the order in which it was sent, and nothing else.
    fn compare(self) {
        for (mut watch, wants) in self.watches {
            let sent = self.sent.iter().filter(|(target, _)| wants(target));
            let expected: Vec<&str> = sent.map(|(_, body)| body.as_str()).collect();
            assert_eq!(bodies(&mut watch, expected.len()), expected);
            watch.signal(Signal::INT);
            let end = watch.wait();
            assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end}");
        }
    }
}

#[test]
fn whatever_happens_to_the_daemon_and_the_index_every_watcher_has_every_message_once() {
    let sandbox = Sandbox::new();
    let mut daemon = sandbox.forged(&[]);
    let mut company = Company::gather(&sandbox);
    company.settle();
    company.round();
    // Killed, with messages before the next one is there.
    daemon.signal(Signal::KILL);
    company.round();
    daemon = sandbox.forged(&[]);
    company.round();
    company.settle();
    // Stopped, unnoticed at first; then the index is lost, and it goes on.
    daemon.signal(Signal::STOP);
    company.round();
    company.seldom();
    company.all_say(FILES);
    company.lose_the_index();
    company.round();
    daemon.signal(Signal::CONT);
    company.round();
    company.all_say(AGAIN);
    company.round();
    // Ended and absent; what nobody but the files knows, then a daemon again.
    daemon.signal(Signal::TERM);
    daemon.wait();
    company.all_say(FILES);
    company.round();
    daemon = sandbox.forged(&[]);
    company.all_say(AGAIN);
    company.round();
    // Killed together with the index: all cursors are void, also of a watcher that was told nothing for long.
    daemon.signal(Signal::KILL);
    company.lose_the_index();
    company.seldom();
    company.round();
    daemon = sandbox.forged(&[]);
    company.settle();
    company.lose_the_index();
    company.round();
    company.seldom();
    company.settle();
    drop(daemon);
    company.round();
    company.seldom();
    company.compare();
}

#[test]
fn a_watch_across_restarts_sees_each_message_once() {
    let sandbox = Sandbox::new();
    let mut daemon = sandbox.forged(&[]);
    let [mut watching] = connected(&sandbox, [watch(&sandbox, "bob", &["--count", "10"])]);
    for number in 0..10 {
        sandbox.send("alice", "task", &number.to_string());
        daemon.signal(Signal::TERM);
        daemon.wait();
        daemon = sandbox.forged(&[]);
    }
    let expected: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&mut watching, 10), expected);
    assert_eq!(watching.wait().code, 0);
}
