//! A message as a line of the file, and a line as a message.

use fmail_api::{AgentName, ContentHash, Draft, Error, Result, Target};
use fmail_chat_file::ChatLine;
use serde_json::Value;

use crate::entries;

/// The line that says what a draft says, and its text in the file.
///
/// A text stands there as it is, if it is read back as it was. Everything else stands there as its JSON; the sidecar
/// remembers what it was.
pub(crate) fn written(draft: &Draft) -> Result<(ChatLine, String)> {
    let targets =
        draft.clone().into_message(fmail_api::MessageId::MIN, fmail_api::Timestamp::from_unix(0, 0)).targets();
    let mut names = targets.iter().map(|target| target.agent().map(AgentName::foreign).ok_or_else(no_topics));
    let mut line = ChatLine {
        sender: draft.from.foreign(),
        recipient: names.next().unwrap_or_else(|| Err(no_topics()))?,
        broadcast: names.collect::<Result<_>>()?,
        message: String::new(),
    };
    if let Value::String(text) = &draft.body {
        line.message.clone_from(text);
        if let Some(text) = read_back(&line) {
            return Ok((line, text));
        }
    }
    line.message = draft.body.to_string();
    match read_back(&line) {
        Some(text) => Ok((line, text)),
        None => Err(line
            .to_line()
            .err()
            .unwrap_or_else(|| Error::internal("a chat line is not read as it was written"))
            .help("a chat file's names are of letters, digits, `-` and `_`, without `-to-`; send under another name")),
    }
}

/// The text of a line, if it is read as it was written.
fn read_back(line: &ChatLine) -> Option<String> {
    let text = line.to_line().ok()?;
    let read = entries::of_text(text.as_bytes());
    (read.len() == 1 && read[0].line == *line).then_some(text)
}

/// What a line that somebody else wrote says.
pub(crate) fn draft(line: &ChatLine) -> Result<Draft> {
    let mut draft = Draft::new(AgentName::from_foreign(&line.sender)?, mailbox(&line.recipient)?, line.message.clone());
    draft.more.cc = line.broadcast.iter().map(|name| mailbox(name)).collect::<Result<_>>()?;
    Ok(draft)
}

fn mailbox(name: &str) -> Result<Target> {
    AgentName::from_foreign(name).map(Target::Agent)
}

/// By what a line is known again, wherever it stands: everything that it says.
pub(crate) fn fingerprint(line: &ChatLine) -> ContentHash {
    let mut parts = vec![line.sender.as_bytes(), line.recipient.as_bytes(), line.message.as_bytes()];
    parts.extend(line.broadcast.iter().map(String::as_bytes));
    ContentHash::of(&parts)
}

/// A chat file has direct messages only.
pub(crate) fn no_topics() -> Error {
    Error::unsupported("keep topics, only direct messages")
        .help("name an agent, as in `fmail send @reviewer \"…\"`; a chat file's lines go from one agent to another")
}

#[cfg(test)]
mod tests {
    use fmail_api::ErrorKind;
    use serde_json::json;

    use super::*;

    fn text(from: &str, to: &str, body: Value) -> Result<String> {
        let from = AgentName::from_foreign(from).unwrap();
        Ok(written(&Draft::new(from, mailbox(to).unwrap(), body))?.1)
    }

    #[test]
    fn texts_stand_as_they_are_and_everything_else_as_json() {
        for (body, expected) in [
            (json!("Please review"), "[coder-to-reviewer]: Please review\n"),
            (json!("one\n\n  two"), "[coder-to-reviewer]: one\n  \n    two\n"),
            (json!(" leading"), "[coder-to-reviewer]: \" leading\"\n"),
            (json!(""), "[coder-to-reviewer]: \"\"\n"),
            (json!("a\r\nb"), "[coder-to-reviewer]: \"a\\r\\nb\"\n"),
            (json!({"n": [1, null]}), "[coder-to-reviewer]: {\"n\":[1,null]}\n"),
            (json!(null), "[coder-to-reviewer]: null\n"),
            (json!("[x-to-y]: not a line of its own"), "[coder-to-reviewer]: [x-to-y]: not a line of its own\n"),
            (json!("a\n[x-to-y]: neither"), "[coder-to-reviewer]: a\n  [x-to-y]: neither\n"),
        ] {
            assert_eq!(text("coder", "reviewer", body).unwrap(), expected);
        }
    }

    #[test]
    fn names_keep_their_own_spelling_and_what_would_be_misread_is_refused() {
        assert_eq!(text("Build_Bot", "GreenDog", json!("x")).unwrap(), "[Build_Bot-to-GreenDog]: x\n");
        for (from, to) in [("a-to-b", "c"), ("a", "b-to-c"), ("a", "to-b"), ("gastown/crew", "c"), ("a", "zoë")] {
            let error = text(from, to, json!("x")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidAgent, "{from} {to}: {error}");
        }
    }

    #[test]
    fn a_topic_is_refused_wherever_it_stands() {
        let to: Target = "task".parse().unwrap();
        assert_eq!(
            written(&Draft::new("a".parse().unwrap(), to.clone(), "x")).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        let mut draft = Draft::new("a".parse().unwrap(), mailbox("b").unwrap(), "x");
        draft.more.cc = vec![to];
        assert_eq!(written(&draft).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
