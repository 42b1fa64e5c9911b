//! Subscriptions of sessions, until 2025-11-25: made by one request, heard of on the stream of the session.
//!
//! The stream may be opened after the subscription, be lost, and be opened again. So each session remembers how far it has
//! heard of each project, and a new stream goes on from there: what happened in between is told.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::channel::mpsc;
use futures::future::{Either, select};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::Value;

use super::follower::{Follower, Place, Subscription, end_of};
use super::listening::too_many;
use super::{MOST_ADDRESSES, updated};
use crate::resources::{self, Subject};
use crate::revision::Revision;
use crate::visit::Visit;

/// The most sessions that have subscribed to something. The one that has been without a stream for the longest gives way.
const MOST_SESSIONS: usize = 10_000;

/// The sessions that have subscribed to something.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<String, Session>>>);

struct Session {
    subscriptions: Vec<Subscription>,
    places: BTreeMap<PathBuf, Place>,
    /// Wakes the stream that is open; a newer one takes its place.
    stream: Option<mpsc::Sender<()>>,
    used: Instant,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes the session of this request to an address.
    pub(crate) async fn subscribe(&self, visit: &Visit, uri: &str) -> Result<(), ErrorData> {
        let session = named(visit)?;
        let refusal = |failure| resources::refusal(&failure, uri, Revision::Session);
        let (project, subject) = Subject::of(visit, uri).await.map_err(refusal)?;
        let root = project.hosted.root.clone();
        let known = self.lock().get(session).is_some_and(|session| session.places.contains_key(&root));
        let place = if known { None } else { end_of(&project).await.map_err(refusal)? };
        let mut sessions = self.lock();
        make_room(&mut sessions, session);
        let entry = sessions.entry(session.into()).or_insert_with(Session::new);
        entry.used = Instant::now();
        if let Some(place) = place {
            entry.places.entry(root).or_insert(place);
        }
        if entry.subscriptions.iter().any(|one| one.uri == uri) {
            return Ok(());
        }
        if entry.subscriptions.len() >= MOST_ADDRESSES {
            return Err(too_many(entry.subscriptions.len() + 1));
        }
        entry.subscriptions.push(Subscription { uri: uri.into(), project, subject });
        entry.wake();
        Ok(())
    }

    /// Takes a subscription back. One that there is not is none already.
    pub(crate) fn unsubscribe(&self, visit: &Visit, uri: &str) -> Result<(), ErrorData> {
        let session = named(visit)?;
        let mut sessions = self.lock();
        let Some(entry) = sessions.get_mut(session) else { return Ok(()) };
        entry.subscriptions.retain(|one| one.uri != uri);
        let subscribed = &entry.subscriptions;
        entry.places.retain(|root, _| subscribed.iter().any(|one| one.project.hosted.root == *root));
        entry.wake();
        if entry.subscriptions.is_empty() && entry.stream.is_none() {
            sessions.remove(session);
        }
        Ok(())
    }

    /// Forgets a session. Its stream ends.
    pub(crate) fn end(&self, session: &str) {
        self.lock().remove(session);
    }

    /// The stream of a session. One that was open before ends.
    pub(crate) fn stream(&self, session: &str) -> BoxStream<'static, Value> {
        let (wake, woken) = mpsc::channel(1);
        {
            let mut sessions = self.lock();
            make_room(&mut sessions, session);
            let entry = sessions.entry(session.into()).or_insert_with(Session::new);
            (entry.stream, entry.used) = (Some(wake), Instant::now());
        }
        let listening = Listening::new(self.clone(), session, woken);
        stream::unfold(listening, |mut listening| async move {
            let uri = listening.next().await?;
            Some((updated(&uri), listening))
        })
        .boxed()
    }
}

/// Lets the session that has been without a stream for the longest go, where there are too many.
fn make_room(sessions: &mut HashMap<String, Session>, session: &str) {
    if sessions.len() < MOST_SESSIONS || sessions.contains_key(session) {
        return;
    }
    let away = |session: &Session| session.stream.as_ref().is_none_or(mpsc::Sender::is_closed);
    let oldest = sessions.iter().filter(|(_, one)| away(one)).min_by_key(|(_, one)| one.used);
    if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
        sessions.remove(&oldest);
    }
}

fn named(visit: &Visit) -> Result<&str, ErrorData> {
    visit.peer.session.as_deref().ok_or_else(|| {
        let message =
            "a subscription needs a session to be heard of in: call initialize first, or use subscriptions/listen";
        ErrorData::new(ErrorCode::INVALID_REQUEST, message, None)
    })
}

impl Session {
    fn new() -> Self {
        Session { subscriptions: Vec::new(), places: BTreeMap::new(), stream: None, used: Instant::now() }
    }

    /// Has the stream look at the subscriptions again. One that was woken and has not looked yet needs no second time.
    fn wake(&mut self) {
        if let Some(stream) = &mut self.stream {
            let _ = stream.try_send(());
        }
    }
}

/// The stream of a session.
struct Listening {
    sessions: Sessions,
    session: String,
    woken: mpsc::Receiver<()>,
    follower: Follower,
    subscriptions: Vec<Subscription>,
    /// The subscriptions have changed since they were looked up.
    stale: bool,
    /// How far the client has heard, once it has heard what is still to be told.
    heard: BTreeMap<PathBuf, Place>,
}

impl Listening {
    fn new(sessions: Sessions, session: &str, woken: mpsc::Receiver<()>) -> Self {
        let (follower, subscriptions, heard) = (Follower::default(), Vec::new(), BTreeMap::new());
        Listening { sessions, session: session.into(), woken, follower, subscriptions, stale: true, heard }
    }

    /// The next address that has changed; nothing when the stream ends.
    async fn next(&mut self) -> Option<String> {
        loop {
            if std::mem::take(&mut self.stale) {
                let places = self.looked_up()?;
                self.follower.follow(&self.subscriptions, &places).await.ok()?;
            }
            if let Some(uri) = self.follower.told() {
                return Some(uri);
            }
            self.remember()?;
            // Asked first: what was unsubscribed from is not told any more.
            let happening = match select(self.woken.next(), self.follower.happening().boxed()).await {
                Either::Right((happening, _)) => happening,
                Either::Left((Some(()), _)) => {
                    self.stale = true;
                    continue;
                }
                // A newer stream has taken over, or the session is over.
                Either::Left((None, _)) => return None,
            };
            let (root, place) = self.follower.take_in(happening, &self.subscriptions).await.ok()?;
            self.heard.extend(place.map(|place| (root, place)));
        }
    }

    fn looked_up(&mut self) -> Option<BTreeMap<PathBuf, Place>> {
        let sessions = self.sessions.lock();
        let entry = sessions.get(&self.session)?;
        self.subscriptions.clone_from(&entry.subscriptions);
        Some(entry.places.clone())
    }

    fn remember(&mut self) -> Option<()> {
        let mut sessions = self.sessions.lock();
        let entry = sessions.get_mut(&self.session)?;
        for (root, place) in std::mem::take(&mut self.heard) {
            entry.places.entry(root).and_modify(|known| *known = place);
        }
        Some(())
    }
}

impl Drop for Listening {
    /// Who neither listens nor has subscribed is forgotten.
    fn drop(&mut self) {
        let mut sessions = self.sessions.lock();
        let Some(entry) = sessions.get_mut(&self.session) else { return };
        self.woken.close();
        if entry.stream.as_ref().is_some_and(mpsc::Sender::is_closed) {
            (entry.stream, entry.used) = (None, Instant::now());
            if entry.subscriptions.is_empty() {
                sessions.remove(&self.session);
            }
        }
    }
}
