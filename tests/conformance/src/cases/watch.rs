//! Watch: what arrives is delivered, and a watch can be taken up again (W1, W3, W4, W5).

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use fmail_api::{Draft, Event, EventStream, Query, Scope, Since};
use futures::executor::block_on;
use futures::{Stream, StreamExt};

use super::{FROM, IDS, ORDER, SCOPE, THREAD, TIME};
use crate::case::{ensure, ensure_eq};
use crate::kit::{
    agent, append, append_many, arrivals, count, draft, end, foreign, ids, ids_of, next, next_many, now, scan, target,
    until, use_topics, watch, with_topics,
};
use crate::{Bench, Case, Failure, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "W1", name: "what_arrived_behind_the_cursor_is_delivered_in_order", needs: &[], check: catches_up },
    Case { rule: "W1", name: "a_waiting_watch_wakes_for_what_another_instance_writes", needs: &[], check: wakes_up },
    Case { rule: "W1", name: "the_first_message_of_every_new_topic_is_delivered", needs: &[], check: new_topics },
    Case { rule: "W1", name: "arrival_decides_the_order_not_the_id", needs: &[Need::Import], check: order_of_arrival },
    Case { rule: "W1", name: "what_was_removed_is_passed_over", needs: &[Need::Remove], check: removed_meanwhile },
    Case { rule: "W3", name: "a_watch_resumes_right_behind_each_delivery", needs: &[], check: resumes },
    Case {
        rule: "W3",
        name: "a_watch_resumes_from_progress_without_loss",
        needs: &[SCOPE],
        check: resumes_from_progress,
    },
    Case {
        rule: "W4",
        name: "filters_hold_as_in_a_scan",
        needs: &[SCOPE, FROM, THREAD, IDS, TIME, ORDER],
        check: filters,
    },
    Case { rule: "W4", name: "since_holds_as_in_a_scan", needs: &[TIME, ORDER], check: since_holds },
    Case { rule: "W4", name: "limit_and_order_do_not_apply", needs: &[], check: no_limit },
    Case { rule: "W5", name: "dropped_streams_hold_nothing_up", needs: &[], check: dropped_streams },
    Case { rule: "W5", name: "a_watch_that_nobody_reads_holds_nothing_up", needs: &[], check: unread_watch },
];

fn catches_up(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    append_many(&*store, "task", 3)?;
    let start = end(&*store)?;
    let written = ids(&append_many(&*store, "task", 25)?);
    let mut stream = watch(&*store, Query::default(), &start)?;
    append(&*store, draft("task", "last"))?;
    ensure_eq!(ids_of(&until(&mut stream, "last")?), written, "what the watch delivers");
    Ok(())
}

fn wakes_up(bench: &Bench) -> Verdict {
    let (writer, reader) = (bench.open()?, bench.open()?);
    let mut stream = watch(&*reader, Query::default(), &end(&*reader)?)?;
    for round in 0..5 {
        waits(&mut stream)?;
        // The reader waits on this thread, and only the write on the other can wake it.
        let (seen, written) = thread::scope(|scope| {
            let draft = draft("task", round);
            let written = scope.spawn(|| append(&*writer, draft));
            let seen = next(&mut stream);
            (seen, written.join().unwrap_or_else(|_| Err(Failure::new("the writer panicked"))))
        });
        ensure_eq!(seen?.message.id, written?.id, "the message that wakes the watch");
    }
    Ok(())
}

/// Polls until the stream has nothing more to say and waits.
fn waits(stream: &mut EventStream) -> Verdict {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut *stream).poll_next(&mut context) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Some(Ok(Event::Message(delivery)))) => {
                return Err(Failure::new(format!("the watch delivers {} unasked", delivery.message.id)));
            }
            Poll::Ready(Some(event)) => event.map(drop)?,
            Poll::Ready(None) => return Err(Failure::new("the watch ended by itself")),
        }
    }
}

fn new_topics(bench: &Bench) -> Verdict {
    let (writer, reader) = (bench.open()?, bench.open()?);
    let mut stream = watch(&*reader, Query::default(), &end(&*reader)?)?;
    waits(&mut stream)?;
    let topics = with_topics();
    let places = (0..60).map(|number| format!("{}new-{number}", if number % 3 == 0 { "@" } else { "" }));
    let (seen, written) = thread::scope(|scope| {
        let written = scope.spawn(|| {
            use_topics(topics);
            let mut written = Vec::new();
            for place in places {
                written.push(append(&*writer, draft(&place, "first"))?.id);
            }
            append(&*writer, draft("task", "last"))?;
            Ok(written)
        });
        let seen = until(&mut stream, "last");
        (seen, written.join().unwrap_or_else(|_| Err(Failure::new("the writer panicked"))))
    });
    ensure_eq!(ids_of(&seen?), written?, "the first messages of new topics");
    Ok(())
}

fn order_of_arrival(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut stream = watch(&*store, Query::default(), &end(&*store)?)?;
    let own = append(&*store, draft("task", "own"))?.id;
    let old = foreign("task", now().before(Duration::from_secs(3_600)), 0, "old");
    block_on(store.import(old.clone()))?;
    let behind = append(&*store, draft("task", "behind"))?.id;
    ensure_eq!(ids_of(&next_many(&mut stream, 3)?), [own, old.id, behind], "the order of delivery");
    Ok(())
}

fn removed_meanwhile(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let written = ids(&append_many(&*store, "task", 4)?);
    let deliveries = scan(&*store, arrivals())?.deliveries;
    let selection = fmail_api::Selection { ids: [written[0], written[2]].into(), ..Default::default() };
    for removed in futures::executor::block_on_stream(block_on(store.remove(selection))?) {
        removed?;
    }
    let mut stream = watch(&*store, Query::default(), &start)?;
    ensure_eq!(ids_of(&next_many(&mut stream, 2)?), [written[1], written[3]], "what is left behind the cursor");
    // The cursor of a message that is gone is as good as any.
    let mut stream = watch(&*store, Query::default(), &deliveries[2].cursor)?;
    ensure_eq!(next(&mut stream)?.message.id, written[3], "what is left behind a removed message");
    Ok(())
}

fn resumes(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let written = ids(&append_many(&*store, "task", 6)?);
    let live = next_many(&mut watch(&*store, Query::default(), &start)?, 6)?;
    let scanned = scan(&*store, arrivals())?.deliveries;
    let last = append(&*store, draft("task", "last"))?.id;
    for deliveries in [live, scanned] {
        for (index, delivery) in deliveries.iter().enumerate() {
            let mut stream = watch(&*bench.open()?, Query::default(), &delivery.cursor)?;
            let mut expected = written[index + 1..].to_vec();
            expected.push(last);
            ensure_eq!(ids_of(&next_many(&mut stream, 6 - index)?), expected, "behind delivery {index}");
        }
    }
    Ok(())
}

fn resumes_from_progress(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut cursor = end(&*store)?;
    let query = Query::target(target("wanted"));
    let mut seen = Vec::new();
    let mut written = Vec::new();
    for round in 0..4 {
        append_many(&*store, "noise", 3)?;
        if round % 2 == 1 {
            written.push(append(&*store, draft("wanted", round))?.id);
        }
        append(&*store, draft("noise", "behind"))?;
        // Every cursor that the stream tells, as progress or with a message, replaces the one before.
        let mut stream = watch(&*store, query.clone(), &cursor)?;
        let mut context = Context::from_waker(Waker::noop());
        let wanted = written.len();
        while let Some(event) = told(&mut stream, &mut context, seen.len() < wanted)? {
            match event {
                Event::Message(delivery) => {
                    seen.push(delivery.message.id);
                    cursor = delivery.cursor.clone();
                }
                Event::Progress(progress) => cursor = progress,
                _ => {}
            }
        }
    }
    ensure_eq!(seen, written, "what was seen by resuming from every cursor told");
    Ok(())
}

/// The next event; waits for it only if asked to.
fn told(stream: &mut EventStream, context: &mut Context<'_>, wait: bool) -> Verdict<Option<Event>> {
    let event = match Pin::new(&mut *stream).poll_next(context) {
        Poll::Ready(event) => event,
        Poll::Pending if wait => block_on(stream.next()),
        Poll::Pending => return Ok(None),
    };
    let event = event.ok_or_else(|| Failure::new("the watch ended by itself"))?;
    Ok(Some(event?))
}

fn filters(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let mut written = Vec::new();
    for number in 0..6 {
        let mut draft = draft(["task", "@bob", "other"][number % 3], number as u64);
        draft.from = agent(["alice", "bob"][number % 2]);
        draft.thread = (number < 3).then(|| "plan".into());
        written.push(append(&*store, draft)?);
    }
    // Fits every query below, so that each watch comes to a visible end.
    let mut last = Draft { thread: Some("plan".into()), ..draft("task", "last") };
    last.more.cc = vec![target("@bob")];
    let last = append(&*store, last)?;
    let tomorrow = now().after(Duration::from_secs(24 * 60 * 60));
    let queries: [(Query, &[usize]); 12] = [
        (Query::default(), &[0, 1, 2, 3, 4, 5]),
        (Query { scope: Scope::Topics, ..Query::default() }, &[0, 2, 3, 5]),
        (Query::target(target("task")), &[0, 3]),
        (Query::target(target("@bob")), &[1, 4]),
        (Query::visible(agent("bob")), &[0, 1, 2, 3, 4, 5]),
        (Query::visible(agent("nobody")), &[0, 2, 3, 5]),
        (Query { from: Some(agent("alice")), ..Query::default() }, &[0, 2, 4]),
        (Query { thread: Some("plan".into()), ..Query::default() }, &[0, 1, 2]),
        (Query { ids: [written[4].id, written[1].id, last.id].into(), ..Query::default() }, &[1, 4]),
        (Query { since: Some(Since::Time(written[0].time)), ..Query::default() }, &[0, 1, 2, 3, 4, 5]),
        (Query { before: Some(tomorrow), ..Query::default() }, &[0, 1, 2, 3, 4, 5]),
        (Query { from: Some(agent("alice")), thread: Some("plan".into()), ..Query::target(target("task")) }, &[0]),
    ];
    let about_topics = |query: &Query| matches!(query.scope, Scope::Topics | Scope::Visible(_));
    for (query, fitting) in queries.into_iter().filter(|(query, _)| with_topics() || !about_topics(query)) {
        let expected: Vec<_> = fitting.iter().map(|index| written[*index].id).collect();
        let mut stream = watch(&*store, query.clone(), &start)?;
        ensure_eq!(ids_of(&until(&mut stream, "last")?), expected, "a watch for {query:?}");
    }
    Ok(())
}

fn since_holds(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let written = ids(&append_many(&*store, "task", 5)?);
    append(&*store, draft("task", "last"))?;
    let behind_third = scan(&*store, arrivals())?.deliveries[2].cursor.clone();
    for since in [Since::Id(written[2]), Since::Cursor(behind_third)] {
        let query = Query { since: Some(since), ..Query::default() };
        let mut stream = watch(&*store, query.clone(), &start)?;
        ensure_eq!(ids_of(&until(&mut stream, "last")?), written[3..], "a watch from the start for {query:?}");
    }
    Ok(())
}

fn no_limit(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let written = ids(&append_many(&*store, "task", 5)?);
    let query = Query { limit: Some(2), order: fmail_api::Order::Descending, ..Query::default() };
    ensure_eq!(ids_of(&next_many(&mut watch(&*store, query, &start)?, 5)?), written, "a watch with a limit");
    Ok(())
}

fn dropped_streams(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    // More than a user may have of the kernel's watchers at once: each has to be let go.
    for round in 0..150 {
        let mut stream = watch(&*store, Query::default(), &start)?;
        match round % 3 {
            0 => drop(stream),
            1 => waits(&mut stream)?,
            _ => drop(block_on(store.scan(Query::default()))?),
        }
    }
    let written = ids(&append_many(&*store, "task", 5)?);
    let mut half_read = watch(&*store, Query::default(), &start)?;
    ensure_eq!(next(&mut half_read)?.message.id, written[0], "the first message of a watch");
    drop(half_read);
    append(&*store, draft("task", "behind"))?;
    ensure_eq!(count(&*store)?, 6, "messages after streams were dropped");
    Ok(())
}

fn unread_watch(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut unread = watch(&*store, Query::default(), &end(&*store)?)?;
    waits(&mut unread)?;
    let written = ids(&append_many(&*store, "task", 150)?);
    ensure_eq!(count(&*bench.open()?)?, 150, "messages written while a watch was not read");
    ensure!(ids_of(&next_many(&mut unread, 5)?) == written[..5], "the unread watch has lost the first messages");
    Ok(())
}
