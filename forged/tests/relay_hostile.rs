//! Peers that speak garbage, lie, flood or say nothing: contained, shown, and of no effect on the users of this machine.

mod common;
#[path = "common/relaying.rs"]
mod relaying;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{DEADLINE, Raw};
use relaying::Relaying;
use serde_json::{Value, json};

/// A host that is not one of ours: it listens, and does with each connection whatever the test says.
struct Stranger {
    address: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stranger {
    fn new(talk: impl Fn(TcpStream) + Send + Sync + 'static) -> Stranger {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ends = Arc::new(AtomicBool::new(false));
        let (over, talk) = (ends.clone(), Arc::new(talk));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (stream, talk) = (stream.unwrap(), talk.clone());
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                std::thread::spawn(move || talk(stream));
            }
        });
        Stranger { address, ends, thread: Some(thread) }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(&self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers the lines of a connection until it is closed, or until there is no answer.
fn answers(stream: TcpStream, answer: impl Fn(&Value) -> Option<Vec<Value>>) {
    let mut writer = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let asked: Value = serde_json::from_str(&line).expect("forged speaks JSON");
        let Some(answers) = answer(&asked) else { return };
        for answer in answers {
            if writer.write_all(format!("{answer}\n").as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// A hello of a host with this run, for the project that was asked for.
fn hello(asked: &Value, run: &str) -> Value {
    let node = json!({"id": "0000000000000000000000000000000f", "run": run, "host": "stranger"});
    json!({"ok": true, "req_id": asked["req_id"], "hello": {"version": "9.9.9", "protocol": 1,
        "operations": ["hello", "relay", "digest", "fetch", "import", "records"],
        "project": {"id": asked["project_id"], "created": "2026-01-10T15:30:00Z"}, "store_id": "x", "node": node}})
}

fn refused(asked: &Value) -> Value {
    json!({"ok": false, "req_id": asked["req_id"],
        "error": {"code": "invalid_request", "message": "unknown command", "retryable": false}})
}

const RUN: &str = "00000000000000000000000000000001";

/// What a host of ours does for its users while it has this peer: it takes what they send, and delivers it.
#[track_caller]
fn unaffected(host: &Relaying) {
    let mut watch = host.watch();
    let began = Instant::now();
    host.send("local");
    assert_eq!(watch.json()["msg"]["body"], "local");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Starts a host with this peer and waits for the problem that it shows.
#[track_caller]
fn shows(peer: &Stranger, problem: &str) {
    let host = Relaying::new();
    let _daemon = host.start(&[&peer.address]);
    let link = host.link(&peer.address, |link| {
        link["connected"] == false && link["problem"].as_str().is_some_and(|text| text.contains(problem))
    });
    assert!(link["since"].is_string(), "{link}");
    unaffected(&host);
}

#[test]
fn a_peer_that_speaks_garbage_is_not_connected_and_shown() {
    let peer = Stranger::new(|mut stream| {
        let _ = stream.write_all(b"\x00\xff\xfegarbage\n{\"half\":\n");
    });
    shows(&peer, "no line of the protocol");
}

#[test]
fn a_peer_that_turns_to_garbage_after_its_hello_is_dropped() {
    let peer = Stranger::new(|stream| {
        answers(stream, |asked| match asked["cmd"].as_str() {
            Some("hello") => Some(vec![hello(asked, RUN)]),
            _ => Some(vec![json!([1, 2, 3])]),
        });
    });
    shows(&peer, "no line of the protocol");
}

#[test]
fn a_peer_that_never_answers_costs_local_users_nothing() {
    let peer = Stranger::new(|stream| {
        let mut lines = BufReader::new(stream).lines();
        while lines.next().is_some_and(|line| line.is_ok()) {}
    });
    shows(&peer, "has not answered within");
}

#[test]
fn a_peer_that_stops_answering_is_found_out() {
    let peer = Stranger::new(|stream| {
        let greeted = AtomicBool::new(false);
        answers(stream, |asked| match asked["cmd"].as_str() {
            Some("hello") if !greeted.swap(true, Ordering::Relaxed) => Some(vec![hello(asked, RUN)]),
            _ => Some(vec![]),
        });
    });
    shows(&peer, "has not answered for 10 s");
}

#[test]
fn a_line_without_end_ends_the_link_and_is_not_kept() {
    // A gigabyte, as far as anybody takes it.
    let flood = |mut stream: TcpStream| {
        let block = vec![b'x'; 1 << 20];
        for _ in 0..1_024 {
            if stream.write_all(&block).is_err() {
                return;
            }
        }
    };
    let peer = Stranger::new(move |stream| {
        let writer = stream.try_clone().unwrap();
        let mut lines = BufReader::new(stream).lines();
        let asked: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let mut greeting = writer.try_clone().unwrap();
        let _ = greeting.write_all(format!("{}\n{{\"msg\":\"", hello(&asked, RUN)).as_bytes());
        flood(writer);
    });
    let host = Relaying::new();
    let daemon = host.start(&[&peer.address]);
    let before = daemon.memory();
    host.link(&peer.address, |link| {
        link["problem"].as_str().is_some_and(|text| text.contains("longer than the limit"))
    });
    unaffected(&host);
    assert!(daemon.memory() < before + 64 * 1024 * 1024, "{} bytes, before {before}", daemon.memory());

    // The other way round: somebody who dials us.
    let mut raw = TcpStream::connect(daemon.tcp()).unwrap();
    raw.write_all(b"{\"cmd\":\"import\",\"msg\":\"").unwrap();
    flood(raw);
    unaffected(&host);
    assert!(daemon.memory() < before + 64 * 1024 * 1024, "{} bytes, before {before}", daemon.memory());
}

#[test]
fn a_peer_with_our_own_run_or_name_does_no_harm() {
    let host = Relaying::new();
    let peer = Stranger::new(|stream| {
        answers(stream, |asked| {
            let run = asked["node"]["run"].as_str().unwrap_or(RUN);
            (asked["cmd"] == "hello").then(|| vec![hello(asked, run)])
        });
    });
    let _daemon = host.start(&[&peer.address]);
    host.link(&peer.address, |link| link["problem"].as_str().is_some_and(|text| text.contains("this daemon itself")));
    unaffected(&host);
}

#[test]
fn a_plain_peer_that_we_dial_is_taken_in_and_what_is_wrong_with_it_is_refused() {
    let message = |id: &str, to: &str, body: Value| json!({"msg": {"id": id, "from": "zoe", "to": to, "time": "2026-01-10T15:30:00Z", "body": body, "host": "plain"}});
    let peer = Stranger::new(move |stream| {
        answers(stream, |asked| match asked["cmd"].as_str() {
            Some("relay") => {
                assert!(asked["agent"].is_string() && asked["project_id"].is_string(), "{asked}");
                assert_eq!(asked["since"].as_str().map(|since| since.len() >= 20), Some(true), "{asked}");
                Some(vec![
                    json!({"ok": true, "req_id": asked["req_id"]}),
                    message("20260110-153000-0001", "task", json!("one")),
                    message("20260110-153000-0002", "../../etc", json!("outside")),
                    message("../../../../tmp/x", "task", json!("outside")),
                    message("20260110-153000-0003", "@bad name", json!("bad")),
                    message("20260110-153000-0004", "task", json!("x".repeat(2_000_000))),
                    json!({"msg": {"id": "20260110-153000-0005"}}),
                    message("20260110-153000-0006", "@bob", json!("private")),
                    // Replayed, and the same id with something else in it.
                    message("20260110-153000-0001", "task", json!("one")),
                    message("20260110-153000-0001", "task", json!("other")),
                    json!({"event": "ping"}),
                ])
            }
            _ => Some(vec![refused(asked)]),
        });
    });
    let host = Relaying::new();
    let _daemon = host.start(&[&peer.address]);
    host.holds(&["one", "other"]);
    // A message is stored before it is counted.
    let all = |counts: &Value| counts["refused"].as_u64() >= Some(5) && counts["received"] == 3;
    let link = host.link(&peer.address, |link| all(&link["counts"]));
    assert_eq!(
        (&link["connected"], &link["plain"], &link["authenticated"]),
        (&true.into(), &true.into(), &false.into())
    );
    assert_eq!((&link["counts"]["duplicates"], &link["counts"]["relocated"]), (&1.into(), &1.into()), "{link}");
    let mail = host.place.root().join(".fmail/dm/bob");
    let file = std::fs::read_dir(&mail).unwrap().next().unwrap().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let host_of = |message: &Value| message["host"].clone();
    assert!(host.place.stored("task").iter().all(|message| host_of(message) == "plain"));
    assert!(!host.place.top.path().join("project/.fmail/etc").exists());
    unaffected(&host);
}

#[test]
fn a_plain_peer_that_dials_us_gets_the_documents_relay() {
    let host = Relaying::new();
    let daemon = host.start(&[]);
    host.send("before");
    let project = host.project();
    let mut raw = Raw::tcp(&daemon.tcp());
    let ask = format!(
        r#"{{"cmd":"relay","project_id":"{project}","agent":"relay-host-a","host":"host-a","since":"2026-01-10T15:00:00Z","req_id":"r1"}}"#
    );
    assert_eq!(raw.send(&ask).line(), "{\"ok\":true,\"req_id\":\"r1\"}\n");
    let line = raw.json();
    assert_eq!(line["msg"]["body"], "before", "{line}");
    assert!(line.get("req_id").is_none(), "{line}");
    host.send("after");
    let line = raw.json();
    assert_eq!(line["msg"]["body"], "after", "{line}");
    let link = host.incoming(|link| link["counts"]["unconfirmed"] == 2);
    assert_eq!(link["counts"]["sent"], 0, "nobody has said that they were stored: {link}");
    assert_eq!(
        (&link["peer"], &link["plain"], &link["authenticated"]),
        (&"host-a".into(), &true.into(), &false.into())
    );
    drop(raw);
    let end = std::time::Instant::now() + common::DEADLINE;
    while host.status()["relays"][0]["links"] != serde_json::json!([]) {
        assert!(std::time::Instant::now() < end, "{}", host.status());
        host.send("more");
    }
}

#[test]
fn what_a_dialled_in_host_brings_is_checked_like_everything_else() {
    let host = Relaying::new();
    let daemon = host.start(&[]);
    let project = host.project();
    let mut raw = Raw::tcp(&daemon.tcp());
    let node = r#"{"id":"0000000000000000000000000000000f","run":"00000000000000000000000000000001","host":"vm"}"#;
    let hello = format!(r#"{{"cmd":"hello","project_id":"{project}","agent":"x","node":{node},"req_id":"h"}}"#);
    assert_eq!(raw.ask(&hello)["ok"], true);
    let import = |number: usize, message: &str| {
        format!(
            r#"{{"cmd":"import","project_id":"{project}","agent":"x","from":"{RUN}","msg":{message},"req_id":"{number}"}}"#
        )
    };
    let good = r#"{"id":"20260110-153000-0001","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":"good"}"#;
    assert_eq!(raw.ask(&import(1, good))["imported"], "new");
    assert_eq!(raw.ask(&import(2, good))["imported"], "duplicate");
    let wrong = [
        good.replace("\"task\"", "\"../task\""),
        good.replace("\"a\"", "\"../a\""),
        good.replace("20260110-153000-0001", "../../x"),
        good.replace("\"good\"", &format!("\"{}\"", "x".repeat(2_000_000))),
        r#"{"id":7}"#.to_string(),
    ];
    for (number, message) in wrong.iter().enumerate() {
        let answer = raw.ask(&import(number + 3, message));
        let taken = answer["ok"] == true && answer["imported"].get("refused").is_none();
        assert!(!taken, "{} was taken: {answer}", &message[..message.len().min(200)]);
    }
    // Another project over the same connection, and one that is not served.
    let other = raw.ask(&import(9, good).replace(&project, "proj-other"));
    assert_eq!(other["error"]["code"], "invalid_project", "{other}");
    host.holds(&["good"]);
    unaffected(&host);
}

#[test]
fn a_batch_of_a_dialled_in_host_is_checked_like_its_messages() {
    let host = Relaying::new();
    let daemon = host.start(&[]);
    let project = host.project();
    let mut raw = Raw::tcp(&daemon.tcp());
    let node = r#"{"id":"0000000000000000000000000000000f","run":"00000000000000000000000000000001","host":"vm"}"#;
    let hello = format!(r#"{{"cmd":"hello","project_id":"{project}","agent":"x","node":{node},"req_id":"h"}}"#);
    let hello = raw.ask(&hello);
    assert!(hello["hello"]["operations"].as_array().unwrap().contains(&"import_many".into()), "{hello}");
    let batch = |messages: &[String]| {
        let messages = messages.join(",");
        format!(
            r#"{{"cmd":"import_many","project_id":"{project}","agent":"x","from":"{RUN}","msgs":[{messages}],"req_id":"b"}}"#
        )
    };
    let message = |number: usize, body: &str| {
        format!(
            r#"{{"id":"20260110-153000-{number:04}","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":"{body}"}}"#
        )
    };
    // Twice the same, one that is too large, and a good one behind them.
    let large = message(2, &"x".repeat(1_100_000));
    let mixed = [message(1, "one"), message(1, "one"), large, message(3, "three")];
    let answer = raw.ask(&batch(&mixed));
    let expected = serde_json::json!([
        {"imported": "new"}, {"imported": "duplicate"}, {"imported": {"refused": "too_large"}}, {"imported": "new"}
    ]);
    assert_eq!(answer["imported"], expected, "{answer}");
    let refused = |answer: serde_json::Value, code: &str| assert_eq!(answer["error"]["code"], code, "{answer}");
    // What is no message, a path for a topic, too many, and another project: nothing of such a batch is stored.
    refused(raw.ask(&batch(&[message(4, "four"), r#"{"id":7}"#.into()])), "invalid_request");
    refused(
        raw.ask(&batch(&[message(4, "four"), message(5, "five").replace("\"task\"", "\"../task\"")])),
        "invalid_request",
    );
    let too_many: Vec<String> = (100..165).map(|number| message(number, "many")).collect();
    refused(raw.ask(&batch(&too_many)), "invalid_request");
    refused(raw.ask(&batch(&[message(4, "four")]).replace(&project, "proj-other")), "invalid_project");
    host.holds(&["one", "three"]);
    unaffected(&host);
}

#[test]
fn many_imports_at_a_time_are_all_answered() {
    let host = Relaying::new();
    let daemon = host.start(&[]);
    let project = host.project();
    let mut raw = Raw::tcp(&daemon.tcp());
    assert_eq!(raw.ask(&format!(r#"{{"cmd":"hello","project_id":"{project}","agent":"x","req_id":"h"}}"#))["ok"], true);
    for number in 0..500 {
        raw.send(&format!(
            r#"{{"cmd":"import","project_id":"{project}","agent":"x","msg":{{"id":"20260110-153000-{number:04}","from":"a","to":"task","time":"2026-01-10T15:30:00Z","body":"{number}"}},"req_id":"{number}"}}"#
        ));
    }
    let mut answered: Vec<usize> = (0..500)
        .map(|_| {
            let answer = raw.json();
            assert_eq!(answer["imported"], "new", "{answer}");
            answer["req_id"].as_str().unwrap().parse().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..500).collect::<Vec<_>>());
    unaffected(&host);
}
