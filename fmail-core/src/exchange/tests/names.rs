//! Two hosts that gave the same ids to different messages: what a message mentions is right on both.

use std::collections::HashMap;

use fmail_api::{
    Client, Message, MessageId, Place, REPLY_HASH, REPLY_ORIGIN, ReplyRequest, Request, Response, Store, THREAD_HASH,
};
use serde_json::json;

use super::{Host, exchange, host};
use crate::testing::{context, take};

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

/// Every answer on a host, as agents see it, points at what it answers, or at nothing; and so does what is stored.
fn points_right(host: &Host) {
    let bodies: HashMap<MessageId, String> = shown(host).into_iter().map(|one| (one.id, text(&one))).collect();
    let check = |message: &Message| {
        let name = text(message).split(' ').next().unwrap().to_string();
        let asks = format!("{name} asks");
        for mentioned in message.reply_to.into_iter().chain(message.thread.as_ref().and_then(|id| id.parse().ok())) {
            assert_eq!(bodies.get(&mentioned), Some(&asks), "{message:?}");
        }
    };
    shown(host).iter().for_each(|message| check(message));
    let query = fmail_api::Query::default();
    let stored = futures::executor::block_on(host.store.scan(query)).unwrap().messages;
    for event in futures::executor::block_on_stream(stored) {
        if let fmail_api::Event::Message(delivery) = event.unwrap() {
            // What is stored says it, or nothing: an id that is free, or the right one.
            if let Some(mentioned) = delivery.message.reply_to {
                let there = bodies.get(&mentioned);
                let name = text(&delivery.message).split(' ').next().unwrap().to_string();
                assert!(there.is_none_or(|body| *body == format!("{name} asks")), "{:?}", delivery.message);
            }
        }
    }
}

fn text(message: &Message) -> String {
    message.body.as_str().unwrap().to_string()
}

/// Everything, as somebody sees it who may see it all.
fn shown(host: &Host) -> Vec<std::sync::Arc<Message>> {
    let everybody = fmail_api::Context { overview: true, ..context("operator") };
    let since = Some(fmail_api::Since::Time(fmail_api::Timestamp::from_unix(0, 0)));
    let request = Request::Watch(fmail_api::WatchRequest { since, ..Default::default() });
    let reply = futures::executor::block_on(host.operations.call(&everybody, request)).unwrap();
    take(reply, host.places().len())
}

#[test]
fn an_answer_that_came_before_its_parent_points_at_nothing_else_where_ids_collided() {
    let (one, two) = collided();
    let all = fmail_api::FetchRequest { places: two.places().into_iter().collect(), ..Default::default() };
    let mut fetched = two.fetch(all);
    fetched.reverse();
    for message in &fetched {
        one.import(message, two.run);
        points_right(&one);
    }
    let replies: Vec<_> = shown(&one).into_iter().filter(|message| !text(message).ends_with("asks")).collect();
    assert_eq!(replies.len(), 4);
    for reply in replies {
        let name = text(&reply).split(' ').next().unwrap().to_string();
        assert_eq!(reply.reply_to, Some(id_of(&one, &format!("{name} asks"))), "{reply:?}");
        assert!(!reply.extra.contains_key(REPLY_HASH) && !reply.extra.contains_key(REPLY_ORIGIN), "{reply:?}");
    }
    right(&one);
}

#[test]
fn the_id_of_a_parent_that_is_awaited_is_given_to_nobody_else() {
    let (one, two) = collided();
    let three = host(3);
    let all = |host: &Host| {
        host.fetch(fmail_api::FetchRequest { places: host.places().into_iter().collect(), ..Default::default() })
    };
    // The answers of the one first, then everything of the other, whose question has the same id.
    let (ours, theirs) = (all(&one), all(&two));
    for message in ours.iter().filter(|message| !text(message).ends_with("asks")) {
        three.import(message, one.run);
    }
    for message in &theirs {
        three.import(message, two.run);
    }
    points_right_without_parent(&three);
    // Also behind a new start.
    let three = super::Host {
        project: crate::testing::Project { operations: super::operations(&three, 3), ..three.project },
        ..three
    };
    for message in &ours {
        three.import(message, one.run);
    }
    points_right(&three);
    right(&three);
    assert_eq!(id_of(&three, "one asks"), id_of(&one, "one asks"), "its id was kept for it");
}

fn points_right_without_parent(host: &Host) {
    for message in shown(host).iter().filter(|message| text(message).starts_with("one")) {
        let there = message.reply_to.and_then(|id| shown(host).into_iter().find(|other| other.id == id));
        assert_eq!(there, None, "{message:?}");
    }
}

#[test]
fn an_answer_to_what_was_deleted_meanwhile_says_which_message_it_answered() {
    let (one, two) = (host(1), host(2));
    let asked = one.send("alice", "@bob", "one asks").message.id;
    let other = two.send("alice", "@bob", "two asks").message.id;
    assert_eq!(asked, other);
    reply(&one, "bob", asked, "one replies");
    one.mark("bob", fmail_api::Mark::Deleted, asked);
    exchange(&one, &two);
    let seen = shown(&two).into_iter().find(|message| text(message) == "one replies").unwrap();
    assert_eq!(seen.reply_to, None, "what has this id here is another message: {seen:?}");
    assert_eq!(seen.extra[REPLY_ORIGIN], asked.to_string());
}

#[test]
fn an_answer_to_what_was_swept_away_does_not_seem_to_answer_another() {
    let (one, two) = (host(1), host(2));
    let asked = one.send("alice", "task", "one asks").message.id;
    two.send("alice", "task", "two asks");
    for host in [&one, &two] {
        host.clock.advance(std::time::Duration::from_secs(3 * 86_400));
    }
    let mut answer = fmail_api::SendRequest::new("task".parse().unwrap(), "one answers");
    answer.reply_to = Some(asked.to_string());
    one.try_send("bob", answer).unwrap();
    let gc = Request::Gc(fmail_api::GcRequest { days: 1, dry_run: false });
    let swept = one.call("alice", gc).unwrap().events.unwrap();
    assert_eq!(futures::executor::block_on_stream(swept).count(), 1);
    let places = one.places().into_iter().collect();
    for message in one.fetch(fmail_api::FetchRequest { places, ..Default::default() }) {
        two.import(&message, one.run);
    }
    let seen = shown(&two).into_iter().find(|message| text(message) == "one answers").unwrap();
    assert_eq!(seen.reply_to, None, "{seen:?}");
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

#[test]
fn a_message_that_got_another_id_here_stands_before_its_answers() {
    let (one, two) = (host(1), host(2));
    one.send("alice", "task", "one asks");
    let asks = two.send("alice", "task", "two asks").message;
    let mut above = asks.id;
    for (agent, body) in [("bob", "two answers"), ("carol", "two answers that")] {
        let mut answer = fmail_api::SendRequest::new("task".parse().unwrap(), body);
        answer.reply_to = Some(above.to_string());
        above = two.try_send(agent, answer).unwrap().message.id;
    }
    let all = fmail_api::FetchRequest { places: two.places().into_iter().collect(), ..Default::default() };
    for message in two.fetch(all).iter().rev() {
        one.import(message, two.run);
    }
    assert!(id_of(&one, "two asks") > id_of(&one, "two answers that"), "its own id was taken");
    let expected = ["two asks", "two answers", "two answers that"];
    for body in expected {
        let id = id_of(&one, body);
        assert_eq!(one.thread_in_order(id), expected, "asked for {body}");
        let everything = futures::executor::block_on(one.operations.conversation(&id.to_string())).unwrap();
        assert_eq!(everything.iter().map(|message| text(message)).collect::<Vec<_>>(), expected, "asked for {body}");
    }
}
