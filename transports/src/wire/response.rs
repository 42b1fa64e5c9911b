//! From the answer of a daemon to the response that it stands for.

use fmail_api::{
    Context, Cursor, Draft, Error, LeasesChanged, MailCount, Marked, Message, MessageId, Recipients, Request, Reserved,
    Response, Result, SendRequest, Sent, canonical_tags,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What an answer says, by what was asked.
pub fn response(context: &Context, request: &Request, mut answer: Map<String, Value>) -> Result<Response> {
    Ok(match request {
        Request::Hello(_) => Response::Hello(taken(&mut answer, "hello")?),
        Request::Send(send) => Response::Sent(Box::new(sent(context, send, answer)?)),
        Request::Watch(_) | Request::Relay(_) => Response::Watching(
            answer.remove("cursor").and_then(|cursor| Some(Cursor::new(cursor.as_str()?))).unwrap_or(Cursor::new("")),
        ),
        Request::Log(_) => Response::Log { more: taken(&mut answer, "more")? },
        Request::Topics => Response::Topics(taken(&mut answer, "topics")?),
        Request::Who(_) => Response::Agents {
            agents: taken(&mut answer, "agents")?,
            notices: taken(&mut answer, "notices").unwrap_or_default(),
        },
        Request::Register(_) => Response::Registered(taken(&mut answer, "registered")?),
        Request::Status(_) => Response::Status(taken(&mut answer, "status")?),
        Request::Gc(_) => Response::Collecting(taken(&mut answer, "gc")?),
        Request::Inbox(_) | Request::Read(_) => Response::Mail { more: taken(&mut answer, "more")? },
        Request::Count => {
            let unread_set = taken(&mut answer, "unread_set").unwrap_or_default();
            let (total, unread) = (taken(&mut answer, "total")?, taken(&mut answer, "unread")?);
            let notices = taken(&mut answer, "notices").unwrap_or_default();
            Response::Counted { count: MailCount { total, unread, unread_set }, notices }
        }
        Request::Mark(_) => Response::Marked(marked(answer)?),
        Request::Reply(_) => {
            let message = taken(&mut answer, "msg")?;
            Response::Sent(Box::new(stored(message, answer)))
        }
        Request::Thread(_) => Response::Thread { thread: taken(&mut answer, "thread")? },
        Request::Receipt(_) => Response::Receipt(taken(&mut answer, "receipt")?),
        Request::Search(_) => Response::Found { more: taken(&mut answer, "more")? },
        Request::Reserve(_) => Response::Reserved(Reserved {
            granted: taken(&mut answer, "granted")?,
            conflicts: taken(&mut answer, "conflicts")?,
        }),
        Request::Release(_) | Request::Renew(_) => Response::LeasesChanged(LeasesChanged {
            changed: taken(&mut answer, "changed")?,
            skipped: taken(&mut answer, "skipped")?,
        }),
        Request::Reservations(_) => Response::Reservations(taken(&mut answer, "reservations")?),
        Request::Nudge(_) => Response::Nudged { sessions: taken(&mut answer, "sessions")? },
        Request::Import(_) => Response::Imported(taken(&mut answer, "imported")?),
        Request::ImportMany(_) => Response::ImportedMany(taken(&mut answer, "imported")?),
        Request::Digest(_) => Response::Digest(taken(&mut answer, "digest")?),
        Request::Fetch(_) => Response::Fetching,
        Request::Records(_) => Response::Records(taken(&mut answer, "records")?),
        Request::RelayStatus => Response::RelayStatus(taken(&mut answer, "relay")?),
        _ => return Err(Error::unsupported("understand the answer to this operation")),
    })
}

/// What became of marked messages: of several, or of the one that the answer is about.
fn marked(mut answer: Map<String, Value>) -> Result<Vec<Marked>> {
    if answer.contains_key("marked") {
        return taken(&mut answer, "marked");
    }
    taken(&mut answer, "id").map(|id| {
        let already = taken(&mut answer, "already").unwrap_or_default();
        vec![Marked { id, already, was_unread: false, error: None }]
    })
}

/// What became of a message. The answer carries its id; the rest is what was sent, unless the message came with it.
fn sent(context: &Context, send: &SendRequest, mut answer: Map<String, Value>) -> Result<Sent> {
    if let Some(message) = answer.remove("msg") {
        return Ok(stored(Message::from_value(message, None, None)?, answer));
    }
    let id: MessageId = taken(&mut answer, "id")?;
    let draft = Draft {
        more: Recipients { recipients: send.recipients.clone(), cc: send.cc.clone() },
        reply_to: send.reply_to.as_ref().and_then(|text| text.parse().ok()),
        priority: send.priority,
        host: context.host.clone(),
        tags: canonical_tags(send.tags.iter().map(String::as_str))?,
        subject: send.subject.clone(),
        thread: send.thread.clone(),
        ack_required: send.ack_required,
        expires: send.expires,
        key: send.key.clone(),
        extra: send.extra.clone(),
        ..Draft::new(context.agent.clone(), send.to.clone(), send.body.clone())
    };
    Ok(stored(draft.into_message(id, id.time().whole_seconds()), answer))
}

fn stored(message: Message, mut answer: Map<String, Value>) -> Sent {
    Sent {
        message,
        duplicate: taken(&mut answer, "duplicate").unwrap_or_default(),
        not_durable: taken(&mut answer, "not_durable").ok(),
        unknown: taken(&mut answer, "unknown").unwrap_or_default(),
        namesake: taken(&mut answer, "namesake").ok(),
        backlog: taken(&mut answer, "backlog").unwrap_or_default(),
        reply_to_unknown: taken(&mut answer, "reply_to_unknown").unwrap_or_default(),
        agent_not_tracked: taken(&mut answer, "agent_not_tracked").ok(),
    }
}

fn taken<T: DeserializeOwned>(answer: &mut Map<String, Value>, name: &str) -> Result<T> {
    let value = answer.remove(name).unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|error| {
        Error::internal(format!("the daemon's answer has no `{name}` that can be used: {error}"))
            .help("compare the versions of both sides")
    })
}
