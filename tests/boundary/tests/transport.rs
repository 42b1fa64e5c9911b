//! A transport plugin: it serves the host's operations, and asks for them at the other end.
#![allow(missing_docs)]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fmail_abi::{Answer, Service, Spawner, Work, status};
use fmail_boundary::LittleHost;
use fmail_plugin::futures::executor::block_on;
use fmail_plugin::futures::future::BoxFuture;
use fmail_plugin::futures::{FutureExt, StreamExt, stream};
use fmail_plugin::{
    Caller, Envelope, Error, ErrorKind, Host, HostedProject, Listening, Principal, Reply, Result, Shutdown, Transport,
    tokio,
};
use serde_json::{Value, json};

fmail_plugin::transport! { name: "transport-test", open: Example::open }

static TABLE: fmail_plugin::__macro::FmPlugin = fmail_plugin::__macro::table::<FmailPlugin>();

/// What it "listens" to are the requests that it makes itself as soon as it serves; what came of them is its endpoint.
struct Example {
    instance: String,
}

impl Example {
    async fn open(envelope: Envelope) -> Result<Self> {
        Ok(Example { instance: envelope.instance })
    }
}

#[async_trait]
impl Transport for Example {
    async fn serve(&self, host: Host, shutdown: Shutdown) -> Result<Listening> {
        let projects = host.projects().await?;
        let found = host.find("/home/ann/app/src", true).await?;
        assert_eq!((host.hosted().await?, found.new), (vec![HostedProject { new: false, ..found }], true));
        let caller = Caller { principal: Some(Principal::Token("t".into())), ..Caller::in_project(&projects[0]) };
        let sent = host.request(&caller, r#"{"cmd":"send"}"#).await?;
        assert!(sent.events.is_none());
        let mut watch = host.request(&caller, r#"{"cmd":"watch"}"#).await?;
        let events: Vec<String> = watch.events.take().unwrap().map(|event| event.unwrap()).collect().await;
        let refused = host.request(&caller, r#"{"cmd":"fail"}"#).await.err().unwrap();
        let endpoint =
            format!("{}: {projects:?} {} {} {events:?} {}", self.instance, sent.head, watch.head, refused.kind());
        let finished = async move {
            // A request that nobody answers is given up with the shutdown.
            let forever = host.request(&caller, r#"{"cmd":"forever"}"#);
            let mut shutdown = shutdown;
            tokio::select! {
                _ = forever => Err(Error::internal("nobody answers that")),
                () = &mut shutdown => Ok(()),
            }
        };
        Ok(Listening { endpoint, finished: finished.boxed() })
    }

    async fn request(&self, caller: Caller, request: String) -> Result<Reply> {
        let request: Value = serde_json::from_str(&request).map_err(|error| Error::invalid(error.to_string()))?;
        match request["cmd"].as_str() {
            Some("send") => Ok(Reply { head: json!({ "ok": caller.project }).to_string(), events: None }),
            Some("watch") => {
                let events = stream::iter(["1", "2"]).map(|event| Ok(event.to_owned())).boxed();
                Ok(Reply { head: "{}".into(), events: Some(events) })
            }
            _ => Err(Error::new(ErrorKind::Unreached, "nobody is there")),
        }
    }
}

/// The host's operations.
#[derive(Default)]
struct Operations {
    asked: Mutex<Vec<String>>,
}

impl Service for Operations {
    fn call(&self, method: &str, context: &[u8], request: &[u8]) -> Work {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        self.asked.lock().unwrap().push(format!("{method} {} {}", text(context), text(request)));
        let request: Value = serde_json::from_slice(request).unwrap();
        match (method, request["cmd"].as_str()) {
            ("projects", _) if request["hosted"] == true => {
                let answer = json!({"projects": ["p1"], "hosted": [project()]}).to_string();
                Work::Answer(std::future::ready(Answer::ok(answer.into_bytes())).boxed())
            }
            ("projects", _) => Work::Answer(async { Answer::ok(*b"{\"projects\":[\"p1\"]}") }.boxed()),
            ("find", _) => {
                let mut answer = project();
                answer["new"] = request["create"].clone();
                Work::Answer(std::future::ready(Answer::ok(answer.to_string().into_bytes())).boxed())
            }
            (_, Some("send")) => Work::Answer(async { Answer::ok(*b"{\"ok\":true}") }.boxed()),
            (_, Some("watch")) => {
                let items = (0..100_u32).map(|n| Ok(n.to_string().into_bytes()));
                Work::Stream(stream::iter([Ok(b"{}".to_vec())]).chain(stream::iter(items)).take(4).boxed())
            }
            (_, Some("forever")) => Work::Answer(std::future::pending().boxed()),
            _ => Work::Answer(async { Answer::from(Error::new(ErrorKind::Expired, "too old")) }.boxed()),
        }
    }
}

/// A project, as a host tells it.
fn project() -> Value {
    json!({"id": "p1", "root": "/home/ann/app", "key": "/home/ann/app", "slug": "home-ann-app", "created": "2026-01-10T15:30:00Z"})
}

struct Threads;

impl Spawner for Threads {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        std::thread::spawn(move || block_on(future));
    }
}

fn start(operations: &Arc<Operations>) -> LittleHost {
    let upward = Some((operations.clone() as Arc<dyn Service>, Arc::new(Threads) as Arc<dyn Spawner>));
    block_on(LittleHost::start(&TABLE, &json!({ "role": "server", "instance": "wire" }), upward)).unwrap()
}

#[test]
fn a_transport_asks_the_host_and_ends_when_it_is_told_to() {
    let operations = Arc::new(Operations::default());
    let host = start(&operations);
    let mut serving = host.stream("serve", b"", b"{}");
    let head: Value = serde_json::from_slice(&block_on(serving.next()).unwrap().unwrap()).unwrap();
    let endpoint = r#"wire: ["p1"] {"ok":true} {} ["0", "1", "2"] expired"#;
    assert_eq!(head["endpoint"], endpoint);
    let asked = operations.asked.lock().unwrap().clone();
    assert_eq!(asked[0], "projects  {}");
    assert_eq!(asked[1], r#"find  {"path":"/home/ann/app/src","create":true}"#);
    assert_eq!(asked[2], r#"projects  {"hosted":true}"#);
    assert_eq!(asked[3], r#"request {"project":"p1","principal":{"token":"t"}} {"cmd":"send"}"#);
    assert!(serving.next().now_or_never().is_none(), "it serves until it is told to end");
    assert_eq!(block_on(host.call("shutdown", b"{}")).status, status::OK);
    assert_eq!(block_on(serving.next()).unwrap().unwrap_err().status, status::END);
    block_on(host.end()).into_result().unwrap();
}

#[test]
fn a_transport_that_serves_is_ended_all_the_same() {
    let host = start(&Arc::default());
    let mut serving = host.stream("serve", b"", b"{}");
    assert!(block_on(serving.next()).unwrap().is_ok());
    block_on(host.end()).into_result().unwrap();
    assert_eq!(block_on(serving.next()).unwrap().unwrap_err().status, status::CANCELLED);
}

#[test]
fn a_client_s_requests_have_plain_answers_streams_and_errors() {
    let host = start(&Arc::default());
    let context = br#"{"project":"p2","deadline_ms":5,"unknown":1}"#;
    let mut plain = host.stream("request", context, br#"{"cmd":"send"}"#);
    let answer = block_on(plain.next()).unwrap().unwrap_err();
    assert_eq!((answer.status, &*answer.body), (status::OK, &br#"{"ok":"p2"}"#[..]));
    let plain = block_on(host.call("request", br#"{"cmd":"send"}"#));
    assert_eq!(&*plain.body, br#"{"ok":null}"#, "a plain answer needs no credit");
    let watch: Vec<_> = block_on(host.stream("request", b"", br#"{"cmd":"watch"}"#).collect());
    let bodies: Vec<_> = watch.iter().filter_map(|item| item.as_deref().ok()).collect();
    assert_eq!(bodies, [&b"{}"[..], b"1", b"2"]);
    let failed = block_on(host.call("request", br#"{"cmd":"x"}"#));
    assert_eq!(failed.error().kind(), ErrorKind::Unreached);
    block_on(host.end()).into_result().unwrap();
}
