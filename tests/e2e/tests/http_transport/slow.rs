//! Clients that take their time, stop in the middle, or do several things at once.

use std::time::{Duration, Instant};

use fmail_e2e::http::Http;
use fmail_e2e::mcp::MailServer;
use serde_json::json;

use crate::ping;

fn request(id: &str) -> String {
    let body = ping(id).to_string();
    format!("POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_request_byte_by_byte_is_served() {
    let server = MailServer::start();
    let mut http = server.connect();
    for byte in request("slow").bytes() {
        http.write([byte]);
    }
    assert_eq!(http.answer("POST").json()["id"], "slow");
}

#[test]
fn who_begins_and_does_not_go_on_is_told_and_closed() {
    let server = MailServer::configured("patience_seconds = 1");
    let began = Instant::now();
    let mut heads: Vec<Http> = Vec::new();
    for beginning in ["P", "POST /mcp/ HTTP/1.1\r\nHost: loc", "POST /mcp/ HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut http = server.connect();
        http.write(beginning);
        heads.push(http);
    }
    let mut silent = server.connect();
    let mut body = server.connect();
    body.write("POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\":");
    let mut chunks = server.connect();
    chunks.write("POST /fmail/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"cmd\r\n");
    // Others are served meanwhile.
    assert_eq!(server.connect().post("/mcp/", &[], &ping("meanwhile")).status(), 200);
    for http in &mut heads {
        assert_eq!(http.head().expect("it is told").status, 408);
        assert!(http.is_closed());
    }
    for http in [&mut body, &mut chunks] {
        let answer = http.answer("POST");
        assert_eq!((answer.status(), answer.header("connection")), (408, Some("close")));
        assert!(answer.text().contains("nothing was done"), "{}", answer.text());
    }
    assert!(silent.is_closed(), "who never says anything is not told anything");
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[test]
fn who_drips_its_headers_is_not_served_for_ever() {
    let server = MailServer::configured("patience_seconds = 1");
    let mut http = server.connect();
    http.write("POST /mcp/ HTTP/1.1\r\nHost: localhost\r\n");
    let began = Instant::now();
    // Every byte in time, and no end: the head as a whole has its time.
    let dripping = std::thread::spawn({
        let mut other = server.connect();
        move || {
            while began.elapsed() < Duration::from_secs(3) {
                other.write("X");
                std::thread::sleep(Duration::from_millis(50));
            }
            other.head().map(|head| head.status)
        }
    });
    assert_eq!(http.head().map(|head| head.status), Some(408));
    assert!([Some(408), None].contains(&dripping.join().unwrap()), "it was closed");
}

#[test]
fn who_has_closed_its_side_still_gets_its_answer() {
    let server = MailServer::start();
    let mut http = server.connect();
    http.write(request("half"));
    http.half_close();
    assert_eq!(http.answer("POST").json()["id"], "half");
    assert!(http.is_closed());
    let mut cut = server.connect();
    cut.write("POST /mcp/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
    cut.half_close();
    let answer = cut.answer("POST");
    assert_eq!(answer.status(), 400);
    assert!(answer.text().contains("breaks off"), "{}", answer.text());
}

#[test]
fn requests_may_follow_each_other_without_waiting() {
    let server = MailServer::start();
    let mut http = server.connect();
    let ids: Vec<String> = (0..50).map(|number| format!("request {number}")).collect();
    http.write(ids.iter().map(|id| request(id)).collect::<String>());
    for id in &ids {
        assert_eq!(http.answer("POST").json()["id"], json!(id), "answers come in the order of the requests");
    }
    http.write(request("a broken one follows") + "nonsense\r\n\r\n");
    assert_eq!(http.answer("POST").json()["id"], "a broken one follows");
    assert_eq!(http.head().expect("it is refused").status, 400);
    assert!(http.is_closed());
}

#[test]
fn clients_that_go_in_the_middle_leave_nothing_behind() {
    let server = MailServer::start();
    let look = || server.daemon.footprint();
    assert_eq!(server.connect().post("/mcp/", &[], &ping(1)).status(), 200);
    let before = fmail_e2e::Footprint::settled(look);
    for round in 0..50 {
        let mut http = server.connect();
        let text = request("never read");
        // Cut at every place of a request, the whole one included.
        http.write(&text.as_bytes()[..text.len() * round / 49]);
    }
    let after = fmail_e2e::Footprint::settled(look);
    assert_eq!(after.growth_since(before, 8_192), [] as [&str; 0], "{before} {after}");
}

#[test]
fn who_does_not_read_its_stream_is_given_up() {
    let server = MailServer::configured("patience_seconds = 1");
    let look = || server.daemon.footprint();
    let watch = json!({"cmd": "watch", "agent": "deaf", "topic": "task"}).to_string();
    // The first watch makes the daemon look at the files, and it goes on with that; the first sends have it open what it
    // keeps, its journal among it.
    drop(server.connect().stream("POST", "/fmail/", &[], watch.as_bytes()));
    let first = json!({"cmd": "send", "agent": "alice", "to": "task", "body": "first"});
    for _ in 0..20 {
        assert!(server.connect().post("/fmail/", &[], &first).text().contains("\"ok\":true"));
    }
    let before = fmail_e2e::Footprint::settled(look);
    let mut deaf = server.connect();
    deaf.send("POST", "/fmail/", &[], watch.as_bytes());
    assert_eq!(deaf.head().expect("a head").status, 200);
    // More than the kernel holds for it.
    let body = "x".repeat(500_000);
    let mut sender = server.connect();
    for _ in 0..40 {
        let sent = sender.post("/fmail/", &[], &json!({"cmd": "send", "agent": "alice", "to": "task", "body": body}));
        assert!(sent.text().contains("\"ok\":true"), "{}", sent.text());
    }
    fmail_e2e::eventually(30, "the end of a connection that nobody reads", || {
        (look().descriptors <= before.descriptors + 1).then_some(())
    });
    drop(sender);
    drop(deaf);
}
