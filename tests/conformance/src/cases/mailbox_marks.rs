//! B3, B4, B7: what a store that keeps the states of mail itself notes about it.

use fmail_api::{ErrorKind, Folder, Mark, MessageId, Store};
use futures::executor::block_on;

use super::mailbox::{FACET, FOLDERS, count, facet, listed, to_bob};
use crate::case::{ensure, ensure_eq};
use crate::kit::{agent, append, draft, refused, target};
use crate::{Bench, Case, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "B3", name: "what_is_read_is_read_from_then_on", needs: FACET, check: read },
    Case { rule: "B3", name: "what_is_read_stays_open", needs: FACET, check: stays_open },
    Case { rule: "B4", name: "a_mark_says_whether_it_changed_anything", needs: FACET, check: says },
    Case { rule: "B4", name: "a_mark_moves_the_message", needs: FACET, check: moves },
    Case { rule: "B4", name: "a_mark_on_an_unknown_message_is_not_found", needs: FACET, check: unknown },
    Case { rule: "B7", name: "a_mark_is_the_agents_own", needs: FACET, check: own },
];

fn read(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let sent = to_bob(&*store, 2)?;
    let (bob, mailbox) = (agent("bob"), facet(&*store)?);
    let mail = block_on(mailbox.read(&bob, sent[0].id))?;
    ensure_eq!(mail.message.id, sent[0].id, "`read` gives another message");
    ensure!(mail.state.is_read(), "`read` gives the message in the state {:?}, which is not read", mail.state);
    ensure!(block_on(mailbox.peek(&bob, sent[0].id))?.state.is_read(), "behind `read` the message is not read");
    ensure_eq!(listed(&*store, "bob", Folder::Unread)?, [sent[1].id], "what is unread behind a `read`");
    // Once more is no mistake.
    ensure!(block_on(mailbox.read(&bob, sent[0].id))?.state.is_read(), "a second `read` made the message unread");
    Ok(())
}

fn stays_open(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let id = to_bob(&*store, 1)?[0].id;
    let mail = block_on(facet(&*store)?.read(&agent("bob"), id))?;
    ensure!(mail.state.is_open(), "`read` has closed the message: {:?}", mail.state);
    ensure_eq!(listed(&*store, "bob", Folder::Open)?, [id], "what is open behind a `read`");
    ensure_eq!(listed(&*store, "bob", Folder::Archived)?, [], "what is archived behind a `read`");
    Ok(())
}

/// Marks; nothing when the backend has no notion of the mark.
fn mark(store: &dyn Store, id: MessageId, mark: Mark) -> Verdict<Option<bool>> {
    match block_on(facet(store)?.mark(&agent("bob"), id, mark)) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// Each mark with what has to be there for it to change something.
const MARKS: [(Mark, Option<Mark>); 7] = [
    (Mark::Retrieved, None),
    (Mark::Read, None),
    (Mark::Unread, Some(Mark::Read)),
    (Mark::Acknowledged, None),
    (Mark::Archived, None),
    (Mark::Unarchived, Some(Mark::Archived)),
    (Mark::Deleted, None),
];

fn says(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    for (what, before) in MARKS {
        let id = to_bob(&*store, 1)?[0].id;
        if let Some(before) = before
            && mark(&*store, id, before)?.is_none()
        {
            continue;
        }
        let state = |when: &str| {
            let found = FOLDERS.map(|folder| listed(&*store, "bob", folder).map(|ids| ids.contains(&id)));
            let [unread, open, archived] = found;
            Ok::<_, crate::Failure>((when.to_string(), unread?, open?, archived?))
        };
        let at_first = state("")?;
        match mark(&*store, id, what)? {
            None => ensure_eq!(state("")?, at_first, "{what:?} is `unsupported`, and has changed something"),
            Some(changed) => {
                ensure!(changed, "the first {what:?} says that it has changed nothing");
                let again = block_on(facet(&*store)?.mark(&agent("bob"), id, what));
                if what == Mark::Deleted && again.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                    continue;
                }
                ensure!(!again?, "the second {what:?} does not say that it was so already");
            }
        }
    }
    Ok(())
}

fn moves(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let id = to_bob(&*store, 1)?[0].id;
    let steps: [(Mark, [bool; 3]); 6] = [
        (Mark::Read, [false, true, false]),
        (Mark::Unread, [true, true, false]),
        (Mark::Archived, [false, false, true]),
        (Mark::Unarchived, [true, true, false]),
        (Mark::Archived, [false, false, true]),
        (Mark::Deleted, [false, false, false]),
    ];
    for (what, expected) in steps {
        if mark(&*store, id, what)?.is_none() {
            // What follows would begin elsewhere.
            return Ok(());
        }
        for (folder, expected) in FOLDERS.into_iter().zip(expected) {
            let there = listed(&*store, "bob", folder)?.contains(&id);
            ensure_eq!(there, expected, "whether a message marked {what:?} is in the folder {folder:?}");
        }
    }
    Ok(())
}

fn unknown(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    to_bob(&*store, 1)?;
    let nobody: MessageId = "20200101-000000-0000".parse()?;
    let marked = block_on(facet(&*store)?.mark(&agent("bob"), nobody, Mark::Read));
    if marked.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported) {
        return Ok(());
    }
    refused(marked, ErrorKind::NotFound, "a mark on an unknown id")
}

fn own(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut draft = draft("@bob", "for both");
    draft.more.cc = vec![target("@carol")];
    let id = append(&*store, draft)?.id;
    let carol = agent("carol");
    let before = block_on(facet(&*store)?.peek(&carol, id))?.state;
    block_on(facet(&*store)?.read(&agent("bob"), id))?;
    mark(&*store, id, Mark::Archived)?;
    let after = block_on(facet(&*store)?.peek(&carol, id))?.state;
    ensure_eq!(after, before, "bob has read and archived the message, and for carol it has changed");
    ensure_eq!(listed(&*store, "carol", Folder::Unread)?, [id], "what carol has not read");
    ensure_eq!(count(&*store, "carol")?, (1, 1), "carol's count");
    Ok(())
}
