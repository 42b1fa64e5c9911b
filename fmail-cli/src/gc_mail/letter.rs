//! A message as these callers read it.

use fmail_api::{AgentName, Message, Priority, Target};
use serde::Serialize;
use serde_json::Value;

use super::input::BLANK_BODY;

/// A subject that is made of a body has at most so many bytes.
const SUBJECT: usize = 80;

/// The JSON of a message. The first seven fields are always there.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Letter {
    id: String,
    from: String,
    to: String,
    subject: String,
    body: String,
    created_at: String,
    read: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cc: Vec<String>,
}

impl Letter {
    /// The message as it stands with `reader`, in the thread of this name.
    pub(super) fn new(message: &Message, reader: Option<&AgentName>, read: bool, thread_id: String) -> Letter {
        let body = body(message);
        let subject = message.subject.clone().filter(|subject| !subject.is_empty());
        Letter {
            id: id_for(message, reader),
            from: message.from.foreign(),
            to: shown(&message.to),
            subject: subject.unwrap_or_else(|| first_line(&body).to_string()),
            body,
            created_at: message.time.to_string(),
            read,
            thread_id,
            reply_to: message.reply_to.map(|id| id.to_string()),
            priority: match message.priority {
                Priority::High => Some(1),
                Priority::Normal => None,
                Priority::Low => Some(3),
            },
            cc: message.targets().iter().skip(1).map(shown).collect(),
        }
    }

    /// What lists are sorted by, as callers sort them.
    pub(super) fn place(&self) -> (&str, &str) {
        (&self.created_at, &self.id)
    }
}

/// Whose state is meant when only an id is given: the first agent among the recipients. A message that stands in topics only
/// has none.
pub(super) fn recipient(message: &Message) -> Option<AgentName> {
    message.targets().iter().find_map(Target::agent).cloned()
}

/// The id by which a reader of the message can name its own copy: with the reader behind it where another is meant otherwise.
fn id_for(message: &Message, reader: Option<&AgentName>) -> String {
    match reader {
        Some(reader) if recipient(message).as_ref() != Some(reader) => format!("{}@{reader}", message.id),
        _ => message.id.to_string(),
    }
}

/// An agent by the name that it has there; a topic, of which nothing is known there, with a sign before it.
fn shown(target: &Target) -> String {
    match target {
        Target::Agent(agent) => agent.foreign(),
        Target::Topic(topic) => format!("#{topic}"),
    }
}

/// A text as it is, anything else as compact JSON.
fn body(message: &Message) -> String {
    match (message.extra.get(BLANK_BODY), &message.body) {
        (Some(Value::String(blank)), _) if blank.trim().is_empty() => blank.clone(),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

/// The first line that says something, cut between two characters.
fn first_line(body: &str) -> &str {
    let line = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    &line[..line.floor_char_boundary(SUBJECT)]
}

#[cfg(test)]
mod tests {
    use fmail_api::Draft;
    use serde_json::json;

    use super::*;

    fn message(body: Value) -> Message {
        Draft::new(AgentName::from_foreign("gastown/Crew-1").unwrap(), "@bob".parse().unwrap(), body)
            .into_message("20260110-153000-0001".parse().unwrap(), "2026-01-10T15:30:00Z".parse().unwrap())
    }

    fn letter(message: &Message) -> Value {
        json!(Letter::new(message, recipient(message).as_ref(), false, "t".into()))
    }

    #[test]
    fn what_is_not_there_is_left_out_and_seven_fields_are_always_there() {
        let expected = json!({
            "id": "20260110-153000-0001", "from": "gastown/Crew-1", "to": "bob", "subject": "hello", "body": "hello",
            "created_at": "2026-01-10T15:30:00Z", "read": false, "thread_id": "t",
        });
        assert_eq!(letter(&message("hello".into())), expected);
    }

    #[test]
    fn copies_are_told_apart_by_their_ids() {
        let mut sent = message("x".into());
        sent.more.recipients = vec!["@carol".parse().unwrap()];
        sent.more.cc = vec!["task".parse().unwrap(), "@dave".parse().unwrap()];
        sent.priority = Priority::High;
        let shown = letter(&sent);
        assert_eq!((&shown["cc"], &shown["priority"]), (&json!(["carol", "#task", "dave"]), &json!(1)));
        let copy = Letter::new(&sent, Some(&"carol".parse().unwrap()), true, "t".into());
        assert_eq!((copy.id.as_str(), copy.to.as_str()), ("20260110-153000-0001@carol", "bob"));
    }

    #[test]
    fn a_subject_is_made_of_the_first_line_and_no_character_is_cut() {
        assert_eq!(first_line("\n  \none\ntwo"), "one");
        assert_eq!(first_line(""), "");
        let cut = first_line(&format!("{}ëë", "a".repeat(79))).to_string();
        assert_eq!(cut, "a".repeat(79), "the 80th byte would be half of a character");
        assert_eq!(first_line(&"ë".repeat(80)).len(), 80);
        assert_eq!(letter(&message(json!({"a": [1]})))["subject"], "{\"a\":[1]}");
    }
}
