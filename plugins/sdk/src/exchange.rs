//! One request and all that answers it, as the objects that a transport carries in either direction.

use fmail_api::{Error, Operation, Result};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};

use crate::{Caller, Host, Reply};

/// What precedes the end of a stream, so that one which was cut off is not taken for a short one.
const END: &str = r#"{"event":"end"}"#;

impl Host {
    /// Runs one operation, and gives every object that goes back to the peer: the answer; for the operations that stream
    /// what follows, and `{"event":"end"}`; for what went wrong `{"ok":false,"error":…}`. Each carries the request's own
    /// `req_id`.
    ///
    /// Dropping the stream gives the operation up.
    pub fn exchange(&self, caller: &Caller, request: &str) -> BoxStream<'static, String> {
        let req_id = match req_id(request) {
            Ok(req_id) => req_id,
            Err(error) => return stream::iter([failure(&error, None)]).boxed(),
        };
        let (host, caller, request) = (self.clone(), caller.clone(), request.to_string());
        stream::once(async move {
            match host.request(&caller, &request).await {
                Err(error) => stream::iter([failure(&error, req_id.as_ref())]).boxed(),
                Ok(Reply { head, events: None }) => stream::iter([named(head, req_id.as_ref())]).boxed(),
                Ok(Reply { head, events: Some(events) }) => {
                    stream::iter([named(head, req_id.as_ref())]).chain(following(events, req_id)).boxed()
                }
            }
        })
        .flatten()
        .boxed()
    }
}

/// What follows an answer, with its end.
fn following(
    events: BoxStream<'static, Result<String>>,
    req_id: Option<Value>,
) -> impl futures::Stream<Item = String> + Send {
    stream::unfold(Some((events, req_id)), |open| async {
        let (mut events, req_id) = open?;
        match events.next().await {
            Some(Ok(event)) => {
                let event = named(event, req_id.as_ref());
                Some((event, Some((events, req_id))))
            }
            Some(Err(error)) => Some((failure(&error, req_id.as_ref()), None)),
            None => Some((named(END.into(), req_id.as_ref()), None)),
        }
    })
}

impl Caller {
    /// The request as it goes to the other side of a transport: it names its project, as on any address that several
    /// projects share.
    pub fn addressed(&self, request: &str) -> Result<String> {
        let mut value = parsed(request)?;
        if let (Some(id), Some(fields)) = (&self.project, value.as_object_mut()) {
            fields.entry("project_id").or_insert_with(|| json!(id));
        }
        Ok(value.to_string())
    }
}

impl Reply {
    /// Understands what the other side answers to a request: the objects that [`Host::exchange`] gives there. `objects`
    /// ends with an error when the other side is lost; when it just ends before it should, that is one too.
    pub async fn heard(request: &str, mut objects: BoxStream<'static, Result<String>>) -> Result<Reply> {
        let request = parsed(request)?;
        let streams =
            Operation::ALL.iter().any(|operation| request["cmd"] == operation.as_str() && operation.streams());
        let head = objects.next().await.unwrap_or_else(|| Err(cut_off()))?;
        let value = parsed(&head)?;
        match value.get("ok").and_then(Value::as_bool) {
            // Who waits for a plain answer takes no stream.
            Some(true) if !streams => Ok(Reply { head, events: None }),
            Some(true) => Ok(Reply { head, events: Some(heard_events(objects)) }),
            // What is stored but perhaps not durable is told by the answer itself.
            Some(false) if value.get("id").is_some() => Ok(Reply { head, events: None }),
            _ => Err(told(&value)),
        }
    }
}

fn heard_events(objects: BoxStream<'static, Result<String>>) -> BoxStream<'static, Result<String>> {
    stream::unfold(Some(objects), |open| async {
        let mut objects = open?;
        let understood = match objects.next().await.unwrap_or_else(|| Err(cut_off())) {
            Ok(text) => parsed(&text).map(|value| (text, value)),
            Err(error) => Err(error),
        };
        match understood {
            Ok((_, value)) if value["event"] == "end" => None,
            Ok((_, value)) if value["ok"] == false => Some((Err(told(&value)), None)),
            Ok((text, _)) => Some((Ok(text), Some(objects))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

/// The error that an object tells.
fn told(object: &Value) -> Error {
    serde_json::from_value(object["error"].clone())
        .unwrap_or_else(|_| Error::internal("the answer of the other side cannot be understood"))
}

fn cut_off() -> Error {
    Error::new(fmail_api::ErrorKind::Unavailable, "the other side broke off in the middle of an answer")
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::internal(format!("not a JSON object: {error}")))
}

/// The caller's own name for a request.
fn req_id(request: &str) -> Result<Option<Value>> {
    let mut value: Value = serde_json::from_str(request)
        .map_err(|error| Error::invalid(format!("the message is not a JSON object: {error}")))?;
    Ok(value.get_mut("req_id").map(Value::take).filter(|req_id| req_id.is_string() || req_id.is_number()))
}

/// An object with the name of its request. The host's objects are compact and never empty.
fn named(mut object: String, req_id: Option<&Value>) -> String {
    if let (Some(req_id), Some('}')) = (req_id, object.pop()) {
        object.push_str(&format!(",\"req_id\":{req_id}"));
    }
    object.push('}');
    object
}

/// The object that answers a request which is refused before it reaches the host.
pub fn refusal(request: &str, error: &Error) -> String {
    failure(error, req_id(request).unwrap_or_default().as_ref())
}

/// An error as an object of the protocol.
fn failure(error: &Error, req_id: Option<&Value>) -> String {
    let error = serde_json::to_string(error).unwrap_or_default();
    named(format!("{{\"ok\":false,\"error\":{error}}}"), req_id)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    fn heard(request: &str, objects: &[&str]) -> Result<(String, Vec<Result<String>>)> {
        let objects: Vec<Result<String>> = objects.iter().map(|text| Ok(text.to_string())).collect();
        Builder::new_current_thread().build().unwrap().block_on(async {
            let reply = Reply::heard(request, stream::iter(objects).boxed()).await?;
            let events = match reply.events {
                Some(events) => events.collect().await,
                None => Vec::new(),
            };
            Ok((reply.head, events))
        })
    }

    #[test]
    fn a_stream_that_just_stops_is_an_error() {
        let (head, events) = heard(r#"{"cmd":"log"}"#, &[r#"{"ok":true}"#, r#"{"msg":{}}"#]).unwrap();
        assert_eq!(head, r#"{"ok":true}"#);
        assert!(events[0].is_ok() && events.len() == 2, "{events:?}");
        assert_eq!(events[1].as_ref().unwrap_err().kind(), fmail_api::ErrorKind::Unavailable);
        let (_, events) = heard(r#"{"cmd":"log"}"#, &[r#"{"ok":true}"#, END]).unwrap();
        assert!(events.is_empty());
        assert!(heard(r#"{"cmd":"topics"}"#, &[]).is_err());
    }

    #[test]
    fn errors_keep_their_kind() {
        let text = failure(&Error::not_found("there is none"), Some(&json!(7)));
        assert!(text.ends_with(r#","req_id":7}"#), "{text}");
        let error = heard(r#"{"cmd":"topics"}"#, &[&text]).unwrap_err();
        assert_eq!((error.kind(), error.message()), (fmail_api::ErrorKind::NotFound, "there is none"));
    }

    #[test]
    fn a_request_names_its_project_once() {
        let caller = Caller::in_project("one");
        assert_eq!(caller.addressed(r#"{"cmd":"topics"}"#).unwrap(), r#"{"cmd":"topics","project_id":"one"}"#);
        assert_eq!(caller.addressed(r#"{"project_id":"two"}"#).unwrap(), r#"{"project_id":"two"}"#);
    }
}
