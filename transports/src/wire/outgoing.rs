//! The client's side of the protocol: requests to lines, and lines back to what they say.

use std::sync::Arc;

use fmail_api::{
    Context, Cursor, Delivery, Error, ErrorKind, Event, Message, Notice, Priority, Request, Result, SendRequest, Since,
    StatusChange,
};
use serde_json::{Map, Value, json};

/// The fields of a line.
pub type Fields = Map<String, Value>;

/// The line of a request.
pub fn request(context: &Context, request: &Request, req_id: &str) -> Result<String> {
    line(context, request, req_id, &[])
}

/// The line of a request with further fields.
pub fn line(context: &Context, request: &Request, req_id: &str, more: &[(&str, Value)]) -> Result<String> {
    let mut fields = Map::new();
    let command = match request {
        Request::Hello(hello) => {
            put(&mut fields, "version", json!(hello.version));
            put(&mut fields, "protocol", json!(hello.protocol));
            "hello"
        }
        Request::Send(send) => {
            put_message(&mut fields, send);
            "send"
        }
        Request::Watch(watch) => {
            put(&mut fields, "topic", json!(watch.target));
            put(&mut fields, "since", json!(watch.since.as_ref().map(since)));
            "watch"
        }
        Request::Relay(relay) => {
            put(&mut fields, "since", json!(relay.since.as_ref().map(since)));
            "relay"
        }
        Request::Log(log) => {
            put(&mut fields, "topic", json!(log.target));
            put(&mut fields, "limit", json!(log.limit));
            put(&mut fields, "since", json!(log.since.as_ref().map(since)));
            put(&mut fields, "from", json!(log.from));
            put(&mut fields, "follow", json!(log.follow));
            "log"
        }
        Request::Topics => "topics",
        Request::Who => "who",
        Request::Register(register) => {
            put(&mut fields, "name", json!(register.name));
            "register"
        }
        Request::Status(status) => {
            match &status.change {
                Some(StatusChange::Set(text)) => put(&mut fields, "status", json!(text)),
                Some(StatusChange::Clear) => put(&mut fields, "clear", json!(true)),
                None => {}
            }
            "status"
        }
        Request::Gc(gc) => {
            put(&mut fields, "days", json!(gc.days));
            put(&mut fields, "dry_run", json!(gc.dry_run));
            "gc"
        }
        _ => return Err(Error::unsupported("send this operation over a connection")),
    };
    let mut line = Map::new();
    line.insert("cmd".into(), command.into());
    put(&mut line, "project_id", json!(context.project));
    put(&mut line, "agent", json!(context.agent));
    put(&mut line, "host", json!(context.host));
    line.append(&mut fields);
    line.extend(more.iter().map(|(name, value)| (name.to_string(), value.clone())));
    line.insert("req_id".into(), req_id.into());
    Ok(format!("{}\n", Value::Object(line)))
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

/// A line that a daemon sent.
#[derive(Debug)]
pub enum Heard {
    /// `ok: true`, with everything beside it.
    Answer(Map<String, Value>),
    /// `ok: false`.
    Refused(Error),
    /// Part of a stream.
    Event(Event),
    /// The stream has ended.
    End,
    /// A sign of life, or something that a newer daemon says and we do not know.
    Other,
}

/// Understands a line of a daemon.
pub fn heard(line: &[u8]) -> Result<Heard> {
    let garbled =
        || Error::internal("the daemon's line cannot be understood").help("compare the versions of both sides");
    let value: Value = serde_json::from_slice(line).map_err(|_| garbled())?;
    let Value::Object(mut fields) = value else { return Err(garbled()) };
    let cursor = fields.get("cursor").and_then(Value::as_str).map(Cursor::new);
    match fields.get("ok").and_then(Value::as_bool) {
        Some(true) => return Ok(Heard::Answer(fields)),
        Some(false) => {
            let error = fields.remove("error").and_then(|error| serde_json::from_value(error).ok());
            let error: Error = error.ok_or_else(garbled)?;
            if error.kind() == ErrorKind::DurabilityUnknown && fields.contains_key("id") {
                // It was done: this is an answer with a warning.
                fields.insert("not_durable".into(), error.message().into());
                return Ok(Heard::Answer(fields));
            }
            return Ok(Heard::Refused(error));
        }
        None => {}
    }
    if let Some(message) = fields.remove("msg") {
        let message = Arc::new(Message::from_value(message, None, None)?);
        // A daemon that knows only PROTOCOL.md gives no cursor; then the id is what there is to go on from.
        let cursor = cursor.unwrap_or_else(|| Cursor::new(message.id.to_string()));
        return Ok(Heard::Event(Event::Message(Delivery::new(message, cursor))));
    }
    let swept = fields.remove("removed").and_then(|removed| serde_json::from_value(removed).ok());
    if let Some(removed) = swept {
        return Ok(Heard::Event(Event::Swept(removed)));
    }
    Ok(match (fields.get("event").and_then(Value::as_str), cursor) {
        (Some("end"), _) => Heard::End,
        (Some("progress"), Some(cursor)) => Heard::Event(Event::Progress(cursor)),
        (Some("notice"), _) => {
            match fields.remove("notice").and_then(|told| serde_json::from_value::<Notice>(told).ok()) {
                Some(notice) => Heard::Event(Event::Notice(notice)),
                None => Heard::Other,
            }
        }
        _ => Heard::Other,
    })
}

#[cfg(test)]
mod tests {
    use fmail_api::{GcRequest, HelloRequest, LogRequest, RegisterRequest, RelayRequest, StatusRequest, WatchRequest};

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
            extra: Map::from_iter([("x".to_string(), json!([1.50]))]),
            ..SendRequest::new("@a".parse().unwrap(), json!({"n": null}))
        };
        let target = Some("@alice".parse().unwrap());
        let requests = [
            Request::Hello(HelloRequest { version: Some("1".into()), protocol: Some(1) }),
            Request::Send(Box::new(SendRequest::new("task".parse().unwrap(), Value::Null))),
            Request::Send(Box::new(full)),
            Request::Watch(WatchRequest { target: target.clone(), since: since("a:1"), allow_other_dm: false }),
            Request::Watch(WatchRequest {
                since: Some(Since::Id("20260110-153000-0001".parse().unwrap())),
                ..WatchRequest::default()
            }),
            Request::Relay(RelayRequest { since: Some(Since::Time("2026-01-10T15:30:00Z".parse().unwrap())) }),
            Request::Log(LogRequest {
                target,
                limit: Some(0),
                since: since("a:1"),
                from: Some("bob".parse().unwrap()),
                follow: true,
                allow_other_dm: false,
            }),
            Request::Topics,
            Request::Who,
            Request::Register(RegisterRequest { name: Some("zoe".parse().unwrap()) }),
            Request::Status(StatusRequest { change: Some(StatusChange::Set("busy".into())) }),
            Request::Status(StatusRequest { change: Some(StatusChange::Clear) }),
            Request::Status(StatusRequest { change: None }),
            Request::Gc(GcRequest { days: 3, dry_run: true }),
        ];
        let mut context = Context::local("alice".parse().unwrap());
        (context.host, context.project) = (Some("h".into()), Some("p".into()));
        for sent in requests {
            let line = request(&context, &sent, "r1").unwrap();
            let incoming = parse(line.trim_end().as_bytes());
            assert_eq!(incoming.req_id.unwrap().to_string(), "\"r1\"");
            let call = incoming.call.unwrap();
            assert_eq!(call.request, sent, "{line}");
            assert_eq!((call.host.as_deref(), call.project.as_deref()), (Some("h"), Some("p")));
        }
    }

    #[test]
    fn lines_of_a_daemon_are_understood() {
        assert!(matches!(heard(br#"{"ok":true,"id":"x"}"#).unwrap(), Heard::Answer(_)));
        let line = br#"{"ok":false,"error":{"code":"backpressure","message":"m","retryable":true}}"#;
        assert!(matches!(heard(line).unwrap(), Heard::Refused(error) if error.retryable()));
        assert!(matches!(heard(br#"{"event":"ping"}"#).unwrap(), Heard::Other));
        assert!(matches!(heard(br#"{"event":"end"}"#).unwrap(), Heard::End));
        let line = br#"{"msg":{"id":"20260110-153000-0001","from":"a","to":"t","body":1}}"#;
        let Heard::Event(Event::Message(delivery)) = heard(line).unwrap() else { panic!() };
        assert_eq!(delivery.cursor.as_str(), "20260110-153000-0001");
        for wrong in ["", "[]", "garbage", r#"{"ok":false}"#] {
            assert!(heard(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
