//! Append: what goes in comes out, or nothing does (A1, A4, A6, A7, A10, A11).

use std::collections::BTreeSet;

use fmail_api::{Draft, ErrorKind, Priority, Query, Recipients, Store};
use futures::executor::block_on;
use serde_json::{Map, Value, json};

use crate::case::{ensure, ensure_eq};
use crate::crash::{payload, topic};
use crate::kit::{agent, append, at_once, count, draft, end, find, next, refused, scan, target, watch};
use crate::{Bench, Case, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "A1", name: "every_field_reads_back", needs: &[], check: every_field_reads_back },
    Case { rule: "A1", name: "nothing_is_added_to_a_plain_message", needs: &[], check: nothing_is_added },
    Case { rule: "A1", name: "readers_beside_writers_see_whole_messages", needs: &[], check: whole_messages },
    Case { rule: "A4", name: "an_answered_append_is_in_every_later_scan", needs: &[], check: visible_at_once },
    Case { rule: "A6", name: "a_message_of_exactly_the_limit_is_stored", needs: &[], check: at_the_limit },
    Case { rule: "A6", name: "one_byte_over_the_limit_is_too_large", needs: &[], check: over_the_limit },
    Case { rule: "A7", name: "any_json_value_is_a_body", needs: &[], check: any_body },
    Case { rule: "A10", name: "a_failed_append_leaves_nothing", needs: &[], check: failure_leaves_nothing },
    Case { rule: "A10", name: "a_failed_append_does_not_use_up_its_key", needs: &[], check: failure_leaves_the_key },
    Case { rule: "A11", name: "appends_at_the_same_time_fail_alone", needs: &[], check: each_its_own_verdict },
];

fn every_field_reads_back(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut full = draft("@bob", json!({"text": "grüße", "list": [1, null, {"deep": true}]}));
    full.more = Recipients { recipients: vec![target("@carol")], cc: vec![target("task")] };
    full.reply_to = "20260110-152500-0003".parse().ok();
    full.priority = Priority::High;
    full.host = Some("build-server".into());
    full.tags = ["urgent", "auth"].iter().filter_map(|tag| tag.parse().ok()).collect();
    full.subject = Some("a \"subject\" with\nlines and \u{1F980}".into());
    full.thread = Some("Thread/1 ü".into());
    full.ack_required = true;
    full.expires = "2026-01-11T00:00:00Z".parse().ok();
    full.key = Some("key-1".into());
    full.extra = unknown_fields();

    let answered = append(&*store, full.clone())?;
    let expected = full.into_message(answered.id, answered.time);
    ensure_eq!(answered.to_line(), expected.to_line(), "the answer is not what was appended");
    let read = find(&*bench.open()?, answered.id)?;
    ensure_eq!(read.to_line(), expected.to_line(), "what is read is not what was appended");
    ensure!(*read == expected, "what is read differs from what was appended in a field that its JSON does not show");
    Ok(())
}

/// Fields of another program, in an order that sorting would change, with a number that a float would change.
fn unknown_fields() -> Map<String, Value> {
    let text = r#"{"x_zebra":1,"x_ant":{"b":[],"a":{}},"x_long":0.10000000000000000000000001,"x_null":null}"#;
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

fn nothing_is_added(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let stored = append(&*store, draft("task", "hello"))?;
    let value = serde_json::to_value(&*find(&*store, stored.id)?).unwrap_or_default();
    let names: Vec<&String> = value.as_object().into_iter().flat_map(Map::keys).collect();
    ensure_eq!(names, ["id", "from", "to", "time", "body"], "a plain message has other fields than it should");
    Ok(())
}

fn whole_messages(bench: &Bench) -> Verdict {
    const EACH: u64 = 40;
    let stores = [bench.open()?, bench.open()?];
    at_once(4, |number| {
        let store = &*stores[number % 2];
        if number < 2 {
            for round in 0..EACH {
                append(store, draft(topic(round), payload(round)))?;
            }
            return Ok(());
        }
        loop {
            let deliveries = scan(store, Query::default())?.deliveries;
            for delivery in &deliveries {
                let number = delivery.message.body["number"].as_u64().unwrap_or(u64::MAX);
                ensure!(delivery.message.body == payload(number), "{} was read in part", delivery.message.id);
            }
            if deliveries.len() as u64 == 2 * EACH {
                return Ok(());
            }
        }
    })
    .map(drop)
}

fn visible_at_once(bench: &Bench) -> Verdict {
    let (one, two) = (bench.open()?, bench.open()?);
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let stored = append(&**writer, draft(&format!("topic-{}", round % 3), round))?;
        find(&**reader, stored.id)?;
        find(&**writer, stored.id)?;
        find(&*bench.open()?, stored.id)?;
    }
    Ok(())
}

/// The draft whose message has exactly `bytes` bytes, measured on one that the store has made.
fn sized(store: &dyn Store, bytes: usize) -> Verdict<fmail_api::Draft> {
    let empty = append(store, draft("task", ""))?.to_line().len();
    ensure!(bytes >= empty, "the limit of {bytes} bytes is too small for any message");
    Ok(draft("task", "x".repeat(bytes - empty)))
}

fn at_the_limit(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let limit = store.capabilities().max_message_bytes;
    let stored = append(&*store, sized(&*store, limit)?)?;
    let read = find(&*store, stored.id)?;
    ensure_eq!(read.to_line().len(), limit, "the message read back has another size");
    ensure!(read.body == stored.body, "the message read back has another body");
    Ok(())
}

fn over_the_limit(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let limit = store.capabilities().max_message_bytes;
    let large = sized(&*store, limit + 1)?;
    let before = count(&*store)?;
    refused(block_on(store.append(large)), ErrorKind::TooLarge, "a message one byte over the limit")?;
    ensure_eq!(count(&*store)?, before, "a refused message was stored");
    Ok(())
}

fn any_body(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let deep =
        (0..100).fold(json!("bottom"), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"": inner}) });
    let digits = "[123456789012345678901234567890.12345678901234567890, 1e400, -0, 0.10, 18446744073709551616]";
    let bodies = [
        json!(""),
        json!(null),
        json!(true),
        json!(0),
        json!([]),
        json!({}),
        json!(" \t\n\r leading and trailing \n"),
        json!("\u{0}\u{1f}\u{7f}\u{feff}\u{2028}\u{2029}"),
        json!("日本語 עברית 🦀👩‍👩‍👧‍👦 e\u{301} \u{10FFFF}"),
        json!({"id": "not-the-id", "from": 1, "z": {"b": 1, "a": 2}, "": null}),
        json!("\"quotes\" and \\backslashes\\ and </script>"),
        deep,
        serde_json::from_str(digits).unwrap_or_else(|error| panic!("{error}")),
    ];
    for body in bodies {
        let stored = append(&*store, draft("task", body.clone()))?;
        let read = find(&*store, stored.id)?;
        ensure_eq!(read.body.to_string(), body.to_string(), "a body reads back as another one");
    }
    Ok(())
}

fn failure_leaves_nothing(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let large = "x".repeat(store.capabilities().max_message_bytes + 1_000);
    let mut direct = draft("@bob", large);
    direct.more.cc = vec![target("new-topic")];
    refused(block_on(store.append(direct)), ErrorKind::TooLarge, "a message far over the limit")?;
    ensure_eq!(count(&*bench.open()?)?, 0, "something of a refused message is stored");
    let summary = block_on(store.summary(Default::default()))?;
    ensure!(summary.targets.is_empty(), "a refused message left its target behind: {:?}", summary.targets);
    let mut stream = watch(&*store, Default::default(), &start)?;
    let behind = append(&*store, draft("task", "next"))?;
    ensure_eq!(next(&mut stream)?.message.id, behind.id, "a watch sees something of a refused message");
    Ok(())
}

fn failure_leaves_the_key(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let keyed = |body: String| {
        let mut keyed = fmail_api::Draft::new(agent("alice"), target("task"), body);
        keyed.key = Some("once".into());
        keyed
    };
    let large = keyed("x".repeat(store.capabilities().max_message_bytes + 1_000));
    refused(block_on(store.append(large)), ErrorKind::TooLarge, "a message far over the limit")?;
    let second = block_on(store.append(keyed("small".into())))?;
    ensure!(!second.duplicate, "the key of a refused message counts as used");
    ensure_eq!(find(&*store, second.message.id)?.body, json!("small"), "the second message is not the one stored");
    Ok(())
}

/// Eight writers at once: some are refused, some repeat a key, and the others do not notice.
fn each_its_own_verdict(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let limit = store.capabilities().max_message_bytes;
    let first = append(&*store, Draft { key: Some("known".into()), ..draft("task", "first") })?;
    let rounds = 5;
    for round in 0..rounds {
        at_once(8, |number| {
            let body = format!("{round}/{number}");
            match number {
                0 | 1 => {
                    let large = draft("task", "x".repeat(limit));
                    refused(block_on(store.append(large)), ErrorKind::TooLarge, "a message over the limit")
                }
                2 => {
                    let again = Draft { key: Some("known".into()), ..draft("@bob", body) };
                    let answer = block_on(store.append(again))?;
                    ensure!(answer.duplicate && answer.message.id == first.id, "a known key stored a message");
                    Ok(())
                }
                _ => append(&*store, draft(if number % 2 == 0 { "task" } else { "@bob" }, body)).map(drop),
            }
        })?;
    }
    let stored: BTreeSet<String> =
        scan(&*store, Query::default())?.deliveries.iter().map(|found| found.message.body.to_string()).collect();
    ensure_eq!(stored.len(), 1 + 5 * rounds, "the messages that were not refused");
    ensure_eq!(count(&*store)?, stored.len(), "the messages in all");
    Ok(())
}
