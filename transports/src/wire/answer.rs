//! From an answer to a line.

use fmail_api::{Error, Event, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Challenge, ReqId};

/// How lines are written to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// PROTOCOL.md's lines: only answers carry a `req_id`, and a stream is messages and pings.
    Plain,
    /// After `hello`: every line carries its `req_id`, and a stream also tells how far it is and what it has to say.
    Full,
}

/// A line that is being written: an object whose `req_id` comes last.
struct LineWriter {
    text: String,
}

impl LineWriter {
    fn new() -> Self {
        LineWriter { text: String::from("{") }
    }

    fn json(mut self, name: &str, json: &str) -> Self {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        for part in ["\"", name, "\":", json] {
            self.text.push_str(part);
        }
        self
    }

    fn field(self, name: &str, value: &impl Serialize) -> Self {
        // Every type that is written here has a JSON form; `null` would be a defect that a test of its line shows.
        let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
        self.json(name, &json)
    }

    /// The field, unless it says nothing.
    fn unless_empty(self, name: &str, value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(false) => self,
            Value::Array(items) if items.is_empty() => self,
            value => self.field(name, value),
        }
    }

    fn end(self, req_id: Option<&ReqId>) -> String {
        let mut line = match req_id {
            Some(req_id) => self.json("req_id", &req_id.to_string()),
            None => self,
        };
        line.text.push_str("}\n");
        line.text
    }
}

/// The line that answers a request. A message that is stored but perhaps not durable is not `ok`: PROTOCOL.md allows
/// that word only for what is persisted.
pub fn answer(response: &Response, req_id: Option<&ReqId>, style: Style) -> String {
    let ok = || LineWriter::new().json("ok", "true");
    let line = match response {
        Response::Sent(sent) => {
            let line = match &sent.not_durable {
                None => ok().field("id", &sent.message.id),
                Some(reason) => {
                    let error = Error::new(fmail_api::ErrorKind::DurabilityUnknown, reason.as_str());
                    LineWriter::new().json("ok", "false").field("error", &error).field("id", &sent.message.id)
                }
            };
            line.unless_empty("duplicate", &json!(sent.duplicate))
                .unless_empty("unknown", &json!(sent.unknown))
                .unless_empty("namesake", &json!(sent.namesake))
                .unless_empty("reply_to_unknown", &json!(sent.reply_to_unknown))
                .unless_empty("agent_not_tracked", &json!(sent.agent_not_tracked))
        }
        Response::Watching(cursor) => match style {
            Style::Plain => ok(),
            Style::Full => ok().field("cursor", cursor),
        },
        Response::Hello(hello) => ok().field("hello", hello),
        Response::Log { more } => ok().field("more", more),
        Response::Topics(topics) => ok().field("topics", topics),
        Response::Agents { agents, notices } => ok().field("agents", agents).unless_empty("notices", &json!(notices)),
        Response::Registered(registered) => ok().field("registered", registered),
        Response::Status(status) => ok().field("status", status),
        Response::Collecting(report) => ok().field("gc", report),
        _ => return failure(&Error::internal("this answer has no form on the wire"), req_id),
    };
    line.end(req_id)
}

/// The line that proves the token to a client and asks for its proof.
pub fn challenge(challenge: &Challenge, req_id: Option<&ReqId>) -> String {
    LineWriter::new().json("ok", "true").field("auth", challenge).end(req_id)
}

/// The line that refuses a request or ends a stream.
pub fn failure(error: &Error, req_id: Option<&ReqId>) -> String {
    LineWriter::new().json("ok", "false").field("error", error).end(req_id)
}

/// The line of an event, if it has one for this peer.
pub fn event(event: &Event, req_id: Option<&ReqId>, style: Style) -> Option<String> {
    let req_id = req_id.filter(|_| style == Style::Full);
    let line = match event {
        Event::Message(delivery) => LineWriter::new().json("msg", delivery.line()).field("cursor", &delivery.cursor),
        Event::Swept(removed) => LineWriter::new().field("removed", removed),
        Event::Progress(cursor) if style == Style::Full => {
            LineWriter::new().field("event", &"progress").field("cursor", cursor)
        }
        Event::Notice(notice) if style == Style::Full => {
            LineWriter::new().field("event", &"notice").field("notice", notice)
        }
        _ => return None,
    };
    Some(line.end(req_id))
}

/// The line that says that the peer is still there.
pub fn ping(req_id: Option<&ReqId>, style: Style) -> String {
    LineWriter::new().field("event", &"ping").end(req_id.filter(|_| style == Style::Full))
}

/// The line behind the last item of a stream that ends.
pub fn end(req_id: Option<&ReqId>, style: Style) -> String {
    LineWriter::new().field("event", &"end").end(req_id.filter(|_| style == Style::Full))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fmail_api::{Cursor, Delivery, Draft, Sent};

    use super::super::{Heard, heard};
    use super::*;

    fn message() -> fmail_api::Message {
        Draft::new("architect".parse().unwrap(), "task".parse().unwrap(), "implement auth")
            .into_message("20260110-153000-0001".parse().unwrap(), "2026-01-10T15:30:00Z".parse().unwrap())
    }

    fn sent() -> Sent {
        Sent {
            message: message(),
            duplicate: false,
            not_durable: None,
            unknown: Vec::new(),
            namesake: None,
            reply_to_unknown: false,
            agent_not_tracked: None,
        }
    }

    fn c1() -> Option<ReqId> {
        super::super::parse(br#"{"req_id":"c1"}"#).req_id
    }

    #[test]
    fn the_plain_answers_are_the_documents() {
        let line = answer(&Response::Sent(Box::new(sent())), c1().as_ref(), Style::Plain);
        assert_eq!(line, "{\"ok\":true,\"id\":\"20260110-153000-0001\",\"req_id\":\"c1\"}\n");
        let line = answer(&Response::Watching(Cursor::new("x:1")), c1().as_ref(), Style::Plain);
        assert_eq!(line, "{\"ok\":true,\"req_id\":\"c1\"}\n");
        let error = Error::invalid("missing project_id");
        let expect = "{\"ok\":false,\"error\":{\"code\":\"invalid_request\",\"message\":\"missing project_id\",\
                      \"retryable\":false},\"req_id\":\"c1\"}\n";
        assert_eq!(failure(&error, c1().as_ref()), expect);
        assert_eq!(ping(c1().as_ref(), Style::Plain), "{\"event\":\"ping\"}\n");
    }

    #[test]
    fn a_streamed_message_carries_its_cursor_and_after_hello_its_request() {
        let delivery = Event::Message(Delivery::new(Arc::new(message()), Cursor::new("x:1")));
        let msg = "{\"msg\":{\"id\":\"20260110-153000-0001\",\"from\":\"architect\",\"to\":\"task\",\
                   \"time\":\"2026-01-10T15:30:00Z\",\"body\":\"implement auth\"},\"cursor\":\"x:1\"";
        assert_eq!(event(&delivery, c1().as_ref(), Style::Plain).unwrap(), format!("{msg}}}\n"));
        assert_eq!(event(&delivery, c1().as_ref(), Style::Full).unwrap(), format!("{msg},\"req_id\":\"c1\"}}\n"));
    }

    #[test]
    fn stored_but_perhaps_not_durable_is_not_ok() {
        let sent = Sent { not_durable: Some("the disk says no".into()), ..sent() };
        let line = answer(&Response::Sent(Box::new(sent)), None, Style::Plain);
        assert!(line.starts_with("{\"ok\":false,\"error\":{\"code\":\"durability_unknown\""), "{line}");
        let Heard::Answer(answer) = heard(line.trim().as_bytes()).unwrap() else { panic!("{line}") };
        assert!(answer["not_durable"].as_str().unwrap().contains("the disk says no"));
        assert!(line.contains("\"id\":\"20260110-153000-0001\""), "{line}");
    }
}
