//! Transports and relays that are plugins.
//!
//! A plugin that several projects name with the same settings is one instance that serves them all. One that cannot be
//! started keeps the daemon from starting, as everything does that was asked for and is not there. One that ends later is
//! started again: the projects are served all the while on the other ways.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Host, LinkStatus, Relay, Result, Shutdown, Transport};
use fmail_host::hosting::make_private;
use fmail_host::plugin::{Plugin, PluginRelay, PluginTransport, Spawner, data_dir};
use fmail_host::{PluginKind, PluginName, PluginSettings, Settings};
use futures::future::{BoxFuture, Either, select};
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::found::Found;
use crate::host::Projects;
use crate::project::Opened;

/// How long to wait before a plugin that ended is started again; doubled each time.
const AGAIN: Duration = Duration::from_millis(200);
/// The longest such wait.
const LONGEST: Duration = Duration::from_secs(60);

/// The plugins that a project names beside its store.
#[derive(Default)]
pub struct Named {
    transports: Vec<PluginSettings>,
    relays: Vec<PluginSettings>,
}

impl Named {
    /// What the settings name that is not built in.
    pub fn from(settings: &Settings) -> Result<Named> {
        let named = |kind: PluginKind, names: &[String]| -> Result<Vec<PluginSettings>> {
            let plugins = names.iter().filter(|name| !kind.has(name));
            plugins.map(|name| Ok(settings.plugin(&name.parse::<PluginName>()?))).collect()
        };
        Ok(Named {
            transports: named(PluginKind::Transport, &settings.mail.transports)?,
            relays: named(PluginKind::Relay, &settings.mail.relays)?,
        })
    }

    /// Whether a transport is named.
    pub fn listens(&self) -> bool {
        !self.transports.is_empty()
    }
}

/// Something that runs until the shutdown, and can be started again.
type Running = BoxFuture<'static, Result<()>>;

/// Starts one of them. The outer result says whether it began.
type Start = Arc<dyn Fn() -> BoxFuture<'static, Result<Running>> + Send + Sync>;

/// Who names plugins.
pub enum Naming<'a> {
    /// The projects that the daemon was started for.
    Projects(&'a [Opened]),
    /// The daemon itself, which has none; with its own directory.
    Daemon(&'a Named, &'a Path),
}

/// Starts every plugin that is named; each goes on in `running` until the shutdown. Transports also get at what is found
/// by its path.
pub async fn start_all(
    naming: &Naming<'_>,
    found: &Arc<Found>,
    shutdown: &(dyn Fn() -> Shutdown + Send + Sync),
    running: &mut JoinSet<Result<()>>,
) -> Result<()> {
    for (settings, projects, data_dir) in grouped(naming, |named| &named.transports)? {
        let host = Arc::new(projects.and_found(found.clone()));
        let transport = Arc::new(PluginTransport::new(load(&settings, PluginKind::Transport)?, data_dir, spawner()));
        let name = transport.name().to_string();
        keep(name, start_transport(transport, host, shutdown), shutdown(), running).await?;
    }
    for (settings, projects, data_dir) in grouped(naming, |named| &named.relays)? {
        let relay = Arc::new(PluginRelay::new(load(&settings, PluginKind::Relay)?, data_dir, spawner()));
        let name = relay.name().to_string();
        let projects = Arc::new(projects);
        watch_status(relay.clone(), projects.clone(), running);
        keep(name, start_relay(relay, projects, shutdown), shutdown(), running).await?;
    }
    Ok(())
}

fn load(settings: &PluginSettings, kind: PluginKind) -> Result<Plugin> {
    tokio::task::block_in_place(|| Plugin::load(settings, kind))
}

/// A plugin, the projects that name it, and the directory that is its own.
type Group = (PluginSettings, Projects, PathBuf);

/// Each plugin once, with the projects that name it so and a directory of its own, in the first of them.
fn grouped(naming: &Naming<'_>, named: impl Fn(&Named) -> &Vec<PluginSettings>) -> Result<Vec<Group>> {
    let projects = match naming {
        Naming::Projects(projects) => *projects,
        Naming::Daemon(all, directory) => {
            let own = |settings: &PluginSettings| -> Result<Group> {
                let own = directory.join("plugins").join(settings.name.as_str());
                make_private(&own)?;
                Ok((settings.clone(), Projects::default(), own))
            };
            return named(all).iter().map(own).collect();
        }
    };
    let mut groups: Vec<(PluginSettings, Vec<&Opened>)> = Vec::new();
    for project in projects {
        for settings in named(&project.plugins) {
            match groups.iter_mut().find(|(known, _)| known == settings) {
                Some((_, members)) => members.push(project),
                None => groups.push((settings.clone(), vec![project])),
            }
        }
    }
    groups
        .into_iter()
        .map(|(settings, members)| {
            let own = data_dir(&members[0].client.project, settings.name.as_str())?;
            let mut host = Projects::default();
            for project in members {
                // That two clones have one id was told when they were opened.
                let _ = host.add(project.root.clone(), project.client.clone());
            }
            Ok((settings, host, own))
        })
        .collect()
}

fn start_transport(
    transport: Arc<PluginTransport>,
    host: Arc<dyn Host>,
    shutdown: &(dyn Fn() -> Shutdown + Send + Sync),
) -> Start {
    let ends = shutdown().shared();
    Arc::new(move || {
        let (transport, host, ends) = (transport.clone(), host.clone(), ends.clone());
        async move {
            let listening = transport.serve(host, ends.boxed()).await?;
            tracing::info!(endpoint = listening.endpoint, transport = transport.name(), "listening");
            Ok(listening.finished)
        }
        .boxed()
    })
}

fn start_relay(relay: Arc<PluginRelay>, host: Arc<dyn Host>, shutdown: &(dyn Fn() -> Shutdown + Send + Sync)) -> Start {
    let ends = shutdown().shared();
    Arc::new(move || {
        let (relay, host, ends) = (relay.clone(), host.clone(), ends.clone());
        async move {
            tracing::info!(relay = relay.name(), "relaying");
            Ok(async move { relay.run(host, ends.boxed()).await }.boxed())
        }
        .boxed()
    })
}

/// Starts something, and starts it again whenever it ends before the shutdown.
async fn keep(name: String, start: Start, mut shutdown: Shutdown, running: &mut JoinSet<Result<()>>) -> Result<()> {
    let mut current = start().await?;
    running.spawn(async move {
        let mut wait = AGAIN;
        loop {
            let began = tokio::time::Instant::now();
            match current.await {
                Ok(()) => return Ok(()),
                Err(error) => tracing::error!(plugin = name, %error, "a plugin ended; it is started again"),
            }
            if began.elapsed() >= LONGEST {
                wait = AGAIN;
            }
            current = loop {
                match select(sleep(wait).boxed(), &mut shutdown).await {
                    Either::Left(_) => {}
                    Either::Right(_) => return Ok(()),
                }
                wait = (2 * wait).min(LONGEST);
                match start().await {
                    Ok(again) => break again,
                    Err(error) => tracing::error!(plugin = name, %error, "a plugin cannot be started again"),
                }
            };
        }
    });
    Ok(())
}

/// Tells in the log when a link of a relay comes or goes, and keeps it for who asks.
fn watch_status(relay: Arc<PluginRelay>, projects: Arc<Projects>, running: &mut JoinSet<Result<()>>) {
    let mut statuses = relay.status();
    let name = relay.name().to_string();
    drop(relay);
    running.spawn(async move {
        while let Some(status) = statuses.next().await {
            for link in &status.links {
                let (peer, problem) = (&link.peer, link.problem.as_deref().unwrap_or_default());
                tracing::info!(relay = name, peer, connected = link.connected, problem, "link");
            }
            for served in projects.served() {
                let ours = |link: &&LinkStatus| link.project.as_ref().is_none_or(|id| *id == served.project_id);
                served.relaying.note_links(&name, status.links.iter().filter(ours).cloned().collect());
            }
        }
        Ok(())
    });
}

/// Runs what plugins ask on this daemon's runtime.
struct Runtime(Handle);

impl Spawner for Runtime {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        drop(self.0.spawn(future));
    }

    fn enter(&self, run: &mut dyn FnMut()) {
        let _inside = self.0.enter();
        run();
    }
}

fn spawner() -> Arc<dyn Spawner> {
    Arc::new(Runtime(Handle::current()))
}
