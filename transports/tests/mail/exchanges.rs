//! Mail, leases and everything else that the tests of the wire carry.

use std::sync::Arc;

use fmail_api::{
    Backlog, Bulk, Claim, Context, Cursor, Delivery, Draft, Error, ErrorKind, Event, Flag, Folder, HeldLease,
    InboxRequest, Lease, LeaseConflict, LeaseSelection, LeasesChanged, Mail, MailCount, MailState, Mark, MarkRequest,
    Marked, Message, Nudge, NudgeRequest, Priority, ReadRequest, Receipt, ReceiptRequest, RecipientReceipt,
    ReleaseRequest, RenewRequest, ReplyRequest, Request, ReservationsRequest, ReserveRequest, Reserved, Response,
    SearchRequest, Sent, Since, SkippedLease, Standing, ThreadRequest, Timestamp, UnknownRecipient,
};
use serde_json::{Map, Value, json};

/// What is asked, what is answered, and what follows the answer.
pub struct Exchange {
    pub request: Request,
    pub response: Response,
    pub events: Option<Vec<Event>>,
}

pub fn context() -> Context {
    Context { host: Some("host-a".into()), ..Context::local("alice".parse().unwrap()) }
}

pub fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn noon() -> Timestamp {
    time("2026-01-10T12:00:00Z")
}

fn later() -> Timestamp {
    time("2026-01-10T12:10:00.25Z")
}

pub fn message() -> Message {
    let mut draft = Draft::new("bob".parse().unwrap(), "@alice".parse().unwrap(), json!({"n": 1.50, "text": "look\n"}));
    draft.subject = Some("Review".into());
    draft.more.cc = vec!["@carol".parse().unwrap(), "task".parse().unwrap()];
    draft.extra = Map::from_iter([("x_of_another".to_string(), json!([null]))]);
    draft.into_message("20260110-120000-0001".parse().unwrap(), noon())
}

/// A message of which everything is known that can be known, and one of which nothing is.
pub fn mail() -> Vec<Event> {
    let state = MailState {
        retrieved: Some(noon()),
        first_read: Some(noon()),
        acknowledged: Some(later()),
        deleted: None,
        read: Some(Flag { set: false, at: later() }),
        archived: Some(Flag { set: true, at: noon() }),
        claim: Some(Claim { token: "t-1".into(), until: later(), attempts: 2 }),
        extra: Map::from_iter([("x_newer".to_string(), json!({"n": 1.0}))]),
    };
    let known = Mail { message: Arc::new(message()), state, standing: Some(Standing::Archived) };
    let fresh = Mail { message: Arc::new(message()), state: MailState::default(), standing: Some(Standing::Unread) };
    [known, fresh].map(|mail| Event::Mail(Box::new(mail))).into()
}

pub fn found() -> Vec<Event> {
    vec![Event::Message(Delivery::new(Arc::new(message()), Cursor::new("x:1")))]
}

pub fn nudge() -> Event {
    Event::Nudge(Nudge { from: "bob".parse().unwrap(), text: "look at\nyour mail".into(), time: noon() })
}

pub fn sent() -> Sent {
    Sent {
        message: message(),
        duplicate: true,
        not_durable: None,
        unknown: vec![UnknownRecipient { name: "bobb".parse().unwrap(), near: vec!["bob".parse().unwrap()] }],
        namesake: None,
        backlog: vec![Backlog { name: "carol".parse().unwrap(), unread: 120, last_seen: noon() }],
        reply_to_unknown: false,
        agent_not_tracked: Some("the disk is full".into()),
    }
}

fn lease(id: u64, holder: &str) -> Lease {
    Lease {
        id,
        agent: holder.parse().unwrap(),
        pattern: "src/**".into(),
        exclusive: true,
        reason: Some("rename".into()),
        since: noon(),
        until: later(),
        host: Some("host-b".into()),
        extra: Map::from_iter([("x_of_another".to_string(), json!(7))]),
    }
}

fn receipt() -> Receipt {
    let untouched = RecipientReceipt {
        agent: "carol".parse().unwrap(),
        cc: true,
        standing: Standing::Expired,
        retrieved: None,
        read: None,
        acknowledged: None,
        archived: None,
        deleted: None,
    };
    let done = RecipientReceipt {
        agent: "alice".parse().unwrap(),
        cc: false,
        standing: Standing::Deleted,
        retrieved: Some(noon()),
        read: Some(noon()),
        acknowledged: Some(later()),
        archived: Some(later()),
        deleted: Some(later()),
    };
    Receipt {
        id: "20260110-120000-0001".parse().unwrap(),
        from: "bob".parse().unwrap(),
        stored: noon(),
        expires: Some(later()),
        recipients: vec![done, untouched],
    }
}

pub fn marked() -> Vec<Marked> {
    let one = |id: &str| Marked { id: id.into(), already: false, was_unread: false, error: None };
    vec![
        Marked { was_unread: true, ..one("20260110-120000-0001") },
        Marked { already: true, ..one("20260110-120000-0002") },
        Marked { error: Some(Error::new(ErrorKind::NotFound, "there is no message 0042").help("look")), ..one("0042") },
    ]
}

fn single(request: Request, response: Response) -> Exchange {
    Exchange { request, response, events: None }
}

fn streaming(request: Request, response: Response, events: Vec<Event>) -> Exchange {
    Exchange { request, response, events: Some(events) }
}

fn marks() -> Vec<Exchange> {
    let mark = |mark, ids: &[&str], bulk| {
        let ids = ids.iter().map(ToString::to_string).collect();
        MarkRequest { mark, ids, bulk, token: None, dry_run: false }
    };
    let bulk =
        |all, before, from: Option<&str>| Some(Bulk { all, before, from: from.map(|name| name.parse().unwrap()) });
    [
        mark(Mark::Retrieved, &["0001"], None),
        mark(Mark::Read, &["0001", "20260110-120000-0002"], None),
        mark(Mark::Unread, &[], bulk(true, None, None)),
        MarkRequest { token: Some("t-1".into()), ..mark(Mark::Acknowledged, &["0001"], None) },
        MarkRequest { dry_run: true, ..mark(Mark::Archived, &[], bulk(false, Some(noon()), Some("bob"))) },
        mark(Mark::Unarchived, &["0001"], bulk(true, None, None)),
        mark(Mark::Deleted, &[], None),
        mark(Mark::Deleted, &[], bulk(false, None, None)),
    ]
    .map(|request| single(Request::Mark(request), Response::Marked(marked())))
    .into()
}

fn reading() -> Vec<Exchange> {
    let inbox = InboxRequest {
        folder: Folder::Archived,
        from: Some("bob".parse().unwrap()),
        limit: Some(0),
        peek: true,
        claim_seconds: Some(300),
        thread: Some("t".into()),
        since: Some(Since::Time("2026-01-10T15:30:00Z".parse().unwrap())),
        newest: true,
    };
    let ids = vec!["0001".to_string(), "20260110-120000-0002".into()];
    let read = ReadRequest { ids: ids.clone(), peek: false, token: Some("t-1".into()) };
    let peek = ReadRequest { ids, peek: true, token: None };
    let search = |since| Request::Search(SearchRequest { query: "\"a b\" OR c*\n".into(), limit: Some(9), since });
    vec![
        streaming(Request::Inbox(InboxRequest::default()), Response::Mail { more: 0 }, Vec::new()),
        streaming(Request::Inbox(inbox), Response::Mail { more: 17 }, mail()),
        streaming(Request::Read(read), Response::Mail { more: 0 }, mail()),
        streaming(Request::Read(peek), Response::Mail { more: 0 }, mail()),
        streaming(
            Request::Thread(ThreadRequest { id: "0001".into() }),
            Response::Thread { thread: "t".into() },
            mail(),
        ),
        streaming(search(None), Response::Found { more: false }, Vec::new()),
        streaming(search(Some(Since::Time(noon()))), Response::Found { more: true }, found()),
        streaming(search(Some(Since::Id(message().id))), Response::Found { more: true }, found()),
        streaming(search(Some(Since::Cursor(Cursor::new("x:1")))), Response::Found { more: true }, found()),
        single(
            Request::Count,
            Response::Counted { count: MailCount { total: 12, unread: 3, unread_set: None }, notices: Vec::new() },
        ),
        single(Request::Receipt(ReceiptRequest { id: "0001".into() }), Response::Receipt(Box::new(receipt()))),
    ]
}

fn replies() -> Vec<Exchange> {
    let plain = ReplyRequest {
        id: "0001".into(),
        body: Value::Null,
        subject: None,
        all: false,
        priority: Priority::Normal,
        tags: Vec::new(),
        ack_required: false,
        expires: None,
        key: None,
    };
    let full = ReplyRequest {
        body: json!({"n": 1.50}),
        subject: Some("s".into()),
        all: true,
        priority: Priority::High,
        tags: vec!["x".into()],
        ack_required: true,
        expires: Some(later()),
        key: Some("k".into()),
        ..plain.clone()
    };
    [plain, full].map(|reply| single(Request::Reply(Box::new(reply)), Response::Sent(Box::new(sent())))).into()
}

fn leases() -> Vec<Exchange> {
    let reserve = ReserveRequest {
        paths: vec!["src/**".into(), "docs".into()],
        ttl_seconds: 600,
        exclusive: true,
        reason: Some("rename".into()),
    };
    let conflict =
        LeaseConflict { path: "docs".into(), holders: vec![lease(1, "bob")], example: Some("docs/a".into()) };
    let reserved = Reserved { granted: vec![lease(2, "alice")], conflicts: vec![conflict] };
    let changed = LeasesChanged {
        changed: vec![lease(2, "alice")],
        skipped: vec![SkippedLease { named: "7".into(), reason: "it has ended".into() }],
    };
    let which = LeaseSelection { paths: vec!["src/**".into()], ids: vec![2, u64::MAX], all: true };
    let asked = ReservationsRequest { agent: Some("bob".parse().unwrap()), path: Some("src".into()) };
    vec![
        single(Request::Reserve(reserve), Response::Reserved(reserved)),
        single(Request::Reserve(ReserveRequest::default()), Response::Reserved(Reserved::default())),
        single(Request::Release(ReleaseRequest { which: which.clone() }), Response::LeasesChanged(changed.clone())),
        single(Request::Release(ReleaseRequest::default()), Response::LeasesChanged(LeasesChanged::default())),
        single(
            Request::Renew(RenewRequest { which, ttl_seconds: 60, at_least: true }),
            Response::LeasesChanged(changed),
        ),
        single(Request::Reservations(ReservationsRequest::default()), Response::Reservations(Vec::new())),
        single(
            Request::Reservations(asked),
            Response::Reservations(vec![
                lease(1, "bob").into(),
                HeldLease { lease: lease(2, "alice"), conflicts: vec![lease(1, "carol")] },
            ]),
        ),
        single(
            Request::Nudge(NudgeRequest { to: "bob".parse().unwrap(), text: "look at\nyour mail".into() }),
            Response::Nudged { sessions: 2 },
        ),
    ]
}

/// Every operation of mailboxes and reservations, with nothing in it and with everything.
pub fn exchanges() -> Vec<Exchange> {
    [reading(), marks(), replies(), leases()].into_iter().flatten().collect()
}

/// Events have no equality of their own; what they show is all that they hold.
pub fn shown(event: &Event) -> String {
    match event {
        Event::Message(delivery) => format!("{:?} {:?}", delivery.message, delivery.cursor),
        other => format!("{other:?}"),
    }
}
