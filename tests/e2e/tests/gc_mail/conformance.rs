//! The 32 cases of Gas City's own suite, by their names there.
#![allow(non_snake_case)]

use std::time::{SystemTime, UNIX_EPOCH};

use crate::post::{Post, UNKNOWN, id};

crate::cases! {
    ; served:
    Send_ReturnsMatchingFields Send_AssignsUniqueIDs Send_SetsRecentCreatedAt Inbox_EmptyReturnsNil
    Inbox_ReturnsMessagesSentToRecipient Inbox_FiltersByRecipient Inbox_ExcludesReadMessages
    Check_ReturnsUnreadMessages Check_DoesNotMarkAsRead Read_ReturnsCorrectMessage Read_MarksAsRead
    Read_MessageStillAccessible Read_UnknownIDReturnsError Get_ReturnsMessage Get_DoesNotMarkRead
    Get_UnknownIDErrors MarkRead_FiltersFromInbox MarkUnread_RestoresToInbox Reply_InheritsThreadID
    Reply_SetsReplyTo Reply_GoesToOriginalSender Thread_ReturnsAllInThread Thread_Empty Count_TotalAndUnread
    Count_EmptyInbox Delete_RemovesFromAll Archive_RemovesFromInbox Archive_AlreadyArchivedReturnsError
    Archive_UnknownIDReturnsError Lifecycle_SendInboxReadInboxEmpty Lifecycle_SendCheckArchiveInboxEmpty
    Lifecycle_MarkReadUnreadToggle
}

fn Send_ReturnsMatchingFields(post: &Post) {
    let sent = post.send("alice", "bob", "a subject", "a body");
    assert_eq!(
        (&sent["from"], &sent["to"], &sent["subject"], &sent["body"]),
        (&"alice".into(), &"bob".into(), &"a subject".into(), &"a body".into())
    );
    assert_eq!(post.one("get", &id(&sent)), sent, "it reads back as it was answered");
}

fn Send_AssignsUniqueIDs(post: &Post) {
    assert_ne!(post.hello(), post.hello());
}

fn Send_SetsRecentCreatedAt(post: &Post) {
    let sent = post.send("alice", "bob", "s", "b");
    let text = sent["created_at"].as_str().unwrap();
    // RFC 3339 in UTC; `date` is another reader of it than ours.
    let date = post.sandbox.bash("nobody", &format!("date --date='{text}' +%s")).ok();
    let created: u64 = date.stdout.trim().parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(text.ends_with('Z') && created.abs_diff(now) < 60, "{text}, and it is {now}");
}

fn Inbox_EmptyReturnsNil(post: &Post) {
    for operation in ["inbox", "check", "all"] {
        let output = post.run(&[operation, "nobody"]);
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{operation}\n{output}");
    }
}

fn Inbox_ReturnsMessagesSentToRecipient(post: &Post) {
    assert_eq!([post.hello()], *post.ids("inbox", "bob"));
}

fn Inbox_FiltersByRecipient(post: &Post) {
    let hello = post.hello();
    post.send("alice", "charlie", "s", "not for bob");
    assert_eq!(post.ids("inbox", "bob"), [hello]);
}

fn Inbox_ExcludesReadMessages(post: &Post) {
    post.one("read", &post.hello());
    assert!(post.list("inbox", "bob").is_empty());
}

fn Check_ReturnsUnreadMessages(post: &Post) {
    assert_eq!([post.hello()], *post.ids("check", "bob"));
}

fn Check_DoesNotMarkAsRead(post: &Post) {
    let hello = post.hello();
    post.list("check", "bob");
    assert_eq!(post.ids("inbox", "bob"), [hello]);
}

fn Read_ReturnsCorrectMessage(post: &Post) {
    let hello = post.hello();
    let read = post.one("read", &hello);
    assert_eq!((&read["from"], &read["to"], &read["body"]), (&"alice".into(), &"bob".into(), &"hello".into()));
    assert_eq!((id(&read), &read["read"]), (hello, &true.into()));
}

fn Read_MarksAsRead(post: &Post) {
    post.hello();
    let second = post.hello();
    post.one("read", &post.ids("inbox", "bob")[0]);
    assert_eq!(post.ids("inbox", "bob"), [second]);
}

fn Read_MessageStillAccessible(post: &Post) {
    let hello = post.hello();
    post.one("read", &hello);
    assert_eq!(id(&post.one("get", &hello)), hello);
    assert_eq!(id(&post.one("read", &hello)), hello, "and read again");
}

fn Read_UnknownIDReturnsError(post: &Post) {
    post.has_no_message("read", "nonexistent-id");
    post.has_no_message("read", UNKNOWN);
}

fn Get_ReturnsMessage(post: &Post) {
    let hello = post.hello();
    let got = post.one("get", &hello);
    assert_eq!((id(&got), &got["body"]), (hello, &"hello".into()));
}

fn Get_DoesNotMarkRead(post: &Post) {
    let hello = post.hello();
    assert_eq!(post.one("get", &hello)["read"], false);
    assert_eq!(post.ids("inbox", "bob"), [hello]);
}

fn Get_UnknownIDErrors(post: &Post) {
    post.has_no_message("get", "nonexistent-id");
    post.has_no_message("get", UNKNOWN);
}

fn MarkRead_FiltersFromInbox(post: &Post) {
    post.done("mark-read", &post.hello());
    assert!(post.list("inbox", "bob").is_empty());
}

fn MarkUnread_RestoresToInbox(post: &Post) {
    let hello = post.hello();
    post.done("mark-read", &hello);
    post.done("mark-unread", &hello);
    assert_eq!(post.ids("inbox", "bob"), [hello]);
}

fn Reply_InheritsThreadID(post: &Post) {
    let sent = post.send("alice", "bob", "s", "b");
    let reply = post.reply(&id(&sent), "bob", "Re: s", "yes");
    assert_eq!(reply["thread_id"], sent["thread_id"]);
    assert!(sent["thread_id"].as_str().is_some_and(|thread| !thread.is_empty()), "both empty would pass: {sent}");
    let again = post.reply(&id(&reply), "alice", "Re: s", "fine");
    assert_eq!(again["thread_id"], sent["thread_id"]);
}

fn Reply_SetsReplyTo(post: &Post) {
    let hello = post.hello();
    assert_eq!(post.reply(&hello, "bob", "", "yes")["reply_to"], hello);
}

fn Reply_GoesToOriginalSender(post: &Post) {
    let reply = post.reply(&post.hello(), "bob", "Re", "yes");
    assert_eq!((&reply["from"], &reply["to"]), (&"bob".into(), &"alice".into()));
    assert_eq!(post.ids("inbox", "alice"), [id(&reply)]);
}

fn Thread_ReturnsAllInThread(post: &Post) {
    let sent = post.send("alice", "bob", "s", "b");
    let reply = post.reply(&id(&sent), "bob", "Re: s", "yes");
    let thread = sent["thread_id"].as_str().unwrap();
    assert_eq!(post.ids("thread", thread), [id(&sent), id(&reply)]);
}

fn Thread_Empty(post: &Post) {
    for thread in ["nonexistent-thread", UNKNOWN, "Foo/Bar baz"] {
        let output = post.run(&["thread", thread]);
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{thread}\n{output}");
    }
}

fn Count_TotalAndUnread(post: &Post) {
    let hello = post.hello();
    post.hello();
    post.done("mark-read", &hello);
    assert_eq!(post.count("bob"), (2, 1));
}

fn Count_EmptyInbox(post: &Post) {
    assert_eq!(post.count("nobody"), (0, 0));
}

fn Delete_RemovesFromAll(post: &Post) {
    post.done("delete", &post.hello());
    for operation in ["inbox", "check", "all"] {
        assert!(post.list(operation, "bob").is_empty(), "{operation}");
    }
}

fn Archive_RemovesFromInbox(post: &Post) {
    post.done("archive", &post.hello());
    assert!(post.list("inbox", "bob").is_empty());
}

fn Archive_AlreadyArchivedReturnsError(post: &Post) {
    let hello = post.hello();
    post.done("archive", &hello);
    post.is_archived_already("archive", &hello);
    post.is_archived_already("delete", &hello);
}

fn Archive_UnknownIDReturnsError(post: &Post) {
    post.has_no_message("archive", "nonexistent-id");
    post.has_no_message("archive", UNKNOWN);
}

fn Lifecycle_SendInboxReadInboxEmpty(post: &Post) {
    let hello = post.hello();
    assert_eq!(post.ids("inbox", "bob"), [hello.as_str()]);
    assert_eq!(post.one("read", &hello)["body"], "hello");
    assert!(post.list("inbox", "bob").is_empty());
    assert_eq!(post.one("get", &hello)["body"], "hello");
}

fn Lifecycle_SendCheckArchiveInboxEmpty(post: &Post) {
    let hello = post.hello();
    assert_eq!(post.ids("check", "bob"), [hello.as_str()]);
    post.done("archive", &hello);
    assert!(post.list("inbox", "bob").is_empty());
}

fn Lifecycle_MarkReadUnreadToggle(post: &Post) {
    let hello = post.hello();
    for _ in 0..2 {
        post.done("mark-read", &hello);
        assert!(post.list("inbox", "bob").is_empty());
        post.done("mark-unread", &hello);
        assert_eq!(post.ids("inbox", "bob"), [hello.as_str()]);
    }
}
