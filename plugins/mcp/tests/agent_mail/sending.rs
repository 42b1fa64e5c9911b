//! Sending, answering, acknowledging: what is stored, and what is not.

use fmail_api::{LogRequest, Request, SendRequest};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::{Client, PROJECT, field, on_each_store};

/// How many messages the project has, in any mailbox.
fn stored(client: &Client) -> usize {
    ["greendog", "bluemountain", "redforest"]
        .iter()
        .map(|agent| {
            let request = LogRequest { target: Some(format!("@{agent}").parse().unwrap()), ..LogRequest::default() };
            block_on(client.beside(agent, Request::Log(request)).unwrap().events.unwrap().count())
        })
        .sum()
}

#[track_caller]
fn refused(client: &Client, more: Value) -> String {
    let mut arguments = json!({"project_key": PROJECT, "sender_name": "GreenDog", "to": ["BlueMountain"], "subject": "s",
        "body_md": "b"});
    arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let before = stored(client);
    let (_, text) = client.fails("send_message", arguments);
    assert_eq!(stored(client), before, "nothing is stored: {text}");
    text
}

#[test]
fn what_is_refused_is_not_stored() {
    on_each_store(|client| {
        client.introduce();
        for (more, says) in [
            (json!({"to": ["BlueMountain", "RedForrest"]}), "Did you mean: 'RedForest'"),
            (json!({"cc": ["NobodyHere"]}), "NobodyHere are not registered"),
            (json!({"bcc": ["NobodyHere"]}), "NobodyHere are not registered"),
            (json!({"to": []}), "`to` is empty"),
            (json!({"to": ["all"]}), "looks like a broadcast attempt"),
            (json!({"to": ["*"]}), "looks like a broadcast attempt"),
            (json!({"to": ["claude-code"]}), "looks like a program name"),
            (json!({"sender_name": "GreenDoge"}), "Agent 'GreenDoge' not found"),
            (json!({"thread_id": "../../etc/passwd"}), "Invalid thread_id: '../../etc/passwd'"),
            (json!({"thread_id": "x".repeat(129)}), "max 128"),
            (json!({"importance": "whatever"}), "importance must be one of low, normal, high, urgent"),
            (json!({"body_md": " \n"}), "empty message body: body_md has no text"),
            (json!({"attachment_paths": ["a.png"]}), "`attachment_paths` cannot be honoured"),
            (json!({"broadcast": true}), "`broadcast` cannot be honoured"),
            (json!({"body_md": "x".repeat(2_000_000)}), "at most 1048576 are allowed"),
        ] {
            let text = refused(client, more);
            assert!(text.contains(says), "{says}: {text}");
        }
        client.send(&["BlueMountain"], "", "b", json!({"attachment_paths": [], "broadcast": false, "topic": null}));
        assert_eq!(stored(client), 1);
    });
}

#[test]
fn a_message_keeps_all_that_was_said() {
    on_each_store(|client| {
        client.introduce();
        let subject = "é".repeat(500);
        let row = client.send(
            &["bluemountain", "@RedForest", "BlueMountain"],
            &subject,
            "**text**",
            json!({"cc": ["GreenDog"], "importance": "urgent", "ack_required": true, "thread_id": "T.1_a-b"}),
        );
        assert_eq!(
            (&row["to"], &row["cc"], &row["bcc"]),
            (&json!(["BlueMountain", "RedForest"]), &json!(["GreenDog"]), &json!([]))
        );
        let inbox = client.inbox("RedForest");
        let row = &inbox[0];
        assert_eq!((&row["subject"], &row["body_md"]), (&json!(subject), &json!("**text**")));
        assert_eq!(
            (&row["importance"], &row["ack_required"], &row["thread_id"]),
            (&json!("urgent"), &json!(true), &json!("T.1_a-b"))
        );
        assert_eq!((&row["from"], &row["kind"]), (&json!("GreenDog"), &json!("to")));
        assert_eq!(client.inbox("GreenDog")[0]["kind"], "cc");
    });
}

#[test]
fn a_blind_copy_is_seen_by_its_recipient_and_by_nobody_else() {
    on_each_store(|client| {
        client.introduce();
        let row = client.send(&["BlueMountain"], "secret", "the plan", json!({"bcc": ["RedForest"], "thread_id": "T"}));
        assert_eq!(row["bcc"], json!(["RedForest"]));
        let copy = &client.inbox("RedForest")[0];
        assert_eq!(
            (&copy["kind"], &copy["body_md"], &copy["thread_id"]),
            (&json!("bcc"), &json!("the plan"), &json!("T"))
        );
        let inbox = client.inbox("BlueMountain");
        assert!(!json!(inbox).to_string().contains("RedForest"), "{inbox:?}");
        let thread = client.read("resource://thread/T?project=%2Fdata%2Fprojects%2Fbrenner_bot");
        assert_eq!(thread["messages"].as_array().unwrap().len(), 1);
        let found = client.rows("search_messages", json!({"project_key": PROJECT, "query": "plan"}));
        assert_eq!(field(&found, "id"), [&row["id"]]);
        let own =
            client.rows("search_messages", json!({"project_key": PROJECT, "query": "plan", "agent_name": "RedForest"}));
        assert_eq!(field(&own, "id"), [&copy["id"]]);
    });
}

#[test]
fn a_repetition_under_a_key_is_sent_once() {
    let client = Client::with_agents();
    let send = || {
        client.call(
            "send_message",
            json!({"project_key": PROJECT, "sender_name": "GreenDog", "to": ["BlueMountain"],
            "bcc": ["RedForest"], "subject": "s", "body_md": "b", "idempotency_key": "k1"}),
        )
    };
    let (first, second) = (send(), send());
    assert_eq!(first["deliveries"][0]["payload"]["id"], second["deliveries"][0]["payload"]["id"]);
    assert_eq!((first.get("duplicate"), &second["duplicate"]), (None, &json!(true)));
    assert_eq!((client.inbox("BlueMountain").len(), client.inbox("RedForest").len()), (1, 1));
    let others = json!({"project_key": PROJECT, "sender_name": "RedForest", "to": ["BlueMountain"], "subject": "s",
        "body_md": "mine", "idempotency_key": "k1"});
    assert_eq!(client.call("send_message", others).get("duplicate"), None, "a key is its sender's own");
    let long = |body: &str| {
        json!({"project_key": PROJECT, "sender_name": "GreenDog", "to": ["BlueMountain"], "subject": "s",
        "body_md": body, "idempotency_key": format!("a\n{}", "k".repeat(1000))})
    };
    client.call("send_message", long("once"));
    assert_eq!(client.call("send_message", long("twice"))["duplicate"], true);
}

#[test]
fn an_answer_inherits_the_thread_the_importance_and_the_wish_for_an_acknowledgement() {
    let client = Client::with_agents();
    let first = client.send(&["BlueMountain"], "KICKOFF", "go", json!({"importance": "urgent", "ack_required": true}));
    let reply = |sender: &str, id: &Value, more: Value| {
        let mut arguments =
            json!({"project_key": PROJECT, "message_id": id, "sender_name": sender, "body_md": "answer"});
        arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        client.call("reply_message", arguments)
    };
    let answer = reply("BlueMountain", &first["id"], json!({}));
    assert_eq!(answer["thread_id"], first["id"].to_string(), "a thread without a name has that of its first message");
    assert_eq!(
        (&answer["subject"], &answer["to"], &answer["reply_to"]),
        (&json!("Re: KICKOFF"), &json!(["GreenDog"]), &first["id"])
    );
    assert_eq!((&answer["importance"], &answer["ack_required"]), (&json!("urgent"), &json!(true)));
    assert_eq!(answer["deliveries"][0]["payload"]["id"], answer["id"]);
    let again = reply("GreenDog", &answer["id"], json!({"cc": ["RedForest"], "subject_prefix": "RE:"}));
    assert_eq!(
        (&again["subject"], &again["thread_id"], &again["cc"]),
        (&json!("Re: KICKOFF"), &answer["thread_id"], &json!(["RedForest"]))
    );
    let own = reply("GreenDog", &first["id"], json!({"subject_prefix": "More:"}));
    assert_eq!(
        (&own["to"], &own["subject"]),
        (&json!(["BlueMountain"]), &json!("More: KICKOFF")),
        "to whom it was written"
    );
    let named = reply("BlueMountain", &first["id"], json!({"to": ["RedForest"]}));
    assert_eq!(named["to"], json!(["RedForest"]));
    let thread = client.read(&format!("resource://thread/{}?project=%2Fdata%2Fprojects%2Fbrenner_bot", first["id"]));
    assert_eq!(thread["messages"].as_array().unwrap().len(), 5);
    let (kind, text) = client.fails(
        "reply_message",
        json!({"project_key": PROJECT, "message_id": first["id"], "sender_name": "RedForest", "body_md": "x"}),
    );
    assert!(kind == "MESSAGE_NOT_FOUND" && text.contains("not visible to agent 'RedForest'"), "{text}");
}

#[test]
fn reading_and_acknowledging_are_each_agents_own() {
    on_each_store(|client| {
        client.introduce();
        let row = client.send(&["BlueMountain", "RedForest"], "s", "b", json!({"ack_required": true}));
        let named = |agent: &str| json!({"project_key": PROJECT, "agent_name": agent, "message_id": row["id"]});
        let read = client.call("mark_message_read", named("BlueMountain"));
        assert_eq!(client.call("mark_message_read", named("BlueMountain")), read, "the first time counts");
        let acknowledged = client.call("acknowledge_message", named("BlueMountain"));
        assert_eq!(acknowledged["read_at"], read["read_at"]);
        assert_eq!(client.call("acknowledge_message", named("BlueMountain")), acknowledged);
        let state = |agent: &str| {
            let row = client.inbox(agent)[0].clone();
            (row["read"].as_bool().unwrap(), row["read_ts"].is_string(), row["ack_ts"].is_string())
        };
        assert_eq!((state("BlueMountain"), state("RedForest")), ((true, true, true), (false, false, false)));
        let unread = |agent: &str| {
            client.rows("fetch_inbox", json!({"project_key": PROJECT, "agent_name": agent, "unread_only": true})).len()
        };
        assert_eq!((unread("BlueMountain"), unread("RedForest")), (0, 1));
        // Whoever is no recipient changes nothing, and is told.
        let stranger = client.call("mark_message_read", named("GreenDog"));
        assert_eq!((&stranger["read"], &stranger["read_at"]), (&json!(false), &Value::Null));
        let stranger = client.call("acknowledge_message", named("GreenDog"));
        assert_eq!((&stranger["acknowledged"], stranger["note"].is_string()), (&json!(false), true));
    });
}

#[test]
fn what_is_said_with_an_acknowledgement_reaches_the_sender_once() {
    let client = Client::with_agents();
    let row = client.send(&["BlueMountain"], "KICKOFF", "b", json!({"ack_required": true, "thread_id": "T"}));
    let acknowledge = |agent: &str| {
        client.call(
            "acknowledge_message",
            json!({"project_key": PROJECT, "agent_name": agent, "message_id": row["id"],
            "ack_body": "Received and understood"}),
        )
    };
    let (first, second) = (acknowledge("BlueMountain"), acknowledge("BlueMountain"));
    assert_eq!(first["reply_id"], second["reply_id"]);
    let inbox = client.inbox("GreenDog");
    assert_eq!(inbox.len(), 1);
    assert_eq!(
        (&inbox[0]["body_md"], &inbox[0]["subject"]),
        (&json!("Received and understood"), &json!("ACK: KICKOFF"))
    );
    assert_eq!((&inbox[0]["thread_id"], &inbox[0]["reply_to"]), (&json!("T"), &row["id"]));
    assert_eq!(acknowledge("RedForest")["acknowledged"], false);
    assert_eq!(client.inbox("GreenDog").len(), 1, "who is no recipient has nothing to say about it");
}

#[test]
fn a_message_of_the_command_line_is_in_the_inbox_and_the_other_way_round() {
    on_each_store(|client| {
        client.introduce();
        let send = SendRequest {
            subject: Some("from a shell".into()),
            ..SendRequest::new("@bluemountain".parse().unwrap(), json!({"n": 1.50}))
        };
        client.beside("shell", Request::Send(Box::new(send))).unwrap();
        let inbox = client.inbox("BlueMountain");
        assert_eq!(
            (&inbox[0]["from"], &inbox[0]["subject"], &inbox[0]["body_md"]),
            (&json!("shell"), &json!("from a shell"), &json!("{\"n\":1.5}"))
        );
        client.send(&["shell"], "to a shell", "hello", json!({}));
        let request = LogRequest { target: Some("@shell".parse().unwrap()), ..LogRequest::default() };
        let seen = block_on(client.beside("shell", Request::Log(request)).unwrap().events.unwrap().count());
        assert_eq!(seen, 1);
    });
}
