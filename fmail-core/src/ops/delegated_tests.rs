//! Mail on a backend that owns the states of mail, as a mail script does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fmail_api::{
    AgentName, Appended, Bulk, Capabilities, Client, Clock, Context, Cursor, Draft, Error, ErrorKind, Event,
    EventStream, Expect, Folder, Health, Imported, InboxRequest, Mail, MailCount, MailState, Mailbox, Mark,
    MarkRequest, Message, MessageId, Query, ReadRequest, ReceiptRequest, Record, RecordKey, Removed, Request, Response,
    Result, Revision, Scan, Selection, SendRequest, Store, ThreadRequest,
};
use fmail_backends::MemoryStore;
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::BoxStream;
use serde_json::Value;

use super::mark::transition;
use crate::testing::{ManualClock, context};
use crate::{LayerOptions, Operations, layered};

/// A store that knows by itself what was read. It has no records for mail: whoever asks for one has gone around it.
struct Script {
    messages: MemoryStore,
    states: Mutex<BTreeMap<(AgentName, MessageId), MailState>>,
    clock: Arc<ManualClock>,
}

impl Script {
    fn new(clock: Arc<ManualClock>) -> Self {
        Script { messages: MemoryStore::new(10_000, clock.clone()), states: Mutex::default(), clock }
    }

    fn mail(&self, agent: &AgentName, message: Arc<Message>) -> Mail {
        let state = self.states.lock().unwrap().get(&(agent.clone(), message.id)).cloned().unwrap_or_default();
        let own = message.targets().iter().any(|target| target.agent() == Some(agent));
        let standing = own.then(|| state.standing(message.expires, self.clock.now()));
        Mail { message, state, standing }
    }

    async fn find(&self, agent: &AgentName, query: Query) -> Result<Vec<Mail>> {
        let events: Vec<_> = self.messages.scan(query).await?.messages.collect().await;
        let mut found = Vec::new();
        for event in events {
            if let Event::Message(delivery) = event? {
                found.push(self.mail(agent, delivery.message.clone()));
            }
        }
        Ok(found)
    }
}

#[async_trait]
impl Mailbox for Script {
    async fn inbox(&self, agent: &AgentName, folder: Folder) -> Result<Vec<Mail>> {
        let mut mail = self.find(agent, Query::target(format!("@{agent}").parse()?)).await?;
        mail.retain(|mail| match folder {
            Folder::Unread => mail.state.is_open() && !mail.state.is_read(),
            Folder::Open => mail.state.is_open(),
            Folder::Archived => !mail.state.is_open() && mail.state.deleted.is_none(),
        });
        Ok(mail)
    }

    async fn peek(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        let found = self.find(agent, Query { ids: [id].into(), ..Query::default() }).await?;
        let mine = found.into_iter().find(|mail| mail.message.readable_by(agent));
        mine.ok_or_else(|| Error::not_found(format!("the script has no message {id}")))
    }

    async fn read(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        self.mark(agent, id, Mark::Read).await?;
        self.peek(agent, id).await
    }

    async fn mark(&self, agent: &AgentName, id: MessageId, mark: Mark) -> Result<bool> {
        if mark == Mark::Acknowledged {
            return Err(Error::unsupported("acknowledge messages"));
        }
        let before = self.peek(agent, id).await?.state;
        let Some(after) = transition(mark, id, &before, None, self.clock.now())? else { return Ok(false) };
        self.states.lock().unwrap().insert((agent.clone(), id), after);
        Ok(true)
    }

    async fn count(&self, agent: &AgentName) -> Result<MailCount> {
        let total = self.inbox(agent, Folder::Open).await?.len() as u64;
        let unread = self.inbox(agent, Folder::Unread).await?.len() as u64;
        Ok(MailCount { total, unread, ..MailCount::default() })
    }

    async fn thread(&self, agent: &AgentName, thread: &str) -> Result<Vec<Mail>> {
        let mut mail = self.find(agent, Query { thread: Some(thread.into()), ..Query::default() }).await?;
        mail.retain(|mail| mail.message.readable_by(agent));
        Ok(mail)
    }
}

fn own_state(key: &RecordKey) -> Result<()> {
    let of_mail = key.is_under("mailbox");
    if of_mail { Err(Error::internal(format!("fmail kept a state of its own: {key}"))) } else { Ok(()) }
}

#[async_trait]
impl Store for Script {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "script".into(), ..self.messages.capabilities() }
    }

    async fn append(&self, draft: Draft) -> Result<Appended> {
        self.messages.append(draft).await
    }

    async fn import(&self, message: Message) -> Result<Imported> {
        self.messages.import(message).await
    }

    async fn scan(&self, query: Query) -> Result<Scan> {
        self.messages.scan(query).await
    }

    async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
        self.messages.watch(query, from).await
    }

    async fn remove(&self, _: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        Err(Error::internal("fmail has removed what the script keeps"))
    }

    async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        own_state(key)?;
        self.messages.get(key).await
    }

    async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
        own_state(key)?;
        self.messages.put(key, expect, value, durable).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        self.messages.list(prefix).await
    }

    async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
        own_state(key)?;
        self.messages.delete(key, expect).await
    }

    async fn health(&self) -> Result<Health> {
        self.messages.health().await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }
}

/// The operations over a script, through every layer.
struct Bench {
    operations: Operations,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = layered(Arc::new(Script::new(clock.clone())), &LayerOptions::default());
        Bench { operations: Operations::new(store, clock.clone()), clock }
    }

    fn send(&self, to: &str, body: &str, thread: Option<&str>) -> String {
        self.clock.advance(std::time::Duration::from_secs(1));
        let send = SendRequest { thread: thread.map(Into::into), ..SendRequest::new(to.parse().unwrap(), body) };
        match self.head("alice", Request::Send(Box::new(send))).unwrap() {
            Response::Sent(sent) => sent.message.id.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn head(&self, agent: &str, request: Request) -> Result<Response> {
        Ok(block_on(self.operations.call(&context(agent), request))?.head)
    }

    /// The bodies of the mail that a request answers with.
    fn bodies(&self, agent: &str, request: Request) -> Result<Vec<String>> {
        let reply = block_on(self.operations.call(&context(agent), request))?;
        let events: Vec<_> = block_on(reply.events.unwrap().collect());
        let body = |event: Result<Event>| match event.unwrap() {
            Event::Mail(mail) => mail.message.body.as_str().unwrap().to_string(),
            other => panic!("{other:?}"),
        };
        Ok(events.into_iter().map(body).collect())
    }

    fn inbox(&self, agent: &str, folder: Folder) -> Vec<String> {
        self.bodies(agent, Request::Inbox(InboxRequest { folder, ..InboxRequest::default() })).unwrap()
    }

    fn count(&self, agent: &str) -> (u64, u64) {
        match self.head(agent, Request::Count).unwrap() {
            Response::Counted { count, .. } => (count.total, count.unread),
            other => panic!("{other:?}"),
        }
    }

    fn mark(&self, agent: &str, mark: Mark, ids: &[&str], bulk: Option<Bulk>) -> Vec<fmail_api::Marked> {
        let ids = ids.iter().map(ToString::to_string).collect();
        match self.head(agent, Request::Mark(MarkRequest { mark, ids, bulk, token: None, dry_run: false })).unwrap() {
            Response::Marked(marked) => marked,
            other => panic!("{other:?}"),
        }
    }
}

fn read(ids: &[&str], peek: bool) -> Request {
    Request::Read(ReadRequest { ids: ids.iter().map(ToString::to_string).collect(), peek, token: None })
}

#[test]
fn a_message_goes_from_unread_to_archived_in_the_backends_own_mailbox() {
    let bench = Bench::new();
    let first = bench.send("@bob", "one", None);
    bench.send("@bob", "two", None);
    assert_eq!((bench.inbox("bob", Folder::Unread), bench.count("bob")), (vec!["one".into(), "two".into()], (2, 2)));
    assert_eq!(bench.bodies("bob", read(&[&first], true)).unwrap(), ["one"]);
    assert_eq!(bench.count("bob"), (2, 2), "looking changes nothing");
    assert_eq!(bench.bodies("bob", read(&[&first[9..]], false)).unwrap(), ["one"]);
    assert_eq!((bench.inbox("bob", Folder::Unread), bench.count("bob")), (vec!["two".into()], (2, 1)));
    let marked = bench.mark("bob", Mark::Archived, &[&first], None);
    assert!(!marked[0].already && !marked[0].was_unread && marked[0].error.is_none());
    assert!(bench.mark("bob", Mark::Archived, &[&first], None)[0].already);
    assert_eq!((bench.inbox("bob", Folder::Archived), bench.count("bob")), (vec!["one".into()], (1, 1)));
    assert!(bench.mark("bob", Mark::Archived, &[], Some(Bulk { all: true, ..Bulk::default() }))[0].was_unread);
    assert_eq!(bench.count("bob"), (0, 0));
    let gone = bench.mark("bob", Mark::Deleted, &[&first, "20200101-000000-0000"], None);
    assert!(gone[0].error.is_none());
    assert_eq!(gone[1].error.as_ref().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(bench.inbox("bob", Folder::Archived), ["two"]);
}

#[test]
fn limits_and_senders_hold_on_the_backends_mail() {
    let bench = Bench::new();
    for body in ["one", "two", "three"] {
        bench.send("@bob", body, None);
    }
    let request = InboxRequest { limit: Some(2), ..InboxRequest::default() };
    assert!(matches!(bench.head("bob", Request::Inbox(request.clone())).unwrap(), Response::Mail { more: 1 }));
    assert_eq!(bench.bodies("bob", Request::Inbox(request)).unwrap(), ["one", "two"]);
    let from = InboxRequest { from: Some("carol".parse().unwrap()), ..InboxRequest::default() };
    assert!(bench.bodies("bob", Request::Inbox(from)).unwrap().is_empty());
}

#[test]
fn a_thread_is_found_by_its_name_and_by_a_message() {
    let bench = Bench::new();
    let first = bench.send("@bob", "one", Some("plan"));
    bench.send("@bob", "other", None);
    bench.send("@bob", "two", Some("plan"));
    for id in ["plan", &first, &first[9..]] {
        let thread = Request::Thread(ThreadRequest { id: id.into() });
        assert_eq!(bench.bodies("bob", thread).unwrap(), ["one", "two"], "{id}");
    }
    for unknown in ["unknown", "20200101-000000-0000", "9999"] {
        let thread = Request::Thread(ThreadRequest { id: unknown.into() });
        assert!(bench.bodies("bob", thread).unwrap().is_empty(), "{unknown}");
    }
}

#[test]
fn who_acts_for_everybody_sees_the_whole_thread() {
    let bench = Bench::new();
    bench.send("@bob", "one", Some("plan"));
    bench.send("@carol", "two", Some("plan"));
    let everybody = Context { overview: true, ..context("mcp") };
    let thread = Request::Thread(ThreadRequest { id: "plan".into() });
    let reply = block_on(bench.operations.call(&everybody, thread)).unwrap();
    assert!(matches!(reply.head, Response::Thread { thread } if thread == "plan"));
    assert_eq!(block_on(reply.events.unwrap().count()), 2);
}

#[test]
fn who_has_sent_a_message_may_look_at_it_and_does_not_read_it() {
    let bench = Bench::new();
    let id = bench.send("@bob", "one", None);
    assert_eq!(bench.bodies("alice", read(&[&id], false)).unwrap(), ["one"]);
    assert_eq!(bench.inbox("bob", Folder::Unread), ["one"]);
    assert_eq!(bench.count("alice"), (0, 0));
}

#[test]
fn one_wrong_id_reads_nothing() {
    let bench = Bench::new();
    let first = bench.send("@bob", "one", None);
    let error = bench.bodies("bob", read(&[&first, "20200101-000000-0000"], false)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(bench.count("bob"), (1, 1));
}

#[test]
fn what_the_backend_has_no_notion_of_is_unsupported() {
    let bench = Bench::new();
    let first = bench.send("@bob", "one", None);
    let claim = InboxRequest { claim_seconds: Some(60), ..InboxRequest::default() };
    assert_eq!(bench.bodies("bob", Request::Inbox(claim)).unwrap_err().kind(), ErrorKind::Unsupported);
    let marked = bench.mark("bob", Mark::Acknowledged, &[&first], None);
    assert_eq!(marked[0].error.as_ref().unwrap().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_receipt_tells_what_the_backend_knows() {
    let bench = Bench::new();
    let first = bench.send("@bob", "one", None);
    bench.bodies("bob", read(&[&first], false)).unwrap();
    match bench.head("alice", Request::Receipt(ReceiptRequest { id: first })).unwrap() {
        Response::Receipt(receipt) => assert!(receipt.recipients[0].read.is_some(), "{receipt:?}"),
        other => panic!("{other:?}"),
    }
}
