//! One watch of each project that a client has subscribed to something in.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use fmail_api::{Error, ErrorKind, Message};
use futures::Stream;
use futures::stream::BoxStream;
use serde_json::{Value, json};

use crate::errors::{Failure, Result};
use crate::resources::Subject;
use crate::visit::{Project, letter};

/// What a client wants to hear about.
#[derive(Clone)]
pub(super) struct Subscription {
    /// The address, as the client wrote it.
    pub(super) uri: String,
    /// The project.
    pub(super) project: Project,
    /// What in it.
    pub(super) subject: Subject,
}

/// A place in the order of arrival of a project.
pub(super) type Place = String;

/// Follows projects, and tells which addresses have changed.
#[derive(Default)]
pub(super) struct Follower {
    watches: BTreeMap<PathBuf, Watch>,
    /// What has changed and was not told yet.
    changed: VecDeque<String>,
}

struct Watch {
    project: Project,
    events: BoxStream<'static, Result<Value, Error>>,
}

/// Where a watch of this project begins: here, or behind a place. The second says that the place was lost.
async fn opened(project: &Project, place: Option<&Place>) -> Result<(Watch, Option<Place>, bool)> {
    let watch = async |since: Option<&Place>| project.overview().answer("watch", json!({"since": since})).await;
    let (answer, lost) = match watch(place).await {
        Err(error) if place.is_some() && is_lost(&error) => (watch(None).await, true),
        other => (other, false),
    };
    let (head, events) = answer.map_err(Failure::from)?;
    let place = head.get("cursor").and_then(Value::as_str).map(String::from);
    Ok((Watch { project: project.clone(), events }, place, lost))
}

/// Whether a place cannot be gone back to, while the project is there.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Expired | ErrorKind::InvalidRequest | ErrorKind::Backpressure)
}

/// The end of a project, as of now.
pub(super) async fn end_of(project: &Project) -> Result<Option<Place>> {
    Ok(opened(project, None).await?.1)
}

impl Follower {
    /// Follows what these are about and nothing else, from these places on.
    pub(super) async fn follow(
        &mut self,
        subscriptions: &[Subscription],
        places: &BTreeMap<PathBuf, Place>,
    ) -> Result<()> {
        self.changed.retain(|uri| subscriptions.iter().any(|one| one.uri == *uri));
        self.watches.retain(|root, _| subscriptions.iter().any(|one| one.project.hosted.root == *root));
        for one in subscriptions {
            let root = &one.project.hosted.root;
            if self.watches.contains_key(root) {
                continue;
            }
            let (watch, _, lost) = opened(&one.project, places.get(root)).await?;
            self.watches.insert(root.clone(), watch);
            if lost {
                self.everything_changed(root, subscriptions);
            }
        }
        Ok(())
    }

    fn everything_changed(&mut self, root: &PathBuf, subscriptions: &[Subscription]) {
        let here = subscriptions.iter().filter(|one| one.project.hosted.root == *root);
        self.changed.extend(here.map(|one| one.uri.clone()));
    }

    /// An address that has changed, if one is known to have.
    pub(super) fn told(&mut self) -> Option<String> {
        self.changed.pop_front()
    }

    /// Waits for the next thing that happens in a project. Dropping the future loses nothing.
    pub(super) async fn happening(&mut self) -> Happening {
        Next { watches: &mut self.watches }.await
    }

    /// Takes in what happened; the place behind it, by which it is not told again.
    pub(super) async fn take_in(
        &mut self,
        happening: Happening,
        subscriptions: &[Subscription],
    ) -> Result<(PathBuf, Option<Place>)> {
        let Happening { root, event } = happening;
        match event {
            Some(Ok(mut event)) => {
                let place = event.get("cursor").and_then(Value::as_str).map(String::from);
                if event.get("msg").is_some() {
                    let message = letter(&mut event).map_err(Failure::from)?.message;
                    self.message(&root, &message, subscriptions).await?;
                }
                Ok((root, place))
            }
            Some(Err(error)) if is_lost(&error) => {
                let Some(watch) = self.watches.remove(&root) else { return Ok((root, None)) };
                let (watch, place, _) = opened(&watch.project, None).await?;
                self.watches.insert(root.clone(), watch);
                self.everything_changed(&root, subscriptions);
                Ok((root, place))
            }
            Some(Err(error)) => Err(error.into()),
            None => Err(Error::new(ErrorKind::Unavailable, "the project is not served any more").into()),
        }
    }

    async fn message(&mut self, root: &PathBuf, message: &Message, subscriptions: &[Subscription]) -> Result<()> {
        let mut thread = None;
        for one in subscriptions.iter().filter(|one| one.project.hosted.root == *root) {
            let concerned = match (one.subject.concerns(message), &one.subject) {
                (Some(concerned), _) => concerned,
                (None, Subject::Thread(name)) => {
                    if thread.is_none() {
                        thread = Some(thread_of(&one.project, message).await?);
                    }
                    thread.as_deref() == Some(name)
                }
                (None, _) => false,
            };
            if concerned && !self.changed.contains(&one.uri) {
                self.changed.push_back(one.uri.clone());
            }
        }
        Ok(())
    }
}

/// The thread of an answer that does not name it.
async fn thread_of(project: &Project, message: &Message) -> Result<String> {
    let mut answer = project.overview().run("thread", json!({"id": message.id})).await?;
    crate::visit::taken(&mut answer, "thread")
}

/// Something that happened in a project; nothing when its watch has ended.
pub(super) struct Happening {
    root: PathBuf,
    event: Option<Result<Value, Error>>,
}

/// The first of the watches that has something. Without any it waits for ever.
struct Next<'a> {
    watches: &'a mut BTreeMap<PathBuf, Watch>,
}

impl Future for Next<'_> {
    type Output = Happening;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Happening> {
        for (root, watch) in self.watches.iter_mut() {
            if let Poll::Ready(event) = Pin::new(&mut watch.events).poll_next(context) {
                return Poll::Ready(Happening { root: root.clone(), event });
            }
        }
        Poll::Pending
    }
}
