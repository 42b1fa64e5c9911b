//! The lines of mailboxes and reservations, without any socket.

use fmail_api::{Error, ErrorKind, Event, Mark, Operation, Request, Response};
use fmail_transports::response;
use fmail_transports::wire::{self, Call, Form, Heard, Style, heard, outgoing, parse};
use serde_json::{Value, json};

use crate::exchanges::{Exchange, context, exchanges, marked, nudge, sent, shown};

fn call(line: &str) -> Call {
    parse(line.as_bytes()).call.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refused(line: &str, code: &str) -> Error {
    let error = parse(line.as_bytes()).call.expect_err(line);
    assert_eq!(error.kind().code(), code, "{line}: {error}");
    error
}

/// The fields of an answer, which has to be one.
fn answered(line: &str) -> serde_json::Map<String, Value> {
    match heard(line.trim_end().as_bytes()).unwrap() {
        Heard::Answer(answer) => answer,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_request_arrives_as_it_was_meant() {
    for exchange in exchanges() {
        let line = outgoing::request(&context(), &exchange.request, "r1").unwrap();
        let call = call(line.trim_end());
        assert_eq!(call.request, exchange.request, "{line}");
        assert_eq!((call.agent.as_str(), call.host.as_deref()), ("alice", Some("host-a")));
    }
}

#[test]
fn every_answer_arrives_as_it_was_given() {
    for Exchange { request, response: given, .. } in exchanges() {
        let form = call(outgoing::request(&context(), &request, "r1").unwrap().trim_end()).form;
        let line = wire::answer(&given, form, None, Style::Full);
        assert_eq!(response(&context(), &request, answered(&line)).unwrap(), given, "{line}");
    }
}

#[test]
fn every_event_arrives_as_it_was_given() {
    for event in exchanges().into_iter().flat_map(|exchange| exchange.events.unwrap_or_default()) {
        for style in [Style::Plain, Style::Full] {
            let line = wire::event(&event, None, style).unwrap();
            let Heard::Event(arrived) = heard(line.trim_end().as_bytes()).unwrap() else { panic!("{line}") };
            assert_eq!(shown(&arrived), shown(&event), "{line}");
        }
    }
}

#[test]
fn a_nudge_reaches_only_who_has_said_hello() {
    assert_eq!(wire::event(&nudge(), None, Style::Plain), None);
    let line = wire::event(&nudge(), None, Style::Full).unwrap();
    assert_eq!(
        line,
        "{\"event\":\"nudge\",\"nudge\":{\"from\":\"bob\",\"text\":\"look at\\nyour mail\",\
         \"time\":\"2026-01-10T12:00:00Z\"}}\n"
    );
    let Heard::Event(arrived @ Event::Nudge(_)) = heard(line.trim_end().as_bytes()).unwrap() else { panic!("{line}") };
    assert_eq!(shown(&arrived), shown(&nudge()));
}

#[test]
fn mail_that_cannot_be_understood_is_an_error_and_not_a_message() {
    let msg = r#""msg":{"id":"20260110-153000-0001","from":"a","to":"t","body":1}"#;
    for state in [r#"{"standing":"flying"}"#, r#"{"standing":"read","claim":7}"#, "[]", "7"] {
        assert!(heard(format!("{{{msg},\"mail\":{state}}}").as_bytes()).is_err(), "{state}");
    }
    for state in ["{}", r#"{"standing":"read"}"#] {
        assert!(heard(format!("{{{msg},\"mail\":{state}}}").as_bytes()).is_ok(), "{state}");
    }
}

/// Every command is understood.
#[test]
fn every_operation_has_its_line() {
    let message = json!({"id": "20260110-153000-0001", "from": "a", "to": "t", "body": 1});
    let fields = json!({
        "agent": "a", "to": "b", "body": 1, "days": 1, "id": "0001", "query": "q", "paths": ["p"], "ttl_seconds": 1,
        "text": "t", "msg": message, "msgs": [message],
    });
    let number = "0".repeat(32);
    for operation in Operation::ALL {
        let mut line = match operation {
            Operation::Records => json!({"agent": "a", "compare": number}),
            Operation::Relay => json!({"agent": "a", "to": number}),
            _ => fields.clone(),
        };
        line["cmd"] = operation.as_str().into();
        call(&line.to_string());
    }
}

#[test]
fn each_mark_has_its_command() {
    for (command, mark) in [
        ("retrieved", Mark::Retrieved),
        ("mark_read", Mark::Read),
        ("mark_unread", Mark::Unread),
        ("ack", Mark::Acknowledged),
        ("archive", Mark::Archived),
        ("unarchive", Mark::Unarchived),
        ("delete", Mark::Deleted),
    ] {
        let Request::Mark(request) = call(&format!(r#"{{"cmd":"{command}","agent":"a","id":"1"}}"#)).request else {
            panic!("{command}");
        };
        assert_eq!(request.mark, mark, "{command}");
    }
}

#[test]
fn one_message_is_answered_for_itself() {
    let line = |text: &str| call(&format!(r#"{{"cmd":"archive","agent":"a",{text}}}"#));
    assert_eq!(line(r#""id":"0001""#).form, Form::OneMessage);
    assert_eq!(line(r#""ids":["0001"]"#).form, Form::Usual);
    assert_eq!(line(r#""id":"0001""#).request, line(r#""ids":["0001"]"#).request);
    let answer = |which: usize| {
        wire::answer(&Response::Marked(vec![marked().remove(which)]), Form::OneMessage, None, Style::Plain)
    };
    assert_eq!(answer(0), "{\"ok\":true,\"id\":\"20260110-120000-0001\"}\n");
    assert_eq!(answer(1), "{\"ok\":true,\"id\":\"20260110-120000-0002\",\"already\":true}\n");
    let Heard::Refused(error) = heard(answer(2).trim_end().as_bytes()).unwrap() else { panic!() };
    assert_eq!((error.kind(), error.help_text()), (ErrorKind::NotFound, Some("look")));
    let many = wire::answer(&Response::Marked(marked()), Form::OneMessage, None, Style::Plain);
    assert!(many.contains("\"code\":\"internal\""), "{many}");
}

#[test]
fn several_messages_are_answered_one_by_one() {
    let line = wire::answer(&Response::Marked(marked()), Form::Usual, None, Style::Plain);
    assert_eq!(
        line,
        "{\"ok\":true,\"marked\":[{\"id\":\"20260110-120000-0001\",\"was_unread\":true},\
         {\"id\":\"20260110-120000-0002\",\"already\":true},{\"id\":\"0042\",\"error\":{\"code\":\"not_found\",\
         \"message\":\"there is no message 0042\",\"retryable\":false,\"help\":\"look\"}}]}\n"
    );
}

/// The caller of `reply` cannot know the recipients, so it gets the message, also when its durability is not known.
#[test]
fn a_reply_is_answered_with_its_message() {
    let request = exchanges().into_iter().map(|it| it.request).find(|it| matches!(it, Request::Reply(_))).unwrap();
    let given = Response::Sent(Box::new(fmail_api::Sent { not_durable: Some("no".into()), ..sent() }));
    let line = wire::answer(&given, Form::WithMessage, None, Style::Plain);
    assert!(line.starts_with("{\"ok\":false,\"error\":{\"code\":\"durability_unknown\""), "{line}");
    assert_eq!(response(&context(), &request, answered(&line)).unwrap(), given);
    let usual = wire::answer(&given, Form::Usual, None, Style::Plain);
    assert!(!usual.contains("\"msg\""), "{usual}");
}

#[test]
fn check_and_peek_only_look() {
    for (line, looking) in [
        (r#"{"cmd":"check","agent":"a"}"#, r#"{"cmd":"inbox","agent":"a","peek":true}"#),
        (r#"{"cmd":"check","agent":"a","peek":false}"#, r#"{"cmd":"inbox","agent":"a","peek":true}"#),
        (r#"{"cmd":"peek","agent":"a","id":"1"}"#, r#"{"cmd":"read","agent":"a","id":"1","peek":true}"#),
    ] {
        assert_eq!(call(line).request, call(looking).request);
    }
    let Request::Inbox(inbox) = call(r#"{"cmd":"check","agent":"a"}"#).request else { panic!() };
    assert!(inbox.peek);
    let Request::Read(read) = call(r#"{"cmd":"peek","agent":"a","ids":["1","2"]}"#).request else { panic!() };
    assert!(read.peek && read.ids.len() == 2);
}

#[test]
fn names_may_come_with_their_at_sign() {
    for (line, bare) in [
        (r#"{"cmd":"inbox","agent":"a","from":"@Bob"}"#, r#"{"cmd":"inbox","agent":"a","from":"bob"}"#),
        (r#"{"cmd":"ack","agent":"a","from":"@bob"}"#, r#"{"cmd":"ack","agent":"a","from":"bob"}"#),
        (r#"{"cmd":"log","agent":"a","from":" @bob"}"#, r#"{"cmd":"log","agent":"a","from":"bob"}"#),
        (
            r#"{"cmd":"nudge","agent":"a","to":"@bob","text":"x"}"#,
            r#"{"cmd":"nudge","agent":"a","to":"bob","text":"x"}"#,
        ),
        (
            r#"{"cmd":"reservations","agent":"a","held_by":"@bob"}"#,
            r#"{"cmd":"reservations","agent":"a","held_by":"bob"}"#,
        ),
    ] {
        assert_eq!(call(line).request, call(bare).request);
    }
}

#[test]
fn what_says_nothing_counts_as_absent() {
    let null = r#"{"cmd":"inbox","agent":"a","folder":null,"from":null,"limit":null,"peek":null,"claim_seconds":null}"#;
    assert_eq!(call(null).request, Request::Inbox(fmail_api::InboxRequest::default()));
    let reply = r#"{"cmd":"reply","agent":"a","id":"1","body":null,"priority":" HIGH ","tags":null,"unheard_of":1}"#;
    let Request::Reply(reply) = call(reply).request else { panic!() };
    assert_eq!((reply.body, reply.priority), (Value::Null, fmail_api::Priority::High));
    // A client that writes every field it has does not mean a change in bulk by that.
    let all = r#"{"cmd":"ack","agent":"a","ids":["1"],"all":false,"before":null,"from":null}"#;
    assert_eq!(call(all).request, call(r#"{"cmd":"ack","agent":"a","ids":["1"]}"#).request);
}

#[test]
fn each_mistake_names_its_field_and_has_its_code() {
    let long = "x".repeat(5000);
    for (line, code, message) in [
        (r#""cmd":"inbox","folder":"spam""#, "invalid_request", "the field `folder` cannot be used: unknown variant"),
        (r#""cmd":"inbox","limit":-1"#, "invalid_request", "the field `limit` cannot be used"),
        (r#""cmd":"inbox","peek":"yes""#, "invalid_request", "the field `peek` cannot be used"),
        (r#""cmd":"inbox","from":"no one""#, "invalid_agent", "`no one` is not an agent name"),
        (r#""cmd":"inbox","from":7"#, "invalid_request", "the field `from` cannot be used"),
        (r#""cmd":"read""#, "invalid_request", "missing id"),
        (r#""cmd":"read","id":"""#, "invalid_request", "missing id"),
        (r#""cmd":"read","id":7"#, "invalid_request", "the field `id` cannot be used"),
        (r#""cmd":"read","ids":"1""#, "invalid_request", "the field `ids` cannot be used"),
        (r#""cmd":"read","id":"1","ids":["2"]"#, "invalid_request", "`id` and `ids` exclude each other"),
        (r#""cmd":"read","ids":["a\u0000b"]"#, "invalid_request", "the field `ids` cannot be used"),
        (r#""cmd":"ack""#, "invalid_request", "missing id"),
        (r#""cmd":"ack","id":"","all":true"#, "invalid_request", "missing id"),
        (
            r#""cmd":"ack","before":"yesterday""#,
            "invalid_request",
            "the field `before` cannot be used: `yesterday` is not",
        ),
        (r#""cmd":"ack","from":"a/b""#, "invalid_agent", "`a/b` is not an agent name"),
        (r#""cmd":"ack","id":"1","dry_run":1"#, "invalid_request", "the field `dry_run` cannot be used"),
        (r#""cmd":"reply","id":"1""#, "invalid_request", "missing body"),
        (r#""cmd":"reply","body":1"#, "invalid_request", "missing id"),
        (r#""cmd":"reply","id":"1","body":1,"priority":"urgent""#, "invalid_request", "`urgent` is not a priority"),
        (r#""cmd":"reply","id":"1","body":1,"expires":"x""#, "invalid_request", "the field `expires` cannot be used"),
        (r#""cmd":"thread""#, "invalid_request", "missing id"),
        (r#""cmd":"receipt","id":null"#, "invalid_request", "missing id"),
        (r#""cmd":"search""#, "invalid_request", "missing query"),
        (
            &format!(r#""cmd":"search","query":"{long}""#),
            "invalid_request",
            "the field `query` cannot be used: it has 5000",
        ),
        (r#""cmd":"search","query":"q","since":{"id":"x"}"#, "invalid_request", "the field `since` cannot be used"),
        (r#""cmd":"reserve","ttl_seconds":1"#, "invalid_request", "missing paths"),
        (r#""cmd":"reserve","paths":["a"]"#, "invalid_request", "missing ttl_seconds"),
        (
            r#""cmd":"reserve","paths":["a"],"ttl_seconds":1.5"#,
            "invalid_request",
            "the field `ttl_seconds` cannot be used",
        ),
        (r#""cmd":"release""#, "invalid_request", "missing paths"),
        (r#""cmd":"release","ids":["x"]"#, "invalid_request", "the field `ids` cannot be used"),
        (r#""cmd":"renew","all":true"#, "invalid_request", "missing ttl_seconds"),
        (r#""cmd":"reservations","held_by":"@""#, "invalid_agent", "`` is not an agent name"),
        (r#""cmd":"nudge","text":"x""#, "invalid_request", "missing to"),
        (r#""cmd":"nudge","to":"bob""#, "invalid_request", "missing text"),
        (r#""cmd":"nudge","to":"bob","text":"\u001b[2J""#, "invalid_request", "the field `text` cannot be used"),
    ] {
        let error = refused(&format!(r#"{{"agent":"a",{line}}}"#), code);
        assert!(error.message().starts_with(message), "{line}: {error}");
    }
}

#[test]
fn an_error_does_not_repeat_a_whole_line() {
    let folder = "f".repeat(100_000);
    let error = refused(&format!(r#"{{"cmd":"inbox","agent":"a","folder":"{folder}"}}"#), "invalid_request");
    assert!(error.message().len() < 400 && error.message().ends_with('…'), "{error}");
}
