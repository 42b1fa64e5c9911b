//! Opening a project to serve it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use fmail_api::{Error, ProjectIdSource, Result, Store};
use fmail_core::{Blocking, Fanout, Operations};
use fmail_host::hosting::create_project;
use fmail_host::{Environment, Project, Serving, Settings, SystemClock, open_store};

use crate::client::Served;
use crate::lock::RootLock;
use crate::log;
use crate::plugins::Named;
use crate::relay::{self, Others, Relaying, ThisHost};
use crate::tcp::Configured;

/// A project that the daemon was started for.
pub struct Opened {
    pub root: PathBuf,
    pub id: String,
    pub client: Arc<Served>,
    pub lock: RootLock,
    pub store: Arc<dyn Store>,
    pub max_message_bytes: usize,
    pub tcp: Configured,
    pub plugins: Named,
    pub relay: relay::Configured,
}

/// Opens the project that an environment means: creates it where there is none, and takes its lock.
pub fn open(environment: &Environment, host: &ThisHost) -> Result<Opened> {
    let mut project = Project::discover(environment)?;
    project.root = fs::canonicalize(&project.root)
        .map_err(|error| Error::io(format_args!("cannot use {}", project.root.display()), &error))?;
    let settings = Settings::load(environment, Some(&project), &[])?;
    let store = store_of(&project, &settings)?;
    create_project(&project, &*store)?;
    let lock = RootLock::take(&project.fmail_dir())?;
    let relay = relay::Configured::from(&settings, environment)?;
    // A host may be paired at any time. Where that cannot be, it matters only to who wants to relay.
    let node = match host.node(environment) {
        Ok(node) => Some(node),
        Err(error) if relay.enabled => return Err(error),
        Err(error) => {
            tracing::debug!(%error, "this project cannot be relayed");
            None
        }
    };
    let tcp = Configured::from(&settings, relay.enabled, environment)?;
    let plugins = Named::from(&settings)?;
    let root = project.root.clone();
    let others = Others { node, enabled: relay.enabled, callers: host.callers.clone() };
    let (client, store) = served(project, &settings, store, others)?;
    let (id, max_message_bytes) = (client.project_id.clone(), settings.mail.max_message_bytes);
    Ok(Opened { root, id, client: Arc::new(client), lock, store, max_message_bytes, tcp, plugins, relay })
}

/// The store of a project, which reports to the log.
pub fn store_of(project: &Project, settings: &Settings) -> Result<Arc<dyn Store>> {
    open_store(project, settings, log::reporter(project.root.display().to_string()), Serving::Daemon)
}

/// The operations of a project over its store, and the store as its many clients share it. One that can be relayed has a node.
pub fn served(
    project: Project,
    settings: &Settings,
    store: Arc<dyn Store>,
    others: Others,
) -> Result<(Served, Arc<dyn Store>)> {
    let (id, source) = project.id()?;
    if source == ProjectIdSource::Directory {
        tracing::debug!(id, "the project's id comes from its directory's name");
    }
    let blocking: Blocking = Arc::new(|work| drop(tokio::task::spawn_blocking(work)));
    let shared: Arc<dyn Store> = Arc::new(Fanout::new(store, blocking.clone()));
    let store_id = project.store_id()?.ok_or_else(|| Error::internal("the project has no directory"))?;
    let operations =
        Operations::new(shared.clone(), Arc::new(SystemClock)).identified_by(store_id).reading_on(blocking);
    let operations = match others.node.clone() {
        Some(node) => operations.on(node),
        None => operations,
    };
    let relaying = Relaying::new(&id, others);
    let client = Served::new(operations, project, id, settings.mail.store.clone(), relaying);
    Ok((client, shared))
}
