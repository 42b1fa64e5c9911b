//! What `send` and `reply` are told on standard input.

use std::io::Read;

use fmail_api::{AgentName, Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The field in which a body stands that fmail would not store: a text of nothing but blanks.
pub(super) const BLANK_BODY: &str = "gc_body";

/// A message as a caller gives it. An absent field is as good as an empty one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Input {
    from: Option<String>,
    subject: Option<String>,
    body: Option<String>,
}

/// What of it is stored.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) from: AgentName,
    pub(super) subject: Option<String>,
    pub(super) body: Value,
    pub(super) extra: Map<String, Value>,
}

/// Reads a message whose size may be `limit`. One character of it may be six of JSON.
pub(super) fn read(source: impl Read, limit: usize) -> Result<Written> {
    let most = limit.saturating_mul(6).saturating_add(65_536);
    let mut bytes = Vec::new();
    let failed = |error| Error::io("cannot read standard input", &error);
    source.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > most {
        let what = format!("standard input has more than {most} bytes, and a message at most {limit}");
        return Err(Error::new(ErrorKind::TooLarge, what)
            .help("write large data to a file and send its path, or raise mail.max_message_bytes"));
    }
    let help = r#"a message is written {"from":"alice","subject":"Merge","body":"may I?"}"#;
    if bytes.is_empty() {
        return Err(Error::invalid("there is no message: standard input is empty").help(help));
    }
    let input: Input = serde_json::from_slice(&bytes)
        .map_err(|error| Error::invalid(format!("standard input is not a message: {error}")).help(help))?;
    input.written()
}

impl Input {
    fn written(self) -> Result<Written> {
        let from = self.from.unwrap_or_default();
        if from.is_empty() {
            return Err(Error::new(ErrorKind::InvalidAgent, "the message has no sender: `from` is empty")
                .help("name who sends it; a person is called `human` there"));
        }
        let from = AgentName::from_foreign(&from)?;
        let (subject, body) = (self.subject.unwrap_or_default(), self.body.unwrap_or_default());
        let mut extra = Map::new();
        let stored = match (body.trim().is_empty(), subject.trim().is_empty()) {
            (false, _) => body,
            (true, true) => return Err(Error::invalid("the message says nothing: `subject` and `body` are empty")),
            // fmail has no messages without a text. Its readers see the subject, these callers what they wrote.
            (true, false) => {
                extra.insert(BLANK_BODY.into(), body.into());
                subject.clone()
            }
        };
        let subject = Some(subject).filter(|subject| !subject.is_empty());
        Ok(Written { from, subject, body: stored.into(), extra })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<Written> {
        read(text.as_bytes(), 1000)
    }

    #[test]
    fn escapes_are_read_and_nothing_else_changes() {
        let read = written(r#"{"from":"Gas/A","subject":"","body":"a \u003cb\u003e\n\u2028 \" ë 🚂\r\n"}"#).unwrap();
        assert_eq!(read.from.foreign(), "Gas/A");
        assert_eq!((read.subject, read.body), (None, Value::from("a <b>\n\u{2028} \" ë 🚂\r\n")));
        // What looks like JSON is a text here.
        assert_eq!(written(r#"{"from":"a","body":"{\"x\":1}"}"#).unwrap().body, r#"{"x":1}"#);
    }

    #[test]
    fn a_subject_alone_is_a_message_and_nothing_at_all_is_none() {
        let read = written(r#"{"from":"a","subject":"ping","body":" "}"#).unwrap();
        assert_eq!((&read.body, &read.extra[BLANK_BODY]), (&Value::from("ping"), &Value::from(" ")));
        assert!(written(r#"{"from":"a","subject":" ","body":""}"#).is_err());
    }

    #[test]
    fn what_is_no_message_is_told() {
        let endings = ["", "{", "[]", "null", "7", r#"{"from":"a","body":7}"#, r#"{"from":"a","body":"x"} y"#];
        for text in endings.into_iter().chain([r#"{"body":"x"}"#, r#"{"from":"a","from":"b","body":"x"}"#]) {
            assert!(written(text).is_err(), "{text}");
        }
        assert!(read(&b"{\"from\":\"a\",\"body\":\"\xff\"}"[..], 1000).is_err());
        let error = read(vec![b' '; 100_000].as_slice(), 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
}
