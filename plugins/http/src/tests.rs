//! The front on a real socket, before a daemon that does what none should.

use std::future::pending;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_plugin::futures::FutureExt;
use fmail_plugin::futures::StreamExt;
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::serde_json::{self, Value, json};
use fmail_plugin::tokio::runtime::{Builder, Runtime};
use fmail_plugin::tokio::sync::oneshot;
use fmail_plugin::tokio::task::yield_now;
use fmail_plugin::{Caller, Error, ErrorKind, HostedProject, Reply, Result, Role, async_trait};

use crate::backend::Daemon;
use crate::config::{Config, Section};
use crate::server;

/// What the daemon does when it is asked.
#[derive(Clone, Copy)]
enum Bad {
    Panics,
    Hangs,
    Fails,
}

impl Bad {
    async fn act<T>(self) -> Result<T> {
        match self {
            Bad::Panics => panic!("as the test wants it"),
            Bad::Hangs => pending().await,
            Bad::Fails => Err(Error::new(ErrorKind::Unavailable, "the store is on fire").help("call the fire brigade")),
        }
    }
}

#[async_trait]
impl Daemon for Bad {
    async fn projects(&self) -> Result<Vec<String>> {
        self.act().await
    }

    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        self.act().await
    }

    async fn find(&self, _: &Path, _: bool) -> Result<HostedProject> {
        self.act().await
    }

    async fn request(&self, _: &Caller, _: &str) -> Result<Reply> {
        self.act().await
    }

    fn exchange(&self, _: &Caller, request: &str) -> BoxStream<'static, String> {
        let bad = *self;
        let later = stream::once(async move {
            yield_now().await;
            bad.act::<String>().await.unwrap_or_else(|error| error.to_string())
        });
        // A stream that goes wrong after it has begun.
        if request.contains("late") {
            stream::iter(["{\"ok\":true}".into()]).chain(later).boxed()
        } else {
            later.boxed()
        }
    }
}

struct Served {
    _runtime: Runtime,
    _end: oneshot::Sender<()>,
    address: String,
}

impl Served {
    fn by(bad: Bad) -> Served {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let listening = runtime.block_on(server::serve(config(), Arc::new(bad), ended.map(drop).boxed())).unwrap();
        let address = listening.endpoint.split('/').nth(2).unwrap().to_string();
        runtime.spawn(listening.finished);
        Served { _runtime: runtime, _end: end, address }
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
    }

    fn ensure_project(&self) -> (u16, Value) {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                          "params": {"name": "ensure_project", "arguments": {"human_key": "/x"}}});
        let (status, body) = self.ask("POST", "/mcp/", &call);
        (status, serde_json::from_str(&body).unwrap())
    }
}

fn config() -> Arc<Config> {
    let section: Section = serde_json::from_value(json!({
        "address": "127.0.0.1:0", "path": "/mcp/", "profile": "standard", "max_body_bytes": 4096, "connections": 8,
        "deadline_seconds": 1, "patience_seconds": 5, "keep_alive_seconds": 5,
    }))
    .unwrap();
    Arc::new(section.checked(Role::Server).unwrap())
}

#[test]
fn a_panic_is_answered_and_the_server_goes_on() {
    let served = Served::by(Bad::Panics);
    for _ in 0..20 {
        let (status, answer) = served.ensure_project();
        assert_eq!((status, &answer["error"]["code"]), (500, &json!(-32603)), "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("is not known")), "{answer}");
        let (status, answer) = served.ask("POST", "/fmail/", &json!({"cmd": "topics"}));
        assert!(status == 500 && answer.contains("\"internal\""), "{status} {answer}");
        // One whose stream panics after it has begun is cut off, and not ended as if it were whole.
        let (status, answer) = served.ask("POST", "/fmail/", &json!({"cmd": "late"}));
        assert!(status == 200 && answer.contains("{\"ok\":true}") && !answer.contains("end"), "{status} {answer}");
        assert_eq!(served.ask("GET", "/health/readiness", &Value::Null).0, 500);
    }
    assert_eq!(served.ask("GET", "/health/liveness", &Value::Null), (200, "{\"status\":\"alive\"}".into()));
}

#[test]
fn a_daemon_that_hangs_costs_a_request_its_deadline_and_no_more() {
    let served = Served::by(Bad::Hangs);
    let began = Instant::now();
    let (status, answer) = served.ensure_project();
    assert_eq!((status, &answer["id"]), (200, &json!(7)), "{answer}");
    let said = answer.to_string();
    assert!(said.contains("not known") || said.contains("deadline") || said.contains("timed out"), "{said}");
    let (status, answer) = served.ask("POST", "/fmail/", &json!({"cmd": "send", "req_id": 3}));
    assert!(status == 200 && answer.contains("\"timeout\"") && answer.contains("\"req_id\":3"), "{status} {answer}");
    assert_eq!(served.ask("GET", "/health/liveness", &Value::Null).0, 200);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_daemon_that_is_not_ready_is_told_with_the_reason() {
    let served = Served::by(Bad::Fails);
    let (status, answer) = served.ask("GET", "/health/readiness", &Value::Null);
    assert_eq!(status, 503);
    assert!(answer.contains("the store is on fire; call the fire brigade"), "{answer}");
    let (status, answer) = served.ensure_project();
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(true)), "an outage is no empty answer: {answer}");
    assert!(answer.to_string().contains("the store is on fire"), "{answer}");
}
