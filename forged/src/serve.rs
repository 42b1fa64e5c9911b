//! Serving: from the arguments to the last drained connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Error, ErrorKind, Host, Listening, Result, Shutdown, Transport};
use fmail_core::RENEW_AFTER;
use fmail_host::{Catalogue, Environment, Settings};
use fmail_transports::{Callers, Limits, UnixTransport};
use futures::FutureExt;
use futures::executor::block_on;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, interval_at};

use crate::alone::Alone;
use crate::arguments::Serve;
use crate::client::AT_A_TIME;
use crate::found::Found;
use crate::host::Projects;
use crate::notify::notify;
use crate::paired::Paired;
use crate::plugins::Naming;
use crate::project::{self, Opened};
use crate::relay::{self, ThisHost};
use crate::tcp::{self, Tcp};
use crate::{limits, log, plugins};

/// How often to look whether the projects are still where they were.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// Threads for operations: enough that a few projects whose disks hang leave some for the others.
const BLOCKING_THREADS: usize = 16 * AT_A_TIME;

/// Serves until a signal comes.
pub fn serve(environment: &Environment, arguments: &Serve) -> Result<()> {
    log::start(arguments.log);
    limits::bound_heaps();
    limits::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(|error| Error::io("cannot start the daemon's threads", &error))?;
    let served = runtime.block_on(run(environment, arguments));
    // Work that nobody waits for any more, such as reading for a client that was cut, must not hold up the end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

async fn run(environment: &Environment, arguments: &Serve) -> Result<()> {
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let settings = Settings::load(environment, None, &[])?;
    let alone = if arguments.no_project { Some(Alone::new(environment, &settings)?) } else { None };
    let this_host = ThisHost::default();
    let projects = if alone.is_some() { Vec::new() } else { open_all(environment, arguments, &this_host)? };
    let found = found(environment, &settings, &projects);
    let tcp = tcp::listeners(projects.iter().map(|project| &project.tcp), arguments);
    tcp.iter().try_for_each(Tcp::check_address)?;
    let (ending, ended) = watch::channel(false);
    let shutdown = || -> Shutdown {
        let mut ended = ended.clone();
        async move { drop(ended.wait_for(|ending| *ending).await) }.boxed()
    };
    let mut listening = JoinSet::new();
    let paired = Paired::of(environment, projects.iter().map(|project| project.root.clone()).collect());
    let (host, limits) = (host(&projects), limits_of(&projects, arguments.ping_after));
    let callers = &this_host.callers;
    for one in listen_all(&projects, &tcp, (limits, callers), &host, &shutdown).await? {
        tracing::info!(endpoint = one.endpoint, "listening");
        listening.spawn(one.finished);
    }
    let mut pairing = JoinSet::new();
    if let Some(paired) = paired.as_ref().filter(|_| !projects.is_empty()) {
        pairing.spawn(paired.clone().look(shutdown()).map(Ok));
        pairing.spawn(paired.clone().listen(limits, callers.clone(), host.clone(), shutdown()));
    }
    let mut plugins = JoinSet::new();
    let naming = match &alone {
        Some(alone) => Naming::Daemon(&alone.plugins, &alone.directory),
        None => Naming::Projects(&projects),
    };
    plugins::start_all(&naming, &found, &shutdown, &mut plugins).await?;
    relay::start_all(&projects, paired.as_ref(), &shutdown, &mut plugins);
    notify("READY=1");
    // A watch notes its agent when it starts; the first renewal is due a minute later.
    let (mut look, mut renew) = (interval(LOOK_AFTER), interval_at(Instant::now() + RENEW_AFTER, RENEW_AFTER));
    let reason = loop {
        tokio::select! {
            _ = interrupt.recv() => break Ok("interrupted"),
            _ = terminate.recv() => break Ok("told to end"),
            Some(done) = listening.join_next() => break Err(ended_early(done)),
            _ = look.tick() => {
                if let Some(error) = lost(&projects, alone.as_ref()) {
                    break Err(error);
                }
                found.tidy();
            }
            _ = renew.tick() => renew_presence(&projects, &found),
        }
    };
    match &reason {
        Ok(why) => tracing::info!(why, "ending"),
        Err(error) => tracing::error!(%error, "ending"),
    }
    notify("STOPPING=1");
    ending.send_replace(true);
    while let Some(done) = listening.join_next().await {
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "not everything ended in time");
        }
    }
    while pairing.join_next().await.is_some() {}
    while let Some(done) = plugins.join_next().await {
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "a plugin did not end well");
        }
    }
    found.close_all().await;
    let mut unclosed = None;
    for project in &projects {
        if let Err(error) = project.store.close().await {
            tracing::warn!(root = %project.root.display(), %error, "a project was not closed well");
            unclosed.get_or_insert(error);
        }
    }
    tracing::info!("ended");
    reason?;
    unclosed.map_or(Ok(()), Err)
}

/// Opens every project that was asked for. All or none: a daemon that serves half of what it was told to would look like
/// one that works.
fn open_all(environment: &Environment, arguments: &Serve, host: &ThisHost) -> Result<Vec<Opened>> {
    if arguments.roots.is_empty() {
        return Ok(vec![project::open(environment, host)?]);
    }
    let mut projects: Vec<Opened> = Vec::new();
    for root in &arguments.roots {
        let mut own = environment.clone();
        let named = environment.cwd.join(root);
        let text = named.to_str().ok_or_else(|| Error::invalid(format!("{} is not UTF-8", named.display())))?;
        own.vars.insert("FMAIL_ROOT".into(), text.to_string());
        if arguments.roots.len() > 1 {
            // One id cannot be meant for several projects.
            own.vars.remove("FMAIL_PROJECT");
        }
        projects.push(project::open(&own, host)?);
    }
    Ok(projects)
}

/// What clients may name by path beside what the daemon was started for.
fn found(environment: &Environment, settings: &Settings, projects: &[Opened]) -> Arc<Found> {
    let roots: Vec<PathBuf> = projects.iter().map(|project| project.root.clone()).collect();
    let reporter = log::reporter("by path".into());
    let catalogue = Catalogue::new(environment, settings, &roots, reporter);
    let served = projects.iter().map(|project| (project.root.clone(), project.client.clone())).collect();
    Arc::new(Found::new(catalogue, served, settings.mail.projects.open))
}

/// The projects as transports find them.
fn host(projects: &[Opened]) -> Arc<dyn Host> {
    let mut host = Projects::default();
    for project in projects {
        if let Err(error) = host.add(project.root.clone(), project.client.clone()) {
            tracing::warn!("{error}");
        }
        tracing::info!(root = %project.root.display(), project = project.id, "serving");
    }
    Arc::new(host)
}

fn limits_of(projects: &[Opened], ping_after: Duration) -> Limits {
    let largest = projects.iter().map(|project| project.max_message_bytes).max().unwrap_or_default();
    // JSON may spell a character in six bytes that is stored in two or three.
    Limits { line_bytes: 3 * largest + 64 * 1024, ping_after, ..Limits::default() }
}

async fn listen_all(
    projects: &[Opened],
    tcp: &[Tcp],
    (limits, callers): (Limits, &Arc<Callers>),
    host: &Arc<dyn Host>,
    shutdown: &(dyn Fn() -> Shutdown + Sync),
) -> Result<Vec<Listening>> {
    let mut listening = Vec::new();
    for project in projects {
        let transport = UnixTransport::new(&project.root).limited(limits);
        listening.push(transport.serve(host.clone(), shutdown()).await?);
    }
    for one in tcp {
        listening.push(one.listen(limits, callers.clone(), host.clone(), shutdown()).await?);
    }
    Ok(listening)
}

/// Agents with an open watch stay active for those who read the files too.
fn renew_presence(projects: &[Opened], found: &Found) {
    let served = projects.iter().map(|project| (project.client.presence.clone(), project.client.operations.clone()));
    for (presence, operations) in served.chain(found.present()) {
        for context in presence.contexts() {
            let operations = operations.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(error) = block_on(operations.touch(&context)) {
                    tracing::debug!(%error, agent = %context.agent, "the agent's record was not kept up to date");
                }
            });
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|error| Error::io("cannot listen for signals", &error))
}

fn ended_early(done: std::result::Result<Result<()>, tokio::task::JoinError>) -> Error {
    match done {
        Ok(Err(error)) => error,
        _ => Error::internal("a listener ended although nobody told it to"),
    }
}

/// What the daemon was started for and is no more where it was.
fn lost(projects: &[Opened], alone: Option<&Alone>) -> Option<Error> {
    let gone = projects.iter().find(|project| !project.lock.is_in_place());
    let directory = match (gone, alone) {
        (Some(project), _) => project.root.join(".fmail"),
        (None, Some(alone)) if !alone.lock.is_in_place() => alone.directory.clone(),
        _ => return None,
    };
    let text = format!("{} was removed or replaced while it was served", directory.display());
    Some(Error::new(ErrorKind::InvalidProject, text).help("start forged again"))
}
