//! Where a message is shown in which state, and in which order.

use crate::post::{Post, UNKNOWN, id};

crate::cases! {
    lists_are_in_order_of_time a_look_leaves_no_trace plain_answers_belong_to_the_thread
    a_message_of_a_topic_is_shown_and_belongs_to_nobody what_its_recipient_deleted_is_not_found
    ; served:
    all_has_what_is_read_and_not_what_is_archived the_flag_read_is_the_recipients archived_mail_stays_in_its_thread
    a_thread_is_whole_whoever_took_part an_unknown_id_is_told_by_every_operation every_recipient_is_meant_by_no_name
    an_answer_goes_to_the_sender_whoever_gives_it marking_twice_is_no_failure the_script_and_fmail_see_one_mailbox
}

fn all_has_what_is_read_and_not_what_is_archived(post: &Post) {
    let ids = [post.hello(), post.hello(), post.hello()];
    post.one("read", &ids[0]);
    post.done("archive", &ids[1]);
    assert_eq!(post.ids("all", "bob"), [ids[0].clone(), ids[2].clone()]);
    assert_eq!(post.ids("inbox", "bob"), [ids[2].clone()]);
    assert_eq!(post.count("bob"), (2, 1));
}

fn lists_are_in_order_of_time(post: &Post) {
    let ids: Vec<String> = (0..12).map(|_| post.hello()).collect();
    for operation in ["inbox", "check", "all"] {
        assert_eq!(post.ids(operation, "bob"), ids, "{operation}");
    }
    // Marks do not move anything.
    post.done("mark-read", &ids[3]);
    post.done("mark-unread", &ids[3]);
    assert_eq!(post.ids("inbox", "bob"), ids);
    let mut thread = vec![ids[0].clone()];
    for number in 0..6 {
        let from = if number % 2 == 0 { "bob" } else { "alice" };
        thread.push(id(&post.reply(thread.last().unwrap(), from, "", "more")));
    }
    assert_eq!(post.ids("thread", &thread[0]), thread);
    assert_eq!(post.ids("thread", &thread[4]), thread, "found by any of its messages");
    let times: Vec<String> =
        post.list("thread", &thread[0]).iter().map(|one| one["created_at"].as_str().unwrap().to_string()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

fn the_flag_read_is_the_recipients(post: &Post) {
    let hello = post.hello();
    let reply = id(&post.reply(&hello, "bob", "", "yes"));
    let flags = || -> Vec<bool> {
        post.list("thread", &hello).iter().map(|message| message["read"].as_bool().unwrap()).collect()
    };
    assert_eq!(flags(), [false, false]);
    assert_eq!(post.one("read", &hello)["read"], true);
    assert_eq!(flags(), [true, false], "each as its own recipient has it");
    assert_eq!(post.one("get", &hello)["read"], true);
    assert_eq!(post.list("all", "bob")[0]["read"], true);
    post.done("mark-read", &reply);
    post.done("mark-unread", &hello);
    assert_eq!(flags(), [false, true]);
    assert_eq!(post.list("inbox", "bob")[0]["read"], false);
}

fn archived_mail_stays_in_its_thread(post: &Post) {
    let hello = post.hello();
    let reply = id(&post.reply(&hello, "bob", "", "yes"));
    post.done("archive", &hello);
    assert_eq!(post.ids("thread", &hello), [hello.clone(), reply]);
    assert_eq!(post.one("get", &hello)["body"], "hello", "archived is not gone");
    assert_eq!(post.count("bob"), (0, 0));
    post.done("mark-read", &hello);
    post.done("mark-unread", &hello);
    assert!(post.list("all", "bob").is_empty(), "an archived message that is marked unread stays archived");
    // What was archived can be answered, and fmail can bring it back.
    post.reply(&hello, "carol", "", "late");
    post.fmail("bob", &["unarchive", &hello]);
    assert_eq!(post.ids("inbox", "bob"), [hello]);
}

fn a_thread_is_whole_whoever_took_part(post: &Post) {
    let first = post.send("alice", "bob", "s", "one");
    let second = post.reply(&id(&first), "bob", "", "two");
    // Somebody who may not even read it answers, and is answered by a fourth.
    let third = post.reply(&id(&second), "gastown/Carol", "", "three");
    let fourth = post.reply(&id(&third), "dave", "", "four");
    let ids = [&first, &second, &third, &fourth].map(id);
    for one in &ids {
        assert_eq!(post.ids("thread", one), ids);
    }
    for message in post.list("thread", &ids[0]) {
        assert_eq!(message["thread_id"], first["thread_id"]);
    }
    assert_eq!((&third["to"], &fourth["to"]), (&"bob".into(), &"gastown/Carol".into()));
}

/// A sender of fmail's own that names no thread: the answers hold it together.
fn plain_answers_belong_to_the_thread(post: &Post) {
    let hello = post.hello();
    let answer = post.fmail("bob", &["send", "@alice", "--reply-to", &hello, "plain"]).stdout.trim().to_string();
    let further = id(&post.reply(&answer, "alice", "", "further"));
    assert_eq!(post.ids("thread", &further), [hello.clone(), answer.clone(), further]);
    assert_eq!(post.one("get", &answer)["thread_id"], hello);
}

fn an_unknown_id_is_told_by_every_operation(post: &Post) {
    let hello = post.hello();
    let short = &hello[9..];
    for operation in ["get", "read", "mark-read", "mark-unread", "archive", "delete", "reply"] {
        for unknown in
            [UNKNOWN, "gm-1234", "", "../x", "20260230-000000-0000", short, "a\nb", &format!("{hello}@carol")]
        {
            post.has_no_message(operation, unknown);
        }
    }
    assert_eq!(post.count("bob"), (1, 1), "nothing has changed");
    assert_eq!(post.count("alice"), (0, 0), "nothing was sent");
}

fn every_recipient_is_meant_by_no_name(post: &Post) {
    if post.is_in_forged() {
        post.hello();
        for operation in ["inbox", "check", "all", "count"] {
            post.fails(&[operation, ""]).says(&["cannot be listed", "`memory` lives in forged's process"]);
        }
        return;
    }
    for operation in ["inbox", "check", "all"] {
        assert!(post.list(operation, "").is_empty(), "{operation}");
    }
    assert_eq!(post.count(""), (0, 0));
    let ids = [("a", "Bob"), ("b", "carol"), ("Bob", "gastown/dave"), ("carol", "Bob")]
        .map(|(from, to)| id(&post.send(from, to, "", "x")));
    assert_eq!(post.ids("inbox", ""), ids, "also of agents that have never done anything");
    post.one("read", &ids[0]);
    post.done("archive", &ids[1]);
    assert_eq!(post.ids("inbox", ""), ids[2..]);
    assert_eq!(post.ids("all", ""), [&ids[0], &ids[2], &ids[3]].map(String::clone));
    assert_eq!(post.count(""), (3, 2));
}

fn an_answer_goes_to_the_sender_whoever_gives_it(post: &Post) {
    let sent = post.send("alice", "bob", "Merge", "may I?");
    // Its own sender answers, a stranger, and the recipient.
    for from in ["alice", "human", "bob"] {
        let reply = post.reply(&id(&sent), from, "", "yes");
        assert_eq!((&reply["to"], &reply["from"]), (&"alice".into(), &from.into()));
        assert_eq!(reply["subject"], "Re: Merge", "without a subject it is the message's");
    }
    assert_eq!(post.reply(&id(&sent), "bob", "Other", "yes")["subject"], "Other");
    assert_eq!(post.count("alice"), (4, 4));
}

fn marking_twice_is_no_failure(post: &Post) {
    let hello = post.hello();
    for operation in ["mark-unread", "mark-read", "mark-read", "mark-unread", "mark-unread"] {
        post.done(operation, &hello);
    }
    assert_eq!(post.count("bob"), (1, 1));
}

/// Who asks need not be the recipient, so that only `read` is noted for the sender to see.
fn a_look_leaves_no_trace(post: &Post) {
    let hello = post.hello();
    for operation in ["inbox", "check", "all"] {
        post.list(operation, "bob");
    }
    post.one("get", &hello);
    post.list("thread", &hello);
    let receipt = || post.fmail("alice", &["receipt", &hello, "--json"]).json()["recipients"][0].clone();
    assert!(receipt().get("retrieved").is_none() && receipt().get("read").is_none(), "{}", receipt());
    post.one("read", &hello);
    assert!(receipt()["read"].is_string() && receipt()["retrieved"].is_string(), "{}", receipt());
}

fn the_script_and_fmail_see_one_mailbox(post: &Post) {
    let sent = post.fmail("alice", &["send", "@bob", "--subject", "Merge", "may I?"]).stdout.trim().to_string();
    let listed = &post.list("inbox", "bob")[0];
    assert_eq!(
        (&listed["id"], &listed["subject"], &listed["body"]),
        (&sent.as_str().into(), &"Merge".into(), &"may I?".into())
    );
    post.fmail("bob", &["read", &sent]);
    assert!(post.list("inbox", "bob").is_empty());
    let hello = post.hello();
    post.one("read", &hello);
    post.done("archive", &hello);
    assert!(post.fmail("bob", &["inbox", "--archived"]).stdout.starts_with(&hello));
    post.fmail("bob", &["archive", &sent]);
    post.is_archived_already("archive", &sent);
    let json = post.fmail("alice", &["send", "@bob", r#"{"n":[1,2]}"#]).stdout.trim().to_string();
    assert_eq!(post.one("get", &json)["body"], r#"{"n":[1,2]}"#);
}

fn a_message_of_a_topic_is_shown_and_belongs_to_nobody(post: &Post) {
    let topic = post.fmail("alice", &["send", "task", "for all"]).stdout.trim().to_string();
    let got = post.one("get", &topic);
    assert_eq!((&got["to"], &got["read"]), (&"#task".into(), &false.into()));
    for operation in ["read", "mark-read", "archive", "delete"] {
        let output = post.fails(&[operation, &topic]);
        output.says(&["is a message of the topic `task`"]);
        assert!(!output.stderr.contains("gc-mail-error"), "{output}");
    }
    let reply = post.reply(&topic, "bob", "", "mine");
    assert_eq!(reply["to"], "alice");
    assert_eq!(post.ids("thread", &topic), [topic, id(&reply)]);
}

fn what_its_recipient_deleted_is_not_found(post: &Post) {
    let hello = post.hello();
    let shared = post.fmail("alice", &["send", "@bob,@carol", "for two"]).stdout.trim().to_string();
    for id in [&hello, &shared] {
        post.fmail("bob", &["delete", id]);
        for operation in ["get", "read", "mark-read", "archive"] {
            post.has_no_message(operation, id);
        }
    }
    assert_eq!(post.ids("inbox", "carol"), [format!("{shared}@carol")]);
}
