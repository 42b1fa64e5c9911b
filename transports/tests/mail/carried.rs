//! Mail over a socket, in front of operations that answer what they are told to.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown as Side;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{
    Client, Context, Cursor, Error, ErrorKind, Event, EventStream, Hello, Host, PROTOCOL_VERSION, ProjectRef, Reply,
    Request, Response, Result, Shutdown, ThreadRequest, Transport,
};
use fmail_transports::UnixTransport;
use futures::channel::oneshot;
use futures::executor::block_on;
use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use crate::exchanges::{context, exchanges, mail, nudge, shown};

/// The thread whose delivery fails half way.
const BROKEN: &str = "broken";
/// The thread whose delivery waits until the test opens the gate.
const WAITING: &str = "waiting";

/// Operations that answer what [`exchanges`] says.
#[derive(Default)]
struct Fake {
    /// Holds the thread that waits.
    gate: Mutex<Option<oneshot::Receiver<()>>>,
    /// Is told when a watch has ended.
    ended: Mutex<Option<mpsc::Sender<()>>>,
}

#[async_trait]
impl Client for Fake {
    async fn call(&self, _: &Context, request: Request) -> Result<Reply> {
        match &request {
            Request::Hello(_) => return Ok(Reply::new(Response::Hello(Box::new(hello())))),
            Request::Watch(_) => return Ok(Reply::streaming(Response::Watching(Cursor::new("x:0")), self.nudged())),
            Request::Log(_) => return Ok(Reply::streaming(Response::Log { more: false }, self.nudged())),
            Request::Thread(ThreadRequest { id }) if id == BROKEN || id == WAITING => {
                return Ok(Reply::streaming(Response::Thread { thread: id.clone() }, self.thread(id)));
            }
            _ => {}
        }
        let known = exchanges().into_iter().find(|exchange| exchange.request == request);
        let known = known.ok_or_else(|| Error::not_found(format!("no answer is known to {request:?}")))?;
        Ok(Reply { head: known.response, events: known.events.map(|events| stream::iter(events).map(Ok).boxed()) })
    }
}

impl Fake {
    /// A nudge, and then nothing for ever.
    fn nudged(&self) -> EventStream {
        let told = Told(self.ended.lock().unwrap().clone());
        let quiet = stream::once(async move {
            let _told = told;
            std::future::pending().await
        });
        stream::iter([Ok(nudge())]).chain(quiet).boxed()
    }

    fn thread(&self, id: &str) -> EventStream {
        let events = stream::iter(mail()).map(Ok);
        if id == BROKEN {
            let failed = Err(Error::new(ErrorKind::Corrupt, "the mailbox cannot be read"));
            return events.chain(stream::iter([failed])).boxed();
        }
        let gate = self.gate.lock().unwrap().take().unwrap();
        stream::once(gate).filter_map(async |_| None).chain(events).boxed()
    }
}

/// Tells when it is dropped.
struct Told(Option<mpsc::Sender<()>>);

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(sender) = &self.0 {
            sender.send(()).ok();
        }
    }
}

fn hello() -> Hello {
    Hello {
        version: "0".into(),
        protocol: PROTOCOL_VERSION,
        operations: Vec::new(),
        project: serde_json::from_value(json!({"id": "proj-test", "created": "2026-01-10T15:00:00Z"})).unwrap(),
        store_id: "s".into(),
        node: None,
    }
}

struct One(Arc<Fake>);

#[async_trait]
impl Host for One {
    async fn projects(&self) -> Result<Vec<String>> {
        Ok(vec!["proj-test".into()])
    }

    async fn open(&self, _: ProjectRef) -> Result<Arc<dyn Client>> {
        Ok(self.0.clone())
    }
}

/// Serves while `check` runs on a thread that may wait.
fn served(fake: Fake, check: impl FnOnce(&Path) + Send + 'static) {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join(".fmail")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (end, ended) = oneshot::channel::<()>();
        let shutdown: Shutdown = ended.map(|_| ()).boxed();
        let listening = UnixTransport::new(root.path()).serve(Arc::new(One(Arc::new(fake))), shutdown).await.unwrap();
        let serving = tokio::spawn(listening.finished);
        let path = root.path().to_path_buf();
        tokio::task::spawn_blocking(move || check(&path)).await.unwrap();
        end.send(()).unwrap();
        serving.await.unwrap().unwrap();
    });
}

/// A peer that knows JSON and nothing else.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn connect(root: &Path) -> Raw {
        let socket = UnixStream::connect(root.join(".fmail/forged.sock")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw(BufReader::new(socket))
    }

    fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line. A sign of life comes when the machine is slow, and is none; four of them are a minute.
    fn line(&mut self) -> String {
        for _ in 0..4 {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if !line.contains(r#""event":"ping""#) {
                return line;
            }
        }
        panic!("nothing but signs of life");
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

/// What goes in on one side comes out on the other (T5).
#[test]
fn a_socket_carries_every_operation() {
    served(Fake::default(), |root| {
        let transport = UnixTransport::new(root);
        let client = block_on(transport.connect(ProjectRef::Id("proj-test".into()))).unwrap();
        for exchange in exchanges() {
            let reply = block_on(client.call(&context(), exchange.request.clone())).unwrap();
            assert_eq!(reply.head, exchange.response, "{:?}", exchange.request);
            let arrived = reply.events.map(|events| block_on(events.map(|event| shown(&event.unwrap())).collect()));
            let expected = exchange.events.map(|events| events.iter().map(shown).collect::<Vec<_>>());
            assert_eq!(arrived, expected, "{:?}", exchange.request);
        }
    });
}

#[test]
fn mail_that_breaks_off_ends_with_its_error() {
    served(Fake::default(), |root| {
        let client = block_on(UnixTransport::new(root).connect(ProjectRef::Id("proj-test".into()))).unwrap();
        let asked = Request::Thread(ThreadRequest { id: BROKEN.into() });
        let events = block_on(client.call(&context(), asked)).unwrap().events.unwrap();
        let arrived: Vec<Result<Event>> = block_on(events.collect());
        assert!(
            matches!(&arrived[..], [Ok(_), Ok(_), Err(error)] if error.kind() == ErrorKind::Corrupt),
            "{arrived:?}"
        );
    });
}

#[test]
fn before_hello_mail_ends_and_the_connection_goes_on() {
    served(Fake::default(), |root| {
        let mut raw = Raw::connect(root);
        raw.say(r#"{"cmd":"thread","agent":"a","id":"0001","req_id":1}"#);
        raw.say(r#"{"cmd":"search","agent":"a","query":"\"a b\" OR c*\n","limit":9,"req_id":2}"#);
        raw.say(r#"{"cmd":"inbox","agent":"a","req_id":3}"#);
        raw.say(r#"{"cmd":"count","agent":"a","req_id":4}"#);
        assert_eq!(raw.line(), "{\"ok\":true,\"thread\":\"t\",\"req_id\":1}\n");
        let (known, fresh) = (raw.json(), raw.json());
        assert_eq!((&known["mail"]["standing"], &known["mail"]["claim"]["token"]), (&json!("archived"), &json!("t-1")));
        assert_eq!(fresh["mail"], json!({"standing": "unread"}));
        assert_eq!(fresh["msg"]["id"], "20260110-120000-0001");
        assert_eq!(raw.line(), "{\"event\":\"end\"}\n");
        assert_eq!(raw.line(), "{\"ok\":true,\"more\":false,\"req_id\":2}\n");
        assert_eq!(raw.line(), "{\"event\":\"end\"}\n");
        assert_eq!(raw.line(), "{\"ok\":true,\"more\":0,\"req_id\":3}\n");
        assert_eq!(raw.line(), "{\"event\":\"end\"}\n");
        assert_eq!(raw.line(), "{\"ok\":true,\"total\":12,\"unread\":3,\"req_id\":4}\n");
    });
}

#[test]
fn before_hello_what_follows_without_end_takes_the_connection() {
    served(Fake::default(), |root| {
        for command in [r#""cmd":"watch""#, r#""cmd":"log","follow":true"#] {
            let mut raw = Raw::connect(root);
            raw.say(&format!(r#"{{{command},"agent":"a"}}"#));
            assert_eq!(raw.json()["ok"], true);
            raw.say(r#"{"cmd":"count","agent":"a"}"#);
            // The nudge is not for this peer: it has not said hello.
            assert_eq!(raw.json()["error"]["code"], "invalid_request");
            assert_eq!(raw.line(), "");
        }
    });
}

#[test]
fn after_hello_a_watch_gets_nudges_and_mail_comes_beside_it() {
    served(Fake::default(), |root| {
        let mut raw = Raw::connect(root);
        raw.say(r#"{"cmd":"hello","agent":"a","req_id":"h"}"#);
        raw.json();
        raw.say(r#"{"cmd":"watch","agent":"a","req_id":"w"}"#);
        assert_eq!(raw.line(), "{\"ok\":true,\"cursor\":\"x:0\",\"req_id\":\"w\"}\n");
        let nudge = json!({"from": "bob", "text": "look at\nyour mail", "time": "2026-01-10T12:00:00Z"});
        assert_eq!(raw.json(), json!({"event": "nudge", "nudge": nudge, "req_id": "w"}));
        raw.say(r#"{"cmd":"thread","agent":"a","id":"0001","req_id":"t"}"#);
        let lines: Vec<Value> = (0..4).map(|_| raw.json()).collect();
        assert!(lines.iter().all(|line| line["req_id"] == "t"), "{lines:?}");
        assert_eq!(lines[3]["event"], "end");
    });
}

/// Whoever has asked and closed its sending side is owed the rest of an answer. What has no end is ended.
#[test]
fn after_hello_mail_that_was_asked_for_is_delivered_to_a_peer_that_has_stopped_speaking() {
    let ((open, gate), (told, ended)) = (oneshot::channel(), mpsc::channel());
    let fake = Fake { gate: Mutex::new(Some(gate)), ended: Mutex::new(Some(told)) };
    served(fake, move |root| {
        let mut raw = Raw::connect(root);
        raw.say(r#"{"cmd":"hello","agent":"a","req_id":"h"}"#);
        raw.json();
        raw.say(&format!(r#"{{"cmd":"thread","agent":"a","id":"{WAITING}","req_id":"t"}}"#));
        assert_eq!(raw.json()["thread"], WAITING);
        raw.say(r#"{"cmd":"watch","agent":"a","req_id":"w"}"#);
        assert_eq!((raw.json()["req_id"].clone(), raw.json()["event"].clone()), (json!("w"), json!("nudge")));
        raw.0.get_ref().shutdown(Side::Write).unwrap();
        ended.recv_timeout(Duration::from_secs(60)).unwrap();
        // What is to happen at the end of the peer's requests has happened when another peer has been served since.
        let mut other = Raw::connect(root);
        other.say(r#"{"cmd":"count","agent":"a"}"#);
        assert_eq!(other.json()["ok"], true);
        open.send(()).unwrap();
        let lines: Vec<Value> = (0..3).map(|_| raw.json()).collect();
        assert!(lines[0]["mail"].is_object() && lines[1]["mail"].is_object(), "{lines:?}");
        assert_eq!(lines[2], json!({"event": "end", "req_id": "t"}));
        assert_eq!(raw.line(), "");
    });
}
