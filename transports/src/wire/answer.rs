//! From an answer to a line.

use fmail_api::{Error, ErrorKind, Event, Mail, Marked, Response, Result, Sent};
use serde_json::{Value, json};

use super::writer::LineWriter;
use super::{Challenge, Form, ReqId};

/// How lines are written to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// PROTOCOL.md's lines: only answers carry a `req_id`, and a stream is messages and pings.
    Plain,
    /// After `hello`: every line carries its `req_id`, and a stream also tells how far it is and what it has to say.
    Full,
}

/// The line that answers a request.
pub fn answer(response: &Response, form: Form, req_id: Option<&ReqId>, style: Style) -> String {
    match line(response, form, style) {
        Ok(line) => line.end(req_id),
        Err(error) => failure(&error, req_id),
    }
}

fn line(response: &Response, form: Form, style: Style) -> Result<LineWriter> {
    Ok(match response {
        Response::Sent(stored) => sent(stored, form),
        Response::Watching(cursor) => match style {
            Style::Plain => ok(),
            Style::Full => ok().field("cursor", cursor),
        },
        Response::Hello(hello) => ok().field("hello", hello),
        Response::Log { more } | Response::Found { more } => ok().field("more", more),
        Response::Topics(topics) => ok().field("topics", topics),
        Response::Agents { agents, notices } => ok().field("agents", agents).unless_empty("notices", &json!(notices)),
        Response::Registered(registered) => ok().field("registered", registered),
        Response::Status(status) => ok().field("status", status),
        Response::Collecting(report) => ok().field("gc", report),
        Response::Mail { more } => ok().field("more", more),
        Response::Counted { count, notices } => ok()
            .field("total", &count.total)
            .field("unread", &count.unread)
            .unless_empty("unread_set", &json!(count.unread_set))
            .unless_empty("notices", &json!(notices)),
        Response::Marked(list) => marked(list, form)?,
        Response::Thread { thread } => ok().field("thread", thread),
        Response::Receipt(receipt) => ok().field("receipt", receipt),
        Response::Reserved(reserved) => {
            ok().field("granted", &reserved.granted).field("conflicts", &reserved.conflicts)
        }
        Response::LeasesChanged(leases) => ok().field("changed", &leases.changed).field("skipped", &leases.skipped),
        Response::Reservations(leases) => ok().field("reservations", leases),
        Response::Nudged { sessions } => ok().field("sessions", sessions),
        Response::Imported(imported) => ok().field("imported", imported),
        Response::ImportedMany(verdicts) => ok().field("imported", verdicts),
        Response::Digest(digest) => ok().field("digest", digest),
        Response::Fetching => ok(),
        Response::Records(records) => ok().field("records", records),
        Response::RelayStatus(view) => ok().field("relay", view),
        _ => return Err(Error::internal("this answer has no form on the wire")),
    })
}

fn ok() -> LineWriter {
    LineWriter::new().json("ok", "true")
}

/// A message that is stored but perhaps not durable is not `ok`: PROTOCOL.md allows that word only for what is persisted.
fn sent(sent: &Sent, form: Form) -> LineWriter {
    let line = match &sent.not_durable {
        None => ok().field("id", &sent.message.id),
        Some(reason) => {
            let error = Error::new(ErrorKind::DurabilityUnknown, reason.as_str());
            LineWriter::new().json("ok", "false").field("error", &error).field("id", &sent.message.id)
        }
    };
    let line = match form {
        Form::WithMessage => line.json("msg", &sent.message.to_line()),
        Form::Usual | Form::OneMessage => line,
    };
    line.unless_empty("duplicate", &json!(sent.duplicate))
        .unless_empty("unknown", &json!(sent.unknown))
        .unless_empty("namesake", &json!(sent.namesake))
        .unless_empty("backlog", &json!(sent.backlog))
        .unless_empty("reply_to_unknown", &json!(sent.reply_to_unknown))
        .unless_empty("agent_not_tracked", &json!(sent.agent_not_tracked))
}

fn marked(list: &[Marked], form: Form) -> Result<LineWriter> {
    match (form, list) {
        (Form::OneMessage, [Marked { error: Some(error), .. }]) => Err(error.clone()),
        (Form::OneMessage, [one]) => Ok(ok().field("id", &one.id).unless_empty("already", &json!(one.already))),
        (Form::OneMessage, list) => {
            Err(Error::internal(format!("one message was to be marked, and the answer is about {}", list.len())))
        }
        (Form::Usual | Form::WithMessage, list) => Ok(ok().field("marked", &list)),
    }
}

/// The longest sentence of an error, in characters. Errors quote what they found, and nobody wants a megabyte back.
const MAX_SENTENCE: usize = 2_000;

/// The line that proves the token to a client and asks for its proof.
pub fn challenge(challenge: &Challenge, req_id: Option<&ReqId>) -> String {
    LineWriter::new().json("ok", "true").field("auth", challenge).end(req_id)
}

/// The line that refuses a request or ends a stream.
pub fn failure(error: &Error, req_id: Option<&ReqId>) -> String {
    let line = LineWriter::new().json("ok", "false");
    let is_long = |text: &str| text.chars().nth(MAX_SENTENCE).is_some();
    if !is_long(error.message()) && !error.help_text().is_some_and(is_long) {
        return line.field("error", error).end(req_id);
    }
    let brief = Error::new(error.kind(), shortened(error.message()));
    let brief = match error.help_text() {
        Some(help) => brief.help(shortened(help)),
        None => brief,
    };
    line.field("error", &brief).end(req_id)
}

/// The text, or its beginning and how much is left out.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SENTENCE) {
        None => text.into(),
        Some((end, _)) => format!("{} [{} bytes more]", &text[..end], text.len() - end),
    }
}

/// The line of an event, if it has one for this peer.
pub fn event(event: &Event, req_id: Option<&ReqId>, style: Style) -> Option<String> {
    let mut line = String::new();
    add_event(&mut line, event, req_id, style);
    (!line.is_empty()).then_some(line)
}

/// Adds the line of an event, if it has one for this peer. Of a message only what differs from peer to peer is made here.
pub fn add_event(text: &mut String, event: &Event, req_id: Option<&ReqId>, style: Style) {
    let req_id = req_id.filter(|_| style == Style::Full);
    let line = match event {
        Event::Message(delivery) => LineWriter::open(std::mem::take(text), delivery.open_object()),
        Event::Swept(removed) => LineWriter::behind(std::mem::take(text)).field("removed", removed),
        Event::Mail(mail) => {
            let line = LineWriter::behind(std::mem::take(text));
            line.json("msg", &mail.message.to_line()).field("mail", &state(mail))
        }
        Event::Progress(cursor) if style == Style::Full => {
            LineWriter::behind(std::mem::take(text)).field("event", &"progress").field("cursor", cursor)
        }
        Event::Notice(notice) if style == Style::Full => {
            LineWriter::behind(std::mem::take(text)).field("event", &"notice").field("notice", notice)
        }
        Event::Nudge(nudge) if style == Style::Full => {
            LineWriter::behind(std::mem::take(text)).field("event", &"nudge").field("nudge", nudge)
        }
        _ => return,
    };
    *text = line.end(req_id);
}

/// What the asking agent has done with a message, with the word for it.
fn state(mail: &Mail) -> Value {
    let mut state = json!(mail.state);
    if let Some(standing) = mail.standing {
        state["standing"] = json!(standing);
    }
    state
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

    use fmail_api::{Cursor, Delivery, Draft};

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
            backlog: Vec::new(),
            reply_to_unknown: false,
            agent_not_tracked: None,
        }
    }

    fn c1() -> Option<ReqId> {
        super::super::parse(br#"{"req_id":"c1"}"#).req_id
    }

    #[test]
    fn the_plain_answers_are_the_documents() {
        let line = answer(&Response::Sent(Box::new(sent())), Form::Usual, c1().as_ref(), Style::Plain);
        assert_eq!(line, "{\"ok\":true,\"id\":\"20260110-153000-0001\",\"req_id\":\"c1\"}\n");
        let line = answer(&Response::Watching(Cursor::new("x:1")), Form::Usual, c1().as_ref(), Style::Plain);
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
        let mut lines = String::new();
        add_event(&mut lines, &delivery, c1().as_ref(), Style::Plain);
        add_event(&mut lines, &delivery, c1().as_ref(), Style::Full);
        assert_eq!(lines, format!("{msg}}}\n{msg},\"req_id\":\"c1\"}}\n"));
    }

    #[test]
    fn what_a_plain_peer_does_not_know_adds_nothing_to_its_lines() {
        let mut lines = String::from("before\n");
        add_event(&mut lines, &Event::Progress(Cursor::new("x:1")), c1().as_ref(), Style::Plain);
        assert_eq!(lines, "before\n");
        add_event(&mut lines, &Event::Progress(Cursor::new("x:1")), None, Style::Full);
        assert_eq!(lines, "before\n{\"event\":\"progress\",\"cursor\":\"x:1\"}\n");
    }

    #[test]
    fn an_error_that_quotes_a_megabyte_says_how_much_it_leaves_out() {
        let error = Error::invalid("é".repeat(500_000)).help("x".repeat(500_000));
        let line = failure(&error, None);
        assert!(line.len() < 3 * MAX_SENTENCE + 200, "{} bytes", line.len());
        assert!(line.contains("éé [996000 bytes more]\"") && line.contains("xx [498000 bytes more]\""), "{line}");
        assert!(failure(&Error::invalid("é".repeat(MAX_SENTENCE)), None).contains("éé\""));
    }

    #[test]
    fn stored_but_perhaps_not_durable_is_not_ok() {
        let sent = Sent { not_durable: Some("the disk says no".into()), ..sent() };
        let line = answer(&Response::Sent(Box::new(sent)), Form::Usual, None, Style::Plain);
        assert!(line.starts_with("{\"ok\":false,\"error\":{\"code\":\"durability_unknown\""), "{line}");
        let Heard::Answer(answer) = heard(line.trim().as_bytes()).unwrap() else { panic!("{line}") };
        assert!(answer["not_durable"].as_str().unwrap().contains("the disk says no"));
        assert!(line.contains("\"id\":\"20260110-153000-0001\""), "{line}");
    }
}
