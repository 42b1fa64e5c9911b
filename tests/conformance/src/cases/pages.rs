//! Scan: order, limit, and what was left out (Q2).

use fmail_api::{MessageId, Order, Query, Since};

use super::{FROM, LIMIT, ORDER, SCOPE, TIME};
use crate::case::{ensure, ensure_eq};
use crate::kit::{agent, append, append_many, arrivals, draft, foreign, ids, now, scan, scan_ids, target};
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "Q2", name: "orders_follow_ids", needs: &[ORDER], check: orders },
    Case { rule: "Q2", name: "a_limit_keeps_the_newest", needs: &[ORDER, LIMIT], check: limit_keeps_the_newest },
    Case {
        rule: "Q2",
        name: "a_limit_counts_only_what_fits",
        needs: &[ORDER, LIMIT, SCOPE, FROM],
        check: limit_counts_what_fits,
    },
    Case {
        rule: "Q2",
        name: "in_order_of_arrival_a_limit_keeps_the_first",
        needs: &[ORDER, LIMIT],
        check: limit_by_arrival,
    },
    Case {
        rule: "Q2",
        name: "pages_in_order_of_arrival_join_without_gap",
        needs: &[ORDER, LIMIT, TIME],
        check: pages_join,
    },
];

fn ordered(order: Order, limit: Option<usize>) -> Query {
    Query { order, limit, ..Query::default() }
}

fn reversed(ids: &[MessageId]) -> Vec<MessageId> {
    ids.iter().rev().copied().collect()
}

fn orders(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let written = ids(&append_many(&*store, "task", 12)?);
    ensure_eq!(scan_ids(&*store, ordered(Order::Ascending, None))?, written, "ascending");
    ensure_eq!(scan_ids(&*store, ordered(Order::Descending, None))?, reversed(&written), "descending");
    ensure_eq!(scan_ids(&*store, ordered(Order::Arrival, None))?, written, "in order of arrival");
    Ok(())
}

fn limit_keeps_the_newest(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let written = ids(&append_many(&*store, "task", 7)?);
    for limit in [0, 1, 6, 7, 8, usize::MAX] {
        let newest = &written[7 - limit.min(7)..];
        for (order, expected) in [(Order::Ascending, newest.to_vec()), (Order::Descending, reversed(newest))] {
            let page = scan(&*store, ordered(order, Some(limit)))?;
            ensure_eq!(page.ids(), expected, "{order:?} with limit {limit}");
            ensure_eq!(page.more, limit < 7, "whether limit {limit} left something out of seven");
        }
    }
    Ok(())
}

fn limit_counts_what_fits(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut wanted = Vec::new();
    for number in 0..12 {
        let mut draft = draft(if number % 3 == 0 { "task" } else { "other" }, number);
        if number % 2 == 0 {
            draft.from = agent("bob");
        }
        let fits = number % 3 == 0 && number % 2 == 0;
        let id = append(&*store, draft)?.id;
        wanted.extend(fits.then_some(id));
    }
    let query = |limit| Query { from: Some(agent("bob")), limit: Some(limit), ..Query::target(target("task")) };
    let (one, both) = (scan(&*store, query(1))?, scan(&*store, query(2))?);
    ensure_eq!((one.ids(), one.more), (wanted[1..].to_vec(), true), "one of two that fit");
    ensure_eq!((both.ids(), both.more), (wanted, false), "two of two that fit");
    Ok(())
}

fn limit_by_arrival(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let written = ids(&append_many(&*store, "task", 7)?);
    for limit in [0, 1, 6, 7, 8] {
        let page = scan(&*store, ordered(Order::Arrival, Some(limit)))?;
        ensure_eq!(page.ids(), written[..limit.min(7)], "in order of arrival with limit {limit}");
        ensure_eq!(page.more, limit < 7, "whether limit {limit} left something out of seven");
    }
    Ok(())
}

fn pages_join(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut written = ids(&append_many(&*store, "task", 5)?);
    if Need::Import.missing(&*store).is_none() {
        // An arrival whose id is lower than all before it.
        let old = foreign("task", now().before(std::time::Duration::from_secs(3_600)), 0, "old");
        written.push(old.id);
        futures::executor::block_on(store.import(old))?;
    }
    written.extend(ids(&append_many(&*store, "task", 4)?));
    let mut read = Vec::new();
    let mut query = Query { limit: Some(3), ..arrivals() };
    loop {
        let page = scan(&*store, query.clone())?;
        read.extend(page.ids());
        ensure!(read.len() <= written.len(), "pages overlap: {read:?}");
        if !page.more {
            ensure_eq!(read, written, "all pages together");
            return Ok(());
        }
        query.since = Some(Since::Cursor(page.cursor));
    }
}
