//! From a request to its line.

use fmail_api::{Context, Error, MarkRequest, Operation, Priority, Request, Result, SendRequest, Since, StatusChange};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::mail;

/// The fields of a line.
pub type Fields = Map<String, Value>;

/// The line of a request.
pub fn request(context: &Context, request: &Request, req_id: &str) -> Result<String> {
    line(context, request, req_id, &[])
}

/// The line of a request with further fields.
pub fn line(context: &Context, request: &Request, req_id: &str, more: &[(&str, Value)]) -> Result<String> {
    let (command, mut fields) = match spelled_out(request) {
        Some(known) => known,
        None => typed(request)?,
    };
    let mut line = Map::new();
    line.insert("cmd".into(), command.as_str().into());
    put(&mut line, "project_id", json!(context.project));
    put(&mut line, "agent", json!(context.agent));
    put(&mut line, "host", json!(context.host));
    put(&mut line, "store", json!(context.store));
    line.append(&mut fields);
    line.extend(more.iter().map(|(name, value)| (name.to_string(), value.clone())));
    line.insert("req_id".into(), req_id.into());
    Ok(format!("{}\n", Value::Object(line)))
}

/// The requests whose fields are not simply those of their type: PROTOCOL.md named them first.
fn spelled_out(request: &Request) -> Option<(Operation, Map<String, Value>)> {
    let mut fields = Map::new();
    let command = match request {
        Request::Hello(hello) => {
            put(&mut fields, "version", json!(hello.version));
            put(&mut fields, "protocol", json!(hello.protocol));
            put(&mut fields, "node", json!(hello.node));
            put(&mut fields, "link", json!(hello.link));
            Operation::Hello
        }
        Request::Send(send) => {
            put_message(&mut fields, send);
            Operation::Send
        }
        Request::Watch(watch) => {
            put(&mut fields, "topic", json!(watch.target));
            put(&mut fields, "since", json!(watch.since.as_ref().map(since)));
            Operation::Watch
        }
        Request::Relay(relay) => {
            put(&mut fields, "since", json!(relay.since.as_ref().map(since)));
            put(&mut fields, "to", json!(relay.to));
            Operation::Relay
        }
        Request::Log(log) => {
            put(&mut fields, "topic", json!(log.target));
            put(&mut fields, "limit", json!(log.limit));
            put(&mut fields, "since", json!(log.since.as_ref().map(since)));
            put(&mut fields, "from", json!(log.from));
            put(&mut fields, "follow", json!(log.follow));
            Operation::Log
        }
        Request::Register(register) => {
            put(&mut fields, "name", json!(register.name));
            put(&mut fields, "again", json!(register.again));
            put(&mut fields, "one_word", json!(register.one_word));
            put(&mut fields, "profile", json!(register.profile));
            Operation::Register
        }
        Request::Status(status) => {
            match &status.change {
                Some(StatusChange::Set(text)) => put(&mut fields, "status", json!(text)),
                Some(StatusChange::Clear) => put(&mut fields, "clear", json!(true)),
                None => {}
            }
            Operation::Status
        }
        _ => return None,
    };
    Some((command, fields))
}

/// The requests whose fields are those of their type, or nearly.
fn typed(request: &Request) -> Result<(Operation, Map<String, Value>)> {
    Ok(match request {
        Request::Topics => (Operation::Topics, Map::new()),
        Request::Who(who) => (Operation::Who, fields(who)?),
        Request::Gc(gc) => (Operation::Gc, fields(gc)?),
        Request::Inbox(inbox) => {
            let mut fields = fields(inbox)?;
            if let Some(from) = &inbox.since {
                fields.insert("since".into(), since(from).into());
            }
            (Operation::Inbox, fields)
        }
        Request::Count => (Operation::Count, Map::new()),
        Request::Read(read) => (Operation::Read, fields(read)?),
        Request::Mark(mark) => marking(mark)?,
        Request::Reply(reply) => (Operation::Reply, fields(reply)?),
        Request::Thread(thread) => (Operation::Thread, fields(thread)?),
        Request::Receipt(receipt) => (Operation::Receipt, fields(receipt)?),
        Request::Search(search) => {
            let mut fields = fields(search)?;
            if let Some(from) = &search.since {
                fields.insert("since".into(), since(from).into());
            }
            (Operation::Search, fields)
        }
        Request::Reserve(reserve) => (Operation::Reserve, fields(reserve)?),
        Request::Release(release) => (Operation::Release, fields(release)?),
        Request::Renew(renew) => (Operation::Renew, fields(renew)?),
        Request::Reservations(asked) => {
            let mut fields = Map::new();
            put(&mut fields, "held_by", json!(asked.agent));
            put(&mut fields, "path", json!(asked.path));
            (Operation::Reservations, fields)
        }
        Request::Nudge(nudge) => (Operation::Nudge, fields(nudge)?),
        Request::Import(import) => (Operation::Import, fields(import)?),
        Request::ImportMany(import) => (Operation::ImportMany, fields(import)?),
        Request::Digest(digest) => (Operation::Digest, fields(digest)?),
        Request::Fetch(fetch) => (Operation::Fetch, fields(fetch)?),
        Request::Records(records) => (Operation::Records, fields(records)?),
        Request::RelayStatus => (Operation::RelayStatus, Map::new()),
        _ => return Err(Error::unsupported("send this operation over a connection")),
    })
}

/// The mark is the command, and the conditions of a change in bulk stand beside the other fields. Several messages are
/// asked for even when it is one: then the answer tells about each, and a failure is that message's and not the request's.
fn marking(request: &MarkRequest) -> Result<(Operation, Map<String, Value>)> {
    let unknown = || Error::unsupported("send this mark over a connection");
    let command = mail::command_of(request.mark).ok_or_else(unknown)?;
    let mut line = match &request.bulk {
        Some(bulk) => fields(bulk)?,
        None => Map::new(),
    };
    if request.bulk.is_none() || !request.ids.is_empty() {
        line.insert("ids".into(), json!(request.ids));
    }
    put(&mut line, "token", json!(request.token));
    put(&mut line, "dry_run", json!(request.dry_run));
    Ok((command, line))
}

fn fields(request: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(request) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Error::internal("the request has no fields that could be written")),
    }
}

fn put_message(fields: &mut Map<String, Value>, send: &SendRequest) {
    put(fields, "to", json!(send.to));
    // A body may be `null`, and then says so.
    fields.insert("body".into(), send.body.clone());
    put(fields, "reply_to", json!(send.reply_to));
    put(fields, "priority", json!(Some(send.priority).filter(|priority| *priority != Priority::Normal)));
    put(fields, "tags", json!(send.tags));
    put(fields, "subject", json!(send.subject));
    put(fields, "thread", json!(send.thread));
    put(fields, "recipients", json!(send.recipients));
    put(fields, "cc", json!(send.cc));
    put(fields, "ack_required", json!(send.ack_required));
    put(fields, "expires", json!(send.expires));
    put(fields, "key", json!(send.key));
    put(fields, "strict", json!(send.strict));
    put(fields, "echo", json!(send.echo));
    put(fields, "extra", json!(send.extra));
}

/// Adds a field unless it says nothing.
fn put(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let empty = match &value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !empty {
        fields.insert(name.into(), value);
    }
}

fn since(since: &Since) -> String {
    match since {
        Since::Time(time) => time.to_string(),
        Since::Id(id) => id.to_string(),
        Since::Cursor(cursor) => cursor.as_str().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{
        Cursor, DigestRequest, Draft, FetchRequest, Fingerprint, GcRequest, Held, HelloRequest, ImportManyRequest,
        ImportRequest, InboxRequest, LinkReport, LogRequest, MessageId, Node, NodeId, Place, Profile, RecordKey,
        RecordsRequest, RegisterRequest, RelayRequest, SharedRecord, StatusRequest, Stretch, WatchRequest, WhoRequest,
    };

    use super::super::parse;
    use super::*;

    /// What goes in on one side comes out on the other (T5).
    #[test]
    fn every_request_arrives_as_it_was_meant() {
        let since = |text: &str| Some(Since::Cursor(Cursor::new(text)));
        let full = SendRequest {
            reply_to: Some("0042".into()),
            priority: Priority::High,
            tags: vec!["x".into()],
            subject: Some("s".into()),
            thread: Some("t".into()),
            recipients: vec!["@b".parse().unwrap()],
            cc: vec!["@c".parse().unwrap()],
            ack_required: true,
            expires: Some("2026-01-10T15:30:00Z".parse().unwrap()),
            key: Some("k".into()),
            strict: true,
            echo: true,
            extra: Map::from_iter([("x".to_string(), json!([1.50]))]),
            ..SendRequest::new("@a".parse().unwrap(), json!({"n": null}))
        };
        let target = Some("@alice".parse().unwrap());
        let node = Node { id: NodeId::new(1), run: NodeId::new(2), host: "h".into() };
        let link = Some(LinkReport { link: 7, stored: 3, compared: true, ..LinkReport::default() });
        let message = Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), json!({"n": 1.50}))
            .into_message(MessageId::MIN, "2026-01-10T15:30:00Z".parse().unwrap());
        let place = Place::of(&message);
        let stretch = Stretch { from: Some(place), to: None };
        let held = Held { stretch, count: 3, fingerprint: Fingerprint::of_place(&place) };
        let requests = [
            Request::Hello(HelloRequest { version: Some("1".into()), protocol: Some(1), node: Some(node), link }),
            Request::Send(Box::new(SendRequest::new("task".parse().unwrap(), Value::Null))),
            Request::Send(Box::new(full)),
            Request::Watch(WatchRequest { target: target.clone(), since: since("a:1"), allow_other_dm: false }),
            Request::Watch(WatchRequest {
                since: Some(Since::Id("20260110-153000-0001".parse().unwrap())),
                ..WatchRequest::default()
            }),
            Request::Relay(RelayRequest {
                since: Some(Since::Time("2026-01-10T15:30:00Z".parse().unwrap())),
                to: Some(NodeId::new(7)),
            }),
            Request::ImportMany(ImportManyRequest { messages: vec![message.clone(); 2], from: Some(NodeId::new(7)) }),
            Request::Import(Box::new(ImportRequest { message, from: Some(NodeId::new(7)) })),
            Request::Digest(DigestRequest { horizon: None, held: vec![held] }),
            Request::Fetch(FetchRequest { places: vec![place], stretches: vec![held.stretch], horizon: None }),
            Request::Records(RecordsRequest::Compare(Fingerprint::default())),
            Request::Records(RecordsRequest::List(vec![1, 63])),
            Request::Records(RecordsRequest::Get(vec![RecordKey::horizon()])),
            Request::Records(RecordsRequest::Merge(vec![SharedRecord {
                key: RecordKey::horizon(),
                value: json!({"a": 1.50}),
            }])),
            Request::RelayStatus,
            Request::Log(LogRequest {
                target,
                limit: Some(0),
                since: since("a:1"),
                from: Some("bob".parse().unwrap()),
                follow: true,
                allow_other_dm: false,
            }),
            Request::Topics,
            Request::Who(WhoRequest::default()),
            Request::Who(WhoRequest { names: vec!["zoe".parse().unwrap(), "bob".parse().unwrap()] }),
            Request::Register(RegisterRequest { name: Some("zoe".parse().unwrap()), ..RegisterRequest::default() }),
            Request::Register(RegisterRequest {
                name: None,
                again: true,
                one_word: true,
                profile: Profile { display: Some("Zoe".into()), model: Some("m".into()), ..Profile::default() },
            }),
            Request::Inbox(InboxRequest {
                thread: Some("t".into()),
                since: Some(Since::Id("20260110-153000-0001".parse().unwrap())),
                newest: true,
                ..InboxRequest::default()
            }),
            Request::Status(StatusRequest { change: Some(StatusChange::Set("busy".into())) }),
            Request::Status(StatusRequest { change: Some(StatusChange::Clear) }),
            Request::Status(StatusRequest { change: None }),
            Request::Gc(GcRequest { days: 3, dry_run: true }),
        ];
        let mut context = Context::local("alice".parse().unwrap());
        (context.host, context.project) = (Some("h".into()), Some("p".into()));
        context.store = Some("files".into());
        for sent in requests {
            let line = request(&context, &sent, "r1").unwrap();
            let incoming = parse(line.trim_end().as_bytes());
            assert_eq!(incoming.req_id.unwrap().to_string(), "\"r1\"");
            let call = incoming.call.unwrap();
            assert_eq!(call.request, sent, "{line}");
            assert_eq!((call.host.as_deref(), call.project.as_deref()), (Some("h"), Some("p")));
            assert_eq!(call.store.as_deref(), Some("files"));
        }
    }
}
