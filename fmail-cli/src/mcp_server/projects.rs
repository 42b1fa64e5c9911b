//! The projects of this machine, as MCP asks for them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use fmail_api::{Client, Context, Error, ErrorKind, HostedProject, Principal, Request, Result};
use fmail_host::{Catalogue, Environment, Project, Route, Settings};
use fmail_mcp::{Backend, Caller, Reply};
use fmail_transports::wire::{self, Form, Style};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::opened::{Opened, in_use};
use crate::connected::{self, Daemon};
use crate::output::{note, reporter};
use crate::session::{Local, Place, Session, host, overrides};

/// Finds projects by their paths, and runs operations in them.
pub(super) struct Projects(Arc<Inner>);

struct Inner {
    catalogue: Catalogue,
    set: Vec<(String, String)>,
    /// The project that the server was started in, whether or not it exists.
    current: Option<PathBuf>,
    open: Mutex<HashMap<PathBuf, Arc<Opened>>>,
}

impl Projects {
    /// The projects that the user's configuration allows, and the one that the server was started in.
    pub(super) fn new(environment: &Environment, set: &[String]) -> Result<Projects> {
        let set = overrides(set)?;
        let settings = Settings::load(environment, None, &set)?;
        let current = current(environment);
        let served: Vec<PathBuf> = current.iter().cloned().collect();
        let catalogue = Catalogue::new(environment, &settings, &served, reporter())?;
        Ok(Projects(Arc::new(Inner { catalogue, set, current, open: Mutex::default() })))
    }
}

/// The root of the project that the current directory means. The root of all files is none: everything would be below it.
fn current(environment: &Environment) -> Option<PathBuf> {
    let found = Project::discover(environment)
        .and_then(|project| fs::canonicalize(&project.root).map_err(|error| Error::io(project.root.display(), &error)));
    match found {
        Ok(root) => Some(root).filter(|root| root.parent().is_some()),
        Err(error) => {
            note(&format!("the current directory is no project that can be used: {error}"));
            None
        }
    }
}

#[async_trait]
impl Backend for Projects {
    async fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        let (inner, path) = (self.0.clone(), path.to_path_buf());
        aside(move || inner.catalogue.find(&path, create)).await
    }

    async fn hosted(&self) -> Result<Vec<HostedProject>> {
        let inner = self.0.clone();
        aside(move || {
            if let Some(root) = &inner.current {
                // It is remembered by being found. One that does not exist yet is none.
                let _ = inner.catalogue.find(root, false);
            }
            inner.catalogue.hosted()
        })
        .await
    }

    async fn request(&self, caller: &Caller, request: Value) -> Result<Reply> {
        let call = wire::parse(request.to_string().as_bytes()).call?;
        let context = Context {
            host: host(),
            principal: caller.principal.clone().unwrap_or(Principal::Local),
            session: caller.session.clone(),
            deadline: caller.deadline.and_then(|wait| Instant::now().checked_add(wait)),
            overview: caller.overview,
            ..Context::local(call.agent)
        };
        let (inner, root) = (self.0.clone(), caller.root.clone());
        let asked = Asked { context, request: call.request };
        if asked.watches_for_one() {
            let watching = aside(move || inner.watching(&root, asked.context)).await?;
            let reply = connected::watch(&watching.0, &watching.1, asked.request, caller.deadline).await?;
            return spoken(reply, call.form);
        }
        spoken(aside(move || inner.run(&root, &asked)).await?, call.form)
    }
}

/// An operation, and on whose behalf it runs.
struct Asked {
    context: Context,
    request: Request,
}

impl Asked {
    /// Whether an agent waits for what is its own to see. Such a watch goes through the daemon when there is one, as that
    /// of `fmail watch` does: it is told of nudges, and goes on when the daemon is gone.
    fn watches_for_one(&self) -> bool {
        matches!(self.request, Request::Watch(_)) && !self.context.overview
    }

    /// Whether its answer would lack something without what is in everybody's mailboxes, and not say so. A message that is
    /// named is found or refused.
    fn sees_all(&self) -> bool {
        let reads = matches!(
            self.request,
            Request::Watch(_)
                | Request::Relay(_)
                | Request::Log(_)
                | Request::Inbox(_)
                | Request::Thread(_)
                | Request::Receipt(_)
                | Request::Search(_)
        );
        self.context.overview && reads
    }
}

impl Inner {
    /// The project with this root as it stands now: its configuration may have changed.
    fn place(&self, root: &Path) -> Result<Place> {
        let project = self.catalogue.project(root)?;
        let environment = self.catalogue.environment().clone();
        let settings = Settings::load(&environment, Some(&project), &self.set)?;
        Ok(Place { environment, project, settings })
    }

    /// Runs an operation where the project's store is to be reached.
    fn run(&self, root: &Path, asked: &Asked) -> Result<fmail_api::Reply> {
        let place = self.place(root)?;
        let call = |client: &dyn Client| block_on(client.call(&asked.context, asked.request.clone()));
        match place.settings.route() {
            Route::Daemon if asked.sees_all() => Err(hidden(&place)),
            Route::Daemon => call(&Daemon::only(&place, &asked.context.agent)),
            Route::DaemonFirst if !asked.sees_all() => match Daemon::answering(&place, &asked.context.agent)? {
                Some(daemon) => call(&daemon),
                None => self.run_here(&place, call),
            },
            Route::DaemonFirst | Route::Direct => self.run_here(&place, call),
        }
    }

    fn run_here<T>(&self, place: &Place, call: impl FnOnce(&dyn Client) -> Result<T>) -> Result<T> {
        let _used = in_use(&place.project)?;
        call(&*self.opened(place)?.operations)
    }

    /// The project's store in this process, opened once.
    fn opened(&self, place: &Place) -> Result<Arc<Opened>> {
        // Held while it is opened: two who ask at the same time must not open it twice.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let root = &place.project.root;
        match open.get(root).filter(|opened| opened.is_current(&place.project, &place.settings)) {
            Some(opened) => Ok(opened.clone()),
            None => {
                let opened = Arc::new(Opened::new(&place.project, &place.settings)?);
                open.insert(root.clone(), opened.clone());
                Ok(opened)
            }
        }
    }

    /// What a watch needs that goes through the daemon when there is one.
    fn watching(&self, root: &Path, context: Context) -> Result<(Place, Session)> {
        let place = self.place(root)?;
        let session = match place.settings.route() {
            Route::Direct => self.session_here(&place, context)?,
            Route::Daemon => {
                let daemon = Arc::new(Daemon::only(&place, &context.agent));
                Session { operations: daemon, local: Local::Never, context }
            }
            Route::DaemonFirst => match Daemon::answering(&place, &context.agent)? {
                Some(daemon) => {
                    let local = Local::Openable(Arc::new((place.project.clone(), place.settings.clone())));
                    Session { operations: Arc::new(daemon), local, context }
                }
                None => self.session_here(&place, context)?,
            },
        };
        Ok((place, session))
    }

    fn session_here(&self, place: &Place, context: Context) -> Result<Session> {
        let operations = self.opened(place)?.operations.clone();
        Ok(Session { operations: operations.clone(), local: Local::Open(operations), context })
    }
}

/// A daemon tells nobody what is in everybody's mailboxes.
fn hidden(place: &Place) -> Error {
    let text = format!(
        "only forged itself sees every mailbox of the store `{}`, which lives in its process",
        place.settings.mail.store
    );
    Error::new(ErrorKind::Unsupported, text)
        .help("connect the agent with forged: `fmail mcp install --http`, and the transport http in mail.transports")
}

/// The answer in the words of the protocol.
fn spoken(reply: fmail_api::Reply, form: Form) -> Result<Reply> {
    let head = value(&wire::answer(&reply.head, form, None, Style::Full))?;
    let events = reply.events.map(|events| {
        let spoken = events.filter_map(|event| async {
            match event {
                Ok(event) => wire::event(&event, None, Style::Full).map(|line| value(&line)),
                Err(error) => Some(Err(error)),
            }
        });
        spoken.boxed()
    });
    Ok(Reply { head, events })
}

fn value(line: &str) -> Result<Value> {
    serde_json::from_str(line).map_err(|error| Error::internal(format!("an answer is not JSON: {error}")))
}

/// Runs what may wait for a disk or a socket where that holds up nobody.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Error::internal("an operation ended unexpectedly; standard error says why")))
}
