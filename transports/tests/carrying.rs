//! The rules of a transport (T1 to T5), for both of them, over operations in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use fmail_api::{
    Client, Context, DEFAULT_MAX_MESSAGE_BYTES, Error, ErrorKind, Event, Expect, GcRequest, HelloRequest, Host,
    LogRequest, Principal, ProjectRef, RecordKey, RegisterRequest, Request, Response, Result, SendRequest, Shutdown,
    StatusChange, StatusRequest, Store, Transport, WatchRequest, WhoRequest,
};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_core::Operations;
use fmail_transports::{TcpTransport, Token, UnixTransport};
use futures::executor::block_on;
use futures::{FutureExt, StreamExt};
use serde_json::json;
use tokio::sync::oneshot;

/// A host with one project.
struct One(Arc<dyn Client>);

#[async_trait]
impl Host for One {
    async fn projects(&self) -> Result<Vec<String>> {
        Ok(vec!["proj-test".into()])
    }

    async fn open(&self, project: ProjectRef) -> Result<Arc<dyn Client>> {
        match project {
            ProjectRef::Id(id) if id != "proj-test" => Err(Error::new(ErrorKind::InvalidProject, "not served")),
            _ => Ok(self.0.clone()),
        }
    }
}

fn host() -> Arc<One> {
    let store = MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock));
    let record = json!({"id": "proj-test", "created": "2026-01-10T15:00:00Z"});
    block_on(store.put(&RecordKey::project(), Expect::Absent, record, true)).unwrap();
    Arc::new(One(Arc::new(Operations::new(Arc::new(store), Arc::new(SystemClock)))))
}

fn context() -> Context {
    Context { principal: Principal::Anonymous, ..Context::local("alice".parse().unwrap()) }
}

fn send(body: &str) -> Request {
    Request::Send(Box::new(SendRequest::new("task".parse().unwrap(), body)))
}

/// Serves, and gives a client to `check`, which runs on a thread that may wait.
fn carried(transport: impl FnOnce(&Path) -> Arc<dyn Transport>, project: ProjectRef, check: fn(&dyn Client)) {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join(".fmail")).unwrap();
    let transport = transport(root.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let started = Instant::now();
        let nobody = transport.connect(project.clone()).await.err().unwrap();
        assert_eq!(nobody.kind(), ErrorKind::Unavailable);
        assert!(started.elapsed().as_millis() < 1_000, "T4");
        let (end, ended) = oneshot::channel::<()>();
        let shutdown: Shutdown = async move { drop(ended.await) }.boxed();
        let listening = transport.serve(host(), shutdown).await.unwrap();
        let serving = tokio::spawn(listening.finished);
        let client = transport.connect(project.clone()).await.expect("T1");
        tokio::task::spawn_blocking(move || check(&*client)).await.unwrap();
        end.send(()).unwrap();
        serving.await.unwrap().expect("T2");
        assert!(transport.connect(project).await.is_err(), "T2");
    });
}

/// What goes in on one side comes out on the other (T5).
fn everything(client: &dyn Client) {
    let call = |request| block_on(client.call(&context(), request));
    let head = |request| call(request).unwrap().head;
    let Response::Hello(hello) = head(Request::Hello(HelloRequest::default())) else { panic!() };
    assert_eq!(hello.project.id, "proj-test");
    let mut watching = call(Request::Watch(WatchRequest::default())).unwrap().events.unwrap();
    for body in ["one", "two", "three"] {
        let Response::Sent(sent) = head(send(body)) else { panic!() };
        let Some(Ok(Event::Message(delivery))) = block_on(watching.next()) else { panic!() };
        assert_eq!((delivery.message.id, &delivery.message.body), (sent.message.id, &json!(body)));
    }
    drop(watching);
    let mut reply = call(Request::Log(LogRequest { limit: Some(2), ..LogRequest::default() })).unwrap();
    assert_eq!(reply.head, Response::Log { more: true });
    assert_eq!(block_on(reply.events.take().unwrap().count()), 2);
    assert!(matches!(head(Request::Topics), Response::Topics(topics) if topics.len() == 1));
    let busy = StatusRequest { change: Some(StatusChange::Set("busy".into())) };
    assert!(matches!(head(Request::Status(busy)), Response::Status(view) if view.status.as_deref() == Some("busy")));
    let name = RegisterRequest { name: Some("zoe".parse().unwrap()), ..RegisterRequest::default() };
    assert!(matches!(head(Request::Register(name.clone())), Response::Registered(_)));
    assert_eq!(call(Request::Register(name)).err().unwrap().kind(), ErrorKind::Conflict);
    assert!(matches!(head(Request::Who(WhoRequest::default())), Response::Agents { agents, .. } if agents.len() == 2));
    let mut swept = call(Request::Gc(GcRequest { days: 1, dry_run: true })).unwrap();
    assert!(matches!(swept.head, Response::Collecting(report) if report.dry_run));
    assert!(block_on(swept.events.take().unwrap().next()).is_none());
    let error = call(send("  ")).err().unwrap();
    assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidRequest, "empty message body"));
    assert!(error.help_text().is_some());
    let other = WatchRequest { target: Some("@bob".parse().unwrap()), ..WatchRequest::default() };
    assert_eq!(call(Request::Watch(other)).err().unwrap().kind(), ErrorKind::InvalidAgent);
}

#[test]
fn unix_carries_everything() {
    let transport = |root: &Path| -> Arc<dyn Transport> { Arc::new(UnixTransport::new(root)) };
    carried(transport, ProjectRef::Id("proj-test".into()), everything);
}

#[test]
fn tcp_carries_everything() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let transport = move |_: &Path| -> Arc<dyn Transport> { Arc::new(TcpTransport::new(free)) };
    carried(transport, ProjectRef::Id("proj-test".into()), everything);
}

#[test]
fn tcp_with_a_token_carries_everything() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let token = Token::new("correct-horse-battery-staple-0042");
    let transport = move |_: &Path| -> Arc<dyn Transport> { Arc::new(TcpTransport::new(free).proving(Some(token))) };
    carried(transport, ProjectRef::Id("proj-test".into()), everything);
}
