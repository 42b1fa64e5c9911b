//! Several recipients (A9).

use fmail_api::{Draft, Query, Recipients, Since};

use super::SCOPE;
use crate::case::ensure_eq;
use crate::kit::{agent, append, draft, end, next, scan_ids, target, watch};
use crate::{Bench, Case, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "A9", name: "one_message_is_in_every_recipients_mailbox", needs: &[SCOPE], check: in_every_mailbox },
    Case { rule: "A9", name: "a_scan_over_all_delivers_it_once", needs: &[SCOPE], check: once_in_all },
    Case { rule: "A9", name: "a_watch_over_all_delivers_it_once", needs: &[SCOPE], check: once_in_a_watch },
    Case {
        rule: "A9",
        name: "a_cursor_of_all_is_behind_it_in_every_mailbox",
        needs: &[SCOPE],
        check: behind_it_everywhere,
    },
    Case { rule: "A9", name: "a_recipient_named_twice_gets_it_once", needs: &[SCOPE], check: named_twice },
];

fn to_many() -> Draft {
    let more = Recipients { recipients: vec![target("@carol"), target("review")], cc: vec![target("@dave")] };
    Draft { more, ..draft("@bob", "to many") }
}

fn in_every_mailbox(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let id = append(&*store, to_many())?.id;
    for place in ["@bob", "@carol", "@dave", "review"] {
        ensure_eq!(scan_ids(&*store, Query::target(target(place)))?, [id], "what {place} holds");
    }
    for place in ["@alice", "@erin", "task"] {
        ensure_eq!(scan_ids(&*store, Query::target(target(place)))?, [], "what {place} holds");
    }
    Ok(())
}

fn once_in_all(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let id = append(&*store, to_many())?.id;
    ensure_eq!(scan_ids(&*store, Query::default())?, [id], "a scan over all");
    // Dave sees it in his mailbox and in the topic.
    ensure_eq!(scan_ids(&*store, Query::visible(agent("dave")))?, [id], "a scan over what dave sees");
    Ok(())
}

fn once_in_a_watch(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let start = end(&*store)?;
    let mut all = watch(&*store, Query::default(), &start)?;
    let mut dave = watch(&*store, Query::visible(agent("dave")), &start)?;
    let mut mailbox = watch(&*store, Query::target(target("@dave")), &start)?;
    let first = append(&*store, to_many())?.id;
    let second = append(&*store, to_many())?.id;
    for (stream, whose) in [(&mut all, "over all"), (&mut dave, "over what dave sees"), (&mut mailbox, "on @dave")] {
        let seen = [next(stream)?.message.id, next(stream)?.message.id];
        ensure_eq!(seen, [first, second], "a watch {whose}");
    }
    Ok(())
}

/// Whoever has seen it in one mailbox, or among all, and goes on in another one behind it, does not see it again.
fn behind_it_everywhere(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut all = watch(&*store, Query::default(), &end(&*store)?)?;
    append(&*store, to_many())?;
    let cursor = next(&mut all)?.cursor.clone();
    let places = ["@bob", "@carol", "@dave", "review"];
    for place in places {
        let rest = Query { since: Some(Since::Cursor(cursor.clone())), ..Query::target(target(place)) };
        ensure_eq!(scan_ids(&*store, rest)?, [], "what {place} holds behind the cursor");
    }
    let watches = places.map(|place| (place, watch(&*store, Query::target(target(place)), &cursor)));
    let second = append(&*store, to_many())?.id;
    for (place, watching) in watches {
        ensure_eq!(next(&mut watching?)?.message.id, second, "a watch on {place} from the cursor on");
    }
    Ok(())
}

fn named_twice(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let more = Recipients { recipients: vec![target("@bob"), target("@carol")], cc: vec![target("@carol")] };
    let id = append(&*store, Draft { more, ..draft("@bob", "twice") })?.id;
    for place in ["@bob", "@carol"] {
        ensure_eq!(scan_ids(&*store, Query::target(target(place)))?, [id], "what {place} holds");
    }
    ensure_eq!(scan_ids(&*store, Query::default())?, [id], "a scan over all");
    Ok(())
}
