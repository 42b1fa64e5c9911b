//! Watching through a daemon, and going on without it.
//!
//! A watch that loses its daemon tries to find it again for a moment, then goes on with the files, and returns when a
//! daemon is there again. Each time it goes on right behind what it has shown, so nothing is lost and nothing repeated.

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Client, Context, Cursor, ErrorKind, Event, EventStream, Reply, Request, Response, Result, WatchRequest,
};
use fmail_core::Operations;
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use super::daemon::{Daemons, Found};
use super::search::Search;
use super::standing::Standing;
use crate::output::note;
use crate::session::{Place, Session, now, unexpected};

/// How long to wait before each attempt to find a lost daemon again.
const AGAIN: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];
/// A connection that lasted so long, or brought a message, was worth having. The attempts after one that was not go on
/// where they were, so that a daemon which drops everybody is not asked without end.
const WORTH: Duration = Duration::from_secs(5);

/// Watches through the project's daemon where there is one, and through the files where there is none.
///
/// What is stored is shown also when the time is short: a daemon gets half of it to answer.
pub(crate) async fn watch(
    place: &Place,
    session: &Session,
    request: WatchRequest,
    time: Option<Duration>,
) -> Result<Reply> {
    let mut watching = Watching {
        search: Search::new(Daemons::of(place, &session.context.agent)),
        operations: session.operations.clone(),
        local: session.context.clone(),
        standing: Standing::new(request.since.clone(), now()),
        request: request.clone(),
        events: stream::empty().boxed(),
        way: Way::Files,
        was_connected: false,
        attempts: 0,
    };
    let patience = time.map_or(Duration::MAX, |time| time / 2);
    let cursor = match timeout(patience, watching.search.look(request.clone())).await {
        Ok(found) => match found? {
            Found::Watching(cursor, events) => {
                watching.connected(events);
                cursor
            }
            Found::Silent | Found::Nobody => watching.open_files(request).await?,
        },
        Err(_) => {
            watching.search.give_up();
            watching.open_files(request).await?
        }
    };
    watching.standing.began(&cursor);
    let events = stream::unfold(watching, |mut watching| async {
        let event = watching.next().await?;
        Some((event, watching))
    });
    Ok(Reply::streaming(Response::Watching(cursor), events.boxed()))
}

/// Where the messages come from.
#[derive(Clone, Copy)]
enum Way {
    /// From a daemon, since then; whether anything came from it.
    Daemon { since: Instant, brought: bool },
    /// From the files.
    Files,
    /// From nowhere any more.
    Ended,
}

/// A watch that outlives its daemon, and finds the next.
struct Watching {
    search: Search,
    operations: Arc<Operations>,
    local: Context,
    request: WatchRequest,
    standing: Standing,
    events: EventStream,
    way: Way,
    was_connected: bool,
    /// How often the daemon was looked for since the last connection that was worth having.
    attempts: usize,
}

impl Watching {
    async fn next(&mut self) -> Option<Result<Event>> {
        loop {
            let event = match self.way {
                Way::Ended => return None,
                Way::Daemon { .. } => self.events.next().await,
                Way::Files => {
                    let request = || going_on(&self.request, &self.standing);
                    tokio::select! {
                        biased;
                        event = self.events.next() => event,
                        found = self.search.next(request) => {
                            self.looked(found);
                            continue;
                        }
                    }
                }
            };
            match (event, self.way) {
                (Some(Ok(event)), _) => {
                    if let Some(event) = self.news(event) {
                        return Some(Ok(event));
                    }
                }
                (Some(Err(error)), Way::Daemon { .. }) if error.retryable() => self.lost(&error.to_string()).await,
                (None, Way::Daemon { .. }) => self.lost("forged ended the stream").await,
                (other, _) => {
                    self.way = Way::Ended;
                    return other;
                }
            }
        }
    }

    /// Takes note of an event; nothing when it was shown before or says only how far the stream is.
    fn news(&mut self, event: Event) -> Option<Event> {
        match (&event, &mut self.way) {
            (Event::Message(_), Way::Daemon { brought, .. }) => *brought = true,
            (Event::Message(_), _) => self.search.nudge(),
            _ => {}
        }
        match event {
            Event::Message(delivery) => self.standing.is_news(&delivery).then_some(Event::Message(delivery)),
            Event::Progress(cursor) => {
                self.standing.reached(&cursor);
                None
            }
            other => Some(other),
        }
    }

    /// While the files are watched, whatever a daemon refuses is no reason to end.
    fn looked(&mut self, found: Result<Found>) {
        match found {
            Ok(Found::Watching(_, events)) => {
                note(if self.was_connected { "watching through forged again" } else { "watching through forged" });
                self.connected(events);
            }
            // The next look asks for more, and leaves out what was shown.
            Err(error) if error.kind() == ErrorKind::Expired => self.standing.forget_cursor(),
            _ => {}
        }
    }

    fn connected(&mut self, events: EventStream) {
        self.events = events;
        self.way = Way::Daemon { since: Instant::now(), brought: false };
        self.was_connected = true;
    }

    /// Finds the daemon again, or goes on with the files. An error becomes the last event.
    async fn lost(&mut self, why: &str) {
        let worth = matches!(self.way, Way::Daemon { since, brought } if brought || since.elapsed() >= WORTH);
        if worth {
            self.attempts = 0;
        }
        let resumed = match self.reconnect().await {
            Ok(true) => return,
            Ok(false) => self.go_on_with_files().await,
            Err(error) => Err(error),
        };
        match resumed {
            Ok(()) => {
                note(&format!("watching the files: {why}"));
                self.search.expect(worth);
            }
            Err(error) => {
                self.events = stream::iter([Err(error)]).boxed();
                self.way = Way::Files;
            }
        }
    }

    /// Whether a daemon was found.
    async fn reconnect(&mut self) -> Result<bool> {
        while let Some(wait) = AGAIN.get(self.attempts) {
            self.attempts += 1;
            sleep(*wait).await;
            match self.search.look(going_on(&self.request, &self.standing)).await {
                Ok(Found::Watching(_, events)) => {
                    self.connected(events);
                    return Ok(true);
                }
                // It is there and does not answer: a further question would only wait for longer.
                Ok(Found::Silent) => return Ok(false),
                Ok(Found::Nobody) => {}
                Err(error) if error.kind() == ErrorKind::Expired => self.standing.forget_cursor(),
                Err(error) if error.retryable() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    async fn go_on_with_files(&mut self) -> Result<()> {
        let opened = self.open_files(going_on(&self.request, &self.standing)).await;
        match opened {
            Err(error) if error.kind() == ErrorKind::Expired => {
                self.standing.forget_cursor();
                self.open_files(going_on(&self.request, &self.standing)).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    async fn open_files(&mut self, request: WatchRequest) -> Result<Cursor> {
        let reply = self.operations.call(&self.local, Request::Watch(request)).await?;
        self.events = reply.events.ok_or_else(unexpected)?;
        self.way = Way::Files;
        match reply.head {
            Response::Watching(cursor) => Ok(cursor),
            _ => Err(unexpected()),
        }
    }
}

/// The request of a watch that goes on elsewhere.
fn going_on(request: &WatchRequest, standing: &Standing) -> WatchRequest {
    WatchRequest { since: Some(standing.since()), ..request.clone() }
}
