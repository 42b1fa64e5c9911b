//! Scan: what is delivered (Q1, Q5).

use std::sync::Arc;

use fmail_api::{Draft, Message, MessageId, Query, Scope, Since, Store, Target};
use futures::executor::block_on;

use super::{FROM, IDS, SCOPE, THREAD};
use crate::case::{ensure, ensure_eq};
use crate::kit::{agent, append, draft, end, ids, next, scan, scan_ids, target, watch};
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "Q1", name: "scopes_hold_exactly_what_they_name", needs: &[SCOPE, Need::Topics], check: scopes },
    Case { rule: "Q1", name: "ids_choose_exactly_those_messages", needs: &[IDS], check: by_ids },
    Case { rule: "Q1", name: "an_ending_chooses_the_ids_that_end_so", needs: &[IDS], check: by_ending },
    Case { rule: "Q1", name: "a_sender_chooses_only_its_messages", needs: &[FROM], check: by_sender },
    Case { rule: "Q1", name: "a_thread_chooses_only_its_messages", needs: &[THREAD], check: by_thread },
    Case { rule: "Q1", name: "all_conditions_hold_together", needs: &[SCOPE, FROM, THREAD, IDS], check: together },
    Case { rule: "Q5", name: "an_empty_project_is_empty_and_no_error", needs: &[], check: empty_project },
    Case { rule: "Q5", name: "unknown_places_and_ids_are_empty_and_no_error", needs: &[SCOPE, IDS], check: unknown },
];

/// Some messages of every kind: two senders, three topics, two mailboxes, two threads, two with several recipients.
fn world(store: &dyn Store) -> Verdict<Vec<Arc<Message>>> {
    let mut drafts = Vec::new();
    for (number, to) in ["task", "tas", "task-2", "@bob", "@bo", "@task"].into_iter().cycle().take(24).enumerate() {
        let mut draft = Draft {
            thread: [None, Some("plan"), Some("Plan")][number / 6 % 3].map(Into::into),
            ..draft(to, number as u64)
        };
        if number % 2 == 1 {
            draft.from = agent("bob");
        }
        if number % 12 == 0 {
            draft.more.recipients = vec![target("@bob")];
        }
        drafts.push(draft);
    }
    drafts.into_iter().map(|draft| append(store, draft)).collect()
}

/// The ids of those that fit, in ascending order, as the store should find them.
fn those(world: &[Arc<Message>], fits: impl Fn(&Message) -> bool) -> Vec<MessageId> {
    world.iter().filter(|message| fits(message)).map(|message| message.id).collect()
}

fn stands_in(message: &Message, place: impl Fn(&Target) -> bool) -> bool {
    place(&message.to) || message.more.recipients.iter().any(place)
}

fn check(store: &dyn Store, query: Query, expected: &[MessageId]) -> Verdict {
    ensure_eq!(scan_ids(store, query.clone())?, expected, "the messages that fit {query:?}");
    Ok(())
}

fn scopes(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    let scoped = |scope| Query { scope, ..Query::default() };
    check(&*store, scoped(Scope::All), &ids(&world))?;
    let topics = those(&world, |message| stands_in(message, |place| !place.is_direct()));
    check(&*store, scoped(Scope::Topics), &topics)?;
    for place in ["task", "tas", "task-2", "@bob", "@bo", "@task"].map(target) {
        let expected = those(&world, |message| stands_in(message, |found| *found == place));
        ensure!(!expected.is_empty(), "the suite has no message in {place}");
        check(&*store, Query::target(place), &expected)?;
    }
    for name in ["bob", "bo", "alice"] {
        let own = target(&format!("@{name}"));
        let expected = those(&world, |message| stands_in(message, |found| !found.is_direct() || *found == own));
        check(&*store, Query::visible(agent(name)), &expected)?;
    }
    Ok(())
}

fn by_ids(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = ids(&world(&*store)?);
    let chosen = |ids: &[MessageId]| Query { ids: ids.iter().copied().collect(), ..Query::default() };
    check(&*store, chosen(&world[3..4]), &world[3..4])?;
    check(&*store, chosen(&[world[9], world[2], world[9], MessageId::MIN]), &[world[2], world[9]])
}

fn by_ending(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    for length in [1, 4, 11, 20] {
        let text = world[5].id.to_string();
        let ending = text[text.len() - length..].to_string();
        let expected = those(&world, |message| message.id.to_string().ends_with(&ending));
        check(&*store, Query { id_suffix: Some(ending), ..Query::default() }, &expected)?;
    }
    check(&*store, Query { id_suffix: Some("x".into()), ..Query::default() }, &[])
}

fn by_sender(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    for name in ["alice", "bob", "bo"] {
        let expected = those(&world, |message| message.from.as_str() == name);
        check(&*store, Query { from: Some(agent(name)), ..Query::default() }, &expected)?;
    }
    Ok(())
}

fn by_thread(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    for name in ["plan", "Plan", "pla", ""] {
        let expected = those(&world, |message| message.thread.as_deref() == Some(name));
        check(&*store, Query { thread: Some(name.into()), ..Query::default() }, &expected)?;
    }
    Ok(())
}

fn together(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let world = world(&*store)?;
    let half: Vec<MessageId> = world.iter().step_by(2).chain(world.iter().skip(15)).map(|message| message.id).collect();
    for place in ["task", "@bob", "tas"].map(target) {
        for name in ["alice", "bob"] {
            for thread in ["plan", "Plan"] {
                let query = Query {
                    scope: Scope::Target(place.clone()),
                    ids: half.iter().copied().collect(),
                    from: Some(agent(name)),
                    thread: Some(thread.into()),
                    ..Query::default()
                };
                let expected = those(&world, |message| {
                    stands_in(message, |found| *found == place)
                        && half.contains(&message.id)
                        && message.from.as_str() == name
                        && message.thread.as_deref() == Some(thread)
                });
                check(&*store, query, &expected)?;
            }
        }
    }
    Ok(())
}

fn empty_project(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let page = scan(&*store, Query::default())?;
    ensure!(page.deliveries.is_empty() && !page.more, "an empty project is not empty");
    ensure!(block_on(store.summary(Query::default()))?.targets.is_empty(), "an empty project has targets");
    // The cursor of an empty project is worth as much as any other.
    let mut stream = watch(&*store, Query::default(), &page.cursor)?;
    let again = Query { since: Some(Since::Cursor(page.cursor)), ..Query::default() };
    check(&*store, again.clone(), &[])?;
    let first = append(&*bench.open()?, draft("task", "first"))?.id;
    ensure_eq!(next(&mut stream)?.message.id, first, "the first message of a project that a watch delivers");
    check(&*store, again, &[first])
}

fn unknown(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    append(&*store, draft("task", "one"))?;
    check(&*store, Query::target(target("nowhere")), &[])?;
    check(&*store, Query::target(target("@nobody")), &[])?;
    check(&*store, Query { ids: [MessageId::MIN].into(), ..Query::default() }, &[])?;
    check(&*store, Query { from: Some(agent("nobody")), ..Query::default() }, &[])?;
    let summary = block_on(store.summary(Query::target(target("nowhere"))))?;
    ensure!(summary.targets.is_empty(), "an unknown topic has a summary: {summary:?}");
    end(&*store).map(drop)
}
