//! The end of the daemon, with everything under way.

use std::sync::atomic::{AtomicUsize, Ordering};

use fmail_e2e::http::Http;
use fmail_e2e::mcp::MailServer;
use serde_json::json;

use crate::ping;

#[test]
fn what_was_stored_was_answered_and_what_was_answered_is_stored() {
    let server = MailServer::start();
    let answered = AtomicUsize::new(0);
    let address = server.address.clone();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (address, answered) = (&address, &answered);
            scope.spawn(move || {
                let mut http = Http::connect(address);
                let body = json!({"cmd": "send", "agent": "page", "to": "task", "body": number}).to_string();
                loop {
                    http.send("POST", "/fmail/", &[], body.as_bytes());
                    let Some(answer) = http.try_answer("POST") else { return };
                    assert!(answer.text().contains("\"ok\":true"), "{answer:?}");
                    answered.fetch_add(1, Ordering::SeqCst);
                    if answer.header("connection") == Some("close") {
                        return;
                    }
                }
            });
        }
        fmail_e2e::eventually(30, "requests under way", || (answered.load(Ordering::SeqCst) > 50).then_some(()));
        server.daemon.stop();
    });
    assert_eq!(server.sandbox.log("bob", &["task"]).len(), answered.load(Ordering::SeqCst));
    assert!(Http::try_connect(&address).is_err(), "nobody listens any more");
}

#[test]
fn streams_and_watches_end_with_the_daemon() {
    let server = MailServer::start();
    let mut session = server.connect().stream("GET", "/mcp/", &[("Accept", "text/event-stream")], b"");
    let watch = json!({"cmd": "watch", "agent": "page", "req_id": 1}).to_string();
    let mut watch = server.connect().stream("POST", "/fmail/", &[], watch.as_bytes());
    assert_eq!(watch.json_line().expect("an answer")["ok"], true);
    let mut idle = server.connect();
    assert_eq!(idle.post("/mcp/", &[], &ping(1)).status(), 200);
    let mut half = server.connect();
    half.write("POST /mcp/ HTTP/1.1\r\nHost: loc");
    let began = std::time::Instant::now();
    server.daemon.stop();
    assert!(began.elapsed().as_secs() < 9, "nobody is waited for: {:?}", began.elapsed());
    assert_eq!(session.event(), None);
    let last = std::iter::from_fn(|| watch.json_line()).last().expect("a farewell");
    assert_eq!((&last["error"]["code"], &last["req_id"]), (&json!("unavailable"), &json!(1)), "{last}");
    assert!(idle.is_closed() && half.is_closed());
}
