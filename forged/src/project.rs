//! Opening a project to serve it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use fmail_api::{Clock, Error, ErrorKind, Expect, ProjectIdSource, RecordKey, Result, Store};
use fmail_core::{Blocking, Fanout, Operations};
use fmail_host::{Environment, Project, Serving, Settings, SystemClock, open_store};
use futures::executor::block_on;

use crate::client::Served;
use crate::lock::RootLock;
use crate::log;
use crate::plugins::Named;
use crate::presence::Presence;
use crate::tcp::Configured;

/// A project that is being served.
pub struct Opened {
    pub root: PathBuf,
    pub id: String,
    pub client: Arc<Served>,
    pub lock: RootLock,
    pub store: Arc<dyn Store>,
    pub max_message_bytes: usize,
    pub tcp: Configured,
    pub plugins: Named,
}

/// Opens the project that an environment means: creates it where there is none, and takes its lock.
pub fn open(environment: &Environment) -> Result<Opened> {
    let mut project = Project::discover(environment)?;
    project.root = fs::canonicalize(&project.root)
        .map_err(|error| Error::io(format_args!("cannot use {}", project.root.display()), &error))?;
    let settings = Settings::load(environment, Some(&project), &[])?;
    let store = open_store(&project, &settings, log::reporter(project.root.display().to_string()), Serving::Daemon)?;
    create(&project, &*store)?;
    let lock = RootLock::take(&project.fmail_dir())?;
    let (id, source) = project.id()?;
    if source == ProjectIdSource::Directory {
        tracing::debug!(id, "the project's id comes from its directory's name");
    }
    let blocking: Blocking = Arc::new(|work| drop(tokio::task::spawn_blocking(work)));
    let shared: Arc<dyn Store> = Arc::new(Fanout::new(store, blocking));
    let store_id = project.store_id()?.ok_or_else(|| Error::internal("the project has no directory"))?;
    let operations = Operations::new(shared.clone(), Arc::new(SystemClock)).identified_by(store_id);
    let relay = settings.mail.relay.enabled && !settings.untrusted().contains(&"mail.relay.enabled");
    let tcp = Configured::from(&settings, relay, environment)?;
    let plugins = Named::from(&settings)?;
    let root = project.root.clone();
    let client = Served {
        operations: Arc::new(operations),
        presence: Arc::new(Presence::default()),
        project,
        project_id: id.clone(),
        store: settings.mail.store.clone(),
        relay,
    };
    let max_message_bytes = settings.mail.max_message_bytes;
    Ok(Opened { root, id, client: Arc::new(client), lock, store: shared, max_message_bytes, tcp, plugins })
}

/// Creates what has to be there before anyone can connect: the project's record, and the directory for socket and lock.
fn create(project: &Project, store: &dyn Store) -> Result<()> {
    if block_on(store.get(&RecordKey::project()))?.is_none() {
        let record = project.new_record(SystemClock.now())?;
        let value = serde_json::to_value(&record)
            .map_err(|error| Error::internal(format!("the project's record has no JSON form: {error}")))?;
        match block_on(store.put(&RecordKey::project(), Expect::Absent, value, true)) {
            // A store may write the record itself when it creates the project for our first write.
            Err(error) if error.kind() != ErrorKind::Conflict => return Err(error),
            _ => {}
        }
    }
    if !project.has_record() {
        // The store keeps the record elsewhere; here is where commands find it.
        let record = project.new_record(SystemClock.now())?;
        if let Err(error) = project.write_record(&record, false)
            && error.kind() != ErrorKind::Conflict
        {
            return Err(error);
        }
    }
    Ok(())
}
