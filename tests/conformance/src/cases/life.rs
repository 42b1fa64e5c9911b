//! Health, closing and opening again (L1, L2).

use fmail_api::{Expect, Query, RecordKey};
use futures::executor::{block_on, block_on_stream};
use serde_json::json;

use crate::case::{ensure, ensure_eq};
use crate::kit::{append, append_many, draft, end, ids, next, scan, scan_ids, watch};
use crate::{Bench, Case, Failure, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "L1", name: "health_changes_nothing", needs: &[], check: health },
    Case { rule: "L1", name: "capabilities_do_not_change", needs: &[], check: capabilities },
    Case { rule: "L2", name: "a_store_can_be_closed_twice", needs: &[], check: close_twice },
    Case { rule: "L2", name: "everything_is_there_after_close_and_reopen", needs: &[Need::Durable], check: reopen },
    Case { rule: "L2", name: "a_closed_instance_does_not_disturb_others", needs: &[Need::Shared], check: close_beside },
];

/// Everything that can be seen of a project.
fn seen(bench: &Bench) -> Verdict<Vec<String>> {
    let store = bench.open()?;
    let page = scan(&*store, Query::default())?;
    let mut seen: Vec<String> = page.deliveries.iter().map(|delivery| delivery.message.to_line()).collect();
    for record in block_on_stream(block_on(store.list(""))?) {
        let record = record?;
        seen.push(format!("{} {}", record.key, record.value));
    }
    seen.push(page.cursor.as_str().to_string());
    Ok(seen)
}

fn health(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    for round in 0..2 {
        let before = seen(bench)?;
        for _ in 0..3 {
            let health = block_on(store.health())?;
            ensure!(health.writable, "a fresh project is not writable: {}", health.detail);
        }
        ensure_eq!(seen(bench)?, before, "what is seen after asking for the health");
        append(&*store, draft("task", round))?;
    }
    Ok(())
}

fn capabilities(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let first = store.capabilities();
    append(&*store, draft("task", "one"))?;
    ensure_eq!(store.capabilities(), first, "capabilities after an append");
    ensure_eq!(bench.open()?.capabilities(), first, "capabilities of another instance");
    ensure!(!first.name.is_empty(), "the store has no name");
    Ok(())
}

fn close_twice(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    append(&*store, draft("task", "one"))?;
    block_on(store.close())?;
    Ok(block_on(store.close())?)
}

fn reopen(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let first = append_many(&*store, "task", 5)?;
    append(&*store, draft("@bob", "direct"))?;
    let leases: RecordKey = "leases".parse()?;
    block_on(store.put(&leases, Expect::Absent, json!({"held": true}), true))?;
    let cursor = end(&*store)?;
    let before = seen(bench)?;
    block_on(store.close())?;
    drop(store);
    ensure_eq!(seen(bench)?, before, "what is seen after close and reopen");
    let store = bench.open()?;
    let mut stream = watch(&*store, Query::default(), &cursor)?;
    let behind = append(&*store, draft("task", "behind"))?.id;
    ensure!(ids(&first).iter().all(|id| *id < behind), "{behind} was assigned below an earlier id");
    ensure_eq!(next(&mut stream)?.message.id, behind, "a watch from a cursor taken before the close");
    Ok(())
}

fn close_beside(bench: &Bench) -> Verdict {
    let (closed, open) = (bench.open()?, bench.open()?);
    append(&*closed, draft("task", "one"))?;
    let mut stream = watch(&*open, Query::default(), &end(&*open)?)?;
    block_on(closed.close())?;
    drop(closed);
    let two = append(&*open, draft("task", "two"))?.id;
    ensure_eq!(next(&mut stream)?.message.id, two, "a watch on the instance that stays open");
    let ids = scan_ids(&*open, Query::default())?;
    ids.contains(&two).then_some(()).ok_or_else(|| Failure::new("the open instance lost a message"))
}
