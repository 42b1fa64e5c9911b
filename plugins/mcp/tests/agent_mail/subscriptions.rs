//! Hearing that a resource has changed.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Error, ErrorKind, HostedProject, Result};
use fmail_mcp::testing::LocalProjects;
use fmail_mcp::{Backend, Caller, Options, Outcome, Reply, Server};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::BoxStream;
use serde_json::{Value, json};

use crate::client::{Client, PROJECT, on_each_store};

const INBOX: &str = "resource://inbox/BlueMountain?project=%2Fdata%2Fprojects%2Fbrenner_bot";
const THREAD: &str = "resource://thread/T?project=%2Fdata%2Fprojects%2Fbrenner_bot";
const AGENTS: &str = "resource://agents/data-projects-brenner-bot";

/// Reads a stream on a thread of its own, so that a test can wait for what comes with an end.
struct Heard(mpsc::Receiver<Option<Value>>);

impl Heard {
    fn of(mut stream: BoxStream<'static, Value>) -> Self {
        let (told, heard) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let next = block_on(stream.next());
                let ended = next.is_none();
                if told.send(next).is_err() || ended {
                    return;
                }
            }
        });
        Heard(heard)
    }

    fn next(&self) -> Option<Value> {
        self.0.recv_timeout(Duration::from_secs(30)).expect("something is told")
    }

    #[track_caller]
    fn updated(&self) -> String {
        let told = self.next().expect("the stream goes on");
        assert_eq!((&told["method"], told.get("id")), (&json!("notifications/resources/updated"), None), "{told}");
        told["params"]["uri"].as_str().unwrap().into()
    }
}

fn listen(client: &Client, uris: Value) -> (Heard, Value) {
    let message = json!({"jsonrpc": "2.0", "id": "listen-1", "method": "subscriptions/listen", "params": {
        "notifications": {"resourceSubscriptions": uris, "toolsListChanged": true},
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}});
    match client.handle(message) {
        Outcome::Stream(stream) => {
            let heard = Heard::of(stream);
            let first = heard.next().unwrap();
            (heard, first)
        }
        _ => panic!("listening is a stream"),
    }
}

#[test]
fn a_listener_hears_what_it_asked_for_and_nothing_else() {
    on_each_store(|client| {
        client.introduce();
        let (heard, first) = listen(client, json!([INBOX, THREAD, "resource://nope/x", "resource://inbox/Nobody"]));
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(
            first["params"]["notifications"],
            json!({"resourceSubscriptions": [INBOX, THREAD]}),
            "what is honoured"
        );
        assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen-1");
        client.send(&["RedForest"], "not this", "x", json!({}));
        client.send(&["BlueMountain"], "the inbox", "x", json!({}));
        assert_eq!(heard.updated(), INBOX);
        client.send(&["RedForest"], "the thread", "x", json!({"thread_id": "T"}));
        let told = heard.next().unwrap();
        assert_eq!(told["params"]["uri"], THREAD);
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen-1");
        client.send(&["BlueMountain"], "both", "x", json!({"thread_id": "T"}));
        assert_eq!([heard.updated(), heard.updated()], [INBOX, THREAD]);
    });
}

#[test]
fn an_answer_that_does_not_name_its_thread_is_heard_of_too() {
    let client = Client::with_agents();
    let first = client.send(&["BlueMountain"], "x", "x", json!({"thread_id": "T"}));
    let (heard, _) = listen(&client, json!([THREAD]));
    let id = fmail_api::MessageId::from_number(first["id"].as_i64().unwrap()).unwrap();
    let mut plain = fmail_api::SendRequest::new("@greendog".parse().unwrap(), "an answer from a shell");
    plain.reply_to = Some(id.to_string());
    client.beside("bluemountain", fmail_api::Request::Send(Box::new(plain))).unwrap();
    assert_eq!(heard.updated(), THREAD);
}

#[test]
fn a_session_hears_of_what_it_has_subscribed_to() {
    on_each_store(|client| {
        client.introduce();
        let session = client.in_session("s-1");
        let heard = Heard::of(session.server.notifications(&session.peer));
        let subscribed = session.request("resources/subscribe", json!({"uri": INBOX}));
        assert_eq!(subscribed["result"], json!({}));
        session.request("resources/subscribe", json!({"uri": AGENTS}));
        client.send(&["BlueMountain"], "s", "b", json!({}));
        let mut told = [heard.updated(), heard.updated()];
        told.sort();
        assert_eq!(told, [AGENTS, INBOX]);
        session.request("resources/unsubscribe", json!({"uri": INBOX}));
        client.send(&["BlueMountain"], "s", "b", json!({}));
        // What was on its way when it was unsubscribed may still come, but nothing behind it.
        while heard.updated() != AGENTS {}
        client.send(&["BlueMountain"], "s", "b", json!({}));
        assert_eq!(heard.updated(), AGENTS);
        client.server.end_session("s-1");
        assert_eq!(heard.next(), None, "the stream of a session ends with it");
    });
}

#[test]
fn what_happens_while_no_stream_is_open_is_told_on_the_next() {
    on_each_store(|client| {
        client.introduce();
        let session = client.in_session("s-2");
        session.request("resources/subscribe", json!({"uri": INBOX}));
        client.send(&["BlueMountain"], "before the stream", "b", json!({}));
        let heard = Heard::of(session.server.notifications(&session.peer));
        assert_eq!(heard.updated(), INBOX);
        // A second stream takes over, and the first one ends.
        let second = Heard::of(session.server.notifications(&session.peer));
        assert_eq!(heard.next(), None);
        drop(heard);
        client.send(&["BlueMountain"], "on the second", "b", json!({}));
        assert_eq!(second.updated(), INBOX);
    });
}

#[test]
fn a_subscription_that_cannot_be_is_refused() {
    let client = Client::with_agents();
    let session = client.in_session("s-3");
    let refused = |client: &Client, uri: &str| {
        client.request("resources/subscribe", json!({"uri": uri}))["error"]["code"].clone()
    };
    assert_eq!(refused(&session, "resource://inbox/Nobody"), -32002);
    assert_eq!(refused(&session, "resource://nope/x"), -32002);
    assert_eq!(refused(&client, INBOX), -32600, "without a session nobody could be told");
    for number in 0..256 {
        let uri = format!("resource://thread/t{number}?project={PROJECT}");
        assert_eq!(session.request("resources/subscribe", json!({"uri": uri}))["result"], json!({}));
    }
    assert_eq!(refused(&session, THREAD), -32602);
    assert_eq!(
        session.request("resources/unsubscribe", json!({"uri": "resource://thread/never"}))["result"],
        json!({})
    );
}

/// Projects whose first watch breaks off with this error.
struct BreakingOff {
    inner: Arc<LocalProjects>,
    with: Mutex<Option<ErrorKind>>,
}

#[async_trait]
impl Backend for BreakingOff {
    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        self.inner.find(path, create).await
    }
    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        self.inner.hosted().await
    }
    async fn request(&self, caller: &Caller, request: Value) -> Result<Reply> {
        let watches = request["cmd"] == "watch";
        let reply = self.inner.request(caller, request).await?;
        match self.with.lock().unwrap().take_if(|_| watches) {
            Some(kind) => {
                let broken = futures::stream::iter([Err(Error::new(kind, "the watch breaks off"))]).boxed();
                Ok(Reply { events: Some(broken), ..reply })
            }
            None => Ok(reply),
        }
    }
}

fn breaking_off(with: ErrorKind) -> Client {
    let mut client = Client::with_agents();
    let backend = BreakingOff { inner: client.projects.clone(), with: Mutex::new(Some(with)) };
    client.server = Arc::new(Server::new(Arc::new(backend), Options::default()));
    client
}

#[test]
fn when_the_place_is_lost_everything_has_changed_and_the_stream_goes_on() {
    for lost in [ErrorKind::Backpressure, ErrorKind::Expired] {
        let client = breaking_off(lost);
        let (heard, _) = listen(&client, json!([INBOX, THREAD]));
        assert_eq!([heard.updated(), heard.updated()], [INBOX, THREAD]);
        client.send(&["BlueMountain"], "s", "b", json!({}));
        assert_eq!(heard.updated(), INBOX);
    }
}

#[test]
fn when_the_projects_are_gone_the_stream_ends_with_its_answer() {
    let client = breaking_off(ErrorKind::Unavailable);
    let (heard, _) = listen(&client, json!([INBOX]));
    let last = heard.next().unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("listen-1"), &json!("complete")));
    assert_eq!(last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen-1");
    assert_eq!(heard.next(), None);
}
