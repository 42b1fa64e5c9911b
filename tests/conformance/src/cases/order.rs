//! Ids: unique, well formed, and visible in ascending order (A2, A3).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fmail_api::{MessageId, Query, Selection, Store};
use futures::executor::block_on;
use futures::executor::block_on_stream;

use crate::case::{ensure, ensure_eq};
use crate::kit::{append, append_many, ascending, at_once, distinct, draft, end, ids, ids_of, scan_ids, until, watch};
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "A2", name: "ids_are_well_formed_and_near_the_time", needs: &[], check: well_formed },
    Case { rule: "A2", name: "concurrent_writers_get_distinct_ids", needs: &[], check: distinct_in_one_instance },
    Case {
        rule: "A2",
        name: "writers_on_two_instances_get_distinct_ids",
        needs: &[],
        check: distinct_in_two_instances,
    },
    Case { rule: "A3", name: "one_writer_gets_ascending_ids", needs: &[], check: ascending_for_one },
    Case { rule: "A3", name: "who_has_seen_an_id_sees_no_lower_one_appear", needs: &[], check: no_lower_one_appears },
    Case { rule: "A3", name: "a_watch_sees_assigned_ids_ascend", needs: &[], check: ascending_in_a_watch },
    Case { rule: "A3", name: "a_removed_id_is_not_used_again", needs: &[Need::Remove], check: not_used_again },
];

const WRITERS: usize = 8;
const EACH: usize = 25;

fn well_formed(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    for message in append_many(&*store, "task", 20)? {
        let text = message.id.to_string();
        ensure!(text.parse::<MessageId>().ok() == Some(message.id), "the id {text} does not read back");
        let apart = message.id.time().since(message.time).max(message.time.since(message.id.time()));
        ensure!(apart <= Duration::from_secs(61), "the id {text} is {apart:?} away from its time {}", message.time);
    }
    Ok(())
}

fn distinct_in_one_instance(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let written = at_once(WRITERS, |number| append_many(&*store, &format!("topic-{}", number % 3), EACH))?;
    all_there(&*store, &ids(&written.concat()))
}

fn distinct_in_two_instances(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?];
    let written = at_once(WRITERS, |number| append_many(&*stores[number % 2], "task", EACH))?;
    all_there(&*stores[0], &ids(&written.concat()))?;
    all_there(&*stores[1], &ids(&written.concat()))
}

/// The messages written are exactly those that are stored.
fn all_there(store: &dyn Store, written: &[MessageId]) -> Verdict {
    let written = distinct(written, "the ids that the appends answered")?;
    let stored = distinct(&scan_ids(store, Query::default())?, "the ids that a scan delivers")?;
    ensure_eq!(stored, written, "what is stored is not what was written");
    Ok(())
}

fn ascending_for_one(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?];
    let mut written = Vec::new();
    for number in 0..40 {
        written.push(append(&*stores[number % 2], draft(&format!("topic-{}", number % 5), number as u64))?.id);
    }
    ascending(&written, "ids in the order of their appends")
}

fn no_lower_one_appears(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?, bench.open()?];
    let finished = AtomicUsize::new(0);
    // Four writers on two instances, and one reader on a third, who scans until all of them are done.
    at_once(5, |number| {
        if number < 4 {
            let written = append_many(&*stores[number % 2], &format!("topic-{number}"), EACH);
            finished.fetch_add(1, Ordering::SeqCst);
            return written.map(drop);
        }
        let mut seen = BTreeSet::new();
        loop {
            let last_round = finished.load(Ordering::SeqCst) == 4;
            let highest = seen.last().copied();
            for id in scan_ids(&*stores[2], Query::default())? {
                let appeared = seen.insert(id);
                let late = appeared && highest.is_some_and(|highest| id < highest);
                ensure!(!late, "{id} appeared after {highest:?} had been seen");
            }
            if last_round {
                ensure_eq!(seen.len(), 4 * EACH, "the reader has not seen every message");
                return Ok(());
            }
        }
    })
    .map(drop)
}

fn ascending_in_a_watch(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?, bench.open()?];
    let mut stream = watch(&*stores[2], Query::default(), &end(&*stores[2])?)?;
    at_once(4, |number| append_many(&*stores[number % 2], "task", EACH))?;
    append(&*stores[0], draft("task", "last"))?;
    ascending(&ids_of(&until(&mut stream, "last")?), "ids in the order in which a watch delivers them")
}

fn not_used_again(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let first = append(&*store, draft("task", "first"))?.id;
    let selection = Selection { ids: [first].into(), ..Selection::default() };
    for removed in block_on_stream(block_on(store.remove(selection))?) {
        removed?;
    }
    let second = append(&*bench.open()?, draft("task", "second"))?.id;
    ensure!(second > first, "{second} was assigned after {first}, which was removed");
    Ok(())
}
