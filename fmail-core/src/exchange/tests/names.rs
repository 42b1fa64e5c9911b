//! Two hosts that gave the same ids to different messages: what a message mentions is right on both.

use fmail_api::{MessageId, Place, REPLY_HASH, ReplyRequest, Request, Response, THREAD_HASH};
use serde_json::json;

use super::{Host, exchange, host};

fn reply(host: &Host, from: &str, id: MessageId, body: &str) -> MessageId {
    let request: ReplyRequest = serde_json::from_value(json!({"id": id.to_string(), "body": body})).unwrap();
    match host.call(from, Request::Reply(Box::new(request))).unwrap().head {
        Response::Sent(sent) => sent.message.id,
        other => panic!("{other:?}"),
    }
}

/// The id that the message with this body has on a host.
fn id_of(host: &Host, body: &str) -> MessageId {
    let place = host.places();
    let fetched = host.fetch(fmail_api::FetchRequest { places: place.into_iter().collect(), ..Default::default() });
    let message = fetched.iter().find(|message| message.body == *body).unwrap();
    host.operations.exchange.look(|inventory| inventory.local(&Place::of(message)))
}

/// Both hosts have a message to the same topic, and an answer to it, all four under two ids.
fn collided() -> (Host, Host) {
    let (one, two) = (host(1), host(2));
    for (host, name) in [(&one, "one"), (&two, "two")] {
        let first = host.send("alice", "task", format!("{name} asks")).message.id;
        let mut answer = fmail_api::SendRequest::new("task".parse().unwrap(), format!("{name} answers"));
        answer.reply_to = Some(first.to_string());
        host.try_send("bob", answer).unwrap();
        reply(host, "carol", first, &format!("{name} replies"));
    }
    assert_eq!(id_of(&one, "one asks"), id_of(&two, "two asks"), "the same id for different messages");
    (one, two)
}

fn right(host: &Host) {
    for name in ["one", "two"] {
        let thread = ["answers", "asks", "replies"].map(|what| format!("{name} {what}"));
        // A reply is a direct message; that it can be read by others is no matter here.
        for what in ["asks", "answers"] {
            let id = id_of(host, &format!("{name} {what}"));
            let found: Vec<String> = host.thread(id).into_iter().filter(|body| !body.ends_with("replies")).collect();
            assert_eq!(found, thread[..2], "{name} {what}");
        }
        let asks = id_of(host, &format!("{name} asks"));
        let everything = futures::executor::block_on(host.operations.conversation(&asks.to_string())).unwrap();
        let mut bodies: Vec<&str> = everything.iter().map(|message| message.body.as_str().unwrap()).collect();
        bodies.sort_unstable();
        assert_eq!(bodies, thread);
    }
}

#[test]
fn answers_and_threads_point_at_the_right_message_on_both() {
    let (one, two) = collided();
    exchange(&one, &two);
    assert_eq!((one.places(), one.places().len()), (two.places(), 6));
    right(&one);
    right(&two);
    let answered = reply(&two, "dave", id_of(&two, "one asks"), "two to one");
    assert_ne!(answered, id_of(&two, "two asks"));
    exchange(&one, &two);
    let found = futures::executor::block_on(one.operations.conversation(&id_of(&one, "one asks").to_string()));
    assert_eq!(found.unwrap().len(), 4, "the answer joins the right one where that was born");
}

#[test]
fn an_answer_that_comes_before_what_it_answers_finds_it_later() {
    let (one, two) = collided();
    let all = fmail_api::FetchRequest { places: two.places().into_iter().collect(), ..Default::default() };
    let fetched = two.fetch(all);
    for message in fetched.iter().rev() {
        one.import(message, two.run);
    }
    assert_eq!(one.places().len(), 6);
    right(&one);
    // And goes on from there as it came.
    let three = host(3);
    exchange(&one, &three);
    right(&three);
    exchange(&one, &two);
    right(&two);
}

#[test]
fn the_form_that_travels_is_the_same_from_every_host() {
    let (one, two) = collided();
    exchange(&one, &two);
    let all = |host: &Host| {
        let places = host.places().into_iter().collect();
        host.fetch(fmail_api::FetchRequest { places, ..Default::default() })
    };
    let (first, second) = (all(&one), all(&two));
    for (mut ours, theirs) in first.into_iter().zip(&second) {
        assert!(ours.origin_id.is_none() && ours.host.is_some());
        assert_eq!(ours.extra.contains_key(REPLY_HASH), ours.reply_to.is_some());
        assert_eq!(ours.extra.contains_key(THREAD_HASH), ours.thread.is_some());
        std::sync::Arc::make_mut(&mut ours).extra.sort_keys();
        let mut theirs = fmail_api::Message::clone(theirs);
        theirs.extra.sort_keys();
        assert_eq!(*ours, theirs);
    }
}
