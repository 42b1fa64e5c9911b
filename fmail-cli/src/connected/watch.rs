//! Watching through a daemon, and going on without it.
//!
//! A watch that loses its daemon tries to find it again for a moment, then goes on with the files, and returns when a
//! daemon is there again. Each time it goes on right behind what it has shown, so nothing is lost and nothing repeated.
//! Where the store lives in the daemon's process, it waits for the daemon instead.

use std::time::Duration;

use fmail_api::{
    Client, Context, ErrorKind, Event, EventStream, LogRequest, Reply, Request, Response, Result, Since, WatchRequest,
};
use fmail_host::{Route, unserved};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use super::client::silent;
use super::daemons::{Daemons, Found};
use super::search::Search;
use super::standing::Standing;
use crate::output::note;
use crate::session::{Local, Place, Session, now, unexpected};

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

/// Follows through the project's daemon where there is one, and through the files where there is none.
///
/// What is stored is shown also when the time is short: a daemon gets half of it to answer, unless it is the one that has the
/// store.
pub(crate) async fn watch(place: &Place, session: &Session, request: Request, time: Option<Duration>) -> Result<Reply> {
    let mut watching = Watching {
        search: Search::new(Daemons::of(place, &session.context.agent)),
        local: session.local.clone(),
        context: session.context.clone(),
        standing: Standing::new(since(&request).cloned(), now()),
        request: request.clone(),
        events: stream::empty().boxed(),
        way: Way::Nowhere,
        was_connected: false,
        attempts: 0,
    };
    let only = place.settings.route() == Route::Daemon;
    let patience = time.filter(|_| !session.is_served()).map_or(Duration::MAX, |time| time / 2);
    let found = match timeout(patience, watching.search.look(request.clone())).await {
        Ok(found) => found?,
        Err(_) => {
            watching.search.give_up();
            Found::Silent
        }
    };
    let head = match found {
        Found::There(reply) => {
            let events = reply.events.ok_or_else(unexpected)?;
            watching.connected(events);
            reply.head
        }
        Found::Silent if only => return Err(silent()),
        Found::Nobody if only => return Err(unserved(&place.project, &place.settings)),
        Found::Silent | Found::Nobody => watching.open_here(request).await?.ok_or_else(unexpected)?,
    };
    if let Response::Watching(cursor) = &head {
        watching.standing.began(cursor);
    }
    let events = stream::unfold(watching, |mut watching| async {
        let event = watching.next().await?;
        Some((event, watching))
    });
    Ok(Reply::streaming(head, events.boxed()))
}

/// Where the messages come from.
#[derive(Clone, Copy)]
enum Way {
    /// From a daemon, since then; whether anything came from it.
    Daemon { since: Instant, brought: bool },
    /// From the store in this process.
    Here,
    /// From nowhere for now: the daemon is awaited.
    Nowhere,
    /// From nowhere any more.
    Ended,
}

/// A watch that outlives its daemon, and finds the next.
struct Watching {
    search: Search,
    local: Local,
    context: Context,
    request: Request,
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
                Way::Nowhere => {
                    let found = self.search.next(|| going_on(&self.request, &self.standing)).await;
                    if let Err(error) = self.looked(found) {
                        self.way = Way::Ended;
                        return Some(Err(error));
                    }
                    continue;
                }
                Way::Here => {
                    let request = || going_on(&self.request, &self.standing);
                    tokio::select! {
                        biased;
                        event = self.events.next() => event,
                        found = self.search.next(request) => {
                            // While the store here is watched, whatever a daemon refuses is no reason to end.
                            let _ = self.looked(found);
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

    /// Goes on with the daemon that a look has found. An error is what a daemon has refused for good.
    fn looked(&mut self, found: Result<Found<Reply>>) -> Result<()> {
        match found {
            Ok(Found::There(Reply { events: Some(events), .. })) => {
                note(if self.was_connected { "watching through forged again" } else { "watching through forged" });
                self.connected(events);
                Ok(())
            }
            Ok(Found::There(_)) => Err(unexpected()),
            Ok(Found::Silent | Found::Nobody) => Ok(()),
            // The next look asks for more, and leaves out what was shown.
            Err(error) if error.kind() == ErrorKind::Expired => {
                self.standing.forget_cursor();
                Ok(())
            }
            Err(error) if error.retryable() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn connected(&mut self, events: EventStream) {
        self.events = events;
        self.way = Way::Daemon { since: Instant::now(), brought: false };
        self.was_connected = true;
    }

    /// Finds the daemon again, or goes on without it. An error becomes the last event.
    async fn lost(&mut self, why: &str) {
        let worth = matches!(self.way, Way::Daemon { since, brought } if brought || since.elapsed() >= WORTH);
        if worth {
            self.attempts = 0;
        }
        let resumed = match self.reconnect().await {
            Ok(true) => return,
            Ok(false) => self.go_on_here().await,
            Err(error) => Err(error),
        };
        match resumed {
            Ok(here) => {
                note(&format!("{}: {why}", if here { "watching the files" } else { "waiting for forged" }));
                self.search.expect(worth);
            }
            Err(error) => {
                self.events = stream::iter([Err(error)]).boxed();
                self.way = Way::Here;
            }
        }
    }

    /// Whether a daemon was found.
    async fn reconnect(&mut self) -> Result<bool> {
        while let Some(wait) = AGAIN.get(self.attempts) {
            self.attempts += 1;
            sleep(*wait).await;
            match self.search.look(going_on(&self.request, &self.standing)).await {
                Ok(Found::There(reply)) => {
                    self.connected(reply.events.ok_or_else(unexpected)?);
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

    /// Goes on with the store in this process; whether that can be.
    async fn go_on_here(&mut self) -> Result<bool> {
        if self.local.operations().is_err() {
            // The daemon had it open. What cannot be opened here, for whatever reason, can be awaited there.
            self.local = Local::Never;
        }
        let opened = match self.open_here(going_on(&self.request, &self.standing)).await {
            Err(error) if error.kind() == ErrorKind::Expired => {
                self.standing.forget_cursor();
                self.open_here(going_on(&self.request, &self.standing)).await?
            }
            other => other?,
        };
        Ok(opened.is_some())
    }

    /// Starts the stream in this process; nothing where the store lives in the daemon's, which is then awaited.
    async fn open_here(&mut self, request: Request) -> Result<Option<Response>> {
        let Some(operations) = self.local.operations()? else {
            self.way = Way::Nowhere;
            return Ok(None);
        };
        let reply = operations.call(&self.context, request).await?;
        self.events = reply.events.ok_or_else(unexpected)?;
        self.way = Way::Here;
        Ok(Some(reply.head))
    }
}

/// From where the request wants what is stored.
fn since(request: &Request) -> Option<&Since> {
    match request {
        Request::Watch(watch) => watch.since.as_ref(),
        Request::Log(log) => log.since.as_ref(),
        _ => None,
    }
}

/// The request of a watch that goes on elsewhere. One of the log that is followed has shown what it was asked for, and
/// wants all that came since.
fn going_on(request: &Request, standing: &Standing) -> Request {
    let since = Some(standing.since());
    match request {
        Request::Watch(watch) => Request::Watch(WatchRequest { since, ..watch.clone() }),
        Request::Log(log) => Request::Log(LogRequest { since, limit: None, ..log.clone() }),
        other => other.clone(),
    }
}
