//! One step of the conversation as a JSON line, for a plugin that is a program.
//!
//! The words are those of the header, and who sends a line decides the direction: `call` from the host is a call of the
//! plugin, `call` from the plugin one of the host. One line is one JSON object:
//!
//! ```text
//! {"hello":{"abi":[1,0]}}                      the host begins; the program answers {"hello":{its manifest}}
//! {"create":1,"envelope":{…}}                  {"destroy":12}
//! {"call":7,"method":"scan","context":{…},"request":{…}}
//! {"pull":7,"n":64}                            {"cancel":7}
//! {"item":7,"body":{…}}                        {"done":7,"status":1,"body":…}
//! {"log":{"level":"info","target":"…","message":"…","fields":{…}}}
//! ```
//!
//! Bodies (envelope, context, request, body) are bytes to everyone else. In a line, a JSON object or array stands as it
//! is; any other text stands as a JSON string; nothing at all is left out. So the lines of the log profile are strings, and
//! whoever reads a line gets the bytes back without knowing what they mean. `status` 0 is left out. Unknown fields are
//! ignored: a later minor may add some.

use std::borrow::Cow;

use fmail_api::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// So much of a line that cannot be understood is shown.
const EXCERPT: usize = 120;

/// One step of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb<'a> {
    /// The first line of each side: what the host speaks, or the manifest.
    Hello {
        /// A JSON object.
        body: Cow<'a, [u8]>,
    },
    /// Starts an instance.
    Create {
        /// The call that is answered when it is ready.
        id: u64,
        /// A JSON object.
        envelope: Cow<'a, [u8]>,
    },
    /// Ends the instance.
    Destroy {
        /// The call that is answered when everything of it is gone.
        id: u64,
    },
    /// Starts a call.
    Call {
        /// Chosen by the caller.
        id: u64,
        /// Which method.
        method: Cow<'a, str>,
        /// On whose behalf; may be empty.
        context: Cow<'a, [u8]>,
        /// What is asked.
        request: Cow<'a, [u8]>,
    },
    /// Allows more items.
    Pull {
        /// Of this call.
        id: u64,
        /// How many more.
        credits: u32,
    },
    /// The caller no longer waits.
    Cancel {
        /// For this call.
        id: u64,
    },
    /// Answers a call.
    Done {
        /// Which call.
        id: u64,
        /// See [`crate::status`].
        status: i32,
        /// The answer, or what went wrong.
        body: Cow<'a, [u8]>,
    },
    /// Sends an item of a stream.
    Item {
        /// Which call.
        id: u64,
        /// The item.
        body: Cow<'a, [u8]>,
    },
    /// Says something to the operator.
    Log {
        /// How important it is.
        level: Level,
        /// Which part of the plugin says it.
        target: Cow<'a, str>,
        /// What it says.
        message: Cow<'a, str>,
        /// A JSON object, or empty.
        fields: Cow<'a, [u8]>,
    },
}

/// How important a line of the log is: `enum fm_level` of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something failed.
    Error = 1,
    /// Something may fail.
    Warn = 2,
    /// Something happened.
    Info = 3,
    /// For the author of the plugin.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

impl Level {
    /// The level with this number; what is beyond them is the nearest one.
    pub fn from_number(number: u32) -> Level {
        match number {
            0 | 1 => Level::Error,
            2 => Level::Warn,
            3 => Level::Info,
            4 => Level::Debug,
            _ => Level::Trace,
        }
    }
}

/// A line with every field that any verb has; exactly one of the verbs is there. Printed in this order.
#[derive(Default, Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    hello: Option<Body<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    create: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destroy: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pull: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    log: Option<LogLine<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    method: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<i32>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    envelope: Option<Body<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    context: Option<Body<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    request: Option<Body<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    body: Option<Body<'a>>,
}

#[derive(Serialize, Deserialize)]
struct LogLine<'a> {
    level: Level,
    #[serde(default, borrow)]
    target: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    fields: Option<Body<'a>>,
}

/// A body as it stands in a line.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Body<'a>(#[serde(borrow)] Cow<'a, RawValue>);

impl<'a> Body<'a> {
    /// The body in a line; nothing for an empty one.
    fn of(bytes: &'a [u8], what: &str) -> Result<Option<Body<'a>>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Error::invalid(format!("the {what} is not UTF-8 ({error}); lines carry text only"))
                .help("a plugin sends JSON, or the text lines of the log profile")
        })?;
        let raw = match json_on_one_line(text) {
            Some(json) => json,
            None => Cow::Owned(serde_json::value::to_raw_value(text).expect("a string is always JSON")),
        };
        Ok(Some(Body(raw)))
    }

    /// The bytes that the other side meant.
    fn bytes(self) -> Result<Vec<u8>> {
        let json = self.0.get();
        if !json.starts_with('"') {
            return Ok(json.as_bytes().to_vec());
        }
        let text: String = serde_json::from_str(json).map_err(|error| Error::invalid(format!("a string: {error}")))?;
        Ok(text.into_bytes())
    }
}

/// The text as a JSON object or array that stands on one line, if it is one.
fn json_on_one_line(text: &str) -> Option<Cow<'_, RawValue>> {
    if !text.trim_ascii_start().starts_with(['{', '[']) {
        return None;
    }
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    if !raw.get().contains(['\n', '\r']) {
        return Some(Cow::Borrowed(raw));
    }
    // Inside of JSON strings a line break is always escaped, so what stands between the values is all that changes.
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    serde_json::value::to_raw_value(&value).ok().map(Cow::Owned)
}

impl Verb<'_> {
    /// The line, without its line break. Fails only on bytes that are not UTF-8.
    pub fn to_line(&self) -> Result<String> {
        let mut line = Line::default();
        match self {
            Verb::Hello { body } => line.hello = Body::of(body, "hello")?,
            Verb::Create { id, envelope } => {
                (line.create, line.envelope) = (Some(*id), Body::of(envelope, "envelope")?);
            }
            Verb::Destroy { id } => line.destroy = Some(*id),
            Verb::Call { id, method, context, request } => {
                (line.call, line.method) = (Some(*id), Some(Cow::Borrowed(&**method)));
                (line.context, line.request) = (Body::of(context, "context")?, Body::of(request, "request")?);
            }
            Verb::Pull { id, credits } => (line.pull, line.n) = (Some(*id), Some(*credits)),
            Verb::Cancel { id } => line.cancel = Some(*id),
            Verb::Done { id, status, body } => {
                line.done = Some(*id);
                line.status = (*status != crate::status::OK).then_some(*status);
                line.body = Body::of(body, "body")?;
            }
            Verb::Item { id, body } => (line.item, line.body) = (Some(*id), Body::of(body, "body")?),
            Verb::Log { level, target, message, fields } => {
                let fields = Body::of(fields, "fields")?;
                let (target, message) = (Cow::Borrowed(&**target), Cow::Borrowed(&**message));
                line.log = Some(LogLine { level: *level, target, message, fields });
            }
        }
        Ok(serde_json::to_string(&line).expect("numbers, strings and raw JSON are always JSON"))
    }
}

impl Verb<'static> {
    /// Reads a line, with or without its line break. The error says what was found.
    pub fn parse(line: &str) -> Result<Self> {
        let text = line.trim_ascii();
        read(text).map_err(|error| error.context("line", excerpt(text)))
    }

    /// Reads a line as it came. Bytes that are not UTF-8 are an error.
    pub fn from_bytes(line: &[u8]) -> Result<Self> {
        match std::str::from_utf8(line) {
            Ok(text) => Verb::parse(text),
            Err(error) => Err(Error::invalid(format!("the line is not UTF-8: {error}"))
                .context("line", excerpt(&String::from_utf8_lossy(line)))),
        }
    }
}

fn read(text: &str) -> Result<Verb<'static>> {
    if text.is_empty() {
        return Err(Error::invalid("the line is empty; one JSON object is expected"));
    }
    let line: Line<'_> = serde_json::from_str(text)
        .map_err(|error| Error::invalid(format!("not a line of the plugin protocol: {error}")))?;
    match line {
        Line { hello: Some(body), .. } => Ok(Verb::Hello { body: body.bytes()?.into() }),
        Line { create: Some(id), envelope, .. } => Ok(Verb::Create { id, envelope: owned(envelope)? }),
        Line { destroy: Some(id), .. } => Ok(Verb::Destroy { id }),
        Line { call: Some(id), method: Some(method), context, request, .. } => {
            let method = Cow::Owned(method.into_owned());
            Ok(Verb::Call { id, method, context: owned(context)?, request: owned(request)? })
        }
        Line { call: Some(_), .. } => Err(Error::invalid("a call without its \"method\"")),
        Line { pull: Some(id), n: Some(credits), .. } => Ok(Verb::Pull { id, credits }),
        Line { pull: Some(_), .. } => Err(Error::invalid("a pull without its \"n\"")),
        Line { cancel: Some(id), .. } => Ok(Verb::Cancel { id }),
        Line { done: Some(id), status, body, .. } => {
            Ok(Verb::Done { id, status: status.unwrap_or(crate::status::OK), body: owned(body)? })
        }
        Line { item: Some(id), body, .. } => Ok(Verb::Item { id, body: owned(body)? }),
        Line { log: Some(log), .. } => Ok(Verb::Log {
            level: log.level,
            target: Cow::Owned(log.target.into_owned()),
            message: Cow::Owned(log.message.into_owned()),
            fields: owned(log.fields)?,
        }),
        _ => Err(Error::invalid(
            "no verb in the line; one of hello, create, destroy, call, pull, cancel, done, item, log is expected",
        )),
    }
}

fn owned(body: Option<Body<'_>>) -> Result<Cow<'static, [u8]>> {
    Ok(body.map(Body::bytes).transpose()?.unwrap_or_default().into())
}

/// What is shown of a line that cannot be understood.
fn excerpt(line: &str) -> String {
    match line.char_indices().nth(EXCERPT) {
        Some((at, _)) => format!("{}… ({} bytes)", &line[..at], line.len()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verb: &Verb<'static>, line: &str) {
        assert_eq!(verb.to_line().unwrap(), line);
        assert_eq!(Verb::parse(line).unwrap(), *verb);
    }

    fn bytes(text: &'static str) -> Cow<'static, [u8]> {
        Cow::Borrowed(text.as_bytes())
    }

    #[test]
    fn every_verb_has_its_line() {
        check(&Verb::Hello { body: bytes(r#"{"abi":[1,0]}"#) }, r#"{"hello":{"abi":[1,0]}}"#);
        check(
            &Verb::Create { id: 1, envelope: bytes(r#"{"role":"store"}"#) },
            r#"{"create":1,"envelope":{"role":"store"}}"#,
        );
        let (context, request) = (bytes(r#"{"deadline_ms":5}"#), bytes(r#"{"a":1.50}"#));
        check(
            &Verb::Call { id: u64::MAX, method: "append".into(), context, request },
            r#"{"call":18446744073709551615,"method":"append","context":{"deadline_ms":5},"request":{"a":1.50}}"#,
        );
        check(&Verb::Pull { id: 9, credits: 64 }, r#"{"pull":9,"n":64}"#);
        check(&Verb::Cancel { id: 7 }, r#"{"cancel":7}"#);
        check(&Verb::Destroy { id: 12 }, r#"{"destroy":12}"#);
        check(&Verb::Done { id: 7, status: 0, body: bytes("[]") }, r#"{"done":7,"body":[]}"#);
        check(&Verb::Done { id: 7, status: -3, body: bytes("") }, r#"{"done":7,"status":-3}"#);
        check(&Verb::Item { id: 9, body: bytes(r#"{"x":"\n"}"#) }, r#"{"item":9,"body":{"x":"\n"}}"#);
        let (target, message, fields) = ("t".into(), "a \"b\"".into(), bytes(r#"{"n":1}"#));
        check(
            &Verb::Log { level: Level::Info, target, message, fields },
            r#"{"log":{"level":"info","target":"t","message":"a \"b\"","fields":{"n":1}}}"#,
        );
    }

    #[test]
    fn text_stands_as_a_string_even_when_it_could_be_json() {
        for text in ["7 hello", "5", "true", "null", "\"quoted\"", "1 a\n2 b\n", "{ not json", "[", "ünïcode"] {
            let verb = Verb::Done { id: 1, status: 0, body: bytes(text) };
            let line = verb.to_line().unwrap();
            assert!(line.starts_with(r#"{"done":1,"body":""#) && !line.contains('\n'), "{line}");
            assert_eq!(Verb::parse(&line).unwrap(), verb);
        }
    }

    #[test]
    fn json_over_several_lines_becomes_one() {
        let verb = Verb::Item { id: 1, body: bytes("{\n  \"b\": 1.10,\r\n  \"a\": \"x\\ny\"\n}\n") };
        assert_eq!(verb.to_line().unwrap(), r#"{"item":1,"body":{"b":1.10,"a":"x\ny"}}"#);
    }

    #[test]
    fn what_is_left_out_or_null_is_empty() {
        let empty = Verb::Done { id: 3, status: 0, body: bytes("") };
        for line in [r#"{"done":3}"#, r#"{"done":3,"body":null}"#, r#"{"done":3,"status":0,"body":""}"#] {
            assert_eq!(Verb::parse(line).unwrap(), empty, "{line}");
        }
        assert_eq!(Verb::parse(" {\"cancel\":7,\"since\":\"2.0\"}\r\n").unwrap(), Verb::Cancel { id: 7 });
    }

    #[test]
    fn a_line_that_cannot_be_understood_is_shown_with_the_reason() {
        for (line, reason) in [
            ("", "empty"),
            ("hello", "not a line"),
            ("[1]", "not a line"),
            (r#"{"call":7}"#, "\"method\""),
            (r#"{"pull":7}"#, "\"n\""),
            (r#"{"pull":7,"n":-1}"#, "u32"),
            (r#"{"done":"7"}"#, "u64"),
            (r#"{"cancel":7,"cancel":8}"#, "duplicate"),
            (r#"{"log":{"level":"loud","message":"x"}}"#, "loud"),
            (r#"{"send":1}"#, "no verb"),
        ] {
            let error = Verb::parse(line).unwrap_err().to_string();
            assert!(error.starts_with(line) && error.contains(reason), "{line}: {error}");
        }
        let long = format!("{{\"done\":1,\"body\":\"{}", "é".repeat(500));
        let error = Verb::parse(&long).unwrap_err().to_string();
        assert!(error.contains("… (1018 bytes)") && error.len() < 500, "{error}");
        assert!(Verb::from_bytes(b"{\"done\":\xff}").unwrap_err().to_string().contains("not UTF-8"));
    }

    #[test]
    fn bytes_that_are_not_text_do_not_become_a_line() {
        let verb = Verb::Item { id: 1, body: Cow::Borrowed(b"\xff\xfe") };
        assert!(verb.to_line().unwrap_err().to_string().contains("not UTF-8"));
    }
}
