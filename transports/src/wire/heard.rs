//! From a line of a daemon to what it says.

use std::sync::Arc;

use fmail_api::{Cursor, Delivery, Error, ErrorKind, Event, Mail, Message, Result};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A line that a daemon sent.
#[derive(Debug)]
pub enum Heard {
    /// `ok: true`, with everything beside it.
    Answer(Map<String, Value>),
    /// `ok: false`.
    Refused(Error),
    /// Part of a stream.
    Event(Event),
    /// The stream has ended.
    End,
    /// A sign of life, or something that a newer daemon says and we do not know.
    Other,
}

/// Understands a line of a daemon.
pub fn heard(line: &[u8]) -> Result<Heard> {
    understood(object(line)?)
}

/// Understands a line of a daemon that answers several requests at a time: which request it belongs to, and what it says.
/// An error is a line that is no line of the protocol at all; what cannot be understood of one that is, is the inner error.
pub fn heard_of(line: &[u8]) -> Result<(Option<String>, Result<Heard>)> {
    let fields = object(line)?;
    let req_id = fields.get("req_id").and_then(Value::as_str).map(String::from);
    Ok((req_id, understood(fields)))
}

fn garbled() -> Error {
    Error::internal("the daemon's line cannot be understood").help("compare the versions of both sides")
}

fn object(line: &[u8]) -> Result<Map<String, Value>> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(garbled()),
    }
}

fn understood(mut fields: Map<String, Value>) -> Result<Heard> {
    let cursor = fields.get("cursor").and_then(Value::as_str).map(Cursor::new);
    match fields.get("ok").and_then(Value::as_bool) {
        Some(true) => return Ok(Heard::Answer(fields)),
        Some(false) => {
            let error = fields.remove("error").and_then(|error| serde_json::from_value(error).ok());
            let error: Error = error.ok_or_else(garbled)?;
            if error.kind() == ErrorKind::DurabilityUnknown && fields.contains_key("id") {
                // It was done: this is an answer with a warning.
                fields.insert("not_durable".into(), error.message().into());
                return Ok(Heard::Answer(fields));
            }
            return Ok(Heard::Refused(error));
        }
        None => {}
    }
    if let Some(message) = fields.remove("msg") {
        let message = Arc::new(Message::from_value(message, None, None)?);
        if let Some(state) = fields.remove("mail") {
            let mail = mail(message, state).ok_or_else(garbled)?;
            return Ok(Heard::Event(Event::Mail(Box::new(mail))));
        }
        // A daemon that knows only PROTOCOL.md gives no cursor; then the id is what there is to go on from.
        let cursor = cursor.unwrap_or_else(|| Cursor::new(message.id.to_string()));
        return Ok(Heard::Event(Event::Message(Delivery::new(message, cursor))));
    }
    let swept = fields.remove("removed").and_then(|removed| serde_json::from_value(removed).ok());
    if let Some(removed) = swept {
        return Ok(Heard::Event(Event::Swept(removed)));
    }
    Ok(match (fields.get("event").and_then(Value::as_str), cursor) {
        (Some("end"), _) => Heard::End,
        (Some("progress"), Some(cursor)) => Heard::Event(Event::Progress(cursor)),
        (Some("notice"), _) => told(&mut fields, "notice", Event::Notice),
        (Some("nudge"), _) => told(&mut fields, "nudge", Event::Nudge),
        _ => Heard::Other,
    })
}

/// What an event tells, if it can be understood; a newer daemon may tell more than we know.
fn told<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str, event: fn(T) -> Event) -> Heard {
    match fields.remove(name).and_then(|told| serde_json::from_value(told).ok()) {
        Some(told) => Heard::Event(event(told)),
        None => Heard::Other,
    }
}

/// A message with its state. The word for the state stands in the same object and is no part of it.
fn mail(message: Arc<Message>, mut state: Value) -> Option<Mail> {
    let standing = match state.as_object_mut()?.remove("standing") {
        Some(standing) => Some(serde_json::from_value(standing).ok()?),
        None => None,
    };
    Some(Mail { message, state: serde_json::from_value(state).ok()?, standing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_daemon_are_understood() {
        assert!(matches!(heard(br#"{"ok":true,"id":"x"}"#).unwrap(), Heard::Answer(_)));
        let line = br#"{"ok":false,"error":{"code":"backpressure","message":"m","retryable":true}}"#;
        assert!(matches!(heard(line).unwrap(), Heard::Refused(error) if error.retryable()));
        assert!(matches!(heard(br#"{"event":"ping"}"#).unwrap(), Heard::Other));
        assert!(matches!(heard(br#"{"event":"end"}"#).unwrap(), Heard::End));
        let line = br#"{"msg":{"id":"20260110-153000-0001","from":"a","to":"t","body":1}}"#;
        let Heard::Event(Event::Message(delivery)) = heard(line).unwrap() else { panic!() };
        assert_eq!(delivery.cursor.as_str(), "20260110-153000-0001");
        for wrong in ["", "[]", "garbage", r#"{"ok":false}"#] {
            assert!(heard(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
