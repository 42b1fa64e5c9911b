//! Idempotency keys (A8).

use fmail_api::{Appended, Draft, Query, Store};
use futures::executor::block_on;

use crate::case::{ensure, ensure_eq};
use crate::kit::{agent, append, at_once, count, distinct, draft, end, find, next, target, watch};
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "A8", name: "the_same_key_answers_with_the_first_message", needs: &[], check: first_message },
    Case { rule: "A8", name: "a_duplicate_is_not_delivered_again", needs: &[], check: not_delivered_again },
    Case { rule: "A8", name: "other_keys_and_no_key_are_other_messages", needs: &[], check: other_keys },
    Case { rule: "A8", name: "eight_writers_with_one_key_store_one_message", needs: &[], check: one_of_eight },
    Case { rule: "A8", name: "a_key_is_known_to_other_instances", needs: &[], check: known_elsewhere },
    Case { rule: "A8", name: "a_key_is_known_after_close_and_reopen", needs: &[Need::Durable], check: known_later },
];

fn keyed(key: &str, body: &str) -> Draft {
    Draft { key: Some(key.into()), ..draft("task", body) }
}

fn append_keyed(store: &dyn Store, key: &str, body: &str) -> Verdict<Appended> {
    Ok(block_on(store.append(keyed(key, body)))?)
}

fn first_message(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let first = append(&*store, keyed("k", "first"))?;
    // Another body and another target: the key alone decides.
    let other = Draft { key: Some("k".into()), ..Draft::new(agent("bob"), target("@carol"), "second") };
    for again in [keyed("k", "first"), other] {
        let answer = block_on(store.append(again))?;
        ensure!(answer.duplicate, "the second append with a key is not called a duplicate");
        ensure_eq!(answer.message.to_line(), first.to_line(), "a duplicate does not answer with the first message");
    }
    ensure_eq!(count(&*store)?, 1, "a duplicate was stored");
    ensure_eq!(find(&*store, first.id)?.to_line(), first.to_line(), "a duplicate changed the first message");
    Ok(())
}

fn not_delivered_again(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut stream = watch(&*store, Query::default(), &end(&*store)?)?;
    let first = append(&*store, keyed("k", "first"))?;
    append_keyed(&*store, "k", "again")?;
    let behind = append(&*store, draft("task", "behind"))?;
    ensure_eq!(next(&mut stream)?.message.id, first.id, "the watch starts with another message");
    ensure_eq!(next(&mut stream)?.message.id, behind.id, "the duplicate was delivered");
    Ok(())
}

fn other_keys(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    // Keys that a careless comparison would take for the same.
    let keys = ["a", "A", "a ", "ä", "a\u{308}", "a/../a", "", "0", "00"];
    let mut stored = Vec::new();
    for key in keys {
        stored.push(append(&*store, keyed(key, "same"))?.id);
    }
    stored.push(append(&*store, draft("task", "same"))?.id);
    stored.push(append(&*store, draft("task", "same"))?.id);
    distinct(&stored, "messages with different keys or none")?;
    ensure_eq!(count(&*store)?, stored.len(), "not every message was stored");
    Ok(())
}

fn one_of_eight(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?];
    for round in 0..5 {
        let key = format!("round-{round}");
        let answers = at_once(8, |number| append_keyed(&*stores[number % 2], &key, &format!("writer {number}")))?;
        let stored = answers.iter().filter(|answer| !answer.duplicate).count();
        ensure_eq!(stored, 1, "of eight appends with one key, this many say that they stored a message");
        ensure!(
            answers.iter().all(|answer| answer.message.to_line() == answers[0].message.to_line()),
            "appends with one key answer with different messages"
        );
    }
    ensure_eq!(count(&*stores[0])?, 5, "the messages stored under five keys");
    Ok(())
}

fn known_elsewhere(bench: &Bench) -> Verdict {
    let first = append(&*bench.open()?, keyed("k", "first"))?;
    let answer = append_keyed(&*bench.open()?, "k", "again")?;
    ensure!(answer.duplicate, "another instance does not know the key");
    ensure_eq!(answer.message.id, first.id, "another instance answers with another message");
    Ok(())
}

fn known_later(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let first = append(&*store, keyed("k", "first"))?;
    block_on(store.close())?;
    drop(store);
    let answer = append_keyed(&*bench.open()?, "k", "again")?;
    ensure!(answer.duplicate, "the key is forgotten after close and reopen");
    ensure_eq!(answer.message.id, first.id, "the reopened store answers with another message");
    Ok(())
}
