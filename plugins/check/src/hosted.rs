//! A host with projects in memory, for transports and relays.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{
    Client, Context, DEFAULT_MAX_MESSAGE_BYTES, Error, Event, Host, LogRequest, ProjectRef, Request, Result,
    SendRequest,
};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_core::Operations;
use fmail_host::plugin::Spawner;
use futures::StreamExt;
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Handle, Runtime};

/// Projects by their ids.
pub struct Hosted(BTreeMap<String, Arc<Operations>>);

impl Hosted {
    pub fn new(ids: &[&str]) -> Arc<Hosted> {
        let project = |id: &&str| {
            let store = Arc::new(MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock)));
            (id.to_string(), Arc::new(Operations::new(store, Arc::new(SystemClock))))
        };
        Arc::new(Hosted(ids.iter().map(project).collect()))
    }

    /// The operations of a project that the suite has made.
    pub fn project(&self, id: &str) -> Result<Arc<Operations>> {
        self.0.get(id).cloned().ok_or_else(|| Error::not_found(format!("the suite has no project {id}")))
    }
}

#[async_trait]
impl Host for Hosted {
    async fn projects(&self) -> Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    async fn open(&self, project: ProjectRef) -> Result<Arc<dyn Client>> {
        match &project {
            ProjectRef::Id(id) => Ok(self.project(id)?),
            ProjectRef::Root(root) => Err(Error::not_found(format!("the suite has no project in {}", root.display()))),
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
