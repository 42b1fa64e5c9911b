//! Summary and removal (M1 to M3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Draft, Message, Query, Removed, Scope, Selection, Store, TargetSummary, Timestamp};
use futures::executor::{block_on, block_on_stream};

use super::SCOPE;
use crate::case::{ensure, ensure_eq};
use crate::kit::{agent, append, append_many, at_once, count, draft, foreign, ids, now, scan_ids, target};
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "M1", name: "a_summary_counts_each_target_and_tells_its_newest", needs: &[], check: summary },
    Case { rule: "M1", name: "a_summary_keeps_to_its_scope", needs: &[SCOPE, Need::Topics], check: summary_in_scope },
    Case { rule: "M1", name: "the_newest_is_the_highest_id_not_the_last_to_come", needs: &[Need::Import], check: late },
    Case { rule: "M2", name: "ids_remove_exactly_those_messages", needs: &[Need::Remove], check: by_ids },
    Case {
        rule: "M2",
        name: "a_time_removes_exactly_what_is_before_it",
        needs: &[Need::Remove, Need::Import],
        check: by_time,
    },
    Case { rule: "M2", name: "both_conditions_hold_together", needs: &[Need::Remove, Need::Import], check: by_both },
    Case {
        rule: "M2",
        name: "a_fraction_of_a_second_counts",
        needs: &[Need::Remove, Need::Import],
        check: by_fraction,
    },
    Case { rule: "M2", name: "a_dropped_removal_stops", needs: &[Need::Remove], check: dropped },
    Case { rule: "M2", name: "readers_beside_a_removal_see_no_error", needs: &[Need::Remove], check: beside_readers },
    Case { rule: "M2", name: "an_empty_selection_removes_nothing", needs: &[Need::Remove], check: by_nothing },
    Case { rule: "M2", name: "every_place_of_a_message_is_told", needs: &[Need::Remove, SCOPE], check: every_place },
    Case { rule: "M3", name: "a_dry_run_tells_the_same_and_removes_nothing", needs: &[Need::Remove], check: dry_run },
];

/// Two topics and two mailboxes; the third message stands in two of them.
fn world(store: &dyn Store) -> Verdict<Vec<Arc<Message>>> {
    let mut shared = draft("@bob", "shared");
    shared.more.cc = vec![target("@carol")];
    let drafts: [Draft; 5] = [draft("task", 0), draft("task", 1), shared, draft("review", 3), draft("@bob", 4)];
    drafts.into_iter().map(|draft| append(store, draft)).collect()
}

fn entry(place: &str, messages: u64, newest: &Message) -> TargetSummary {
    TargetSummary { target: target(place), messages, last: newest.id, last_time: newest.time }
}

fn summary(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    let found = block_on(bench.open()?.summary(Query::default()))?.targets;
    let mut expected = [
        entry("review", 1, &world[3]),
        entry("task", 2, &world[1]),
        entry("@bob", 2, &world[4]),
        entry("@carol", 1, &world[2]),
    ];
    expected.sort_by(|one, two| one.target.cmp(&two.target));
    ensure_eq!(found, expected, "the summary of everything");
    Ok(())
}

fn summary_in_scope(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    let summary = |query| -> Verdict<Vec<TargetSummary>> { Ok(block_on(store.summary(query))?.targets) };
    let topics = [entry("review", 1, &world[3]), entry("task", 2, &world[1])];
    ensure_eq!(summary(Query { scope: Scope::Topics, ..Query::default() })?, topics, "the summary of the topics");
    let visible = [topics[0].clone(), topics[1].clone(), entry("@carol", 1, &world[2])];
    ensure_eq!(summary(Query::visible(agent("carol")))?, visible, "the summary of what carol sees");
    let bob = [entry("@bob", 2, &world[4])];
    ensure_eq!(summary(Query::target(target("@bob")))?, bob, "the summary of one mailbox");
    Ok(())
}

fn late(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let own = append(&*store, draft("task", "own"))?;
    block_on(store.import(foreign("task", now().before(Duration::from_secs(3_600)), 0, "came late")))?;
    let found = block_on(store.summary(Query::default()))?.targets;
    ensure_eq!(found, [entry("task", 2, &own)], "the summary after a late arrival");
    Ok(())
}

fn remove(store: &dyn Store, selection: Selection) -> Verdict<Vec<Removed>> {
    let mut told = Vec::new();
    for removed in block_on_stream(block_on(store.remove(selection))?) {
        told.push(removed?);
    }
    Ok(told)
}

/// The ids and targets told, whatever the order.
fn places(told: &[Removed]) -> Verdict<BTreeSet<String>> {
    let places: BTreeSet<String> = told.iter().map(|removed| format!("{} {}", removed.target, removed.id)).collect();
    ensure_eq!(places.len(), told.len(), "places told, each once");
    let names: BTreeSet<&str> = told.iter().map(|removed| removed.place.as_str()).collect();
    ensure!(names.len() == told.len() && !names.contains(""), "places without a name of their own: {told:?}");
    Ok(places)
}

fn by_ids(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    let selection = Selection { ids: [world[1].id, world[3].id].into(), ..Selection::default() };
    let told = places(&remove(&*store, selection.clone())?)?;
    let expected = BTreeSet::from([format!("task {}", world[1].id), format!("review {}", world[3].id)]);
    ensure_eq!(told, expected, "what is told");
    let left = [world[0].id, world[2].id, world[4].id];
    ensure_eq!(scan_ids(&*store, Query::default())?, left, "what is left");
    ensure_eq!(scan_ids(&*bench.open()?, Query::default())?, left, "what is left for another instance");
    let targets: Vec<String> =
        block_on(store.summary(Query::default()))?.targets.iter().map(|entry| entry.target.to_string()).collect();
    ensure_eq!(targets, ["task", "@bob", "@carol"], "the targets that still hold a message");
    ensure_eq!(remove(&*store, selection)?, [], "what a second removal tells");
    Ok(())
}

/// Four messages, ten seconds apart, and the time of the third.
fn by_the_clock(store: &dyn Store) -> Verdict<(Vec<Message>, Timestamp)> {
    let start = now().before(Duration::from_secs(3_600));
    let at = |number: u64| start.after(Duration::from_secs(10 * number));
    let messages: Vec<Message> = (0..4).map(|number| foreign("task", at(number), number, number)).collect();
    for message in &messages {
        block_on(store.import(message.clone()))?;
    }
    Ok((messages, at(2)))
}

fn by_time(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let (messages, cutoff) = by_the_clock(&*store)?;
    let own = append(&*store, draft("task", "new"))?.id;
    let told = remove(&*store, Selection { before: Some(cutoff), ..Selection::default() })?;
    ensure_eq!(
        told.iter().map(|removed| removed.id).collect::<BTreeSet<_>>(),
        BTreeSet::from([messages[0].id, messages[1].id]),
        "what is told"
    );
    ensure_eq!(scan_ids(&*store, Query::default())?, [messages[2].id, messages[3].id, own], "what is left");
    Ok(())
}

fn by_fraction(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let second = now().before(Duration::from_secs(3_600));
    let at = |millis: u64| second.after(Duration::from_millis(millis));
    let timed = |tick: u64, millis: u64| Message { time: at(millis), ..foreign("task", second, tick, millis) };
    let (early, late) = (timed(0, 100), timed(1, 500));
    for message in [&early, &late] {
        block_on(store.import(message.clone()))?;
    }
    let told = remove(&*store, Selection { before: Some(at(300)), ..Selection::default() })?;
    ensure_eq!(told.iter().map(|removed| removed.id).collect::<Vec<_>>(), [early.id], "what is told");
    ensure_eq!(scan_ids(&*store, Query::default())?, [late.id], "what is left");
    Ok(())
}

fn dropped(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    // Enough that a store which removes in batches has more than one of them before it.
    let written = ids(&append_many(&*store, "task", 400)?);
    let everything = Selection { ids: written.into_iter().collect(), ..Selection::default() };
    let mut removal = block_on_stream(block_on(store.remove(everything))?);
    let mut told = BTreeSet::new();
    for removed in removal.by_ref().take(3) {
        told.insert(removed?.id);
    }
    drop(removal);
    let left = scan_ids(&*store, Query::default())?;
    ensure!(!left.is_empty(), "a removal that was dropped after three of 400 went on to the end");
    ensure!(!left.iter().any(|id| told.contains(id)), "what was told to be removed is still there");
    Ok(())
}

fn beside_readers(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?];
    let written = ids(&append_many(&*stores[0], "task", 60)?);
    at_once(3, |number| {
        if number == 0 {
            let selection = Selection { ids: written.iter().copied().collect(), ..Selection::default() };
            ensure_eq!(remove(&*stores[0], selection)?.len(), 60, "the messages told");
            return Ok(());
        }
        let mut before = 60;
        while before > 0 {
            let found = count(&*stores[1])?;
            ensure!(found <= before, "a reader saw {before} messages, then {found}, while they were removed");
            before = found;
        }
        Ok(())
    })
    .map(drop)
}

fn by_both(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let (messages, cutoff) = by_the_clock(&*store)?;
    let all: Vec<_> = messages.iter().map(|message| message.id).collect();
    remove(&*store, Selection { before: Some(cutoff), ids: [all[1], all[3]].into(), ..Selection::default() })?;
    ensure_eq!(scan_ids(&*store, Query::default())?, [all[0], all[2], all[3]], "what is left");
    Ok(())
}

fn by_nothing(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    ensure_eq!(remove(&*store, Selection::default())?, [], "what an empty selection tells");
    let unknown = Selection { ids: [fmail_api::MessageId::MIN].into(), ..Selection::default() };
    ensure_eq!(remove(&*store, unknown)?, [], "what an unknown id tells");
    ensure_eq!(scan_ids(&*store, Query::default())?, ids(&world), "what is left");
    Ok(())
}

fn every_place(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    let id = world[2].id;
    let told = places(&remove(&*store, Selection { ids: [id].into(), ..Selection::default() })?)?;
    ensure_eq!(told, BTreeSet::from([format!("@bob {id}"), format!("@carol {id}")]), "what is told");
    ensure_eq!(scan_ids(&*store, Query::target(target("@carol")))?, [], "what @carol holds");
    ensure_eq!(scan_ids(&*store, Query::target(target("@bob")))?, [world[4].id], "what @bob holds");
    Ok(())
}

fn dry_run(bench: &Bench) -> Verdict {
    for everything in [false, true] {
        let fresh = bench.another()?;
        let store = fresh.open()?;
        let world = world(&*store)?;
        let selection = if everything {
            Selection { before: Some(now().after(Duration::from_secs(60))), ..Selection::default() }
        } else {
            Selection { ids: [world[0].id, world[2].id].into(), ..Selection::default() }
        };
        let told = places(&remove(&*store, Selection { dry_run: true, ..selection.clone() })?)?;
        ensure_eq!(scan_ids(&*store, Query::default())?, ids(&world), "what is left after a dry run");
        ensure_eq!(places(&remove(&*store, selection)?)?, told, "what the removal tells, against its dry run");
        ensure_eq!(count(&*store)?, if everything { 0 } else { 3 }, "messages after the removal behind a dry run");
    }
    Ok(())
}
