//! Records: small documents with compare-and-swap (R1 to R4).

use std::collections::BTreeSet;

use fmail_api::{ErrorKind, Expect, Record, RecordKey, Result, Revision, Store};
use futures::executor::{block_on, block_on_stream};
use serde_json::{Value, json};

use crate::case::{ensure, ensure_eq};
use crate::crash::payload;
use crate::kit::{at_once, refused};
use crate::{Bench, Case, Failure, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "R1", name: "a_record_reads_back_as_it_was_put", needs: &[], check: reads_back },
    Case { rule: "R1", name: "a_missing_record_is_none", needs: &[], check: missing },
    Case { rule: "R1", name: "a_record_that_was_replaced_or_deleted_is_so_everywhere", needs: &[], check: replaced },
    Case { rule: "R1", name: "readers_beside_writers_see_whole_records", needs: &[], check: whole_records },
    Case { rule: "R2", name: "a_put_needs_its_expectation", needs: &[], check: put_expects },
    Case { rule: "R2", name: "a_delete_needs_its_expectation", needs: &[], check: delete_expects },
    Case { rule: "R3", name: "of_eight_that_create_a_record_one_wins", needs: &[], check: one_creates },
    Case { rule: "R3", name: "of_eight_that_change_a_revision_one_wins", needs: &[], check: one_changes },
    Case { rule: "R3", name: "of_eight_that_delete_a_revision_one_wins", needs: &[], check: one_deletes },
    Case { rule: "R3", name: "a_counter_raised_by_eight_misses_nothing", needs: &[], check: counter },
    Case { rule: "R4", name: "a_list_ends_at_whole_segments", needs: &[], check: list },
];

fn key(text: &str) -> RecordKey {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn put(store: &dyn Store, key: &RecordKey, expect: Expect, value: Value) -> Result<Revision> {
    block_on(store.put(key, expect, value, true))
}

fn get(store: &dyn Store, key: &RecordKey) -> Verdict<Record> {
    let record = block_on(store.get(key))?;
    record.ok_or_else(|| Failure::new(format!("the record `{key}` is missing")))
}

fn agent_value(name: &str) -> Value {
    json!({"name": name, "first_seen": "2026-01-10T15:00:00Z", "last_seen": "2026-01-10T15:30:00Z", "x_kept": [1, "ü"]})
}

fn reads_back(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let digits = serde_json::from_str(r#"{"z":1,"a":123456789012345678901234567890.10,"":{"é\n":[null,true,""]}}"#);
    let records = [
        (key("agents/bob"), agent_value("bob")),
        (key("mailbox/bob/20260110"), digits.unwrap_or_else(|error| panic!("{error}"))),
        (key("presence/host.example/bob"), json!({})),
        (key("leases"), json!({"large": "x".repeat(100_000)})),
        (key("a/b_c/d-e/f.g"), json!({"four": "segments"})),
    ];
    for (key, value) in &records {
        let revision = put(&*store, key, Expect::Absent, value.clone())?;
        let record = get(&*bench.open()?, key)?;
        ensure_eq!(record.key, *key, "the key of a record");
        ensure_eq!(record.value.to_string(), value.to_string(), "the value of `{key}`");
        ensure_eq!(record.revision, revision, "the revision of `{key}` against the answer to its put");
    }
    for (key, value) in &records {
        ensure_eq!(get(&*store, key)?.value.to_string(), value.to_string(), "`{key}` after others were put");
    }
    Ok(())
}

fn missing(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    for name in ["leases", "agents/nobody", "mailbox/bob/20260110", "a/b/c/d"] {
        ensure_eq!(block_on(store.get(&key(name)))?, None, "the missing record `{name}`");
    }
    // Neither a segment above a record nor one below it is a record.
    put(&*store, &key("mailbox/bob/20260110"), Expect::Absent, json!({}))?;
    for name in ["mailbox", "mailbox/bob", "mailbox/bob/20260110/x", "mailbox/bob/2026011"] {
        ensure_eq!(block_on(store.get(&key(name)))?, None, "the missing record `{name}`");
    }
    Ok(())
}

fn replaced(bench: &Bench) -> Verdict {
    let (one, two) = (bench.open()?, bench.open()?);
    let key = key("agents/bob");
    put(&*one, &key, Expect::Absent, agent_value("bob"))?;
    let seen = get(&*two, &key)?.revision;
    let revision = put(&*two, &key, Expect::Revision(seen.clone()), json!({"v": 2}))?;
    ensure!(revision != seen, "another content has the same revision");
    ensure_eq!(get(&*one, &key)?, Record { key: key.clone(), revision, value: json!({"v": 2}) }, "the replaced record");
    block_on(two.delete(&key, Expect::Anything))?;
    ensure_eq!(block_on(one.get(&key))?, None, "the deleted record");
    put(&*one, &key, Expect::Absent, json!({"v": 3}))?;
    ensure_eq!(get(&*two, &key)?.value, json!({"v": 3}), "the record that was created again");
    Ok(())
}

fn whole_records(bench: &Bench) -> Verdict {
    const LAST: u64 = 60;
    let stores = [bench.open()?, bench.open()?];
    let key = key("leases");
    put(&*stores[0], &key, Expect::Absent, payload(0))?;
    at_once(3, |number| {
        if number == 0 {
            for round in 1..=LAST {
                put(&*stores[0], &key, Expect::Anything, payload(round))?;
            }
            return Ok(());
        }
        loop {
            let record = get(&*stores[1], &key)?;
            let round = record.value["number"].as_u64().unwrap_or(u64::MAX);
            ensure!(record.value == payload(round), "the record was read in part");
            if round == LAST {
                return Ok(());
            }
        }
    })
    .map(drop)
}

fn conflict<T>(result: Result<T>, what: &str) -> Verdict {
    refused(result, ErrorKind::Conflict, what)
}

fn put_expects(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let key = key("leases");
    let unknown = Revision::new("no such revision");
    conflict(put(&*store, &key, Expect::Revision(unknown.clone()), json!({})), "a change of a missing record")?;
    ensure_eq!(block_on(store.get(&key))?, None, "the record after a refused change");
    let first = put(&*store, &key, Expect::Absent, json!({"v": 1}))?;
    conflict(put(&*store, &key, Expect::Absent, json!({"v": 9})), "creating a record that exists")?;
    conflict(put(&*store, &key, Expect::Revision(unknown), json!({"v": 9})), "a change of another revision")?;
    ensure_eq!(get(&*store, &key)?.value, json!({"v": 1}), "the record after refused changes");
    let second = put(&*store, &key, Expect::Revision(first.clone()), json!({"v": 2}))?;
    conflict(put(&*store, &key, Expect::Revision(first), json!({"v": 9})), "a change of a past revision")?;
    ensure_eq!(get(&*store, &key)?.revision, second, "the revision after a refused change");
    put(&*store, &key, Expect::Anything, json!({"v": 3}))?;
    ensure_eq!(get(&*store, &key)?.value, json!({"v": 3}), "the record after a change that expects nothing");
    Ok(())
}

fn delete_expects(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let key = key("agents/bob");
    block_on(store.delete(&key, Expect::Anything))?;
    block_on(store.delete(&key, Expect::Absent))?;
    let unknown = Expect::Revision(Revision::new("no such revision"));
    conflict(block_on(store.delete(&key, unknown.clone())), "deleting a revision of a missing record")?;
    let first = put(&*store, &key, Expect::Absent, agent_value("bob"))?;
    conflict(block_on(store.delete(&key, unknown)), "deleting another revision")?;
    conflict(block_on(store.delete(&key, Expect::Absent)), "deleting a record that should be absent")?;
    ensure_eq!(get(&*store, &key)?.revision, first, "the record after refused deletions");
    block_on(store.delete(&key, Expect::Revision(first.clone())))?;
    ensure_eq!(block_on(store.get(&key))?, None, "the record after its deletion");
    conflict(block_on(store.delete(&key, Expect::Revision(first))), "deleting the same revision again")
}

/// Eight writers with the same expectation; gives the number of the one that won.
fn race(bench: &Bench, key: &RecordKey, expect: &Expect) -> Verdict<usize> {
    let stores = [bench.open()?, bench.open()?];
    let results =
        at_once(8, |number| match put(&*stores[number % 2], key, expect.clone(), json!({ "winner": number })) {
            Ok(_) => Ok(Some(number)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            Err(error) => Err(error.into()),
        })?;
    let winners: Vec<usize> = results.into_iter().flatten().collect();
    ensure!(winners.len() == 1, "{} of eight writers have won: {winners:?}", winners.len());
    let stored = get(&*stores[0], key)?.value;
    ensure_eq!(stored, json!({ "winner": winners[0] }), "the record after the race");
    Ok(winners[0])
}

fn one_creates(bench: &Bench) -> Verdict {
    for round in 0..5 {
        race(bench, &key(&format!("agents/agent-{round}")), &Expect::Absent)?;
    }
    Ok(())
}

fn one_changes(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let key = key("leases");
    put(&*store, &key, Expect::Absent, json!({"round": 0}))?;
    for round in 1..6 {
        let revision = put(&*store, &key, Expect::Anything, json!({ "round": round }))?;
        race(bench, &key, &Expect::Revision(revision))?;
    }
    Ok(())
}

fn one_deletes(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?];
    let key = key("agents/bob");
    let revision = put(&*stores[0], &key, Expect::Absent, agent_value("bob"))?;
    let results = at_once(8, |number| {
        let deleted = block_on(stores[number % 2].delete(&key, Expect::Revision(revision.clone())));
        match deleted {
            Ok(()) => Ok(1),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(0),
            Err(error) => Err(error.into()),
        }
    })?;
    ensure_eq!(results.iter().sum::<i32>(), 1, "how many of eight have deleted one revision");
    ensure_eq!(block_on(stores[1].get(&key))?, None, "the deleted record");
    Ok(())
}

fn counter(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?];
    let key = key("leases");
    put(&*stores[0], &key, Expect::Absent, json!({"count": 0}))?;
    at_once(8, |number| {
        let store = &*stores[number % 2];
        for _ in 0..10 {
            loop {
                let record = get(store, &key)?;
                let count = record.value["count"].as_u64().unwrap_or(0) + 1;
                match put(store, &key, Expect::Revision(record.revision), json!({ "count": count })) {
                    Ok(_) => break,
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    })?;
    ensure_eq!(get(&*stores[0], &key)?.value, json!({"count": 80}), "the counter raised ten times by each of eight");
    Ok(())
}

fn list(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let names = [
        "agents/bob",
        "agents/bobby",
        "mailbox/bob/20260110",
        "mailbox/bob/20260111",
        "mailbox/bobby/20260110",
        "leases",
    ];
    for name in names {
        put(&*store, &key(name), Expect::Absent, json!({ "name": name }))?;
    }
    let list = |prefix: &str| -> Verdict<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for record in block_on_stream(block_on(store.list(prefix))?) {
            let record = record?;
            ensure_eq!(get(&*store, &record.key)?, record, "a listed record against a read one");
            ensure!(found.insert(record.key.to_string()), "`{}` is listed twice", record.key);
        }
        Ok(found)
    };
    let check = |prefix: &str, expected: &[&str]| -> Verdict {
        let expected: BTreeSet<String> = expected.iter().map(|name| name.to_string()).collect();
        ensure_eq!(list(prefix)?, expected, "the records under `{prefix}`");
        Ok(())
    };
    check("agents", &names[..2])?;
    check("agents/", &names[..2])?;
    check("agents/bob", &names[..1])?;
    check("mailbox", &names[2..5])?;
    check("mailbox/bob", &names[2..4])?;
    check("mailbox/bo", &[])?;
    check("leases", &names[5..])?;
    check("nothing", &[])?;
    // A store may keep records of its own, such as the project's.
    let all = list("")?;
    ensure!(names.iter().all(|name| all.contains(*name)), "not every record is under the empty prefix: {all:?}");
    block_on(store.delete(&key("agents/bob"), Expect::Anything))?;
    check("agents", &names[1..2])
}
