//! What a transport or a relay may ask of the program that it runs in.
//!
//! `projects` lists what is served. `find` tells which project an absolute path means. `request` runs one operation: its
//! body is an object of the protocol, as docs/protocol.md has it, and so are the answer and the events. The context says which project is meant, by `project` or
//! `root`, and who asks; a transport has to say truly how its peer proved who it is, and says `overview` only for what it
//! does for all the agents of a project.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_abi::{Answer, Service, Work, status};
use fmail_api::verbs::{self, FindRequest, ProjectsAnswer, ProjectsRequest, encode, method};
use fmail_api::{Context, Error, ErrorKind, Host, Principal, ProjectRef, Result};
use fmail_transports::wire::{self, Style};
use futures::{FutureExt, StreamExt, stream};
use serde::{Deserialize, Serialize};

/// Serves a host's projects to a plugin.
pub struct HostService {
    host: Arc<dyn Host>,
    /// How a plugin that says nothing about its peer proved who it is.
    principal: Principal,
}

impl HostService {
    /// Serves `host`; who a request comes from is `principal` unless its context says otherwise.
    pub fn new(host: Arc<dyn Host>, principal: Principal) -> Self {
        HostService { host, principal }
    }
}

/// What the context of a request says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asking {
    project: Option<String>,
    root: Option<PathBuf>,
    principal: Option<Principal>,
    session: Option<String>,
    deadline_ms: Option<u64>,
    overview: bool,
}

impl Service for HostService {
    fn call(&self, name: &str, context: &[u8], request: &[u8]) -> Work {
        match name {
            method::PROJECTS => match understood_projects(request) {
                Ok(asked) => Work::Answer(projects(self.host.clone(), asked).boxed()),
                Err(error) => refused(&error),
            },
            method::FIND => match verbs::decode("the request for a project", request) {
                Ok(asked) => Work::Answer(find(self.host.clone(), asked).boxed()),
                Err(error) => refused(&error),
            },
            method::REQUEST => match self.understood(context, request) {
                Ok((project, context, call)) => run(self.host.clone(), project, context, call),
                Err(error) => refused(&error),
            },
            other => refused(
                &Error::new(ErrorKind::Unsupported, format!("the host has no method `{}`", other.escape_debug()))
                    .help("it has `projects`, `find` and `request`"),
            ),
        }
    }
}

impl HostService {
    fn understood(&self, context: &[u8], request: &[u8]) -> Result<(Option<ProjectRef>, Context, wire::Call)> {
        let asking: Asking = match context {
            [] => Asking::default(),
            context => serde_json::from_slice(context)
                .map_err(|error| Error::invalid(format!("the context of the request cannot be understood: {error}")))?,
        };
        let call = wire::parse(request).call?;
        let named = asking.project.as_ref().or(call.project.as_ref());
        let project = asking.root.map(ProjectRef::Root).or_else(|| named.cloned().map(ProjectRef::Id));
        let context = Context {
            agent: call.agent.clone(),
            host: call.host.clone(),
            project: asking.project.or_else(|| call.project.clone()),
            principal: asking.principal.unwrap_or_else(|| self.principal.clone()),
            session: asking.session,
            store: call.store.clone(),
            deadline: asking.deadline_ms.map(|wait| Instant::now() + Duration::from_millis(wait)),
            overview: asking.overview,
        };
        Ok((project, context, call))
    }
}

/// Who asks for nothing but the ids may say nothing at all.
fn understood_projects(request: &[u8]) -> Result<ProjectsRequest> {
    match request {
        [] => Ok(ProjectsRequest::default()),
        request => verbs::decode("the request for the projects", request),
    }
}

async fn projects(host: Arc<dyn Host>, asked: ProjectsRequest) -> Answer {
    let answer = async {
        let hosted = if asked.hosted { host.hosted().await? } else { Vec::new() };
        Ok(ProjectsAnswer { projects: host.projects().await?, hosted })
    };
    answered(answer.await)
}

async fn find(host: Arc<dyn Host>, asked: FindRequest) -> Answer {
    answered(host.find(&asked.path, asked.create).await)
}

fn answered(answer: Result<impl Serialize>) -> Answer {
    match answer {
        Ok(answer) => Answer { status: status::OK, body: encode(&answer) },
        Err(error) => failed(&error),
    }
}

/// Runs an operation. One that streams sends its answer as the first item.
fn run(host: Arc<dyn Host>, project: Option<ProjectRef>, context: Context, call: wire::Call) -> Work {
    let (streams, form) = (call.request.streams(), call.form);
    let replying = async move {
        let project = match project {
            Some(project) => project,
            None => the_only_project(&*host).await?,
        };
        host.open(project).await?.call(&context, call.request).await
    };
    let line = |text: String| text.trim_end().as_bytes().to_vec();
    if !streams {
        return Work::Answer(
            replying
                .map(move |reply| match reply {
                    Ok(reply) => {
                        let answer = line(wire::answer(&reply.head, form, None, Style::Full));
                        Answer { status: status::OK, body: answer }
                    }
                    Err(error) => failed(&error),
                })
                .boxed(),
        );
    }
    let items = replying.map(move |reply| match reply {
        Ok(reply) => {
            let head = line(wire::answer(&reply.head, form, None, Style::Full));
            let events = reply.events.unwrap_or_else(|| stream::empty().boxed());
            let events = events.filter_map(move |event| {
                std::future::ready(match event {
                    Ok(event) => wire::event(&event, None, Style::Full).map(|text| Ok(line(text))),
                    Err(error) => Some(Err(failed(&error))),
                })
            });
            stream::iter([Ok(head)]).chain(events).boxed()
        }
        Err(error) => stream::iter([Err(failed(&error))]).boxed(),
    });
    Work::Stream(items.into_stream().flatten().boxed())
}

/// What is meant when no project is named: the one that there is.
async fn the_only_project(host: &dyn Host) -> Result<ProjectRef> {
    match host.projects().await?.as_slice() {
        [only] => Ok(ProjectRef::Id(only.clone())),
        many => Err(Error::invalid(format!(
            "the request does not say which project it is for, and {} are served here",
            many.len()
        ))
        .help("name it in the request, by `project_id`")),
    }
}

fn refused(error: &Error) -> Work {
    let answer = failed(error);
    Work::Answer(std::future::ready(answer).boxed())
}

fn failed(error: &Error) -> Answer {
    Answer { status: error.kind().status(), body: encode(error) }
}
