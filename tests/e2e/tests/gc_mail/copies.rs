//! A message that several agents have: each its own copy.

use serde_json::json;

use crate::post::{Post, id};

crate::cases! {
    ; served:
    copies_and_urgency_are_shown what_is_done_with_a_copy_is_its_recipients
}

fn copies_and_urgency_are_shown(post: &Post) {
    let args = ["send", "@bob,@carol", "--cc", "@dave,task", "--priority", "high", "x"];
    let sent = post.fmail("alice", &args).stdout.trim().to_string();
    let got = post.one("get", &sent);
    assert_eq!((&got["to"], &got["cc"]), (&"bob".into(), &json!(["carol", "dave", "#task"])));
    assert_eq!(got["priority"], 1);
    let low = post.fmail("alice", &["send", "@bob", "--priority", "low", "x"]).stdout.trim().to_string();
    assert_eq!(post.one("get", &low)["priority"], 3);
    let plain = post.one("get", &post.hello());
    assert!(plain.get("priority").is_none() && plain.get("cc").is_none() && plain.get("reply_to").is_none(), "{plain}");
}

fn what_is_done_with_a_copy_is_its_recipients(post: &Post) {
    let sent = post.fmail("alice", &["send", "@bob", "--cc", "@carol,@dave", "x"]).stdout.trim().to_string();
    assert_eq!(post.ids("inbox", "bob"), [sent.as_str()]);
    let carols = post.ids("inbox", "carol").remove(0);
    assert_ne!(carols, sent, "an id alone means bob's");
    assert_eq!(id(&post.one("get", &carols)), carols);
    assert_eq!(post.one("read", &carols)["read"], true);
    assert!(post.list("inbox", "carol").is_empty());
    assert_eq!((post.count("bob"), post.count("carol"), post.count("dave")), ((1, 1), (1, 0), (1, 1)));
    post.done("archive", &sent);
    assert_eq!((post.count("bob"), post.count("carol"), post.count("dave")), ((0, 0), (1, 0), (1, 1)));
    post.is_archived_already("archive", &sent);
    post.done("delete", &carols);
    post.is_archived_already("delete", &carols);
    post.done("mark-read", &post.ids("inbox", "dave")[0]);
    assert_eq!(post.count("dave"), (1, 0));
    let reply = post.reply(&carols, "carol", "", "seen");
    assert_eq!((&reply["to"], &reply["reply_to"]), (&"alice".into(), &sent.as_str().into()));
    assert_eq!(post.ids("thread", &carols), [sent, id(&reply)]);
}
