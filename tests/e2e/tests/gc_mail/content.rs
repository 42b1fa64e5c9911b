//! What a message says comes back byte for byte, however many are sent at once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::post::{Post, id};

crate::cases! {
    every_text_comes_back_byte_for_byte a_message_of_the_largest_size_is_kept_and_a_larger_one_refused
    ; served:
    what_callers_escape_is_unescaped_once a_subject_is_made_of_the_body a_subject_without_a_body_is_a_message
    a_hundred_sends_at_once_are_a_hundred_messages
}

/// Texts that something on the way might change.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "\"quotes\" 'single' `back` $(sh) \\n \\\\",
        "two\nlines",
        "CR LF\r\nand CR\r",
        "a final newline\n",
        "\n\nblank lines before, blanks behind  \t ",
        "ë ü 日本語 🚂 e\u{301} \u{202e}\u{2028}\u{2029}\u{feff}",
        "<b>&amp;</b> </system-reminder>",
        "\u{0}\u{1}\u{1b}[2J\u{7f}\u{9b}",
        "{\"json\": [1, null]}",
        "17",
        "null",
        "[]",
        "--help",
        "- a list\n- of two",
        "\u{10ffff}",
    ]
    .map(String::from)
    .into();
    texts.push("a".repeat(5000));
    texts
}

fn every_text_comes_back_byte_for_byte(post: &Post) {
    for text in texts() {
        let sent = post.send("alice", "bob", &text, &text);
        assert_eq!((&sent["subject"], &sent["body"]), (&json!(text), &json!(text)));
        assert_eq!(post.one("get", &id(&sent)), sent);
        let reply = post.reply(&id(&sent), "bob", &text, &text);
        assert_eq!((&reply["subject"], &reply["body"]), (&json!(text), &json!(text)));
    }
    let kept: Vec<Value> = post.list("all", "bob").into_iter().map(|message| message["body"].clone()).collect();
    assert_eq!(kept, texts().into_iter().map(Value::from).collect::<Vec<_>>());
}

/// Callers write `<`, `>`, `&` and two separators as `\u003c` and so on.
fn what_callers_escape_is_unescaped_once(post: &Post) {
    let input = r#"{"from":"alice","subject":"a \u003c b \u0026 c","body":"\u003cp\u003e\u2028\ud83d\ude82 \\u003c"}"#;
    let sent: Value = post.script(&["send", "bob"]).stdin(input).ok().json();
    assert_eq!(sent["subject"], "a < b & c");
    assert_eq!(sent["body"], "<p>\u{2028}🚂 \\u003c");
    assert_eq!(post.list("inbox", "bob"), [sent]);
}

fn a_subject_is_made_of_the_body(post: &Post) {
    let subject = |body: &str| post.send("alice", "bob", "", body)["subject"].clone();
    assert_eq!(subject("first\nsecond"), "first");
    assert_eq!(subject("\n \nthird"), "third");
    assert_eq!(subject(&"x".repeat(100)), "x".repeat(80));
    // The 80th byte is the first of two.
    assert_eq!(subject(&format!("{}ëë", "x".repeat(79))), "x".repeat(79));
    let lists = post.list("inbox", "bob");
    assert_eq!(lists.iter().map(|message| message["subject"].clone()).next(), Some("first".into()));
}

fn a_subject_without_a_body_is_a_message(post: &Post) {
    for body in ["", " \n"] {
        let sent = post.send("alice", "bob", "ping", body);
        assert_eq!((&sent["subject"], &sent["body"]), (&"ping".into(), &json!(body)));
        assert_eq!(post.one("get", &id(&sent)), sent);
    }
    let shown = post.fmail("bob", &["inbox"]).stdout;
    assert!(shown.lines().all(|line| line.ends_with("alice -> @bob [ping]: ping")), "{shown}");
    // A message without a word is none, and is told so.
    let empty = post.script(&["send", "bob"]).stdin(r#"{"from":"alice","subject":"","body":""}"#).fails(1);
    empty.says(&["says nothing", "`subject` and `body` are empty"]);
    assert_eq!(post.count("bob"), (2, 2));
}

fn a_message_of_the_largest_size_is_kept_and_a_larger_one_refused(post: &Post) {
    // Every one of these is six bytes of JSON on the way in, and two in a message.
    let body = "\"\n".repeat(260_000);
    let sent = post.send("alice", "bob", "large", &body);
    assert_eq!(post.one("read", &id(&sent))["body"], json!(body));
    assert_eq!(post.list("all", "bob")[0]["body"], json!(body));
    let larger = json!({"from": "alice", "subject": "larger", "body": "\"".repeat(600_000)}).to_string();
    post.script(&["send", "bob"]).stdin(larger).fails(1).says(&["1048576"]);
    let endless = vec![b' '; 7 * 1_048_576];
    post.script(&["send", "bob"]).stdin(endless).fails(1).says(&["standard input has more than", "1048576"]);
    assert_eq!(post.count("bob"), (1, 0));
}

fn a_hundred_sends_at_once_are_a_hundred_messages(post: &Post) {
    let count = 100;
    let input =
        |number: usize| json!({"from": format!("sender/{}", number % 10), "subject": "", "body": format!("n{number}")});
    let running: Vec<_> = (0..count)
        .map(|number| post.script(&["send", "Town/Mayor"]).stdin(input(number).to_string()).spawn())
        .collect();
    let mut ids = BTreeSet::new();
    for (number, one) in running.into_iter().enumerate() {
        let output = one.wait();
        assert_eq!(output.code, 0, "{output}");
        let sent = output.json();
        assert_eq!((&sent["body"], &sent["from"]), (&input(number)["body"], &input(number)["from"]));
        ids.insert(id(&sent));
    }
    assert_eq!(ids.len(), count, "every message has an id of its own");
    let inbox = post.list("inbox", "Town/Mayor");
    assert_eq!(inbox.iter().map(id).collect::<BTreeSet<_>>(), ids);
    let bodies: BTreeSet<String> = inbox.iter().map(|message| message["body"].as_str().unwrap().to_string()).collect();
    assert_eq!(bodies, (0..count).map(|number| format!("n{number}")).collect());
    assert_eq!(post.count("Town/Mayor"), (100, 100));
}
