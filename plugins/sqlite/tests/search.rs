//! The index of words finds exactly what reading every message would find.

use std::collections::BTreeSet;

use fmail_api::{Draft, Event, Message, MessageId, Order, Query, Result, Scope, Selection, Store, Timestamp};
use fmail_core::SearchQuery;
use fmail_sqlite::{Durability, SqliteOptions, SqliteStore};
use futures::StreamExt;
use futures::executor::block_on;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

const WORDS: &[&str] =
    &["a", "b", "one", "ones", "two", "café", "CAFE", "日本語", "🦀", "snake_case", "x1", "1.5", "\u{0}"];
const NAMES: &[&str] = &["a", "b", "one", "one-two", "two-one"];
const FILTERS: &[&str] =
    &["subject", "body", "tags", "from", "to", "topic", "thread", "priority", "-body", "{from to}"];

fn texts(longest: usize) -> impl Strategy<Value = String> {
    let piece = (select(WORDS), select(&[" ", " ", ", ", "-", "\n", "\u{0}", "…"][..]));
    proptest::collection::vec(piece, 0..longest)
        .prop_map(|pieces| pieces.iter().map(|(word, between)| format!("{word}{between}")).collect())
}

fn messages() -> impl Strategy<Value = Message> {
    let bodies = prop_oneof![
        3 => texts(12).prop_map(Value::from),
        1 => texts(200).prop_map(Value::from),
        2 => (texts(3), texts(3), any::<i16>()).prop_map(|(one, two, n)| json!({"one": one, "list": [two, n, null]})),
        1 => Just(Value::Null),
    ];
    let names = || proptest::collection::vec(select(NAMES), 0..3);
    let optional = || proptest::option::of(texts(4));
    (bodies, optional(), optional(), names(), select(NAMES), (select(NAMES), any::<bool>(), names())).prop_map(
        |(body, subject, thread, tags, from, (to, direct, cc))| {
            let to = if direct { format!("@{to}") } else { to.to_owned() };
            let fields = json!({
                "from": from, "to": to, "cc": cc, "body": body, "subject": subject, "thread": thread, "tags": tags,
            });
            Message::from_value(fields, Some(MessageId::MIN), None).unwrap()
        },
    )
}

fn queries() -> impl Strategy<Value = String> {
    let word = select(&WORDS[..WORDS.len() - 2]).prop_map(str::to_owned);
    let quoted = proptest::collection::vec(word, 1..3).prop_map(|words| format!("\"{}\"", words.join(" ")));
    let phrase = (quoted, select(&["", "", "*"][..])).prop_map(|(phrase, star)| format!("{phrase}{star}"));
    let near = (phrase.clone(), phrase.clone()).prop_map(|(one, two)| format!("NEAR({one} {two}, 2)"));
    let filtered = (select(FILTERS), phrase.clone()).prop_map(|(filter, phrase)| format!("{filter} : {phrase}"));
    let leaf =
        prop_oneof![3 => phrase.clone(), 1 => phrase.prop_map(|phrase| format!("^{phrase}")), 1 => near, 2 => filtered];
    leaf.prop_recursive(4, 12, 2, |inner| {
        (inner.clone(), select(&["AND", "OR", "NOT"][..]), inner)
            .prop_map(|(one, operator, two)| format!("({one}) {operator} ({two})"))
    })
}

fn draft(message: &Message) -> Draft {
    let mut draft = Draft::new(message.from.clone(), message.to.clone(), message.body.clone());
    draft.more = message.more.clone();
    draft.subject = message.subject.clone();
    draft.thread = message.thread.clone();
    draft.tags = message.tags.clone();
    draft
}

fn found(store: &SqliteStore, query: Query) -> (Vec<Message>, bool) {
    block_on(async {
        let scan = store.scan(query).await.unwrap();
        let message = |event: Result<Event>| async move {
            match event.unwrap() {
                Event::Message(delivery) => Some((*delivery.message).clone()),
                other => panic!("{other:?}"),
            }
        };
        (scan.messages.filter_map(message).collect().await, scan.more)
    })
}

fn ids(messages: &[Message]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

/// Messages that were appended, imported out of order and removed again, and what is left of them, in order of arrival.
fn filled(store: &SqliteStore, messages: &[Message]) -> Vec<Message> {
    let mut gone = BTreeSet::new();
    for (number, message) in messages.iter().enumerate() {
        if number % 3 == 0 {
            let ticks = 1_000_000_000 + (number as u64 * 7_919) % 100_000;
            let id = MessageId::from_ticks(ticks).unwrap();
            let imported = Message { id, time: Timestamp::from_unix(100_000, 0), ..message.clone() };
            block_on(store.import(imported)).unwrap();
        } else {
            let id = block_on(store.append(draft(message))).unwrap().message.id;
            if number % 5 == 0 {
                gone.insert(id);
            }
        }
    }
    let selection = Selection { ids: gone, ..Selection::default() };
    block_on(async { store.remove(selection).await.unwrap().map(Result::unwrap).count().await });
    found(store, Query { order: Order::Arrival, ..Query::default() }).0
}

#[test]
fn the_index_and_the_reference_find_the_same() {
    let cases = (proptest::collection::vec(messages(), 60), proptest::collection::vec(queries(), 80));
    let config = Config { cases: 6, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let verdict = runner.run(&cases, |(messages, queries)| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mail.sqlite");
        let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(path) };
        let store = SqliteStore::open(options).unwrap();
        let arrived = filled(&store, &messages);
        for text in queries {
            let query: SearchQuery = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let by_arrival: Vec<MessageId> =
                arrived.iter().filter(|message| query.matches(message)).map(|message| message.id).collect();
            let mut ascending = by_arrival.clone();
            ascending.sort_unstable();
            let descending: Vec<MessageId> = ascending.iter().rev().copied().collect();
            let asked = |order, limit| Query { text: Some(query.to_string()), order, limit, ..Query::default() };
            for (order, expected) in
                [(Order::Arrival, &by_arrival), (Order::Ascending, &ascending), (Order::Descending, &descending)]
            {
                let (messages, more) = found(&store, asked(order, None));
                prop_assert_eq!((&ids(&messages), more), (expected, false), "{} {:?}", &text, order);
            }
            let (newest, more) = found(&store, asked(Order::Descending, Some(2)));
            prop_assert_eq!(ids(&newest), &descending[..descending.len().min(2)], "{}", &text);
            prop_assert_eq!(more, descending.len() > 2);
            // Together with other conditions.
            let topics = Query { scope: Scope::Topics, ..asked(Order::Ascending, None) };
            let in_topics: Vec<MessageId> = ascending
                .iter()
                .filter(|id| {
                    let message = arrived.iter().find(|message| message.id == **id).unwrap();
                    message.targets().iter().any(|target| !target.is_direct())
                })
                .copied()
                .collect();
            prop_assert_eq!(ids(&found(&store, topics).0), in_topics, "{}", &text);
        }
        Ok(())
    });
    verdict.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_watch_for_words_delivers_what_says_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(directory.path().join("mail.sqlite"))).unwrap();
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    let mut wanted = Vec::new();
    for number in 0..600 {
        let body = if number % 200 == 199 { format!("the needle {number}") } else { format!("hay {number}") };
        let draft = Draft::new("a".parse().unwrap(), "task".parse().unwrap(), body.clone());
        let id = block_on(store.append(draft)).unwrap().message.id;
        wanted.extend(body.contains("needle").then_some(id));
    }
    let query = Query { text: Some("needle".into()), ..Query::default() };
    let watch = block_on(store.watch(query, start)).unwrap();
    let messages = watch.filter_map(|event| async move {
        match event.unwrap() {
            Event::Message(delivery) => Some(delivery.message.id),
            _ => None,
        }
    });
    assert_eq!(block_on(messages.take(3).collect::<Vec<_>>()), wanted);
}

#[test]
fn a_text_that_is_no_query_is_an_invalid_request() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(directory.path().join("mail.sqlite"))).unwrap();
    let query = Query { text: Some("\"open".into()), ..Query::default() };
    let error = block_on(store.scan(query)).err().unwrap();
    assert_eq!(error.kind(), fmail_api::ErrorKind::InvalidRequest);
}
