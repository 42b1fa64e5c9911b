//! A mail program over a store: what the cases of mail are written with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fmail_api::{
    Bulk, Client, Clock, Context, Event, Folder, InboxRequest, Mail, MailCount, Mark, MarkRequest, Marked, Message,
    MessageId, ReadRequest, Receipt, ReceiptRequest, ReplyRequest, Request, Response, Result, SendRequest, Sent, Store,
    ThreadRequest, Timestamp,
};
use fmail_core::Operations;
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::kit::target;
use crate::{Bench, Failure, Verdict};

/// The clock of the machine, moved ahead when a case wants time to pass.
pub(super) struct Shifted {
    ahead: AtomicU64,
    start: Mutex<Option<Instant>>,
}

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let elapsed = elapsed + Duration::from_secs(self.ahead.load(Ordering::Relaxed));
        Timestamp::from_unix(elapsed.as_secs() as i64, elapsed.subsec_nanos())
    }

    fn since_boot(&self) -> Duration {
        self.start.lock().map(|mut start| start.get_or_insert_with(Instant::now).elapsed()).unwrap_or_default()
    }
}

/// The operations over one instance of the store.
pub(super) struct Post {
    pub(super) store: Arc<dyn Store>,
    operations: Operations,
    clock: Arc<Shifted>,
}

impl Post {
    pub(super) fn open(bench: &Bench) -> Verdict<Post> {
        let store = bench.open()?;
        let clock = Arc::new(Shifted { ahead: AtomicU64::new(0), start: Mutex::new(None) });
        Ok(Post { operations: Operations::new(store.clone(), clock.clone()), store, clock })
    }

    /// Lets time pass.
    pub(super) fn wait(&self, seconds: u64) {
        self.clock.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn ask(&self, agent: &str, request: Request) -> Result<(Response, Vec<Event>)> {
        block_on(async {
            let reply = self.operations.call(&Context::local(agent.parse()?), request).await?;
            let mut events = Vec::new();
            if let Some(mut stream) = reply.events {
                while let Some(event) = stream.next().await {
                    events.push(event?);
                }
            }
            Ok((reply.head, events))
        })
    }

    fn mail(&self, agent: &str, request: Request) -> Result<Vec<Mail>> {
        let mail = |event| if let Event::Mail(mail) = event { Some(*mail) } else { None };
        Ok(self.ask(agent, request)?.1.into_iter().filter_map(mail).collect())
    }

    pub(super) fn send(&self, from: &str, to: &str, body: impl Into<Value>) -> Verdict<Message> {
        self.send_with(from, to, body, |request| request)
    }

    pub(super) fn send_with(
        &self,
        from: &str,
        to: &str,
        body: impl Into<Value>,
        change: impl FnOnce(SendRequest) -> SendRequest,
    ) -> Verdict<Message> {
        let request = change(SendRequest::new(target(to), body));
        Ok(sent(self.ask(from, Request::Send(Box::new(request)))?.0)?.message)
    }

    pub(super) fn reply(&self, from: &str, id: impl ToString, body: &str) -> Result<Message> {
        let request: ReplyRequest = serde_json::from_value(json!({"id": id.to_string(), "body": body}))
            .map_err(|error| fmail_api::Error::internal(error.to_string()))?;
        Ok(sent(self.ask(from, Request::Reply(Box::new(request)))?.0)?.message)
    }

    pub(super) fn folder(&self, agent: &str, folder: Folder) -> Result<Vec<Mail>> {
        self.mail(agent, Request::Inbox(InboxRequest { folder, ..InboxRequest::default() }))
    }

    pub(super) fn inbox(&self, agent: &str) -> Verdict<Vec<MessageId>> {
        Ok(ids(&self.folder(agent, Folder::Unread)?))
    }

    pub(super) fn check(&self, agent: &str) -> Verdict<Vec<MessageId>> {
        Ok(ids(&self.mail(agent, Request::Inbox(InboxRequest { peek: true, ..InboxRequest::default() }))?))
    }

    pub(super) fn claim(&self, agent: &str, limit: usize, seconds: u64) -> Result<Vec<Mail>> {
        let request = InboxRequest { limit: Some(limit), claim_seconds: Some(seconds), ..InboxRequest::default() };
        self.mail(agent, Request::Inbox(request))
    }

    pub(super) fn read(&self, agent: &str, id: impl ToString, peek: bool) -> Result<Mail> {
        let request = ReadRequest { ids: vec![id.to_string()], peek, token: None };
        let gone = || fmail_api::Error::internal("a read answers with no message");
        self.mail(agent, Request::Read(request))?.pop().ok_or_else(gone)
    }

    pub(super) fn mark(&self, agent: &str, mark: Mark, id: impl ToString) -> Result<Marked> {
        self.mark_under(agent, mark, id, None)
    }

    pub(super) fn mark_under(
        &self,
        agent: &str,
        mark: Mark,
        id: impl ToString,
        token: Option<String>,
    ) -> Result<Marked> {
        let request = MarkRequest { mark, ids: vec![id.to_string()], bulk: None, token, dry_run: false };
        let mut marked = marked(self.ask(agent, Request::Mark(request))?.0)?;
        let one = marked.pop().ok_or_else(|| fmail_api::Error::internal("a mark answers with nothing"))?;
        one.error.clone().map_or(Ok(one), Err)
    }

    pub(super) fn mark_bulk(&self, agent: &str, mark: Mark, bulk: Bulk) -> Result<Vec<Marked>> {
        let request = MarkRequest { mark, ids: Vec::new(), bulk: Some(bulk), token: None, dry_run: false };
        marked(self.ask(agent, Request::Mark(request))?.0)
    }

    pub(super) fn thread(&self, agent: &str, id: impl ToString) -> Result<Vec<Mail>> {
        self.mail(agent, Request::Thread(ThreadRequest { id: id.to_string() }))
    }

    pub(super) fn count(&self, agent: &str) -> Verdict<(u64, u64)> {
        match self.ask(agent, Request::Count)?.0 {
            Response::Counted { count: MailCount { total, unread, .. }, .. } => Ok((total, unread)),
            other => Err(Failure::new(format!("a count answers with {other:?}"))),
        }
    }

    pub(super) fn receipt(&self, agent: &str, id: impl ToString) -> Result<Receipt> {
        match self.ask(agent, Request::Receipt(ReceiptRequest { id: id.to_string() }))?.0 {
            Response::Receipt(receipt) => Ok(*receipt),
            other => Err(fmail_api::Error::internal(format!("a receipt is answered with {other:?}"))),
        }
    }
}

fn sent(response: Response) -> Result<Sent> {
    match response {
        Response::Sent(sent) => Ok(*sent),
        other => Err(fmail_api::Error::internal(format!("a message is answered with {other:?}"))),
    }
}

fn marked(response: Response) -> Result<Vec<Marked>> {
    match response {
        Response::Marked(marked) => Ok(marked),
        other => Err(fmail_api::Error::internal(format!("a mark is answered with {other:?}"))),
    }
}

/// The ids of mail, in its order.
pub(super) fn ids(mail: &[Mail]) -> Vec<MessageId> {
    mail.iter().map(|mail| mail.message.id).collect()
}
