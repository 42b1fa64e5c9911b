//! A request under way: which projects it finds, and the operations that it runs in them.

use std::path::Path;
use std::sync::Arc;

use fmail_api::{AgentName, AgentView, Error, ErrorKind, HostedProject, MailState, Message, Standing};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::errors::{Failure, Kind, Result, shown};
use crate::near::{near_projects, quoted};
use crate::{Backend, Caller, Peer, ids};

/// A client's request, while it is answered.
#[derive(Clone)]
pub(crate) struct Visit {
    /// What is asked.
    pub(crate) backend: Arc<dyn Backend>,
    /// Who asks.
    pub(crate) peer: Peer,
}

impl Visit {
    /// The project that a client names: by its absolute path, or by its slug.
    pub(crate) async fn project(&self, key: &str) -> Result<Project> {
        if !is_absolute(key) {
            return self.project_by_slug(key).await;
        }
        match self.backend.find(Path::new(key), false).await {
            Ok(hosted) => Ok(self.at(hosted)),
            Err(error) if error.kind() == ErrorKind::InvalidProject => Err(self.not_found(key, &error).await),
            Err(error) => Err(error.into()),
        }
    }

    /// The same; a path whose project does not exist gets one.
    pub(crate) async fn ensured_project(&self, key: &str) -> Result<Project> {
        if !is_absolute(key) {
            return Err(Failure::new(
                Kind::InvalidProjectKey,
                format!(
                    "Invalid project_key: human_key must be an absolute directory path, got: '{}'. Use the agent's working \
                     directory, for example '/data/projects/backend'.",
                    shown(key)
                ),
            ));
        }
        let hosted = self.backend.find(Path::new(key), true).await?;
        let note = note(key, &hosted);
        Ok(Project { note, ..self.at(hosted) })
    }

    fn at(&self, hosted: HostedProject) -> Project {
        Project { hosted, note: None, visit: self.clone() }
    }

    /// The only project there is, for a client that names none.
    pub(crate) async fn only_project(&self, what: &str) -> Result<Project> {
        let mut hosted = self.backend.hosted().await?;
        match (hosted.pop(), hosted.len()) {
            (Some(hosted), 0) => Ok(self.at(hosted)),
            (_, others) => Err(Failure::argument(format!(
                "project parameter is required for {what}: {} projects are known here. Add \
                 ?project=<the URL-encoded absolute path>.",
                if others == 0 { 0 } else { others + 1 }
            ))),
        }
    }

    async fn project_by_slug(&self, slug: &str) -> Result<Project> {
        let hosted = self.backend.hosted().await?;
        if let Some(found) = hosted.iter().find(|project| project.slug == slug) {
            return Ok(self.at(found.clone()));
        }
        let alike: Vec<&str> = near_projects(slug, &hosted).iter().map(|project| &*project.slug).collect();
        let hint = match alike.is_empty() {
            true => String::new(),
            false => format!(" Did you mean: {}?", quoted(alike.iter().copied())),
        };
        Err(Failure::new(
            Kind::InvalidProjectKey,
            format!(
                "Invalid project_key: '{}' is neither an absolute path nor the slug of a known project; Project '{}' not \
                 found.{hint} Use the absolute path that ensure_project was given.",
                shown(slug),
                shown(slug)
            ),
        )
        .with("suggestions", json!(alike)))
    }

    async fn not_found(&self, key: &str, error: &Error) -> Failure {
        // Only to help: that it cannot be listed what there is does not change that this is not there.
        let hosted = self.backend.hosted().await.unwrap_or_default();
        let alike: Vec<&str> = near_projects(key, &hosted).iter().map(|project| &*project.key).collect();
        let hint = match alike.is_empty() {
            true => " and no similar project is known.".into(),
            false => format!(". Did you mean: {}?", quoted(alike.iter().copied())),
        };
        // Mostly it says the same once more.
        let more = match error.message().starts_with("there is no project for ") {
            true => String::new(),
            false => format!(" ({error})"),
        };
        Failure::new(
            Kind::ProjectNotFound,
            format!(
                "Project '{}' not found{hint}{more} Use ensure_project to create it first, for example \
                 ensure_project(human_key='{}').",
                shown(key),
                shown(key)
            ),
        )
        .with("suggestions", json!(alike))
    }
}

fn is_absolute(key: &str) -> bool {
    key.starts_with('/') && !key.contains('\0')
}

/// That a project is that of another directory than the one that was asked for, or lies elsewhere: what is done there would
/// be looked for in vain where the path leads.
fn note(asked: &str, hosted: &HostedProject) -> Option<String> {
    let mut notes = Vec::new();
    let key = Path::new(&hosted.key);
    // Slashes and dots that make no difference are none to talk about.
    if Path::new(asked).components().ne(key.components()) {
        notes.push(format!("'{}' belongs to the project '{}', and this is that project.", shown(asked), hosted.key));
    }
    if hosted.root != key {
        notes.push(format!(
            "'{}' is no directory below an allowed root of this server, so it is only a name here: its mail is kept in {}. \
             The `fmail` command line, started in that directory, uses another project; a directory above it in \
             mail.projects.roots, in the configuration of the user who runs this server, makes the two one.",
            hosted.key,
            hosted.root.display()
        ));
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// A project that a client has named.
#[derive(Clone)]
pub(crate) struct Project {
    /// The project.
    pub(crate) hosted: HostedProject,
    /// What who asked for it by its path has to know: that it is not simply the directory of that path.
    pub(crate) note: Option<String>,
    visit: Visit,
}

impl Project {
    /// Its number.
    pub(crate) fn id(&self) -> u64 {
        ids::project(&self.hosted.key)
    }

    /// The number of one of its agents.
    pub(crate) fn agent_id(&self, name: &AgentName) -> u64 {
        ids::agent(&self.hosted.key, name)
    }

    /// What an agent does.
    pub(crate) fn desk(&self, agent: &AgentName) -> Desk<'_> {
        Desk { project: self, agent: agent.to_string(), overview: false }
    }

    /// What is done for all agents, by none of them.
    pub(crate) fn overview(&self) -> Desk<'_> {
        Desk { project: self, agent: NOBODY.into(), overview: true }
    }

    /// Those of these agents that are known; everybody for no names.
    pub(crate) async fn known(&self, names: &[&AgentName]) -> Result<Vec<AgentView>> {
        let mut answer = self.overview().run("who", json!({"names": names})).await?;
        taken(&mut answer, "agents")
    }
}

/// The name under which the server asks for itself. It only looks, so that nobody of this name is ever seen.
const NOBODY: &str = "mcp";

/// From where operations are run: a project, and in whose name.
pub(crate) struct Desk<'a> {
    project: &'a Project,
    agent: String,
    overview: bool,
}

/// A message with what the asking agent has done with it.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    /// The message.
    pub(crate) message: Message,
    /// The agent's own state of it.
    pub(crate) state: MailState,
    /// What that amounts to; nothing for a message that is not in the agent's mailbox.
    pub(crate) standing: Option<Standing>,
}

impl Desk<'_> {
    /// The same, and it may see every mailbox.
    #[must_use]
    pub(crate) fn seeing_all(self) -> Self {
        Desk { overview: true, ..self }
    }

    /// Runs an operation that is answered at once.
    pub(crate) async fn run(&self, command: &str, fields: Value) -> Result<Map<String, Value>, Error> {
        self.answer(command, fields).await.map(|(head, _)| head)
    }

    /// Runs an operation that delivers messages; the answer, and the messages one by one.
    pub(crate) async fn mail(
        &self,
        command: &str,
        fields: Value,
    ) -> Result<(Map<String, Value>, impl Stream<Item = Result<Letter, Error>> + Send + use<>), Error> {
        let (head, events) = self.answer(command, fields).await?;
        let letters = events.filter_map(|event| async move {
            match event {
                Ok(mut event) if event.get("msg").is_some() => Some(letter(&mut event)),
                // What a stream tells besides is told to those who watch the store.
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            }
        });
        Ok((head, letters.boxed()))
    }

    /// The same, all messages at once.
    pub(crate) async fn letters(&self, command: &str, fields: Value) -> Result<Vec<Letter>, Error> {
        self.mail(command, fields).await?.1.try_collect().await
    }

    /// Runs an operation: its answer, and what follows.
    pub(crate) async fn answer(
        &self,
        command: &str,
        fields: Value,
    ) -> Result<(Map<String, Value>, BoxStream<'static, Result<Value, Error>>), Error> {
        let mut request = Map::from_iter([("cmd".into(), command.into()), ("agent".into(), self.agent.clone().into())]);
        if let Value::Object(fields) = fields {
            request.extend(fields);
        }
        let visit = &self.project.visit;
        let caller = Caller {
            root: self.project.hosted.root.clone(),
            principal: visit.peer.principal.clone(),
            session: visit.peer.session.clone(),
            // A watch lasts for as long as somebody listens, whatever a single request may take.
            deadline: visit.peer.deadline.filter(|_| command != "watch"),
            overview: self.overview,
        };
        let reply = visit.backend.request(&caller, Value::Object(request)).await?;
        let events = reply.events.unwrap_or_else(|| futures::stream::empty().boxed());
        Ok((heard(reply.head)?, events))
    }
}

/// The answer, unless it refuses. A message that is stored but perhaps not durable is an answer with `not_durable`.
fn heard(head: Value) -> Result<Map<String, Value>, Error> {
    let Value::Object(mut head) = head else {
        return Err(Error::internal("the answer of an operation is no object"));
    };
    if head.get("ok") != Some(&Value::Bool(false)) {
        return Ok(head);
    }
    let error: Error = field(&mut head, "error")?;
    match error.kind() {
        ErrorKind::DurabilityUnknown if head.contains_key("id") => {
            head.insert("not_durable".into(), error.message().into());
            Ok(head)
        }
        _ => Err(error),
    }
}

/// The message of an event.
pub(crate) fn letter(event: &mut Value) -> Result<Letter, Error> {
    let message = Message::from_value(event["msg"].take(), None, None)?;
    let mut mail = event.get_mut("mail").map(Value::take).unwrap_or_default();
    let standing = mail.get_mut("standing").map(Value::take);
    if let Value::Object(fields) = &mut mail {
        fields.remove("standing");
    }
    let unusable =
        |error: serde_json::Error| Error::internal(format!("what was done with a message is not told: {error}"));
    let state = if mail.is_null() { MailState::default() } else { serde_json::from_value(mail).map_err(unusable)? };
    let standing = standing.map(serde_json::from_value).transpose().map_err(unusable)?;
    Ok(Letter { message, state, standing })
}

/// Whether an answer says that its limit left something out.
pub(crate) fn has_more(answer: &Map<String, Value>) -> bool {
    answer.get("more").is_some_and(|more| *more == Value::Bool(true))
}

/// A field of an answer.
pub(crate) fn taken<T: DeserializeOwned>(answer: &mut Map<String, Value>, name: &str) -> Result<T> {
    field(answer, name).map_err(Failure::from)
}

fn field<T: DeserializeOwned>(answer: &mut Map<String, Value>, name: &str) -> std::result::Result<T, Error> {
    let value = answer.remove(name).unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|error| {
        Error::internal(format!("the answer of an operation has no `{name}` that can be used: {error}"))
    })
}
