//! Watch against concurrent writers (W1, W2).

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use fmail_api::{Message, MessageId, Query};

use super::ORDER;
use crate::case::ensure_eq;
use crate::kit::{
    append, append_many, arrivals, at_once, distinct, draft, end, ids, ids_of, scan, scan_ids, until, use_topics,
    watch, with_topics,
};
use crate::{Bench, Case, Failure, Verdict};

pub(super) static CASES: &[Case] = &[
    Case {
        rule: "W1",
        name: "concurrent_writers_lose_nothing_and_double_nothing",
        needs: &[ORDER],
        check: live_streams,
    },
    Case { rule: "W2", name: "nothing_falls_between_a_scan_and_a_watch", needs: &[], check: scan_then_watch },
];

const WRITERS: usize = 4;
const READERS: usize = 3;
const EACH: usize = 40;

/// Runs readers beside writers, and gives what was written and what each reader brought back.
///
/// The writers pause half way until every reader has passed the gate, so that each reader meets both: writes beside
/// what it does before the gate, and writes that are still to come. They end with a message `last`.
fn beside_writers(
    bench: &Bench,
    read: impl Fn(&Barrier) -> Verdict<Vec<MessageId>> + Sync,
) -> Verdict<(BTreeSet<MessageId>, Vec<Vec<MessageId>>)> {
    let stores = [bench.open()?, bench.open()?];
    let gate = Barrier::new(WRITERS + READERS);
    let write = |number: usize| {
        let (store, topic) = (&*stores[number % 2], format!("topic-{number}"));
        let first = append_many(store, &topic, EACH / 2);
        gate.wait();
        Ok([first?, append_many(store, &topic, EACH / 2)?].concat())
    };
    let topics = with_topics();
    let (written, read) = thread::scope(|scope| {
        let written = scope.spawn(|| {
            use_topics(topics);
            let written: Vec<Vec<Arc<Message>>> = at_once(WRITERS, write)?;
            append(&*stores[0], draft("task", "last"))?;
            distinct(&ids(&written.concat()), "the ids written")
        });
        let read = at_once(READERS, |_| read(&gate));
        (written.join().unwrap_or_else(|_| Err(Failure::new("a writer panicked"))), read)
    });
    Ok((written?, read?))
}

fn live_streams(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let (written, seen) = beside_writers(bench, |gate| {
        let stream = bench.open().map_err(Failure::from).and_then(|store| watch(&*store, Query::default(), &start));
        gate.wait();
        Ok(ids_of(&until(&mut stream?, "last")?))
    })?;
    let mut arrived = scan_ids(&*store, arrivals())?;
    // The last one ends the streams and is in none of them.
    arrived.pop();
    for seen in seen {
        ensure_eq!(distinct(&seen, "the ids that a watch delivers")?, written, "what a watch delivers");
        ensure_eq!(seen, arrived, "the order in which a watch delivers");
    }
    Ok(())
}

fn scan_then_watch(bench: &Bench) -> Verdict {
    let (written, seen) = beside_writers(bench, |gate| {
        // The scan ends somewhere among the first half; the watch has to continue exactly there.
        let store = bench.open();
        let page = store.clone().map_err(Failure::from).and_then(|store| scan(&*store, Query::default()));
        gate.wait();
        let page = page?;
        let mut stream = watch(&*store?, Query::default(), &page.cursor)?;
        Ok([page.ids(), ids_of(&until(&mut stream, "last")?)].concat())
    })?;
    for seen in seen {
        ensure_eq!(distinct(&seen, "a scan and the watch behind it")?, written, "a scan and the watch behind it");
    }
    Ok(())
}
