//! A plugin as a transport.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fmail_abi::Spawner;
use fmail_api::verbs::{decode, method};
use fmail_api::{
    Client, Context, Error, ErrorKind, Event, Host, Listening, Principal, ProjectRef, Reply, Request, Result, Shutdown,
    Transport,
};
use fmail_transports::wire::{self, Heard, outgoing};
use futures::{FutureExt, StreamExt, future};
use futures_timer::Delay;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::opened::node;
use super::upward::HostService;
use super::{Instance, Plugin, Replies, Role, Surroundings, Upward};

/// How long what is under way may take once a transport or a relay was told to end.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// A transport that is a plugin. Serving and connecting each make an instance.
pub struct PluginTransport {
    plugin: Arc<Plugin>,
    data_dir: PathBuf,
    spawner: Arc<dyn Spawner>,
}

/// What precedes the stream of `serve`.
#[derive(Deserialize)]
struct ServeHead {
    endpoint: String,
}

impl PluginTransport {
    /// The transport that a plugin is. `data_dir` is the plugin's own, and `spawner` runs what its peers ask.
    pub fn new(plugin: Plugin, data_dir: PathBuf, spawner: Arc<dyn Spawner>) -> Self {
        PluginTransport { plugin: Arc::new(plugin), data_dir, spawner }
    }
}

#[async_trait]
impl Transport for PluginTransport {
    fn name(&self) -> &str {
        self.plugin.name()
    }

    async fn serve(&self, host: Arc<dyn Host>, shutdown: Shutdown) -> Result<Listening> {
        let service = Arc::new(HostService::new(host, Principal::Anonymous));
        let upward = Upward { service, spawner: self.spawner.clone() };
        let instance =
            Arc::new(self.plugin.instance(&surroundings(Role::Server, self.data_dir.clone()), Some(upward)).await?);
        let (head, serving) = instance.stream(method::SERVE, b"", b"{}").await?;
        let ServeHead { endpoint } = decode("the head of `serve`", &head)?;
        Ok(Listening { endpoint, finished: finished(instance, serving, shutdown).boxed() })
    }

    async fn connect(&self, project: ProjectRef) -> Result<Arc<dyn Client>> {
        connect(&self.plugin, self.data_dir.clone(), project).await
    }
}

/// A project at the other end of a transport that is a plugin. `data_dir` is the plugin's own.
pub async fn connect(plugin: &Plugin, data_dir: PathBuf, project: ProjectRef) -> Result<Arc<dyn Client>> {
    let instance = plugin.instance(&surroundings(Role::Client, data_dir), None).await?;
    Ok(Arc::new(PluginClient { instance: Arc::new(instance), project }))
}

fn surroundings(role: Role, data_dir: PathBuf) -> Surroundings {
    Surroundings { role, project: None, node: node(), data_dir, max_message_bytes: None }
}

/// Waits for the end of serving: by the shutdown, or because the plugin could not go on.
async fn finished(instance: Arc<Instance>, serving: Replies, shutdown: Shutdown) -> Result<()> {
    let ended = Mutex::new(None);
    let watching = serving.for_each(|item| {
        if let Err(error) = item {
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        future::ready(())
    });
    let (told, late) = match future::select(watching.boxed(), shutdown).await {
        future::Either::Left(_) => (false, false),
        future::Either::Right(((), watching)) => {
            instance.call(method::SHUTDOWN, b"", b"{}").await?;
            // One that does not end by itself is ended below, with all that it has under way.
            (true, matches!(future::select(watching, Delay::new(GRACE)).await, future::Either::Right(_)))
        }
    };
    let reason = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    instance.close(GRACE).await?;
    match reason {
        Some(error) => Err(error),
        None if late => Err(overdue("transport", instance.name())),
        None if told => Ok(()),
        None => Err(Error::internal(format!("the transport `{}` ended although nobody told it to", instance.name()))),
    }
}

/// The error for one that was told to end and did not.
pub(super) fn overdue(kind: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("the {kind} `{name}` has not ended within {GRACE:?} after it was told to; it was given up"),
    )
}

/// A project's directory as a plugin is told it: lines of JSON hold text.
fn told(root: &Path) -> Result<&str> {
    let not_text = || {
        Error::invalid(format!("a plugin cannot be told of {}, since the path is not UTF-8", root.display()))
            .help("rename the directory, or name the project by its id")
    };
    root.to_str().ok_or_else(not_text)
}

/// A project at the other end of a transport that is a plugin.
struct PluginClient {
    instance: Arc<Instance>,
    project: ProjectRef,
}

#[async_trait]
impl Client for PluginClient {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        let project = match &self.project {
            ProjectRef::Id(id) => json!({ "project": id }),
            ProjectRef::Root(root) => json!({ "root": told(root)? }),
        };
        let project = project.to_string();
        let line = outgoing::request(context, &request, "1")?;
        let line = line.trim_end().as_bytes();
        if !request.streams() {
            let body = self.instance.call(method::REQUEST, project.as_bytes(), line).await?;
            return Ok(Reply::new(wire::response(context, &request, answer(&body)?)?));
        }
        let (head, items) = self.instance.stream(method::REQUEST, project.as_bytes(), line).await?;
        let head = wire::response(context, &request, answer(&head)?)?;
        // The stream holds the instance: it may outlive the client.
        let instance = self.instance.clone();
        let events = items.filter_map(move |item| {
            let _held = &instance;
            future::ready(item.and_then(|body| event(&body)).transpose())
        });
        Ok(Reply::streaming(head, events.boxed()))
    }
}

/// The answer that a body holds.
fn answer(body: &[u8]) -> Result<Map<String, Value>> {
    match wire::heard(body)? {
        Heard::Answer(answer) => Ok(answer),
        Heard::Refused(error) => Err(error),
        _ => Err(Error::internal("the transport's first words are no answer")),
    }
}

/// The event that a body holds; nothing for a sign of life.
fn event(body: &[u8]) -> Result<Option<Event>> {
    match wire::heard(body)? {
        Heard::Event(event) => Ok(Some(event)),
        Heard::Refused(error) => Err(error),
        Heard::Answer(_) => Err(Error::internal("the transport answered one request twice")),
        _ => Ok(None),
    }
}
