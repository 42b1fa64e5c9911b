//! Watching through a daemon, and going on without it.
//!
//! A watch that loses its daemon tries to find it again for a moment, then goes on with the files. Either way it resumes
//! at the cursor of the last message: daemon and files share one order of arrival, so nothing is lost and nothing repeated.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Client, Context, Cursor, Error, ErrorKind, Event, EventStream, MessageId, Reply, Request, Response, Result, Since,
    Timestamp, WatchRequest,
};
use fmail_core::Operations;
use fmail_host::Project;
use fmail_transports::{ANSWER, Conversation, Endpoint, Failure, events, response};
use futures::{StreamExt, stream};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{context, endpoints, explained, make_sure};
use crate::output::note;
use crate::session::{Place, Session, now};

/// How long to wait before each attempt to find a lost daemon again.
const AGAIN: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];
/// How many ids are remembered where a stream can only be resumed by one.
const REMEMBERED: usize = 4096;

/// Watches through the project's daemon; nothing when there is none.
pub(crate) async fn watch(place: &Place, session: &Session, request: WatchRequest) -> Result<Option<Reply>> {
    for endpoint in endpoints(place) {
        let endpoint = endpoint?;
        let Some(conversation) = Conversation::open(&endpoint) else { continue };
        let context = context(place, &session.context.agent)?;
        let daemon = Daemon { endpoint, context, project: place.project.clone() };
        let (attempt, asked) = (daemon.clone(), request.clone());
        let started = off_the_runtime(move || attempt.watch(conversation, asked)).await?;
        let Some((cursor, events)) = started else { continue };
        let mut resuming = Resuming {
            daemon,
            operations: session.operations.clone(),
            local: session.context.clone(),
            since: request.since.clone(),
            request,
            events,
            remote: true,
            started: now(),
            last: None,
            seen: Seen::default(),
        };
        resuming.reached(&cursor);
        let events = stream::unfold(resuming, |mut resuming| async {
            let event = resuming.next().await?;
            Some((event, resuming))
        });
        return Ok(Some(Reply::streaming(Response::Watching(cursor), events.boxed())));
    }
    Ok(None)
}

/// Connecting waits for the other side; signals and times must not wait for that.
async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|_| Error::internal("connecting to the daemon ended unexpectedly"))?
}

#[derive(Clone)]
struct Daemon {
    endpoint: Endpoint,
    context: Context,
    project: Project,
}

impl Daemon {
    /// Starts a watch; nothing when no daemon of this project answers.
    fn watch(&self, mut conversation: Conversation, request: WatchRequest) -> Result<Option<(Cursor, EventStream)>> {
        let mut hello = None;
        match &self.endpoint {
            Endpoint::Tcp(_) => match make_sure(&self.project, conversation, &self.context) {
                Some(ours) => conversation = ours,
                None => return Ok(None),
            },
            Endpoint::Unix(_) => match conversation.wait(ANSWER).and_then(|()| conversation.hello(&self.context)) {
                Ok(heard) => hello = heard,
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Lost(_)) => return Ok(None),
            },
        }
        let request = Request::Watch(request);
        let answer = match conversation.ask(&self.context, &request) {
            Ok(answer) => answer,
            Err(Failure::Refused(error)) => return Err(explained(error, hello.as_ref())),
            Err(Failure::Lost(_)) => return Ok(None),
        };
        match response(&self.context, &request, answer)? {
            Response::Watching(cursor) => Ok(Some((cursor, events(conversation)?))),
            _ => Err(crate::session::unexpected()),
        }
    }
}

/// A watch that outlives its daemon.
struct Resuming {
    daemon: Daemon,
    operations: Arc<Operations>,
    local: Context,
    request: WatchRequest,
    events: EventStream,
    /// The events come from a daemon.
    remote: bool,
    /// Where to go on.
    since: Option<Since>,
    started: Timestamp,
    last: Option<MessageId>,
    seen: Seen,
}

impl Resuming {
    async fn next(&mut self) -> Option<Result<Event>> {
        loop {
            match self.events.next().await {
                Some(Ok(Event::Message(delivery))) => {
                    self.reached(&delivery.cursor);
                    self.last = Some(delivery.message.id);
                    if self.seen.is_new(delivery.message.id) {
                        return Some(Ok(Event::Message(delivery)));
                    }
                }
                Some(Ok(Event::Progress(cursor))) => self.reached(&cursor),
                Some(Err(error)) if !self.remote || !error.retryable() => return Some(Err(error)),
                Some(Err(_)) | None if self.remote => {
                    if let Err(error) = self.resume().await {
                        self.events = stream::empty().boxed();
                        self.remote = false;
                        return Some(Err(error));
                    }
                }
                other => return other,
            }
        }
    }

    /// Everything up to here has been seen. A daemon that gives no cursors gives ids, and what follows an id may repeat.
    fn reached(&mut self, cursor: &Cursor) {
        self.since = match cursor.as_str().parse() {
            Ok(id) => Some(Since::Id(id)),
            Err(_) if cursor.as_str().is_empty() => return,
            Err(_) => Some(Since::Cursor(cursor.clone())),
        };
    }

    async fn resume(&mut self) -> Result<()> {
        for wait in AGAIN {
            sleep(wait).await;
            let (daemon, request) = (self.daemon.clone(), self.going_on());
            let again = move || match Conversation::open(&daemon.endpoint) {
                Some(conversation) => daemon.watch(conversation, request),
                None => Ok(None),
            };
            match off_the_runtime(again).await {
                Ok(Some((_, events))) => {
                    self.events = events;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Expired => self.forget_cursor(),
                Err(error) if !error.retryable() => return Err(error),
                _ => {}
            }
        }
        note("forged is gone; watching the files");
        self.remote = false;
        let mut watching = self.operations.call(&self.local, Request::Watch(self.going_on())).await;
        if watching.as_ref().is_err_and(|error| error.kind() == ErrorKind::Expired) {
            self.forget_cursor();
            watching = self.operations.call(&self.local, Request::Watch(self.going_on())).await;
        }
        self.events = watching?.events.ok_or_else(crate::session::unexpected)?;
        Ok(())
    }

    fn going_on(&self) -> WatchRequest {
        WatchRequest { since: self.since.clone(), ..self.request.clone() }
    }

    /// The index was rebuilt while nobody watched: go on from the last message, or from the start of this watch.
    fn forget_cursor(&mut self) {
        self.since = Some(match self.last {
            Some(id) => Since::Id(id),
            None => Since::Time(self.started),
        });
    }
}

/// The ids that were delivered last.
#[derive(Default)]
struct Seen {
    ids: HashSet<MessageId>,
    order: VecDeque<MessageId>,
}

impl Seen {
    fn is_new(&mut self, id: MessageId) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}
