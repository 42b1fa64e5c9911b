//! What is answered is one line of JSON that says `ok`, and what a client hears is what was said.

use std::sync::Arc;

use fmail_api::{Cursor, Delivery, Draft, Error, Event, Request, Response, SendRequest, Sent};
use fmail_fuzz::{answers, fuzz, mutated, requests};
use fmail_transports::wire::{self, Call, Heard, Incoming, ReqId, Style, heard, parse};
use serde_json::{Map, Value};

use crate::{object, shown};

/// An error may quote what it found, but a peer must not get a megabyte back for one. In characters.
const LONGEST_SENTENCE: usize = 2_050;

/// The `req_id` that a line carries, if it is one that has to come back.
fn req_id_of(line: &[u8]) -> Option<Value> {
    let fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
    fields.get("req_id").filter(|id| id.is_string() || id.is_number()).cloned()
}

#[test]
fn every_refusal_is_one_line_that_says_why() {
    let corpus = requests();
    fuzz(|dice| {
        let line = mutated(dice, &corpus);
        let Incoming { req_id, call: Err(error) } = parse(&line) else { return };
        let answer = wire::failure(&error, req_id.as_ref());
        let fields = object(&answer);
        assert_eq!(fields["ok"], false, "{}", shown(&line));
        let told = &fields["error"];
        assert!(told["code"].is_string() && told["retryable"].is_boolean(), "{answer}");
        assert!(told["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
        for sentence in [&told["message"], &told["help"]].into_iter().filter_map(Value::as_str) {
            assert!(sentence.chars().count() <= LONGEST_SENTENCE, "{} was answered with {answer}", shown(&line));
        }
        assert_eq!(fields.get("req_id"), req_id_of(&line).as_ref(), "{} was answered with {answer}", shown(&line));
        let Ok(Heard::Refused(understood)) = heard(answer.trim_end().as_bytes()) else { panic!("{answer}") };
        assert_eq!(understood.kind(), error.kind());
        assert!(understood.message() == error.message() || error.message().chars().count() > 2_000, "{answer}");
    });
}

/// The message that a store would make of the request.
fn stored(call: &Call, send: &SendRequest) -> fmail_api::Message {
    let mut draft = Draft::new(call.agent.clone(), send.to.clone(), send.body.clone());
    (draft.subject, draft.thread, draft.key) = (send.subject.clone(), send.thread.clone(), send.key.clone());
    (draft.expires, draft.host, draft.priority) = (send.expires, call.host.clone(), send.priority);
    draft.more.cc = send.cc.clone();
    draft.into_message("20260110-153000-0001".parse().unwrap(), "2026-01-10T15:30:00Z".parse().unwrap())
}

fn sent(message: &fmail_api::Message, not_durable: Option<String>) -> Response {
    Response::Sent(Box::new(Sent {
        message: message.clone(),
        duplicate: false,
        not_durable,
        unknown: Vec::new(),
        namesake: None,
        backlog: Vec::new(),
        reply_to_unknown: false,
        agent_not_tracked: None,
    }))
}

#[track_caller]
fn check_answers(message: &fmail_api::Message, req_id: Option<&ReqId>) {
    for style in [Style::Plain, Style::Full] {
        let said = req_id.map(|id| serde_json::from_str::<Value>(&id.to_string()).unwrap());
        // What failed may have a name that its sender chose.
        let reason = message.subject.clone().filter(|subject| !subject.is_empty());
        let is_durable = reason.is_none();
        for (response, ok) in
            [(sent(message, reason), is_durable), (Response::Watching(Cursor::new(message.body.to_string())), true)]
        {
            let fields = object(&wire::answer(&response, wire::Form::Usual, req_id, style));
            assert_eq!((&fields["ok"], fields.get("req_id")), (&ok.into(), said.as_ref()));
        }
        for line in [wire::ping(req_id, style), wire::end(req_id, style)] {
            assert_eq!(object(&line).get("req_id"), said.as_ref().filter(|_| style == Style::Full));
        }
        let delivery = Delivery::new(Arc::new(message.clone()), Cursor::new("x:1"));
        let line = wire::event(&Event::Message(delivery), req_id, style).unwrap();
        object(&line);
        let Ok(Heard::Event(Event::Message(arrived))) = heard(line.trim_end().as_bytes()) else { panic!("{line}") };
        assert_eq!((&*arrived.message, arrived.cursor.as_str()), (message, "x:1"));
    }
}

#[test]
fn every_answer_and_every_delivery_is_one_line_and_arrives_as_it_was_sent() {
    let corpus: Vec<&str> = requests().into_iter().filter(|line| line.contains(r#""send""#)).collect();
    fuzz(|dice| {
        let line = mutated(dice, &corpus);
        let Incoming { req_id, call: Ok(call) } = parse(&line) else { return };
        let Request::Send(send) = &call.request else { return };
        let message = stored(&call, send);
        // What no store takes is never told.
        if message.check_fields().is_ok() {
            check_answers(&message, req_id.as_ref());
        }
    });
}

/// All that an event says. How a delivery keeps its bytes is no part of it.
fn told(event: &Event) -> String {
    match event {
        Event::Message(delivery) => format!("{:?} {:?}", delivery.message, delivery.cursor),
        other => format!("{other:?}"),
    }
}

#[test]
fn whatever_a_daemon_says_is_understood_in_one_way_or_refused() {
    let corpus = answers();
    fuzz(|dice| {
        let line = mutated(dice, &corpus);
        let again = match heard(&line) {
            Ok(Heard::Event(event)) => {
                let line = wire::event(&event, None, Style::Full).expect("what has a line was read from one");
                object(&line);
                let Ok(Heard::Event(second)) = heard(line.trim_end().as_bytes()) else { panic!("{line}") };
                (told(&event), told(&second))
            }
            Ok(Heard::Refused(error)) => {
                let line = wire::failure(&error, None);
                object(&line);
                let Ok(Heard::Refused(second)) = heard(line.trim_end().as_bytes()) else { panic!("{line}") };
                let all = |error: &Error| format!("{:?} {} {:?}", error.kind(), error.message(), error.help_text());
                (all(&error), all(&second))
            }
            _ => return,
        };
        assert_eq!(again.0, again.1, "{}", shown(&line));
    });
}
