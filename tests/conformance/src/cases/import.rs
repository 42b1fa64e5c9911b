//! Import: a message that has its id already (I1 to I5).

use std::collections::BTreeSet;
use std::time::Duration;

use fmail_api::{Imported, Message, MessageId, Priority, Query, RefusedReason, Selection, Store, Timestamp};
use futures::executor::{block_on, block_on_stream};
use serde_json::json;

use super::{ORDER, SCOPE};
use crate::case::{ensure, ensure_eq};
use crate::kit::{append, arrivals, at_once, count, draft, end, find, foreign, next, now, scan_ids, target, watch};
use crate::{Bench, Case, Failure, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case {
        rule: "I1",
        name: "an_import_keeps_its_id_and_every_field",
        needs: &[Need::Import],
        check: keeps_everything,
    },
    Case {
        rule: "I1",
        name: "an_import_with_an_older_id_is_a_new_arrival",
        needs: &[Need::Import, ORDER],
        check: arrives_last,
    },
    Case {
        rule: "I1",
        name: "an_import_is_in_every_recipients_mailbox",
        needs: &[Need::Import, SCOPE],
        check: every_mailbox,
    },
    Case { rule: "I2", name: "importing_twice_changes_nothing", needs: &[Need::Import], check: twice },
    Case {
        rule: "I2",
        name: "an_own_message_that_comes_back_is_a_duplicate",
        needs: &[Need::Import],
        check: comes_back,
    },
    Case {
        rule: "I2",
        name: "eight_imports_of_one_message_store_it_once",
        needs: &[Need::Import],
        check: one_of_eight,
    },
    Case {
        rule: "I3",
        name: "another_message_under_a_taken_id_gets_a_fresh_one",
        needs: &[Need::Import],
        check: collision,
    },
    Case {
        rule: "I3",
        name: "imports_and_appends_at_once_have_each_their_own_verdict",
        needs: &[Need::Import],
        check: all_at_once,
    },
    Case {
        rule: "I3",
        name: "a_relocated_message_that_comes_again_is_a_duplicate",
        needs: &[Need::Import],
        check: relocated_again,
    },
    Case {
        rule: "I3",
        name: "an_id_far_ahead_is_relocated_and_drags_nothing_along",
        needs: &[Need::Import],
        check: far_ahead,
    },
    Case {
        rule: "I4",
        name: "what_is_older_than_the_sweep_is_refused",
        needs: &[Need::Import, Need::Remove],
        check: below_horizon,
    },
    Case { rule: "I4", name: "a_dry_sweep_refuses_nothing", needs: &[Need::Import, Need::Remove], check: dry_sweep },
    Case { rule: "I4", name: "a_message_over_the_limit_is_refused", needs: &[Need::Import], check: too_large },
    Case {
        rule: "I5",
        name: "of_many_imports_together_each_has_its_own_verdict",
        needs: &[Need::Import],
        check: together,
    },
];

fn yesterday() -> Timestamp {
    now().before(Duration::from_secs(24 * 60 * 60))
}

fn import(store: &dyn Store, message: &Message) -> Verdict<Imported> {
    Ok(block_on(store.import(message.clone()))?)
}

fn import_new(store: &dyn Store, message: &Message) -> Verdict {
    ensure_eq!(import(store, message)?, Imported::New, "the answer to an import of {}", message.id);
    Ok(())
}

/// The id under which the store has put the message instead of its own.
fn import_relocated(store: &dyn Store, message: &Message) -> Verdict<MessageId> {
    match import(store, message)? {
        Imported::Relocated(id) => Ok(id),
        other => Err(Failure::new(format!("an import that has to be relocated is answered with {other:?}"))),
    }
}

/// Each message is asked for again alone: what was told of it among the others has to be true.
fn together(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    // Asked once: an id has the second in it.
    let born = yesterday();
    let messages: Vec<Message> = (0..70).map(|number| foreign("task", born, 20 + number, number)).collect();
    import_new(&*store, &messages[3])?;
    let large = "x".repeat(store.capabilities().max_message_bytes + 1);
    let mut all = messages.clone();
    all[7] = foreign("task", born, 27, large);
    // One twice, and another message under the id of one that comes before it.
    all.push(messages[0].clone());
    all.push(foreign("task", born, 21, "another"));
    let verdicts = block_on(store.import_many(all.clone()));
    ensure_eq!(verdicts.len(), all.len(), "the number of verdicts");
    for (number, verdict) in verdicts.into_iter().enumerate() {
        let verdict = verdict?;
        let expected = match number {
            3 | 70 => verdict == Imported::Duplicate,
            7 => verdict == Imported::Refused(RefusedReason::TooLarge),
            71 => matches!(verdict, Imported::Relocated(_)),
            _ => verdict == Imported::New,
        };
        ensure!(expected, "message {number} of many is answered with {verdict:?}");
        if number != 7 {
            ensure_eq!(import(&*store, &all[number])?, Imported::Duplicate, "message {number} when it comes again");
        }
    }
    Ok(())
}

fn keeps_everything(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut message = foreign("@bob", yesterday(), 17, json!({"n": 1}));
    message.time = message.time.after(Duration::from_millis(250));
    message.more.cc = vec![target("@carol")];
    message.reply_to = Some(foreign("x", yesterday(), 3, 0).id);
    message.priority = Priority::Low;
    message.host = Some("elsewhere".into());
    message.tags = "a".parse().into_iter().collect();
    message.subject = Some("subject".into());
    message.thread = Some("thread".into());
    message.ack_required = true;
    message.expires = Some(now());
    message.key = Some("their key".into());
    message.origin_id = Some(foreign("x", yesterday(), 5, 0).id);
    message.extra.insert("x_kept".into(), json!(["as", "is"]));
    import_new(&*store, &message)?;
    ensure_eq!(find(&*bench.open()?, message.id)?.to_line(), message.to_line(), "an import reads back changed");
    Ok(())
}

fn arrives_last(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let own = append(&*store, draft("task", "own"))?.id;
    let cursor = end(&*store)?;
    let mut stream = watch(&*store, Query::default(), &cursor)?;
    let late = foreign("task", yesterday(), 0, "late");
    import_new(&*store, &late)?;
    ensure_eq!(next(&mut stream)?.message.id, late.id, "a watch delivers");
    ensure_eq!(scan_ids(&*store, arrivals())?, [own, late.id], "the order of arrival");
    ensure_eq!(scan_ids(&*store, Query::default())?, [late.id, own], "the order of ids");
    let behind = append(&*store, draft("task", "behind"))?.id;
    ensure!(behind > own, "after an import with an old id, {behind} was assigned below {own}");
    Ok(())
}

fn every_mailbox(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut message = foreign("@bob", yesterday(), 0, "to two");
    message.more.recipients = vec![target("@carol")];
    import_new(&*store, &message)?;
    for place in ["@bob", "@carol"] {
        ensure_eq!(scan_ids(&*store, Query::target(target(place)))?, [message.id], "what {place} holds");
    }
    Ok(())
}

fn twice(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut message = foreign("task", yesterday(), 0, json!({"a": 1, "b": 2}));
    message.subject = Some("kept".into());
    import_new(&*store, &message)?;
    // A plain peer drops fields and may write an object's keys in another order.
    let plain = Message { subject: None, body: json!({"b": 2, "a": 1}), ..message.clone() };
    for again in [&message, &plain] {
        ensure_eq!(import(&*bench.open()?, again)?, Imported::Duplicate, "the answer to the second import");
    }
    ensure_eq!(count(&*store)?, 1, "messages after importing one three times");
    ensure_eq!(find(&*store, message.id)?.to_line(), message.to_line(), "a duplicate changed the message");
    Ok(())
}

fn comes_back(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let own = append(&*store, draft("task", "own"))?;
    ensure_eq!(import(&*store, &own)?, Imported::Duplicate, "the answer when an own message comes back");
    ensure_eq!(count(&*store)?, 1, "messages after an own one came back");
    Ok(())
}

fn one_of_eight(bench: &Bench) -> Verdict {
    let stores = [bench.open()?, bench.open()?];
    let message = foreign("task", yesterday(), 0, "one");
    let answers = at_once(8, |number| import(&*stores[number % 2], &message))?;
    let new = answers.iter().filter(|answer| **answer == Imported::New).count();
    let duplicates = answers.iter().filter(|answer| **answer == Imported::Duplicate).count();
    ensure_eq!((new, duplicates), (1, 7), "new and duplicate answers of eight imports");
    ensure_eq!(count(&*stores[0])?, 1, "messages after eight imports of one");
    Ok(())
}

fn collision(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let own = append(&*store, draft("task", "own"))?;
    let mut other = Message { body: json!("theirs"), ..(*own).clone() };
    other.to = target("@bob");
    other.subject = Some("kept".into());
    let fresh = import_relocated(&*store, &other)?;
    ensure!(fresh > own.id, "a relocated message got {fresh}, below {}", own.id);
    ensure_eq!(find(&*store, own.id)?.to_line(), own.to_line(), "a collision changed the message that was there");
    let expected = Message { id: fresh, origin_id: Some(own.id), ..other };
    ensure_eq!(find(&*store, fresh)?.to_line(), expected.to_line(), "the relocated message");
    Ok(())
}

/// Of every id two messages come, each four times and from several threads, among appends.
fn all_at_once(bench: &Bench) -> Verdict {
    const IDS: usize = 12;
    let (store, day) = (bench.open()?, yesterday());
    let answers = at_once(8, |thread| {
        let mut answers = Vec::new();
        for round in 0..IDS {
            // Every thread begins elsewhere, so that the same messages meet in every combination.
            let tick = ((round + thread * 5) % IDS) as u64;
            let said = if thread % 2 == 0 { "one" } else { "two" };
            answers.push((said, tick, import(&*store, &foreign("task", day, tick, json!([said, tick])))?));
            append(&*store, draft("task", format!("own {thread} {round}")))?;
        }
        Ok(answers)
    })?;
    for tick in 0..IDS as u64 {
        let of = |said: &str| {
            let all = answers.iter().flatten().filter(|answer| (answer.0, answer.1) == (said, tick));
            all.map(|answer| answer.2.clone()).filter(|answer| *answer != Imported::Duplicate).collect::<Vec<_>>()
        };
        let (one, two) = (of("one"), of("two"));
        ensure_eq!((one.len(), two.len()), (1, 1), "answers other than `duplicate` to each of two messages of one id");
        let new = one.iter().chain(&two).filter(|answer| **answer == Imported::New).count();
        ensure_eq!(new, 1, "messages that kept an id that two came with");
    }
    let ids = scan_ids(&*store, Query::default())?;
    ensure_eq!(ids.len(), 10 * IDS, "messages behind it");
    ensure_eq!(ids.into_iter().collect::<BTreeSet<_>>().len(), 10 * IDS, "ids behind it");
    Ok(())
}

fn relocated_again(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let first = foreign("task", yesterday(), 0, "first");
    let second = Message { body: json!("second"), ..first.clone() };
    import_new(&*store, &first)?;
    let fresh = import_relocated(&*store, &second)?;
    let from_here = find(&*store, fresh)?;
    for again in [&first, &second, &*from_here] {
        ensure_eq!(import(&*bench.open()?, again)?, Imported::Duplicate, "the answer when it comes again");
    }
    ensure_eq!(count(&*store)?, 2, "messages after a collision came again");
    Ok(())
}

fn far_ahead(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let planted = foreign("task", Timestamp::from_unix(4_070_908_800, 0), 1, "from 2099");
    let fresh = import_relocated(&*store, &planted)?;
    let message = find(&*store, fresh)?;
    ensure_eq!(message.origin_id, Some(planted.id), "the origin of a message whose id was too far ahead");
    let soon = MessageId::at(now().after(Duration::from_secs(61)));
    for number in 0..10 {
        let id = append(&*store, draft("task", number))?.id;
        ensure!(fresh < id && id < soon, "behind an import from 2099 the id {id} was assigned");
    }
    ensure_eq!(import(&*store, &planted)?, Imported::Duplicate, "the answer when it comes again");
    Ok(())
}

fn sweep(store: &dyn Store, before: Timestamp, dry_run: bool) -> Verdict {
    let selection = Selection { before: Some(before), dry_run, ..Selection::default() };
    for removed in block_on_stream(block_on(store.remove(selection))?) {
        removed?;
    }
    Ok(())
}

fn below_horizon(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let horizon = yesterday();
    let old = foreign("task", horizon.before(Duration::from_secs(10)), 0, "old");
    import_new(&*store, &old)?;
    sweep(&*store, horizon, false)?;
    let never_seen = foreign("task", horizon.before(Duration::from_secs(1)), 0, "older than the sweep");
    for message in [&old, &never_seen] {
        let answer = import(&*bench.open()?, message)?;
        ensure_eq!(answer, Imported::Refused(RefusedReason::BelowHorizon), "the answer to what was swept away");
    }
    ensure_eq!(count(&*store)?, 0, "messages after refused imports");
    // A sweep with an earlier time does not lower what is swept already.
    sweep(&*store, horizon.before(Duration::from_secs(5)), false)?;
    let answer = import(&*store, &never_seen)?;
    ensure_eq!(answer, Imported::Refused(RefusedReason::BelowHorizon), "the answer after an earlier sweep");
    import_new(&*store, &foreign("task", horizon, 0, "exactly at the sweep's time"))
}

fn dry_sweep(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    sweep(&*store, now(), true)?;
    import_new(&*store, &foreign("task", yesterday(), 0, "old"))
}

fn too_large(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let large = foreign("task", yesterday(), 0, "x".repeat(store.capabilities().max_message_bytes + 100));
    let answer = import(&*store, &large)?;
    ensure_eq!(answer, Imported::Refused(RefusedReason::TooLarge), "the answer to a message over the limit");
    ensure_eq!(count(&*store)?, 0, "messages after a refused import");
    Ok(())
}
