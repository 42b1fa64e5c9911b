//! The operations of a project at the other end of a connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{
    Client, Context, Cursor, Draft, Error, ErrorKind, Event, EventStream, MessageId, Recipients, Reply, Request,
    Response, Result, SendRequest, Sent, canonical_tags,
};
use futures::channel::mpsc::{Receiver, channel};
use futures::executor::block_on;
use futures::{SinkExt, Stream, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::conversation::{Conversation, Endpoint, Failure, Hangup};

/// How long a daemon may take to say hello. That waits for no lock and no sync: who cannot do it soon is stopped or stuck,
/// and a command does better without it.
pub const GREETING: Duration = Duration::from_millis(500);
/// How long a daemon may take to answer.
pub const ANSWER: Duration = Duration::from_secs(5);

/// A project that is served elsewhere. Each call has a connection of its own; a stream keeps it.
///
/// Like the files store it does its work where it is polled; only streams have a thread, which waits for lines.
pub struct Remote {
    endpoint: Endpoint,
    project: Option<String>,
}

impl Remote {
    /// The project behind an endpoint. Nothing is connected yet.
    pub fn new(endpoint: Endpoint, project: Option<String>) -> Self {
        Remote { endpoint, project }
    }

    /// Connects and says hello.
    fn greet(&self, context: &Context) -> Result<Conversation> {
        let nobody = || Error::new(ErrorKind::Unavailable, "no daemon answers").help("start one with `forged`");
        let mut conversation = Conversation::open(&self.endpoint).ok_or_else(nobody)?;
        conversation.wait(ANSWER).map_err(Failure::into_error)?;
        conversation.hello(context).map_err(Failure::into_error)?;
        Ok(conversation)
    }
}

/// The project behind an endpoint, if a daemon answers there now.
pub(crate) fn connected(endpoint: Endpoint, project: Option<String>) -> Result<Arc<dyn Client>> {
    let nobody = || Error::new(ErrorKind::Unavailable, "no daemon answers").help("start one with `forged`");
    Conversation::open(&endpoint).ok_or_else(nobody)?;
    Ok(Arc::new(Remote::new(endpoint, project)))
}

#[async_trait]
impl Client for Remote {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        let context = Context { project: self.project.clone(), ..context.clone() };
        let mut conversation = self.greet(&context)?;
        let answer = conversation.ask(&context, &request).map_err(Failure::into_error)?;
        let head = response(&context, &request, answer)?;
        let streams = matches!(head, Response::Watching(_) | Response::Log { .. } | Response::Collecting(_));
        if !streams {
            return Ok(Reply::new(head));
        }
        Ok(Reply::streaming(head, events(conversation)?))
    }
}

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
        Request::Who => Response::Agents {
            agents: taken(&mut answer, "agents")?,
            notices: taken(&mut answer, "notices").unwrap_or_default(),
        },
        Request::Register(_) => Response::Registered(taken(&mut answer, "registered")?),
        Request::Status(_) => Response::Status(taken(&mut answer, "status")?),
        Request::Gc(_) => Response::Collecting(taken(&mut answer, "gc")?),
        _ => return Err(Error::unsupported("understand the answer to this operation")),
    })
}

/// What became of a message. The answer carries its id; the rest is what was sent.
fn sent(context: &Context, send: &SendRequest, mut answer: Map<String, Value>) -> Result<Sent> {
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
    Ok(Sent {
        message: draft.into_message(id, id.time().whole_seconds()),
        duplicate: taken(&mut answer, "duplicate").unwrap_or_default(),
        not_durable: taken(&mut answer, "not_durable").ok(),
        unknown: taken(&mut answer, "unknown").unwrap_or_default(),
        namesake: taken(&mut answer, "namesake").ok(),
        reply_to_unknown: taken(&mut answer, "reply_to_unknown").unwrap_or_default(),
        agent_not_tracked: taken(&mut answer, "agent_not_tracked").ok(),
    })
}

fn taken<T: DeserializeOwned>(answer: &mut Map<String, Value>, name: &str) -> Result<T> {
    let value = answer.remove(name).unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|error| {
        Error::internal(format!("the daemon's answer has no `{name}` that can be used: {error}"))
            .help("compare the versions of both sides")
    })
}

/// The events of a conversation, read by a thread of their own. Dropping the stream hangs up.
pub fn events(mut conversation: Conversation) -> Result<EventStream> {
    conversation.listen().map_err(Failure::into_error)?;
    let hangup = conversation.hangup();
    let (mut sender, receiver) = channel(64);
    let read = move || {
        loop {
            let (item, last) = match conversation.next_event() {
                Ok(Some(event)) => (Ok(event), false),
                Ok(None) => return,
                Err(failure) => (Err(failure.into_error()), true),
            };
            // Nobody listens any more, or there is nothing more to hear.
            if block_on(sender.send(item)).is_err() || last {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("fmail-remote".into())
        .spawn(read)
        .map_err(|error| Error::io("no thread to read the connection", &error))?;
    Ok(Listening { events: receiver, _hangup: hangup }.boxed())
}

struct Listening {
    events: Receiver<Result<Event>>,
    _hangup: Option<Hangup>,
}

impl Stream for Listening {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(task)
    }
}
