//! B1, B2, B5, B6: what a store that keeps the states of mail itself shows of it.

use std::sync::Arc;

use fmail_api::{Draft, ErrorKind, Folder, Mail, MailCount, Mailbox, Mark, Message, MessageId, Priority, Store};
use futures::executor::block_on;
use serde_json::json;

use crate::case::{ensure, ensure_eq};
use crate::kit::{agent, append, draft, ids, refused, target};
use crate::{Bench, Case, Failure, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: "B1", name: "an_inbox_is_the_agents_mail_oldest_first", needs: FACET, check: oldest_first },
    Case { rule: "B1", name: "mail_comes_with_all_that_was_sent", needs: FACET, check: whole },
    Case { rule: "B1", name: "listing_changes_nothing", needs: FACET, check: listing },
    Case { rule: "B1", name: "a_mailbox_without_mail_is_empty", needs: FACET, check: empty },
    Case { rule: "B1", name: "mail_to_several_is_in_each_mailbox", needs: FACET, check: several },
    Case { rule: "B2", name: "looking_changes_nothing", needs: FACET, check: looking },
    Case { rule: "B2", name: "an_unknown_message_is_not_found", needs: FACET, check: unknown },
    Case { rule: "B5", name: "a_count_is_what_the_inbox_lists", needs: FACET, check: counted },
    Case { rule: "B6", name: "a_thread_is_what_the_agent_may_read_of_it_oldest_first", needs: FACET, check: threaded },
    Case { rule: "B6", name: "a_thread_named_by_a_message_begins_with_it", needs: FACET, check: begun },
    Case { rule: "B6", name: "an_unknown_thread_is_empty", needs: FACET, check: no_thread },
];

pub(super) const FACET: &[Need] = &[Need::Mailbox];
pub(super) const FOLDERS: [Folder; 3] = [Folder::Unread, Folder::Open, Folder::Archived];

/// The facet of a store under test.
pub(super) fn facet(store: &dyn Store) -> Verdict<&dyn Mailbox> {
    store.mailbox().ok_or_else(|| Failure::new("the store offers no mailbox, and did when the case began"))
}

/// What an agent's folder lists.
pub(super) fn listed(store: &dyn Store, name: &str, folder: Folder) -> Verdict<Vec<MessageId>> {
    Ok(ids_of(&block_on(facet(store)?.inbox(&agent(name), folder))?))
}

pub(super) fn count(store: &dyn Store, name: &str) -> Verdict<(u64, u64)> {
    let MailCount { total, unread, .. } = block_on(facet(store)?.count(&agent(name)))?;
    Ok((total, unread))
}

/// Messages to bob, one behind the other.
pub(super) fn to_bob(store: &dyn Store, number: usize) -> Verdict<Vec<Arc<Message>>> {
    (0..number).map(|number| append(store, draft("@bob", format!("text {number}")))).collect()
}

fn ids_of(mail: &[Mail]) -> Vec<MessageId> {
    mail.iter().map(|mail| mail.message.id).collect()
}

/// Between mail of others and messages of topics.
fn oldest_first(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut mine = Vec::new();
    for number in 0..4 {
        mine.push(append(&*store, draft("@bob", number))?.id);
        append(&*store, draft("@carol", number))?;
        append(&*store, draft("task", number))?;
    }
    for folder in [Folder::Unread, Folder::Open] {
        ensure_eq!(
            listed(&*store, "bob", folder)?,
            mine,
            "the folder {folder:?} is not the agent's mail, oldest first"
        );
    }
    ensure_eq!(listed(&*store, "bob", Folder::Archived)?, [], "nothing was archived");
    Ok(())
}

fn whole(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let odd = json!({"text": "Grüße, 你好, 🦀 \" \\ \n", "list": [1, null, {"deep": [[]]}]});
    let mut draft = Draft { thread: Some("plan".into()), ..Draft::new(agent("alice"), target("@bob"), odd) };
    draft.subject = Some("Parser".into());
    draft.priority = Priority::High;
    let sent = append(&*store, draft)?;
    let bob = agent("bob");
    let mailbox = facet(&*store)?;
    let listed = block_on(mailbox.inbox(&bob, Folder::Unread))?;
    let [mail] = &listed[..] else {
        return Err(Failure::new(format!("one message was sent, the inbox has {}", listed.len())));
    };
    ensure_eq!(mail.message.to_line(), sent.to_line(), "the inbox has another message than the one that was sent");
    let peeked = block_on(mailbox.peek(&bob, sent.id))?;
    ensure_eq!(peeked.message.to_line(), sent.to_line(), "`peek` gives another message than the one that was sent");
    ensure!(!peeked.state.is_read() && peeked.state.is_open(), "new mail is in the state {:?}", peeked.state);
    Ok(())
}

fn listing(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mine = ids(&to_bob(&*store, 2)?);
    for _ in 0..3 {
        for (folder, expected) in FOLDERS.into_iter().zip([&mine[..], &mine, &[]]) {
            ensure_eq!(listed(&*store, "bob", folder)?, expected, "listing has changed the folder {folder:?}");
        }
    }
    Ok(())
}

fn empty(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    append(&*store, draft("@carol", "not for bob"))?;
    for folder in FOLDERS {
        ensure_eq!(listed(&*store, "bob", folder)?, [], "nobody has written to this mailbox");
    }
    ensure_eq!(count(&*store, "bob")?, (0, 0), "the count of a mailbox that nobody has written to");
    Ok(())
}

fn several(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let mut draft = draft("@bob", "for both");
    draft.more.cc = vec![target("@carol")];
    let id = append(&*store, draft)?.id;
    for name in ["bob", "carol"] {
        ensure_eq!(listed(&*store, name, Folder::Unread)?, [id], "the mail to two recipients, as {name} sees it");
    }
    ensure_eq!(listed(&*store, "dave", Folder::Unread)?, [], "the mail is not for dave");
    Ok(())
}

fn looking(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let id = to_bob(&*store, 1)?[0].id;
    let (bob, mailbox) = (agent("bob"), facet(&*store)?);
    let first = block_on(mailbox.peek(&bob, id))?;
    let second = block_on(mailbox.peek(&bob, id))?;
    ensure_eq!(second.state, first.state, "looking has changed the state");
    ensure_eq!(listed(&*store, "bob", Folder::Unread)?, [id], "looking has made the message read");
    Ok(())
}

fn unknown(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    to_bob(&*store, 1)?;
    let (bob, mailbox) = (agent("bob"), facet(&*store)?);
    let nobody: MessageId = "20200101-000000-0000".parse()?;
    refused(block_on(mailbox.peek(&bob, nobody)), ErrorKind::NotFound, "`peek` of an unknown id")?;
    refused(block_on(mailbox.read(&bob, nobody)), ErrorKind::NotFound, "`read` of an unknown id")
}

fn counted(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let sent = to_bob(&*store, 6)?;
    let (bob, mailbox) = (agent("bob"), facet(&*store)?);
    let check = |what: &str| {
        let expected =
            (listed(&*store, "bob", Folder::Open)?.len() as u64, listed(&*store, "bob", Folder::Unread)?.len() as u64);
        ensure_eq!(count(&*store, "bob")?, expected, "the count {what}, against what the inbox lists");
        Ok(())
    };
    check("of new mail")?;
    block_on(mailbox.read(&bob, sent[0].id))?;
    check("behind a read")?;
    for (message, mark) in sent.iter().skip(1).zip([Mark::Archived, Mark::Deleted, Mark::Acknowledged]) {
        match block_on(mailbox.mark(&bob, message.id, mark)) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            other => drop(other?),
        }
        check(&format!("behind the mark {mark:?}"))?;
    }
    Ok(())
}

fn threaded(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let send = |to: &str, thread: &str| {
        append(&*store, Draft { thread: Some(thread.into()), ..draft(to, "text") }).map(|message| message.id)
    };
    let first = send("@bob", "plan")?;
    send("@carol", "plan")?;
    send("@bob", "other")?;
    append(&*store, draft("@bob", "in no thread"))?;
    let second = send("@bob", "plan")?;
    let thread = block_on(facet(&*store)?.thread(&agent("bob"), "plan"))?;
    ensure_eq!(ids_of(&thread), [first, second], "the thread is not what bob may read of it, oldest first");
    // What was read is still part of it.
    block_on(facet(&*store)?.read(&agent("bob"), first))?;
    let thread = block_on(facet(&*store)?.thread(&agent("bob"), "plan"))?;
    ensure_eq!(ids_of(&thread), [first, second], "the thread, after its first message was read");
    ensure!(thread[0].state.is_read(), "the thread does not tell that its first message was read");
    Ok(())
}

/// As a reply makes it: the first message has no thread of its own.
fn begun(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    let first = append(&*store, draft("@bob", "first"))?.id;
    let reply = Draft { thread: Some(first.to_string()), ..draft("@bob", "second") };
    let second = append(&*store, reply)?.id;
    let thread = block_on(facet(&*store)?.thread(&agent("bob"), &first.to_string()))?;
    ensure_eq!(ids_of(&thread), [first, second], "a thread that has the name of its first message");
    Ok(())
}

fn no_thread(bench: &Bench) -> Verdict {
    let store = bench.open()?;
    to_bob(&*store, 1)?;
    let thread = block_on(facet(&*store)?.thread(&agent("bob"), "unknown"))?;
    ensure_eq!(ids_of(&thread), [], "a thread that nobody has written to");
    Ok(())
}
