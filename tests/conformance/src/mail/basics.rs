//! The 32 cases that mail scripts are held to elsewhere: send, inbox, check, read, get, mark, reply, thread, count,
//! delete, archive, and three lives of a message.

use fmail_api::{ErrorKind, Folder, Mark, MessageId};

use super::kit::{Post, ids};
use crate::case::{ensure, ensure_eq};
use crate::kit::refused;
use crate::{Bench, Case, Verdict};

macro_rules! cases {
    ($($name:ident)*) => { &[$(Case { rule: super::MAIL, name: stringify!($name), needs: &[], check: $name },)*] };
}

pub(super) static CASES: &[Case] = cases! {
    send_returns_matching_fields send_assigns_unique_ids send_sets_a_recent_time inbox_is_empty_at_first
    inbox_returns_messages_sent_to_the_recipient inbox_filters_by_recipient inbox_excludes_read_messages
    check_returns_unread_messages check_does_not_mark_as_read read_returns_the_message read_marks_as_read
    read_leaves_the_message_accessible read_of_an_unknown_id_is_an_error get_returns_the_message
    get_does_not_mark_read get_of_an_unknown_id_is_an_error mark_read_takes_out_of_the_inbox
    mark_unread_puts_back_into_the_inbox reply_inherits_the_thread reply_sets_reply_to
    reply_goes_to_the_original_sender thread_returns_all_in_the_thread thread_of_an_unknown_name_is_empty
    count_tells_total_and_unread count_of_an_empty_inbox delete_removes_from_all archive_removes_from_the_inbox
    archive_twice_says_so_and_is_no_failure archive_of_an_unknown_id_is_an_error
    a_life_send_inbox_read_inbox_empty a_life_send_check_archive_inbox_empty a_life_mark_read_unread_toggle
};

/// No message has this id.
const UNKNOWN: &str = "20200101-000000-0000";

fn one(bench: &Bench) -> Verdict<(Post, MessageId)> {
    let post = Post::open(bench)?;
    let id = post.send("alice", "@bob", "hello")?.id;
    Ok((post, id))
}

fn send_returns_matching_fields(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent = post.send_with("alice", "@bob", "body", |mut request| {
        request.subject = Some("subject".into());
        request
    })?;
    let fields = (sent.from.as_str(), sent.to.to_string(), sent.subject.as_deref(), sent.body.as_str());
    ensure_eq!(fields, ("alice", "@bob".to_string(), Some("subject"), Some("body")), "the fields of a sent message");
    let kept = post.read("bob", sent.id, true)?;
    ensure_eq!(*kept.message, sent, "the message reads back differently");
    Ok(())
}

fn send_assigns_unique_ids(bench: &Bench) -> Verdict {
    let (post, first) = one(bench)?;
    ensure!(post.send("alice", "@bob", "hello")?.id != first, "two messages share an id");
    Ok(())
}

fn send_sets_a_recent_time(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let time = post.send("alice", "@bob", "hello")?.time;
    let now = post.now();
    ensure!(now.since(time).as_secs() < 60 && time.since(now).as_secs() < 60, "sent at {time}, and it is {now}");
    Ok(())
}

fn inbox_is_empty_at_first(bench: &Bench) -> Verdict {
    ensure_eq!(Post::open(bench)?.inbox("bob")?, [], "an inbox that nothing was sent to");
    Ok(())
}

fn inbox_returns_messages_sent_to_the_recipient(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox");
    Ok(())
}

fn inbox_filters_by_recipient(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.send("alice", "@charlie", "not for bob")?;
    post.send("alice", "task", "for everyone, and no mail")?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox of bob");
    Ok(())
}

fn inbox_excludes_read_messages(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.read("bob", id, false)?;
    ensure_eq!(post.inbox("bob")?, [], "the inbox behind a read");
    Ok(())
}

fn check_returns_unread_messages(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    ensure_eq!(post.check("bob")?, [id], "a check");
    Ok(())
}

fn check_does_not_mark_as_read(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.check("bob")?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox behind a check");
    let receipt = post.receipt("alice", id)?;
    // The inbox has retrieved it just now, and the check before it had not.
    ensure!(receipt.recipients[0].read.is_none(), "a check counts as a read");
    Ok(())
}

fn read_returns_the_message(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    let mail = post.read("bob", id, false)?;
    let found = (mail.message.id, mail.message.from.as_str(), mail.message.body.as_str());
    ensure_eq!(found, (id, "alice", Some("hello")), "what was read");
    Ok(())
}

fn read_marks_as_read(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    ensure!(post.read("bob", id, false)?.state.is_read(), "a read message is not marked so in the answer");
    ensure_eq!(post.inbox("bob")?, [], "the inbox behind a read");
    Ok(())
}

fn read_leaves_the_message_accessible(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.read("bob", id, false)?;
    ensure_eq!(post.read("bob", id, true)?.message.id, id, "the message that was read");
    ensure_eq!(ids(&post.folder("bob", Folder::Open)?), [id], "all open mail");
    Ok(())
}

fn read_of_an_unknown_id_is_an_error(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    refused(post.read("bob", UNKNOWN, false), ErrorKind::NotFound, "a read of an unknown id")?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox behind a read that failed");
    Ok(())
}

fn get_returns_the_message(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    let mail = post.read("bob", id, true)?;
    ensure_eq!((mail.message.id, mail.message.body.as_str()), (id, Some("hello")), "a look at a message");
    Ok(())
}

fn get_does_not_mark_read(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.read("bob", id, true)?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox behind a look");
    Ok(())
}

fn get_of_an_unknown_id_is_an_error(bench: &Bench) -> Verdict {
    refused(Post::open(bench)?.read("bob", UNKNOWN, true), ErrorKind::NotFound, "a look at an unknown id")
}

fn mark_read_takes_out_of_the_inbox(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.mark("bob", Mark::Read, id)?;
    ensure_eq!(post.inbox("bob")?, [], "the inbox behind a mark");
    Ok(())
}

fn mark_unread_puts_back_into_the_inbox(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.mark("bob", Mark::Read, id)?;
    post.mark("bob", Mark::Unread, id)?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox behind two marks");
    Ok(())
}

fn reply_inherits_the_thread(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    let first = post.reply("bob", id, "yes")?;
    let second = post.reply("alice", first.id, "good")?;
    ensure!(first.thread.is_some(), "a reply belongs to no thread");
    ensure_eq!(second.thread, first.thread, "the thread of a reply to a reply");
    Ok(())
}

fn reply_sets_reply_to(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    ensure_eq!(post.reply("bob", id, "yes")?.reply_to, Some(id), "what the reply answers");
    Ok(())
}

fn reply_goes_to_the_original_sender(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    let reply = post.reply("bob", id, "yes")?;
    ensure_eq!((reply.from.as_str(), reply.to.to_string()), ("bob", "@alice".into()), "sender and recipient");
    ensure_eq!(post.inbox("alice")?, [reply.id], "the inbox of the original sender");
    Ok(())
}

fn thread_returns_all_in_the_thread(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    let reply = post.reply("bob", id, "yes")?;
    post.send("alice", "@bob", "something else")?;
    for name in [reply.thread.clone().unwrap_or_default(), id.to_string(), reply.id.to_string()] {
        ensure_eq!(ids(&post.thread("alice", &name)?), [id, reply.id], "the thread `{name}`");
    }
    Ok(())
}

fn thread_of_an_unknown_name_is_empty(bench: &Bench) -> Verdict {
    let (post, _) = one(bench)?;
    for name in ["nothing-of-the-kind", UNKNOWN] {
        ensure_eq!(ids(&post.thread("alice", name)?), [], "the thread `{name}`");
    }
    Ok(())
}

fn count_tells_total_and_unread(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.send("alice", "@bob", "second")?;
    post.mark("bob", Mark::Read, id)?;
    ensure_eq!(post.count("bob")?, (2, 1), "total and unread");
    Ok(())
}

fn count_of_an_empty_inbox(bench: &Bench) -> Verdict {
    ensure_eq!(Post::open(bench)?.count("bob")?, (0, 0), "total and unread");
    Ok(())
}

fn delete_removes_from_all(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.mark("bob", Mark::Deleted, id)?;
    for folder in [Folder::Unread, Folder::Open, Folder::Archived] {
        ensure_eq!(ids(&post.folder("bob", folder)?), [], "what {folder:?} shows of a deleted message");
    }
    ensure_eq!(post.count("bob")?, (0, 0), "total and unread");
    Ok(())
}

fn archive_removes_from_the_inbox(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    post.mark("bob", Mark::Archived, id)?;
    ensure_eq!(post.inbox("bob")?, [], "the inbox behind an archive");
    ensure_eq!(ids(&post.folder("bob", Folder::Archived)?), [id], "what is archived");
    Ok(())
}

fn archive_twice_says_so_and_is_no_failure(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    ensure!(!post.mark("bob", Mark::Archived, id)?.already, "the first archive says that it was the second");
    ensure!(post.mark("bob", Mark::Archived, id)?.already, "the second archive does not say that it was");
    Ok(())
}

fn archive_of_an_unknown_id_is_an_error(bench: &Bench) -> Verdict {
    refused(Post::open(bench)?.mark("bob", Mark::Archived, UNKNOWN), ErrorKind::NotFound, "archiving an unknown id")
}

fn a_life_send_inbox_read_inbox_empty(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    ensure_eq!(post.inbox("bob")?, [id], "the inbox");
    post.read("bob", id, false)?;
    ensure_eq!(post.inbox("bob")?, [], "the inbox behind the read");
    ensure_eq!(post.read("bob", id, true)?.message.id, id, "the message itself");
    Ok(())
}

fn a_life_send_check_archive_inbox_empty(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    ensure_eq!(post.check("bob")?, [id], "a check");
    post.mark("bob", Mark::Archived, id)?;
    ensure_eq!(post.inbox("bob")?, [], "the inbox behind the archive");
    Ok(())
}

fn a_life_mark_read_unread_toggle(bench: &Bench) -> Verdict {
    let (post, id) = one(bench)?;
    for _ in 0..3 {
        post.mark("bob", Mark::Read, id)?;
        ensure_eq!(post.inbox("bob")?, [], "the inbox behind `read`");
        post.mark("bob", Mark::Unread, id)?;
        ensure_eq!(post.inbox("bob")?, [id], "the inbox behind `unread`");
    }
    Ok(())
}
