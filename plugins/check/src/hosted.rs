//! A host with projects in memory, for transports and relays.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{
    Client, Context, Cursor, DEFAULT_MAX_MESSAGE_BYTES, Delivery, Draft, Error, Event, Host, LogRequest, MessageId,
    ProjectRef, Reply, Request, Response, Result, SendRequest, Timestamp,
};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_core::Operations;
use fmail_host::plugin::Spawner;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use tokio::runtime::{Builder, Handle, Runtime};

/// Projects by their ids.
pub struct Hosted {
    projects: BTreeMap<String, (Arc<MemoryStore>, Arc<Operations>)>,
    /// The one that misbehaves towards whoever comes through the host, and how.
    bad: Option<(&'static str, Misbehaviour)>,
}

/// What a project does that is no good peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misbehaviour {
    /// It delivers a message that nobody can take and then breaks off, and takes none itself.
    Fails,
    /// It never answers.
    Hangs,
}

impl Hosted {
    pub fn new(ids: &[&str]) -> Arc<Hosted> {
        Arc::new(Hosted { projects: projects(ids), bad: None })
    }

    /// One of the projects misbehaves.
    pub fn with(ids: &[&str], bad: &'static str, how: Misbehaviour) -> Arc<Hosted> {
        Arc::new(Hosted { projects: projects(ids), bad: Some((bad, how)) })
    }

    /// The operations of a project that the suite has made.
    pub fn project(&self, id: &str) -> Result<Arc<Operations>> {
        self.found(id).map(|(_, operations)| operations.clone())
    }

    /// The store below them.
    pub fn store(&self, id: &str) -> Result<Arc<MemoryStore>> {
        self.found(id).map(|(store, _)| store.clone())
    }

    fn found(&self, id: &str) -> Result<&(Arc<MemoryStore>, Arc<Operations>)> {
        self.projects.get(id).ok_or_else(|| Error::not_found(format!("the suite has no project {id}")))
    }
}

fn projects(ids: &[&str]) -> BTreeMap<String, (Arc<MemoryStore>, Arc<Operations>)> {
    let project = |id: &&str| {
        let store = Arc::new(MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock)));
        (id.to_string(), (store.clone(), Arc::new(Operations::new(store, Arc::new(SystemClock)))))
    };
    ids.iter().map(project).collect()
}

#[async_trait]
impl Host for Hosted {
    async fn projects(&self) -> Result<Vec<String>> {
        Ok(self.projects.keys().cloned().collect())
    }

    async fn open(&self, project: ProjectRef) -> Result<Arc<dyn Client>> {
        match (&project, self.bad) {
            (ProjectRef::Id(id), Some((bad, how))) if id == bad => Ok(Arc::new(BadPeer(how))),
            (ProjectRef::Id(id), _) => Ok(self.project(id)?),
            (ProjectRef::Root(root), _) => {
                Err(Error::not_found(format!("the suite has no project in {}", root.display())))
            }
        }
    }
}

/// A project that no good can be done with.
struct BadPeer(Misbehaviour);

impl BadPeer {
    /// A message that is larger than any store takes.
    fn monster() -> Result<Event> {
        let draft = Draft::new("mallory".parse()?, "task".parse()?, "x".repeat(DEFAULT_MAX_MESSAGE_BYTES));
        let id: MessageId = "20260101-000000-0001".parse()?;
        let message = draft.into_message(id, Timestamp::from_unix(1_767_225_600, 0));
        Ok(Event::Message(Delivery::new(Arc::new(message), Cursor::new("monster"))))
    }
}

#[async_trait]
impl Client for BadPeer {
    async fn call(&self, _: &Context, request: Request) -> Result<Reply> {
        if self.0 == Misbehaviour::Hangs {
            std::future::pending::<()>().await;
        }
        let broken = || Error::internal("this peer is broken, as the suite wants it");
        match request {
            Request::Relay(_) => {
                let head = Response::Watching(Cursor::new("start"));
                Ok(Reply::streaming(head, stream::iter([Self::monster(), Err(broken())]).boxed()))
            }
            _ => Err(broken()),
        }
    }
}

/// A runtime for what the plugin asks.
pub fn runtime() -> Result<Runtime> {
    let built = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| Error::io("cannot start a runtime", &error))
}

/// Runs what a plugin asks on a runtime.
pub struct OnRuntime(pub Handle);

impl Spawner for OnRuntime {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        drop(self.0.spawn(future));
    }

    fn enter(&self, run: &mut dyn FnMut()) {
        let _inside = self.0.enter();
        run();
    }
}

/// Someone who asks.
pub fn someone(agent: &str) -> Result<Context> {
    Ok(Context { project: Some("one".into()), ..Context::local(agent.parse()?) })
}

/// A request to send a text to a target.
pub fn send(to: &str, text: &str) -> Result<Request> {
    Ok(Request::Send(Box::new(SendRequest::new(to.parse()?, text))))
}

/// The texts of a topic, the oldest first.
pub async fn texts(client: &dyn Client, agent: &str, topic: &str) -> Result<Vec<String>> {
    let request = LogRequest { target: Some(topic.parse()?), limit: Some(1000), ..LogRequest::default() };
    let reply = client.call(&someone(agent)?, Request::Log(request)).await?;
    let mut texts = Vec::new();
    let mut events = reply.events.ok_or_else(|| Error::internal("a log without its messages"))?;
    while let Some(event) = events.next().await {
        if let Event::Message(delivery) = event? {
            texts.push(delivery.message.body.as_str().unwrap_or_default().to_string());
        }
    }
    Ok(texts)
}
