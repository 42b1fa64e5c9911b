//! Scan: after which point (Q3, Q4, Q6, Q7).

use std::time::Duration;

use fmail_api::{Cursor, ErrorKind, Imported, Message, MessageId, Query, Since, Store, Timestamp};
use futures::executor::block_on;

use super::{ORDER, TIME};
use crate::case::{ensure, ensure_eq};
use crate::kit::{append, append_many, arrivals, at_once, draft, end, foreign, ids, now, refused, scan, scan_ids};
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "Q3", name: "since_an_id_delivers_what_came_behind_it", needs: &[TIME], check: since_id },
    Case { rule: "Q3", name: "since_an_unknown_id_delivers_the_higher_ones", needs: &[TIME], check: since_unknown_id },
    Case {
        rule: "Q3",
        name: "since_an_id_delivers_late_arrivals_with_lower_ids",
        needs: &[TIME, Need::Import],
        check: since_id_with_imports,
    },
    Case { rule: "Q4", name: "since_a_time_includes_its_second", needs: &[TIME], check: since_own_time },
    Case { rule: "Q4", name: "times_are_those_of_the_messages", needs: &[TIME, Need::Import], check: since_time },
    Case {
        rule: "Q4",
        name: "a_fraction_of_a_second_counts",
        needs: &[TIME, super::LIMIT, Need::Import],
        check: fractions,
    },
    Case {
        rule: "Q6",
        name: "since_a_cursor_delivers_exactly_what_came_behind_it",
        needs: &[TIME, ORDER],
        check: since_cursor,
    },
    Case {
        rule: "Q6",
        name: "a_reader_that_follows_by_cursor_loses_nothing",
        needs: &[TIME, ORDER],
        check: follow_by_cursor,
    },
    Case { rule: "Q6", name: "a_cursor_is_good_on_another_instance", needs: &[TIME], check: cursor_elsewhere },
    Case { rule: "Q7", name: "what_is_no_cursor_is_an_invalid_request", needs: &[TIME], check: malformed_cursors },
    Case { rule: "Q7", name: "a_cursor_of_another_project_is_expired", needs: &[TIME], check: foreign_cursors },
    Case {
        rule: "Q7",
        name: "a_cursor_of_another_project_is_expired_in_an_empty_one_too",
        needs: &[TIME],
        check: foreign_cursor_in_nothing,
    },
];

fn since(since: Since) -> Query {
    Query { since: Some(since), ..Query::default() }
}

fn since_id(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let written = ids(&append_many(&*store, "task", 6)?);
    for (index, id) in written.iter().enumerate() {
        ensure_eq!(scan_ids(&*store, since(Since::Id(*id)))?, written[index + 1..], "since {id}");
    }
    Ok(())
}

fn since_unknown_id(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let written = ids(&append_many(&*store, "task", 4)?);
    ensure_eq!(scan_ids(&*store, since(Since::Id(MessageId::MIN)))?, written, "since an id before all");
    ensure_eq!(scan_ids(&*store, since(Since::Id(MessageId::MAX)))?, [], "since an id behind all");
    let before_first = MessageId::from_ticks(written[0].ticks() - 1).unwrap_or(MessageId::MIN);
    ensure_eq!(scan_ids(&*store, since(Since::Id(before_first)))?, written, "since the id right before the first");
    Ok(())
}

fn hour_ago() -> Timestamp {
    now().before(Duration::from_secs(3_600))
}

fn import(store: &dyn Store, message: &Message) -> Verdict<MessageId> {
    let answer = block_on(store.import(message.clone()))?;
    ensure_eq!(answer, Imported::New, "the answer to an import");
    Ok(message.id)
}

fn since_id_with_imports(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let early = import(&*store, &foreign("task", hour_ago(), 0, "came early"))?;
    let known = append(&*store, draft("task", "known"))?.id;
    let late = import(&*store, &foreign("task", hour_ago(), 1, "came late"))?;
    let last = append(&*store, draft("task", "last"))?.id;
    ensure_eq!(scan_ids(&*store, since(Since::Id(known)))?, [late, last], "since the known message");
    ensure_eq!(scan_ids(&*store, since(Since::Id(late)))?, [known, last], "since the one that came late");
    ensure_eq!(scan_ids(&*store, since(Since::Id(early)))?, [late, known, last], "since the one that came early");
    Ok(())
}

fn since_own_time(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let message = append(&*store, draft("task", "now"))?;
    let second = message.time.whole_seconds();
    for millis in [0, 1, 999] {
        let query = since(Since::Time(second.after(Duration::from_millis(millis))));
        ensure_eq!(scan_ids(&*store, query)?, [message.id], "since {millis} ms into its second");
    }
    ensure_eq!(
        scan_ids(&*store, since(Since::Time(second.after(Duration::from_secs(1)))))?,
        [],
        "since the next second"
    );
    Ok(())
}

fn since_time(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let time = hour_ago();
    let at = |seconds: u64| time.after(Duration::from_secs(seconds));
    // Times and ids in opposite orders: the time of the message decides, not its id.
    let (mut first, mut second) = (foreign("task", at(0), 0, "first"), foreign("task", at(10), 0, "second"));
    (first.time, second.time) = (at(10), at(0));
    let third = foreign("task", at(20), 0, "third");
    let (first, second, third) = (import(&*store, &first)?, import(&*store, &second)?, import(&*store, &third)?);
    ensure_eq!(scan_ids(&*store, since(Since::Time(at(0))))?, [first, second, third], "since the first time");
    ensure_eq!(scan_ids(&*store, since(Since::Time(at(1))))?, [first, third], "since a second later");
    ensure_eq!(scan_ids(&*store, since(Since::Time(at(20))))?, [third], "since the last time");
    let before = |time| Query { before: Some(time), ..Query::default() };
    ensure_eq!(scan_ids(&*store, before(at(20)))?, [first, second], "before the last time");
    ensure_eq!(scan_ids(&*store, before(at(10)))?, [second], "before the middle");
    ensure_eq!(scan_ids(&*store, before(at(0)))?, [], "before the first time");
    let between = Query { before: Some(at(20)), ..since(Since::Time(at(10))) };
    ensure_eq!(scan_ids(&*store, between)?, [first], "between two times");
    Ok(())
}

fn fractions(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let second = hour_ago();
    let at = |millis: u64| second.after(Duration::from_millis(millis));
    let timed = |tick: u64, millis: u64| Message { time: at(millis), ..foreign("task", at(0), tick, millis) };
    let early = import(&*store, &timed(0, 100))?;
    let late = import(&*store, &timed(1, 500))?;
    let before = |millis, limit| Query { before: Some(at(millis)), limit, ..Query::default() };
    ensure_eq!(scan_ids(&*store, before(300, None))?, [early], "before a time between two of one second");
    // What does not fit must not use up the limit.
    let page = scan(&*store, before(300, Some(1)))?;
    ensure_eq!((page.ids(), page.more), (vec![early], false), "the same with a limit of one");
    ensure_eq!(scan_ids(&*store, before(501, None))?, [early, late], "before a time right behind both");
    ensure_eq!(scan_ids(&*store, since(Since::Time(at(900))))?, [early, late], "since a later part of their second");
    Ok(())
}

fn since_cursor(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let written = ids(&append_many(&*store, "task", 6)?);
    let page = scan(&*store, arrivals())?;
    for (index, delivery) in page.deliveries.iter().enumerate() {
        let behind = scan_ids(&*store, since(Since::Cursor(delivery.cursor.clone())))?;
        ensure_eq!(behind, written[index + 1..], "since the cursor of delivery {index}");
    }
    let since_end = since(Since::Cursor(page.cursor));
    ensure_eq!(scan_ids(&*store, since_end.clone())?, [], "since the cursor of the whole scan");
    let next = append(&*store, draft("task", "next"))?.id;
    ensure_eq!(scan_ids(&*store, since_end)?, [next], "since that cursor, one message later");
    Ok(())
}

fn follow_by_cursor(bench: &Bench) -> Verdict {
    let (writer, reader) = (bench.open()?, bench.open()?);
    let start = end(&*reader)?;
    let both = at_once(2, |number| {
        if number == 0 {
            // Strictly ordered: the next append starts when the one before was answered.
            let written = append_many(&*writer, "task", 200)?;
            append(&*writer, draft("task", "last"))?;
            return Ok(ids(&written));
        }
        let mut read = Vec::new();
        let mut cursor = start.clone();
        loop {
            let page = scan(&*reader, Query { since: Some(Since::Cursor(cursor)), ..arrivals() })?;
            for delivery in page.deliveries {
                if delivery.message.body == "last" {
                    return Ok(read);
                }
                read.push(delivery.message.id);
            }
            cursor = page.cursor;
        }
    })?;
    ensure_eq!(both[1], both[0], "what the reader saw against what was written");
    Ok(())
}

fn cursor_elsewhere(bench: &Bench) -> Verdict {
    let (one, two) = (bench.open()?, bench.open()?);
    append(&*one, draft("task", "before"))?;
    let cursor = end(&*one)?;
    let behind = append(&*one, draft("task", "behind"))?.id;
    ensure_eq!(scan_ids(&*two, since(Since::Cursor(cursor.clone())))?, [behind], "on the other instance");
    ensure_eq!(scan_ids(&*bench.open()?, since(Since::Cursor(cursor)))?, [behind], "on a new instance");
    Ok(())
}

/// Asks for a scan and a watch from the cursor; both have to be refused in the same way.
fn both_refused(store: &dyn Store, cursor: &Cursor, kind: ErrorKind) -> Verdict {
    let what = |call: &str| format!("{call} from the cursor {:?}", cursor.as_str());
    refused(block_on(store.scan(since(Since::Cursor(cursor.clone())))), kind, &what("a scan"))?;
    refused(block_on(store.watch(Query::default(), cursor.clone())), kind, &what("a watch"))
}

fn malformed_cursors(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    append(&*store, draft("task", "one"))?;
    for text in ["", " ", "nonsense", "-1", "\u{1F980}", "../../etc/passwd", "20260110-153000-0001", "\0"] {
        both_refused(&*store, &Cursor::new(text), ErrorKind::InvalidRequest)?;
    }
    let real = end(&*store)?;
    both_refused(&*store, &Cursor::new(format!("{}x", real.as_str())), ErrorKind::InvalidRequest)
}

fn foreign_cursors(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let other = bench.another()?;
    let elsewhere = other.open()?;
    append_many(&*store, "task", 3)?;
    append_many(&*elsewhere, "task", 2)?;
    let page = scan(&*elsewhere, arrivals())?;
    both_refused(&*store, &page.cursor, ErrorKind::Expired)?;
    ensure!(page.deliveries.len() == 2, "the other project has {} messages", page.deliveries.len());
    both_refused(&*store, &page.deliveries[0].cursor, ErrorKind::Expired)
}

/// A project that was deleted and is yet to be made again: a reader that resumes there has missed something.
fn foreign_cursor_in_nothing(bench: &Bench) -> Verdict {
    let other = bench.another()?;
    let elsewhere = other.open()?;
    append_many(&*elsewhere, "task", 2)?;
    both_refused(&*bench.open()?, &end(&*elsewhere)?, ErrorKind::Expired)
}
