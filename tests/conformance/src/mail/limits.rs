//! What the 32 leave out: order, flags, odd texts, size, unknown ids everywhere, archived mail in threads and counts,
//! several recipients, expiry, bulk, gc.

use std::time::Duration;

use fmail_api::{Bulk, ErrorKind, Folder, GcRequest, Mark, Request, Standing};

use super::kit::{Post, ids};
use crate::case::{ensure, ensure_eq};
use crate::kit::{foreign, refused};
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case { rule: super::MAIL, name: "mail_comes_oldest_first", needs: &[Need::States], check: oldest_first },
    Case { rule: super::MAIL, name: "all_open_mail_carries_its_flags", needs: &[Need::States], check: flags },
    Case { rule: super::MAIL, name: "odd_texts_arrive_as_they_are", needs: &[Need::States], check: odd_texts },
    Case { rule: super::MAIL, name: "a_large_body_arrives_whole", needs: &[Need::States], check: large_body },
    Case {
        rule: super::MAIL,
        name: "unknown_ids_are_errors_in_every_operation",
        needs: &[Need::States],
        check: unknown_ids,
    },
    Case {
        rule: super::MAIL,
        name: "archived_mail_stays_in_threads_and_leaves_counts",
        needs: &[Need::States],
        check: archived,
    },
    Case {
        rule: super::MAIL,
        name: "each_recipient_has_a_state_of_its_own",
        needs: &[Need::States],
        check: own_states,
    },
    Case { rule: super::MAIL, name: "an_observer_changes_nothing", needs: &[Need::States], check: observer },
    Case { rule: super::MAIL, name: "what_has_expired_is_no_unread_mail", needs: &[Need::States], check: expired },
    Case { rule: super::MAIL, name: "receipts_tell_each_step_once", needs: &[Need::States], check: receipts },
    Case { rule: super::MAIL, name: "bulk_changes_what_fits", needs: &[Need::States], check: bulk },
    Case {
        rule: super::MAIL,
        name: "a_late_arrival_is_unread",
        needs: &[Need::States, Need::Import],
        check: late_arrival,
    },
    Case {
        rule: super::MAIL,
        name: "removed_messages_are_in_no_count",
        needs: &[Need::States, Need::Remove, Need::Import],
        check: swept,
    },
    Case {
        rule: super::MAIL,
        name: "states_survive_close_and_reopen",
        needs: &[Need::States, Need::Durable],
        check: reopened,
    },
];

const UNKNOWN: &str = "20200101-000000-0000";

fn oldest_first(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent: Vec<_> = (0..20).map(|n| Ok(post.send("alice", "@bob", n)?.id)).collect::<Verdict<_>>()?;
    post.mark("bob", Mark::Read, sent[7])?;
    post.mark("bob", Mark::Unread, sent[7])?;
    ensure_eq!(post.inbox("bob")?, sent, "the inbox");
    ensure_eq!(ids(&post.folder("bob", Folder::Open)?), sent, "all open mail");
    Ok(())
}

fn flags(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent: Vec<_> = (0..3).map(|n| Ok(post.send("alice", "@bob", n)?.id)).collect::<Verdict<_>>()?;
    post.mark("bob", Mark::Read, sent[0])?;
    post.mark("bob", Mark::Acknowledged, sent[1])?;
    let found: Vec<_> = post.folder("bob", Folder::Open)?.iter().map(|mail| mail.standing).collect();
    let expected = [Standing::Read, Standing::Acknowledged, Standing::Unread].map(Some);
    ensure_eq!(found, expected, "how open mail stands");
    Ok(())
}

fn odd_texts(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let texts =
        ["\"quoted\" 'single' `back`", "a\nb\r\n\tc", "snowman ☃ and 漢字 and 🦀", "\u{0}\u{1b}[31m", "<x>&amp;"];
    for text in texts {
        let sent = post.send_with("alice", "@bob", text, |mut request| {
            request.subject = Some(text.into());
            request
        })?;
        let kept = post.read("bob", sent.id, false)?.message;
        ensure_eq!(kept.body.as_str(), Some(text), "a body");
        ensure_eq!(kept.subject.as_deref(), Some(text), "a subject");
    }
    Ok(())
}

fn large_body(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let size = post.store.capabilities().max_message_bytes.saturating_sub(4096).min(1_000_000);
    let body = "x".repeat(size);
    let id = post.send("alice", "@bob", body.as_str())?.id;
    ensure!(post.folder("bob", Folder::Unread)?[0].message.body == body, "a body of {size} bytes came back changed");
    ensure!(post.read("bob", id, false)?.message.body == body, "a body of {size} bytes was read changed");
    Ok(())
}

fn unknown_ids(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let id = post.send("alice", "@bob", "x")?.id;
    let marks = [Mark::Read, Mark::Unread, Mark::Acknowledged, Mark::Archived, Mark::Unarchived, Mark::Deleted];
    for mark in marks {
        refused(post.mark("bob", mark, UNKNOWN), ErrorKind::NotFound, &format!("{mark:?} of an unknown id"))?;
        refused(post.mark("eve", mark, id), ErrorKind::NotFound, &format!("{mark:?} of somebody else's mail"))?;
        refused(post.mark("bob", mark, "not an id"), ErrorKind::InvalidRequest, &format!("{mark:?} of no id"))?;
    }
    refused(post.reply("bob", UNKNOWN, "x"), ErrorKind::NotFound, "a reply to an unknown id")?;
    refused(post.receipt("bob", UNKNOWN), ErrorKind::NotFound, "the receipt of an unknown id")?;
    refused(post.receipt("eve", id), ErrorKind::NotFound, "the receipt of somebody else's mail")?;
    refused(post.mark("alice", Mark::Read, id), ErrorKind::Denied, "the sender marking the recipient's mail")?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox behind all that");
    Ok(())
}

fn archived(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let id = post.send("alice", "@bob", "x")?.id;
    let reply = post.reply("bob", id, "y")?.id;
    post.mark("bob", Mark::Archived, id)?;
    ensure_eq!(ids(&post.thread("bob", id)?), [id, reply], "the thread of an archived message");
    ensure_eq!(post.count("bob")?, (0, 0), "the count behind an archive");
    post.mark("bob", Mark::Unarchived, id)?;
    ensure_eq!(post.count("bob")?, (1, 1), "the count when it is open again");
    Ok(())
}

fn own_states(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent = post.send_with("alice", "@bob", "both", |mut request| {
        request.recipients = vec!["@carol".parse().unwrap_or(request.to.clone())];
        request
    })?;
    post.mark("bob", Mark::Archived, sent.id)?;
    ensure_eq!(post.inbox("carol")?, [sent.id], "the inbox of the other recipient");
    post.mark("bob", Mark::Deleted, sent.id)?;
    ensure_eq!(post.inbox("carol")?, [sent.id], "the inbox of the other recipient behind a deletion");
    let standings: Vec<_> = post.receipt("alice", sent.id)?.recipients.iter().map(|one| one.standing).collect();
    ensure_eq!(standings, [Standing::Deleted, Standing::Unread], "what the sender sees");
    Ok(())
}

fn observer(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let id = post.send("alice", "@bob", "x")?.id;
    let before = post.receipt("alice", id)?;
    for agent in ["alice", "eve"] {
        let _ = post.read(agent, id, false);
        let _ = post.inbox(agent)?;
        let _ = post.thread(agent, id)?;
        let _ = post.mark(agent, Mark::Deleted, id);
    }
    post.check("bob")?;
    post.count("bob")?;
    post.read("bob", id, true)?;
    ensure_eq!(post.receipt("alice", id)?, before, "the receipt behind everyone's looks");
    Ok(())
}

fn expired(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let expires = post.now().after(Duration::from_secs(60));
    let id = post
        .send_with("alice", "@bob", "x", |mut request| {
            request.expires = Some(expires);
            request
        })?
        .id;
    ensure_eq!(post.count("bob")?, (1, 1), "the count before");
    post.wait(61);
    ensure_eq!(post.inbox("bob")?, [], "the inbox behind the end");
    ensure_eq!(post.count("bob")?, (1, 0), "the count behind the end");
    ensure_eq!(post.receipt("alice", id)?.recipients[0].standing, Standing::Expired, "what the sender sees");
    let late = post.send_with("alice", "@bob", "x", |mut request| {
        request.expires = Some(expires);
        request
    });
    ensure!(late.is_err(), "a message that has expired already was stored");
    Ok(())
}

fn receipts(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let id = post.send("alice", "@bob", "x")?.id;
    let told = || -> Verdict<_> {
        let one = post.receipt("alice", id)?.recipients.remove(0);
        Ok((one.standing, one.retrieved, one.read, one.acknowledged))
    };
    ensure_eq!(told()?, (Standing::Unread, None, None, None), "the receipt at first");
    post.inbox("bob")?;
    let retrieved = told()?.1;
    ensure!(retrieved.is_some() && told()?.2.is_none(), "the receipt behind an inbox: {:?}", told()?);
    post.wait(5);
    post.read("bob", id, false)?;
    let read = told()?.2;
    post.wait(5);
    post.mark("bob", Mark::Unread, id)?;
    post.read("bob", id, false)?;
    post.mark("bob", Mark::Acknowledged, id)?;
    let (standing, first_retrieved, first_read, acknowledged) = told()?;
    ensure_eq!((standing, first_retrieved, first_read), (Standing::Acknowledged, retrieved, read), "the first times");
    ensure!(retrieved < read && read < acknowledged, "times out of order: {:?}", told()?);
    Ok(())
}

fn bulk(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    for (from, n) in [("alice", 1), ("carol", 2), ("alice", 3)] {
        post.send(from, "@bob", n)?;
    }
    let from = Bulk { from: Some("alice".parse()?), ..Bulk::default() };
    ensure_eq!(post.mark_bulk("bob", Mark::Read, from)?.len(), 2, "messages from alice marked read");
    ensure_eq!(post.count("bob")?, (3, 1), "the count");
    let all = || Bulk { all: true, ..Bulk::default() };
    ensure_eq!(post.mark_bulk("bob", Mark::Archived, all())?.len(), 3, "messages archived");
    ensure_eq!(post.mark_bulk("bob", Mark::Archived, all())?.len(), 0, "messages archived again");
    let old = Bulk { before: Some(post.now().before(Duration::from_secs(3600))), ..Bulk::default() };
    ensure_eq!(post.mark_bulk("bob", Mark::Deleted, old)?.len(), 0, "messages older than an hour");
    refused(post.mark_bulk("bob", Mark::Deleted, Bulk::default()), ErrorKind::InvalidRequest, "a bulk of anything")
}

fn late_arrival(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let id = post.send("alice", "@bob", "x")?.id;
    post.mark("bob", Mark::Archived, id)?;
    // Stored elsewhere an hour ago, and brought here now.
    let late = foreign("@bob", crate::kit::now().before(Duration::from_secs(3600)), 3, "late");
    futures::executor::block_on(post.store.import(late.clone()))?;
    ensure_eq!(post.inbox("bob")?, [late.id], "the inbox behind a late arrival");
    ensure_eq!(post.count("bob")?, (1, 1), "the count behind a late arrival");
    Ok(())
}

fn swept(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let old = crate::kit::now().before(Duration::from_secs(3 * 86_400));
    let planted: Vec<_> = (0..3).map(|tick| foreign("@bob", old, tick, tick)).collect();
    for message in &planted {
        futures::executor::block_on(post.store.import(message.clone()))?;
    }
    let kept = post.send("alice", "@bob", "new")?.id;
    post.mark("bob", Mark::Read, planted[0].id)?;
    post.mark("bob", Mark::Archived, planted[1].id)?;
    ensure_eq!(post.count("bob")?, (3, 2), "the count before the sweep");
    for _ in 0..2 {
        post.ask("bob", Request::Gc(GcRequest { days: 1, dry_run: false }))?;
        ensure_eq!(post.inbox("bob")?, [kept], "the inbox behind the sweep");
        ensure_eq!(post.count("bob")?, (1, 1), "the count behind the sweep");
    }
    post.mark("bob", Mark::Read, kept)?;
    ensure_eq!(post.count("bob")?, (1, 0), "the count when the rest is read");
    Ok(())
}

fn reopened(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent: Vec<_> = (0..3).map(|n| Ok(post.send("alice", "@bob", n)?.id)).collect::<Verdict<_>>()?;
    post.mark("bob", Mark::Read, sent[0])?;
    post.mark("bob", Mark::Archived, sent[1])?;
    futures::executor::block_on(post.store.close())?;
    drop(post);
    let post = Post::open(bench)?;
    ensure_eq!(post.inbox("bob")?, [sent[2]], "the inbox of the reopened store");
    ensure_eq!(post.count("bob")?, (2, 1), "the count of the reopened store");
    Ok(())
}
