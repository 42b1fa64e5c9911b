//! The operations of a project at the other end of a connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Client, Context, Error, ErrorKind, Event, EventStream, Reply, Request, Response, Result};
use futures::channel::mpsc::{Receiver, channel};
use futures::executor::block_on;
use futures::{SinkExt, Stream, StreamExt};

use crate::conversation::{Answer, Conversation, Endpoint, Failure, Hangup};
use crate::wire::response;

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
        reply(conversation, &context, &request, answer)
    }
}

/// What an answer means, with the events that follow it on its connection.
pub fn reply(conversation: Conversation, context: &Context, request: &Request, answer: Answer) -> Result<Reply> {
    let head = response(context, request, answer)?;
    let streams = matches!(
        head,
        Response::Watching(_)
            | Response::Log { .. }
            | Response::Collecting(_)
            | Response::Mail { .. }
            | Response::Thread { .. }
            | Response::Found { .. }
            | Response::Fetching
    );
    if !streams {
        return Ok(Reply::new(head));
    }
    Ok(Reply::streaming(head, events(conversation)?))
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
